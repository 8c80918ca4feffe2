//! Is every implementation right? Known answers, refusals and random comparisons, on memory with guard pages, through
//! a look at the registers, under every mask of tiers and in every context.
//!
//! | file | its noun |
//! |---|---|
//! | `args.rs` | the command |
//! | `tree.rs` | a kernel tree's own self-tests (`--tree`) |
//! | `constant_time/` | does time depend on keys and texts (`--constant-time`) |
//! | `message.rs` | a message, and where it lies |
//! | `judge.rs` | the right answer to it |
//! | `guard.rs` | a buffer between two guard pages, poisoned around the data |
//! | `arena.rs` | the buffers of one thread |
//! | `fault.rs` | the signal handler that turns a crash into a failing case |
//! | `registers.rs` | a call through a look at the registers |
//! | `bench.rs` | one message on the memory of one thread, every call with every check |
//! | `expectation.rs` | what each cipher's folder says is to be expected |
//! | `caller.rs` | the contexts that cases are called from |
//! | `vectors.rs` | known answers |
//! | `wycheproof.rs` | Project Wycheproof's |
//! | `scatter.rs` | a request's memory: pieces, with poison between them |
//! | `request.rs` | a request to the crypto API |
//! | `asked.rs` | which requests are made |
//! | `many.rs` | messages that are encrypted side by side |
//! | `wiped.rs` | keys of freed transforms |
//! | `suite.rs` | the suites |
//! | `case.rs` | one case of a suite, drawn from (suite, seed, number) alone |
//! | `family.rs` | an algorithm: who is tested, and who judges |
//! | `run.rs` | many cases on many threads, with the same result for any number of threads |
//! | `contexts.rs` | the same on emulated CPUs, with interrupts |
//! | `selection.rs` | which implementation is chosen |
//! | `tally.rs` | what was found |
//! | `masks.rs` | all of it under each mask of tiers and each policy, as rows |

mod arena;
mod args;
mod asked;
mod bench;
mod caller;
pub mod case;
mod constant_time;
pub mod contexts;
mod expectation;
pub mod family;
pub mod fault;
pub mod guard;
pub mod judge;
pub mod many;
pub mod masks;
pub mod message;
mod registers;
pub mod request;
pub mod run;
mod scatter;
pub mod selection;
pub mod suite;
mod tally;
mod tree;
pub mod vectors;
mod wiped;
pub mod wycheproof;

pub use args::TestArgs;
pub use bench::{Bench, Replay, Verdict};
pub use family::Family;
pub use masks::{Plan, Row};
pub use suite::Suite;
pub use tally::{Failure, Tally};
