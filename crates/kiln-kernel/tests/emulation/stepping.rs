//! Tests that injecting interrupts at exact instructions is reproducible.

use kiln_kernel::cipher::Op;
use kiln_kernel::irq::{Step, Stepping};
use kiln_kernel::load::{all_impls, best_impl, TaskWork};
use kiln_kernel::Tier;

use crate::machine::{
    assert_clean, attach, boot, correct_policies, messages, plan, policy, run_alone,
};

#[test]
fn two_traces_of_an_operation_are_the_same() {
    run_alone(|seed| {
        let mut cpu = boot();
        for p in correct_policies() {
            p.set(&mut cpu);
            for imp in all_impls() {
                if imp.tier() == Tier::Generic || !imp.tier().usable() {
                    continue;
                }
                for len in [16, 512] {
                    // Use a single message, so that all operations execute the same instructions.
                    let task = TaskWork::Crypt(imp, messages(seed, Op::Encrypt, len, 1));
                    let mut load = attach(&mut cpu, plan(task, seed));
                    load.set_stepping(true, false);
                    let mut stepping =
                        Stepping::start(load.cpu(), Step::Trace).expect("stepping starts");
                    let mut traces = Vec::new();
                    for _ in 0..12 {
                        stepping.restart(Step::Trace);
                        load.run(1);
                        traces.push((stepping.instructions(), stepping.addresses(1)));
                    }
                    drop(stepping);
                    let mut kinds = traces.clone();
                    kinds.sort();
                    kinds.dedup();
                    // Traces may differ, because only a sample of the sections is timed, and timing
                    // a section takes additional instructions.
                    println!(
                        "{p}, {}, {len} B: {} instructions, {} addresses, {} kinds",
                        imp.driver(),
                        traces[0].0 .0,
                        traces[0].1.len(),
                        kinds.len()
                    );
                    assert!(kinds.len() <= 4, "{p}, {}, {len} B", imp.driver());
                    assert!(kinds.iter().all(|k| k.0 .0 > 20 && k.0 .1 == 0));
                }
            }
        }
    });
}

#[test]
fn one_point_is_one_interrupt_there() {
    run_alone(|seed| {
        let mut cpu = boot();
        for name in ["nested", "legacy"] {
            policy(name).set(&mut cpu);
            let task = TaskWork::Crypt(best_impl(), messages(seed, Op::Encrypt, 512, 1));
            let mut load = attach(&mut cpu, plan(task, seed));
            load.set_stepping(true, false);
            let mut stepping = Stepping::start(load.cpu(), Step::Trace).expect("stepping starts");
            load.run(1);
            let (instructions, _) = stepping.instructions();
            for k in [instructions / 2, instructions / 3] {
                let before = load.cpu().stats();
                let (injected, masked) = stepping.injected();
                stepping.restart(Step::At(k));
                load.run(1);
                assert_eq!(stepping.injected(), (injected + 1, masked), "{name}, {k}");
                let after = load.cpu().stats();
                assert_eq!(after.irqs, before.irqs + 1);
                assert_eq!(after.irqs_in_section, before.irqs_in_section + 1);
                assert_eq!(after.softirqs, before.softirqs + 1);
            }
            // Select an instruction number beyond the last instruction. This must not cause an
            // interrupt.
            let before = load.cpu().stats().irqs;
            stepping.restart(Step::At(1 << 40));
            load.run(1);
            assert_eq!(load.cpu().stats().irqs, before);
            drop(stepping);
            assert_clean(name, &load.counts());
        }
    });
}

/// Under the broken policy, an interrupt at an instruction where registers are live must corrupt
/// the result every time. Otherwise a replay would not be reproducible.
#[test]
fn a_point_that_corrupts_does_so_again() {
    run_alone(|seed| {
        let mut cpu = boot();
        policy("none").set(&mut cpu);
        let task = TaskWork::Keep { seed, spins: 40 };
        let mut load = attach(&mut cpu, plan(task, seed));
        load.set_stepping(true, false);
        let mut stepping = Stepping::start(load.cpu(), Step::Trace).expect("stepping starts");
        load.run(1);
        let (instructions, _) = stepping.instructions();
        let k = instructions / 2;
        for n in 1..=20 {
            stepping.restart(Step::At(k));
            load.run(1);
            assert_eq!(load.counts().task_corrupted, n, "at {k} of {instructions}");
        }
    });
}
