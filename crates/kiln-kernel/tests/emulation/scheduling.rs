//! Tests scheduling: how the slice and the preemption model determine which task runs, and what
//! happens to a section at a task switch.

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

/// Returns a plan in which a task and a kthread compete for the CPU. Both encrypt.
fn two_tasks(seed: u64) -> Plan {
    let task = messages(seed, Op::Encrypt, 16384, 8);
    Plan {
        second: Some((best_impl(), messages(seed ^ 5, Op::Encrypt, 16384, 8))),
        ..plan(TaskWork::Crypt(best_impl(), task), seed)
    }
}

/// Runs both tasks while a timer interrupts them, until `done` returns true. With `quiet`,
/// interrupts do nothing except drive the scheduler tick.
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
            // Only the policy `preemptible` saves sections at a task switch.
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
            // Allow one involuntary switch per slice, and a few at the start and end of the load.
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

/// Outside the gate, a task switch must not occur, because libc or Rust may hold a lock.
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
            // Tolerate a few late interrupts that arrived while an earlier interrupt's softirq was
            // running, instead of in user mode.
            let (all, user) = (after.irqs - before.irqs, after.irqs_user - before.irqs_user);
            assert!(all - user <= all / 10, "{user} of {all} found user mode");
            assert!(after.softirqs >= before.softirqs + 1_000, "softirqs do run");
            // The pending task switch must occur in the next kernel entry.
            load.run(1);
            assert!(load.cpu().stats().switches > after.switches);
        });
        assert_clean("user mode", &counts);
    });
}

/// Length in microseconds of a tick period or slice that must not end during a test, even on a slow
/// host.
const NEVER_US: u64 = 10_000_000;

/// Boots a CPU on which one task sleeps and is woken. Returns the results of the experiment.
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

/// Returns a CFS configuration in which the latency period does not exceed the wakeup granularity.
fn short_latency() -> Config {
    let cfs = Config::for_scheduler(Scheduler::Cfs61, 1);
    Config {
        latency_us: cfs.wakeup_us,
        ..cfs
    }
}

/// A task that uses more than its share and then sleeps for a long time, so that it has no lag
/// under EEVDF.
const SPENT: Wakeup = Wakeup {
    wait_us: 0,
    busy_us: 10_000,
    asleep_us: 60_000,
    preempted: false,
    busy_for: 0,
    asleep_for: 0,
    slice_left: 0,
};

/// A task that waits before it first runs and then sleeps immediately, so that it has lag under
/// EEVDF.
const WAITED: Wakeup = Wakeup {
    wait_us: 60_000,
    busy_us: 0,
    asleep_us: 0,
    ..SPENT
};

/// Repeats the experiment until the sleeper has run for less than half as long as the other task.
/// The condition may fail if the host prolongs the sleeper's run.
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
            // RUN_TO_PARITY: a woken task must not preempt before the running task's slice ends.
            let preempts = |slice| wake_in_order(&with_slice(s, slice), SPENT).preempted;
            assert!(!preempts(NEVER_US), "{s}");
            // Control: with a short slice, which has already ended, the woken task preempts.
            assert!(preempts(1_000), "{s}");
        }
        // CFS limits a sleeper's bonus to half the latency period, which is less than the wakeup
        // granularity here.
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
            // Control: with the same slice but without lag, the woken task does not preempt.
            assert!(!wake_in_order(&config, SPENT).preempted, "{s}");
        }
        // CFS keeps no lag, so waiting longer than half the latency period brings no advantage.
        assert!(!wake(short_latency(), WAITED).preempted);
    });
}

/// The base slice is longer on a machine with more CPUs. A task that wakes up after 1.5 ms must
/// therefore preempt on a machine with one CPU, but not on a machine with eight CPUs.
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
                    // Repeat the run if the host delayed it, because the task's slice may then have
                    // ended.
                    (woken.asleep_for + woken.busy_for) as f64 <= 2.2e-3 * kiln_tsc_hz()
                });
                assert_eq!(woken.preempted, preempts, "{s} {cpus}");
            }
        }
    });
}
