//! FPU policies, and the questions one puts to them.

use crate::cpu::{self, Cpu};
use crate::derive::parse_names;
use crate::sys;
use crate::tier::static_str;

/// One way of sharing the FPU between tasks and interrupts: `kernel/fpu/NAME.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Policy(pub(crate) u32);

impl Policy {
    /// All of Kiln's own, the broken control last.
    pub fn all() -> Vec<Policy> {
        // SAFETY: no arguments; a constant.
        (0..unsafe { sys::kiln_fpu_policies() })
            .map(Policy)
            .collect()
    }

    pub fn name(self) -> &'static str {
        // SAFETY: takes any number; returns null or a literal.
        unsafe { static_str(sys::kiln_fpu_policy(self.0)) }.unwrap_or("?")
    }

    /// Whether this is the control that saves nothing.
    pub fn is_broken(self) -> bool {
        self.name() == "none"
    }

    /// Put it in force, for every CPU of the process. None may be in a section, which
    /// the exclusive borrow of the only CPU shows.
    pub fn set(self, _cpu: &mut Cpu) {
        // SAFETY: no section is open: the calling CPU is in user mode.
        unsafe { sys::kiln_fpu_policy_set(self.0) }
    }
}

parse_names!(Policy, "policy", Policy::all());

/// The context in which [`usable`] asks: `enum kiln_context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Context {
    /// A plain task.
    Task,
    /// A task with softirqs disabled.
    TaskBhOff,
    /// A softirq over a plain task.
    Softirq,
    /// A hardirq over a plain task.
    Hardirq,
    /// A hardirq over a task with softirqs disabled.
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

/// Ask whether the FPU is usable in `context`, with a section of the task below in
/// progress or not.
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

/// Open and close `pairs` sections with nothing in them, with the section clock, as ever, or
/// without.
pub fn pairs(pairs: u64, timed: bool) {
    let mut raw = sys::FpuPairs { pairs, timed };
    // SAFETY: the function takes this structure.
    unsafe { cpu::gate(sys::kiln_fpu_pairs, (&raw mut raw).cast()) };
}

/// Save and restore the registers as a section over a section does, `saves` times, all of them in use.
pub fn saves(saves: u64) {
    let mut raw = sys::FpuSaves { saves };
    // SAFETY: the function takes this structure.
    unsafe { cpu::gate(sys::kiln_fpu_saves, (&raw mut raw).cast()) };
}

/// Bytes one save of the registers takes on this CPU.
pub fn state_size() -> u32 {
    // SAFETY: no arguments; CPUID.
    unsafe { sys::kiln_fpstate_size() }
}

/// The control for a detector: leave features (bits of XCR0) out of every save from now
/// on, in the whole process.
#[doc(hidden)]
pub fn forget_features(features: u32) {
    // SAFETY: changes a mask; what is lost is register contents.
    unsafe { sys::kiln_fpstate_forget(features) }
}
