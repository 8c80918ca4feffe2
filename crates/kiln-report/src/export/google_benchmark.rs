//! Exports records in the format of google-benchmark's `--benchmark_out`.
//!
//! The export contains the fields that google-benchmark's user guide lists ("Output Formats") and
//! those that its `tools/compare.py` needs.

use kiln_record::RowType;
use serde_json::{json, Value};

use crate::error::Error;
use crate::record::{self, number, Row};
use crate::side::Side;

use super::result::{called, results};

/// Exports all rows whose result is a time. Times are exported in nanoseconds. If there are several
/// sides, each benchmark's name is preceded by the name of its side.
pub(super) fn text(sides: &[Side]) -> Result<String, Error> {
    let mut benchmarks: Vec<Value> = Vec::new();
    for one in results(sides) {
        let Some(time) = one.time() else {
            continue;
        };
        // Join the words with slashes, because google-benchmark uses slashes between a
        // benchmark's arguments.
        let words = one.words(sides.len(), false);
        let words: Vec<String> = words.iter().map(|w| w.replace('/', ":")).collect();
        let name = words.join("/");
        benchmarks.push(benchmark(
            &name,
            benchmarks.len(),
            time.value,
            one.kind,
            one.row,
        ));
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

/// Describes the machine. Facts that the record lacks are omitted, or left empty if readers require
/// the field.
fn context(record: &Value) -> Value {
    let host = record::host(record);
    json!({
        "date": record::date(record).unwrap_or_default(),
        "host_name": host.model,
        "executable": record::repeat_command(record),
        "num_cpus": host.cores,
        "mhz_per_cpu": (host.core_hz.unwrap_or(0.0) / 1e6).round() as u64,
        "cpu_scaling_enabled": host.governor.is_some_and(|g| g != "performance"),
        "caches": [],
        "load_avg": host.load.unwrap_or_default(),
        "library_version": format!("kiln {}", record::version(record)),
        "library_build_type": "release",
        "json_schema_version": 1,
    })
}

fn benchmark(name: &str, index: usize, ns: f64, kind: &RowType, row: &Row) -> Value {
    let mut of = json!({
        "name": name,
        "family_index": index,
        "per_family_instance_index": 0,
        "run_name": name,
        "run_type": "iteration",
        "repetitions": 1,
        "repetition_index": 0,
        "threads": 1,
        "iterations": 1,
        "real_time": ns,
        "cpu_time": ns,
        "time_unit": "ns",
    });
    for what in ["threads", "iterations"] {
        if let Some(n) = called(kind, what).and_then(|f| number(row, &f.name)) {
            of[what] = json!((n as u64).max(1));
        }
    }
    let rate = "bytes_per_second";
    if let Some(mb) = called(kind, rate).and_then(|f| number(row, &f.name)) {
        of[rate] = json!(mb * 1e6);
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str, rows: Value) -> Side {
        let record = json!({"kiln": "1", "date": "2026-11-22T15:33:07Z", "command": "speed", "args": ["speed"], "seed": 1,
            "machine": {"core_hz": 4e9, "cores": 2, "load": [0.1, 0.2, 0.3], "model": "m"}, "rows": rows});
        Side::new(name, record).unwrap()
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
