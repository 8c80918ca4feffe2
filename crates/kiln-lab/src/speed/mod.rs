//! How many cycles an algorithm takes, by implementation, operation, key size and length.

mod again;
mod bench;
mod candidate;
mod effort;
mod messages;
mod plan;
mod row;
mod run;
mod steps;

pub use candidate::{Candidate, KILN};
pub use effort::SWEEP;
pub use messages::{Messages, MESSAGES};
pub use plan::{Level, Plan};
pub use row::{Against, Row};
pub use run::{run, Outcome, Progress};
