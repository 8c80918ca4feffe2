//! Slice and preemption model decide who runs, and what is done to a section when they do.

use std::time::{Duration, Instant};

use kiln_kernel::cipher::Op;
use kiln_kernel::cpu::{kiln_tsc_hz, Config, Cpu, Scheduler, Stats};
use kiln_kernel::fpu::{usable, Context};
use kiln_kernel::irq::Arrivals;
use kiln_kernel::load::{best_impl, Plan, TaskWork};
use kiln_kernel::wakeup::Wakeup;

use crate::machine::{
    assert_clean, boot, config, cores, correct_policies, interrupted, messages, pin, plan, policy,
    repeat_until, run_alone,
};

/// A task and a kthread that both encrypt for as long as they may.
fn two_tasks(seed: u64) -> Plan {
    let task = messages(seed, Op::Encrypt, 16384, 8);
    Plan {
        second: Some((best_impl(), messages(seed ^ 5, Op::Encrypt, 16384, 8))),
        ..plan(TaskWork::Crypt(best_impl(), task), seed)
    }
}

/// Run both under a timer until `done`. With `quiet`, interrupts bring the tick alone.
fn run(
    cpu: &mut Cpu,
    seed: u64,
    quiet: bool,
    mut done: impl FnMut(&Stats) -> bool,
) -> (Stats, Duration) {
    cpu.reset_stats();
    let started = Instant::now();
    let mut stats = Stats::default();
    let counts = interrupted(cpu, two_tasks(seed), Arrivals::Periodic(20_000.0), |load| {
        load.set_empty(quiet);
        repeat_until("the scheduler's doings", || {
            load.run(50);
            stats = load.cpu().stats();
            done(&stats)
        });
    });
    assert_clean("two tasks", &counts);
    assert!(counts.second_ops > 0, "the kthread had its share");
    let count = usable(cpu, Context::Task, false).preempt_count;
    assert_eq!(count, 0, "it is back where it was");
    (stats, started.elapsed())
}

#[test]
fn only_full_preemption_preempts_and_only_preemptible_saves_at_a_switch() {
    run_alone(|seed| {
        let mut cpu = boot();
        for p in correct_policies() {
            p.set(&mut cpu);
            cpu.configure(&config(false, 100));
            let (voluntary, _) = run(&mut cpu, seed, false, |s| s.switches >= 500);
            assert_eq!((voluntary.preemptions, voluntary.task_saves), (0, 0), "{p}");
            // Only `preemptible` saves sections at a switch.
            let preemptible = p.name() == "preemptible";
            cpu.configure(&config(true, 100));
            let (full, _) = run(&mut cpu, seed, false, |s| {
                s.preemptions >= 500 && (!preemptible || s.task_saves >= 50)
            });
            let (saves, preemptions) = (full.task_saves, full.preemptions);
            println!("{p}: {saves} sections saved in {preemptions} preemptions");
            assert_eq!(saves > 0, preemptible, "{p}");
            assert!(preemptions <= full.switches);
        }
    });
}

#[test]
fn a_longer_slice_means_fewer_switches() {
    run_alone(|seed| {
        const LONG_MS: u64 = 20;
        let mut cpu = boot();
        policy("legacy").set(&mut cpu);
        for full in [false, true] {
            cpu.configure(&config(full, 100));
            let (short, time) = run(&mut cpu, seed, true, |s| s.switches >= 1_000);
            cpu.configure(&config(full, LONG_MS * 1000));
            let started = Instant::now();
            let (long, took) = run(&mut cpu, seed, true, |s| {
                started.elapsed() >= time && s.switches >= 2
            });
            println!(
                "full preemption {full}: {} switches in {time:.1?} with a slice of 100 us, {} in {took:.1?} with {LONG_MS} ms",
                short.switches, long.switches
            );
            // A switch that nobody asked for comes after a slice; the rest belong to the
            // start and the end of the load.
            let most = took.as_millis() as u64 / LONG_MS + 8;
            assert!(long.switches <= most, "{long:?}");
        }
    });
}

#[test]
fn a_switch_is_charged() {
    run_alone(|seed| {
        const NS: u64 = 200_000;
        let mut cpu = boot();
        cpu.configure(&Config {
            switch_ns: NS,
            ..config(false, 100)
        });
        let (stats, took) = run(&mut cpu, seed, true, |s| s.switches >= 200);
        let charged = stats.switches * NS * 9 / 10;
        assert!(took.as_nanos() as u64 >= charged, "{took:?}");
    });
}

/// Libc and Rust may hold a lock out there.
#[test]
fn interrupts_outside_the_gate_never_schedule() {
    run_alone(|seed| {
        let mut cpu = boot();
        policy("preemptible").set(&mut cpu);
        cpu.configure(&Config {
            tick_us: 0,
            ..config(true, 0)
        });
        let periodic = Arrivals::Periodic(10_000.0);
        let counts = interrupted(&mut cpu, two_tasks(seed), periodic, |load| {
            load.run(50);
            let before = load.cpu().stats();
            repeat_until("2,000 interrupts in user mode", || {
                load.cpu().stats().irqs_user >= before.irqs_user + 2_000
            });
            let after = load.cpu().stats();
            assert_eq!(after.switches, before.switches);
            // The others interrupted the softirqs of these: a late one meets them.
            let (all, user) = (after.irqs - before.irqs, after.irqs_user - before.irqs_user);
            assert!(all - user <= all / 10, "{user} of {all} found user mode");
            assert!(after.softirqs >= before.softirqs + 1_000, "softirqs do run");
            // What they wanted is done on the way out of the next entry.
            load.run(1);
            assert!(load.cpu().stats().switches > after.switches);
        });
        assert_clean("user mode", &counts);
    });
}

/// No tick and no end of a slice comes before this, whatever the host does meanwhile.
const NEVER_US: u64 = 10_000_000;

/// A task sleeps on a CPU of its own and is woken.
fn wake(config: Config, wakeup: Wakeup) -> Wakeup {
    let mut cpu = Cpu::boot(&Config {
        preempt_full: true,
        tick_us: NEVER_US,
        switch_ns: 0,
        ..config
    })
    .expect("a CPU boots");
    let woken = wakeup.run(&mut cpu);
    let (scheduler, slice_us) = (config.scheduler, config.slice_us);
    println!("{scheduler}, slice {slice_us} us: {woken:?}");
    woken
}

fn with_slice(scheduler: Scheduler, slice_us: u64) -> Config {
    Config {
        slice_us,
        ..Config::for_scheduler(scheduler, 1)
    }
}

/// CFS with a latency period that does not exceed its wake-up granularity.
fn short_latency() -> Config {
    let cfs = Config::for_scheduler(Scheduler::Cfs61, 1);
    Config {
        latency_us: cfs.wakeup_us,
        ..cfs
    }
}

/// It has had more than its share, then sleeps for long: without lag under EEVDF.
const SPENT: Wakeup = Wakeup {
    wait_us: 0,
    busy_us: 10_000,
    asleep_us: 60_000,
    preempted: false,
    busy_for: 0,
    asleep_for: 0,
    slice_left: 0,
};

/// It had to wait before it ran, and slept at once: with lag under EEVDF.
const WAITED: Wakeup = Wakeup {
    wait_us: 60_000,
    busy_us: 0,
    asleep_us: 0,
    ..SPENT
};

/// Run it until the host has not stretched the sleeper's run beyond the other's.
fn wake_in_order(config: &Config, wakeup: Wakeup) -> Wakeup {
    let mut woken = wakeup;
    repeat_until("an undisturbed wake-up", || {
        woken = wake(config.clone(), wakeup);
        woken.busy_for * 2 < woken.asleep_for
    });
    woken
}

#[test]
fn a_long_sleeper_preempts_under_cfs_and_waits_under_eevdf() {
    run_alone(|_| {
        pin(cores()[0]);
        let cfs = Config::for_scheduler(Scheduler::Cfs61, 1);
        assert!(wake_in_order(&cfs, SPENT).preempted);
        for s in [Scheduler::Eevdf612, Scheduler::Eevdf73] {
            // RUN_TO_PARITY: not before the running task's slice is over.
            let preempts = |slice| wake_in_order(&with_slice(s, slice), SPENT).preempted;
            assert!(!preempts(NEVER_US), "{s}");
            // The control: a slice that is over by then.
            assert!(preempts(1_000), "{s}");
        }
        // CFS again: what a sleeper gains is limited to half the latency period.
        assert!(!wake_in_order(&short_latency(), SPENT).preempted);
    });
}

#[test]
fn a_task_with_lag_preempts_under_eevdf() {
    run_alone(|_| {
        pin(cores()[0]);
        for s in [Scheduler::Eevdf612, Scheduler::Eevdf73] {
            let config = with_slice(s, NEVER_US);
            let woken = wake(config.clone(), WAITED);
            assert!(woken.preempted && woken.slice_left > 0, "{s}");
            // The control: the same slice, no lag.
            assert!(!wake_in_order(&config, SPENT).preempted, "{s}");
        }
        // CFS keeps no lag: beyond half the latency period the wait is forgotten.
        assert!(!wake(short_latency(), WAITED).preempted);
    });
}

/// A wake-up after 1.5 ms is behind the base slice of one CPU and within that of eight.
#[test]
fn a_slice_is_scaled_by_cpus() {
    run_alone(|_| {
        pin(cores()[0]);
        let spent = Wakeup {
            busy_us: 100,
            asleep_us: 1_500,
            ..SPENT
        };
        for s in [Scheduler::Eevdf612, Scheduler::Eevdf73] {
            for (cpus, preempts) in [(1, true), (8, false)] {
                let config = Config::for_scheduler(s, cpus);
                let mut woken = spent;
                repeat_until("an undisturbed wake-up", || {
                    woken = wake_in_order(&config, spent);
                    // The host may have stretched the other's run, too.
                    (woken.asleep_for + woken.busy_for) as f64 <= 2.2e-3 * kiln_tsc_hz()
                });
                assert_eq!(woken.preempted, preempts, "{s} {cpus}");
            }
        }
    });
}
