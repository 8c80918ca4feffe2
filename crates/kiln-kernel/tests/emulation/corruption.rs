//! Tests that interrupts never change a single bit of a section's register state, except under the
//! broken control policy.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kiln_kernel::cipher::{Impl, Op};
use kiln_kernel::irq::{Arrivals, Breakpoints, CrossCore, Step, Stepping, Timer};
use kiln_kernel::load::{all_impls, best_impl, Load, TaskWork};
use kiln_measure::counters::thread_cpu_time;

use crate::machine::{
    assert_clean, attach, boot, config, correct_policies, interrupted, messages, plan, policy,
    repeat_until, run_alone, two_cores,
};

/// Number of empty loop iterations that make a section last about 10 us on a 4 GHz CPU that
/// executes one iteration per cycle. Golden Cove executes two iterations per cycle, so a section
/// lasts about half as long there.
pub(crate) const SPINS_10_US: u64 = 40_000;

/// Returns work for a task that keeps patterns in its registers, with sections of about 10 us.
pub(crate) fn keep(seed: u64) -> TaskWork {
    let spins = SPINS_10_US;
    TaskWork::Keep { seed, spins }
}

/// Returns the kinds of work to test, with their names: keeping patterns in registers, and
/// encrypting with each tier.
fn works(seed: u64, len: usize, spins: u64) -> Vec<(String, TaskWork)> {
    let mut works = vec![("patterns".into(), TaskWork::Keep { seed, spins })];
    for imp in all_impls() {
        match imp.tier().lacks() {
            // Skip the generic tier: it does not use vector registers, so it cannot lose their
            // contents.
            None if imp.tier() == kiln_kernel::Tier::Generic => {}
            None => works.push((
                imp.driver().into(),
                TaskWork::Crypt(imp, messages(seed, Op::Encrypt, len, 8)),
            )),
            Some(lacking) => println!("SKIPPED: {}: no {lacking} here", imp.driver()),
        }
    }
    works
}

/// Returns the addresses of the instructions that are executed during `operations` operations,
/// excluding interrupt handlers.
pub(crate) fn trace(load: &mut Load<'_>, operations: u64) -> BTreeSet<u64> {
    let mut stepping = Stepping::start(load.cpu(), Step::Trace).expect("stepping starts");
    load.set_stepping(true, false);
    load.run(operations);
    load.set_stepping(false, false);
    stepping.addresses(1)
}

fn since((wall, cpu): (Instant, Duration)) -> (Duration, Duration) {
    (wall.elapsed(), thread_cpu_time() - cpu)
}

/// Totals over several runs: interrupts in sections, all interrupts, and time.
#[derive(Default)]
pub(crate) struct Rate {
    in_section: u64,
    all: u64,
    time: Duration,
    cpu_time: Duration,
}

impl Rate {
    fn add(&mut self, load: &mut Load<'_>, (time, cpu_time): (Duration, Duration)) {
        let stats = load.cpu().stats();
        self.in_section += stats.irqs_in_section;
        self.all += stats.irqs;
        self.time += time;
        self.cpu_time += cpu_time;
    }

    pub(crate) fn print(&self, source: &str) {
        let per = |n: u64, time: Duration| n as f64 / time.as_secs_f64();
        println!(
            "{source}: {} interrupts, {} in sections, {:.0}/s into sections ({:.0} a second of CPU time)",
            self.all,
            self.in_section,
            per(self.in_section, self.time),
            per(self.in_section, self.cpu_time)
        );
    }
}

/// Runs the load until `wanted` interrupts have arrived inside FPU sections. An interrupt source
/// must be running.
pub(crate) fn interrupt(
    load: &mut Load<'_>,
    ops: u64,
    wanted: u64,
    rate: &mut Rate,
    mut each: impl FnMut(),
) {
    let started = (Instant::now(), thread_cpu_time());
    repeat_until("interrupts into sections", || {
        load.run(ops);
        each();
        load.cpu().stats().irqs_in_section >= wanted
    });
    rate.add(load, since(started));
}

#[test]
fn breakpoints_corrupt_nothing_in_a_million() {
    run_alone(|seed| {
        let mut cpu = boot();
        let mut total = 0;
        let mut runs = 0;
        for p in correct_policies() {
            p.set(&mut cpu);
            let mut rate = Rate::default();
            for variant in 0..8 {
                let [full, hardirq_fpu, second] = [1, 2, 4].map(|bit| variant & bit != 0);
                cpu.configure(&config(full, 100));
                for (name, task) in works(seed + variant, 512, 200) {
                    cpu.reset_stats();
                    let mut plan = plan(task, seed);
                    plan.hardirq_fpu = hardirq_fpu;
                    plan.second =
                        second.then(|| (best_impl(), messages(seed ^ 5, Op::Decrypt, 512, 8)));
                    let mut load = attach(&mut cpu, plan);
                    let addresses = trace(&mut load, 2);
                    // Use a tick to switch tasks: the second task hits no breakpoints, so it would
                    // otherwise keep the CPU.
                    let tick = second.then(|| {
                        Timer::start(load.cpu(), Arrivals::Periodic(2_000.0)).expect("a timer")
                    });
                    let mut breakpoints =
                        Breakpoints::start(load.cpu(), &addresses, seed + runs).expect("text");
                    interrupt(&mut load, 20, 8_000, &mut rate, || breakpoints.redraw());
                    drop(breakpoints);
                    drop(tick);
                    assert_clean(
                        &format!("{p}, {name}, full preemption {full}, hardirq FPU {hardirq_fpu}, second {second}"),
                        &load.counts(),
                    );
                    runs += 1;
                }
            }
            rate.print(&format!("breakpoints, {p}"));
            total += rate.in_section;
        }
        println!("{total} interrupts into sections, 0 corrupted");
        let whole = runs == 8 * 4 * 5;
        assert!(total >= 1_000_000 || !whole, "{total}");
    });
}

/// A timer interrupt may arrive while a breakpoint is being set or removed, and its softirq may
/// then execute the instruction at the breakpoint's address. This must not corrupt any result.
#[test]
fn breakpoints_are_set_while_a_timer_runs() {
    run_alone(|seed| {
        let mut cpu = boot();
        policy("nested").set(&mut cpu);
        cpu.configure(&config(true, 100));
        let plan = plan(
            TaskWork::Crypt(best_impl(), messages(seed, Op::Encrypt, 512, 8)),
            seed,
        );
        let mut load = attach(&mut cpu, plan);
        let addresses = trace(&mut load, 2);
        let _tick = Timer::start(load.cpu(), Arrivals::Poisson(20_000.0, seed)).expect("a timer");
        let mut drawn = 0;
        while load.cpu().stats().irqs < 40_000 {
            let mut breakpoints =
                Breakpoints::start(load.cpu(), &addresses, seed + drawn).expect("text");
            for _ in 0..1_000 {
                breakpoints.redraw();
            }
            drawn += 1_000;
        }
        println!("{drawn} breakpoints set, {:?}", load.cpu().stats());
        assert_clean("under a timer", &load.counts());
    });
}

fn run_timer(arrivals: Arrivals, name: &str, seed: u64) {
    let mut cpu = boot();
    for p in correct_policies() {
        p.set(&mut cpu);
        let mut rate = Rate::default();
        for full in [false, true] {
            cpu.configure(&config(full, 100));
            for (what, task) in works(seed, 16384, SPINS_10_US) {
                cpu.reset_stats();
                let mut plan = plan(task, seed);
                plan.hardirq_fpu = true;
                plan.second = Some((best_impl(), messages(seed ^ 5, Op::Encrypt, 4096, 8)));
                let counts = interrupted(&mut cpu, plan, arrivals.clone(), |load| {
                    interrupt(load, 20, 1_000, &mut rate, || ());
                });
                assert_clean(&format!("{p}, {what}, full {full}"), &counts);
            }
        }
        rate.print(&format!("{name}, {p}"));
    }
}

#[test]
fn a_periodic_timer_corrupts_nothing() {
    run_alone(|seed| run_timer(Arrivals::Periodic(33_000.0), "periodic timer", seed));
}

#[test]
fn a_poisson_timer_corrupts_nothing() {
    run_alone(|seed| run_timer(Arrivals::Poisson(33_000.0, seed), "Poisson timer", seed));
}

#[test]
fn signals_of_another_core_corrupt_nothing() {
    run_alone(|seed| {
        let Some((_, other)) = two_cores("no signals from another") else {
            return;
        };
        let mut cpu = boot();
        for p in correct_policies() {
            p.set(&mut cpu);
            let mut rate = Rate::default();
            for (what, task) in works(seed, 16384, SPINS_10_US) {
                cpu.configure(&config(true, 100));
                cpu.reset_stats();
                let mut plan = plan(task, seed);
                plan.second = Some((best_impl(), messages(seed ^ 5, Op::Encrypt, 4096, 8)));
                let mut load = attach(&mut cpu, plan);
                let sender = CrossCore::start(load.cpu(), 40_000.0, Some(other)).expect("a thread");
                interrupt(&mut load, 20, 500, &mut rate, || ());
                assert!(sender.sent() > 0);
                drop(sender);
                assert_clean(&format!("{p}, {what}"), &load.counts());
            }
            rate.print(&format!("signals from another core, {p}"));
        }
    });
}

/// Delivers an interrupt before every instruction of a section, including its start and end. Also
/// delivers a second interrupt within the resulting softirq, for various pairs of positions in the
/// section and in the softirq.
#[test]
fn stepping_corrupts_nothing() {
    run_alone(|seed| {
        let mut cpu = boot();
        let mut rate = Rate::default();
        let mut pairs = 0;
        for p in correct_policies() {
            p.set(&mut cpu);
            for (what, task) in works(seed, 512, 20) {
                cpu.reset_stats();
                let mut plan = plan(task, seed);
                plan.hardirq_fpu = true;
                // Use short messages, because the softirq is also single-stepped.
                plan.softirq.1 = messages(!seed, Op::Encrypt, 16, 8);
                plan.fallback = Impl::find("xts-aes-generic").expect("it needs no feature");
                let mut load = attach(&mut cpu, plan);
                load.set_stepping(true, false);
                let mut stepping = Stepping::start(load.cpu(), Step::Every).expect("stepping");
                let started = (Instant::now(), thread_cpu_time());
                load.run(4);
                rate.add(&mut load, since(started));
                let (instructions, _) = stepping.instructions();
                let (injected, masked) = stepping.injected();
                assert!(instructions > 0);
                assert_eq!(injected, instructions, "{p}, {what}: before every one");
                assert!(
                    masked < injected / 4,
                    "{p}, {what}: {masked} of {injected} masked"
                );

                load.set_stepping(true, true);
                let k1s = instructions / 4;
                for n in 0..12 {
                    stepping.restart(Step::Pair(n * k1s / 12, n * 7919 % 300));
                    load.run(1);
                    pairs += u64::from(stepping.instructions().1 > 0);
                }
                drop(stepping);
                load.set_stepping(false, false);
                assert_clean(&format!("{p}, {what}"), &load.counts());
            }
        }
        rate.print("single step");
        println!("{pairs} softirqs with a hardirq within them");
        assert!(pairs > 100);
    });
}

/// Control: under the policy that saves nothing, the detector must find many corruptions.
#[test]
fn without_a_policy_more_than_one_section_in_twenty_is_corrupted() {
    run_alone(|seed| {
        let mut cpu = boot();
        policy("none").set(&mut cpu);
        for (what, task) in works(seed, 16384, SPINS_10_US) {
            cpu.reset_stats();
            let keeping = matches!(task, TaskWork::Keep { .. });
            let poisson = Arrivals::Poisson(33_000.0, seed);
            let counts = interrupted(&mut cpu, plan(task, seed), poisson, |load| {
                repeat_until("20,000 operations", || {
                    load.run(20);
                    load.counts().task_ops >= 20_000
                });
            });
            let share = counts.task_corrupted as f64 / counts.task_ops as f64;
            println!(
                "none, {what}: {} of {} sections corrupted ({:.1} %), user state {} times",
                counts.task_corrupted,
                counts.task_ops,
                100.0 * share,
                counts.user_corrupted
            );
            assert!(counts.task_corrupted > 0, "{what}");
            assert!(!keeping || share > 0.05, "{what}: {share}");
            assert!(counts.user_corrupted > 0, "{what}");
        }
    });
}
