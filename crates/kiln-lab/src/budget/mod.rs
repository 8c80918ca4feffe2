//! How many bytes one FPU section may hold: what fits a latency target here, how long sections really last by each
//! way of cutting, what that costs, and whom it keeps waiting.
//!
//! | | |
//! |---|---|
//! | `plan.rs` | what is asked for, and whether it can be had |
//! | `bench.rs` | one implementation with its messages, on an emulated CPU |
//! | `run.rs` | every implementation under every way |
//! | `row.rs` | what came of it |
//! | `header.rs` | the constants, for those who must have constants |
//! | `picture.rs` | section lengths by way, as an SVG |

mod bench;
pub mod header;
mod picture;
mod plan;
mod row;
mod run;

pub use picture::svg;
pub use plan::{parse_ways, Data, Plan};
pub use row::{keeps_target, Lengths, Row};
pub use run::{run, Outcome};
