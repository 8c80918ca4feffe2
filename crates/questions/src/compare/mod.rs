//! `kiln compare`: finds differences that exceed the noise, either between two records or between
//! two sides that are measured in alternation.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `side.rs` | the results of one side, by key |
//! | `message.rs` | a paragraph for a commit message |
//! | `row.rs` | two results with the same key, their ratio and verdict, and counts of rows |
//! | `turns.rs` | measures two sides in alternation |
//! | `view.rs` | the human-readable table |

mod args;
mod message;
mod row;
mod side;
mod turns;
mod view;

pub(crate) use args::CompareArgs;
