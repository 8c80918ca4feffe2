//! Ciphers by way of a virtio-crypto device in another process, against the same in this one.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the flags |
//! | `plan.rs` | what is asked for |
//! | `run.rs` | threads, each with a data queue |
//! | `row.rs` | what came of it |
//! | `view.rs` | the table for people |

mod args;
mod plan;
mod row;
mod run;
mod view;

pub(super) use args::{ask, ViaArgs};
pub(super) use row::Row;
