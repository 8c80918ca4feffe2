//! Checks candidates, times them in interleaved runs, and checks them again.

use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use kiln_measure::{measure_counted, Plan, Series, Subject};

use super::candidate::{Candidate, Judge};
use super::messages::{Messages, Wrong};

/// The results that a judge expects for a set of messages.
pub(crate) struct Reference<'a> {
    judge: Rc<Judge<'a>>,
    independent: Messages,
}

impl<'a> Reference<'a> {
    /// Computes the expected results of `messages`, unless they are chained.
    pub(crate) fn new(judge: Rc<Judge<'a>>, messages: &Messages) -> Result<Reference<'a>, String> {
        let mut independent = messages.afresh();
        let count = independent.count() as u64;
        if !independent.chained {
            (judge.run)(&mut independent, count).map_err(|why| format!("{}: {why}", judge.name))?;
        }
        Ok(Reference { judge, independent })
    }

    /// Checks that `got` contains the expected results after `calls` calls.
    fn check(&self, got: &Messages, calls: u64) -> Result<(), String> {
        let compared = if self.independent.chained {
            // The results of chained messages depend on the number of calls, so compute them here.
            let mut right = self.independent.afresh();
            (self.judge.run)(&mut right, calls)?;
            got.compare(&right, calls)
        } else {
            got.compare(&self.independent, calls)
        };
        compared.map_err(|Wrong { message, byte }| {
            let driver = &self.judge.name;
            let end = got.shape.dst();
            if byte < end {
                format!("message {message} differs from {driver}'s at byte {byte}")
            } else {
                format!(
                    "message {message}: wrote {} bytes beyond the end",
                    byte - end + 1
                )
            }
        })
    }
}

/// A candidate with a separate copy of the messages.
pub(crate) struct Entry<'c, 'a> {
    candidate: &'c Candidate<'a>,
    messages: Messages,
    /// Number of calls in the last run, or the error that ended that run.
    last: Result<u64, String>,
}

impl<'c, 'a> Entry<'c, 'a> {
    /// Copies the messages for one candidate, so that candidates do not share memory.
    pub(crate) fn new(candidate: &'c Candidate<'a>, messages: &Messages) -> Entry<'c, 'a> {
        Entry {
            candidate,
            messages: messages.afresh(),
            last: Ok(0),
        }
    }

    fn run(&mut self, calls: u64) {
        if self.last.is_ok() {
            self.last = (self.candidate.run)(&mut self.messages, calls).map(|()| calls);
        }
    }

    fn check(&self, references: &[&Reference]) -> Result<(), String> {
        let calls = self.last.clone()?;
        references
            .iter()
            .try_for_each(|r| r.check(&self.messages, calls))
    }
}

/// Checks whether a candidate computes the expected results for all messages, without timing it.
pub(crate) fn check(
    candidate: &Candidate,
    messages: &Messages,
    references: &[Reference],
) -> Result<(), String> {
    let mut entry = Entry::new(candidate, messages);
    entry.run(messages.count() as u64);
    entry.check(&references.iter().collect::<Vec<_>>())
}

/// The result for one candidate: a series of times, or a description of what is wrong.
pub(super) type Timed = Result<Series, String>;

/// Checks each entry on all its messages, times the correct entries in interleaved runs, and then
/// checks the results of the timed calls. The results of `entries[i]` must agree with every
/// reference in `references[i]`.
pub(crate) fn bench(
    mut entries: Vec<Entry>,
    references: &[Vec<&Reference>],
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<Timed> {
    let mut outcome: Vec<Option<Timed>> = Vec::new();
    for (entry, reference) in entries.iter_mut().zip(references) {
        let count = entry.messages.count() as u64;
        entry.run(count);
        let before = entry.check(reference);
        // Clear old results, so that the check after timing sees only what the timed calls wrote.
        entry.messages.wipe();
        outcome.push(before.err().map(Err));
    }

    let mut right: Vec<usize> = Vec::new();
    let mut subjects: Vec<Subject> = Vec::new();
    for (i, entry) in entries.iter_mut().enumerate() {
        if outcome[i].is_none() {
            right.push(i);
            let name = entry.candidate.name.to_string();
            entry.last = Ok(0);
            subjects.push(Subject::new(name, |calls| entry.run(calls)));
        }
    }
    let series = measure_counted(&mut subjects, plan, stop, progress);
    drop(subjects);

    for (i, series) in right.into_iter().zip(series) {
        let after = entries[i].check(&references[i]);
        outcome[i] = Some(after.map(|()| series));
    }
    outcome
        .into_iter()
        .map(|timed| timed.unwrap_or_else(|| Err("not timed".to_string())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::own::run_impl;
    use super::super::shape::{Op, Shape};
    use super::super::KILN;
    use super::*;
    use kiln_kernel::cipher::{Context, Impl};
    use kiln_measure::SplitMix64;
    use std::cell::Cell;

    fn plan() -> Plan {
        Plan {
            rounds: 2,
            samples: 1,
            sample_us: 5.0,
            seed: 1,
            deadline: None,
        }
    }

    /// Benchmarks the generic implementation and a copy of it. The copy's results are modified by
    /// `spoil`.
    fn outcome(chained: bool, spoil: impl Fn(&mut Messages)) -> Vec<Timed> {
        let imp = Impl::find_all("xts(aes)")[0];
        let key = Rc::new(Context::new(imp, &(0..64).collect::<Vec<u8>>()).unwrap());
        let generic = || run_impl(imp, key.clone(), Op::Encrypt, false);
        let shape = Shape::skcipher(Op::Encrypt, 33, 16);
        let messages = Messages::random(shape, chained, &mut SplitMix64(5));
        let judge = Judge {
            name: "generic".into(),
            run: generic(),
        };
        let reference = Reference::new(Rc::new(judge), &messages).unwrap();
        let good = Candidate::primitive("good", KILN, None, generic());
        let run = generic();
        let bad = Candidate::primitive(
            "spoilt",
            KILN,
            None,
            Box::new(|m, calls| {
                run(m, calls)?;
                spoil(m);
                Ok(())
            }),
        );
        let entries = vec![Entry::new(&good, &messages), Entry::new(&bad, &messages)];
        let stop = AtomicBool::new(false);
        bench(
            entries,
            &[vec![&reference], vec![&reference]],
            &plan(),
            &stop,
            &mut |_, _| {},
        )
    }

    #[test]
    fn right_ones_are_timed() {
        for chained in [false, true] {
            for timed in outcome(chained, |_| ()) {
                assert!(timed.unwrap().iters > 0);
            }
        }
    }

    /// Control: a candidate with one wrong bit in one message has no result.
    #[test]
    fn one_flipped_bit_is_caught_before_timing() {
        let timed = outcome(false, |m| {
            let at = 200 * m.dst_stride + 7;
            m.parts().2[at] ^= 4;
        });
        assert!(timed[0].is_ok());
        let why = timed[1].as_ref().unwrap_err();
        assert!(
            why.contains("message 200") && why.contains("byte 7"),
            "{why}"
        );
    }

    #[test]
    fn a_bit_flipped_only_while_timed_is_caught_after() {
        for chained in [false, true] {
            let calls = Cell::new(0);
            let timed = outcome(chained, |m| {
                calls.set(calls.get() + 1);
                if calls.get() > 1 {
                    m.parts().2[7] ^= 4;
                }
            });
            assert!(calls.get() > 2, "it was timed");
            let why = timed[1].as_ref().unwrap_err();
            assert!(why.contains("message 0"), "{why}");
        }
    }

    #[test]
    fn a_byte_beyond_the_end_is_caught() {
        let timed = outcome(false, |m| {
            let at = 3 * m.dst_stride + m.shape.len;
            m.parts().2[at] = 0;
        });
        let why = timed[1].as_ref().unwrap_err();
        assert!(why.contains("beyond the end"), "{why}");
    }

    #[test]
    fn one_that_does_nothing_is_caught() {
        let timed = outcome(false, |m| m.wipe());
        assert!(timed[1].is_err());
    }
}
