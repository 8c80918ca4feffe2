//! Every context a function may be called from, under a policy, while interrupts come into its sections.
//!
//! Each thread is a CPU of its own. Its interrupts serve guests: other messages, of many algorithms, whose answers
//! are compared as well, and who overwrite every register before their section ends.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kiln_kernel::cipher::{Impl, Kind};
use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::fpu::{Context, Policy};
use kiln_kernel::guest::{self, Guest, Guests};
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::xts::Op;

use super::bench::Bench;
use super::family::judge_of;
use super::judge::judge;
use super::message::Message;
use super::rng::Rng;
use super::run::{self, Job, Part, Share};

/// Interrupts a second of each CPU's timer: a host signal costs some ten microseconds.
const TIMER_HZ: f64 = 4000.0;

/// Bytes of a guest's message.
const GUEST_LEN: usize = 96;

/// As rows have it.
pub fn name(context: Context) -> &'static str {
    match context {
        Context::Task => "task",
        Context::TaskBhOff => "bh-off",
        Context::Softirq => "softirq",
        Context::Hardirq => "hardirq",
        Context::HardirqOverBhOff => "hardirq-over-bh-off",
        Context::HardirqOverSoftirq => "hardirq-over-softirq",
        Context::Nmi => "nmi",
    }
}

/// The contexts in which a policy allows no section though none is in progress, as `docs/EMULATION.md` has it.
pub fn refused_in(policy: Policy) -> Vec<Context> {
    match policy.name() {
        "preemptible" => vec![Context::Hardirq],
        _ => Vec::new(),
    }
}

/// Interrupts that all CPUs of the process have had in such runs, those of them into sections, and wrong answers
/// of guests.
pub fn interrupts() -> (u64, u64, u64) {
    let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
    (read(&INTERRUPTS), read(&INTO_SECTIONS), read(&CORRUPTED))
}

static INTERRUPTS: AtomicU64 = AtomicU64::new(0);
static INTO_SECTIONS: AtomicU64 = AtomicU64::new(0);
static CORRUPTED: AtomicU64 = AtomicU64::new(0);

/// Run `jobs` under `policy`, each thread a CPU with a timer.
pub(crate) fn run(
    policy: Policy,
    seed: u64,
    jobs: &[Job],
    threads: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(u64) + Sync),
    tell: &mut dyn FnMut(&Job, Vec<Part>),
) -> io::Result<()> {
    set(policy)?;
    let result = run::run(
        jobs,
        threads,
        stop,
        progress,
        &|i, share| on_a_cpu(policy, seed, i, share),
        tell,
    );
    let calm = Policy::all().into_iter().find(|p| p.name() == "bh-off");
    calm.map_or(Ok(()), set)?;
    result
}

/// Put it in force while this thread alone is a CPU.
fn set(policy: Policy) -> io::Result<()> {
    std::thread::scope(|scope| {
        let set = || Cpu::boot(&Config::default()).map(|mut cpu| policy.set(&mut cpu));
        scope.spawn(set).join().expect("no reason to panic")
    })
}

fn on_a_cpu(policy: Policy, seed: u64, number: usize, share: &Share<'_>) -> io::Result<()> {
    let config = Config {
        number: number as u32,
        switch_ns: 0,
        // Every other CPU preempts wherever it may.
        preempt_full: number % 2 == 1,
        ..Config::default()
    };
    let mut bench = Bench::new()?;
    let mut cpu = Cpu::boot(&config)?;
    let (softirqs, hardirqs) = guests(seed ^ number as u64);
    let guests = Guests::attach(&mut cpu, softirqs, hardirqs);
    let timer = Timer::start(&mut cpu, Arrivals::Poisson(TIMER_HZ, seed ^ number as u64))?;
    for (i, job) in share.jobs.iter().enumerate() {
        let judge = job.family().judge;
        bench.fall_back(Some(judge), refused_in(policy));
        share.job(i, &mut bench);
    }
    drop(timer);
    let counts = guests.counts();
    drop(guests);
    INTERRUPTS.fetch_add(counts.interrupts, Ordering::Relaxed);
    INTO_SECTIONS.fetch_add(counts.into_sections, Ordering::Relaxed);
    CORRUPTED.fetch_add(counts.corrupted, Ordering::Relaxed);
    Ok(())
}

/// A message for every usable implementation: all of them for softirqs, hashes for hardirqs.
fn guests(seed: u64) -> (Vec<Guest>, Vec<Guest>) {
    let mut rng = Rng::of(seed, 0x9e57);
    let (mut softirqs, mut hardirqs) = (Vec::new(), Vec::new());
    for alg in Impl::algorithms() {
        let impls: Vec<Impl> = Impl::of(alg)
            .into_iter()
            .filter(|i| i.tier().usable())
            .collect();
        for imp in &impls {
            softirqs.push(guest(*imp, impls[0], &mut rng));
            if imp.kind() == Kind::Hash {
                hardirqs.push(guest(*imp, impls[0], &mut rng));
            }
        }
    }
    (softirqs, hardirqs)
}

fn guest(imp: Impl, scalar: Impl, rng: &mut Rng) -> Guest {
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
