//! Tests `kiln report`, and `kiln compare` on bundles and reports, from a user's point of view.

use std::fs;
use std::path::Path;

use crate::common::{fault, kiln};
use serde_json::{json, Value};

fn record(command: &str, model: &str, rows: Value) -> Value {
    json!({"kiln": "0.1.0", "schema": 1, "command": command, "args": [command], "seed": 5,
           "machine": {"model": model, "kernel": "6.12", "core_hz": 4e9, "cores": 2}, "rows": rows, "notes": []})
}

fn speed(model: &str, cycles: f64) -> Value {
    let row = |len: u64| {
        let cycles = cycles * len as f64;
        json!({"alg": "xts(aes)", "impl": "i", "provider": "kiln", "tier": null, "level": "primitive", "op": "encrypt",
               "key_bits": 256, "len": len, "latency": false, "cycles_per_op": cycles, "cycles_per_byte": cycles,
               "mb_per_s": 1.0, "ci_low": 0.999 * cycles, "ci_high": 1.001 * cycles, "limit_cycles": null})
    };
    record("speed", model, json!([row(16), row(4096)]))
}

fn tests(model: &str, failed: u64) -> Value {
    let row = json!({"alg": "xts(aes)", "impl": "i", "suite": "vectors", "context": "task", "tiers": "generic",
                     "cases": 9, "failed": failed, "skipped": 0, "reason": null});
    record("test", model, json!([row]))
}

fn bundle(model: &str, cycles: f64) -> Value {
    let mut survey = record("survey", model, json!([]));
    survey["records"] = json!([speed(model, cycles), tests(model, 0)]);
    survey
}

fn put(dir: &Path, name: &str, document: &Value) -> String {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, document.to_string()).unwrap();
    path.to_str().unwrap().to_string()
}

/// In old versions, `kiln fpu` answered questions that five separate commands answer today. Its old
/// records must be read as if those commands had written them.
#[test]
fn old_records_of_fpu_are_read_as_those_of_its_successors() {
    let dir = tempfile::tempdir().unwrap();
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records");
    for (file, command, title) in [
        ("policies", "fpu", "**FPU policies under softirq load"),
        (
            "breakpoints",
            "fpu-prove",
            "**FPU policies under softirq load",
        ),
        ("overhead", "fpu-overhead", "**Methods of calling a cipher"),
        (
            "step",
            "fpu-prove",
            "**An interrupt before each instruction",
        ),
        ("esp", "ipsec", "**IPsec under each FPU policy"),
    ] {
        let path = records.join(format!("{file}.json"));
        let mut record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        record["command"] = json!("fpu");
        let old = put(dir.path(), &format!("old/{file}.json"), &record);
        record["command"] = json!(command);
        let new = put(dir.path(), &format!("new/{file}.json"), &record);
        let page = kiln(&["report", &old, &new, "--format", "markdown"]);
        assert_eq!(page.status, 0, "{file}: {}", page.stderr);
        let (one, both) = (
            kiln(&["report", &new, "--format", "markdown"]),
            page.stdout(),
        );
        // The old and the new record must appear as columns of the same table.
        assert!(both.contains(title), "{file}: {both}");
        assert_eq!(
            both.matches("\n**").count() - 1,
            one.stdout().matches("\n**").count(),
            "{file}"
        );
        if ["overhead", "esp"].contains(&file) {
            let run = kiln(&["compare", &old, &new, "--json"]);
            assert_eq!(run.status, 0, "{file}: {}", run.stderr);
            assert!(!run.json()["rows"].as_array().unwrap().is_empty(), "{file}");
        }
    }
}

#[test]
fn a_page_of_two_machines_has_a_column_each_and_gives_its_records_back() {
    let dir = tempfile::tempdir().unwrap();
    let a = put(dir.path(), "zen5/survey.json", &bundle("A", 10.0));
    let b = put(dir.path(), "zen2/survey.json", &bundle("B", 20.0));
    let page = dir.path().join("page.html");
    let page = page.to_str().unwrap();
    let run = kiln(&["report", &a, &b, "--out", page]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(
        run.stdout().starts_with(page) && run.stdout().lines().count() == 1,
        "{}",
        run.stdout()
    );
    let text = fs::read_to_string(page).unwrap();
    assert!(text.contains("zen5") && text.contains("zen2") && text.contains("zen2 / zen5"));
    // A page contains the records from which it was made. It must be possible to make another page
    // or a table from them.
    let of_page = kiln(&["report", page, "--format", "csv"]).stdout();
    assert_eq!(of_page.lines().count(), 1 + 2 * 3);
    assert_eq!(of_page.matches("zen2,speed,5,").count(), 2);
    let again = dir.path().join("again");
    let run = kiln(&[
        "report",
        page,
        "--out",
        again.to_str().unwrap(),
        "--title",
        "Again",
    ]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(fs::read_to_string(again.join("report.html"))
        .unwrap()
        .contains("<h1>Again</h1>"));
}

#[test]
fn only_a_report_is_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let record = put(dir.path(), "speed.json", &speed("A", 10.0));
    let file = dir.path().join("page.html");
    let page = file.to_str().unwrap();
    fs::write(&file, "<p>a thesis").unwrap();
    fault(
        &kiln(&["report", &record, "--out", page]),
        2,
        "is not a report of Kiln",
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "<p>a thesis");
    fs::remove_file(&file).unwrap();
    for _ in 0..2 {
        assert_eq!(kiln(&["report", &record, "--out", page]).status, 0);
    }
}

#[test]
fn records_of_one_directory_are_one_column() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "r/speed.json", &speed("A", 10.0));
    put(dir.path(), "r/test.json", &tests("A", 1));
    let path = dir.path().join("r");
    let path = path.to_str().unwrap();
    let markdown = kiln(&["report", path, "--format", "markdown"]).stdout();
    assert!(
        markdown.contains(" 16 B |") && markdown.contains("160 ±0.1%"),
        "{markdown}"
    );
    assert!(markdown.lines().all(|l| !l.starts_with('#')));
    let run = kiln(&["report", path, "--format", "ktap"]);
    assert_eq!(
        run.stdout(),
        "KTAP version 1\n1..1\n# 1 failed\nnot ok 1 xts(aes), i, vectors, task, generic\n"
    );
    let run = kiln(&["report", path, "--format", "google-benchmark"]);
    let doc = run.json();
    assert_eq!(doc["benchmarks"].as_array().unwrap().len(), 2);
    assert_eq!(doc["benchmarks"][0]["real_time"], 40.0);
}

#[test]
fn compare_takes_bundles_pages_and_directories() {
    let dir = tempfile::tempdir().unwrap();
    let a = put(dir.path(), "a/survey.json", &bundle("A", 10.0));
    let b = put(dir.path(), "b/survey.json", &bundle("A", 12.0));
    let page = dir.path().join("b.html");
    let page = page.to_str().unwrap().to_string();
    assert_eq!(kiln(&["report", &b, "--out", &page]).status, 0);
    let alone = put(dir.path(), "c/speed.json", &speed("A", 12.0));
    let parent = Path::new(&alone)
        .parent()
        .unwrap()
        .to_str()
        .unwrap()
        .to_string();
    for other in [&b, &page, &alone, &parent] {
        let run = kiln(&["compare", &a, other, "--max-regression", "5", "--json"]);
        assert_eq!(run.status, 1, "{other}: {}", run.stderr);
        let rows = run.json()["rows"].clone();
        assert_eq!(rows.as_array().unwrap().len(), 2, "{other}");
        assert_eq!(rows[0]["verdict"], "slower");
    }
    // Control: comparing a record with itself must succeed.
    assert_eq!(
        kiln(&["compare", &a, &a, "--max-regression", "5"]).status,
        0
    );
    let two = dir.path().join("two.html");
    let two = two.to_str().unwrap();
    assert_eq!(kiln(&["report", &a, &b, "--out", two]).status, 0);
    fault(&kiln(&["compare", &a, two]), 2, "contains 2 sides");
}

#[test]
fn what_is_no_record_is_told_in_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_string()
    };
    let whole = speed("A", 1.0).to_string();
    let mut newer = speed("A", 1.0);
    newer["schema"] = json!(3);
    let good = file("good.json", whole.as_bytes());
    let mut old = speed("A", 1.0);
    old.as_object_mut().unwrap().remove("schema");
    let old = file("old.json", old.to_string().as_bytes());
    for (path, why) in [
        (
            file("newer.json", newer.to_string().as_bytes()),
            "has schema 3",
        ),
        (
            file("cut.json", &whole.as_bytes()[..whole.len() / 2]),
            "ends in the middle of a record",
        ),
        (file("empty.json", b""), "is empty"),
        (
            file("gbench.json", b"{\"context\": {}, \"benchmarks\": []}"),
            "it needs an array 'rows'",
        ),
        (file("bytes.json", b"\x7fELF\x02\xff\xfe"), "it is not text"),
        (
            file("page.html", b"<!DOCTYPE html><p>a page"),
            "it holds no records",
        ),
        ("/dev/zero".to_string(), "more than 64 MB"),
        (
            dir.path().join("none").to_str().unwrap().to_string(),
            "cannot read",
        ),
    ] {
        fault(&kiln(&["report", &path, "--format", "csv"]), 2, why);
        fault(&kiln(&["compare", &good, &path]), 2, why);
    }
    // Control: the comparison must accept records without a schema version, which old versions
    // wrote.
    assert_eq!(kiln(&["compare", &good, &old]).status, 0);
    fault(
        &kiln(&["report", &good, "--format", "pdf"]),
        2,
        "choose from csv, markdown",
    );
    fault(
        &kiln(&["report", &good, "--format", "ktap"]),
        2,
        "no row there is a check",
    );
    fault(&kiln(&["report", &good, "--json"]), 2, "--format");
    fault(
        &kiln(&["report", &good, "--format", "csv", "--out", "x"]),
        2,
        "redirect",
    );
    fault(&kiln(&["report"]), 2, "--help");
}
