//! Times implementations. Kiln's own implementations, those in other libraries and those in kernel
//! trees process the same messages, and their results are checked before and after timing.
//!
//! This is a separate crate because it contains the timed loops and is compiled with all
//! optimisations. The commands do not need these optimisations and are in `crates/questions`.
//!
//! | file | contents |
//! |---|---|
//! | `shape.rs` | what one call looks like |
//! | `level.rs` | whether functions or requests are called, and the layout of requests |
//! | `messages.rs`, `pages.rs` | the messages of a shape, and the memory that holds them |
//! | `candidate.rs` | an implementation that can be timed, and the judge of its results |
//! | `source.rs` | where candidates come from: the trait `Source` |
//! | `own.rs`, `requests.rs` | Kiln's own implementations: functions, and requests to drivers |
//! | `tree/` | a hosted kernel tree |
//! | `peer/` | other libraries, loaded at run time |
//! | `bench.rs` | times candidates in interleaved runs, and checks their results |

mod bench;
mod candidate;
mod level;
mod messages;
mod own;
mod pages;
pub mod peer;
pub mod requests;
mod shape;
mod source;
mod tree;

pub use bench::{
    bench, bench_cold, check, check_after, check_before, subjects, Crew, Entry, Reference, Timed,
};
pub use candidate::{Candidate, Judge, Run, Takes, KILN};
pub use level::{Layout, Level};
pub use messages::{Messages, IV_UNIT};
pub use own::Own;
pub use shape::Op;
pub use shape::{Kind, Shape};
pub use source::{Choice, Source, Spec, Work};
pub use tree::Tree;
