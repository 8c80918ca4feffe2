//! Tests whether the emulated CPU behaves like ring 0 (docs/EMULATION.md) and whether the detectors
//! work. Each property has a control: a fault, planted on purpose, that must be detected.
//!
//! Every test runs in a separate process with a time limit; see `machine::run_alone`. Tests print
//! measured times, but assert only counts. `KILN_SEED=N` repeats a run.

mod aead;
mod auditing;
mod clock;
mod controls;
mod corruption;
mod cryptd;
mod esp;
mod foreign;
mod hashes;
mod hosted;
mod later;
mod limits;
mod machine;
mod parallel;
mod requests;
mod scheduling;
mod softirq;
mod stepping;
mod templates;
mod usability;
mod user_state;
