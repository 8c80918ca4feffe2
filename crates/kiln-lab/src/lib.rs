//! The lab: one module for each question, each with a plan, a run and rows. Knows no tables and no terminal.
//!
//! | file | its noun |
//! |---|---|
//! | `speed/` | how many cycles: messages, candidates, the bench that checks and times them, rows |
//! | `check/` | is every implementation right |
//! | `constant_time/` | does time depend on keys and texts |
//! | `budget/` | bytes for an FPU section that holds a latency target |
//! | `compilers/` | which compiler, at which flags, ruins which cipher |
//! | `ctrlq/` | how should a virtio-crypto control queue wait |
//! | `compare/` | what changed between two records, or two things measured in turn |
//! | `crypt.rs` | one message through one implementation |
//! | `fpu/` | what each FPU policy costs under softirq load, and whether it loses state |
//! | `overhead/` | what the ways to reach a cipher cost against each other |
//! | `list.rs` | what is here |
//! | `limits/` | what the hardware could do at most, measured |
//! | `peer/` | other libraries, loaded at run time |
//! | `algorithm.rs` | what can be asked for, and the nearest name to what was meant |
//! | `lens.rs` | lists and ranges of lengths |
//! | `survey/` | all questions at once, in the time there is |
//! | `via/` | ciphers by way of a virtio-crypto device |
//! | `tiers.rs` | `KILN_TIERS` |
//! | `facts.rs` | the facts about this machine that every record carries |
//! | `replace.rs` | files written whole or not at all |
//! | `error.rs` | what goes wrong, with its exit status |

pub mod algorithm;
pub mod budget;
pub mod check;
pub mod compare;
pub mod compilers;
pub mod constant_time;
pub mod crypt;
pub mod ctrlq;
pub mod error;
mod facts;
pub mod fpu;
pub mod lens;
pub mod limits;
pub mod list;
pub mod overhead;
pub mod peer;
pub mod replace;
pub mod speed;
pub mod survey;
pub mod tiers;
pub mod via;

pub use algorithm::Algorithm;
pub use error::Error;
pub use facts::read_facts;
pub use limits::Limits;
