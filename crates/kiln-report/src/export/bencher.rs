//! Exports Bencher Metric Format, which lists the measures of each benchmark, each with a lower and
//! an upper bound (<https://bencher.dev/docs/reference/bencher-metric-format/>). No schema of the
//! format is published, so the test checks the rules stated on that page.

use serde_json::{json, Map, Value};

use crate::error::Error;
use crate::side::Side;

use super::result::{results, to_text, Figure};

/// Bencher's built-in measure for durations, in nanoseconds.
const LATENCY: &str = "latency";

/// Exports all times, and all results whose field specifies whether smaller or larger values are
/// better. If there are several sides, each benchmark's name is preceded by the name of its side.
pub(super) fn text(sides: &[Side]) -> Result<String, Error> {
    let mut all: Map<String, Value> = Map::new();
    for one in results(sides) {
        let mut measures: Map<String, Value> = Map::new();
        measures.extend(one.time().map(|time| (LATENCY.to_string(), metric(time))));
        measures.extend(one.judged().map(|(field, figure)| {
            // The name of a measure may contain only letters, digits and dashes.
            (field.name.replace('_', "-"), metric(figure))
        }));
        if !measures.is_empty() {
            all.insert(
                one.words(sides.len(), true).join("/"),
                Value::Object(measures),
            );
        }
    }
    match all.is_empty() {
        true => Err(Error::new(
            "no row there is a measurement: bencher wants records of speed, fpu, compilers, budget or ctrlq",
        )),
        false => Ok(to_text(&Value::Object(all))),
    }
}

fn metric(figure: Figure) -> Value {
    match figure.ends {
        Some((low, high)) => {
            json!({"value": figure.value, "lower_value": low, "upper_value": high})
        }
        None => json!({"value": figure.value}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the document has the structure that Bencher's page describes: an object of
    /// objects of metrics. Each metric is a number with two optional bounds.
    fn check(document: &Value) -> Result<usize, String> {
        let object = |v: &Value| {
            v.as_object()
                .cloned()
                .ok_or_else(|| format!("no object: {v}"))
        };
        let mut metrics = 0;
        for (name, measures) in object(document)? {
            for (measure, metric) in object(&measures)? {
                let metric = object(&metric)?;
                let value = metric.get("value").and_then(Value::as_f64);
                let value = value.ok_or_else(|| format!("{name} {measure}: no value"))?;
                let slug = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                if !measure.chars().all(slug) {
                    return Err(format!("{measure}: not a measure"));
                }
                for (field, end) in &metric {
                    let end = end
                        .as_f64()
                        .ok_or_else(|| format!("{field} of {name}: no number"))?;
                    let fits = match field.as_str() {
                        "value" => true,
                        "lower_value" => end <= value,
                        "upper_value" => end >= value,
                        _ => false,
                    };
                    if !fits {
                        return Err(format!("{name} {measure}: {field} {end}"));
                    }
                }
                metrics += 1;
            }
        }
        Ok(metrics)
    }

    #[test]
    fn times_and_costs_have_their_intervals() {
        let record = json!({"kiln": "1", "schema": 2, "command": "speed", "type": "speed", "args": [], "seed": 1,
            "machine": {"core_hz": 4e9}, "notes": [], "rows": [
                {"alg": "xts(aes)", "impl": "i", "len": 16, "cycles_per_op": 40.0, "ci_low": 39.0, "ci_high": 42.0},
                {"alg": "xts(aes)", "impl": "none", "len": 16, "cycles_per_op": null}]});
        let text = text(&[Side::new("s", record).unwrap()]).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(check(&document), Ok(2));
        assert_eq!(
            document["speed/xts(aes)/16 B/i"],
            json!({"latency": {"value": 10.0, "lower_value": 9.75, "upper_value": 10.5},
                   "cycles-per-op": {"value": 40.0, "lower_value": 39.0, "upper_value": 42.0}})
        );
        // Controls: faults that the check must reject.
        for (field, value) in [
            ("lower_value", json!(11)),
            ("value", json!("1")),
            ("more", json!(1)),
        ] {
            let mut wrong = document.clone();
            wrong["speed/xts(aes)/16 B/i"]["latency"][field] = value;
            assert!(check(&wrong).is_err(), "{field}");
        }
    }

    #[test]
    fn rows_without_a_measurement_are_refused() {
        let record = json!({"kiln": "1", "command": "test", "rows": [{"alg": "a"}]});
        assert!(text(&[Side::new("s", record).unwrap()]).is_err());
    }
}
