//! Builds the survey's headlines about how a driver should wait for its control queue.

use kiln_question::survey::words::{figure, has, number, thousands};
use kiln_question::survey::{Against, Estimate, Row, Runs, Topic};
use serde_json::Value;

use super::paper;

pub(super) static TOPIC: Topic = Topic {
    name: "ctrlq",
    title: "How should a virtio-crypto driver wait for its control queue?",
    command: "kiln ctrlq",
    source: Some("Linux 977231e8d4, Pi, 2022; Platinum 8260"),
};

/// Number of workers in the published measurement. The headlines use the same number.
const WORKERS: f64 = 8.0;

/// The two kinds of devices. Each entry contains the value of `ctrl`, a description, and whether
/// the published results were measured with such a device.
const DEVICES: [(&str, &str, bool); 2] = [
    (
        "thread",
        "a device that hands each request to a second thread",
        true,
    ),
    (
        "inline",
        "a device that serves each request on the queue's own thread",
        false,
    ),
];

/// Returns the headlines about RSA sessions, which the published measurement also used. The first
/// headline is about a device that hands each request to another thread, like the device in that
/// measurement. The second is about a device that serves requests on the queue's own thread. If the
/// machine has too few cores, a single headline replaces both.
pub(super) fn waiting(runs: &Runs) -> Vec<Option<Row>> {
    let cores = |field: &str| -> Option<f64> {
        let all = runs.all().filter(|r| is_asked_for(r));
        all.filter_map(|r| number(r, field)).reduce(f64::max)
    };
    let (Some(needed), Some(there)) = (cores("cores_needed"), cores("cores")) else {
        return Vec::new();
    };
    match there < needed {
        true => vec![undecided(runs, needed, there)],
        false => DEVICES.map(|device| decided(runs, device)).to_vec(),
    }
}

fn is_asked_for(row: &Value) -> bool {
    let modes = ["wait", "poll"].iter().any(|m| has(row, &[("mode", m)]));
    modes && has(row, &[("session", "akcipher")]) && number(row, "workers") == Some(WORKERS)
}

/// Estimates the value of a field over all processes, for one waiting method with one device.
fn estimate(runs: &Runs, mode: &str, ctrl: &str, field: &str) -> Option<Estimate> {
    let wanted = [("mode", mode), ("ctrl", ctrl)];
    runs.estimate(|rows| {
        let row = rows.iter().find(|r| is_asked_for(r) && has(r, &wanted))?;
        number(row, field)
    })
}

/// Describes the rates that sleeping and polling reach with one device.
fn rates(runs: &Runs, ctrl: &str) -> Option<String> {
    let said = |x: f64| match x < 1e3 {
        true => thousands(x),
        false => format!("{} K", figure(x / 1e3)),
    };
    let rate = |mode| {
        let rate = estimate(runs, mode, ctrl, "pairs_per_s")?;
        Some(format!("{}{}", said(rate.value), rate.interval(said)))
    };
    Some(format!(
        "the eight workers together create and close {} sessions per second if they sleep while they wait, {} if they poll",
        rate("wait")?,
        rate("poll")?
    ))
}

/// Returns the headline for a machine that has too few cores. It contains neither a ratio nor a
/// comparison, because the rates depend on the scheduler if threads share cores.
fn undecided(runs: &Runs, needed: f64, there: f64) -> Option<Row> {
    let said: Vec<String> = DEVICES
        .iter()
        .filter_map(|(ctrl, device, _)| Some(format!(". With {device}, {}", rates(runs, ctrl)?)))
        .collect();
    let text = format!(
        "Eight workers, the interrupt thread and the device's threads need {needed} cores. On {there} cores, the host's scheduler affects \
         the measured rates, so they do not show whether sleeping or polling is better. Each worker creates and closes RSA sessions{}",
        said.concat()
    );
    (!said.is_empty()).then(|| Row {
        headline: Some(text),
        verdict: Some(format!(
            "Cannot tell on {there} cores: the measurement needs {needed}"
        )),
        detail: Some(
            "The eight workers, interrupt thread and device threads need a core each".to_string(),
        ),
        ..Row::none(&TOPIC)
    })
}

fn decided(runs: &Runs, (ctrl, device, published): (&str, &str, bool)) -> Option<Row> {
    let topic = &TOPIC;
    let ratio = estimate(runs, "poll", ctrl, "ops_ratio_to_wait")?;
    let times = format!("{} times{}", figure(ratio.value), ratio.interval(figure));
    let verdict = match ratio.against(1.0) {
        Against::Above => "Polling is faster",
        Against::Below => "Sleeping is faster",
        Against::Equal => "No difference was found",
        Against::CannotTell => "Measured once, so no verdict",
    };
    let on = if published { "2 threads" } else { "1 thread" };
    let brief = format!(
        "{} (device on {on}): polling is {times} as fast",
        match ratio.against(1.0) {
            Against::Above => "Poll",
            Against::Below => "Sleep",
            Against::Equal => "Tie",
            Against::CannotTell => "Measured once",
        }
    );
    let tail = |mode| {
        let tail = estimate(runs, mode, ctrl, "lat_us_p999")?;
        Some(figure(tail.value / 1e3))
    };
    let mut text = format!(
        "{verdict}: polling completes {times} as many pairs as sleeping. A pair is one create and one close of an RSA session. With \
         {device}, {}. The 99.9th percentile of the time of a create or a close is {} ms sleeping, {} ms polling",
        rates(runs, ctrl)?,
        tail("wait")?,
        tail("poll")?
    );
    if !published {
        let detail = format!("With {device}");
        let row = Row::estimate(topic, &ratio, "times", text).with_verdict(brief);
        return Some(row.with_detail(detail));
    }
    let baseline = paper::POLL_PAIRS_PER_S[1].1 / paper::WAIT_PAIRS_PER_S;
    text += &format!(
        ". Published: {} times (Pi, 2022, Platinum 8260: 40 K pairs per second polling, 200 K sleeping)",
        figure(baseline)
    );
    let row = Row::estimate(topic, &ratio, "times", text).with_verdict(brief);
    Some(row.beside(topic, baseline))
}

#[cfg(test)]
mod tests {
    use super::super::survey::CTRLQ;
    use super::*;
    use kiln_question::child::Left;
    use kiln_question::survey::Answer;
    use serde_json::json;

    /// Creates a row for process `k` of five. The rate and the ratio in the row differ by up to 2%
    /// from the given values.
    fn row(mode: &str, ctrl: &str, rate: f64, ratio: f64, p999: f64, k: usize) -> Value {
        let by = [1.0, 0.98, 1.02, 0.99, 1.01][k];
        json!({"mode": mode, "ctrl": ctrl, "session": "akcipher", "workers": 8, "cores": 16, "cores_needed": 11,
               "ops_per_s": 2.0 * rate * by, "pairs_per_s": rate * by, "ops_ratio_to_wait": ratio * by, "lat_us_p999": p999})
    }

    /// Returns the headlines about both devices for a polling rate that is `ratio` times the
    /// waiting rate. `change` is applied to every row first.
    fn told(processes: usize, ratio: f64, change: impl Fn(&mut Value)) -> Vec<Row> {
        let answer = |k| {
            let mut rows = [
                row("wait", "thread", 20_000.0, 1.0, 1_020.0, k),
                row("poll", "thread", 20_000.0 * ratio, ratio, 52_400.0, k),
                row("wait", "inline", 100_000.0, 1.0, 300.0, k),
                row("poll", "inline", 100_000.0 * ratio, ratio, 44_000.0, k),
            ];
            rows.iter_mut().for_each(&change);
            let record = json!({"command": "ctrlq", "rows": rows, "notes": []});
            let left = Left {
                status: Ok(0),
                output: record.to_string().into_bytes(),
                said: None,
            };
            Answer::new(&CTRLQ, left)
        };
        let answers: Vec<Answer> = (0..processes).map(answer).collect();
        let rows = waiting(&Runs::new(&answers, &[&CTRLQ]));
        rows.into_iter().flatten().collect()
    }

    fn text(row: &Row) -> &str {
        row.headline.as_deref().unwrap()
    }

    #[test]
    fn waiting_is_faster() {
        let rows = told(5, 0.5, |_| ());
        assert_eq!(
            text(&rows[0]),
            "Sleeping is faster: polling completes 0.50 times (0.48 to 0.52) as many pairs as sleeping. A pair is one create and one close of an RSA \
             session. With a device that hands each request to a second thread, the eight workers together create and close 20.0 K \
             (19.1 K to 21.0 K) sessions per second if they sleep while they wait, 10.0 K (9.53 K to 10.5 K) if they poll. The 99.9th \
             percentile of the time of a create or a close is 1.02 ms sleeping, 52.4 ms polling. Published: 0.20 times (Pi, 2022, Platinum 8260: 40 K pairs per second polling, 200 K sleeping)"
        );
        assert_eq!((rows[0].value, rows[0].baseline), (Some(0.5), Some(0.2)));
        assert_eq!(rows[0].values.len(), 5);
    }

    #[test]
    fn polling_is_faster() {
        let rows = told(5, 2.0, |_| ());
        let said = text(&rows[0]);
        assert!(
            said.starts_with("Polling is faster: polling completes 2.00 times (1.9"),
            "{said}"
        );
    }

    #[test]
    fn an_interval_that_contains_one_shows_no_difference() {
        for ratio in [0.99, 1.0, 1.03] {
            let rows = told(5, ratio, |_| ());
            assert!(
                text(&rows[0]).starts_with("No difference was found"),
                "{rows:?}"
            );
        }
    }

    #[test]
    fn one_process_has_no_verdict() {
        for ratio in [0.2, 5.0] {
            let rows = told(1, ratio, |_| ());
            assert!(
                text(&rows[0]).starts_with("Measured once, so no verdict"),
                "{rows:?}"
            );
            assert!(!text(&rows[0]).contains("faster"), "{rows:?}");
        }
    }

    #[test]
    fn each_device_has_its_own_tail_and_only_the_published_one_a_baseline() {
        let rows = told(5, 0.5, |_| ());
        assert_eq!(rows.len(), 2);
        assert!(
            text(&rows[1]).ends_with("0.30 ms sleeping, 44.0 ms polling"),
            "{rows:?}"
        );
        assert_eq!((rows[1].baseline, rows[1].source), (None, None));
    }

    #[test]
    fn too_few_cores_decide_nothing_and_are_not_compared() {
        for ratio in [0.5, 2.0] {
            let rows = told(5, ratio, |r| r["cores"] = json!(2));
            assert_eq!(rows.len(), 1);
            let said = text(&rows[0]);
            let verdict = rows[0].verdict.as_deref();
            assert_eq!(
                verdict,
                Some("Cannot tell on 2 cores: the measurement needs 11")
            );
            assert!(
                said.contains("need 11") && said.contains("scheduler"),
                "{said}"
            );
            assert!(
                !said.contains("Published") && !said.contains("faster"),
                "{said}"
            );
            assert!(
                said.contains(" close 100 K (95.3 K to 105 K) sessions per second if"),
                "{said}"
            );
            assert_eq!((rows[0].value, rows[0].baseline), (None, None));
        }
        // With one core too few, the headline gives no ratio. With exactly enough cores, it does.
        assert!(text(&told(5, 1.0, |r| r["cores"] = json!(10))[0]).contains("need 11 cores. On 10"));
        assert!(text(&told(5, 1.0, |r| r["cores"] = json!(11))[0]).contains("Published"));
    }

    #[test]
    fn without_a_method_its_device_has_no_sentence() {
        for mode in ["wait", "poll"] {
            let rows = told(5, 0.5, |r| {
                if r["mode"] == mode && r["ctrl"] == "thread" {
                    r["mode"] = json!("async");
                }
            });
            assert_eq!(rows.len(), 1);
            let said = text(&rows[0]);
            assert!(
                said.contains("queue's own thread") && !said.contains("Published"),
                "{said}"
            );
        }
        assert_eq!(told(5, 1.0, |r| r["mode"] = json!("async")), []);
        // Rows with other kinds of sessions are ignored. A record of fewer than six rounds has no
        // rate.
        assert_eq!(told(5, 1.0, |r| r["session"] = json!("cipher")), []);
        assert_eq!(told(5, 1.0, |r| r["pairs_per_s"] = Value::Null), []);
        let few_cores = |r: &mut Value| {
            r["pairs_per_s"] = Value::Null;
            r["cores"] = json!(2);
        };
        assert_eq!(told(5, 1.0, few_cores), []);
    }
}
