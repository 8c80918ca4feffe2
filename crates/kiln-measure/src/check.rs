//! The self-check, which grades the clock, the measuring method itself, and how little the machine
//! disturbs measurements.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::clock::tsc_hz;
use crate::machine::stolen_s;
use crate::probe::{self, Gaps, Known, Reading};
use crate::stats::Ratio;
use crate::trust::{sentence, trusted, Grade, Trust, TrustRow};
use crate::verdict::{verdict, Verdict, FLOOR};

/// Grades the machine. This takes about 10 s, or 4 s if `quick` is set.
///
/// The caller should pin the thread first, because a move to another core disturbs the measurement.
/// When `stop` is set, the function returns the checks finished so far. `progress(done, total)` is
/// called with times in milliseconds.
pub fn self_check(quick: bool, stop: &AtomicBool, progress: &mut dyn FnMut(u64, u64)) -> Trust {
    let (spin, repeat) = if quick { (0.8, 2.8) } else { (2.0, 7.5) };
    let total = ((spin + repeat + 0.3) * 1000.0) as u64;
    let began = Instant::now();
    let mut tick = || progress((began.elapsed().as_millis() as u64).min(total), total);
    let stolen = stolen_s();
    let mut rows = Rows::default();

    tick();
    rows.reading(&probe::reading());
    rows.chains(&probe::chains(8000));
    rows.known_lengths(probe::doubled(1000), probe::crc32_cycles(1000));
    tick();
    let mut percent = None;
    if !stop.load(Ordering::Relaxed) {
        rows.gaps(&probe::gaps(spin, stop));
        let known = probe::known(repeat, stop, &mut tick);
        rows.clock_drift(&known.clock);
        rows.sampler(&known);
        percent = rows.comparisons(&known);
    }
    if let (Some(before), Some(after)) = (stolen, stolen_s()) {
        let share = 100.0 * (after - before) / began.elapsed().as_secs_f64();
        rows.add(
            "stolen time",
            share,
            "%",
            (1.0, 10.0),
            "of one processor, by the hypervisor's own account",
        );
    }
    progress(total, total);
    Trust {
        rows: rows.0,
        percent,
        sentence: sentence(percent),
    }
}

#[derive(Default)]
struct Rows(Vec<TrustRow>);

impl Rows {
    /// Adds a check and grades its value: ok up to `limits.0`, poor up to `limits.1`, and bad above
    /// that.
    fn add(&mut self, check: &str, value: f64, unit: &str, limits: (f64, f64), meaning: &str) {
        let grade = if value <= limits.0 {
            Grade::Ok
        } else if value <= limits.1 {
            Grade::Poor
        } else {
            Grade::Bad
        };
        self.graded(check, value, unit, grade, meaning);
    }

    fn graded(&mut self, check: &str, value: f64, unit: &str, verdict: Grade, meaning: &str) {
        let (check, unit, meaning) = (check.to_string(), unit.to_string(), meaning.to_string());
        self.0.push(TrustRow {
            check,
            value,
            unit,
            verdict,
            meaning,
        });
    }

    fn reading(&mut self, reading: &Reading) {
        // The limits separate a native rdtsc, which takes tens of nanoseconds, from one that a
        // hypervisor traps, which takes about a microsecond.
        let ns = 1e9 / tsc_hz();
        self.add(
            "clock read",
            reading.cost * ns,
            "ns",
            (60.0, 300.0),
            "start and stop with nothing between; subtracted",
        );
        self.add(
            "clock step",
            reading.step * ns,
            "ns",
            (20.0, 100.0),
            "the TSC advances in steps of this",
        );
    }

    fn chains(&mut self, ticks: &[f64]) {
        let Some(&least) = ticks.first() else { return };
        let above =
            |quantile: usize| 100.0 * (ticks[(ticks.len() - 1) * quantile / 100] / least - 1.0);
        self.add(
            "chain, median over least",
            above(50),
            "%",
            (0.3, 2.0),
            "how steady the core's clock is from moment to moment",
        );
        self.add(
            "chain, p99 over least",
            above(99),
            "%",
            (5.0, 50.0),
            "how often and how much 9 us are disturbed",
        );
    }

    fn known_lengths(&mut self, doubled: Option<f64>, crc32: Option<f64>) {
        if let Some(doubled) = doubled {
            let off = 100.0 * (doubled / 2.0 - 1.0).abs();
            self.add(
                "twice the chain, off by",
                off,
                "%",
                (0.1, 0.5),
                "twice the imul must take twice as long",
            );
        }
        if let Some(crc32) = crc32 {
            let off = 100.0 * (crc32 / 3.0 - 1.0).abs();
            self.add(
                "crc32 against imul, off by",
                off,
                "%",
                (0.1, 0.5),
                "both take 3 cycles, in different units of the core",
            );
        }
    }

    fn gaps(&mut self, gaps: &Gaps) {
        let each = |n: u64| n as f64 / gaps.seconds;
        self.add(
            "gaps above 1 us",
            each(gaps.over_1us),
            "/s",
            (1500.0, 10_000.0),
            "timer ticks and other interrupts",
        );
        self.add(
            "gaps above 10 us",
            each(gaps.over_10us),
            "/s",
            (100.0, 1000.0),
            "other threads, the hypervisor",
        );
        let lost = 100.0 * gaps.lost_s / gaps.seconds;
        self.add(
            "time lost in gaps",
            lost,
            "%",
            (1.0, 20.0),
            "of the time this thread should have run",
        );
    }

    fn clock_drift(&mut self, ticks: &[f64]) {
        let (least, most) = ticks
            .iter()
            .fold((f64::INFINITY, 0.0f64), |(a, b), &x| (a.min(x), b.max(x)));
        if least.is_finite() && least > 0.0 {
            let drift = 100.0 * (most / least - 1.0);
            self.add(
                "clock drift over the check",
                drift,
                "%",
                (1.0, 25.0),
                "samples are corrected for it",
            );
        }
    }

    fn sampler(&mut self, known: &Known) {
        let off = |cycles: &f64| 100.0 * (cycles / 3000.0 - 1.0).abs();
        let worst = known.cycles.iter().map(off).fold(0.0, f64::max);
        self.add(
            "3000 cycles, off by",
            worst,
            "%",
            (0.3, 3.0),
            "1000 imul through the whole sampler, worst estimate",
        );
        let taken = (known.kept + known.rejected).max(1) as f64;
        let rejected = 100.0 * known.rejected as f64 / taken;
        self.add(
            "samples rejected",
            rejected,
            "%",
            (5.0, 30.0),
            "chains before and after disagreed by over 1 %",
        );
        let switched = known.switched as f64 / known.seconds.max(1e-9);
        self.add(
            "samples switched out",
            switched,
            "/s",
            (20.0, 200.0),
            "the thread lost its core; the kernel's own count",
        );
    }

    /// Adds the checks that are based on comparisons with known results. Returns the smallest
    /// difference that can be trusted, as a percentage.
    fn comparisons(&mut self, known: &Known) -> Option<f64> {
        let share = |list: &[Ratio], wanted: Verdict| {
            let found = list.iter().filter(|r| verdict(r, FLOOR) == wanted).count();
            100.0 * found as f64 / list.len().max(1) as f64
        };
        let mut reach = 0.0f64;
        let mut alarms = 0.0f64;
        for (what, list) in [
            ("A/A chain", &known.same_core),
            ("A/A 256 KiB", &known.same_cache),
        ] {
            let alarm = 100.0 - share(list, Verdict::Same);
            let mut ends: Vec<f64> = list.iter().map(measure_reach).collect();
            ends.sort_unstable_by(f64::total_cmp);
            let (usual, widest) = (
                *ends.get((ends.len().max(1) - 1) * 95 / 100)?,
                *ends.last()?,
            );
            let meaning = format!("of {} comparisons with itself called different", list.len());
            self.add(
                &format!("{what}, false alarms"),
                alarm,
                "%",
                (0.0, 2.0),
                &meaning,
            );
            self.add(
                &format!("{what}, p95 end"),
                usual,
                "%",
                (0.5, 2.0),
                "interval's farther end from 1, 95 of 100 nearer",
            );
            self.add(
                &format!("{what}, widest end"),
                widest,
                "%",
                (1.0, 5.0),
                "interval's farther end from 1, worst of all",
            );
            alarms = alarms.max(alarm);
            // Ordinary noise does not explain a false-alarm rate above 2%. If the rate is that
            // high, use the largest deviation seen.
            reach = reach.max(if alarm > 2.0 { widest } else { usual });
        }
        let mut found = |what, list| {
            let found = share(list, Verdict::Slower);
            self.add_found(what, found, list.len());
            found
        };
        let one = found("planted 1 %, found", &known.one);
        let three = found("planted 3 %, found", &known.three);
        trusted(reach, alarms, one, three)
    }

    fn add_found(&mut self, check: &str, found: f64, n: usize) {
        let grade = match found {
            99.0.. => Grade::Ok,
            90.0.. => Grade::Poor,
            _ => Grade::Bad,
        };
        self.graded(
            check,
            found,
            "%",
            grade,
            &format!("of {n} slowdowns planted, called slower"),
        );
    }
}

/// Returns how far the interval extends from 1, as a percentage, measured to whichever end is
/// farther away.
fn measure_reach(r: &Ratio) -> f64 {
    100.0 * (r.high - 1.0).abs().max((1.0 - r.low).abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn false_alarms_lower_trust_and_show() {
        let same = Ratio {
            ratio: 1.0,
            low: 0.999,
            high: 1.001,
            pairs: 20,
        };
        let slow = |by: f64| Ratio {
            ratio: by,
            low: by - 0.001,
            high: by + 0.001,
            pairs: 20,
        };
        let mut known = Known {
            same_core: vec![same; 20],
            same_cache: vec![same; 20],
            one: vec![slow(1.01); 20],
            three: vec![slow(1.03); 20],
            ..Known::default()
        };
        let mut rows = Rows::default();
        assert_eq!(rows.comparisons(&known), Some(0.7));
        assert!(rows.0.iter().all(|row| row.verdict == Grade::Ok));
        known.same_core[3] = slow(1.04);
        let mut rows = Rows::default();
        assert_eq!(rows.comparisons(&known), Some(4.6));
        assert_eq!(rows.0[0].verdict, Grade::Bad);
        assert_eq!(Rows::default().comparisons(&Known::default()), None);
    }

    #[test]
    fn stopped_at_once_promises_nothing() {
        let trust = self_check(true, &AtomicBool::new(true), &mut |_, _| {});
        assert_eq!(trust.percent, None);
        assert!(trust.sentence.starts_with("no difference"));
    }
}
