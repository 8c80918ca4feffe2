//! Measures how a driver should wait for a virtio-crypto control queue, and how fast the queue can
//! be. The driver and the device are separate processes.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `plan.rs` | the request |
//! | `load.rs` | workers that create and close sessions |
//! | `run.rs` | runs every waiting method with every device |
//! | `row.rs` | the rows |
//! | `view.rs` | the human-readable tables |
//! | `verdict.rs` | which waiting method is best for which purpose |
//! | `paper.rs` | the published results |
//! | `survey.rs`, `headline.rs` | the command's part of the survey, and its headlines |

mod args;
mod headline;
mod load;
mod paper;
mod plan;
mod row;
mod run;
mod survey;
mod verdict;
mod view;

pub(crate) use args::CtrlqArgs;
pub(crate) use survey::SURVEY;
