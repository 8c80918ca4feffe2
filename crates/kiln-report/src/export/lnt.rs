//! Exports a report for LLVM's LNT, following version 2 of its format: one machine, one run, and a
//! test for each row whose result is a time. `crates/kiln/tests/exports.rs` validates the report
//! with LNT's own classes.

use serde_json::{json, Value};

use crate::error::Error;
use crate::record::{self, origin};
use crate::side::Side;

use super::result::{results, to_text};

/// Exports all rows whose result is a time. Times are exported in seconds. An LNT report describes
/// a single machine.
pub(super) fn text(sides: &[Side]) -> Result<String, Error> {
    let [side] = sides else {
        return Err(Error::new(format!(
            "lnt: a report is about one machine and one revision, and these are {} sides: name the records of one",
            sides.len()
        )));
    };
    let tests: Vec<Value> = results(sides)
        .filter_map(|one| {
            let seconds = one.time()?.value / 1e9;
            Some(json!({"name": one.path(1), "execution_time": seconds}))
        })
        .collect();
    let Some(first) = side.records.first().filter(|_| !tests.is_empty()) else {
        return Err(Error::new(
            "no row there is a time: lnt wants records of speed, fpu, compilers, budget or ctrlq",
        ));
    };
    let from = origin(first);
    let host = record::host(first);
    // LNT identifies a machine by its name and all of its facts, so include only facts that do not
    // change between runs.
    let mut run = json!({"llvm_project_revision": from.commit, "compiler": from.compiler});
    if let Some((day, time)) =
        record::date(first).and_then(|date| date.trim_end_matches('Z').split_once('T'))
    {
        run["start_time"] = json!(format!("{day} {time}"));
    }
    Ok(to_text(&json!({
        "format_version": "2",
        "machine": {"name": from.machine, "hardware": host.model.unwrap_or_default(), "os": host.kernel.unwrap_or_default()},
        "run": run,
        "tests": tests,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_about_one_machine() {
        let record = json!({"kiln": "1", "commit": "c", "schema": 2, "command": "speed", "type": "speed", "args": [],
            "seed": 1, "date": "2026-11-24T01:02:03Z", "machine": {"core_hz": 4e9, "model": "m", "kernel": "6"},
            "notes": [], "rows": [{"alg": "sha256", "impl": "i", "op": "digest", "len": 16, "ns_per_op": 11.5,
                                   "cycles_per_op": 40.0}]});
        let side = Side::new("s", record).unwrap();
        let document: Value =
            serde_json::from_str(&text(std::slice::from_ref(&side)).unwrap()).unwrap();
        assert_eq!(document["run"]["start_time"], "2026-11-24 01:02:03");
        assert_eq!(document["run"]["llvm_project_revision"], "1 (c)");
        assert_eq!(
            document["tests"],
            json!([{"name": "speed.sha256.digest.16_B.i", "execution_time": 1.15e-8}])
        );
        let e = text(&[side.clone(), side]).unwrap_err().to_string();
        assert!(e.contains("2 sides"), "{e}");
    }
}
