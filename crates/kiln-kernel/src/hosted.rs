//! The interface that a hosted kernel tree uses to run on an emulated CPU. The C declarations are
//! in `kernel/include/kiln/abi/hosted.h`.

use std::ffi::c_void;
use std::ptr;

use crate::cpu::{self, Cpu};
use crate::fpu::Policy;
use crate::sys;

/// A tree's callbacks: `Hooks` for the events of a CPU, and `FpuOps` for an FPU policy. All of them
/// run in kernel mode.
pub use crate::sys::{FpuOps, Hooks};

// SAFETY: the structure contains only functions and a constant string, which threads may share.
unsafe impl Sync for FpuOps {}

impl Policy {
    /// Adds a tree's policy to Kiln's own policies. Returns `None` if the table of policies is
    /// full.
    ///
    /// # Safety
    /// All functions must be set and stay valid until the process ends. They may use vector
    /// registers only to save, restore or initialise the FPU state.
    pub unsafe fn foreign(ops: &'static FpuOps) -> Option<Policy> {
        // SAFETY: `ops` is a valid, static structure; the caller promises that its functions are
        // valid.
        let number = unsafe { sys::kiln_fpu_policy_add(ops) };
        u32::try_from(number).ok().map(Policy)
    }

    /// Returns the policy with the number that `kiln_fpu_policy_add` returned, or `None` if the
    /// number belongs to no policy.
    ///
    /// # Safety
    /// The requirements of [`Policy::foreign`] apply.
    pub unsafe fn from_number(number: u64) -> Option<Policy> {
        let policy = Policy(u32::try_from(number).ok()?);
        // SAFETY: the function accepts any number.
        (!unsafe { sys::kiln_fpu_policy(policy.0) }.is_null()).then_some(policy)
    }

    /// Activates the policy for every CPU of the process.
    ///
    /// # Safety
    /// No CPU of the process may be inside a section.
    pub unsafe fn enforce(self) {
        // SAFETY: the caller promises that no section is open.
        unsafe { sys::kiln_fpu_policy_set(self.0) }
    }
}

/// Attaches a tree to this CPU. The tree's `new_task` hook is called for each existing and future
/// task of the CPU. Returns false if the hook failed.
///
/// # Safety
/// `new_task` must be set. The hooks must use general-purpose registers only, and stay valid until
/// [`detach`].
pub unsafe fn attach(_cpu: &mut Cpu, hooks: &Hooks) -> bool {
    // SAFETY: `do_attach` takes a pointer to the hooks, which the caller promises to be valid.
    unsafe { cpu::gate(do_attach, ptr::from_ref(hooks).cast_mut().cast()) != 0 }
}

unsafe extern "C" fn do_attach(hooks: *mut c_void) -> u64 {
    // SAFETY: the function is called through the gate with the hooks passed to `attach`, which are
    // valid.
    u64::from(unsafe { sys::kiln_attach(hooks.cast()) })
}

/// Detaches the tree. From then on, this CPU does not call the tree's hooks.
pub fn detach(_cpu: &mut Cpu) {
    extern "C" fn f(_: *mut c_void) -> u64 {
        // SAFETY: the function is called through the gate, in kernel mode.
        unsafe { sys::kiln_detach() };
        0
    }
    // SAFETY: `f` ignores its argument.
    unsafe { cpu::gate(f, ptr::null_mut()) };
}

/// Calls `f(arg)` in kernel mode on the calling thread's CPU.
///
/// # Safety
/// `f` must use only general-purpose registers outside FPU sections. It must not take host locks,
/// because it may be interrupted, and then another task may run on the same host thread.
pub unsafe fn enter(
    _cpu: &mut Cpu,
    f: unsafe extern "C" fn(*mut c_void) -> u64,
    arg: *mut c_void,
) -> u64 {
    // SAFETY: the caller promises that `f` is suitable for kernel mode and takes `arg`.
    unsafe { cpu::gate(f, arg) }
}

macro_rules! border {
    ($($name:ident)*) => {
        /// The functions of the interface, as declared by the header.
        pub mod border {
            pub use crate::sys::{$($name),*};
            pub use crate::sys::{kiln_calls_run, Calls, Section, Work, Workqueue};
        }

        /// Returns the names and addresses of the interface's functions, which a linker needs to
        /// resolve the tree's references.
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
