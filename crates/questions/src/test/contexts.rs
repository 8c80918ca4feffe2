//! Calls a function from every context under a policy, while interrupts occur in the function's FPU
//! sections.
//!
//! Each thread emulates a CPU. The interrupts on this CPU process other messages, called guests,
//! with many algorithms; the results of the guests are checked, too. Each interrupt overwrites
//! every register before its own section ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::thread;

use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::fpu::{Context, Policy};
use kiln_kernel::guest::{self, Counts, Guest, Guests};
use kiln_kernel::irq::{Arrivals, Breakpoints, Step, Stepping, Timer};
use kiln_kernel::Tier;
use kiln_measure::SplitMix64;

use super::bench::{Bench, Replay};
pub use super::caller::refused_in;
use super::family::judge_of;
use super::guard::Place;
use super::judge::{judge, task};
use super::many::Many;
use super::message::{Layout, Message};
use super::run::{self, Job, Part, Share};
use super::suite::Suite;

/// Number of timer interrupts per second on each CPU. An interrupt costs about ten microseconds,
/// because it is a host signal.
const TIMER_HZ: f64 = 4000.0;

/// Lengths and directions of the messages traced to find a section's instructions.
const TRACED_MESSAGES: [(usize, Op); 4] = [
    (70, Op::Encrypt),
    (70, Op::Decrypt),
    (330, Op::Encrypt),
    (330, Op::Decrypt),
];

/// For tracing calls that process several messages: the number of messages per call, and the
/// maximum message length in units. With these values, all lanes are in use, and at least one lane
/// receives a second message.
const TRACED_TOGETHER: (usize, usize) = (34, 5);

/// Size of a guest's message in bytes.
const GUEST_LEN: usize = 96;

/// Runs `jobs` under `policy` and returns the counts of the guests. With `by_breakpoint`, a single
/// CPU runs the jobs, and interrupts occur before random instructions of sections; otherwise each
/// thread is a CPU with a timer.
#[allow(clippy::too_many_arguments)]
pub(crate) fn run(
    (policy, by_breakpoint): (Policy, bool),
    seed: u64,
    jobs: &[Job],
    threads: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(u64) + Sync),
    tell: &mut dyn FnMut(&Job, Vec<Part>),
) -> io::Result<Counts> {
    set(policy)?;
    let counts = Mutex::new(Counts::default());
    let worker = |number: usize, share: &Share<'_>| {
        let seen = match by_breakpoint {
            true => with_breakpoints(policy, seed, share)?,
            false => with_a_timer(policy, seed, number, share)?,
        };
        *counts.lock().unwrap_or_else(PoisonError::into_inner) += seen;
        Ok(())
    };
    // Breakpoints modify code that all CPUs share, so use only one CPU.
    let threads = if by_breakpoint { 1 } else { threads };
    let result = run::run(jobs, threads, stop, progress, &worker, tell);
    // Restore the policy of current Linux for later tests.
    let usual = Policy::all().into_iter().find(|p| p.name() == "bh-off");
    usual.map_or(Ok(()), set)?;
    result.map(|()| counts.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Runs one job under the policy of its suite. Returns the parts of the result and the counts of
/// the guests.
pub fn one(job: Job, seed: u64, threads: usize) -> io::Result<(Vec<Part>, Counts)> {
    let suite = job.suite();
    let policy = suite.policy().expect("a suite of contexts");
    let how = (policy, matches!(suite, Suite::Interrupted(_)));
    let mut all = Vec::new();
    let stop = AtomicBool::new(false);
    let tell = &mut |_: &Job, parts| all = parts;
    let counts = run(how, seed, &[job], threads, &stop, &|_| (), tell)?;
    Ok((all, counts))
}

/// Sets the policy. No thread of the process may be inside an FPU section. Only a CPU can set a
/// policy, so a temporary thread becomes one; the calling thread need not be a CPU.
fn set(policy: Policy) -> io::Result<()> {
    thread::scope(|scope| {
        let set = || Cpu::boot(&Config::default()).map(|mut cpu| policy.set(&mut cpu));
        scope
            .spawn(set)
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn boot(number: usize) -> io::Result<Cpu> {
    Cpu::boot(&Config {
        number: number as u32,
        switch_ns: 0,
        // Every second CPU can be preempted wherever the kernel allows it.
        preempt_full: number % 2 == 1,
        ..Config::default()
    })
}

fn with_a_timer(policy: Policy, seed: u64, number: usize, share: &Share<'_>) -> io::Result<Counts> {
    let seed = seed ^ number as u64;
    let mut bench = Bench::new()?;
    let mut cpu = boot(number)?;
    let (softirqs, hardirqs) = guests(seed);
    let guests = Guests::attach(&mut cpu, softirqs, hardirqs);
    let timer = Timer::start(&mut cpu, Arrivals::Poisson(TIMER_HZ, seed))?;
    for (i, job) in share.jobs.iter().enumerate() {
        bench.interrupted(job.family().judge, refused_in(policy));
        share.job(i, &mut bench, &mut || ());
    }
    drop(timer);
    Ok(guests.counts())
}

fn with_breakpoints(policy: Policy, seed: u64, share: &Share<'_>) -> io::Result<Counts> {
    let mut bench = Bench::new()?;
    let mut cpu = boot(0)?;
    let mut sum = Counts::default();
    for (i, job) in share.jobs.iter().enumerate() {
        let mut addresses = BTreeSet::new();
        for imp in &job.family().subjects {
            addresses.extend(instructions(*imp, &mut cpu, &mut bench)?);
        }
        bench.interrupted(job.family().judge, refused_in(policy));
        let (softirqs, hardirqs) = guests(seed);
        let guests = Guests::attach(&mut cpu, softirqs, hardirqs);
        if addresses.is_empty() {
            share.job(i, &mut bench, &mut || ());
        } else {
            let mut points = Breakpoints::start(&mut cpu, &addresses, seed).map_err(refused)?;
            share.job(i, &mut bench, &mut || points.redraw());
        }
        sum += guests.counts();
    }
    Ok(sum)
}

fn refused(e: io::Error) -> io::Error {
    io::Error::other(format!(
        "this host lets nobody set breakpoints: {e}: name the other suites with --suite"
    ))
}

/// Returns the instructions that `imp` executes in its sections. They are found by tracing a few
/// messages, once per process.
fn instructions(imp: Impl, cpu: &mut Cpu, bench: &mut Bench) -> io::Result<BTreeSet<u64>> {
    static TRACED: Mutex<BTreeMap<&str, BTreeSet<u64>>> = Mutex::new(BTreeMap::new());
    if imp.tier() == Tier::Generic {
        return Ok(BTreeSet::new());
    }
    let mut traced = TRACED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = traced.get(imp.driver()) {
        return Ok(known.clone());
    }
    let mut stepping = Stepping::start(cpu, Step::Trace).map_err(refused)?;
    bench.set_step(true);
    let judge = judge_of(imp.alg());
    for (len, op) in TRACED_MESSAGES {
        let message = Message::draw(judge, &mut SplitMix64::stream(0, len as u64), Some(len));
        let done = task(judge, op, message).and_then(|(message, judged)| {
            let layout = Layout::at(Place::End, false);
            bench.check(imp, op, &message, &judged, &layout, Replay("kiln test", 0))
        });
        // Ignore errors from this traced call, because the cases report wrong results.
        drop(done);
    }
    for stream in 0..if imp.lanes().is_some() { 2 } else { 0 } {
        let mut rng = SplitMix64::stream(1, stream);
        let done = Many::draw_of(TRACED_TOGETHER, judge, Context::Task, &mut rng)
            .and_then(|many| bench.many(imp, &many, Replay("kiln test", 0)));
        drop(done);
    }
    bench.set_step(false);
    let found = stepping.addresses(1);
    traced.insert(imp.driver(), found.clone());
    Ok(found)
}

/// Creates messages for every usable implementation. Softirqs process all of these messages;
/// hardirqs process only those for hashes.
fn guests(seed: u64) -> (Vec<Guest>, Vec<Guest>) {
    let mut rng = SplitMix64::stream(seed, 0x9e57);
    let (mut softirqs, mut hardirqs) = (Vec::new(), Vec::new());
    for imp in Impl::all().into_iter().filter(|i| i.tier().usable()) {
        let scalar = judge_of(imp.alg());
        softirqs.push(guest(imp, scalar, &mut rng));
        if imp.kind() == Kind::Hash {
            hardirqs.push(guest(imp, scalar, &mut rng));
        }
    }
    (softirqs, hardirqs)
}

fn guest(imp: Impl, scalar: Impl, rng: &mut SplitMix64) -> Guest {
    let message = Message::draw(scalar, rng, Some(GUEST_LEN));
    let judged = judge(scalar, Op::Encrypt, &message, &[]).expect("a message it takes");
    let mut want = judged.answer.text;
    want.extend_from_slice(&judged.answer.tag);
    Guest::new(
        imp,
        scalar,
        &guest::Message {
            key: &message.key,
            iv: &message.iv,
            aad: &message.aad,
            text: &message.text,
            want: &want,
        },
    )
}
