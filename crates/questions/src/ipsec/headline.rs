//! Builds the survey's headline about the packet rate at which an IPsec gateway starts to lose
//! packets.

use kiln_question::survey::words::{figure, number, word};
use kiln_question::survey::{Estimate, Row, Runs};
use serde_json::Value;

use crate::fpu::NESTED_FPU;

/// Returns the row that contains a policy's knee, which is the packet rate at which losses begin.
fn knee<'a>(rows: &[&'a Value], policy: &str) -> Option<&'a Value> {
    let ends = |r: &Value| number(r, "knee_pps_low").or(number(r, "knee_pps_high"));
    let wanted = |r: &&&Value| word(r, "policy") == policy && ends(r).is_some();
    rows.iter().find(wanted).copied()
}

/// Formats a packet rate, for example as `250 k` or `1.23 M`.
fn packets(pps: f64) -> String {
    match pps {
        p if p >= 999_500.0 => format!("{} M", figure(p / 1e6)),
        p => format!("{:.0} k", p / 1e3),
    }
}

fn interval(e: &Estimate) -> String {
    match (e.low, e.high) {
        (Some(low), Some(high)) => format!(" ({} to {})", packets(low), packets(high)),
        _ => String::new(),
    }
}

/// A policy's knee in packets per second, determined from all processes together.
enum Knee {
    At(Estimate),
    /// The knee is above this rate. At least one process lost no packets even at the highest rate.
    Above(f64),
    /// The knee is below this rate. At least one process lost packets even at the lowest rate.
    Below(f64),
}

impl Knee {
    /// Determines the knee from the rows of all processes. If only some processes found a knee, the
    /// result is a bound.
    fn read(runs: &Runs, policy: &str) -> Option<Knee> {
        let field = |name: &'static str| {
            runs.estimate(|rows| knee(rows, policy).and_then(|r| number(r, name)))
        };
        let (value, low, high) = (
            field("knee_pps"),
            field("knee_pps_low"),
            field("knee_pps_high"),
        );
        let with = runs.estimate(|rows| knee(rows, policy).map(|_| 1.0))?;
        let least = |e: &Estimate| e.values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |e: &Estimate| e.values.iter().copied().fold(0.0, f64::max);
        match (value, low, high) {
            (Some(value), low, high) if value.values.len() == with.values.len() => {
                // The rates are 9% apart, so five equal knees are no more precise than a single
                // one. Widen the interval to include the interval of every process.
                Some(Knee::At(Estimate {
                    low: value
                        .low
                        .map(|v| low.as_ref().map_or(v, |seen| v.min(least(seen)))),
                    high: value
                        .high
                        .map(|v| high.as_ref().map_or(v, |seen| v.max(most(seen)))),
                    ..value
                }))
            }
            (_, Some(low), _) if low.values.len() == with.values.len() => {
                Some(Knee::Above(least(&low)))
            }
            (_, _, Some(high)) => Some(Knee::Below(most(&high))),
            _ => None,
        }
    }

    /// Returns a phrase that describes the knee. If `row` is given, the phrase includes the
    /// throughput.
    fn phrase(&self, row: Option<&Value>) -> String {
        match self {
            Knee::Above(rate) => {
                format!(
                    "no packets are lost up to {} packets/s, the highest rate tried",
                    packets(*rate)
                )
            }
            Knee::Below(rate) => format!(
                "packets are lost even at {} packets/s, the lowest rate tried",
                packets(*rate)
            ),
            Knee::At(e) => {
                let of = |name| row.and_then(|r| number(r, name));
                let per_packet = of("knee_gbit_s").zip(of("knee_pps")).map(|(g, p)| g / p);
                let gbit = per_packet.map_or(String::new(), |g| {
                    format!(", which is {} Gbit/s", figure(e.value * g))
                });
                format!(
                    "packet loss starts at {} packets/s{}{gbit}",
                    packets(e.value),
                    interval(e)
                )
            }
        }
    }

    /// Formats the knee in a few words, in packets per second. `unit` follows the rate.
    fn brief(&self, unit: &str) -> String {
        match self {
            Knee::Above(rate) => format!("no loss up to {}{unit}", packets(*rate)),
            Knee::Below(rate) => format!("loss even at {}{unit}", packets(*rate)),
            Knee::At(e) => format!("loss starts at {}{unit}", packets(e.value)),
        }
    }

    /// Returns the lower and the upper end of the range that contains the knee.
    fn ends(&self) -> Option<(f64, f64)> {
        match self {
            Knee::At(e) => e.low.zip(e.high),
            Knee::Above(rate) => Some((*rate, f64::INFINITY)),
            Knee::Below(rate) => Some((0.0, *rate)),
        }
    }
}

pub(super) fn knees(runs: &Runs) -> Option<Row> {
    let (legacy, direct) = (Knee::read(runs, "legacy")?, Knee::read(runs, "bh-off")?);
    let rows = runs.first();
    let (first, second) = (knee(rows, "legacy"), knee(rows, "bh-off"));
    let conditions = first?;
    let verdict = match (legacy.ends(), direct.ends()) {
        (Some((_, high)), Some((low, _))) if high < low => {
            "With cryptd, losses begin at a lower rate than without"
        }
        (Some((low, _)), Some((_, high))) if low > high => {
            "With softirqs disabled, losses begin at a lower rate than with cryptd"
        }
        (Some(_), Some(_)) => "No difference was found between the two rates",
        _ => "Each rate was measured once, so the two cannot be compared",
    };
    let text = format!(
        "One emulated core processes IPsec packets in softirqs, and encrypts disk sectors in a task. With cryptd as the fallback of softirqs, \
         as in kernels up to Linux 6.14, {}. With FPU sections that disable softirqs, as in kernels since Linux 6.15, {}. {verdict}. \
         Conditions: cipher {}, IMIX packet sizes, emulated scheduler {} with the time slices of a machine with {} CPU{}; Kiln does not \
         run the rest of a network stack",
        legacy.phrase(first),
        direct.phrase(second),
        word(conditions, "impl"),
        word(conditions, "scheduler"),
        number(conditions, "scheduler_cpus")?,
        if number(conditions, "scheduler_cpus") == Some(1.0) { "" } else { "s" },
    );
    let brief = match (&legacy, &direct) {
        (Knee::At(legacy), Knee::At(direct)) => format!(
            "IPsec packet loss starts at {} packets/s with cryptd, at {} without",
            packets(legacy.value),
            packets(direct.value)
        ),
        _ => format!(
            "With cryptd, {}; without, {}",
            legacy.brief(" packets/s"),
            direct.brief("")
        ),
    };
    // If losses begin at a lower rate with cryptd, the rates in `brief` already show this. State
    // the verdict only in the other cases.
    let tie = match verdict {
        "With cryptd, losses begin at a lower rate than without" => String::new(),
        other => format!(". {other}"),
    };
    let most = match &direct {
        Knee::Above(rate) => format!(". The highest rate tried is {} packets/s", packets(*rate)),
        _ => String::new(),
    };
    let range = |knee: &Knee| match knee {
        Knee::At(e) => interval(e).replace(" (", "").replace(')', ""),
        _ => String::new(),
    };
    let ranges = match (range(&legacy), range(&direct)) {
        (legacy, direct) if legacy.is_empty() && direct.is_empty() => String::new(),
        (legacy, direct) if direct.is_empty() => format!(". Range with cryptd: {legacy} packets/s"),
        (legacy, direct) if legacy.is_empty() => {
            format!(". Range without cryptd: {direct} packets/s")
        }
        (legacy, direct) => format!(". Ranges: with cryptd {legacy}, without {direct}"),
    };
    let detail = format!(
        "The emulated core also encrypts a disk. Without cryptd, FPU sections disable softirqs{most}{ranges}{tie}"
    );
    let row = match &legacy {
        Knee::At(e) => Row::estimate(&NESTED_FPU, e, "packets/s", text),
        Knee::Above(rate) => {
            Row::new(&NESTED_FPU, *rate, "packets/s", text).within(Some(*rate), None)
        }
        Knee::Below(rate) => {
            Row::new(&NESTED_FPU, *rate, "packets/s", text).within(None, Some(*rate))
        }
    };
    Some(row.with_verdict(brief).with_detail(detail))
}

#[cfg(test)]
mod tests {
    use super::super::survey::ESP;
    use super::*;
    use crate::testing::{answer, sentences, verdicts};
    use kiln_question::survey::Answer;
    use serde_json::json;

    fn row(policy: &str, knee: Option<f64>, low: Option<f64>, high: Option<f64>) -> Value {
        json!({"policy": policy, "control": false, "impl": "gcm", "scheduler": "eevdf-6.12", "scheduler_cpus": 1,
               "knee_pps": knee, "knee_pps_low": low, "knee_pps_high": high,
               "knee_gbit_s": knee.map(|k| k * 2.7e-6), "knee_core_share": 0.25})
    }

    fn at(policy: &str, pps: f64) -> Value {
        row(policy, Some(pps), Some(pps * 0.95), Some(pps * 1.05))
    }

    /// Returns the headline for five simulated processes whose knees differ by up to 4%.
    fn sentence(legacy: impl Fn(f64) -> Value, direct: impl Fn(f64) -> Value) -> String {
        let answers: Vec<Answer> = (0..5)
            .map(|i| 1.0 + 0.01 * f64::from(i))
            .map(|x| answer(&ESP, json!([legacy(x), direct(x)])))
            .collect();
        let all = sentences(&NESTED_FPU, &answers);
        assert_eq!(all.len(), 1);
        all.into_iter().next().unwrap()
    }

    #[test]
    fn legacy_loses_earlier() {
        let text = sentence(|x| at("legacy", 250e3 * x), |x| at("bh-off", 5e6 * x));
        assert!(
            text.contains("up to Linux 6.14, packet loss starts at 255 k packets/s ("),
            "{text}"
        );
        assert!(
            text.contains("Gbit/s. With FPU sections that disable softirqs, as in kernels ")
                && text.contains("starts at 5.10 M packets/s ("),
            "{text}"
        );
        assert!(
            text.contains(
                ". With cryptd, losses begin at a lower rate than without. Conditions: cipher gcm, IMIX packet sizes, emulated scheduler eevdf-6.12 with the time slices of a machine with 1 CPU;"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_contrary_is_said() {
        let text = sentence(|x| at("legacy", 5e6 * x), |x| at("bh-off", 250e3 * x));
        assert!(
            text.contains(". With softirqs disabled, losses begin at a lower rate"),
            "{text}"
        );
        let text = sentence(|x| at("legacy", 5e6 * x), |x| at("bh-off", 5.01e6 / x));
        assert!(text.contains(". No difference was found"), "{text}");
    }

    #[test]
    fn a_knee_that_was_not_reached_is_a_bound() {
        let text = sentence(
            |x| at("legacy", 250e3 * x),
            |_| row("bh-off", None, Some(9e6), None),
        );
        assert!(
            text.contains("no packets are lost up to 9.00 M packets/s, the highest rate tried")
                && text.contains(". With cryptd, losses begin at a lower rate"),
            "{text}"
        );
        let text = sentence(
            |_| row("legacy", None, None, Some(32e3)),
            |x| at("bh-off", 5e6 * x),
        );
        assert!(
            text.contains(
                "up to Linux 6.14, packets are lost even at 32 k packets/s, the lowest rate tried"
            ),
            "{text}"
        );
        let text = sentence(
            |_| row("legacy", None, Some(9e6), None),
            |_| row("bh-off", None, Some(9e6), None),
        );
        assert!(text.contains(". No difference was found"), "{text}");
    }

    #[test]
    fn the_verdict_reads_well_with_and_without_a_loss() {
        let verdict = |legacy: Value, direct: Value| {
            let answers = [answer(&ESP, json!([legacy, direct]))];
            verdicts(&NESTED_FPU, &answers).remove(0)
        };
        let none = |policy| row(policy, None, Some(9e6), None);
        assert_eq!(
            verdict(at("legacy", 2e5), none("bh-off")),
            "With cryptd, loss starts at 200 k packets/s; without, no loss up to 9.00 M"
        );
        assert_eq!(
            verdict(none("legacy"), at("bh-off", 5e6)),
            "With cryptd, no loss up to 9.00 M packets/s; without, loss starts at 5.00 M"
        );
        assert_eq!(
            verdict(row("legacy", None, None, Some(32e3)), none("bh-off")),
            "With cryptd, loss even at 32 k packets/s; without, no loss up to 9.00 M"
        );
    }

    #[test]
    fn one_process_has_no_verdict_and_one_policy_no_sentence() {
        let one = answer(&ESP, json!([at("legacy", 2e5), at("bh-off", 5e6)]));
        let all = sentences(&NESTED_FPU, &[one]);
        assert!(
            all[0].contains("starts at 200 k packets/s")
                && all[0].contains(". Each rate was measured once"),
            "{all:?}"
        );
        let half = answer(&ESP, json!([at("legacy", 2e5)]));
        assert!(sentences(&NESTED_FPU, &[half]).is_empty());
    }
}
