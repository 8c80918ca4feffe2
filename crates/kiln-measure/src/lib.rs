//! Clock, sampling, statistics and verdicts for timing code, independent of the code being timed.
//!
//! | file | contents |
//! |---|---|
//! | `clock.rs` | core cycles from the TSC and a chain of multiplications |
//! | `source.rs` | time sources: the real clock, or a synthetic one in tests |
//! | `counters.rs` | counters that the CPU and the kernel provide |
//! | `sample.rs` | subjects, the plan, the interleaved sampler |
//! | `series.rs` | the samples of one subject |
//! | `team.rs` | threads that run the same subject at the same time |
//! | `stats.rs` | an estimate with a prediction interval, a ratio with a confidence interval |
//! | `verdict.rs` | faster, same, slower |
//! | `machine.rs` | the facts that every record contains |
//! | `rng.rs` | random numbers derived from a seed |
//! | `pin.rs` | which cores the measuring thread may use |
//! | `probe.rs` | the experiments that grade a machine |
//! | `check.rs` | the self-check, which assigns the grades |
//! | `trust.rs` | how small a difference this machine can resolve |
//! | `watch.rs` | readings of the machine's state during a run |
//! | `warning.rs` | warnings about disturbances |
//!
//! # Known biases
//!
//! * The results are for warm code: each sample is preceded by an untimed run of its subject, which
//!   leaves caches and predictors in the subject's own state. If a subject has a large footprint,
//!   the slowdown that it causes in *other* code is not measured.
//! * Taking the minimum of many samples favours those whose neighbouring chains were slow relative
//!   to the subject, so results are slightly too small. Taking the shortest of six chains limits
//!   this error. On the reference machine, while it was busy, the median error of 400 quick
//!   estimates of a loop known to take 4000 cycles was -0.06%. In two sets of 200, the fifth
//!   percentile was -0.11% and -0.13%, and the worst case -0.3% and -1.6%. Unless the five fastest
//!   rounds are all affected alike, the interval widens by about as much as the result is too
//!   small. A comparison uses the median over rounds, which a single disturbed round does not
//!   change. The row "3000 cycles" of the self-check repeats a shorter form of this experiment on
//!   any machine.
//! * Other work on the same core (SMT) slows a chain of multiplications less than it slows most
//!   subjects. Results measured next to a busy sibling are therefore too large; taking the best of
//!   several rounds reduces this error.
//! * Samples are rejected only because of their chains, never because of the subject's own time, so
//!   rejection cannot favour particular results.
#![cfg(target_arch = "x86_64")]

pub mod check;
pub mod classes;
pub mod clock;
pub mod counters;
pub mod machine;
pub mod pin;
mod probe;
mod rng;
pub mod sample;
pub mod series;
pub mod source;
pub mod stats;
mod team;
pub mod trust;
pub mod verdict;
pub mod warning;
pub mod watch;

pub use check::self_check;
pub use clock::Clock;
pub use counters::{Counters, Hardware, Software};
pub use machine::Machine;
pub use pin::{pin, pin_within, CoreList, PinError};
pub use rng::SplitMix64;
pub use sample::{measure, measure_counted, measure_single, measure_with, Plan, Subject};
pub use series::{Counted, Round, Series};
pub use source::TimeSource;
pub use stats::{
    median, median_of_rounds, ratio, ratio_among, ratio_of_rounds, rounds_for, Estimate, Ratio,
};
pub use team::Team;
pub use trust::{Grade, Trust, TrustRow};
pub use verdict::{exceeds_by_known, verdict, verdict_by_both, verdict_by_known, Verdict};
pub use warning::Warning;
pub use watch::{current_core, Watch};
