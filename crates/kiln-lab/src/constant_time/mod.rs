//! Does the time of an implementation depend on its key or text? Short measurements of two classes of inputs,
//! one always the same and one random, compared by [`kiln_measure::classes`].
//!
//! | file | its noun |
//! |---|---|
//! | `trial.rs` | one implementation, or a control, to be measured with inputs of either class |
//! | `run.rs` | the plan, all trials, rows |

mod run;
mod trial;

pub use run::{run, Outcome, Plan, Row};
