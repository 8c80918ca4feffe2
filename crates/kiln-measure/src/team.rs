//! Threads that run the same subject at the same time, one per core.
//!
//! One thread, the leader, takes samples as usual, with [`Lead`] as its time source. All threads
//! carry out each of the leader's orders together:
//!
//! 1. Each thread runs the subject untimed for as long as a sample takes. After that, it continues
//!    in short batches until all threads have reached this point.
//! 2. Each thread runs its sample and reads the clock at both ends.
//! 3. Each thread continues in short batches until the last thread's sample has ended.
//!
//! Every sample therefore lies within the period in which all threads ran the subject, no matter
//! how late a thread began. If the kernel switched a thread out during that period, fewer cores
//! were loaded than intended, and the sample is discarded.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::clock::{self, CHAIN, IMUL_CYCLES};
use crate::sample::Subject;
use crate::source::{switches, TimeSource};

/// A short batch is a sample's number of calls divided by this number. A thread that is waiting for
/// others to get ready or to finish their samples runs short batches to keep its core busy.
const BATCHES: u64 = 16;
/// How many times a waiting thread checks for an order before it starts to sleep between checks.
const SPINS: u32 = 20_000;
/// How long a waiting thread sleeps between checks. A thread that wakes up late delays the start of
/// a sample, but the delay is not part of the sample.
const NAP: Duration = Duration::from_micros(50);

/// An order that all threads carry out.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// Run this number of calibrating chains.
    Chains(u32),
    /// Run a subject. The fields are the subject's number and the number of calls.
    Run(usize, u64),
    End,
}

/// The state that a team's threads share.
pub struct Team {
    members: Vec<Member>,
    /// Number of orders given so far.
    orders: AtomicUsize,
    /// The last order, stored as a kind and two numbers.
    kind: AtomicUsize,
    subject: AtomicUsize,
    count: AtomicU64,
    /// Number of threads that are ready to be timed.
    running: AtomicUsize,
    /// Number of threads whose sample has ended.
    ended: AtomicUsize,
    /// Number of threads, not counting the leader, that have carried out the last order.
    done: AtomicUsize,
    /// Whether a thread left the team before the leader ended it.
    broken: AtomicBool,
}

/// One thread's report on the last order, aligned so that threads do not write to the same cache
/// line.
#[derive(Default)]
#[repr(align(128))]
struct Member {
    ticks: AtomicU64,
    /// How many times the kernel has switched the thread out so far.
    switches: AtomicU64,
    /// Whether the thread was switched out during the last order.
    switched: AtomicBool,
}

impl Team {
    /// Creates the state for `threads` threads, including the leader.
    pub fn new(threads: usize) -> Team {
        Team {
            members: (0..threads.max(1)).map(|_| Member::default()).collect(),
            orders: AtomicUsize::new(0),
            kind: AtomicUsize::new(0),
            subject: AtomicUsize::new(0),
            count: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// Returns whether a thread left the team early. Samples taken since then are worthless.
    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Makes the calling thread the leader. Dropping the returned value ends the team.
    pub fn lead(&self) -> Lead<'_> {
        Lead {
            team: self,
            numbers: Vec::new(),
            subject: 0,
            shares: Vec::new(),
            sound: true,
        }
    }

    /// Makes the calling thread member `number`, counted from 1, and returns when the leader ends
    /// the team. All members must have the same subjects in the same order.
    pub fn follow(&self, number: usize, subjects: &mut [Subject]) {
        let mut member = Leaving {
            team: self,
            early: true,
        };
        let mut seen = 0;
        loop {
            let Some(order) = self.next(&mut seen) else {
                return;
            };
            match order {
                Order::End => break,
                Order::Chains(n) => self.chains(number, n),
                Order::Run(subject, calls) => match subjects.get_mut(subject) {
                    Some(subject) => self.run(number, &mut subject.run, calls),
                    None => return,
                },
            }
            self.done.fetch_add(1, Ordering::AcqRel);
        }
        member.early = false;
    }

    /// Waits until a new order is given, and returns it. `seen` is the number of orders that this
    /// thread has received so far. Returns `None` if a thread has left the team.
    fn next(&self, seen: &mut usize) -> Option<Order> {
        let mut looks = 0;
        while self.orders.load(Ordering::Acquire) == *seen {
            if self.is_broken() {
                return None;
            }
            looks += 1;
            match looks < SPINS {
                true => spin_loop(),
                false => std::thread::sleep(NAP),
            }
        }
        *seen += 1;
        let count = self.count.load(Ordering::Relaxed);
        Some(match self.kind.load(Ordering::Relaxed) {
            0 => Order::End,
            1 => Order::Chains(count as u32),
            _ => Order::Run(self.subject.load(Ordering::Relaxed), count),
        })
    }

    /// Gives an order to the other threads.
    fn order(&self, order: Order) {
        for count in [&self.running, &self.ended, &self.done] {
            count.store(0, Ordering::Relaxed);
        }
        let (kind, subject, count) = match order {
            Order::End => (0, 0, 0),
            Order::Chains(n) => (1, 0, u64::from(n)),
            Order::Run(subject, calls) => (2, subject, calls),
        };
        self.kind.store(kind, Ordering::Relaxed);
        self.subject.store(subject, Ordering::Relaxed);
        self.count.store(count, Ordering::Relaxed);
        self.orders.fetch_add(1, Ordering::Release);
    }

    /// Increments `count`, and calls `meanwhile` repeatedly until all threads have incremented
    /// `count`. Returns false if a thread has left the team.
    fn meet(&self, count: &AtomicUsize, mut meanwhile: impl FnMut()) -> bool {
        count.fetch_add(1, Ordering::AcqRel);
        while count.load(Ordering::Acquire) < self.members.len() {
            if self.is_broken() {
                return false;
            }
            meanwhile();
        }
        true
    }

    /// Runs calibrating chains at the same time as the other threads, and reports the duration of
    /// the shortest, because disturbances can only lengthen a chain.
    fn chains(&self, number: usize, n: u32) {
        self.meet(&self.running, spin_loop);
        let least = (0..n).map(|_| clock::chain(CHAIN)).min();
        self.members[number]
            .ticks
            .store(least.unwrap_or(0), Ordering::Relaxed);
    }

    /// Runs this thread's part of a sample.
    fn run(&self, number: usize, run: &mut dyn FnMut(u64), calls: u64) {
        let member = &self.members[number];
        let before = switches();
        let batch = (calls / BATCHES).max(1);
        run(calls);
        let mut ticks = 0;
        if self.meet(&self.running, || run(batch)) {
            let cost = clock::read_cost();
            let start = clock::tsc_start();
            run(calls);
            let stop = clock::tsc_stop();
            ticks = stop.wrapping_sub(start).saturating_sub(cost);
            self.meet(&self.ended, || run(batch));
        }
        let after = switches();
        member.ticks.store(ticks, Ordering::Relaxed);
        member.switches.store(after, Ordering::Relaxed);
        member.switched.store(after != before, Ordering::Relaxed);
    }

    fn ticks(&self) -> Vec<u64> {
        let all = self.members.iter();
        all.map(|m| m.ticks.load(Ordering::Relaxed)).collect()
    }
}

/// Marks the team as broken if the thread leaves before it has received [`Order::End`], for example
/// because of a panic, so that the other threads do not wait for it.
struct Leaving<'a> {
    team: &'a Team,
    early: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.early {
            self.team.broken.store(true, Ordering::Release);
        }
    }
}

/// The time source of a team's leader. The time reported for a sample is the time that a thread
/// running at the threads' mean rate would take. If the n threads took t1, t2, ..., this time is
/// n / (1/t1 + 1/t2 + ...), so n times the resulting rate equals the sum of the threads' rates. The
/// time reported for a chain is the mean over the threads.
pub struct Lead<'a> {
    team: &'a Team,
    numbers: Vec<usize>,
    subject: usize,
    shares: Vec<u64>,
    sound: bool,
}

impl Lead<'_> {
    /// Sets the mapping from the sampler's subjects to those of the other threads. The sampler's
    /// subject at position `i` is number `numbers[i]` in the other threads.
    pub fn take_subjects(&mut self, numbers: Vec<usize>) {
        self.numbers = numbers;
    }

    /// Waits until the other threads have carried out the order. Returns false if a thread has left
    /// the team.
    fn wait(&self) -> bool {
        let others = self.team.members.len() - 1;
        while self.team.done.load(Ordering::Acquire) < others {
            if self.team.is_broken() {
                return false;
            }
            spin_loop();
        }
        true
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        // If the leader panics, mark the team as broken, because the other threads may be in the
        // middle of an order and waiting for the leader.
        match std::thread::panicking() {
            true => self.team.broken.store(true, Ordering::Release),
            false => self.team.order(Order::End),
        }
    }
}

impl TimeSource for Lead<'_> {
    fn chain(&mut self) -> u64 {
        self.chains(1)
    }

    fn chains(&mut self, n: u32) -> u64 {
        self.team.order(Order::Chains(n));
        self.team.chains(0, n);
        self.wait();
        let ticks = self.team.ticks();
        ticks.iter().sum::<u64>() / ticks.len() as u64
    }

    fn select(&mut self, subject: usize) {
        self.subject = subject;
    }

    /// Returns true, because the threads warm up together.
    fn warms_up(&self) -> bool {
        true
    }

    fn time(&mut self, f: &mut dyn FnMut(u64), iters: u64) -> u64 {
        let number = self.numbers.get(self.subject).copied();
        self.team
            .order(Order::Run(number.unwrap_or(usize::MAX), iters));
        self.team.run(0, f, iters);
        let came = self.wait();
        self.shares = self.team.ticks();
        let mut all = self.team.members.iter();
        self.sound = came && !all.any(|m| m.switched.load(Ordering::Relaxed));
        mean_rate(&self.shares)
    }

    fn is_sound(&self) -> bool {
        self.sound
    }

    fn shares(&self) -> &[u64] {
        &self.shares
    }

    fn chain_cycles(&self) -> f64 {
        IMUL_CYCLES * f64::from(CHAIN)
    }

    fn hz(&self) -> f64 {
        clock::tsc_hz()
    }

    fn switches(&mut self) -> u64 {
        let all = self.team.members.iter();
        all.map(|m| m.switches.load(Ordering::Relaxed)).sum()
    }
}

/// Returns the time of a thread that runs at the mean rate, which is the harmonic mean of all
/// ticks. Returns 0 if the ticks of any thread are 0.
fn mean_rate(ticks: &[u64]) -> u64 {
    let rates: f64 = ticks.iter().map(|&t| 1.0 / t as f64).sum();
    (ticks.len() as f64 / rates).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{measure_with, Plan};
    use std::sync::Mutex;
    use std::thread;
    use std::time::Instant;

    #[test]
    fn the_mean_rate_is_that_of_the_sum() {
        assert_eq!(mean_rate(&[100, 100]), 100);
        // One thread runs at the full rate and the other at a third of it, so the total is 4/3 of
        // the full rate.
        assert_eq!(mean_rate(&[100, 300]), 150);
        assert_eq!(mean_rate(&[100, 0]), 0);
    }

    #[test]
    fn all_threads_run_the_same_subject_and_a_sample_has_a_share_for_each() {
        let team = Team::new(3);
        let calls: Vec<AtomicU64> = (0..6).map(|_| AtomicU64::new(0)).collect();
        let subjects = |thread: usize| -> Vec<Subject> {
            let calls = &calls;
            let of = |subject: usize| {
                Subject::new("s", move |n: u64| {
                    for _ in 0..n * 100 {
                        std::hint::black_box(n);
                    }
                    calls[2 * thread + subject].fetch_add(n, Ordering::Relaxed);
                })
            };
            vec![of(0), of(1)]
        };
        let plan = Plan {
            rounds: 2,
            samples: 2,
            sample_us: 20.0,
            seed: 1,
            deadline: None,
        };
        let series = thread::scope(|scope| {
            for number in 1..3 {
                let (team, subjects) = (&team, &subjects);
                scope.spawn(move || team.follow(number, &mut subjects(number)));
            }
            // The leader has only one subject, which is number 1 in the other threads.
            let mut own = subjects(0);
            own.remove(0);
            let stop = AtomicBool::new(false);
            let mut lead = team.lead();
            lead.take_subjects(vec![1]);
            measure_with(&mut lead, &mut own, &plan, &stop, &mut |_, _| {})
        });
        assert!(!team.is_broken());
        let of = |i: usize| calls[i].load(Ordering::Relaxed);
        assert_eq!([of(0), of(2), of(4)], [0; 3], "subject 0 did not run");
        // There are four samples, each with a warm-up (more if a sample was repeated), plus the
        // search for the number of calls.
        for thread in 0..3 {
            assert!(of(2 * thread + 1) >= 8 * series[0].iters, "{thread}");
        }
        // On a busy machine, every sample may have been discarded, and the list of shares is then
        // empty.
        let shares = series[0].shares.len();
        assert_eq!(shares, if series[0].kept() > 0 { 3 } else { 0 });
    }

    /// The completed calls in the order in which they ended. Each entry holds the number of the
    /// thread and the number of operations in the call.
    type Log = Mutex<Vec<(usize, u64)>>;

    /// Waits until the log meets a condition. Fails after a minute, which is enough for even a busy
    /// machine.
    fn wait_for(log: &Log, fulfilled: impl Fn(&[(usize, u64)]) -> bool) {
        let start = Instant::now();
        while !fulfilled(&log.lock().unwrap()) {
            assert!(start.elapsed().as_secs() < 60, "the other thread stopped");
            thread::yield_now();
        }
    }

    /// The first thread must run short batches both before and after each sample that the second
    /// thread takes.
    #[test]
    fn each_thread_runs_until_the_samples_of_all_have_ended() {
        const CALLS: u64 = 160;
        let team = Team::new(2);
        let log = Log::default();
        let batches_after = |log: &[(usize, u64)], full: usize| {
            let own = log.iter().filter(|(thread, _)| *thread == 0);
            let ends: Vec<u64> = own.map(|(_, calls)| *calls).collect();
            let is_full = ends.iter().filter(|n| **n == CALLS).count();
            is_full == full && ends.last() == Some(&(CALLS / BATCHES))
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut full = 0;
                let late = Subject::new("s", |calls| {
                    if calls == CALLS {
                        full += 1;
                        wait_for(&log, |log| batches_after(log, full));
                    }
                    log.lock().unwrap().push((1, calls));
                });
                team.follow(1, &mut [late]);
            });
            let mut lead = team.lead();
            lead.take_subjects(vec![0]);
            let mut early = |calls| {
                if calls != CALLS {
                    // Slow down, so that the log does not become too long while the second thread
                    // waits for a core.
                    thread::sleep(Duration::from_micros(50));
                }
                log.lock().unwrap().push((0, calls));
            };
            lead.time(&mut early, CALLS);
            assert!(lead.shares()[1] > 0, "the second thread waited");
        });
        let log = log.into_inner().unwrap();
        let full = |thread| {
            let at = log.iter().enumerate();
            let at = at.filter(|(_, entry)| **entry == (thread, CALLS));
            at.map(|(i, _)| i).collect::<Vec<_>>()
        };
        let (early, late) = (full(0), full(1));
        assert_eq!((early.len(), late.len()), (2, 2));
        assert!(late[0] < early[1], "no sample before both had begun");
    }

    #[test]
    fn a_thread_that_fails_ends_the_team() {
        let team = Team::new(2);
        let series = thread::scope(|scope| {
            let follower = scope.spawn(|| {
                let broken = Subject::new("s", |_| panic!("a fault on purpose"));
                team.follow(1, &mut [broken]);
            });
            let mut own = [Subject::new("s", |_| {})];
            let stop = AtomicBool::new(false);
            let mut lead = team.lead();
            lead.take_subjects(vec![0]);
            let plan = Plan::quick(1);
            let series = measure_with(&mut lead, &mut own, &plan, &stop, &mut |_, _| {});
            drop(lead);
            assert!(follower.join().is_err());
            series
        });
        assert!(team.is_broken());
        assert_eq!(series[0].kept(), 0);
    }
}
