//! The border for code of a hosted kernel tree that runs on an emulated CPU:
//! `kernel/include/kiln/abi/hosted.h`.

use std::ffi::c_void;
use std::ptr;

use crate::cpu::{self, Cpu};
use crate::fpu::Policy;
use crate::sys;

/// Events of the CPU that a tree gets, and a policy that is a tree's. All are called in kernel mode.
pub use crate::sys::{FpuOps, Hooks};

// SAFETY: functions and a constant string.
unsafe impl Sync for FpuOps {}

impl Policy {
    /// Add a tree's policy to Kiln's own. None when there are too many.
    ///
    /// # Safety
    /// All functions are there, use general registers only but for what a policy does with the others, and
    /// live as long as the process.
    pub unsafe fn foreign(ops: &'static FpuOps) -> Option<Policy> {
        // SAFETY: a live structure of the type it takes; the rest is the caller's promise.
        let number = unsafe { sys::kiln_fpu_policy_add(ops) };
        u32::try_from(number).ok().map(Policy)
    }

    /// The policy to which `kiln_fpu_policy_add` gave this number, if there is one.
    ///
    /// # Safety
    /// As [`Policy::foreign`].
    pub unsafe fn from_number(number: u64) -> Option<Policy> {
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
/// `new_task` is there, the hooks use general registers only, and live until [`detach`].
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

        /// The functions of the border by name, for linking foreign code to them.
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
