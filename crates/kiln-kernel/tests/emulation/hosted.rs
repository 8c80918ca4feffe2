//! Tests the functions that a CPU provides to a hosted tree: sleeping and waking tasks, work
//! queues, paravirtual calls, and accounting for the tree's own FPU sections.

use std::arch::asm;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};

use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::fpu::{usable, Context};
use kiln_kernel::hosted::border::*;
use kiln_kernel::hosted::{attach, enter, functions, Hooks};
use kiln_kernel::irq::{Arrivals, Timer};

use crate::foreign::HOOKS;
use crate::machine::{cores, pin, run_alone};

fn boot(config: Config) -> Cpu {
    pin(cores()[0]);
    Cpu::boot(&config).expect("a CPU boots")
}

/// Runs a function in kernel mode.
fn kernel(cpu: &mut Cpu, f: unsafe extern "C" fn(*mut c_void) -> u64) -> u64 {
    // SAFETY: the functions in this file are suitable for kernel mode: they use general-purpose
    // registers only and do not take host locks.
    unsafe { enter(cpu, f, ptr::null_mut()) }
}

/// Sleeps until a counter is at least `n`.
unsafe fn wait_for(counter: &AtomicU32, n: u32) {
    // SAFETY: the code runs in kernel mode, and the calls follow the protocol that the header
    // describes.
    unsafe {
        loop {
            kiln_wait_prepare(ptr::from_ref(counter).cast());
            if counter.load(SeqCst) >= n {
                break;
            }
            kiln_schedule();
        }
        kiln_wait_finish();
    }
}

unsafe fn bump(counter: &AtomicU32) {
    counter.fetch_add(1, SeqCst);
    // SAFETY: the function accepts any address.
    unsafe { kiln_wake(ptr::from_ref(counter).cast()) }
}

#[test]
fn the_tail_is_behind_the_cpus_own_data() {
    run_alone(|_| {
        let mut cpu = boot(Config {
            tail: 8 << 20,
            ..Config::default()
        });
        let tail = cpu.tail();
        assert_eq!(tail.len(), 8 << 20);
        tail[5] = 77;
        *tail.last_mut().expect("it is not empty") = 78;
        let (first, last): (u8, u8);
        // SAFETY: GS points to the CPU's memory, in which the tail occupies 8 MiB from offset 1
        // MiB. The two loads read the byte at offset 5 in the tail, and the tail's last byte.
        unsafe {
            asm!("mov {}, gs:[0x100005]", out(reg_byte) first);
            asm!("mov {}, gs:[0x8fffff]", out(reg_byte) last);
        }
        assert_eq!((first, last), (77, 78));
    });
}

#[test]
fn every_function_of_the_border_is_there() {
    let functions = functions();
    assert!(functions.len() > 30);
    assert!(functions
        .iter()
        .all(|(n, f)| n.starts_with("kiln_") && *f != 0));
}

static TURNS: AtomicU32 = AtomicU32::new(0);
static DEPTH_REACHED: AtomicU32 = AtomicU32::new(0);

/// Runs many tasks, each of which waits for its turn and then lets the next task run.
#[test]
fn many_tasks_wait_for_each_other() {
    run_alone(|_| {
        const TASKS: u32 = 200;
        // Keep this number small: each turn wakes all tasks, so a round takes TASKS squared
        // switches.
        const ROUNDS: u32 = 3;
        let mut cpu = boot(Config {
            tasks: TASKS as usize + 3,
            switch_ns: 0,
            ..Config::default()
        });
        unsafe extern "C" fn relay(arg: *mut c_void) {
            // SAFETY: a kthread runs in kernel mode, where these functions may be called.
            unsafe {
                for round in 0..ROUNDS {
                    wait_for(&TURNS, round * TASKS + arg as u32);
                    bump(&TURNS);
                }
            }
        }
        unsafe extern "C" fn all(_: *mut c_void) -> u64 {
            // SAFETY: this runs in kernel mode, where these functions may be called, and the task's
            // stack of 64 KiB is large enough.
            unsafe {
                let mut made = 0;
                loop {
                    let task = kiln_kthread_create(
                        Some(relay),
                        made as usize as *mut c_void,
                        c"relay".as_ptr(),
                    );
                    if task.is_null() {
                        break;
                    }
                    kiln_wake(task);
                    made += 1;
                }
                DEPTH_REACHED.store(made, SeqCst);
                wait_for(&TURNS, ROUNDS * made);
            }
            0
        }
        kernel(&mut cpu, all);
        // The task table must have been full. It has TASKS slots besides those of the boot task,
        // ksoftirqd and the kworker, which DEPTH_REACHED does not count.
        assert_eq!(DEPTH_REACHED.load(SeqCst), TASKS);
        assert_eq!(TURNS.load(SeqCst), ROUNDS * TASKS);
        // Run the test again to check that the exited tasks have freed their slots.
        TURNS.store(0, SeqCst);
        kernel(&mut cpu, all);
        assert_eq!(DEPTH_REACHED.load(SeqCst), TASKS);
    });
}

static STARTED: AtomicBool = AtomicBool::new(false);

#[test]
fn a_kthread_runs_when_it_is_woken_and_not_before() {
    run_alone(|_| {
        let mut cpu = boot(Config::default());
        // SAFETY: the hooks are static functions that use general-purpose registers only.
        unsafe { assert!(attach(&mut cpu, &HOOKS)) };
        unsafe extern "C" fn body(arg: *mut c_void) {
            // SAFETY: a kthread runs in kernel mode, where these functions may be called.
            unsafe {
                assert_eq!(kiln_task_word(ptr::null_mut()), *arg.cast::<*mut c_void>());
            }
            STARTED.store(true, SeqCst);
        }
        unsafe extern "C" fn f(_: *mut c_void) -> u64 {
            // SAFETY: this runs in kernel mode, where these functions may be called.
            unsafe {
                let mut word: *mut c_void = ptr::null_mut();
                let own = kiln_task_word(ptr::null_mut());
                let task =
                    kiln_kthread_create(Some(body), (&raw mut word).cast(), c"late".as_ptr());
                word = kiln_task_word(task);
                for _ in 0..10 {
                    kiln_yield();
                }
                let early = STARTED.load(SeqCst);
                kiln_wake(word);
                while !STARTED.load(SeqCst) {
                    kiln_yield();
                }
                u64::from(!early && !word.is_null() && word != own)
                    + u64::from(kiln_task_word(ptr::null_mut()) == own)
            }
        }
        assert_eq!(kernel(&mut cpu, f), 2);
    });
}

static PING: AtomicU32 = AtomicU32::new(0);
static PONG: AtomicU32 = AtomicU32::new(0);
const ROUNDS: u32 = 2_000;

/// Runs two CPUs that wake each other in turn, and sleep in between.
#[test]
fn cpus_wake_each_others_tasks() {
    run_alone(|_| {
        unsafe extern "C" fn ping(_: *mut c_void) -> u64 {
            for n in 1..=ROUNDS {
                // SAFETY: this runs in kernel mode, where these functions may be called.
                unsafe {
                    bump(&PING);
                    wait_for(&PONG, n);
                }
            }
            0
        }
        unsafe extern "C" fn pong(_: *mut c_void) -> u64 {
            for n in 1..=ROUNDS {
                // SAFETY: this runs in kernel mode, where these functions may be called.
                unsafe {
                    wait_for(&PING, n);
                    bump(&PONG);
                }
            }
            0
        }
        let other = std::thread::spawn(|| {
            let mut cpu = Cpu::boot(&Config {
                number: 1,
                ..Config::default()
            })
            .expect("a CPU boots");
            kernel(&mut cpu, pong);
        });
        let mut cpu = Cpu::boot(&Config::default()).expect("a CPU boots");
        kernel(&mut cpu, ping);
        other.join().expect("the other CPU ends");
        assert_eq!((PING.load(SeqCst), PONG.load(SeqCst)), (ROUNDS, ROUNDS));
    });
}

static RUN: AtomicU32 = AtomicU32::new(0);

#[test]
fn works_of_two_queues_wait_for_each_other() {
    run_alone(|_| {
        unsafe extern "C" fn first(_: *mut Work) {
            // The wait ends only if the other queue's thread runs at the same time.
            // SAFETY: the work function runs in kernel mode.
            unsafe {
                wait_for(&RUN, 1);
                bump(&RUN);
            }
        }
        unsafe extern "C" fn second(_: *mut Work) {
            // SAFETY: the work function runs in kernel mode.
            unsafe { bump(&RUN) }
        }
        unsafe extern "C" fn f(_: *mut c_void) -> u64 {
            let work = |f| Work {
                pending: 0,
                next: ptr::null_mut(),
                queue: ptr::null_mut(),
                fn_: Some(f),
            };
            let mut queue = Workqueue {
                head: ptr::null_mut(),
                tail: ptr::null_mut(),
                running: ptr::null_mut(),
                stopped: 0,
            };
            let (mut a, mut b, mut c) = (work(first), work(second), work(second));
            let mut good = 0;
            // SAFETY: this runs in kernel mode. The work items live until both queues are idle.
            unsafe {
                good += u64::from(kiln_workqueue_start(&mut queue, c"other".as_ptr()));
                good += u64::from(kiln_queue_work(ptr::null_mut(), &mut a));
                good += u64::from(!kiln_queue_work(&mut queue, &mut a));
                good += u64::from(kiln_queue_work(&mut queue, &mut c));
                good += u64::from(kiln_cancel_work(&mut c));
                good += u64::from(!kiln_cancel_work(&mut c));
                good += u64::from(kiln_queue_work(&mut queue, &mut b));
                kiln_flush_work(ptr::null_mut(), &mut a);
                good += u64::from(RUN.load(SeqCst) == 2);
                kiln_workqueue_stop(&mut queue);
            }
            good
        }
        let mut cpu = boot(Config::default());
        assert_eq!(kernel(&mut cpu, f), 8);
        assert_eq!(RUN.load(SeqCst), 2, "cancelled work did not run");
    });
}

static SERVED: AtomicU32 = AtomicU32::new(0);

/// Paravirtual calls replace single instructions, so they must preserve all registers except RAX.
#[test]
fn paravirtual_calls_keep_registers() {
    run_alone(|_| {
        unsafe extern "C" fn served(_: *mut c_void) {
            SERVED.fetch_add(1, SeqCst);
        }
        unsafe extern "C" fn f(_: *mut c_void) -> u64 {
            let mut kept = 0;
            // SAFETY: this runs in kernel mode, and every register that the calls use is declared.
            unsafe {
                kiln_open_softirq(7, Some(served));
                for call in [
                    kiln_pv_irq_disable as *const () as usize,
                    kiln_pv_save_fl as *const () as usize,
                    kiln_pv_irq_enable as *const () as usize,
                    kiln_pv_save_fl as *const () as usize,
                    kiln_preempt_schedule_thunk as *const () as usize,
                ] {
                    if call == kiln_pv_irq_enable as *const () as usize {
                        // Raise a softirq, so that the call that enables interrupts also runs C
                        // code.
                        kiln_raise_softirq(7);
                        asm!("mov dword ptr gs:[76], 1");
                    }
                    let [mut c, mut d, mut si, mut di] = [1u64, 2, 3, 4];
                    let [mut r8, mut r9, mut r10, mut r11] = [5u64, 6, 7, 8];
                    let flags: u64;
                    // Align the stack to 8 bytes but not to 16, as a tree's callers do.
                    asm!(
                        "push rbp", "mov rbp, rsp", "and rsp, -16", "sub rsp, 8",
                        "call rax",
                        "mov rsp, rbp", "pop rbp",
                        inout("rax") call => flags,
                        inout("rcx") c, inout("rdx") d, inout("rsi") si, inout("rdi") di,
                        inout("r8") r8, inout("r9") r9, inout("r10") r10, inout("r11") r11,
                    );
                    kept += u64::from([c, d, si, di, r8, r9, r10, r11] == [1, 2, 3, 4, 5, 6, 7, 8]);
                    if call == kiln_pv_save_fl as *const () as usize {
                        kept += flags << 8;
                    }
                }
            }
            kept
        }
        let mut cpu = boot(Config::default());
        // The first query must report that interrupts are disabled, and the second that they are
        // enabled.
        assert_eq!(kernel(&mut cpu, f), 5 + (0x200 << 8));
        assert_eq!(SERVED.load(SeqCst), 1);
    });
}

#[test]
fn a_trees_own_sections_are_counted_and_timed() {
    run_alone(|_| {
        unsafe extern "C" fn f(_: *mut c_void) -> u64 {
            let mut section = Section {
                now: 0,
                irqs_seen: 0,
            };
            // SAFETY: this runs in kernel mode, where these functions may be called.
            unsafe {
                for _ in 0..1_000 {
                    kiln_section_time(&mut section);
                    kiln_section_enter(&section);
                    kiln_section_leave();
                }
                // Nest sections more deeply than the limit allows, and then end more sections than
                // were opened.
                for _ in 0..20 {
                    kiln_section_time(&mut section);
                    kiln_section_enter(&section);
                }
                for _ in 0..30 {
                    kiln_section_leave();
                }
                kiln_warn();
            }
            0
        }
        let mut cpu = boot(Config::default());
        kernel(&mut cpu, f);
        let stats = cpu.stats();
        assert_eq!(stats.sections, 1_020);
        assert_eq!(stats.sections_timed, 1_003);
        assert_eq!(stats.warnings, 1);
    });
}

static TICKS: AtomicU64 = AtomicU64::new(0);
static IDLE: AtomicU64 = AtomicU64::new(0);

#[test]
fn ticks_and_idleness_are_told() {
    run_alone(|_| {
        unsafe extern "C" fn tick() {
            let count: u32;
            // SAFETY: the instruction only reads a word of the CPU's data.
            unsafe { asm!("mov {:e}, gs:[8]", out(reg) count) };
            TICKS.fetch_add(u64::from(count & 0xf_0000 == 0x1_0000), SeqCst);
        }
        unsafe extern "C" fn idle(since: u64) {
            IDLE.fetch_max(since, SeqCst);
            // Wake the waiting task after enough ticks.
            if TICKS.load(SeqCst) >= 5 && PING.load(SeqCst) == 0 {
                // SAFETY: the CPU calls hooks in kernel mode.
                unsafe { bump(&PING) };
            }
        }
        unsafe extern "C" fn f(_: *mut c_void) -> u64 {
            // SAFETY: the gate calls this function in kernel mode.
            unsafe { wait_for(&PING, 1) };
            0
        }
        let hooks = Hooks {
            tick: Some(tick),
            idle: Some(idle),
            ..HOOKS
        };
        let mut cpu = boot(Config::default());
        // SAFETY: the hooks use general-purpose registers only, and live until the end of the test.
        unsafe { assert!(attach(&mut cpu, &hooks)) };
        let timer = Timer::start(&mut cpu, Arrivals::Periodic(2_000.0)).expect("a timer");
        kernel(&mut cpu, f);
        drop(timer);
        assert!(TICKS.load(SeqCst) >= 5);
        assert!(IDLE.load(SeqCst) > 0);
    });
}

/// A tree may keep the preempt count in its own variable and disable softirqs without calling Kiln,
/// as Linux has done since 7.2. Softirqs must then wait until the tree makes the call that enables
/// them. After that call, the CPU's own preempt count must be zero.
#[test]
fn a_count_of_the_trees_own_keeps_softirqs_out() {
    run_alone(|_| {
        const DISABLED: i32 = 0x200;
        const SOFTIRQ: u32 = 3;
        static COUNT: AtomicI32 = AtomicI32::new(0);
        static COUNTED: AtomicI32 = AtomicI32::new(0);
        static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
        static SERVED: AtomicU32 = AtomicU32::new(0);
        static SERVED_BEFORE: AtomicU32 = AtomicU32::new(0);
        unsafe extern "C" fn uncounted() -> i32 {
            let n = COUNT.load(SeqCst) - COUNTED.load(SeqCst);
            COUNTED.fetch_add(n, SeqCst);
            n
        }
        unsafe extern "C" fn interrupt(_: *mut c_void) {
            INTERRUPTS.fetch_add(1, SeqCst);
            // SAFETY: the function may be called in hardirq context.
            unsafe { kiln_raise_softirq(SOFTIRQ) };
        }
        unsafe extern "C" fn serve(_: *mut c_void) {
            SERVED.fetch_add(1, SeqCst);
        }
        unsafe extern "C" fn f(_: *mut c_void) -> u64 {
            SERVED.store(0, SeqCst);
            INTERRUPTS.store(0, SeqCst);
            COUNT.fetch_add(DISABLED, SeqCst);
            while INTERRUPTS.load(SeqCst) < 20 {
                std::hint::spin_loop();
            }
            SERVED_BEFORE.store(SERVED.load(SeqCst), SeqCst);
            COUNT.fetch_sub(DISABLED, SeqCst);
            // SAFETY: this runs in kernel mode, where the function may be called.
            unsafe { kiln_bh_enabled() };
            u64::from(crate::foreign::count())
        }
        for uncounted in [Some(uncounted as unsafe extern "C" fn() -> i32), None] {
            let hooks = Hooks { uncounted, ..HOOKS };
            let mut cpu = boot(Config::default());
            // SAFETY: the hooks use general-purpose registers only, and live until the end of the
            // test.
            unsafe { assert!(attach(&mut cpu, &hooks)) };
            unsafe extern "C" fn open(_: *mut c_void) -> u64 {
                // SAFETY: this runs in kernel mode, where these functions may be called.
                unsafe {
                    kiln_open_softirq(SOFTIRQ, Some(serve));
                    kiln_on_interrupt(Some(interrupt));
                }
                0
            }
            kernel(&mut cpu, open);
            let timer = Timer::start(&mut cpu, Arrivals::Periodic(2_000.0)).expect("a timer");
            let count = kernel(&mut cpu, f);
            drop(timer);
            let before = SERVED_BEFORE.load(SeqCst);
            match uncounted {
                Some(_) => {
                    assert_eq!((count, before), (0, 0));
                    assert!(
                        SERVED.load(SeqCst) > 0,
                        "softirqs are served once they are enabled"
                    );
                }
                // Control: without the hook, the CPU does not notice that softirqs are disabled.
                None => assert!(before > 0),
            }
        }
    });
}

#[test]
fn a_tree_with_a_count_of_its_own_is_told_of_contexts() {
    run_alone(|_| {
        const HARDIRQ: i32 = 0x10000;
        const SERVING: i32 = 0x100;
        const SOFTIRQ: u32 = 3;
        static TOLD: AtomicI32 = AtomicI32::new(0);
        static IN_HARDIRQ: AtomicI32 = AtomicI32::new(0);
        static IN_SOFTIRQ: AtomicI32 = AtomicI32::new(0);
        static SERVED: AtomicU32 = AtomicU32::new(0);
        unsafe extern "C" fn context(n: i32) {
            TOLD.fetch_add(n, SeqCst);
        }
        unsafe extern "C" fn interrupt(_: *mut c_void) {
            IN_HARDIRQ.store(TOLD.load(SeqCst), SeqCst);
            // SAFETY: the function may be called in hardirq context.
            unsafe { kiln_raise_softirq(SOFTIRQ) };
        }
        unsafe extern "C" fn serve(_: *mut c_void) {
            IN_SOFTIRQ.store(TOLD.load(SeqCst), SeqCst);
            SERVED.fetch_add(1, SeqCst);
        }
        unsafe extern "C" fn f(_: *mut c_void) -> u64 {
            // SAFETY: this runs in kernel mode, where these functions may be called.
            unsafe {
                kiln_open_softirq(SOFTIRQ, Some(serve));
                kiln_on_interrupt(Some(interrupt));
            }
            while SERVED.load(SeqCst) < 20 {
                std::hint::spin_loop();
            }
            0
        }
        let hooks = Hooks {
            context: Some(context),
            ..HOOKS
        };
        let mut cpu = boot(Config::default());
        // SAFETY: the hooks use general-purpose registers only, and live until the end of the test.
        unsafe { assert!(attach(&mut cpu, &hooks)) };
        let timer = Timer::start(&mut cpu, Arrivals::Periodic(2_000.0)).expect("a timer");
        kernel(&mut cpu, f);
        drop(timer);
        // Check only the hardirq bit, because the hardirq may have interrupted a softirq.
        assert_eq!(IN_HARDIRQ.load(SeqCst) & HARDIRQ, HARDIRQ);
        assert_eq!(IN_SOFTIRQ.load(SeqCst), SERVING);
        for context in [
            Context::TaskBhOff,
            Context::Nmi,
            Context::HardirqOverSoftirq,
        ] {
            usable(&mut cpu, context, false);
        }
        assert_eq!(TOLD.load(SeqCst), 0, "every context entered was left");
    });
}
