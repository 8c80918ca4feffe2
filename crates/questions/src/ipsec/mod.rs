//! Measures how each FPU policy affects IPsec. Softirqs that process ESP packets interrupt a task
//! that encrypts disk sectors. Either the packet rate rises in steps, or the load is low, then
//! high, then low again.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `plan.rs` | the request, and its validation |
//! | `traffic.rs` | packet sizes and times |
//! | `capture.rs` | sizes and times from a capture file |
//! | `gateway.rs` | the drivers that forward packets, and the interrupted task |
//! | `run.rs` | rounds in which policies alternate, each with its control |
//! | `sweep.rs` | the curve of packets delivered against packets offered, and its knee |
//! | `row.rs` | a row |
//! | `view.rs` | the human-readable tables |
//! | `survey.rs`, `headline.rs` | the command's part of the survey, and its headlines |

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
