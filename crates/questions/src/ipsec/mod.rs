//! The effect of each FPU policy on IPsec: ESP in softirqs that interrupt a task which encrypts disk sectors, at rising
//! rates, or with low, high and again low load.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `plan.rs` | the request, and its validation |
//! | `traffic.rs` | packet sizes and times |
//! | `capture.rs` | sizes and times from a capture file |
//! | `gateway.rs` | the drivers that forward packets, and the task that they interrupt |
//! | `run.rs` | rounds in which policies alternate, each with its control |
//! | `sweep.rs` | the curve: packets delivered against packets offered, and its knee |
//! | `row.rs` | a row |
//! | `view.rs` | the tables for people |
//! | `survey.rs`, `headline.rs` | its parts of the survey, and the headlines made from their records |

mod args;
mod capture;
mod gateway;
mod headline;
mod plan;
mod row;
mod run;
mod survey;
mod sweep;
mod traffic;
mod view;

pub(crate) use args::IpsecArgs;
pub(crate) use survey::SURVEY;
