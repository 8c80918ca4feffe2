//! FPU policies, and functions to query and time them.

use crate::cpu::{self, Cpu};
use crate::derive::parse_names;
use crate::sys;
use crate::tier::static_str;

/// A policy for sharing the FPU between tasks and interrupts: `kernel/fpu/NAME.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Policy(pub(crate) u32);

impl Policy {
    /// All of Kiln's own policies, with the broken control last.
    pub fn all() -> Vec<Policy> {
        // SAFETY: takes no arguments and returns a constant.
        (0..unsafe { sys::kiln_fpu_policies() })
            .map(Policy)
            .collect()
    }

    pub fn name(self) -> &'static str {
        // SAFETY: accepts any number, and returns null or a string literal.
        unsafe { static_str(sys::kiln_fpu_policy(self.0)) }.unwrap_or("?")
    }

    /// Whether this is the control that saves nothing.
    pub fn is_broken(self) -> bool {
        self.name() == "none"
    }

    /// Activates the policy for every CPU of the process. No CPU may be inside a section, which the exclusive borrow of
    /// the only CPU guarantees.
    pub fn set(self, _cpu: &mut Cpu) {
        // SAFETY: no section is open: the calling CPU is in user mode.
        unsafe { sys::kiln_fpu_policy_set(self.0) }
    }
}

parse_names!(Policy, "policy", Policy::all());

/// The context in which [`usable`] checks: `enum kiln_context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Context {
    /// A plain task.
    Task,
    /// A task with softirqs disabled.
    TaskBhOff,
    /// A softirq that interrupted a plain task.
    Softirq,
    /// A hardirq that interrupted a plain task.
    Hardirq,
    /// A hardirq that interrupted a task with softirqs disabled.
    HardirqOverBhOff,
    HardirqOverSoftirq,
    /// A non-maskable interrupt.
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

/// The answer of [`usable`].
pub use crate::sys::Usable as Answer;

/// Checks whether the FPU is usable in `context`, optionally while the task below has a section open.
pub fn usable(_cpu: &mut Cpu, context: Context, in_section: bool) -> Answer {
    let mut raw = sys::Usable {
        context: context as u32,
        in_section,
        ..Default::default()
    };
    // SAFETY: the function takes this structure.
    unsafe { cpu::gate(sys::kiln_usable, (&raw mut raw).cast()) };
    raw
}

/// Opens and closes `pairs` empty sections, with or without the section timer.
pub fn pairs(pairs: u64, timed: bool) {
    let mut raw = sys::FpuPairs { pairs, timed };
    // SAFETY: the function takes this structure.
    unsafe { cpu::gate(sys::kiln_fpu_pairs, (&raw mut raw).cast()) };
}

/// Saves and restores all registers, all of them in use, `saves` times, as a nested section does.
pub fn saves(saves: u64) {
    let mut raw = sys::FpuSaves { saves };
    // SAFETY: the function takes this structure.
    unsafe { cpu::gate(sys::kiln_fpu_saves, (&raw mut raw).cast()) };
}

/// Size in bytes of saved registers on this CPU.
pub fn state_size() -> u32 {
    // SAFETY: takes no arguments and reads CPUID.
    unsafe { sys::kiln_fpstate_size() }
}

/// The control for a detector: omits features (bits of XCR0) from every save from now on, in the whole process.
#[doc(hidden)]
pub fn forget_features(features: u32) {
    // SAFETY: changes a mask; the only effect is lost register contents.
    unsafe { sys::kiln_fpstate_forget(features) }
}
