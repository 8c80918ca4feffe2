//! How many cycles an algorithm takes, by implementation, operation, key size and length.

mod again;
mod bench;
mod best;
mod candidate;
mod effort;
mod level;
mod messages;
mod own;
mod pages;
mod plan;
mod requests;
mod row;
mod run;
mod set;
mod shape;
mod source;
mod steps;
#[cfg(test)]
mod tests;
mod tree;

pub use best::{pace, slower, BestPeer, BestTree, Count, ManyRival, Summary, SHORT};
pub use candidate::{Candidate, Judge, Run, Takes, KILN};
pub use effort::SWEEP;
pub use level::{Layout, Level};
pub use messages::{Messages, IV_UNIT, MESSAGES};
pub use own::cipher_op;
pub use plan::Plan;
pub use row::{Against, Row};
pub use run::{run, run_with, Outcome, Progress};
pub use shape::{Kind, Op, Shape};
pub use source::{key_bytes, title, Choice, Source, Spec, Work};
pub use tree::Tree;
