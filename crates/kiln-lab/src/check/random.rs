//! Many random cases on many threads, with the same result for any number of threads.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;

use kiln_kernel::xts::{Impl, Key};

use super::bench::{Bench, Replay};
use super::case::Case;
use super::subject::{Subject, ALG};

/// Cases a thread takes at a time.
const CHUNK: u64 = 64;

/// Failures told of for each subject; the rest are only counted.
const TOLD: usize = 5;

/// A case that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was wrong, and with which case.
    pub what: String,
    /// The command that repeats it.
    pub replay: String,
}

/// How a subject did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases done.
    pub cases: u64,
    /// Of these, wrong.
    pub failed: u64,
    /// The first few of them, by number.
    pub failures: Vec<Failure>,
}

/// Where the right result comes from: the table-based implementation, and the bit-sliced one for a second
/// opinion, unless that is among those that are checked anyway.
struct Reference {
    generic: Impl,
    second: Option<Impl>,
}

impl Reference {
    fn new(subjects: &[Subject<'_>]) -> Reference {
        let find = |name| Impl::find(name).expect("kernel/ lists both scalar implementations");
        let fixed_time = find("xts-aes-fixed-time");
        let checked = subjects.iter().any(|s| s.name == fixed_time.driver());
        Reference {
            generic: find("xts-aes-generic"),
            second: (!checked).then_some(fixed_time),
        }
    }

    /// The right result of `case`, into `want`; an error if the two disagree about it.
    fn solve(&self, key: &Key, case: &Case, want: &mut Vec<u8>) -> Result<(), String> {
        let with = |imp: Impl, out: &mut [u8]| {
            imp.crypt(case.op, key, &case.iv, &case.data, out)
                .map_err(|e| format!("{}: {e}", imp.driver()))
        };
        want.clear();
        want.resize(case.data.len(), 0);
        with(self.generic, want)?;
        if let Some(imp) = self.second {
            let mut second = vec![0; case.data.len()];
            with(imp, &mut second)?;
            if *want != second {
                return Err(format!(
                    "{} and {} disagree",
                    self.generic.driver(),
                    imp.driver()
                ));
            }
        }
        Ok(())
    }
}

/// The command that repeats a case of `subject`, but for ` --case N`.
pub fn replay_prefix(subject: &str, seed: u64) -> String {
    format!("kiln test '{ALG}' --impl {subject} --seed {seed}")
}

/// Check the cases `cases` of `seed` on each of `subjects`, on `threads` threads, until done or `stop`. Calls
/// `progress` with the number of cases just done.
pub fn run(
    subjects: &[Subject<'_>],
    seed: u64,
    cases: Range<u64>,
    threads: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(u64) + Sync),
) -> io::Result<Vec<Tally>> {
    let next = AtomicU64::new(cases.start);
    let total = Mutex::new(vec![Found::default(); subjects.len()]);
    let work = || -> io::Result<()> {
        let mut thread = Worker::new(subjects, seed)?;
        while !stop.load(Ordering::Relaxed) {
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            if start >= cases.end {
                break;
            }
            let end = cases.end.min(start + CHUNK);
            (start..end).for_each(|n| thread.case(n));
            progress(end - start);
        }
        let mut total = total.lock().unwrap_or_else(|e| e.into_inner());
        for (sum, part) in total.iter_mut().zip(thread.found) {
            sum.add(part);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        spawned.into_iter().try_for_each(|t| {
            t.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    let total = total.into_inner().unwrap_or_else(|e| e.into_inner());
    Ok(subjects
        .iter()
        .zip(total)
        .map(|(subject, found)| found.tally(&subject.name, seed))
        .collect())
}

/// What a thread found of one subject: by case number, so that the merge does not depend on who did what.
#[derive(Clone, Default)]
struct Found {
    cases: u64,
    failed: u64,
    first: BTreeMap<u64, String>,
}

impl Found {
    fn fail(&mut self, number: u64, what: String) {
        self.failed += 1;
        self.keep(number, what);
    }

    fn keep(&mut self, number: u64, what: String) {
        self.first.insert(number, what);
        if self.first.len() > TOLD {
            self.first.pop_last();
        }
    }

    fn add(&mut self, part: Found) {
        self.cases += part.cases;
        self.failed += part.failed;
        for (number, what) in part.first {
            self.keep(number, what);
        }
    }

    fn tally(self, subject: &str, seed: u64) -> Tally {
        let prefix = replay_prefix(subject, seed);
        let failures = self.first.into_iter().map(|(number, what)| Failure {
            what: format!("{what} ({})", Case::draw(seed, number)),
            replay: format!("{prefix} --case {number}"),
        });
        Tally {
            cases: self.cases,
            failed: self.failed,
            failures: failures.collect(),
        }
    }
}

struct Worker<'a> {
    subjects: &'a [Subject<'a>],
    replays: Vec<String>,
    seed: u64,
    reference: Reference,
    bench: Bench,
    want: Vec<u8>,
    found: Vec<Found>,
}

impl<'a> Worker<'a> {
    fn new(subjects: &'a [Subject<'a>], seed: u64) -> io::Result<Worker<'a>> {
        Ok(Worker {
            subjects,
            replays: subjects
                .iter()
                .map(|s| replay_prefix(&s.name, seed))
                .collect(),
            seed,
            reference: Reference::new(subjects),
            bench: Bench::new()?,
            want: Vec::new(),
            found: vec![Found::default(); subjects.len()],
        })
    }

    fn case(&mut self, number: u64) {
        let case = Case::draw(self.seed, number);
        let key = Key::new(&case.key).expect("32, 48 or 64 bytes");
        let solved = self.reference.solve(&key, &case, &mut self.want);
        for (i, subject) in self.subjects.iter().enumerate() {
            let checked = solved.clone().and_then(|()| {
                let replay = Replay(&self.replays[i], Some(number));
                self.bench.check(subject, &key, &case, &self.want, replay)
            });
            self.found[i].cases += 1;
            if let Err(what) = checked {
                self.found[i].fail(number, what);
            }
        }
    }
}
