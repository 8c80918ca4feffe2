//! What each FPU policy does to IPsec: ESP in softirqs over a task that encrypts disk sectors, at rising
//! rates, or through low, high and low load again.
//!
//! | file | its noun |
//! |---|---|
//! | `plan.rs` | what is asked for, and whether it is valid |
//! | `traffic.rs` | what arrives, and when |
//! | `capture.rs` | sizes and times from a capture file |
//! | `run.rs` | the rounds: policies by turns, each with its control |
//! | `sweep.rs` | the curve: packets delivered against packets offered, and its knee |
//! | `timeline.rs` | throughput and queue over time, the mean of the rounds |
//! | `course.rs` | the same as fields of a row |
//! | `picture.rs` | the same as a picture |

pub mod capture;
mod course;
mod picture;
mod plan;
mod run;
mod sweep;
mod timeline;
mod traffic;

pub use course::Course;
pub use picture::{curve_svg, svg};
pub use plan::{Settings, IRQ_RATE};
pub use run::{run, EspOutcome};
pub use sweep::{Sweep, LOST};
pub use timeline::Timeline;
pub use traffic::{EspLoad, Source};
