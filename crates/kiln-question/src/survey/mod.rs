//! What a question contributes to the survey (`kiln survey`), and the data behind its headlines.
//!
//! | file | contents |
//! |---|---|
//! | `part.rs` | a topic of the survey, and the parts that measure something for it |
//! | `contribution.rs` | what a question contributes to a topic |
//! | `answer.rs` | the result of a part |
//! | `runs.rs` | rows that several processes measured for a part, and an estimate based on all of them |
//! | `row.rs` | a row: a headline with its result |
//! | `words.rs` | reading record fields, and formatting numbers for sentences |

mod answer;
mod contribution;
mod part;
mod row;
mod runs;
pub mod words;

pub use answer::{Answer, Ended};
pub use contribution::Contribution;
pub use part::{args, Means, Part, Slot, Topic};
pub use row::Row;
pub use runs::{Against, Estimate, Runs, PROCESSES};
