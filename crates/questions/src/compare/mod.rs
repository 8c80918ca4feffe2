//! Changes beyond the noise between two records, or between two sides measured in turn.
//!
//! | file | its noun |
//! |---|---|
//! | `args.rs` | the command |
//! | `side.rs` | the figures of one side, by key |
//! | `message.rs` | a paragraph for a commit message |
//! | `row.rs` | one key's two figures, their ratio and its verdict; how many of them there are |
//! | `turns.rs` | two sides measured in alternation |
//! | `view.rs` | the table for people |

mod args;
mod message;
mod row;
mod side;
mod turns;
mod view;

pub(crate) use args::CompareArgs;
