//! Ciphers by way of a virtio-crypto device in another process, against the same in this one.
//!
//! | | |
//! |---|---|
//! | `plan.rs` | what is asked for |
//! | `run.rs` | threads, each with a data queue |
//! | `row.rs` | what came of it |

mod plan;
mod row;
mod run;

pub use plan::Plan;
pub use row::Row;
pub use run::{run, Outcome};
