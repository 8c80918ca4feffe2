//! Measures how many bytes one FPU section can process within a latency target on this machine, how
//! long sections last under each chunking strategy, what chunking costs, and how long other work is
//! delayed.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `plan.rs` | the request, and its validation |
//! | `bench.rs` | one implementation and its messages, on an emulated CPU |
//! | `run.rs` | runs every implementation under every strategy |
//! | `row.rs` | the rows |
//! | `header.rs` | writes the constants to a C header |
//! | `view.rs` | the human-readable tables |
//! | `tree/` | sections of the functions that a kernel tree's library exports |
//! | `survey.rs`, `headline.rs` | the command's part of the survey, and its headlines |

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
