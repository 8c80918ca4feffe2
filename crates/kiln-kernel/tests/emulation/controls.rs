//! Tests that plant faults, which the detectors must find. The same run without the fault must find
//! nothing.

use std::arch::asm;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::Barrier;

use kiln_kernel::cipher::Op;
use kiln_kernel::cpu::{Config, Cpu, NestedArea};
use kiln_kernel::fpu::forget_features;
use kiln_kernel::irq::{Arrivals, Handling, Timer};
use kiln_kernel::load::{Counts, Load, Plan};
use kiln_kernel::Tier;

use crate::corruption::keep;
use crate::machine::{
    assert_clean, attach, boot, cores, judge, messages, pin, plan, policy, repeat_until, run_alone,
    two_cores,
};

/// Minimum number of sections per run.
const OPS: u64 = 20_000;

/// Runs the load until `done` returns true. If `control` is set, the caller has planted a fault,
/// and results may be corrupted.
fn check(
    name: &str,
    mut load: Load<'_>,
    handling: Handling,
    seed: u64,
    control: bool,
    done: impl Fn(&Counts) -> bool,
) {
    load.cpu().reset_stats();
    let poisson = Arrivals::Poisson(33_000.0, seed);
    let timer = Timer::start_with(load.cpu(), poisson, handling).expect("a timer");
    repeat_until("the sections, and corruption if it is due", || {
        load.run(20);
        done(&load.counts())
    });
    drop(timer);
    let (counts, stats) = (load.counts(), load.cpu().stats());
    println!(
        "{name}: {} of {} sections corrupted in {} interrupts, {} in sections",
        counts.task_corrupted, counts.task_ops, stats.irqs, stats.irqs_in_section
    );
    if !control {
        assert_clean(name, &counts);
    }
}

/// Returns a condition that becomes true once enough sections have run and, with `control`, results
/// have been corrupted.
fn enough(control: bool) -> impl Fn(&Counts) -> bool {
    move |c| c.task_ops >= OPS && (!control || c.task_corrupted > 0)
}

fn check_handling(handling: Handling, seed: u64) {
    let mut cpu = boot();
    policy("nested").set(&mut cpu);
    let control = handling != Handling::Faithful;
    let load = attach(&mut cpu, plan(keep(seed), seed));
    let name = format!("{handling:?}");
    check(&name, load, handling, seed, control, enough(control));
}

/// If the handler runs on the interrupted stack, the host's signal frame is right below the red
/// zone. The emulated interrupt frame is written to the same place and overwrites the upper end of
/// the signal frame, which contains the end mark of the extended state.
#[test]
fn a_handler_on_the_interrupted_stack_is_caught() {
    run_alone(|seed| check_handling(Handling::OnInterruptedStack, seed));
}

#[test]
fn a_handler_on_the_alternate_stack_is_clean() {
    run_alone(|seed| check_handling(Handling::Faithful, seed));
}

const BYTES: usize = 4096;
static mut FROM: [u8; BYTES] = [0x5a; BYTES];
static mut TO: [u8; BYTES] = [0; BYTES];

/// Copies data with the host's memcpy, which uses vector registers. Called only in hardirq context,
/// on the CPU's own thread.
unsafe extern "C" fn host_memcpy() {
    // Copy several sizes, because the host's memcpy may use string instructions for large ones.
    for len in [BYTES, 700, 100] {
        // SAFETY: only this function and `string_copy` use the two arrays, on one thread. Neither
        // is reentered, because hardirqs do not nest.
        unsafe { libc::memcpy((&raw mut TO).cast(), (&raw const FROM).cast(), len) };
    }
}

/// Copies the same bytes as `host_memcpy`, but with general-purpose registers only.
unsafe extern "C" fn string_copy() {
    // SAFETY: only hardirqs on one thread use the two arrays, and hardirqs do not nest. The
    // direction flag is clear, because the trampoline clears it.
    unsafe {
        asm!("rep movsb",
            inout("rcx") BYTES => _,
            inout("rsi") (&raw const FROM) => _,
            inout("rdi") (&raw mut TO) => _,
            options(nostack, preserves_flags));
    }
}

/// Shows why law 2 is needed: in a hardirq, the host's memcpy silently corrupts a section's
/// registers.
#[test]
fn a_host_memcpy_in_interrupt_context_is_caught() {
    run_alone(|seed| {
        let mut cpu = boot();
        policy("bh-off").set(&mut cpu);
        for (name, hook, control) in [
            ("string_copy", string_copy as unsafe extern "C" fn(), false),
            ("host memcpy", host_memcpy as unsafe extern "C" fn(), true),
        ] {
            let mut load = attach(&mut cpu, plan(keep(seed), seed));
            load.set_hardirq_hook(Some(hook));
            let enough = enough(control);
            check(name, load, Handling::Faithful, seed, control, enough);
        }
    });
}

#[test]
fn a_save_that_forgets_the_mask_registers_is_caught() {
    run_alone(|seed| {
        const OPMASK: u32 = 1 << 5;
        if let Some(lacking) = Tier::VaesAvx512.lacks() {
            println!("SKIPPED: no mask registers to forget: no {lacking} here");
            return;
        }
        let mut cpu = boot();
        policy("nested").set(&mut cpu);
        for (name, control) in [("whole saves", false), ("saves without k0-k7", true)] {
            if control {
                forget_features(OPMASK);
            }
            let load = attach(&mut cpu, plan(keep(seed), seed));
            let enough = enough(control);
            check(name, load, Handling::Faithful, seed, control, enough);
        }
    });
}

/// State shared by the two CPUs of `a_save_area_shared_by_two_cpus_is_caught`.
struct Shared {
    /// A barrier at which the two CPUs wait for each other.
    meet: Barrier,
    corrupted: AtomicU64,
    done: AtomicBool,
}

/// Runs one of the two CPUs. Its softirqs have long sections, so that the two CPUs' sections
/// overlap in time.
fn sharer(
    number: u32,
    core: usize,
    seed: u64,
    areas: [&std::sync::Mutex<Option<NestedArea>>; 2],
    shared: &Shared,
) {
    pin(core);
    let mut cpu = Cpu::boot(&Config {
        number,
        ..Config::default()
    })
    .expect("a CPU boots");
    *areas[number as usize].lock().expect("no panic") = Some(cpu.nested_area());
    shared.meet.wait();
    for (name, control) in [("areas of their own", false), ("one area", true)] {
        if control && number == 1 {
            let theirs = areas[0].lock().expect("no panic").expect("CPU 0 is there");
            cpu.share_nested_area(theirs);
        }
        shared.meet.wait();
        let plan = Plan {
            softirq: (judge().into(), messages(!seed, Op::Encrypt, 2048, 8)),
            ..plan(keep(seed), seed)
        };
        let load = attach(&mut cpu, plan);
        // Stop both CPUs as soon as one of them has found a corrupted section.
        let done = |c: &Counts| {
            let corrupted = shared.corrupted.fetch_max(c.task_corrupted, SeqCst) + c.task_corrupted;
            let enough = c.task_ops >= OPS && (!control || corrupted > 0);
            shared.done.fetch_or(control && enough, SeqCst) || enough
        };
        let name = format!("{name}, CPU {number}");
        check(&name, load, Handling::Faithful, seed, control, done);
        // Wait for the other CPU, because it may still use this CPU's area.
        shared.meet.wait();
    }
}

#[test]
fn a_save_area_shared_by_two_cpus_is_caught() {
    run_alone(|seed| {
        if two_cores("two CPUs never are in their softirqs at once").is_none() {
            return;
        }
        policy("nested").set(&mut boot());
        let areas = [const { std::sync::Mutex::new(None) }; 2];
        let areas = [&areas[0], &areas[1]];
        let shared = Shared {
            meet: Barrier::new(2),
            corrupted: AtomicU64::new(0),
            done: AtomicBool::new(false),
        };
        let cores = cores();
        std::thread::scope(|s| {
            for (n, &core) in cores.iter().take(2).enumerate() {
                let shared = &shared;
                s.spawn(move || sharer(n as u32, core, seed + n as u64, areas, shared));
            }
        });
        assert!(shared.corrupted.load(SeqCst) > 0);
    });
}
