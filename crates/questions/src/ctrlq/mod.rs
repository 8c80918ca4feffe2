//! How should a virtio-crypto control queue wait, and how fast can it get? Driver and device in two processes.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `plan.rs` | what is asked for |
//! | `load.rs` | workers that create and close sessions |
//! | `run.rs` | every way of waiting with every device |
//! | `row.rs` | what came of it |
//! | `view.rs` | the tables for people |
//! | `paper.rs` | what the paper found |
//! | `survey.rs`, `headline.rs` | its parts of the survey, and the headlines made of their records |

mod args;
mod headline;
mod load;
mod paper;
mod plan;
mod row;
mod run;
mod survey;
mod view;

pub(crate) use args::CtrlqArgs;
pub(crate) use survey::SURVEY;
