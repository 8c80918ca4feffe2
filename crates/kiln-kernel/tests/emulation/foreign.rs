//! Tests a policy from outside `kernel/`, like the ones that hosted trees provide. Its functions
//! report where the FPU is usable, and save and restore registers. If these functions fail to save
//! registers, the tests must detect corrupted results under the interrupts that Kiln injects.

use std::arch::asm;
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_void, CStr};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use kiln_kernel::cipher::Op;
use kiln_kernel::cpu::Cpu;
use kiln_kernel::fpu::{usable, Answer, Context, Policy};
use kiln_kernel::hosted::border::{kiln_preempt_schedule, kiln_warn};
use kiln_kernel::hosted::{attach, detach, FpuOps, Hooks};
use kiln_kernel::irq::{Arrivals, Breakpoints, Step, Stepping, Timer};
use kiln_kernel::load::{best_impl, TaskWork};

use crate::corruption::{interrupt, trace, Rate};
use crate::machine::{
    self, assert_clean, boot, config, interrupted, messages, plan, policy, repeat_until, run_alone,
};

/// The policy's data for one task of the tree.
#[repr(C, align(64))]
pub(crate) struct Word {
    state: UnsafeCell<[u8; 16384]>,
    user: AtomicBool,
    need_load: AtomicBool,
}

// SAFETY: each word is accessed only by the CPU that runs its task.
unsafe impl Sync for Word {}

const TASKS: usize = 16;

static WORDS: [Word; TASKS] = [const {
    Word {
        state: UnsafeCell::new([0; 16384]),
        user: AtomicBool::new(false),
        need_load: AtomicBool::new(false),
    }
}; TASKS];
static USED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn new_task(old: *mut c_void, _: *const c_char, user: bool) -> *mut c_void {
    let word: *const Word = match old.is_null() {
        false => old.cast(),
        true => match WORDS.get(USED.fetch_add(1, Relaxed)) {
            Some(word) => word,
            None => return ptr::null_mut(),
        },
    };
    // SAFETY: the pointer refers to an element of WORDS.
    unsafe { &*word }.user.store(user, Relaxed);
    word.cast_mut().cast()
}

pub(crate) static HOOKS: Hooks = Hooks {
    new_task: Some(new_task),
    tick: None,
    idle: None,
    uncounted: None,
    context: None,
    worked: None,
};

pub(crate) fn count() -> u32 {
    let count: u32;
    // SAFETY: the instruction only reads a word of the CPU's data.
    unsafe { asm!("mov {:e}, gs:[8]", out(reg) count, options(nostack)) };
    count & 0x7fff_ffff
}

fn current() -> &'static Word {
    let word: *const Word;
    // SAFETY: the first word of the CPU's data is the pointer that `new_task` returned for the
    // running task.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) word, options(nostack));
        &*word
    }
}

/// Saves all state components that XCR0 enables, in the standard XSAVE format.
unsafe fn save(word: &Word) {
    // SAFETY: the area is aligned and large enough.
    unsafe { asm!("xsave64 [{}]", in(reg) word.state.get(), in("eax") !0, in("edx") !0) }
}

unsafe fn restore(word: &Word) {
    // SAFETY: the area contains a state that `save` wrote.
    unsafe { asm!("xrstor64 [{}]", in(reg) word.state.get(), in("eax") !0, in("edx") !0) }
}

static TAKEN: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn legacy_usable() -> bool {
    const NMI: u32 = 0xf0_0000;
    const HARDIRQ: u32 = 0xf_0000;
    const SOFTIRQ: u32 = 0xff00;
    let count = count();
    count & NMI == 0 && !TAKEN.load(Relaxed) && (count & HARDIRQ == 0 || count & SOFTIRQ == 0)
}

unsafe extern "C" fn begin() {
    // SAFETY: the instructions do the same as preempt_disable(). A warning only increments a
    // counter.
    unsafe {
        asm!("inc dword ptr gs:[8]");
        if !legacy_usable() {
            kiln_warn();
        }
    }
    TAKEN.store(true, Relaxed);
    let word = current();
    if word.user.load(Relaxed) && !word.need_load.load(Relaxed) {
        word.need_load.store(true, Relaxed);
        // SAFETY: the area belongs to the current task, and the registers hold the user's state.
        unsafe { save(word) };
    }
    static MXCSR: u32 = 0x1f80;
    // SAFETY: the instruction loads the default value, which C code expects.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &MXCSR) };
}

unsafe extern "C" fn end() {
    TAKEN.store(false, Relaxed);
    let zero: u8;
    // SAFETY: the instructions do the same as preempt_enable().
    unsafe {
        asm!("dec dword ptr gs:[8]", "sete {}", out(reg_byte) zero);
        if zero != 0 {
            kiln_preempt_schedule();
        }
    }
}

unsafe extern "C" fn user_restore() -> bool {
    let word = current();
    let due = word.need_load.load(Relaxed);
    if due {
        // SAFETY: the area contains the state that `begin` or `switch_to` saved.
        unsafe { restore(word) };
        word.need_load.store(false, Relaxed);
    }
    due
}

unsafe extern "C" fn switch_to(prev: *mut c_void, _: *mut c_void) {
    // SAFETY: the pointer refers to an element of WORDS.
    let word = unsafe { &*prev.cast::<Word>() };
    if word.user.load(Relaxed) && !word.need_load.load(Relaxed) {
        word.need_load.store(true, Relaxed);
        // SAFETY: the area belongs to the task, and the registers hold the user's state.
        unsafe { save(word) };
    }
}

static LEGACY: FpuOps = ops(c"tree");

const fn ops(name: &'static CStr) -> FpuOps {
    FpuOps {
        name: name.as_ptr(),
        begin: Some(begin),
        end: Some(end),
        usable: Some(legacy_usable),
        user_restore: Some(user_restore),
        switch_to: Some(switch_to),
    }
}

unsafe extern "C" fn always() -> bool {
    true
}

/// Control: the policy lets softirqs use the FPU inside an open section, and does not restore the
/// section's registers.
static TAKING: FpuOps = FpuOps {
    usable: Some(always),
    ..ops(c"broken")
};
/// Control: a task switch does not save the user's state.
static FORGETFUL: FpuOps = FpuOps {
    switch_to: Some(keep_nothing),
    ..ops(c"broken")
};

unsafe extern "C" fn keep_nothing(_: *mut c_void, _: *mut c_void) {}

/// Boots a CPU, attaches the tree's hooks and activates the policy.
fn boot_with(ops: &'static FpuOps) -> (Cpu, Policy) {
    let mut cpu = boot();
    // SAFETY: the functions above are static. They use general-purpose registers only, except to
    // save and restore the state.
    let p = unsafe {
        assert!(attach(&mut cpu, &HOOKS));
        Policy::foreign(ops).expect("room for one more")
    };
    p.set(&mut cpu);
    (cpu, p)
}

#[test]
fn a_foreign_policy_answers_for_itself_in_every_context() {
    run_alone(|_| {
        let (mut cpu, tree) = boot_with(&LEGACY);
        // SAFETY: the functions are static and use general-purpose registers only, except to save
        // and restore the state.
        let taking = unsafe { Policy::foreign(&TAKING) }.expect("room for one more");
        assert_eq!(tree.name(), "tree");
        assert!(!Policy::all().contains(&tree), "Kiln's own only");
        let mut different = 0;
        for context in Context::ALL {
            for in_section in [false, true] {
                let mut ask = |p: Policy| {
                    p.set(&mut cpu);
                    usable(&mut cpu, context, in_section)
                };
                let want = ask(policy("legacy"));
                let got = ask(tree);
                // Ignore the number of warnings. If a section is opened where it is not allowed,
                // this policy warns once, whereas Kiln's own policy warns again when the section
                // ends.
                let all = |a: Answer| {
                    let counts = (a.preempt_count, a.preempt_after);
                    (a.usable, a.over_section, counts, a.warnings > 0)
                };
                assert_eq!(
                    all(got),
                    all(want),
                    "{context:?}, in a section: {in_section}"
                );
                different += usize::from(ask(taking).usable != want.usable);
            }
        }
        assert_eq!(different, 10, "the control always says yes");
        policy("legacy").set(&mut cpu);
        detach(&mut cpu);
        assert!(usable(&mut cpu, Context::Task, false).usable);
    });
}

/// Runs a load and uses breakpoints to interrupt it inside its sections. Returns the number of
/// corrupted results.
fn breakpoints(ops: &'static FpuOps, seed: u64, task: TaskWork, wanted: u64) -> u64 {
    let (mut cpu, p) = boot_with(ops);
    let mut rate = Rate::default();
    cpu.configure(&config(true, 100));
    let mut plan = plan(task, seed);
    plan.hardirq_fpu = true;
    plan.second = Some((best_impl(), messages(seed ^ 5, Op::Decrypt, 512, 8)));
    let mut load = machine::attach(&mut cpu, plan);
    let addresses = trace(&mut load, 2);
    assert!(
        addresses.contains(&(begin as *const () as u64)),
        "the policy's own code is interrupted, too"
    );
    let tick = Timer::start(load.cpu(), Arrivals::Periodic(2_000.0)).expect("a timer");
    let mut breakpoints = Breakpoints::start(load.cpu(), &addresses, seed).expect("text");
    interrupt(&mut load, 20, wanted, &mut rate, || breakpoints.redraw());
    drop(breakpoints);
    drop(tick);
    rate.print(&format!("breakpoints, {p}"));
    let (counts, stats) = (load.counts(), load.cpu().stats());
    assert!(stats.switches > 0 && stats.user_restores > 0, "{stats:?}");
    println!("{counts:?}");
    if ptr::eq(ops, &raw const LEGACY) {
        assert_clean("a tree's policy", &counts);
        assert_eq!(stats.warnings, 0);
    }
    counts.task_corrupted
        + counts.softirq_corrupted
        + counts.second_corrupted
        + counts.user_corrupted
}

#[test]
fn breakpoints_corrupt_nothing_of_a_foreign_policy() {
    run_alone(|seed| {
        let task = TaskWork::Keep { seed, spins: 200 };
        breakpoints(&LEGACY, seed, task, 20_000);
    });
}

#[test]
fn a_foreign_policy_that_saves_nothing_is_caught() {
    run_alone(|seed| {
        let task = TaskWork::Keep { seed, spins: 200 };
        assert!(breakpoints(&TAKING, seed, task, 2_000) > 100);
    });
}

#[test]
fn a_foreign_policy_that_forgets_a_switch_is_caught() {
    run_alone(|seed| {
        let mut lost = [0, 0];
        for (ops, lost) in [&LEGACY, &FORGETFUL].into_iter().zip(&mut lost) {
            let (mut cpu, _) = boot_with(ops);
            cpu.configure(&config(true, 100));
            let mut plan = plan(TaskWork::Keep { seed, spins: 0 }, seed);
            plan.second = Some((best_impl(), messages(seed, Op::Encrypt, 512, 8)));
            // The kernel entries open no sections. If a task switch occurs on return to user mode,
            // the registers therefore still hold the user's state.
            let counts = interrupted(&mut cpu, plan, Arrivals::Periodic(10_000.0), |load| {
                repeat_until("switches", || {
                    load.run(0);
                    load.cpu().stats().switches >= 400
                });
            });
            *lost = counts.user_corrupted;
        }
        assert_eq!(lost[0], 0);
        assert!(lost[1] > 0, "{lost:?}");
    });
}

/// Injects an interrupt before every instruction, including those of the policy's own functions.
#[test]
fn stepping_corrupts_nothing_of_a_foreign_policy() {
    run_alone(|seed| {
        let mut corrupted = [0, 0];
        for (i, ops) in [&LEGACY, &TAKING].into_iter().enumerate() {
            let (mut cpu, p) = boot_with(ops);
            for keep in [true, false] {
                let task = match keep {
                    true => TaskWork::Keep { seed, spins: 20 },
                    false => TaskWork::Crypt(best_impl(), messages(seed, Op::Encrypt, 512, 8)),
                };
                let mut plan = plan(task, seed);
                plan.hardirq_fpu = true;
                plan.softirq.1 = messages(!seed, Op::Encrypt, 16, 8);
                let mut load = machine::attach(&mut cpu, plan);
                load.set_stepping(true, false);
                let mut stepping =
                    Stepping::start(load.cpu(), Step::Every).expect("stepping starts");
                load.run(4);
                let (injected, _) = stepping.injected();
                assert_eq!(injected, stepping.instructions().0);
                drop(stepping);
                load.set_stepping(false, false);
                let counts = load.counts();
                println!("{p}: {injected} interrupts: {counts:?}");
                corrupted[i] += counts.task_corrupted + counts.user_corrupted;
            }
        }
        assert_eq!(corrupted[0], 0);
        assert!(corrupted[1] > 0, "the control");
    });
}
