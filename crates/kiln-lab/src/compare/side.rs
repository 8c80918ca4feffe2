//! The figures of one side, by key.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use crate::speed::{self, family};
use crate::Error;

/// Fields that say what a row is of, in the order of a key.
const KEY: [&str; 32] = [
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
    "control",
    "cc",
    "cc_version",
    "opt",
    "variant",
    "abi",
    "mode",
    "bytes",
    "target_us",
    "ctrl",
    "workers",
    "selftest",
];

/// Fields that hold a row's figure, the first that a row has; whether less is better.
const FIGURES: [(&str, bool); 5] = [
    ("cycles_per_op", true),
    ("cycles_per_byte", true),
    ("task_mb_per_s", false),
    ("mb_per_s", false),
    ("ops_per_s", false),
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
    /// Where the figure of a rerun falls, if the row says so.
    pub interval: Option<(f64, f64)>,
    /// Figures of single turns, each beside one of the other side's.
    pub turns: Vec<f64>,
}

/// Figures by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// What people call it.
    pub name: String,
    /// Each key once.
    pub figures: BTreeMap<String, Figure>,
    /// Rows without a figure field, or with another's key.
    pub ignored: usize,
}

impl Side {
    /// The rows of records, all of one side.
    pub fn of_records(name: &str, records: &[Value]) -> Result<Side, Error> {
        let rows = records
            .iter()
            .filter_map(|r| r.get("rows").and_then(Value::as_array));
        let maps: Vec<&Map<String, Value>> = rows.flatten().filter_map(Value::as_object).collect();
        let side = Side::of(name, &maps);
        if side.figures.is_empty() {
            let fields: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
            return Err(Error::input(format!(
                "'{name}' has nothing to compare: no row has {}: name records of speed, fpu, compilers or ctrlq",
                fields.join(" or ")
            )));
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
            let key = key(row, plain);
            match figure(row) {
                Some(figure) if !side.figures.contains_key(&key) => {
                    side.figures.insert(key, figure);
                }
                _ => side.ignored += 1,
            }
        }
        side
    }
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

fn figure(row: &Map<String, Value>) -> Option<Figure> {
    let (unit, less) = FIGURES
        .into_iter()
        .find(|(name, _)| row.contains_key(*name))?;
    let number = |name: &str| row.get(name).and_then(Value::as_f64);
    let value = number(unit).unwrap_or(f64::NAN);
    let interval = number("ci_low").zip(number("ci_high"));
    Some(Figure {
        unit,
        less,
        value,
        // Of some commands the interval is another field's.
        interval: interval.filter(|(low, high)| (*low..=*high).contains(&value)),
        turns: Vec::new(),
    })
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
        assert_eq!(side.ignored, 1);
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
