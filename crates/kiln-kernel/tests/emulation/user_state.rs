//! A task's user FPU state must be saved by the first section of a kernel entry, and restored when
//! the entry ends or when an interrupt returns to user mode.

use std::arch::asm;

use kiln_kernel::cipher::Op;
use kiln_kernel::cpu::Cpu;
use kiln_kernel::fpu::{pairs, Policy};
use kiln_kernel::irq::Arrivals;
use kiln_kernel::load::{all_impls, TaskWork};

use crate::machine::{
    assert_clean, attach, boot, correct_policies, interrupted, messages, plan, policy,
    repeat_until, run_alone,
};

#[test]
fn an_entry_saves_and_restores_once_if_it_has_a_section() {
    run_alone(|_| {
        let mut cpu = boot();
        for p in correct_policies() {
            p.set(&mut cpu);
            cpu.reset_stats();
            for n in 0..1_000 {
                pairs(n % 4, n % 2 == 0);
            }
            let stats = cpu.stats();
            // Every fourth kernel entry opens no section.
            assert_eq!((stats.user_saves, stats.user_restores), (750, 750), "{p}");
        }
        policy("none").set(&mut cpu);
        cpu.reset_stats();
        pairs(3, true);
        assert_eq!((cpu.stats().user_saves, cpu.stats().user_restores), (0, 0));
    });
}

#[test]
fn a_program_finds_its_registers_after_each_entry() {
    run_alone(|seed| {
        let mut cpu = boot();
        for p in correct_policies() {
            p.set(&mut cpu);
            for imp in all_impls().into_iter().filter(|i| i.tier().usable()) {
                let task = TaskWork::Crypt(imp, messages(seed, Op::Decrypt, 512, 8));
                let mut load = attach(&mut cpu, plan(task, seed));
                for n in 0..2_000 {
                    load.run(n % 3);
                }
                assert_clean(&format!("{p}, {}", imp.driver()), &load.counts());
            }
        }
    });
}

/// In user code, keeps values in the registers xmm0 to xmm15 for a while. Returns whether the
/// registers still hold these values at the end.
fn registers_keep(values: &[u128; 16]) -> bool {
    let mut found = [0u128; 16];
    // SAFETY: the code accesses arrays of sixteen elements within bounds, and declares every
    // register that it changes.
    unsafe {
        asm!(
            "movdqu xmm0, [{w}]", "movdqu xmm1, [{w}+16]", "movdqu xmm2, [{w}+32]",
            "movdqu xmm3, [{w}+48]", "movdqu xmm4, [{w}+64]", "movdqu xmm5, [{w}+80]",
            "movdqu xmm6, [{w}+96]", "movdqu xmm7, [{w}+112]", "movdqu xmm8, [{w}+128]",
            "movdqu xmm9, [{w}+144]", "movdqu xmm10, [{w}+160]", "movdqu xmm11, [{w}+176]",
            "movdqu xmm12, [{w}+192]", "movdqu xmm13, [{w}+208]", "movdqu xmm14, [{w}+224]",
            "movdqu xmm15, [{w}+240]",
            "2: dec {n}", "jns 2b",
            "movdqu [{f}], xmm0", "movdqu [{f}+16], xmm1", "movdqu [{f}+32], xmm2",
            "movdqu [{f}+48], xmm3", "movdqu [{f}+64], xmm4", "movdqu [{f}+80], xmm5",
            "movdqu [{f}+96], xmm6", "movdqu [{f}+112], xmm7", "movdqu [{f}+128], xmm8",
            "movdqu [{f}+144], xmm9", "movdqu [{f}+160], xmm10", "movdqu [{f}+176], xmm11",
            "movdqu [{f}+192], xmm12", "movdqu [{f}+208], xmm13", "movdqu [{f}+224], xmm14",
            "movdqu [{f}+240], xmm15",
            w = in(reg) values, f = in(reg) &mut found, n = inout(reg) 100_000u64 => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
            out("xmm15") _,
        );
    }
    found == *values
}

/// Runs user code until `wanted` interrupts have arrived. Returns how many times the user code's
/// registers changed.
fn interrupt_user_code(cpu: &mut Cpu, p: Policy, seed: u64, wanted: u64) -> u64 {
    p.set(cpu);
    cpu.reset_stats();
    let task = TaskWork::Keep { seed, spins: 0 };
    let values: [u128; 16] = std::array::from_fn(|i| (u128::from(seed) << 64) | (i as u128 + 1));
    let mut lost = 0;
    interrupted(
        cpu,
        plan(task, seed),
        Arrivals::Poisson(10_000.0, seed),
        |load| {
            repeat_until("interrupts of user mode", || {
                lost += u64::from(!registers_keep(&values));
                // Do not read the statistics under the broken policy, because it may also corrupt
                // this closure's registers.
                match p.is_broken() {
                    true => lost > 0,
                    false => load.cpu().stats().irqs_user >= wanted,
                }
            });
        },
    );
    let stats = cpu.stats();
    println!(
        "{p}: {} interrupts of user mode, registers lost {lost} times",
        stats.irqs_user
    );
    // Under all policies but `none`, sections in softirqs save the user's state. The only other
    // sections are at the start and end of the load.
    assert_eq!(stats.user_saves, stats.user_restores, "{p}");
    assert!(
        p.is_broken() || stats.user_saves >= wanted / 2,
        "{p}: {stats:?}"
    );
    lost
}

#[test]
fn an_interrupt_of_user_mode_leaves_its_registers_alone() {
    run_alone(|seed| {
        let mut cpu = boot();
        for p in correct_policies() {
            assert_eq!(interrupt_user_code(&mut cpu, p, seed, 3_000), 0, "{p}");
        }
        let lost = interrupt_user_code(&mut cpu, policy("none"), seed, 3_000);
        assert!(lost > 0, "the control");
    });
}
