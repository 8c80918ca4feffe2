//! Checks candidates, times them in interleaved runs, and then checks them again.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;

use kiln_kernel::Evictor;
use kiln_measure::{measure_counted, measure_single, measure_with, Plan, Series, Subject, Team};

use super::candidate::{Candidate, Judge};
use super::messages::{Messages, Wrong};

/// The results that a judge expects for a set of messages.
pub struct Reference<'a> {
    judge: Rc<Judge<'a>>,
    independent: Messages,
}

impl<'a> Reference<'a> {
    /// Computes the expected results for `messages`. If the messages are chained, their results
    /// depend on the number of calls, so they are computed later.
    pub fn new(judge: Rc<Judge<'a>>, messages: &Messages) -> Result<Reference<'a>, String> {
        let mut independent = messages.afresh();
        let count = independent.count() as u64;
        if !independent.chained {
            (judge.run)(&mut independent, count).map_err(|why| format!("{}: {why}", judge.name))?;
        }
        Ok(Reference { judge, independent })
    }

    /// Checks that `got` contains the results that are expected after `calls` calls.
    fn check(&self, got: &Messages, calls: u64) -> Result<(), String> {
        let compared = if self.independent.chained {
            // The results of chained messages depend on the number of calls, so they are computed
            // here.
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
pub struct Entry<'c, 'a> {
    candidate: &'c Candidate<'a>,
    messages: Messages,
    /// Number of calls whose results can be checked, or the error that ended the last run.
    last: Result<u64, String>,
}

impl<'c, 'a> Entry<'c, 'a> {
    /// Copies the messages, so that each candidate uses separate memory.
    pub fn new(candidate: &'c Candidate<'a>, messages: &Messages) -> Entry<'c, 'a> {
        Entry {
            candidate,
            messages: messages.afresh(),
            last: Ok(0),
        }
    }

    /// Makes `calls` calls. If the messages are chained, only the results of this run can be
    /// checked afterwards. Otherwise, results that remain from an earlier, longer run can be
    /// checked too.
    fn run(&mut self, calls: u64) {
        if let Ok(before) = self.last {
            let checked = match self.messages.chained {
                true => calls,
                false => calls.max(before),
            };
            self.last = (self.candidate.run)(&mut self.messages, calls).map(|()| checked);
        }
    }

    /// Makes one call with cold caches, using the next message, and returns its duration in ticks,
    /// or 0 if it failed.
    fn run_cold(&mut self, evictor: &Evictor) -> u64 {
        let (Ok(before), Some(cold)) = (&self.last, &self.candidate.cold) else {
            return 0;
        };
        let before = *before;
        let index = (before as usize) % self.messages.count();
        match cold(&mut self.messages, index, evictor) {
            Ok(ticks) => {
                self.last = Ok(before + 1);
                ticks
            }
            Err(why) => {
                self.last = Err(why);
                0
            }
        }
    }

    fn check(&self, references: &[&Reference]) -> Result<(), String> {
        let calls = self.last.clone()?;
        references
            .iter()
            .try_for_each(|r| r.check(&self.messages, calls))
    }
}

/// Checks, without timing, whether a candidate computes the expected results for all messages.
pub fn check(
    candidate: &Candidate,
    messages: &Messages,
    references: &[Reference],
) -> Result<(), String> {
    let mut entry = Entry::new(candidate, messages);
    entry.run(messages.count() as u64);
    entry.check(&references.iter().collect::<Vec<_>>())
}

/// The result for one candidate: a series of times, or a description of the fault.
pub type Timed = Result<Series, String>;

/// One element per entry, in order: the entry's fault, or `None` if the entry is correct.
pub(crate) type Faults = Vec<Option<String>>;

/// Runs each entry on all of its messages and checks the results. Then clears the results, so that
/// the check after timing cannot accept results of this run.
pub fn check_before(entries: &mut [Entry], references: &[Vec<&Reference>]) -> Faults {
    let check = |(entry, references): (&mut Entry, &Vec<&Reference>)| {
        entry.run(entry.messages.count() as u64);
        let before = entry.check(references);
        entry.messages.wipe();
        if before.is_ok() {
            entry.last = Ok(0);
        }
        before.err()
    };
    entries.iter_mut().zip(references).map(check).collect()
}

/// Creates one subject per entry, in the order of the entries.
pub fn subjects<'e>(entries: &'e mut [Entry]) -> Vec<Subject<'e>> {
    let subject = |entry: &'e mut Entry| {
        let name = entry.candidate.name.to_string();
        // A function that processes several messages at once would be slower on the few messages
        // left over at the end, so time only whole passes over the messages.
        let step = match entry.candidate.together {
            true => entry.messages.count() as u64,
            false => 1,
        };
        Subject::new(name, |calls| entry.run(calls)).in_steps_of(step)
    };
    entries.iter_mut().map(subject).collect()
}

/// Checks the results of the timed calls of all entries that had no fault before, and records any
/// new faults.
pub fn check_after(entries: &[Entry], references: &[Vec<&Reference>], faults: &mut Faults) {
    for ((entry, references), fault) in entries.iter().zip(references).zip(faults) {
        if fault.is_none() {
            *fault = entry.check(references).err();
        }
    }
}

/// Checks each entry on all its messages, times the correct entries in interleaved runs, and then
/// checks the results of the timed calls. The results of `entries[i]` must agree with every
/// reference in `references[i]`. If there is a `crew`, its threads run the same entries at the same
/// time, and an entry that is wrong in any thread has no result.
pub fn bench(
    mut entries: Vec<Entry>,
    references: &[Vec<&Reference>],
    crew: Option<&Crew>,
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<Timed> {
    // Become the leader before the first check, so that a panic in this thread also ends the crew's
    // threads.
    let mut lead = crew.map(|crew| crew.team.lead());
    let mut faults = check_before(&mut entries, references);
    if let Some(crew) = crew {
        crew.hear(&mut faults);
    }
    let is_right: Vec<bool> = faults.iter().map(Option::is_none).collect();
    let all = subjects(&mut entries).into_iter().enumerate();
    let (numbers, mut subjects): (Vec<usize>, Vec<Subject>) =
        all.filter(|(i, _)| is_right[*i]).unzip();
    let series = match &mut lead {
        None => measure_counted(&mut subjects, plan, stop, progress),
        Some(lead) => {
            lead.take_subjects(numbers);
            measure_with(lead, &mut subjects, plan, stop, progress)
        }
    };
    drop((subjects, lead));

    check_after(&entries, references, &mut faults);
    if let Some(crew) = crew {
        crew.hear(&mut faults);
    }
    let mut series = series.into_iter();
    let outcome = faults.into_iter().zip(is_right).map(|(fault, timed)| {
        let series = timed.then(|| series.next()).flatten();
        match fault {
            Some(fault) => Err(fault),
            None => series.ok_or_else(|| "not timed".to_string()),
        }
    });
    outcome.collect()
}

/// Like [`bench`], but times single calls with cold caches, which every candidate must support.
pub fn bench_cold(
    mut entries: Vec<Entry>,
    references: &[Vec<&Reference>],
    evictor: &Evictor,
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<Timed> {
    let mut faults = check_before(&mut entries, references);
    let ticks = Cell::new(0);
    let mut subjects: Vec<Subject> = Vec::new();
    for entry in &mut entries {
        let (name, ticks) = (entry.candidate.name.to_string(), &ticks);
        subjects.push(Subject::new(name, move |_| {
            ticks.set(entry.run_cold(evictor))
        }));
    }
    let series = measure_single(&ticks, &mut subjects, plan, stop, progress);
    drop(subjects);
    check_after(&entries, references, &mut faults);
    let all = series.into_iter().zip(faults);
    all.map(|(series, fault)| fault.map_or(Ok(series), Err))
        .collect()
}

/// The threads of a team, except the leader. Each thread has its own entries, and reports their
/// faults twice: before and after timing.
pub struct Crew<'t> {
    pub team: &'t Team,
    pub reports: Vec<Receiver<Faults>>,
}

impl Crew<'_> {
    /// Waits for a report from each thread, and records the first fault of each entry.
    fn hear(&self, faults: &mut Faults) {
        for (i, report) in self.reports.iter().enumerate() {
            let heard = report
                .recv()
                .unwrap_or_else(|_| vec![Some("its thread ended".to_string()); faults.len()]);
            for (fault, heard) in faults.iter_mut().zip(heard) {
                let told = heard.map(|why| format!("in thread {}: {why}", i + 2));
                *fault = fault.take().or(told);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::own::run_impl;
    use super::super::shape::{Op, Shape};
    use super::super::KILN;
    use super::*;
    use kiln_kernel::cipher::{Context, Impl};
    use kiln_measure::SplitMix64;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    fn plan() -> Plan {
        Plan {
            rounds: 2,
            samples: 1,
            sample_us: 5.0,
            seed: 1,
            deadline: None,
        }
    }

    /// Creates two entries, one for the generic implementation and one for a copy whose results
    /// `spoil` modifies, and passes the entries to `then`, together with their references.
    fn with_entries<T>(
        chained: bool,
        spoil: impl Fn(&mut Messages),
        then: impl FnOnce(Vec<Entry>, &[Vec<&Reference>]) -> T,
    ) -> T {
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
        then(entries, &[vec![&reference], vec![&reference]])
    }

    /// Benchmarks the entries of [`with_entries`].
    fn outcome(chained: bool, spoil: impl Fn(&mut Messages)) -> Vec<Timed> {
        with_entries(chained, spoil, |entries, references| {
            let stop = AtomicBool::new(false);
            bench(entries, references, None, &plan(), &stop, &mut |_, _| {})
        })
    }

    /// Benchmarks the entries in two threads. Only the second thread's results are modified.
    fn outcome_of_two(spoil: impl Fn(&mut Messages) + Send) -> Vec<Timed> {
        let team = Team::new(2);
        let (report, reports) = channel();
        thread::scope(|scope| {
            let team = &team;
            scope.spawn(move || {
                with_entries(false, spoil, |mut entries, references| {
                    let mut faults = check_before(&mut entries, references);
                    report.send(faults.clone()).unwrap();
                    team.follow(1, &mut subjects(&mut entries));
                    check_after(&entries, references, &mut faults);
                    report.send(faults).unwrap();
                });
            });
            let crew = Crew {
                team,
                reports: vec![reports],
            };
            with_entries(
                false,
                |_| (),
                |entries, references| {
                    let stop = AtomicBool::new(false);
                    bench(
                        entries,
                        references,
                        Some(&crew),
                        &plan(),
                        &stop,
                        &mut |_, _| {},
                    )
                },
            )
        })
    }

    #[test]
    fn a_candidate_must_be_right_in_each_thread() {
        let timed = outcome_of_two(|_| ());
        assert!(timed.iter().all(Result::is_ok), "{timed:?}");
        let flip = |m: &mut Messages| m.parts().2[7] ^= 4;
        let timed = outcome_of_two(flip);
        assert!(timed[0].is_ok());
        let why = timed[1].as_ref().unwrap_err();
        assert!(why.starts_with("in thread 2: message 0 "), "{why}");
        // Only the first run, which is not timed, returns correct results.
        let runs = AtomicU64::new(0);
        let timed = outcome_of_two(|m| {
            if runs.fetch_add(1, Ordering::Relaxed) > 0 {
                flip(m);
            }
        });
        assert!(timed[0].is_ok());
        let why = timed[1].as_ref().unwrap_err();
        assert!(why.starts_with("in thread 2: message 0 "), "{why}");
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
