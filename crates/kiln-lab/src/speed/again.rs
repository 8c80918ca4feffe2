//! The largest steps of a sweep, measured again.

use kiln_kernel::xts::Key;

use super::bench::{bench, Entry, Reference};
use super::candidate::Candidate;
use super::messages::Messages;
use super::run::{Kind, Run};
use super::steps;
use crate::algorithm::op_name;
use crate::Error;

impl Run<'_> {
    /// After a sweep: measures the worst steps again, both lengths interleaved and longer, until the worst that is
    /// left has been so confirmed. A disturbance of a few milliseconds is no cliff.
    pub fn look_again(
        &mut self,
        kind: &Kind,
        first: usize,
        candidates: &[Candidate],
        key: &Key,
    ) -> Result<(), Error> {
        let mut again: Vec<usize> = Vec::new();
        let patient = kiln_measure::Plan {
            deadline: self.effort.deadline,
            ..kiln_measure::Plan::quick(self.plan.seed)
        };
        for _ in 0..24 {
            let mut lens: Vec<(usize, usize)> = Vec::new();
            for step in steps::worst(&self.outcome.rows[first..]) {
                let pair = [first + step.row, first + step.neighbour];
                if pair.iter().all(|row| again.contains(row)) {
                    continue;
                }
                for row in pair {
                    let of = &self.outcome.rows[row];
                    let by = |c: &Candidate| c.name == of.imp && c.provider == of.provider;
                    lens.extend(candidates.iter().position(by).map(|c| (row, c)));
                }
            }
            if lens.is_empty() || self.stopped() || self.late() {
                break;
            }
            let sets: Vec<Messages> = lens
                .iter()
                .map(|(row, _)| self.messages(kind, self.outcome.rows[*row].len))
                .collect();
            let answers = sets
                .iter()
                .map(|set| Self::reference(key, set))
                .collect::<Result<Vec<_>, _>>()?;
            let entries = lens
                .iter()
                .zip(&sets)
                .map(|((_, c), set)| Entry::new(&candidates[*c], set))
                .collect();
            let fraction = self.done as f64 / self.groups as f64;
            let tell = &mut self.progress;
            let answers: Vec<&Reference> = answers.iter().collect();
            let timed = bench(entries, &answers, &patient, self.stop, &mut |_, _| {
                tell(fraction, "the largest steps again");
            });
            for ((row, c), timed) in lens.into_iter().zip(timed) {
                match timed {
                    Ok(series) => {
                        if let Some(e) = series.estimate() {
                            self.outcome.rows[row].set(&e, self.core_hz);
                        }
                    }
                    Err(why) => {
                        let what = kind.what(self.outcome.rows[row].len);
                        self.wrong(&what, &candidates[c], &why);
                    }
                }
                again.push(row);
            }
        }
        let rows = &self.outcome.rows[first..];
        for step in steps::worst(rows) {
            let (long, short) = (&rows[step.row], &rows[step.neighbour]);
            let what = format!("{} {}", kind.alg.title(kind.key_bits), op_name(kind.op));
            let confirmed = [step.row, step.neighbour]
                .iter()
                .all(|r| again.contains(&(first + r)));
            self.outcome.notes.push(format!(
                "largest step between neighbouring lengths, {what}, {}: {} B takes {:.2} times {} B \
                 ({:.1} and {:.1} cycles{})",
                long.imp,
                long.len,
                step.ratio,
                short.len,
                long.cycles_per_op,
                short.cycles_per_op,
                if confirmed { ", measured twice" } else { "" }
            ));
        }
        Ok(())
    }
}
