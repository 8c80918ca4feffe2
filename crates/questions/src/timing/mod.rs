//! The code with which several commands measure times. Kiln's implementations, libraries and kernel
//! trees process the same messages, and their results are checked before and after timing.
//!
//! | file | contents |
//! |---|---|
//! | `shape.rs` | what one call looks like |
//! | `level.rs` | whether functions or requests are called, and the layout of requests |
//! | `messages.rs`, `pages.rs` | the messages of a shape, and their memory |
//! | `candidate.rs` | an implementation that can be timed, and the judge of its results |
//! | `source.rs` | where candidates come from: the trait `Source` |
//! | `own.rs`, `requests.rs` | Kiln's own implementations: functions, and requests to drivers |
//! | `tree/` | a hosted kernel tree |
//! | `bench.rs` | times candidates in turns, and checks their results |

mod bench;
mod candidate;
mod level;
mod messages;
mod own;
mod pages;
pub(crate) mod requests;
mod shape;
mod source;
mod tree;

pub(crate) use bench::{
    bench, bench_cold, check, check_after, check_before, subjects, Crew, Entry, Reference, Timed,
};
#[cfg(test)]
pub(crate) use candidate::Takes;
pub(crate) use candidate::{Candidate, Judge, Run, KILN};
pub(crate) use level::{Layout, Level};
pub(crate) use messages::{Messages, IV_UNIT};
pub(crate) use own::Own;
pub(crate) use shape::Op;
pub(crate) use shape::{Kind, Shape};
pub(crate) use source::{Choice, Source, Spec, Work};
pub(crate) use tree::Tree;
