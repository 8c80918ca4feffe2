//! Runs the cases of the suites on many threads, with the same result for any number of threads.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::thread;

use kiln_kernel::fpu::Context;

use super::bench::{Bench, Replay};
use super::caller::CONTEXTS;
use super::case::{Case, Known};
use super::family::Family;
use super::suite::Suite;
use super::tally::{Found, Tally};

/// Number of consecutive cases that a thread takes from a job at a time.
const CHUNK: u64 = 16;

/// The cases of a suite for all tested implementations of one algorithm.
pub struct Job {
    family: Family,
    suite: Suite,
    known: Known,
    seed: u64,
    cases: Range<u64>,
    /// For each subject, the command that repeats a case, without the argument ` --case N`.
    replays: Vec<String>,
    next: AtomicU64,
}

/// The result of a job for one subject in one context.
#[derive(Clone, Debug)]
pub struct Part {
    /// The subject's index in the family.
    pub subject: usize,
    /// The context from which the calls were made.
    pub context: Context,
    /// The numbers of cases and failures, and the first few failures.
    pub tally: Tally,
}

impl Job {
    /// Creates a job that runs the cases of `suite` whose numbers are in `cases`. If `cases` is
    /// `None`, `suite` must have a fixed list of cases, and the job runs all of them. The replay
    /// commands begin with `tiers`.
    pub fn new(
        family: Family,
        suite: Suite,
        seed: u64,
        cases: Option<Range<u64>>,
        tiers: &str,
    ) -> Job {
        let known = Known::of(&family, suite);
        let listed = super::case::listed(suite, &family, &known);
        let cases = cases.unwrap_or(0..listed.unwrap_or(0));
        // Ignore case numbers beyond the end of a fixed list.
        let cases = match listed {
            Some(n) => cases.start.min(n)..cases.end.min(n),
            None => cases,
        };
        let replays = family.subjects.iter().map(|s| {
            format!(
                "{tiers}kiln test '{}' --impl {} --suite {suite} --seed {seed}",
                family.alg,
                s.driver()
            )
        });
        Job {
            replays: replays.collect(),
            next: AtomicU64::new(cases.start),
            family,
            suite,
            known,
            seed,
            cases,
        }
    }

    pub fn suite(&self) -> Suite {
        self.suite
    }

    pub fn family(&self) -> &Family {
        &self.family
    }

    /// Returns the approximate number of checks that the job will report, for the progress bar.
    pub fn size(&self) -> u64 {
        (self.cases.end - self.cases.start) * self.family.subjects.len() as u64
    }

    /// Returns the contexts in which the job calls the tested code. Consecutive cases cycle through
    /// them.
    fn contexts(&self) -> &'static [Context] {
        match self.suite.policy() {
            Some(_) => &CONTEXTS,
            None => &CONTEXTS[..1],
        }
    }

    /// Returns the number of rows in the result of the job.
    pub fn rows(&self) -> usize {
        match self.size() {
            0 => 0,
            _ => {
                let fit = self.family.subjects.iter().filter(|i| self.suite.fits(**i));
                fit.count() * self.contexts().len()
            }
        }
    }

    /// Describes case `number` for the log of a replay.
    pub fn describe(&self, number: u64) -> String {
        match Case::draw(self.suite, &self.family, &self.known, self.seed, number) {
            Ok(case) => format!("case {number}: {case}"),
            Err(e) => format!("case {number}: {e}"),
        }
    }

    /// Runs cases until all have run or `stop` is set. Calls `between` after each case.
    pub(crate) fn work(
        &self,
        bench: &mut Bench,
        stop: &AtomicBool,
        progress: &(dyn Fn(u64) + Sync),
        between: &mut dyn FnMut(),
    ) -> Vec<Found> {
        let contexts = self.contexts().len() as u64;
        let subjects = match self.size() {
            0 => 0,
            _ => self.family.subjects.len(),
        };
        let mut found = vec![Found::default(); subjects * contexts as usize];
        while !stop.load(Ordering::Relaxed) {
            let start = self.next.fetch_add(CHUNK, Ordering::Relaxed);
            if start >= self.cases.end {
                break;
            }
            let end = self.cases.end.min(start + CHUNK);
            for n in start..end {
                between();
                let case = Case::draw(self.suite, &self.family, &self.known, self.seed, n);
                for (i, subject) in self.family.subjects.iter().enumerate() {
                    let found = &mut found[i * contexts as usize + (n % contexts) as usize];
                    let (checks, result) = match &case {
                        Ok(case) => case.check(bench, *subject, Replay(&self.replays[i], n)),
                        Err(e) => (1, Err(e.clone())),
                    };
                    found.cases += checks;
                    if let Err(what) = result {
                        let told = match (&case, found.tells(n)) {
                            (Ok(case), true) => format!("{what} (case {n}: {case})"),
                            _ => what,
                        };
                        found.fail(n, told);
                    }
                }
            }
            progress((end - start) * self.family.subjects.len() as u64);
        }
        found
    }

    fn parts(&self, found: Vec<Found>) -> Vec<Part> {
        let contexts = self.contexts();
        let of = |(i, found): (usize, Found)| {
            let subject = i / contexts.len();
            Part {
                subject,
                context: contexts[i % contexts.len()],
                tally: found.tally(&self.replays[subject]),
            }
        };
        found.into_iter().enumerate().map(of).collect()
    }
}

/// One thread's share of all jobs.
pub(crate) struct Share<'a> {
    pub jobs: &'a [Job],
    done: Sender<(usize, Vec<Found>)>,
    stop: &'a AtomicBool,
    progress: &'a (dyn Fn(u64) + Sync),
}

impl Share<'_> {
    /// Runs this thread's share of job `i` and sends the result.
    pub(crate) fn job(&self, i: usize, bench: &mut Bench, between: &mut dyn FnMut()) {
        let found = self.jobs[i].work(bench, self.stop, self.progress, between);
        // Ignore a send error: after the run has ended with an error, the receiver is gone.
        let _ = self.done.send((i, found));
    }
}

/// Runs `jobs` on `threads` threads. Each thread runs `worker`, which must run each job of its
/// share exactly once and in order. The current thread calls `tell` once for each job, in the order
/// of `jobs`, and passes it the parts of that job.
pub(crate) fn run(
    jobs: &[Job],
    threads: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(u64) + Sync),
    worker: &(dyn Fn(usize, &Share<'_>) -> io::Result<()> + Sync),
    tell: &mut dyn FnMut(&Job, Vec<Part>),
) -> io::Result<()> {
    let threads = threads.max(1);
    let (done, results) = channel();
    thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads)
            .map(|i| {
                let share = Share {
                    jobs,
                    done: done.clone(),
                    stop,
                    progress,
                };
                scope.spawn(move || worker(i, &share))
            })
            .collect();
        drop(done);
        let mut sums: Vec<(usize, Vec<Found>)> = vec![(0, Vec::new()); jobs.len()];
        let mut told = 0;
        for (i, found) in results {
            let (parts, sum) = &mut sums[i];
            *parts += 1;
            if sum.is_empty() {
                *sum = found;
            } else {
                sum.iter_mut().zip(found).for_each(|(s, f)| s.add(f));
            }
            while let Some((parts, sum)) = sums.get_mut(told).filter(|s| s.0 == threads) {
                debug_assert_eq!(*parts, threads);
                tell(&jobs[told], jobs[told].parts(std::mem::take(sum)));
                told += 1;
            }
        }
        spawned.into_iter().try_for_each(|t| {
            t.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// Runs the jobs of a thread's share without emulating a CPU.
pub(crate) fn plain(_: usize, share: &Share<'_>) -> io::Result<()> {
    let mut bench = Bench::new()?;
    (0..share.jobs.len()).for_each(|i| share.job(i, &mut bench, &mut || ()));
    Ok(())
}

/// Runs one job. Returns one part for each subject and context of the job.
pub fn one(job: Job, threads: usize, stop: &AtomicBool) -> io::Result<Vec<Part>> {
    let mut all = Vec::new();
    run(&[job], threads, stop, &|_| (), &plain, &mut |_, parts| {
        all = parts
    })?;
    Ok(all)
}
