//! Is every implementation right? Vectors, lengths and random comparisons, on memory with guard pages.
//!
//! | file | its noun |
//! |---|---|
//! | `subject.rs` | what is checked: an implementation, or an offender that a test of the tests made up |
//! | `guard.rs` | a buffer between two guard pages, poisoned around the data |
//! | `fault.rs` | the signal handler that turns a crash into a failing case |
//! | `cpu_state.rs` | what a call must leave as it found it: direction flag, rounding mode |
//! | `rng.rs` | numbers that follow from a seed |
//! | `case.rs` | one random case, drawn from (seed, number) alone |
//! | `bench.rs` | the memory of one thread, and one call on it with every check |
//! | `random.rs` | many cases on many threads, with the same result for any number of threads |
//! | `lengths.rs` | messages that must be refused |
//! | `vectors.rs`, `ieee1619.txt` | IEEE Std 1619-2018, annex B |
//! | `suite.rs` | all of it under each mask of tiers, as rows |
//! | `ktap.rs` | rows as KTAP |

mod bench;
pub mod case;
mod cpu_state;
pub mod fault;
pub mod guard;
pub mod ktap;
pub mod lengths;
pub mod random;
mod rng;
pub mod subject;
pub mod suite;
pub mod vectors;

pub use bench::{Bench, Replay};
pub use random::{Failure, Tally};
pub use subject::{Subject, ALG};
pub use suite::{Outcome, Plan};
