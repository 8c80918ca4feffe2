//! Slice and preemption model determine which task runs, and what happens to its section at a switch.

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

/// A task and a kthread that both encrypt as long as they may.
fn two_tasks(seed: u64) -> Plan {
    let task = messages(seed, Op::Encrypt, 16384, 8);
    Plan {
        second: Some((best_impl(), messages(seed ^ 5, Op::Encrypt, 16384, 8))),
        ..plan(TaskWork::Crypt(best_impl(), task), seed)
    }
}

/// Runs both under a timer until `done`. With `quiet`, interrupts only cause the tick.
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
        repeat_until("the scheduler's switches", || {
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
            // Involuntary switches occur once per slice; the rest belong to the start and the end of the load.
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

/// Outside the gate, libc or Rust may hold a lock.
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
            // The other interrupts arrived during the softirqs of these, because they were late.
            let (all, user) = (after.irqs - before.irqs, after.irqs_user - before.irqs_user);
            assert!(all - user <= all / 10, "{user} of {all} found user mode");
            assert!(after.softirqs >= before.softirqs + 1_000, "softirqs do run");
            // Pending work runs on return from the next entry.
            load.run(1);
            assert!(load.cpu().stats().switches > after.switches);
        });
        assert_clean("user mode", &counts);
    });
}

/// A time that no tick and no slice reaches during the test, whatever the host does.
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

/// The task uses more than its share, then sleeps for long, so under EEVDF it has no lag.
const SPENT: Wakeup = Wakeup {
    wait_us: 0,
    busy_us: 10_000,
    asleep_us: 60_000,
    preempted: false,
    busy_for: 0,
    asleep_for: 0,
    slice_left: 0,
};

/// The task waits before it runs and sleeps at once, so under EEVDF it has lag.
const WAITED: Wakeup = Wakeup {
    wait_us: 60_000,
    busy_us: 0,
    asleep_us: 0,
    ..SPENT
};

/// Repeats the experiment until the host does not prolong the sleeper's run beyond the other task's.
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
            // RUN_TO_PARITY: no preemption before the running task's slice has ended.
            let preempts = |slice| wake_in_order(&with_slice(s, slice), SPENT).preempted;
            assert!(!preempts(NEVER_US), "{s}");
            // The control: a slice that has ended by then.
            assert!(preempts(1_000), "{s}");
        }
        // With CFS, a sleeper's bonus is limited to half the latency period.
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
            // The control: the same slice without lag.
            assert!(!wake_in_order(&config, SPENT).preempted, "{s}");
        }
        // CFS keeps no lag: waiting longer than half the latency period gains nothing.
        assert!(!wake(short_latency(), WAITED).preempted);
    });
}

/// A wake-up after 1.5 ms comes after the base slice for one CPU, but within that for eight.
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
                    // The host may also have prolonged the other task's run.
                    (woken.asleep_for + woken.busy_for) as f64 <= 2.2e-3 * kiln_tsc_hz()
                });
                assert_eq!(woken.preempted, preempts, "{s} {cpus}");
            }
        }
    });
}
