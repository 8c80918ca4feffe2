//! Emulates interrupts. Host signals are delivered to `kernel/` in the way that a CPU delivers
//! interrupts to ring 0.
//!
//! The signal handler runs on an alternate stack with all signals blocked. Like a CPU, it writes an
//! interrupt frame to the interrupted stack, but below the red zone. It diverts the thread to
//! `kiln_irq_trampoline`. On return from the signal, the host restores every vector register, so
//! the trampoline runs with the interrupted code's values in these registers, just as a kernel's
//! interrupt handler does. Only the FPU policy determines whether these values survive.

mod audit;
mod auditing;
mod breakpoint;
mod copies;
mod frame;
mod handler;
mod injection;
mod patch;
mod source;
mod step;
mod stepper;

pub use audit::{Breach, Visit};
pub use auditing::Auditing;
pub use breakpoint::Breakpoints;
pub use handler::{restore_original, Handling};
pub(crate) use injection::Injection;
pub use injection::{Arrivals, Step};
pub use source::{CrossCore, Timer};
pub use step::Stepping;

/// The structure that the audited code and the trap handler share.
pub use crate::sys::Audit;
