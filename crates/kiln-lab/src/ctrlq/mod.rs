//! How should a virtio-crypto control queue wait, and how fast can it get? Driver and device in two processes.
//!
//! | | |
//! |---|---|
//! | `plan.rs` | what is asked for |
//! | `device.rs` | a device in a process of its own |
//! | `load.rs` | workers that create and close sessions |
//! | `run.rs` | every way of waiting with every device |
//! | `row.rs` | what came of it |
//! | `paper.rs` | what the paper found |

pub mod device;
mod load;
pub mod paper;
mod plan;
mod row;
mod run;

pub use plan::{parse_ctrls, parse_kinds, parse_modes, Kind, Plan, Way};
pub use row::{Octaves, Row};
pub use run::{run, Outcome};
