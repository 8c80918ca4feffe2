//! Faults planted on purpose, each of which the detectors must see, beside the same run
//! without the fault, in which they must see nothing.

use std::arch::asm;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Barrier;

use kiln_kernel::cipher::Op;
use kiln_kernel::cpu::{Config, Cpu, NestedArea};
use kiln_kernel::fpu::forget_features;
use kiln_kernel::irq::{Arrivals, Handling, Timer};
use kiln_kernel::load::{Load, Plan, TaskWork};
use kiln_kernel::Tier;

use crate::corruption::SPINS_10_US;
use crate::machine::{
    alone, assert_clean, boot, cores, judge, messages, pin, plan, policy, two_cores, until,
};

/// Sections each run makes at least.
const OPS: u64 = 20_000;

fn keep(seed: u64) -> TaskWork {
    TaskWork::Keep {
        seed,
        spins: SPINS_10_US,
    }
}

fn poisson(seed: u64) -> Arrivals {
    Arrivals::Poisson(33_000.0, seed)
}

/// Run until enough was done, and with `caught` until something was seen.
fn run(load: &mut Load<'_>, caught: bool) {
    let before = load.counts();
    until(
        "the control's sections, and corruption if it is due",
        || {
            load.run(20);
            let counts = load.counts();
            counts.task_ops - before.task_ops >= OPS
                && (!caught || counts.task_corrupted > before.task_corrupted)
        },
    );
}

fn print(control: &str, load: &mut Load<'_>) {
    let counts = load.counts();
    println!(
        "{control}: {} of {} sections corrupted in {} interrupts, {} in sections",
        counts.task_corrupted,
        counts.task_ops,
        load.cpu().stats().irqs,
        load.cpu().stats().irqs_in_section
    );
}

fn with_handling(handling: Handling, caught: bool, seed: u64) {
    let mut cpu = boot();
    policy("nested").set(&mut cpu);
    let mut load = Load::attach(&mut cpu, plan(keep(seed), seed)).expect("tiers are there");
    let timer = Timer::start_with(load.cpu(), poisson(seed), handling).expect("a timer");
    run(&mut load, caught);
    drop(timer);
    print(&format!("{handling:?}"), &mut load);
    if !caught {
        assert_clean("on the alternate stack", &load.counts());
    }
}

/// The host's signal frame lies right below the red zone of the interrupted stack, its end,
/// with the mark of the extended state, uppermost: where the emulated interrupt frame goes.
#[test]
fn a_handler_on_the_interrupted_stack_is_caught() {
    alone(
        "controls::a_handler_on_the_interrupted_stack_is_caught",
        |seed| with_handling(Handling::OnInterruptedStack, true, seed),
    );
}

#[test]
fn a_handler_on_the_alternate_stack_is_clean() {
    alone(
        "controls::a_handler_on_the_alternate_stack_is_clean",
        |seed| with_handling(Handling::Faithful, false, seed),
    );
}

const BYTES: usize = 4096;
static mut FROM: [u8; BYTES] = [0x5a; BYTES];
static mut TO: [u8; BYTES] = [0; BYTES];

/// Called in hardirq context, on its CPU's thread only.
unsafe extern "C" fn host_memcpy() {
    // 4 KiB, and less, in case the host's memcpy uses string instructions for much.
    for len in [BYTES, 700, 100] {
        // SAFETY: two arrays that only this function uses, on one thread, never within itself:
        // hardirqs do not nest.
        unsafe { libc::memcpy((&raw mut TO).cast(), (&raw const FROM).cast(), len) };
    }
}

/// The same work in general registers.
unsafe extern "C" fn string_copy() {
    // SAFETY: as above; the direction flag is clear, the trampoline sees to it.
    unsafe {
        asm!("rep movsb",
            inout("rcx") BYTES => _,
            inout("rsi") (&raw const FROM) => _,
            inout("rdi") (&raw mut TO) => _,
            options(nostack, preserves_flags));
    }
}

/// Law 2 is not a matter of taste: the host's memcpy wrecks a section unseen.
#[test]
fn a_host_memcpy_in_interrupt_context_is_caught() {
    alone(
        "controls::a_host_memcpy_in_interrupt_context_is_caught",
        |seed| {
            let mut cpu = boot();
            policy("bh-off").set(&mut cpu);
            for (name, hook, caught) in [
                ("string_copy", string_copy as unsafe extern "C" fn(), false),
                ("host memcpy", host_memcpy as unsafe extern "C" fn(), true),
            ] {
                cpu.reset_stats();
                let mut load =
                    Load::attach(&mut cpu, plan(keep(seed), seed)).expect("tiers are there");
                load.set_hardirq_hook(Some(hook));
                let timer = Timer::start(load.cpu(), poisson(seed)).expect("a timer");
                run(&mut load, caught);
                drop(timer);
                print(name, &mut load);
                if !caught {
                    assert_clean(name, &load.counts());
                }
            }
        },
    );
}

#[test]
fn a_save_that_forgets_the_mask_registers_is_caught() {
    alone(
        "controls::a_save_that_forgets_the_mask_registers_is_caught",
        |seed| {
            const OPMASK: u32 = 1 << 5;
            if let Some(lacking) = Tier::VaesAvx512.lacks() {
                println!("SKIPPED: no mask registers to forget: no {lacking} here");
                return;
            }
            let mut cpu = boot();
            policy("nested").set(&mut cpu);
            for (name, caught) in [("whole saves", false), ("saves without k0-k7", true)] {
                if caught {
                    forget_features(OPMASK);
                }
                cpu.reset_stats();
                let mut load =
                    Load::attach(&mut cpu, plan(keep(seed), seed)).expect("tiers are there");
                let timer = Timer::start(load.cpu(), poisson(seed)).expect("a timer");
                run(&mut load, caught);
                drop(timer);
                print(name, &mut load);
                if !caught {
                    assert_clean(name, &load.counts());
                }
            }
        },
    );
}

/// What the two CPUs of the next control tell each other.
struct Shared {
    /// Both have come this far.
    meet: Barrier,
    corrupted: AtomicU64,
    done: AtomicBool,
}

/// One of two CPUs. Its softirqs take long in their sections, so that those of both overlap.
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
    for (name, caught) in [("areas of their own", false), ("one area", true)] {
        if caught && number == 1 {
            let theirs = areas[0].lock().expect("no panic").expect("CPU 0 is there");
            cpu.share_nested_area(theirs);
        }
        cpu.reset_stats();
        shared.meet.wait();
        {
            let plan = Plan {
                softirq: (judge().into(), messages(!seed, Op::Encrypt, 2048, 8)),
                ..plan(keep(seed), seed)
            };
            let mut load = Load::attach(&mut cpu, plan).expect("tiers are there");
            let timer = Timer::start(load.cpu(), poisson(seed)).expect("a timer");
            if caught {
                until("a section ruined by the other CPU", || {
                    load.run(20);
                    let counts = load.counts();
                    shared
                        .corrupted
                        .fetch_max(counts.task_corrupted, Ordering::SeqCst);
                    let enough =
                        counts.task_ops >= OPS && shared.corrupted.load(Ordering::SeqCst) > 0;
                    if enough {
                        shared.done.store(true, Ordering::SeqCst);
                    }
                    shared.done.load(Ordering::SeqCst)
                });
            } else {
                run(&mut load, false);
            }
            drop(timer);
            print(&format!("{name}, CPU {number}"), &mut load);
            if !caught {
                assert_clean(name, &load.counts());
            }
        }
        // The area stays as long as anybody uses it.
        shared.meet.wait();
    }
}

#[test]
fn a_save_area_shared_by_two_cpus_is_caught() {
    alone(
        "controls::a_save_area_shared_by_two_cpus_is_caught",
        |seed| {
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
            assert!(shared.corrupted.load(Ordering::SeqCst) > 0);
        },
    );
}
