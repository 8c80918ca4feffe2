//! Slice and preemption model decide who runs, and what is done to a section when they do.

use std::time::{Duration, Instant};

use kiln_kernel::cpu::{Config, Cpu, Stats};
use kiln_kernel::fpu::{usable, Context, Policy};
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::load::{Load, Plan, TaskWork};
use kiln_kernel::xts::{Impl, Op};

use crate::machine::{alone, assert_clean, boot, correct, messages, plan, policy, until};

/// A task and a kthread that both encrypt for as long as they may.
fn two_tasks(seed: u64) -> Plan {
    let task = messages(seed, Op::Encrypt, 16384, 8);
    Plan {
        second: Some((Impl::best(), messages(seed ^ 5, Op::Encrypt, 16384, 8))),
        ..plan(TaskWork::Crypt(Impl::best(), task), seed)
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
    let mut load = Load::attach(cpu, two_tasks(seed)).expect("tiers are there");
    load.set_empty(quiet);
    let timer = Timer::start(load.cpu(), Arrivals::Periodic(20_000.0)).expect("a timer");
    until("the scheduler's doings", || {
        load.run(50);
        done(&load.cpu().stats())
    });
    drop(timer);
    let counts = load.counts();
    assert_clean("two tasks", &counts);
    assert!(counts.second_ops > 0, "the kthread had its share");
    let stats = load.cpu().stats();
    drop(load);
    assert_eq!(
        usable(cpu, Context::Task, false).preempt_count,
        0,
        "the count is back where it was"
    );
    (stats, started.elapsed())
}

fn config(preempt_full: bool, slice_us: u64) -> Config {
    Config {
        preempt_full,
        tick_us: 50,
        slice_us,
        switch_ns: 0,
        ..Config::default()
    }
}

#[test]
fn only_full_preemption_preempts() {
    alone("scheduling::only_full_preemption_preempts", |seed| {
        let mut cpu = boot();
        for p in correct() {
            p.set(&mut cpu);
            cpu.configure(&config(false, 100));
            let (voluntary, _) = run(&mut cpu, seed, false, |s| s.switches >= 500);
            assert_eq!(voluntary.preemptions, 0, "{p}");
            cpu.configure(&config(true, 100));
            let (full, _) = run(&mut cpu, seed, false, |s| s.preemptions >= 100);
            println!(
                "{p}: {} of {} switches preempted",
                full.preemptions, full.switches
            );
            assert!(full.preemptions <= full.switches);
        }
    });
}

#[test]
fn a_longer_slice_means_fewer_switches() {
    alone("scheduling::a_longer_slice_means_fewer_switches", |seed| {
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
            assert!(
                long.switches <= took.as_millis() as u64 / LONG_MS + 8,
                "{long:?}"
            );
        }
    });
}

#[test]
fn a_switch_is_charged() {
    alone("scheduling::a_switch_is_charged", |seed| {
        const NS: u64 = 200_000;
        let mut cpu = boot();
        cpu.configure(&Config {
            switch_ns: NS,
            ..config(false, 100)
        });
        let (stats, took) = run(&mut cpu, seed, true, |s| s.switches >= 200);
        assert!(
            took.as_nanos() as u64 >= stats.switches * NS * 9 / 10,
            "{took:?}"
        );
    });
}

#[test]
fn only_preemptible_saves_sections_at_a_switch() {
    alone(
        "scheduling::only_preemptible_saves_sections_at_a_switch",
        |seed| {
            let mut cpu = boot();
            for p in Policy::all().into_iter().filter(|p| !p.is_broken()) {
                p.set(&mut cpu);
                let preemptible = p.name() == "preemptible";
                cpu.configure(&config(true, 100));
                let (full, _) = run(&mut cpu, seed, false, |s| {
                    s.preemptions >= 500 && (!preemptible || s.task_saves >= 50)
                });
                println!(
                    "{p}: {} sections saved in {} preemptions",
                    full.task_saves, full.preemptions
                );
                assert_eq!(full.task_saves > 0, preemptible, "{p}");
                cpu.configure(&config(false, 100));
                let (voluntary, _) = run(&mut cpu, seed, false, |s| s.switches >= 500);
                assert_eq!(voluntary.task_saves, 0, "{p}, voluntary");
            }
        },
    );
}

/// Libc and Rust may hold a lock out there.
#[test]
fn interrupts_outside_the_gate_never_schedule() {
    alone(
        "scheduling::interrupts_outside_the_gate_never_schedule",
        |seed| {
            let mut cpu = boot();
            policy("preemptible").set(&mut cpu);
            cpu.configure(&Config {
                tick_us: 0,
                ..config(true, 0)
            });
            let mut load = Load::attach(&mut cpu, two_tasks(seed)).expect("tiers are there");
            let timer = Timer::start(load.cpu(), Arrivals::Periodic(10_000.0)).expect("a timer");
            load.run(50);
            let before = load.cpu().stats();
            until("2,000 interrupts in user mode", || {
                load.cpu().stats().irqs_user >= before.irqs_user + 2_000
            });
            let after = load.cpu().stats();
            assert_eq!(after.switches, before.switches);
            // The others came into the softirqs of these: a late one meets them.
            let (all, user) = (after.irqs - before.irqs, after.irqs_user - before.irqs_user);
            assert!(all - user <= all / 10, "{user} of {all} found user mode");
            assert!(after.softirqs >= before.softirqs + 1_000, "softirqs do run");
            // What they wanted is done on the way out of the next entry.
            load.run(1);
            assert!(load.cpu().stats().switches > after.switches);
            drop(timer);
            assert_clean("user mode", &load.counts());
        },
    );
}
