//! FPU policies, and functions to query and time them.

use crate::cpu::{self, Cpu};
use crate::derive::parse_names;
use crate::sys;
use crate::tier::static_str;

/// A policy for sharing the FPU between tasks and interrupts. Each policy is implemented in
/// `kernel/fpu/NAME.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Policy(pub(crate) u32);

impl Policy {
    /// Returns all of Kiln's own policies. The last one is `none`, a broken policy that tests use
    /// to check that corruption is detected.
    pub fn all() -> Vec<Policy> {
        // SAFETY: the function takes no arguments and returns a constant.
        (0..unsafe { sys::kiln_fpu_policies() })
            .map(Policy)
            .collect()
    }

    pub fn name(self) -> &'static str {
        // SAFETY: the function accepts any number, and returns null or a string literal.
        unsafe { static_str(sys::kiln_fpu_policy(self.0)) }.unwrap_or("?")
    }

    /// Returns whether this is the broken policy, which saves nothing.
    pub fn is_broken(self) -> bool {
        self.name() == "none"
    }

    /// Activates the policy for every CPU of the process. No CPU may be inside a section. The
    /// exclusive borrow ensures this only for `_cpu`, so the process should have only one CPU.
    pub fn set(self, _cpu: &mut Cpu) {
        // SAFETY: the calling CPU is in user mode, so it has no open section.
        unsafe { sys::kiln_fpu_policy_set(self.0) }
    }
}

parse_names!(Policy, "policy", Policy::all());

/// The context that [`usable`] tests. Mirrors `enum kiln_context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Context {
    /// A task with softirqs enabled.
    Task,
    /// A task with softirqs disabled.
    TaskBhOff,
    /// A softirq that interrupted a task with softirqs enabled.
    Softirq,
    /// A hardirq that interrupted a task with softirqs enabled.
    Hardirq,
    /// A hardirq that interrupted a task with softirqs disabled.
    HardirqOverBhOff,
    HardirqOverSoftirq,
    /// An NMI. Only its preempt count is emulated, not its entry.
    Nmi,
}

impl Context {
    pub const ALL: [Context; 7] = [
        Context::Task,
        Context::TaskBhOff,
        Context::Softirq,
        Context::Hardirq,
        Context::HardirqOverBhOff,
        Context::HardirqOverSoftirq,
        Context::Nmi,
    ];
}

/// The result of [`usable`]: whether the FPU is usable, and the preempt counts and warnings
/// observed during the test.
pub use crate::sys::Usable as Answer;

/// Tests whether the FPU is usable in `context`. If `in_section` is set, the interrupted code is
/// inside a section.
pub fn usable(_cpu: &mut Cpu, context: Context, in_section: bool) -> Answer {
    let mut raw = sys::Usable {
        context: context as u32,
        in_section,
        ..Default::default()
    };
    // SAFETY: `kiln_usable` takes a pointer to this structure, which outlives the call.
    unsafe { cpu::gate(sys::kiln_usable, (&raw mut raw).cast()) };
    raw
}

/// Opens and closes `pairs` empty sections, with or without the section timer.
pub fn pairs(pairs: u64, timed: bool) {
    let mut raw = sys::FpuPairs { pairs, timed };
    // SAFETY: `kiln_fpu_pairs` takes a pointer to this structure, which outlives the call.
    unsafe { cpu::gate(sys::kiln_fpu_pairs, (&raw mut raw).cast()) };
}

/// Fills all registers, and then saves and restores them `saves` times, as a nested section does.
pub fn saves(saves: u64) {
    let mut raw = sys::FpuSaves { saves };
    // SAFETY: `kiln_fpu_saves` takes a pointer to this structure, which outlives the call.
    unsafe { cpu::gate(sys::kiln_fpu_saves, (&raw mut raw).cast()) };
}

/// Returns the size in bytes of the area that this CPU needs to save its registers.
pub fn state_size() -> u32 {
    // SAFETY: the function takes no arguments, and only reads CPUID.
    unsafe { sys::kiln_fpstate_size() }
}

/// Plants a fault to test the detectors. From now on, every save in the process omits the features
/// whose XCR0 bits are set in `features`.
#[doc(hidden)]
pub fn forget_features(features: u32) {
    // SAFETY: the function changes a mask; the only effect is that register contents are lost.
    unsafe { sys::kiln_fpstate_forget(features) }
}
