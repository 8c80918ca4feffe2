//! What each FPU policy does to IPsec: ESP in softirqs over a task that encrypts disk sectors, at rising
//! rates, or through low, high and low load again.
//!
//! | file | its noun |
//! |---|---|
//! | `args.rs` | the command |
//! | `plan.rs` | what is asked for, and whether it is valid |
//! | `traffic.rs` | what arrives, and when |
//! | `capture.rs` | sizes and times from a capture file |
//! | `gateway.rs` | what forwards the packets, and the task that it interrupts |
//! | `run.rs` | the rounds: policies by turns, each with its control |
//! | `sweep.rs` | the curve: packets delivered against packets offered, and its knee |
//! | `row.rs` | a row |
//! | `view.rs` | the tables for people |
//! | `survey.rs`, `headline.rs` | its parts of the survey, and the headlines made of their records |

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
