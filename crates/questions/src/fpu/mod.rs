//! Measures what each FPU policy costs under softirq load, and tests whether it loses state.
//!
//! | file | contents |
//! |---|---|
//! | `bench.rs` | the emulated CPU, and a tree on it |
//! | `plan.rs` | the request, and its validation |
//! | `inject.rs` | sources of interrupts |
//! | `workload.rs` | what the task and the softirqs encrypt |
//! | `run.rs` | the policy table: slices of real and of empty interrupts, interleaved |
//! | `tally.rs` | counts of a policy |
//! | `row.rs` | a row of the policy table |
//! | `spread.rs` | distributions of times, as fields of a row |
//! | `costs.rs` | what sections, their saves and the section timer cost without interrupts |
//! | `answers.rs` | whether the FPU is usable, in every context |
//! | `breakpoints.rs` | campaigns: interrupts at random instructions |
//! | `power.rs` | whether a run could have detected a loss |
//! | `step.rs` | proof runs: an interrupt before every instruction |
//! | `nest.rs` | proof runs: interrupts before every instruction of a softirq |
//! | `single.rs` | proof runs: one interrupt at a time |
//! | `pairs.rs` | proof runs: one interrupt in the softirq that another interrupt raised |
//! | `probe.rs` | one operation under one injection |
//! | `examined.rs`, `step_row.rs` | the results of proof runs for one combination, and its row |
//! | `packets.rs`, `course.rs`, `timeline.rs` | what `kiln ipsec` adds to a row |
//! | `replay.rs` | notes with commands that reproduce a loss |
//! | `ask.rs` | measures Kiln's own policies in this process, and prints all rows |
//! | `tree.rs` | measures the policies of kernel trees in child processes |
//! | `args.rs`, `prove_args.rs`, `breakpoint_args.rs`, `usable_args.rs` | the commands |
//! | `policy_args.rs`, `load_args.rs`, `cpu_args.rs` | flags that several commands share |
//! | `functions/` | `kiln fpu prove --tree`: interrupts at every instruction of library functions |
//! | `overhead/` | `kiln fpu overhead`: the costs of several methods of calling a cipher |
//! | `view.rs` | the human-readable tables |
//! | `survey.rs`, `headline.rs` | the commands' parts of the survey, and their headlines |

mod answers;
mod args;
mod ask;
pub(crate) mod bench;
mod breakpoint_args;
mod breakpoints;
mod costs;
pub(crate) mod course;
mod cpu_args;
mod examined;
mod functions;
mod headline;
pub(crate) mod inject;
mod load_args;
mod nest;
mod overhead;
pub(crate) mod packets;
mod pairs;
pub(crate) mod plan;
mod policy_args;
mod power;
mod probe;
mod prove_args;
mod replay;
pub(crate) mod row;
mod run;
mod single;
mod spread;
mod step;
mod step_row;
mod survey;
pub(crate) mod tally;
pub(crate) mod timeline;
mod tree;
mod usable_args;
pub(crate) mod view;
pub(crate) mod workload;

pub(crate) use args::FpuArgs;
pub(crate) use cpu_args::CpuArgs;
pub(crate) use headline::NESTED_FPU;
pub(crate) use row::Row;
pub(crate) use survey::SURVEY;
