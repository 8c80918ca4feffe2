//! Measures the costs of FPU sections, register saves and the section timer without interrupts.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

use kiln_kernel::calls::Calls;
use kiln_kernel::cipher::{Context, Impl, Op, Sections, BLOCK};
use kiln_kernel::cpu::Cpu;
use kiln_kernel::fpu::{pairs, Policy};
use kiln_kernel::messages::Messages;
use kiln_measure::{measure, ratio, Plan, Ratio, SplitMix64, Subject};

/// Costs of one policy in core cycles; `None` if the run was stopped before the cost could be
/// measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    /// Cost of an empty `kernel_fpu_begin`/`kernel_fpu_end` pair if the user state is already
    /// saved.
    pub pair: Option<f64>,
    /// Cost of an empty `kernel_fpu_begin`/`kernel_fpu_end` pair without the section timer, if the
    /// user state is already saved.
    pub pair_untimed: Option<f64>,
    /// Additional cost of the first section in a kernel entry.
    pub first_section: Option<f64>,
}

fn plan(seed: u64) -> Plan {
    Plan {
        rounds: 12,
        samples: 4,
        sample_us: 50.0,
        seed,
        deadline: None,
    }
}

/// Measures the costs of each policy, in the order of `policies`.
pub(super) fn measure_policies(
    cpu: &mut Cpu,
    policies: &[Policy],
    seed: u64,
    stop: &AtomicBool,
) -> Vec<Costs> {
    let cpu = RefCell::new(cpu);
    let mut subjects: Vec<Subject> = Vec::new();
    for &policy in policies {
        let cpu = &cpu;
        for timed in [true, false] {
            subjects.push(Subject::new(policy.name(), move |n| {
                policy.set(&mut cpu.borrow_mut());
                pairs(n, timed);
            }));
        }
        subjects.push(Subject::new(policy.name(), move |n| {
            policy.set(&mut cpu.borrow_mut());
            (0..n).for_each(|_| pairs(1, false));
        }));
    }
    subjects.push(Subject::new("entry", |n| {
        (0..n).for_each(|_| pairs(0, false))
    }));
    let best: Vec<Option<f64>> = measure(&mut subjects, &plan(seed), stop, &mut |_, _| {})
        .iter()
        .map(|s| s.estimate().map(|e| e.best))
        .collect();
    let entry = best[best.len() - 1];
    best.chunks_exact(3)
        .map(|b| Costs {
            pair: b[0],
            pair_untimed: b[1],
            first_section: (|| Some(b[2]? - entry? - b[1]?))(),
        })
        .collect()
}

/// Measures the cost of the section timer if each message has its own section. Returns the cycles
/// with the timer divided by the cycles without it.
pub(super) fn measure_clock(imp: Impl, len: usize, seed: u64, stop: &AtomicBool) -> Option<Ratio> {
    const COUNT: usize = 16;
    let mut rng = SplitMix64(seed);
    let mut bytes = vec![0; 64 + len * COUNT];
    rng.fill(&mut bytes);
    let (key, src) = bytes.split_at(64);
    let ctx = Context::new(imp, key).ok()?;
    let ivs = [7; COUNT * BLOCK];
    // Both measurements use the same buffers, because the address of a buffer can have a larger
    // effect than the timer.
    let buffers = RefCell::new((vec![0; len * COUNT], vec![0; ivs.len()]));
    let mut subjects: Vec<Subject> = [Sections::Each, Sections::EachUntimed]
        .into_iter()
        .map(|sections| {
            let (ctx, buffers, ivs) = (&ctx, &buffers, &ivs);
            Subject::new("", move |n| {
                let (dst, work) = &mut *buffers.borrow_mut();
                let mut calls = Calls {
                    sections,
                    ..Calls::new(Messages {
                        op: Op::Encrypt,
                        src,
                        dst,
                        ivs,
                        iv_room: work,
                        src_stride: len,
                        dst_stride: len,
                        iv_stride: BLOCK,
                        len,
                        count: COUNT,
                        ..Messages::default()
                    })
                };
                calls.run(imp, ctx, n).expect("right lengths");
            })
        })
        .collect();
    let plan = Plan {
        rounds: 30,
        ..plan(seed)
    };
    let series = measure(&mut subjects, &plan, stop, &mut |_, _| {});
    ratio(&series[0], &series[1])
}
