//! The interface for a hosted kernel tree's code that runs on an emulated CPU: `kernel/include/kiln/abi/hosted.h`.

use std::ffi::c_void;
use std::ptr;

use crate::cpu::{self, Cpu};
use crate::fpu::Policy;
use crate::sys;

/// Callbacks for a CPU's events, and for a tree's own FPU policy. All are called in kernel mode.
pub use crate::sys::{FpuOps, Hooks};

// SAFETY: contains functions and a constant string.
unsafe impl Sync for FpuOps {}

impl Policy {
    /// Adds a tree's policy to Kiln's own. Returns `None` if there are too many.
    ///
    /// # Safety
    /// All functions must be set and live as long as the process. They may use vector registers only as a policy has
    /// to.
    pub unsafe fn foreign(ops: &'static FpuOps) -> Option<Policy> {
        // SAFETY: a valid structure of this type; the caller promises the rest.
        let number = unsafe { sys::kiln_fpu_policy_add(ops) };
        u32::try_from(number).ok().map(Policy)
    }

    /// The policy with this number from `kiln_fpu_policy_add`, if it exists.
    ///
    /// # Safety
    /// As for [`Policy::foreign`].
    pub unsafe fn from_number(number: u64) -> Option<Policy> {
        let policy = Policy(u32::try_from(number).ok()?);
        // SAFETY: accepts any number.
        (!unsafe { sys::kiln_fpu_policy(policy.0) }.is_null()).then_some(policy)
    }

    /// Activates the policy.
    ///
    /// # Safety
    /// No CPU of the process may be inside a section.
    pub unsafe fn enforce(self) {
        // SAFETY: promised by the caller.
        unsafe { sys::kiln_fpu_policy_set(self.0) }
    }
}

/// Lets the tree's hooks create a word for each present and future task of this CPU. Returns false if they could not.
///
/// # Safety
/// `new_task` must be set. The hooks must use general-purpose registers only, and live until [`detach`].
pub unsafe fn attach(_cpu: &mut Cpu, hooks: &Hooks) -> bool {
    // SAFETY: the function takes this structure.
    unsafe { cpu::gate(do_attach, ptr::from_ref(hooks).cast_mut().cast()) != 0 }
}

unsafe extern "C" fn do_attach(hooks: *mut c_void) -> u64 {
    // SAFETY: called through the gate with the argument of `attach`.
    u64::from(unsafe { sys::kiln_attach(hooks.cast()) })
}

/// Detaches the tree from this CPU.
pub fn detach(_cpu: &mut Cpu) {
    extern "C" fn f(_: *mut c_void) -> u64 {
        // SAFETY: called through the gate.
        unsafe { sys::kiln_detach() };
        0
    }
    // SAFETY: the function takes nothing.
    unsafe { cpu::gate(f, ptr::null_mut()) };
}

/// Calls `f(arg)` in kernel mode on the calling thread's CPU.
///
/// # Safety
/// Code in kernel mode must use general-purpose registers only outside FPU sections, and must not take locks of the
/// host: it may be interrupted, and other tasks may run on its stack.
pub unsafe fn enter(
    _cpu: &mut Cpu,
    f: unsafe extern "C" fn(*mut c_void) -> u64,
    arg: *mut c_void,
) -> u64 {
    // SAFETY: promised by the caller.
    unsafe { cpu::gate(f, arg) }
}

macro_rules! border {
    ($($name:ident)*) => {
        /// The functions themselves, as declared by the header.
        pub mod border {
            pub use crate::sys::{$($name),*};
            pub use crate::sys::{kiln_calls_run, Calls, Section, Work, Workqueue};
        }

        /// The interface's functions by name, for linking foreign code to them.
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
