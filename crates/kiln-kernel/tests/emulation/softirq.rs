//! Tests the limits of the softirq loop, ksoftirqd and the kworker. No softirq or work item may be
//! lost.

use kiln_kernel::cpu::{kiln_tsc_hz, Config, Cpu};
use kiln_kernel::storm::Storm;

use crate::machine::{boot, run_alone};

/// Checks that all softirqs and work items were served, and that the kworker ran the work items.
#[track_caller]
fn assert_served(storm: &Storm) {
    assert_eq!(storm.served, storm.raises, "{storm:?}");
    assert_eq!(storm.works_run, storm.works_accepted, "{storm:?}");
    assert_eq!(storm.works_misplaced, 0, "{storm:?}");
    assert_eq!((storm.count_before, storm.count_after), (0, 0), "{storm:?}");
}

/// Runs a storm up to 20 times, until its first loop serves all softirqs. The loop also ends after
/// 2 ms, so it serves fewer softirqs if the host suspends the CPU for that long.
#[track_caller]
fn run_in_one_loop(cpu: &mut Cpu, storm: Storm) -> Storm {
    let mut last = storm;
    for _ in 0..20 {
        cpu.reset_stats();
        last = storm.run(cpu);
        assert_served(&last);
        if last.first_loop == storm.raises {
            break;
        }
    }
    last
}

#[test]
fn ten_restarts_then_ksoftirqd() {
    run_alone(|_| {
        let mut cpu = boot();
        let storm = Storm {
            raises: 5_000,
            ..Storm::default()
        }
        .run(&mut cpu);
        assert_served(&storm);
        let stats = cpu.stats();
        println!("{storm:?}\n{stats:?}");
        // The loop serves ten softirqs, or fewer if the host suspends the CPU for 2 ms.
        assert!((1..=10).contains(&storm.first_loop), "{storm:?}");
        assert_eq!(storm.by_ksoftirqd, storm.served - storm.first_loop);
        // Each loop serves at most ten softirqs, and every loop except the last defers the rest.
        assert!(stats.softirqs_deferred >= 499, "{stats:?}");
        assert_eq!(stats.softirqs, 5_000);
        assert_eq!(cpu.softirq_latency().total(), 5_000);
        assert!(stats.switches >= 2, "to ksoftirqd and back");
    });
}

#[test]
fn less_than_the_limits_stays_out_of_ksoftirqd() {
    run_alone(|_| {
        let mut cpu = boot();
        let storm = Storm {
            raises: 3,
            ..Storm::default()
        };
        let storm = run_in_one_loop(&mut cpu, storm);
        assert_eq!((storm.first_loop, storm.by_ksoftirqd), (3, 0));
        assert_eq!(cpu.stats().softirqs_deferred, 0);
    });
}

#[test]
fn two_milliseconds_then_ksoftirqd() {
    run_alone(|_| {
        let mut cpu = boot();
        let storm = Storm {
            raises: 40,
            spin_us: 700,
            ..Storm::default()
        }
        .run(&mut cpu);
        println!("{storm:?}");
        assert_served(&storm);
        // Three softirqs take at least 2.1 ms, which exceeds the limit of 2 ms.
        assert!((1..=3).contains(&storm.first_loop), "{storm:?}");
        assert!(cpu.stats().softirqs_deferred >= 13, "{:?}", cpu.stats());
    });
}

/// The softirq loop ends early if a tick finds that the slice has ended and another task is
/// waiting.
#[test]
fn a_wish_to_reschedule_ends_the_loop() {
    run_alone(|_| {
        let mut cpu = boot();
        cpu.configure(&Config {
            tick_us: 0,
            slice_us: 0,
            ..Config::default()
        });
        let storm = Storm {
            raises: 100,
            interrupt: true,
            bystander: true,
            ..Storm::default()
        };
        let quick = storm.run(&mut cpu);
        println!("{quick:?}");
        assert_served(&quick);
        assert_eq!(quick.first_loop, 1, "{quick:?}");
        // If no other task is waiting, the loop continues.
        let cpu_alone = Storm {
            bystander: false,
            raises: 5,
            ..storm
        };
        let cpu_alone = run_in_one_loop(&mut cpu, cpu_alone);
        assert_eq!(cpu_alone.first_loop, 5, "{cpu_alone:?}");
    });
}

/// A softirq raised during another softirq must wait until that softirq has finished. This is why
/// softirqs start late on a busy core.
#[test]
fn a_raise_over_a_softirq_waits_for_its_end() {
    run_alone(|_| {
        const SPIN_US: u32 = 50;
        let mut cpu = boot();
        let storm = Storm {
            raises: 1_000,
            spin_us: SPIN_US,
            interrupt: true,
            raise_in_irq: true,
            ..Storm::default()
        };
        let mut run = |storm: Storm| {
            cpu.reset_stats();
            let storm = storm.run(&mut cpu);
            assert_served(&storm);
            let median = cpu.softirq_latency().quantile(0.5).expect("not empty");
            let us = median as f64 / (kiln_tsc_hz() / 1e6);
            let stats = cpu.stats();
            println!(
                "{} of {} raised over a softirq, median start after {us:.2} us",
                stats.softirqs_behind, stats.softirqs
            );
            assert_eq!(stats.softirqs, u64::from(storm.raises));
            (stats.softirqs_behind, us)
        };
        // The task's interrupt raises the first softirq. Every other softirq is raised while an
        // earlier softirq runs.
        let (behind, late) = run(storm);
        assert_eq!(behind, 999);
        assert!(late >= f64::from(SPIN_US) / 2.0, "{late}");
        // With longer softirqs but otherwise the same settings, each softirq must wait longer.
        let (behind, later) = run(Storm {
            spin_us: 4 * SPIN_US,
            ..storm
        });
        assert_eq!(behind, 999);
        assert!(later >= f64::from(2 * SPIN_US), "{later}");
        // Control: the same number of interrupts arrive during softirqs, but do not raise softirqs.
        let (behind, _) = run(Storm {
            raise_in_irq: false,
            ..storm
        });
        assert_eq!(behind, 0);
    });
}

#[test]
fn works_run_in_the_kworker_and_none_is_lost() {
    run_alone(|_| {
        let mut cpu = boot();
        for preempt_full in [false, true] {
            cpu.configure(&Config {
                preempt_full,
                tick_us: 20,
                slice_us: 20,
                ..Config::default()
            });
            for bystander in [false, true] {
                let storm = Storm {
                    raises: 20_000,
                    interrupt: true,
                    bystander,
                    queue_works: true,
                    ..Storm::default()
                }
                .run(&mut cpu);
                println!("full preemption {preempt_full}: {storm:?}");
                assert_served(&storm);
                assert!(storm.works_accepted >= 4);
                assert_eq!(storm.works_accepted + storm.works_refused, 4 * storm.raises);
            }
        }
    });
}
