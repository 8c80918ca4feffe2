//! What a question adds to the survey (`kiln survey`), and what its headlines are made of.
//!
//! | file | contents |
//! |---|---|
//! | `part.rs` | a topic of the survey, the parts that measure for it, and what a question contributes |
//! | `answer.rs` | what came of a part |
//! | `runs.rs` | the records of several processes of one part, and their estimate |
//! | `row.rs` | a row: a headline with its figure |
//! | `words.rs` | fields of records, and figures in sentences |

mod answer;
mod part;
mod row;
mod runs;
pub mod words;

pub use answer::{Answer, Ended};
pub use part::{args, Contribution, Means, Part, Slot, Topic};
pub use row::Row;
pub use runs::{Against, Estimate, Runs, PROCESSES};
