//! What google-benchmark's `--benchmark_out` writes, so that whatever reads that reads this.
//!
//! The fields are those of its user guide ("Output Formats") and of what its `tools/compare.py` asks for.

use kiln_record::type_of;
use serde_json::{json, Value};

use crate::error::Error;
use crate::record::{self, number, Row};
use crate::side::Side;

/// Rows that are a time, in nanoseconds; of several sides the name begins with the side's.
pub fn text(sides: &[Side]) -> Result<String, Error> {
    let mut benchmarks: Vec<Value> = Vec::new();
    for side in sides {
        for record in &side.records {
            let hz = record::fact(record, "core_hz").and_then(Value::as_f64);
            for row in record::rows(record) {
                let Some(ns) = time(row, hz) else { continue };
                let kind = type_of(record);
                let mut words = vec![kind.name.clone()];
                if sides.len() > 1 {
                    words.insert(0, side.name.clone());
                }
                words.extend(kind.key(row, false));
                // A slash parts what google-benchmark calls arguments.
                let words: Vec<String> = words.iter().map(|w| w.replace('/', ":")).collect();
                benchmarks.push(benchmark(&words.join("/"), benchmarks.len(), ns, row));
            }
        }
    }
    if benchmarks.is_empty() {
        return Err(Error::new(
            "no row there is a time: google-benchmark wants records of speed, fpu, compilers, budget or ctrlq",
        ));
    }
    let context = sides
        .iter()
        .flat_map(|s| s.records.first())
        .next()
        .map(context);
    let document = json!({"context": context, "benchmarks": benchmarks});
    let mut text =
        serde_json::to_string_pretty(&document).expect("a document has string keys only");
    text.push('\n');
    Ok(text)
}

/// Where it was measured. What a record does not say is left out or, where readers insist, empty.
fn context(record: &Value) -> Value {
    let fact = |name| record::fact(record, name);
    let hz = fact("core_hz").and_then(Value::as_f64).unwrap_or(0.0);
    json!({
        "date": record::text(record, "date").unwrap_or_default(),
        "host_name": fact("model"),
        "executable": record::again(record),
        "num_cpus": fact("cores"),
        "mhz_per_cpu": (hz / 1e6).round() as u64,
        "cpu_scaling_enabled": fact("governor").is_some_and(|g| g != "performance"),
        "caches": [],
        "load_avg": fact("load").cloned().unwrap_or(json!([])),
        "library_version": format!("kiln {}", record::text(record, "kiln").unwrap_or("-")),
        "library_build_type": "release",
        "json_schema_version": 1,
    })
}

fn benchmark(name: &str, index: usize, ns: f64, row: &Row) -> Value {
    let mut of = json!({
        "name": name,
        "family_index": index,
        "per_family_instance_index": 0,
        "run_name": name,
        "run_type": "iteration",
        "repetitions": 1,
        "repetition_index": 0,
        "threads": number(row, "workers").unwrap_or(1.0) as u64,
        "iterations": number(row, "ops").map_or(1, |n| n as u64).max(1),
        "real_time": ns,
        "cpu_time": ns,
        "time_unit": "ns",
    });
    if let Some(mb) = number(row, "mb_per_s") {
        of["bytes_per_second"] = json!(mb * 1e6);
    }
    of
}

/// Nanoseconds of one operation: as measured, cycles at the core's clock, or the median of what was timed one by one.
fn time(row: &Row, hz: Option<f64>) -> Option<f64> {
    if let Some(ns) = number(row, "ns_per_op") {
        return Some(ns);
    }
    let cycles = number(row, "cycles_per_op").or_else(|| {
        Some(number(row, "cycles_per_byte")? * number(row, "len")?)
            .filter(|_| row.contains_key("cc"))
    });
    if let (Some(cycles), Some(hz)) = (cycles, hz.filter(|hz| *hz > 0.0)) {
        return Some(cycles / hz * 1e9);
    }
    let of = ["lat_us_p50", "section_us_p50", "softirq_us_p50"];
    let us = of.into_iter().find_map(|field| number(row, field))?;
    Some(us * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str, rows: Value) -> Side {
        let record = json!({"kiln": "1", "date": "2026-11-22T15:33:07Z", "command": "speed", "args": ["speed"], "seed": 1,
            "machine": {"core_hz": 4e9, "cores": 2, "load": [0.1, 0.2, 0.3], "model": "m"}, "rows": rows});
        Side::of(name, record).unwrap()
    }

    #[test]
    fn cycles_become_nanoseconds() {
        let rows = json!([
            {"alg": "xts(aes)", "impl": "a/b", "len": 16, "cycles_per_op": 40.0, "mb_per_s": 1600.0},
            {"alg": "xts(aes)", "impl": "none", "len": 16, "cycles_per_op": null},
            {"alg": "xts(aes)", "impl": "timed", "len": 16, "cycles_per_op": 40.0, "ns_per_op": 11.5},
        ]);
        let text = text(&[side("s", rows.clone())]).unwrap();
        let doc: Value = serde_json::from_str(&text).unwrap();
        let all = doc["benchmarks"].as_array().unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(
            all[1]["real_time"],
            json!(11.5),
            "what was measured, not what the clock says"
        );
        assert_eq!(all[0]["name"], "speed/xts(aes)/16 B/a:b");
        assert_eq!(
            (&all[0]["real_time"], &all[0]["time_unit"]),
            (&json!(10.0), &json!("ns"))
        );
        assert_eq!(all[0]["bytes_per_second"], 1.6e9);
        for field in [
            "name",
            "run_name",
            "run_type",
            "iterations",
            "real_time",
            "cpu_time",
            "time_unit",
        ] {
            assert!(all[0].get(field).is_some(), "{field}");
        }
        for field in [
            "date",
            "num_cpus",
            "mhz_per_cpu",
            "cpu_scaling_enabled",
            "caches",
            "load_avg",
            "library_build_type",
        ] {
            assert!(doc["context"].get(field).is_some(), "{field}");
        }
        assert_eq!(doc["context"]["date"], "2026-11-22T15:33:07Z");
        let two = super::text(&[side("a", rows.clone()), side("b", rows)]).unwrap();
        assert!(two.contains("\"a/speed/xts(aes)/16 B/a:b\""), "{two}");
    }

    #[test]
    fn rows_without_a_time_are_no_benchmarks() {
        let e = text(&[side("s", json!([{"kind": "tier", "name": "x"}]))]).unwrap_err();
        assert!(e.to_string().contains("no row there is a time"), "{e}");
    }
}
