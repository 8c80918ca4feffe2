//! Whether the emulated CPU behaves as ring 0 (docs/EMULATION.md), and whether the detectors
//! that say so detect: each promise has a control, a fault planted on purpose that must be seen.
//!
//! Every test is a process of its own, with a time limit: see `machine::alone`. What is measured
//! is printed, what is counted is asserted. `KILN_SEED=N` repeats a run.

#[path = "emulation/aead.rs"]
mod aead;
#[path = "emulation/clock.rs"]
mod clock;
#[path = "emulation/controls.rs"]
mod controls;
#[path = "emulation/corruption.rs"]
mod corruption;
#[path = "emulation/cryptd.rs"]
mod cryptd;
#[path = "emulation/esp.rs"]
mod esp;
#[path = "emulation/foreign.rs"]
mod foreign;
#[path = "emulation/hashes.rs"]
mod hashes;
#[path = "emulation/hosted.rs"]
mod hosted;
#[path = "emulation/later.rs"]
mod later;
#[path = "emulation/limits.rs"]
mod limits;
#[path = "emulation/machine.rs"]
mod machine;
#[path = "emulation/parallel.rs"]
mod parallel;
#[path = "emulation/requests.rs"]
mod requests;
#[path = "emulation/scheduling.rs"]
mod scheduling;
#[path = "emulation/softirq.rs"]
mod softirq;
#[path = "emulation/stepping.rs"]
mod stepping;
#[path = "emulation/templates.rs"]
mod templates;
#[path = "emulation/usability.rs"]
mod usability;
#[path = "emulation/user_state.rs"]
mod user_state;
