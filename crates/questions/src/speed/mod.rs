//! Measures how many cycles an algorithm takes for each combination of implementation, operation,
//! key size and message length.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `plan.rs` | the request, and its validation |
//! | `set.rs` | the candidates of one table, and their messages |
//! | `sources.rs` | where the candidates come from |
//! | `effort.rs` | how long each candidate is timed |
//! | `run.rs`, `again.rs` | the run; the largest steps of a sweep, measured a second time |
//! | `steps.rs` | steps between neighbouring lengths |
//! | `row.rs`, `rival.rs` | rows; the fields of a row that compare Kiln with its best competitor |
//! | `best.rs` | Kiln's best implementation compared with its best competitor |
//! | `view.rs`, `view_all.rs` | the human-readable tables, for named algorithms and for all |
//! | `counters.rs` | notes about the CPU's counters |
//! | `check.rs` | checks a tree's library functions without timing them, for `kiln test --tree` |
//! | `kunit.rs` | the benchmarks of the tree's KUnit suites (`--kunit`) |
//! | `cores.rs`, `multi.rs` | several threads at the same time (`--multi`): their cores, and the run |
//! | `tcrypt.rs` | the tree's own benchmark (`--tcrypt`) |
//! | `via/` | ciphers through a virtio-crypto device (`--via`) |
//! | `survey.rs`, `headline.rs` | what `speed` adds to the survey, and its headlines |
//! | `tests.rs`, `peer_tests.rs` | tests of complete runs, with toy ciphers and with libraries |

mod again;
mod args;
mod best;
mod check;
mod cores;
mod counters;
mod effort;
mod headline;
mod kunit;
mod multi;
#[cfg(test)]
mod peer_tests;
mod plan;
mod rival;
mod row;
mod run;
mod set;
mod sources;
mod steps;
mod survey;
mod tcrypt;
#[cfg(test)]
mod tests;
mod via;
mod view;
mod view_all;

pub use args::SpeedArgs;
pub(crate) use check::check_library;
pub use plan::Plan;
pub use row::Row;
pub use run::run;
pub(crate) use run::run_with;
pub(crate) use survey::SURVEY;
