//! What changed between two records, or between two things measured in turn, beyond the noise.
//!
//! | file | its noun |
//! |---|---|
//! | `side.rs` | the figures of one side, by key |
//! | `row.rs` | one key's two figures, their ratio and its verdict; how many of them there are |
//! | `turns.rs` | two sides measured in alternation |

mod row;
mod side;
mod turns;

pub use row::{compare, Gate, Outcome, Row, Tally};
pub use side::{Figure, Side};
pub use turns::{turns, Turn};
