//! Plans how long each result is measured.

use std::time::{Duration, Instant};

use kiln_measure::Plan;

/// Maximum number of lengths in an ordinary run. A longer list is a sweep, in which each length is
/// measured only briefly.
pub(super) const SWEEP: usize = 64;
/// Number of results above which each result gets less time, so that the whole table takes only
/// minutes.
const WHOLE: usize = 500;
/// Sampling time with `--quick`, which limits the whole run to 20 s.
const QUICK: Duration = Duration::from_secs(17);
/// Share of a time limit that is spent on samples. The rest is needed for checking results and
/// choosing sample lengths.
const SAMPLING: f64 = 0.75;
/// Overhead of a sample in microseconds: three calibrating chains before the sample, and three
/// after it.
const CHAINS_US: f64 = 60.0;

/// Number of single cold-cache calls per result.
const COLD_ROUNDS: u32 = 200;
/// Time of a cold-cache sample in microseconds, most of which is spent reading memory.
const COLD_US: f64 = 600.0;

/// Plans the measurement of `figures` results at `lens` lengths.
pub(super) fn plan(lens: usize, figures: usize, quick: bool, seed: u64) -> Plan {
    let plan = match (lens > SWEEP, quick) {
        (false, false) if figures > WHOLE => Plan {
            rounds: 25,
            samples: 8,
            ..Plan::standard(seed)
        },
        (false, false) => Plan::standard(seed),
        (false, true) => Plan::quick(seed),
        (true, _) => Plan {
            rounds: 8,
            samples: 2,
            sample_us: 40.0,
            seed,
            deadline: None,
        },
    };
    if !quick {
        return plan;
    }
    let plan = shrunk(plan, QUICK.as_micros() as f64 / figures.max(1) as f64);
    Plan {
        deadline: Some(Instant::now() + QUICK),
        ..plan
    }
}

/// Plans the measurement of `figures` results within `budget`. The budget includes the time for
/// checking results and choosing sample lengths.
pub(super) fn within(figures: usize, budget: Duration, seed: u64) -> Plan {
    let us = SAMPLING * budget.as_secs_f64() * 1e6;
    Plan {
        deadline: Some(Instant::now() + budget),
        ..shrunk(Plan::standard(seed), us / figures.max(1) as f64)
    }
}

/// Plans one turn of many. A turn measures all results within about `budget`.
pub(super) fn turn(figures: usize, budget: Duration, seed: u64) -> Plan {
    let us = budget.as_secs_f64() * 1e6;
    shrunk(Plan::quick(seed), us / figures.max(1) as f64)
}

/// Plans the second measurement of `figures` results, which makes single calls with cold caches. If
/// there is a time limit, this measurement and the first one, `warm`, each get half of the time.
pub(super) fn cold(figures: usize, warm: &Plan) -> Plan {
    let rounds = match warm.deadline {
        Some(end) => {
            let left = end.saturating_duration_since(Instant::now()).as_micros() as f64;
            (SAMPLING / 2.0 * left / figures.max(1) as f64 / COLD_US) as u32
        }
        None if figures > WHOLE => COLD_ROUNDS / 4,
        None => COLD_ROUNDS,
    };
    Plan {
        rounds: rounds.clamp(6, COLD_ROUNDS),
        samples: 1,
        ..warm.clone()
    }
}

/// Limits a plan to `us` microseconds per result. First reduces the number of samples per round,
/// then the number of rounds, but keeps at least six rounds, because the interval of a ratio needs
/// them. Finally, shortens the samples.
fn shrunk(mut plan: Plan, us: f64) -> Plan {
    while cost_us(&plan) > us && plan.samples > 1 {
        plan.samples /= 2;
    }
    while cost_us(&plan) > us && plan.rounds > 6 {
        plan.rounds = (plan.rounds / 2).max(6);
    }
    if cost_us(&plan) > us {
        plan.sample_us = plan.sample_us.min(20.0);
    }
    plan
}

/// Returns the time in microseconds that it takes to measure one result.
fn cost_us(plan: &Plan) -> f64 {
    f64::from(plan.rounds * plan.samples) * (plan.sample_us * 17.0 / 16.0 + CHAINS_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_is_bounded_and_keeps_six_rounds() {
        for figures in [1, 48, 500, 5000, 100_000] {
            let plan = plan(8, figures, true, 1);
            assert!(plan.rounds >= 6 && plan.samples >= 1);
            assert!(plan.deadline.is_some());
            let bound = 17e6 / figures as f64;
            assert!(cost_us(&plan) <= bound.max(500.0), "{figures}");
        }
        assert!(plan(8, 48, false, 1).deadline.is_none());
    }

    #[test]
    fn what_is_to_be_there_within_a_time_is_measured_as_well_as_that_allows() {
        for (figures, ms) in [(1, 100), (48, 1500), (400, 1500), (48, 60_000)] {
            let budget = Duration::from_millis(ms);
            let plan = within(figures, budget, 1);
            let bound = ms as f64 * 1e3 / figures as f64;
            assert!(plan.rounds >= 6 && cost_us(&plan) <= bound.max(500.0));
            assert!(plan.deadline.unwrap() <= Instant::now() + budget);
        }
        let long = within(48, Duration::from_secs(60), 1);
        assert_eq!(cost_us(&long), cost_us(&Plan::standard(1)));
    }

    #[test]
    fn cold_calls_take_half_of_a_time_limit() {
        assert_eq!(cold(48, &plan(8, 48, false, 1)).rounds, COLD_ROUNDS);
        assert_eq!(cold(2000, &plan(8, 2000, false, 1)).rounds, 50);
        for (figures, s) in [(1, 60), (48, 10), (48, 60), (1000, 60)] {
            let warm = within(figures, Duration::from_secs(s), 1);
            let cold = cold(figures, &warm);
            assert!((6..=COLD_ROUNDS).contains(&cold.rounds) && cold.samples == 1);
            let us = f64::from(cold.rounds) * COLD_US * figures as f64;
            assert!(us <= 0.5e6 * s as f64 || cold.rounds == 6, "{figures}");
            assert_eq!(cold.deadline, warm.deadline);
        }
    }

    #[test]
    fn the_whole_table_takes_minutes() {
        let whole = plan(8, 2000, false, 1);
        assert!(cost_us(&whole) * 2000.0 < 100e6 && whole.rounds >= 20);
        assert!(cost_us(&plan(8, 48, false, 1)) > 3.0 * cost_us(&whole));
    }

    #[test]
    fn a_sweep_takes_milliseconds_a_figure() {
        let sweep = plan(4097, 4097, false, 1);
        assert!(cost_us(&sweep) < 4000.0 && sweep.rounds >= 6);
        assert!(cost_us(&plan(64, 64, false, 1)) > 50_000.0);
    }
}
