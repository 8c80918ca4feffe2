//! Tests whether an implementation's run time depends on its key or text. Short runs of each
//! implementation are measured many times with two classes of inputs, one fixed and one random.
//! [`kiln_measure::classes`] compares the times of the two classes.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the flag |
//! | `trial.rs` | one implementation, or a control, to be measured with inputs of either class |
//! | `run.rs` | the plan, all trials, rows |
//! | `view.rs` | the human-readable table |

mod args;
mod run;
mod trial;
mod view;

pub(super) use args::ask;
pub(super) use run::Row;
