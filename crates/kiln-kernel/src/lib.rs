//! The only interface from Rust to `kernel/`: bindings for `kernel/include/kiln/abi/`, and safe
//! wrappers for the rest of the workspace.

pub mod budget;
pub mod call;
pub mod calls;
pub mod cipher;
pub mod cpu;
pub mod crypto;
mod derive;
pub mod esp;
mod evict;
pub mod fpu;
pub mod guest;
pub mod hosted;
pub mod irq;
pub mod load;
pub mod messages;
pub mod pieces;
pub mod scene;
pub mod script;
pub mod storm;
mod sys;
pub mod tier;
pub mod wakeup;

pub use evict::Evictor;
pub use tier::{Feature, Tier};

/// Path and version line of the compiler that built `kernel/`.
pub const COMPILER: &str = env!("KILN_KERNEL_CC");

/// An archive of the objects of `kernel/`, without debugging information.
pub const ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/alone.a"));
