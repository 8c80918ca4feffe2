//! States in one sentence which waiting method is best for which purpose.

use kiln_measure::{median_of_rounds, ratio_of_rounds};

use super::row::Row;

/// Two waiting methods tie if the whole interval of their ratio is between 1 - TIE and 1 + TIE.
const TIE: f64 = 0.05;

/// A purpose for which waiting methods are ranked.
struct Purpose {
    what: &'static str,
    /// Returns the values to rank, one per round.
    rounds: fn(&Row) -> &[f64],
    /// Whether higher is better.
    most: bool,
}

const PURPOSES: [Purpose; 3] = [
    Purpose {
        what: "most pairs per second",
        rounds: |r| &r.rounds_pairs_per_s,
        most: true,
    },
    Purpose {
        what: "least CPU time per pair",
        rounds: |r| &r.rounds_cpu,
        most: false,
    },
    Purpose {
        what: "shortest p99.9",
        rounds: |r| &r.rounds_p999,
        most: false,
    },
];

/// Returns a sentence that names the best method for each purpose, or `None` if only one method was
/// measured.
pub(super) fn best(rows: &[Row]) -> Option<String> {
    rows.iter().find(|r| r.mode != rows[0].mode)?;
    let groups: Vec<&[Row]> = rows
        .chunk_by(|a, b| (a.ctrl, a.session) == (b.ctrl, b.session))
        .collect();
    let said = PURPOSES.iter().filter_map(|purpose| {
        rows.iter().find(|r| !(purpose.rounds)(r).is_empty())?;
        // Groups with the same result share one entry.
        let mut results: Vec<(String, Vec<String>)> = Vec::new();
        for group in &groups {
            let result = judge(purpose, group);
            let name = match group[0].ctrl {
                Some(ctrl) => format!("{ctrl} {}", group[0].session),
                None => group[0].session.to_string(),
            };
            match results.iter_mut().find(|r| r.0 == result) {
                Some(r) => r.1.push(name),
                None => results.push((result, vec![name])),
            }
        }
        let all = results.len() == 1;
        let each = results.iter().map(|(result, names)| match all {
            true => result.clone(),
            false => format!("{result} ({})", names.join(", ")),
        });
        Some((purpose.what, each.collect::<Vec<_>>().join(", ")))
    });
    let said: Vec<(&str, String)> = said.collect();
    let of = match rows.iter().any(is_marked) {
        true => " (rows without * and ! only)",
        false => "",
    };
    let (_, first) = said.first()?;
    let said = match said.iter().all(|(_, result)| result == first) {
        true => {
            let purposes: Vec<&str> = said.iter().map(|s| s.0).collect();
            format!("{first}, for {}", purposes.join(", "))
        }
        false => {
            let each: Vec<String> = said
                .iter()
                .map(|(what, r)| format!("{what}: {r}"))
                .collect();
            each.join("; ")
        }
    };
    Some(format!("The best way of waiting here{of}: {said}"))
}

fn is_marked(row: &Row) -> bool {
    row.is_starved || row.is_disturbed()
}

/// Compares the waiting methods with one device and one kind of session. Each method is represented
/// by its best row.
fn judge(purpose: &Purpose, group: &[Row]) -> String {
    let mut ways: Vec<(f64, &Row)> = Vec::new();
    let sign = if purpose.most { 1.0 } else { -1.0 };
    for row in group.iter().filter(|r| !is_marked(r)) {
        let Some(median) = median_of_rounds((purpose.rounds)(row)) else {
            continue;
        };
        let value = sign * median.ratio;
        match ways.iter_mut().find(|w| w.1.mode == row.mode) {
            Some(way) if way.0 < value => *way = (value, row),
            Some(_) => (),
            None => ways.push((value, row)),
        }
    }
    ways.sort_by(|a, b| b.0.total_cmp(&a.0));
    let [(_, best), others @ ..] = ways.as_slice() else {
        return "cannot tell (no way has an unmarked row)".to_string();
    };
    if others.is_empty() {
        return format!("cannot tell (only {} has an unmarked row)", best.mode);
    }
    let (mut ties, mut overlap) = (vec![name(best)], vec![name(best)]);
    for (_, other) in others {
        let (a, b) = match purpose.most {
            true => (best, other),
            false => (other, best),
        };
        match ratio_of_rounds((purpose.rounds)(a), (purpose.rounds)(b)) {
            Some(r) if r.low >= 1.0 - TIE && r.high <= 1.0 + TIE => ties.push(name(other)),
            Some(r) if r.low > 1.0 => (),
            _ => overlap.push(name(other)),
        }
    }
    match (overlap.len(), ties.len()) {
        (1, 1) => name(best),
        (1, _) => format!("{} tie", ties.join(" and ")),
        _ => format!("cannot tell {} apart", overlap.join(" and ")),
    }
}

fn name(row: &Row) -> String {
    match (row.mode, row.workers) {
        ("async", _) => row.mode.to_string(),
        (mode, 1) => format!("{mode} with 1 worker"),
        (mode, n) => format!("{mode} with {n} workers"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Octaves;
    use super::*;
    use kiln_driver::Histogram;

    /// Creates a row of six rounds whose rates are `rate` times the values in `by`. CPU time and
    /// latency are the inverse of the rate.
    fn row(mode: &'static str, workers: usize, rate: f64, by: [f64; 6]) -> Row {
        let rates: Vec<f64> = by.iter().map(|b| rate * b).collect();
        let inverse: Vec<f64> = rates.iter().map(|r| 1.0 / r).collect();
        Row {
            mode,
            workers,
            session: "cipher",
            ctrl: Some("inline"),
            depth: 1,
            cores: 16,
            device_cpu: None,
            is_starved: false,
            pairs_per_s: None,
            pairs_per_s_low: None,
            pairs_per_s_high: None,
            cores_needed: 2,
            cpu_pct: None,
            driver_cpu_pct: None,
            device_cpu_pct: None,
            other_cpu_pct: Some(0.0),
            cpu_us_per_op: None,
            lat_us_p50: None,
            lat_us_p99: None,
            lat_us_p999: None,
            lat_us_p9999: None,
            lat_us_max: None,
            hold_us_p50: None,
            hold_us_p99: None,
            hold_us_p999: None,
            hold_us_max: None,
            ops_ratio_to_wait: None,
            ops_ratio_to_wait_low: None,
            ops_ratio_to_wait_high: None,
            cpu_ratio_to_wait: None,
            seconds: 6.0,
            ops: 0,
            ops_per_s: 0.0,
            kicks: 0,
            interrupts: 0,
            yields: 0,
            closes: Octaves::new("hist_us", &Histogram::default()),
            holds: Octaves::new("hold_hist_us", &Histogram::default()),
            closes_bcc: Vec::new(),
            holds_bcc: Vec::new(),
            rounds_pairs_per_s: rates,
            rounds_cpu: inverse.clone(),
            rounds_p999: inverse,
        }
    }

    const EVEN: [f64; 6] = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99];
    const WILD: [f64; 6] = [0.5, 1.0, 2.0, 0.7, 1.5, 1.0];

    #[test]
    fn the_fastest_way_is_named_with_its_workers() {
        let mut rows = [
            row("poll", 1, 100.0, EVEN),
            row("poll", 8, 30.0, EVEN),
            row("wait", 1, 50.0, EVEN),
            row("wait", 8, 200.0, EVEN),
        ];
        // Waiting has the highest rate, and polling the shortest latency.
        rows[0].rounds_p999 = vec![0.001; 6];
        assert_eq!(
            best(&rows).unwrap(),
            "The best way of waiting here: most pairs per second: wait with 8 workers; least CPU time per pair: wait with 8 workers; shortest p99.9: \
             poll with 1 worker"
        );
        assert_eq!(best(&rows[..2]), None);
    }

    #[test]
    fn equal_ways_tie_and_wide_intervals_cannot_tell() {
        let said = |by| best(&[row("poll", 1, 100.0, by), row("wait", 1, 99.0, EVEN)]).unwrap();
        let tie = said(EVEN);
        assert!(
            tie.contains("here: poll with 1 worker and wait with 1 worker tie, for most pairs"),
            "{tie}"
        );
        let wide = said(WILD);
        assert!(
            wide.contains("here: cannot tell poll with 1 worker and wait with 1 worker apart"),
            "{wide}"
        );
        // Polling and waiting are both better than `async`, which the sentence must not mention.
        let three = best(&[
            row("poll", 1, 100.0, EVEN),
            row("wait", 1, 99.0, EVEN),
            row("async", 1, 10.0, EVEN),
        ]);
        assert!(three
            .unwrap()
            .contains("here: poll with 1 worker and wait with 1 worker tie, for"));
    }

    #[test]
    fn starved_and_disturbed_rows_are_not_judged() {
        let rows = |change: fn(&mut Row)| {
            let mut rows = [row("poll", 1, 100.0, EVEN), row("wait", 1, 50.0, EVEN)];
            change(&mut rows[1]);
            best(&rows).unwrap()
        };
        assert!(rows(|_| ()).contains("here: poll with 1 worker, for"));
        let changes: [fn(&mut Row); 2] =
            [|r| r.is_starved = true, |r| r.other_cpu_pct = Some(100.0)];
        for change in changes {
            let said = rows(change);
            assert!(said.contains("(rows without * and ! only)"), "{said}");
            assert!(
                said.contains("cannot tell (only poll has an unmarked row)"),
                "{said}"
            );
        }
    }

    #[test]
    fn devices_and_sessions_with_one_result_are_named_together() {
        let pair = |ctrl, session, poll| {
            ["poll", "wait"].map(|mode| Row {
                ctrl: Some(ctrl),
                session,
                ..row(mode, 1, if mode == "poll" { poll } else { 100.0 }, EVEN)
            })
        };
        let rows = [
            pair("inline", "cipher", 200.0),
            pair("inline", "akcipher", 200.0),
            pair("thread", "cipher", 50.0),
        ]
        .concat();
        let said = best(&rows).unwrap();
        assert!(
            said.contains(
                "poll with 1 worker (inline cipher, inline akcipher), wait with 1 worker (thread cipher)"
            ),
            "{said}"
        );
    }

    #[test]
    fn a_device_whose_cpu_time_is_unknown_has_no_verdict_on_it() {
        let unknown = |mode| Row {
            ctrl: None,
            rounds_cpu: Vec::new(),
            ..row(mode, 1, 100.0, EVEN)
        };
        let said = best(&[unknown("poll"), unknown("wait")]).unwrap();
        assert!(!said.contains("CPU") && said.contains("p99.9"), "{said}");
    }
}
