//! Tests the correctness of every implementation with known answers, invalid inputs and random
//! messages. The buffers are surrounded by guard pages, the tests run under every mask of tiers and
//! in every context, and the registers are checked after each call.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `tree.rs` | a kernel tree's own self-tests (`--tree`) |
//! | `constant_time/` | whether execution time depends on keys and texts (`--constant-time`) |
//! | `message.rs` | a message, and its placement |
//! | `judge.rs` | the expected result for a message |
//! | `guard.rs` | a buffer between two guard pages, poisoned around the data |
//! | `arena.rs` | the buffers of one thread |
//! | `fault.rs` | the signal handler that turns a crash into a failing case |
//! | `registers.rs` | a call with a check of the registers |
//! | `bench/` | calls with messages in the memory of one thread, and all checks after each call |
//! | `expectation.rs` | the expected results in each cipher's folder |
//! | `caller.rs` | the contexts from which cases are called |
//! | `vectors.rs` | known answers |
//! | `wycheproof.rs` | the tests of Project Wycheproof |
//! | `scatter.rs` | a request's memory: pieces, with poison between them |
//! | `request.rs` | a request to the crypto API |
//! | `asked.rs` | the requests that the tests make |
//! | `many.rs` | messages processed in parallel |
//! | `wiped.rs` | keys of freed transforms |
//! | `suite.rs` | the suites |
//! | `case.rs` | one case of a suite, drawn from (suite, seed, number) alone |
//! | `family.rs` | an algorithm: the implementations to test, and the reference implementation |
//! | `run.rs` | runs cases on many threads, with the same result for any number of threads |
//! | `contexts.rs` | runs cases on emulated CPUs, with interrupts |
//! | `selection.rs` | which implementation is chosen |
//! | `tally.rs` | cases and failures |
//! | `masks.rs` | all suites under each mask of tiers and each policy, as rows |

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
