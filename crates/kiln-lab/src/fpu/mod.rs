//! What each FPU policy costs under softirq load, and whether it loses state.
//!
//! | file | its noun |
//! |---|---|
//! | `bench.rs` | the CPU, and a tree on it |
//! | `plan.rs` | what is asked for, and whether it can be had |
//! | `inject.rs` | where interrupts come from |
//! | `workload.rs` | what the task and the softirqs encrypt |
//! | `run.rs` | the policy table: slices of real and of empty interrupts, interleaved |
//! | `outcome.rs` | rows, notes, and whether a check failed |
//! | `tally.rs` | what a policy has counted so far |
//! | `row.rs` | a row of the policy table |
//! | `spread.rs` | how times are spread, as fields of a row |
//! | `costs.rs` | what sections, their saves and their clock cost without interrupts |
//! | `answers.rs` | whether the FPU is usable, in every context |
//! | `breakpoints.rs` | campaigns: interrupts at random instructions |
//! | `power.rs` | whether a run could have seen a loss |
//! | `step.rs` | proof runs: an interrupt before every instruction |
//! | `nest.rs` | proof runs: interrupts before every instruction of a softirq |
//! | `single.rs` | proof runs: one interrupt at a time |
//! | `pairs.rs` | proof runs: one interrupt inside the softirq of another |
//! | `probe.rs` | one operation under one injection |
//! | `esp/` | ESP packets in softirqs, at rising rates or through low and high load |

mod answers;
mod bench;
mod breakpoints;
mod costs;
pub mod esp;
mod inject;
mod nest;
mod outcome;
mod pairs;
mod plan;
pub mod power;
mod probe;
mod row;
mod run;
mod single;
mod spread;
mod step;
mod tally;
mod workload;

pub use answers::{answers, AnswerRow};
pub use bench::Bench;
pub use costs::Costs;
pub use inject::{Inject, Source, Steps};
pub use outcome::Outcome;
pub use plan::{
    contenders, fallbacks, policies, scheduler, Contender, Entry, Fallback, Plan, TreeName,
    BUSIEST_TABLE,
};
pub use row::{EspRow, Row};
pub use run::run;
pub use step::{prove, StepRow};
pub use workload::Workload;

/// Told how much of the run is done, from 0 to 1, and what is being measured.
pub type Progress<'a> = &'a mut dyn FnMut(f64, &str);
