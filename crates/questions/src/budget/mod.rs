//! How many bytes one FPU section may hold: what fits a latency target here, how long sections really last by each
//! way of cutting, what that costs, and whom it keeps waiting.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `plan.rs` | what is asked for, and whether it is valid |
//! | `bench.rs` | one implementation with its messages, on an emulated CPU |
//! | `run.rs` | every implementation under every way |
//! | `row.rs` | what came of it |
//! | `header.rs` | the constants, for those who must have constants |
//! | `view.rs` | the tables for people |
//! | `tree/` | sections of the functions that a kernel tree's library exports |
//! | `survey.rs`, `headline.rs` | its parts of the survey, and the headlines made of their records |

mod args;
mod bench;
mod header;
mod headline;
mod plan;
mod row;
mod run;
mod survey;
mod tree;
mod view;

pub(crate) use args::BudgetArgs;
use plan::{parse_ways, Plan};
pub(crate) use survey::SURVEY;
