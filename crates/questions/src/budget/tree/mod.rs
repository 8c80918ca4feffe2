//! Measures how long the functions of a kernel tree's library disable preemption and softirqs, by
//! message length.
//!
//! | file | contents |
//! |---|---|
//! | `wanted.rs` | the request |
//! | `ask.rs` | builds the tree, and starts the child process that measures |
//! | `run.rs` | the child's part: every function at every length |
//! | `bound.rs` | the length beyond which sections do not grow |
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
