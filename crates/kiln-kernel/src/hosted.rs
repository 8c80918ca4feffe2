//! The border for code of a hosted kernel tree that runs on an emulated CPU:
//! `kernel/include/kiln/abi/hosted.h`.

use std::ffi::{c_char, c_void};
use std::ptr;

use crate::cpu::{self, Cpu};
use crate::fpu::Policy;
use crate::sys;

/// Events of the CPU that a tree gets: `struct kiln_hooks`.
#[repr(C)]
pub struct Hooks {
    /// Makes the tree's word for a task, or makes `old` new.
    pub new_task:
        unsafe extern "C" fn(old: *mut c_void, name: *const c_char, user: bool) -> *mut c_void,
    /// In hardirq, at each tick.
    pub tick: Option<unsafe extern "C" fn()>,
    /// No task can run for this many TSC ticks.
    pub idle: Option<unsafe extern "C" fn(since: u64)>,
    /// What the tree's inline functions have added to a preempt count of the tree's own since the last call.
    pub uncounted: Option<unsafe extern "C" fn() -> i32>,
}

/// A policy that is a tree's: `struct kiln_fpu_ops`. All are called in kernel mode.
#[repr(C)]
pub struct FpuOps {
    /// Its name, a C string.
    pub name: *const c_char,
    /// Opens a section.
    pub begin: unsafe extern "C" fn(),
    /// Ends it.
    pub end: unsafe extern "C" fn(),
    /// Whether one may be opened.
    pub usable: unsafe extern "C" fn() -> bool,
    /// Loads the current task's user state where it is not in the registers; whether it did.
    pub user_restore: unsafe extern "C" fn() -> bool,
    /// From one task to another, by their words.
    pub switch_to: unsafe extern "C" fn(prev: *mut c_void, next: *mut c_void),
}

sys::assert_layout!(Hooks, sys::Hooks, new_task tick idle uncounted);
sys::assert_layout!(FpuOps, sys::FpuOps, name begin end usable user_restore switch_to);

// SAFETY: functions and a constant string.
unsafe impl Sync for FpuOps {}

impl Policy {
    /// Add a tree's policy to Kiln's own. None when there are too many.
    ///
    /// # Safety
    /// The functions use general registers only but for what a policy does with the others, and
    /// live as long as the process.
    pub unsafe fn foreign(ops: &'static FpuOps) -> Option<Policy> {
        // SAFETY: a live structure of the type it takes; the rest is the caller's promise.
        let number = unsafe { sys::kiln_fpu_policy_add(ptr::from_ref(ops).cast()) };
        u32::try_from(number).ok().map(Policy)
    }
}

impl Policy {
    /// Of the number that `kiln_fpu_policy_add` gave to a tree's code. None of one there is not.
    ///
    /// # Safety
    /// As [`Policy::foreign`].
    pub unsafe fn of_tree(number: u64) -> Option<Policy> {
        let policy = Policy(u32::try_from(number).ok()?);
        // SAFETY: takes any number.
        (!unsafe { sys::kiln_fpu_policy(policy.0) }.is_null()).then_some(policy)
    }

    /// Put it in force.
    ///
    /// # Safety
    /// No CPU of the process is in a section.
    pub unsafe fn enforce(self) {
        // SAFETY: the caller's promise.
        unsafe { sys::kiln_fpu_policy_set(self.0) }
    }
}

/// Have the tree's hooks make a word for each task of this CPU, now and from now on. False if
/// they could not.
///
/// # Safety
/// The hooks use general registers only, and live until [`detach`].
pub unsafe fn attach(_cpu: &mut Cpu, hooks: &Hooks) -> bool {
    // SAFETY: the function takes such a structure.
    unsafe { cpu::gate(do_attach, ptr::from_ref(hooks).cast_mut().cast()) != 0 }
}

unsafe extern "C" fn do_attach(hooks: *mut c_void) -> u64 {
    // SAFETY: called through the gate with what `attach` was given.
    u64::from(unsafe { sys::kiln_attach(hooks.cast()) })
}

/// The CPU's tree is gone.
pub fn detach(_cpu: &mut Cpu) {
    extern "C" fn f(_: *mut c_void) -> u64 {
        // SAFETY: called through the gate.
        unsafe { sys::kiln_detach() };
        0
    }
    // SAFETY: the function takes nothing.
    unsafe { cpu::gate(f, ptr::null_mut()) };
}

/// Call `f(arg)` in kernel mode on the calling thread's CPU.
///
/// # Safety
/// Code that runs in kernel mode uses general registers only outside FPU sections, and takes no
/// lock of the host: it may be interrupted, and others may run on its stack.
pub unsafe fn enter(
    _cpu: &mut Cpu,
    f: unsafe extern "C" fn(*mut c_void) -> u64,
    arg: *mut c_void,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { cpu::gate(f, arg) }
}

macro_rules! border {
    ($($name:ident)*) => {
        /// The functions themselves, as the header has them.
        pub mod border {
            pub use crate::sys::{$($name),*};
            pub use crate::sys::{kiln_calls_run, Calls, Section, Work, Workqueue};
        }

        /// The functions of the border by name, for whoever links foreign code to them.
        pub fn functions() -> Vec<(&'static str, usize)> {
            vec![$((stringify!($name), border::$name as *const () as usize)),*]
        }
    };
}

border! {
    kiln_attach kiln_detach
    kiln_local_bh_disable kiln_local_bh_enable kiln_bh_enabled
    kiln_local_irq_save kiln_local_irq_restore
    kiln_local_irq_disable kiln_local_irq_enable
    kiln_raise_softirq kiln_open_softirq kiln_on_interrupt kiln_do_softirq
    kiln_pv_save_fl kiln_pv_irq_disable kiln_pv_irq_enable
    kiln_preempt_schedule kiln_preempt_schedule_thunk
    kiln_schedule kiln_cond_resched kiln_yield kiln_need_resched
    kiln_wait_prepare kiln_wait_finish kiln_wake
    kiln_kthread_create kiln_kthread_exit kiln_task_word
    kiln_workqueue_start kiln_workqueue_stop
    kiln_queue_work kiln_cancel_work kiln_flush_work
    kiln_warn
    kiln_fpu_policy_add kiln_fpu_usable
    kiln_section_time kiln_section_enter kiln_section_leave
}
