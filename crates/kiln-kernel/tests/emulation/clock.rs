//! The section clock counts every section, and knows those that the host stretched.

use std::sync::atomic::{AtomicBool, Ordering};

use kiln_kernel::cpu::Stats;
use kiln_kernel::fpu::{pairs, Policy};
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::load::{Load, TaskWork};

use crate::corruption::SPINS_10_US;
use crate::machine::{alone, boot, cores, pin, plan, policy, until};

/// The most sections in a row that the clock leaves out.
const SKIPS: u64 = 64;

/// The clock leaves no section out that takes at least this many TSC ticks.
const FULL_TIME: u64 = 16384;

/// Iterations that take longer than that on any CPU: cores do at most two per cycle, and the TSC ticks at least three times
/// in ten cycles of the highest clock speed.
const SPINS_LONG: u64 = 160_000;

#[test]
fn the_histogram_stands_for_every_section() {
    alone("clock::the_histogram_stands_for_every_section", |_| {
        let mut cpu = boot();
        for p in Policy::all() {
            p.set(&mut cpu);
            cpu.reset_stats();
            pairs(100_000, true);
            let stats = cpu.stats();
            assert_eq!(stats.sections, 100_000, "{p}");
            let total = cpu.section_time().total();
            assert!(total.abs_diff(stats.sections) <= SKIPS, "{p}: {total}");
            // Short ones are mostly left out.
            assert!(stats.sections_timed < stats.sections / 8, "{p}: {stats:?}");
            assert!(
                stats.sections_timed >= stats.sections / SKIPS - 1,
                "{p}: {stats:?}"
            );
        }
    });
}

#[test]
fn long_sections_are_all_timed() {
    alone("clock::long_sections_are_all_timed", |seed| {
        let mut cpu = boot();
        let stats = keep(&mut cpu, seed, 4_000);
        assert!(stats.sections_timed + SKIPS >= stats.sections, "{stats:?}");
        assert!(stats.sections_timed <= stats.sections, "{stats:?}");
        let time = cpu.section_time();
        let median = time.quantile(0.5).expect("not empty");
        println!("median section {median} TSC ticks, longest {}", time.max());
        assert!(median >= FULL_TIME, "{median}");
        assert!(time.max() >= median);
    });
}

/// Long sections with nothing to interrupt them.
fn keep(cpu: &mut kiln_kernel::cpu::Cpu, seed: u64, sections: u64) -> Stats {
    policy("legacy").set(cpu);
    let spins = SPINS_LONG;
    let task = TaskWork::Keep { seed, spins };
    let mut load = Load::attach(cpu, plan(task, seed)).expect("usable");
    load.run(100);
    load.cpu().reset_stats();
    load.run(sections);
    load.cpu().stats()
}

/// The host clears the witness for other reasons than a switch, too: when it moves the thread, or delivers anything to it
/// (rseq(2)). Those are rare.
const OTHER_REASONS: u64 = 16;

/// How often the host took the CPU from the calling thread, by the host's own count.
fn host_switches() -> u64 {
    // SAFETY: plain data filled by the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        (usage.ru_nivcsw + usage.ru_nvcsw) as u64
    }
}

/// The host's scheduler is no interrupt of ours: a competitor on the core shows as stolen time,
/// as often as the host says it took the CPU away.
#[test]
fn sections_the_host_interrupted_are_told_apart() {
    alone(
        "clock::sections_the_host_interrupted_are_told_apart",
        |seed| {
            let mut cpu = boot();
            let before = host_switches();
            let quiet = keep(&mut cpu, seed, 20_000);
            let switches = host_switches() - before;
            println!(
                "without a competitor: {} of {} sections stolen, {switches} switches by the host",
                quiet.sections_stolen, quiet.sections
            );
            assert!(quiet.sections_stolen * 20 < quiet.sections, "{quiet:?}");
            assert!(
                quiet.sections_stolen <= switches + OTHER_REASONS,
                "{quiet:?}"
            );
            assert_eq!(quiet.sections_interrupted, 0);

            let stop = AtomicBool::new(false);
            std::thread::scope(|s| {
                s.spawn(|| {
                    pin(cores()[0]);
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                let (mut stolen, mut sections) = (0, 0);
                let before = host_switches();
                until("40 stolen sections", || {
                    let stats = keep(&mut cpu, seed, 5_000);
                    stolen += stats.sections_stolen;
                    sections += stats.sections;
                    stolen >= 40
                });
                let switches = host_switches() - before;
                stop.store(true, Ordering::Relaxed);
                println!(
                    "with one: {stolen} of {sections} sections stolen, {switches} switches by the host"
                );
                assert!(stolen <= switches + OTHER_REASONS && 2 * stolen >= switches);
            });
        },
    );
}

#[test]
fn interrupted_sections_are_not_called_stolen() {
    alone(
        "clock::interrupted_sections_are_not_called_stolen",
        |seed| {
            let mut cpu = boot();
            policy("nested").set(&mut cpu);
            cpu.reset_stats();
            let task = TaskWork::Keep {
                seed,
                spins: SPINS_10_US,
            };
            let mut load = Load::attach(&mut cpu, plan(task, seed)).expect("usable");
            let timer =
                Timer::start(load.cpu(), Arrivals::Poisson(10_000.0, seed)).expect("a timer");
            until("1,000 interrupted sections", || {
                load.run(50);
                load.cpu().stats().sections_interrupted >= 1_000
            });
            drop(timer);
            drop(load);
            let stats = cpu.stats();
            println!("{stats:?}");
            assert!(
                stats.sections_stolen * 5 < stats.sections_interrupted,
                "{stats:?}"
            );
            assert_eq!(
                cpu.softirq_latency().total(),
                stats.softirqs,
                "a latency for each softirq"
            );
        },
    );
}
