//! The contexts in which cases are run.

use kiln_kernel::fpu::{Context, Policy};

/// The contexts in which cases are run, in turn.
pub(super) const CONTEXTS: [Context; 4] = [
    Context::Task,
    Context::TaskBhOff,
    Context::Softirq,
    Context::Hardirq,
];

/// Returns the contexts in which a policy never allows a section, even if no other section is open
/// (`docs/EMULATION.md`).
pub fn refused_in(policy: Policy) -> Vec<Context> {
    match policy.name() {
        "preemptible" => vec![Context::Hardirq],
        _ => Vec::new(),
    }
}

/// Returns the name that rows use for a context.
pub(super) fn name(context: Context) -> &'static str {
    match context {
        Context::Task => "task",
        Context::TaskBhOff => "bh-off",
        Context::Softirq => "softirq",
        Context::Hardirq => "hardirq",
        Context::HardirqOverBhOff => "hardirq-over-bh-off",
        Context::HardirqOverSoftirq => "hardirq-over-softirq",
        Context::Nmi => "nmi",
    }
}
