//! Measures ciphers through a virtio-crypto device in another process, and compares them with the
//! same ciphers in this process.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the flags |
//! | `plan.rs` | the request |
//! | `run.rs` | threads, each with a data queue |
//! | `row.rs` | the rows |
//! | `view.rs` | the human-readable table |

mod args;
mod plan;
mod row;
mod run;
mod view;

pub(super) use args::{ask, ViaArgs};
pub(super) use row::Row;
