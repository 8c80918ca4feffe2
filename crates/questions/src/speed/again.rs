//! Measures a sweep's largest steps a second time.

use kiln_question::Error;

use super::multi::{bench_all, create_sets};
use super::run::Run;
use super::set::{Set, Table};
use super::steps;
use kiln_timing::Candidate;

impl Run<'_> {
    /// After a sweep, repeatedly measures the largest steps again, until the largest remaining step
    /// is confirmed. These measurements take longer, and interleave the lengths on both sides of
    /// each step. Without them, a disturbance of a few milliseconds would look like a step.
    pub(super) fn look_again(&mut self, table: &Table, first: usize) -> Result<(), Error> {
        let mut again: Vec<usize> = Vec::new();
        let patient = kiln_measure::Plan {
            deadline: self.effort.deadline,
            ..kiln_measure::Plan::quick(self.plan.seed)
        };
        for _ in 0..24 {
            // Each pair holds the index of a row and the index of that row's candidate.
            let mut pairs: Vec<(usize, usize)> = Vec::new();
            for step in steps::worst(&self.outcome.rows[first..]) {
                let pair = [first + step.row, first + step.neighbour];
                if pair.iter().all(|row| again.contains(row)) {
                    continue;
                }
                for row in pair {
                    let of = &self.outcome.rows[row];
                    let by = |c: &Candidate| {
                        c.name == of.imp && c.provider == of.provider && c.level == of.level
                    };
                    pairs.extend(table.candidates.iter().position(by).map(|c| (row, c)));
                }
            }
            if pairs.is_empty() || self.stopped() || self.late() {
                break;
            }
            let rows = &self.outcome.rows;
            let job = |&(row, c): &(usize, usize)| (rows[row].len, c);
            let jobs: Vec<(usize, usize)> = pairs.iter().map(job).collect();
            let sets = create_sets(table, &jobs).map_err(Error::Failed)?;
            let sets: Vec<&Set> = sets.iter().collect();
            let fraction = self.done as f64 / self.groups as f64;
            let tell = &mut self.progress;
            let timed = bench_all(
                self.plan,
                table,
                &jobs,
                &sets,
                &patient,
                self.stop,
                &mut |_, _| tell(fraction, "the largest steps again"),
            );
            for ((row, c), timed) in pairs.into_iter().zip(timed) {
                match timed {
                    Ok(series) => self.outcome.rows[row].set(&series),
                    Err(why) => {
                        let what = table.work.what(self.outcome.rows[row].len);
                        self.wrong(&what, &table.candidates[c], &why);
                    }
                }
                again.push(row);
            }
        }
        let rows = &self.outcome.rows[first..];
        for step in steps::worst(rows) {
            let (long, short) = (&rows[step.row], &rows[step.neighbour]);
            let work = &table.work;
            let what = format!("{} {}", work.spec.title(work.key_bits), work.op);
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
