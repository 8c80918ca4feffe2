//! Tests softirqs that process ESP packets while a task encrypts. Packets must be correct under
//! every policy. With asynchronous requests, the number of dropped packets depends on the
//! scheduler's slice. The receiver must reject exactly those packets that are duplicates or older
//! than its replay window.

use std::collections::HashSet;
use std::sync::Arc;

use kiln_kernel::cipher::Op;
use kiln_kernel::cpu::{Config, Cpu, Scheduler};
use kiln_kernel::crypto::Model;
use kiln_kernel::esp::replay::{broken, Window};
use kiln_kernel::esp::{Arrival, Esp, Outcome, Plan, Transform, IN, OUT};
use kiln_kernel::fpu::Policy;
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::load::{best_impl, Messages};

use crate::machine::{boot, correct_policies, judge, messages, policy, random, run_alone};

const IRQ_HZ: f64 = 4000.0;
const MS: u64 = 1_000_000;

fn sectors(seed: u64) -> Arc<Messages> {
    messages(seed, Op::Encrypt, 4096, 16)
}

/// Returns a plan with evenly spaced packets in three phases: low, high and low load. For each
/// phase, `rates` contains the packets per second, and `ms` the duration in milliseconds.
fn plan(transform: Transform, rates: [u64; 3], ms: [u64; 3]) -> Plan {
    let mut arrivals = Vec::new();
    let (mut at, mut end) = (0, [0; 3]);
    for i in 0..3 {
        let stop = end[i.max(1) - 1] * u64::from(i > 0) + ms[i] * MS;
        while at < stop {
            let n = arrivals.len() as u32;
            arrivals.push(Arrival {
                at,
                packet: n % 12,
                flow: n % 2,
            });
            at += 1_000_000_000 / rates[i];
        }
        at = stop;
        end[i] = stop;
    }
    Plan {
        transform,
        sizes: [[40; 7].as_slice(), &[576; 4], &[1500; 1]].concat(),
        arrivals: arrivals.into(),
        phase_end: end,
        window: 64,
        own_every: 16,
        irq_ns: (1e9 / IRQ_HZ) as u64,
        stack_ns: 0,
        log: 0,
    }
}

fn model(p: Policy) -> Model {
    match p.name() {
        "legacy" => Model::Helper,
        _ => Model::Direct,
    }
}

fn run(cpu: &mut Cpu, p: Policy, plan: &Plan, seed: u64) -> Outcome {
    p.set(cpu);
    model(p).set();
    let mut random = random(seed);
    let mut esp = Esp::new(plan, sectors(seed), &mut random).expect("the drivers are there");
    let timer = Timer::start(cpu, Arrivals::Periodic(IRQ_HZ)).expect("a timer");
    let outcome = esp.run(cpu, 8, false);
    drop(timer);
    outcome
}

fn wrong(o: &Outcome) -> u64 {
    let flows: u64 = o.flows.iter().map(|f| f.corrupted).sum();
    flows + o.sectors_corrupted + o.user_corrupted
}

/// Checks that every packet is accounted for.
#[track_caller]
fn assert_accounted(o: &Outcome, plan: &Plan) {
    let [i, f] = o.flows;
    for f in [i, f] {
        assert_eq!(f.sent, f.done + f.dropped, "{o:?}");
        assert!(f.replay_lost <= f.reordered, "{f:?}");
    }
    assert_eq!(o.arrived, plan.arrivals.len() as u64);
    assert!(i.sent + f.sent + o.missed <= o.arrived + o.own_packets);
}

#[test]
fn packets_are_right_under_every_policy() {
    run_alone(|seed| {
        let mut cpu = boot();
        for transform in [Transform::Rfc4106, Transform::CbcHmac] {
            let plan = plan(transform, [20_000, 150_000, 20_000], [10, 40, 10]);
            for p in correct_policies() {
                let o = run(&mut cpu, p, &plan, seed);
                println!(
                    "{p}, {transform:?}: {:?} {:?} {:?}",
                    o.flows, o.missed, o.recovery_us
                );
                assert_eq!(wrong(&o), 0, "{p}: {o:?}");
                assert_accounted(&o, &plan);
                assert!(o.flows.iter().all(|f| f.done > 1000), "{p}: {o:?}");
                let later = o.flows.iter().map(|f| f.async_punts).sum::<u64>();
                if p.name() == "legacy" && best_impl().tier() != kiln_kernel::Tier::Generic {
                    assert!(later > 0, "{o:?}");
                } else {
                    assert_eq!(later, 0, "{p}");
                }
            }
        }
    });
}

#[test]
fn a_policy_that_saves_nothing_is_caught() {
    run_alone(|seed| {
        let mut cpu = boot();
        let plan = plan(Transform::Rfc4106, [20_000, 50_000, 20_000], [20, 60, 20]);
        let o = run(&mut cpu, policy("none"), &plan, seed);
        println!("{} of {} sectors wrong", o.sectors_corrupted, o.sectors);
        assert!(o.sectors_corrupted > 0, "{o:?}");
    });
}

/// Configures CFS with a latency of two slices, one for each task. A woken task preempts the
/// running task if its virtual runtime is `wakeup_us` behind.
fn cfs(slice_us: u64, wakeup_us: u64) -> Config {
    Config {
        scheduler: Scheduler::Cfs61,
        tick_us: 100,
        slice_us,
        latency_us: 2 * slice_us,
        wakeup_us,
        switch_ns: 0,
        ..Config::default()
    }
}

/// Returns how many nanoseconds it takes to process a packet without interrupts. This is the
/// minimum of several runs, because the host is unlikely to have interrupted the fastest run.
fn price_ns(cpu: &mut Cpu, seed: u64) -> f64 {
    let p = policy("bh-off");
    p.set(cpu);
    model(p).set();
    let plan = plan(Transform::Rfc4106, [20_000; 3], [1; 3]);
    let mut esp = Esp::new(&plan, sectors(seed), &mut random(seed)).expect("the drivers are there");
    let prices = (0..20).map(|_| esp.price_ns(cpu, 1_000));
    prices.fold(f64::INFINITY, f64::min)
}

/// The longer a task keeps the CPU while the kworker waits, the more packets are dropped because
/// cryptd's queue is full. If the woken kworker preempts the task, the slice does not matter.
#[test]
fn the_collapse_moves_with_the_slice_unless_wake_ups_preempt() {
    run_alone(|seed| {
        if best_impl().tier() == kiln_kernel::Tier::Generic {
            return println!("SKIPPED: no SIMD tier here, so nothing goes to cryptd");
        }
        let mut cpu = boot();
        // Processing the packets takes at most 6 % of a core, so that the kworker keeps up if
        // slices are short. The long slice lasts until 6,000 packets have arrived at the high rate,
        // and the phase of high load lasts until 60,000 have arrived.
        let price_ns = price_ns(&mut cpu, seed);
        let rate = (0.06e9 / price_ns).min(300_000.0) as u64;
        let (long_us, ms) = (6_000_000_000 / rate, [10, 60_000_000 / rate, 30]);
        println!("{price_ns:.0} ns per packet, so {rate} packets per second");
        let plan = plan(Transform::Rfc4106, [20_000, rate, 20_000], ms);
        let mut at = |slice_us, wakeup_us| {
            cpu.configure(&cfs(slice_us, wakeup_us));
            let o = run(&mut cpu, policy("legacy"), &plan, seed);
            let f = o.flows[OUT];
            println!(
                "slice {slice_us} us, wake-up {wakeup_us} us: {} dropped, {} reordered, {} lost of {}, queue {:?}",
                o.flows[IN].dropped + f.dropped,
                f.reordered,
                f.replay_lost,
                f.sent,
                o.samples.iter().map(|s| s.queued).max()
            );
            assert_eq!(wrong(&o), 0);
            // Packets from the tunnel come from atomic callers, so they must not overtake each
            // other.
            assert_eq!(o.flows[IN].reordered, 0, "{:?}", o.flows[IN]);
            o.flows[IN].dropped + f.dropped
        };
        const NEVER: u64 = 1_000_000;
        let (short, long) = (at(200, NEVER), at(long_us, NEVER));
        assert!(long > 2_000 && short < long / 10, "{short}, {long}");
        let preempting = at(long_us, 0);
        assert!(preempting < long / 4, "{preempting}, {long}");
    });
}

/// Returns how many packets a receiver must reject if packets arrive with the sequence numbers in
/// `log`, in that order. Unlike the receiver, uses a set of sequence numbers instead of bit masks.
fn refused(log: &[u32], window: u64) -> u64 {
    let (mut top, mut seen, mut lost) = (0, HashSet::new(), 0);
    for &n in log {
        let n = u64::from(n);
        if n + window <= top {
            lost += 1;
        } else {
            assert!(seen.insert(n), "{n} came twice");
            top = top.max(n);
        }
    }
    lost
}

fn losses(seed: u64) -> (u64, u64) {
    let mut cpu = boot();
    cpu.configure(&cfs(5_000, 1_000_000));
    let plan = Plan {
        log: 100_000,
        ..plan(Transform::Rfc4106, [20_000, 200_000, 20_000], [5, 60, 20])
    };
    let o = run(&mut cpu, policy("legacy"), &plan, seed);
    let f = o.flows[OUT];
    assert_eq!(o.log.len() as u64, f.done);
    println!(
        "{} of {} reordered, {} lost",
        f.reordered, f.done, f.replay_lost
    );
    (f.replay_lost, refused(&o.log, 64))
}

#[test]
fn packets_a_task_sends_overtake_and_the_window_refuses_the_rest() {
    run_alone(|seed| {
        if best_impl().tier() == kiln_kernel::Tier::Generic {
            return println!("SKIPPED: no SIMD tier here, so nothing goes to cryptd");
        }
        let (counted, want) = losses(seed);
        assert_eq!(counted, want);
        assert!(want > 0, "the task overtakes those that wait");
    });
}

fn draw(next: &mut dyn FnMut(&mut [u8]), n: u64) -> u64 {
    let mut bytes = [0; 8];
    next(&mut bytes);
    u64::from_le_bytes(bytes) % n
}

/// Passes random sequence numbers to the window and to a set. Most numbers are near the highest
/// number so far, and some are far ahead. Returns how many times the window and the set disagree.
fn disagreements(seed: u64, size: u32) -> u64 {
    let mut next = random(seed);
    let mut window = Window::new(size);
    let (mut top, mut seen, mut differ) = (0u64, HashSet::new(), 0);
    for _ in 0..50_000 {
        let far = [3, 3, 100, 6000][draw(&mut next, 4) as usize];
        let seq = 1 + (top + draw(&mut next, far)).saturating_sub(draw(&mut next, 2 * far));
        let want = seq + u64::from(size) > top && !seen.contains(&seq);
        differ += u64::from(window.accept(seq) != want);
        if want {
            seen.insert(seq);
            top = top.max(seq);
        }
    }
    differ
}

#[test]
fn a_window_refuses_what_is_old_or_has_come() {
    for size in [1, 32, 64, 65, 1000, 4096] {
        assert_eq!(disagreements(9, size), 0, "{size}");
    }
}

#[test]
fn a_broken_window_is_noticed() {
    run_alone(|seed| {
        for rules in [broken::ENDLESS, broken::BLIND] {
            broken::set(rules);
            assert!(disagreements(seed, 64) > 100, "{rules}");
        }
        broken::set(0);
        assert_eq!(disagreements(seed, 64), 0);
    });
}

#[test]
fn the_judge_of_the_sectors_is_another() {
    // If the same driver computed the expected results, its faults would go unnoticed.
    assert_ne!(judge().driver(), best_impl().driver());
}
