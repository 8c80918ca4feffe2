//! Tests the section timer, which must account for every section and recognise sections that the
//! host prolonged.

use std::sync::atomic::{AtomicBool, Ordering};

use kiln_kernel::cpu::{Cpu, Stats};
use kiln_kernel::fpu::{pairs, Policy};
use kiln_kernel::irq::Arrivals;
use kiln_kernel::load::TaskWork;

use crate::corruption::{keep, SPINS_10_US};
use crate::machine::{
    attach, boot, cores, interrupted, pin, plan, policy, repeat_until, run_alone,
};

/// Maximum number of consecutive sections that the timer skips.
const SKIPS: u64 = 64;

#[test]
fn the_histogram_stands_for_every_section() {
    run_alone(|_| {
        let mut cpu = boot();
        for p in Policy::all() {
            p.set(&mut cpu);
            cpu.reset_stats();
            pairs(100_000, true);
            let stats = cpu.stats();
            assert_eq!(stats.sections, 100_000, "{p}");
            let total = cpu.section_time().total();
            assert!(total.abs_diff(stats.sections) <= SKIPS, "{p}: {total}");
            // The timer must skip most short sections.
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
    run_alone(|seed| {
        let mut cpu = boot();
        let stats = run_undisturbed(&mut cpu, seed, 4_000);
        assert!(stats.sections_timed + SKIPS >= stats.sections, "{stats:?}");
        assert!(stats.sections_timed <= stats.sections, "{stats:?}");
        let time = cpu.section_time();
        let median = time.quantile(0.5).expect("not empty");
        println!("median section {median} TSC ticks, longest {}", time.max());
        assert!(median >= SPINS / 8, "{median}");
        assert!(time.max() >= median);
    });
}

/// Number of loop iterations that make a section long on any CPU, even on one that executes six
/// instructions per TSC tick.
const SPINS: u64 = 4 * SPINS_10_US;

/// Runs long sections without interrupts.
fn run_undisturbed(cpu: &mut Cpu, seed: u64, sections: u64) -> Stats {
    policy("legacy").set(cpu);
    let spins = SPINS;
    let mut load = attach(cpu, plan(TaskWork::Keep { seed, spins }, seed));
    load.run(100);
    load.cpu().reset_stats();
    load.run(sections);
    load.cpu().stats()
}

/// Maximum number of sections that may count as stolen without a context switch. The host also
/// clears the witness when it migrates the thread or delivers a signal to it (rseq(2)), but both
/// are rare.
const OTHER_REASONS: u64 = 16;

/// Returns the number of context switches of the calling thread, as reported by the host.
fn host_switches() -> u64 {
    // SAFETY: the call only fills a local structure.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        (usage.ru_nivcsw + usage.ru_nvcsw) as u64
    }
}

/// When another thread competes for the core, the number of stolen sections must match the number
/// of context switches that the host reports. A context switch by the host must not count as an
/// emulated interrupt.
#[test]
fn sections_the_host_interrupted_are_told_apart() {
    run_alone(|seed| {
        let mut cpu = boot();
        let before = host_switches();
        let quiet = run_undisturbed(&mut cpu, seed, 20_000);
        let switches = host_switches() - before;
        println!(
            "without a competitor: {} of {} sections stolen, {switches} switches by the host",
            quiet.sections_stolen, quiet.sections
        );
        // A busy host may preempt many sections, but each preemption must also be a context switch
        // in the host's statistics.
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
            repeat_until("40 stolen sections", || {
                let stats = run_undisturbed(&mut cpu, seed, 5_000);
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
    });
}

#[test]
fn interrupted_sections_are_not_called_stolen() {
    run_alone(|seed| {
        let mut cpu = boot();
        policy("nested").set(&mut cpu);
        cpu.reset_stats();
        let poisson = Arrivals::Poisson(10_000.0, seed);
        let before = host_switches();
        interrupted(&mut cpu, plan(keep(seed), seed), poisson, |load| {
            repeat_until("1,000 interrupted sections", || {
                load.run(50);
                load.cpu().stats().sections_interrupted >= 1_000
            });
        });
        let switches = host_switches() - before;
        let stats = cpu.stats();
        println!("{switches} switches by the host, {stats:?}");
        assert!(
            stats.sections_stolen < switches + stats.sections_interrupted / 5,
            "{stats:?}"
        );
        assert_eq!(
            cpu.softirq_latency().total(),
            stats.softirqs,
            "a latency for each softirq"
        );
    });
}
