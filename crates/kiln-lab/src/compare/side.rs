//! The figures of one side, by key.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value};

use crate::speed::{self, family};
use crate::Error;

/// Fields that say what a row is of, in the order of a key.
const KEY: [&str; 39] = [
    "question",
    "alg",
    "driver",
    "subject",
    "case",
    "kind",
    "name",
    "op",
    "key_bits",
    "len",
    "update_len",
    "impl",
    "provider",
    "config",
    "level",
    "latency",
    "layout",
    "policy",
    "path",
    "fallback",
    "load",
    "scheduler",
    "offered_pps",
    "inject",
    "control",
    "cc",
    "cc_version",
    "opt",
    "variant",
    "abi",
    "mode",
    "session",
    "data",
    "target_us",
    "ctrl",
    "workers",
    "queues",
    "depth",
    "selftest",
];

/// A quantity that rows are compared by.
struct Quantity {
    /// Its field.
    field: &'static str,
    /// Fields of its interval's ends: the first pair that a row has.
    ends: &'static [(&'static str, &'static str)],
    /// Whether less is better.
    less: bool,
    /// Whether it is compared in addition to a row's first quantity, where it is not null.
    further: bool,
    /// Whether the interval is that of the rounds of one process, outside which another process may be.
    of_rounds: bool,
    /// The same in nanoseconds, if this is in cycles.
    time: Option<&'static Quantity>,
}

const fn cost(field: &'static str, ends: &'static [(&'static str, &'static str)]) -> Quantity {
    Quantity {
        field,
        ends,
        less: true,
        further: false,
        of_rounds: false,
        time: None,
    }
}

/// A number of cycles, with the time that was measured in the same samples.
const fn cycles(
    field: &'static str,
    ends: &'static [(&'static str, &'static str)],
    time: &'static Quantity,
) -> Quantity {
    Quantity {
        time: Some(time),
        ..cost(field, ends)
    }
}

const fn rate(field: &'static str, ends: &'static [(&'static str, &'static str)]) -> Quantity {
    Quantity {
        less: false,
        of_rounds: true,
        ..cost(field, ends)
    }
}

const fn further(quantity: Quantity) -> Quantity {
    Quantity {
        further: true,
        ..quantity
    }
}

const NS: &[(&str, &str)] = &[("ns_low", "ns_high")];
const NS_PER_OP: Quantity = cost("ns_per_op", NS);
const NS_PER_BYTE: Quantity = cost("ns_per_byte", NS);

/// Every quantity that is compared, one per line. A row is compared by the first one that it has, and by those that are
/// `further`.
const QUANTITIES: [Quantity; 9] = [
    cycles(
        "cycles_per_op",
        &[("cycles_low", "cycles_high"), ("ci_low", "ci_high")],
        &NS_PER_OP,
    ),
    cycles("cycles_per_byte", &[("ci_low", "ci_high")], &NS_PER_BYTE),
    rate(
        "task_mb_per_s",
        &[("task_mb_per_s_low", "task_mb_per_s_high")],
    ),
    rate("mb_per_s", &[]),
    rate("pairs_per_s", &[("pairs_per_s_low", "pairs_per_s_high")]),
    rate("ops_per_s", &[]),
    further(rate(
        "esp_mb_per_s",
        &[("esp_mb_per_s_low", "esp_mb_per_s_high")],
    )),
    further(rate(
        "delivered_pps",
        &[("delivered_pps_low", "delivered_pps_high")],
    )),
    further(rate("knee_pps", &[("knee_pps_low", "knee_pps_high")])),
];

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The field it is from.
    pub unit: &'static str,
    /// Whether less is better.
    pub less: bool,
    /// Not a number if it could not be measured.
    pub value: f64,
    /// Its interval, if the row has one.
    pub interval: Option<(f64, f64)>,
    /// Whether that is of the rounds of one process, and not where the figure of a rerun falls.
    pub of_rounds: bool,
    /// Figures of single turns, each beside one of the other side's.
    pub turns: Vec<f64>,
    /// Of a number of cycles: the same in nanoseconds. Records made before times were kept have none.
    pub time: Option<Box<Figure>>,
}

/// Figures by key, and under which conditions they were measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// What people call it.
    pub name: String,
    /// Each key once.
    pub figures: BTreeMap<String, Figure>,
    /// Figures whose key another row has already: which of them to compare cannot be known.
    pub ambiguous: usize,
    /// What should be the same on both sides: what it is, and its values here.
    pub conditions: BTreeMap<String, BTreeSet<String>>,
}

impl Side {
    /// The rows of records, all of one side.
    pub fn of_records(name: &str, records: &[Value]) -> Result<Side, Error> {
        let rows = records
            .iter()
            .filter_map(|r| r.get("rows").and_then(Value::as_array));
        let maps: Vec<&Map<String, Value>> = rows.flatten().filter_map(Value::as_object).collect();
        let mut side = Side::of(name, &maps);
        if side.figures.is_empty() {
            let fields: Vec<&str> = QUANTITIES.iter().map(|q| q.field).collect();
            return Err(Error::input(format!(
                "'{name}' has nothing to compare: no row has {}: name records of speed, fpu, ipsec, compilers or ctrlq",
                fields.join(" or ")
            )));
        }
        for record in records {
            side.measured_under(record);
        }
        Ok(side)
    }

    /// The rows of a run of `speed`.
    pub fn of_speed(name: &str, rows: &[speed::Row]) -> Side {
        let values: Vec<Value> = rows
            .iter()
            .map(|row| serde_json::to_value(row).expect("a row has string keys only"))
            .collect();
        let maps: Vec<_> = values.iter().filter_map(Value::as_object).collect();
        Side::of(name, &maps)
    }

    fn of(name: &str, rows: &[&Map<String, Value>]) -> Side {
        // Versions of trees and peers are what is compared, unless a record holds several of one family.
        let mut seen = HashSet::new();
        let plain = rows.iter().all(|row| seen.insert(key(row, true)));
        let mut side = Side {
            name: name.to_string(),
            ..Side::default()
        };
        for row in rows {
            for (key, figure) in figures(row, &key(row, plain)) {
                match side.figures.entry(key) {
                    Entry::Vacant(place) => {
                        place.insert(figure);
                    }
                    // The same row in two records is one.
                    Entry::Occupied(place) if *place.get() == figure => {}
                    Entry::Occupied(_) => side.ambiguous += 1,
                }
            }
        }
        side
    }

    /// Takes over the conditions of a record: the machine, the program and the arguments. Seeds differ on purpose, and where
    /// output goes changes no figure.
    pub fn measured_under(&mut self, record: &Value) {
        let text = |v: &Value| match v {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let machine = &record["machine"];
        let cpu = match &machine["model"] {
            Value::Null => String::new(),
            model => format!(
                "{} (family {} model {}), {} cores",
                text(model),
                text(&machine["family"]),
                text(&machine["model_number"]),
                text(&machine["cores"])
            ),
        };
        let build = ["kiln", "commit"].map(|field| text(&record[field]));
        let command = text(&record["command"]);
        // A survey's arguments decide those of its parts, which are compared themselves.
        let arguments = (command != "survey").then(|| arguments(record)).flatten();
        for (what, value) in [
            ("CPU".to_string(), cpu),
            ("kernel".to_string(), text(&machine["kernel"])),
            ("Kiln".to_string(), build.join(" ").trim().to_string()),
            (
                "compiler of kernel/".to_string(),
                text(&machine["kernel_cc"]),
            ),
            (
                format!("arguments of {command}"),
                arguments.unwrap_or_default(),
            ),
        ] {
            if !value.is_empty() {
                self.conditions.entry(what).or_default().insert(value);
            }
        }
    }
}

/// What a record's command was asked to measure; nothing if the record does not have it.
fn arguments(record: &Value) -> Option<String> {
    let mut kept = Vec::new();
    let mut words = record["args"].as_array()?.iter().filter_map(Value::as_str);
    while let Some(word) = words.next() {
        match word {
            "--json" | "--no-report" => {}
            "--seed" | "--out" => {
                words.next();
            }
            word if word.starts_with("--seed=") || word.starts_with("--out=") => {}
            word => kept.push(word),
        }
    }
    Some(kept.join(" "))
}

/// The key fields' values, without providers' versions if `plain`.
fn key(row: &Map<String, Value>, plain: bool) -> String {
    let mut words: Vec<String> = Vec::new();
    for field in KEY {
        match row.get(field) {
            Some(Value::String(text)) if field == "provider" && plain => {
                words.push(family(text).to_string());
            }
            Some(Value::String(text)) => words.push(text.clone()),
            Some(Value::Number(n)) if field == "key_bits" => words.push(format!("{n} bit")),
            Some(Value::Number(n)) if field == "len" => words.push(format!("{n} B")),
            Some(Value::Number(n)) => words.push(format!("{field} {n}")),
            Some(Value::Bool(true)) => words.push(field.to_string()),
            _ => {}
        }
    }
    words.join(", ")
}

/// The figures of a row: its first quantity under the row's key, even if it is null, since a figure lost is a difference;
/// and further ones that are not null under the key with their names.
fn figures(row: &Map<String, Value>, key: &str) -> Vec<(String, Figure)> {
    let mut found = Vec::new();
    let first = QUANTITIES
        .iter()
        .find(|q| !q.further && row.contains_key(q.field));
    let further = QUANTITIES.iter().filter(|q| q.further);
    for quantity in further {
        let figure = figure(row, quantity);
        if !figure.value.is_nan() {
            found.push((format!("{key}, {}", quantity.field), figure));
        }
    }
    if let Some(quantity) = first {
        let figure = figure(row, quantity);
        // A row that is of something else has only that.
        if !figure.value.is_nan() || found.is_empty() {
            found.push((key.to_string(), figure));
        }
    }
    found
}

fn figure(row: &Map<String, Value>, quantity: &Quantity) -> Figure {
    let number = |name: &str| row.get(name).and_then(Value::as_f64);
    let value = number(quantity.field).unwrap_or(f64::NAN);
    let ends = quantity.ends.iter().find(|(low, _)| row.contains_key(*low));
    let interval = ends.and_then(|(low, high)| number(low).zip(number(high)));
    Figure {
        unit: quantity.field,
        less: quantity.less,
        value,
        // In rows of some commands the interval is that of another field.
        interval: interval.filter(|(low, high)| (*low..=*high).contains(&value)),
        of_rounds: quantity.of_rounds,
        turns: Vec::new(),
        time: quantity
            .time
            .map(|time| Box::new(figure(row, time)))
            .filter(|time| time.value.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn side(rows: Value) -> Side {
        let rows = rows.as_array().unwrap();
        let maps: Vec<_> = rows.iter().filter_map(Value::as_object).collect();
        Side::of("a", &maps)
    }

    #[test]
    fn a_key_is_what_a_row_is_of_and_not_what_it_says() {
        let side = side(json!([
            {"alg": "xts(aes)", "impl": "i", "provider": "linux-6.12.1", "level": "api", "op": "encrypt",
             "key_bits": 256, "len": 16, "latency": false, "cycles_per_op": 50.0, "cycles_per_byte": 3.125,
             "ci_low": 49.0, "ci_high": 51.0, "limit_cycles": 1.0},
            {"kind": "object", "name": "a.o", "status": "built"},
        ]));
        let keys: Vec<_> = side.figures.keys().map(String::as_str).collect();
        assert_eq!(keys, ["xts(aes), encrypt, 256 bit, 16 B, i, linux, api"]);
        let figure = &side.figures[keys[0]];
        assert_eq!((figure.unit, figure.value), ("cycles_per_op", 50.0));
        assert_eq!(figure.interval, Some((49.0, 51.0)));
        assert_eq!((side.figures.len(), side.ambiguous), (1, 0));
    }

    #[test]
    fn cycles_are_compared_with_their_time() {
        let row = |time: Value| {
            let mut row =
                json!({"alg": "a", "cycles_per_op": 40.0, "ci_low": 39.0, "ci_high": 41.0});
            let all = row.as_object_mut().unwrap();
            all.extend(time.as_object().unwrap().clone());
            side(json!([row])).figures["a"].clone()
        };
        let time = row(json!({"ns_per_op": 10.0, "ns_low": 9.0, "ns_high": 11.0}));
        let time = time.time.unwrap();
        assert_eq!(
            (time.unit, time.value, time.interval),
            ("ns_per_op", 10.0, Some((9.0, 11.0)))
        );
        // Records before times were kept, and rows without a figure.
        assert_eq!(row(json!({})).time, None);
        assert_eq!(row(json!({"ns_per_op": null})).time, None);
        let compiled = json!([{"cc": "c", "cycles_per_byte": 4.0, "ns_per_byte": 1.0}]);
        let time = side(compiled).figures["c"].time.clone();
        assert_eq!(time.unwrap().unit, "ns_per_byte");
    }

    #[test]
    fn two_versions_in_one_record_are_kept_apart() {
        let row = |provider: &str| json!({"alg": "a", "provider": provider, "cycles_per_op": 1.0});
        let both = side(json!([row("linux-6.12.1"), row("linux-6.13.0")]));
        assert_eq!(both.figures.len(), 2);
        assert_eq!(
            side(json!([row("kiln"), row("linux-6.13.0")]))
                .figures
                .len(),
            2
        );
    }

    #[test]
    fn another_fields_interval_is_none() {
        let side = side(json!([
            {"policy": "legacy", "cycles_per_op": 500.0, "ratio": 1.1, "ci_low": 1.0, "ci_high": 1.2},
            {"policy": "nested", "cycles_per_op": null, "ci_low": null, "ci_high": null},
        ]));
        assert_eq!(side.figures["legacy"].interval, None);
        assert!(side.figures["nested"].value.is_nan());
    }

    #[test]
    fn rates_have_their_own_intervals_and_packets_are_compared_beside_the_task() {
        let esp = |policy: &str, task: Value, packets: Value| {
            json!({"policy": policy, "load": "esp", "task_mb_per_s": task, "task_mb_per_s_low": 90.0, "task_mb_per_s_high": 110.0,
                   "esp_mb_per_s": packets, "esp_mb_per_s_low": 19.0, "esp_mb_per_s_high": 21.0})
        };
        let side = side(json!([
            esp("legacy", json!(100.0), json!(20.0)),
            esp("control", json!(100.0), Value::Null),
            {"policy": "legacy", "scheduler": "eevdf-6.12", "knee_pps": 3e5, "knee_pps_low": 2e5, "knee_pps_high": 4e5},
            {"mode": "poll", "session": "cipher", "pairs_per_s": 5.0, "pairs_per_s_low": 4.0, "pairs_per_s_high": 6.0,
             "ops_per_s": 10.0},
            {"mode": "poll", "session": "akcipher", "pairs_per_s": null, "ops_per_s": 10.0},
        ]));
        let of = |key: &str| {
            let figure = &side.figures[key];
            (figure.unit, figure.interval)
        };
        assert_eq!(of("legacy, esp"), ("task_mb_per_s", Some((90.0, 110.0))));
        assert_eq!(
            of("legacy, esp, esp_mb_per_s"),
            ("esp_mb_per_s", Some((19.0, 21.0)))
        );
        assert_eq!(
            of("legacy, eevdf-6.12, knee_pps"),
            ("knee_pps", Some((2e5, 4e5)))
        );
        assert_eq!(of("poll, cipher"), ("pairs_per_s", Some((4.0, 6.0))));
        assert!(side.figures["poll, akcipher"].value.is_nan());
        // Six of five rows: no packets are lost where a control has none.
        assert_eq!(side.figures.len(), 6);
    }

    #[test]
    fn rows_that_cannot_be_told_apart_are_counted() {
        let row = |cycles: f64| json!({"alg": "a", "cycles_per_op": cycles});
        assert_eq!(side(json!([row(1.0), row(2.0)])).ambiguous, 1);
        assert_eq!(side(json!([row(1.0), row(1.0)])).ambiguous, 0);
    }

    #[test]
    fn conditions_are_what_should_be_the_same() {
        let record = json!({"command": "ipsec", "kiln": "0.1.0", "commit": "abc", "seed": 7,
                            "args": ["ipsec", "--load", "esp", "--seed", "7", "--out=x", "--json", "--slice-us", "200"],
                            "machine": {"model": "M", "family": 1, "model_number": 2, "cores": 2, "kernel": "6.1"},
                            "rows": [{"policy": "legacy", "task_mb_per_s": 1.0}]});
        let side = Side::of_records("r", &[record]).unwrap();
        let said: Vec<(&str, String)> = side
            .conditions
            .iter()
            .map(|(what, all)| (what.as_str(), all.iter().cloned().collect()))
            .collect();
        assert_eq!(
            said,
            [
                ("CPU", "M (family 1 model 2), 2 cores".to_string()),
                ("Kiln", "0.1.0 abc".to_string()),
                (
                    "arguments of ipsec",
                    "ipsec --load esp --slice-us 200".to_string()
                ),
                ("kernel", "6.1".to_string()),
            ]
        );
    }

    #[test]
    fn records_without_figures_are_refused_in_one_line() {
        let record = |row: Value| json!({"command": "x", "rows": [row]});
        let e = Side::of_records("r", &[record(json!({"a": 1}))]).unwrap_err();
        assert!(e.to_string().contains("cycles_per_op or"), "{e}");
        assert_eq!(e.exit_code(), 2);
        let both = [
            record(json!({"alg": "a", "cycles_per_op": 1.0})),
            record(json!({"mode": "poll", "ops_per_s": 1.0})),
        ];
        assert_eq!(Side::of_records("r", &both).unwrap().figures.len(), 2);
    }
}
