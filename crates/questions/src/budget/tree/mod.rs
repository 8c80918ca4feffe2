//! Measures how long the functions of a kernel tree's library disable preemption and softirqs, by
//! message length.
//!
//! | file | contents |
//! |---|---|
//! | `wanted.rs` | the request |
//! | `ask.rs` | builds the tree, and starts the child process that measures it |
//! | `run.rs` | what the child process does: measures every function at every length |
//! | `bound.rs` | the length beyond which sections no longer grow |
//! | `row.rs` | the rows |
//! | `view.rs` | the human-readable tables |

mod ask;
mod bound;
mod row;
mod run;
mod view;
mod wanted;

pub(super) use ask::ask;
pub(super) use row::Row;
pub(super) use wanted::Wanted;
