//! Tests that `docs/schema.json` and `docs/RECORDS.md` match the row structures, and that records
//! are valid.

use std::env;
use std::fs;
use std::path::Path;

use crate::common::kiln;
use crate::common::schema::{defs, faults, field, read as schema};
use kiln_questions::row_types;
use kiln_record::reference;
use serde_json::{json, Value};

/// If this environment variable is set, the test overwrites the two files instead of comparing
/// them.
const BLESS: &str = "KILN_BLESS";

#[test]
fn the_schema_and_its_reference_are_those_of_the_row_structures() {
    let schema = kiln_record::schema(&row_types());
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let bless = env::var_os(BLESS).is_some();
    for (name, text) in [("schema.json", text), ("RECORDS.md", reference(&schema))] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs")
            .join(name);
        if bless {
            fs::write(&path, &text).unwrap();
        }
        let have = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == text,
            "docs/{name} differs from the row structures: {BLESS}=1 cargo test -p kiln --test all records::"
        );
    }
}

#[test]
fn the_program_prints_its_schema_and_the_rows_of_one_type() {
    let run = kiln(&["schema"]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema.json");
    assert_eq!(
        (run.status, run.stdout()),
        (0, fs::read_to_string(file).unwrap())
    );
    let run = kiln(&["schema", "here"]);
    let one: Value = serde_json::from_slice(&run.bytes).unwrap();
    assert_eq!(one, schema()["$defs"]["here"]);
    let run = kiln(&["schema", "her"]);
    assert_eq!((run.status, run.stderr.lines().count()), (2, 1), "{run:?}");
    assert!(run.stderr.contains("did you mean 'here'"), "{run:?}");
}

#[test]
fn the_schema_is_known_to_its_last_word() {
    let schema = schema();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    // Controls: an unknown keyword, pattern or reference in the schema must cause an error.
    for (place, wrong) in [
        ("/properties/seed", json!({"multipleOf": 1})),
        ("/$defs/fpu/patternProperties", json!({"^x.*$": {}})),
        ("/properties/machine", json!({"$ref": "#/$defs/none"})),
    ] {
        let mut changed = schema.clone();
        *changed.pointer_mut(place).unwrap() = wrong;
        let record = json!({"command": "fpu", "seed": 1, "machine": {}, "rows": [{"x": 1}]});
        let judged = std::panic::catch_unwind(|| faults(&changed, &record));
        assert!(judged.is_err(), "{place}");
    }
}

#[test]
fn records_are_as_the_schema_says() {
    let schema = schema();
    let dir = tempfile::tempdir().unwrap();
    let (file, a, b) = (
        dir.path().join("f"),
        dir.path().join("a"),
        dir.path().join("b"),
    );
    fs::write(&file, [0; 64]).unwrap();
    let path = |p: &Path| p.to_str().unwrap().to_string();
    let key = "00".repeat(32);
    let crypt = format!(
        "crypt --alg xts(aes) --key {key} --iv {} --in {} --out-file {}",
        "00".repeat(16),
        path(&file),
        path(&dir.path().join("o"))
    );
    let speed = "speed xts(aes) --impl xts-aes-generic --len 16,64 --op encrypt --peers none --key-bits 256";
    let lines = [
        format!(
            "{speed} --baseline xts-aes-generic --quick --out {}",
            path(&a)
        ),
        format!("{speed} --quick --out {}", path(&b)),
        format!(
            "compare {} {}",
            path(&a.join("speed.json")),
            path(&b.join("speed.json"))
        ),
        "list".to_string(),
        crypt,
        "test xts(aes) --impl xts-aes-generic --suite vectors".to_string(),
        "fpu usable --policy legacy".to_string(),
    ];
    for line in &lines {
        let mut args: Vec<&str> = line.split(' ').collect();
        args.push("--json");
        let run = kiln(&args);
        assert_eq!(run.status, 0, "{line}: {}", run.stderr);
        let record = run.json();
        assert_eq!(faults(&schema, &record), [""; 0], "{line}");
        assert!(!record["rows"].as_array().unwrap().is_empty(), "{line}");
        broken(&schema, &record);
    }
}

/// Controls: the schema must reject a record where a field has the wrong type, has the wrong name,
/// or is missing.
fn broken(schema: &Value, record: &Value) {
    let row = record["rows"][0].as_object().unwrap();
    let of = defs(schema, record["command"].as_str().unwrap());
    let own = of
        .iter()
        .filter(|d| row.keys().all(|k| field(d, k).is_some()));
    let own: Vec<_> = own.collect();
    assert!(!own.is_empty());
    let required = |name: &str| {
        own.iter()
            .all(|d| d["required"].as_array().unwrap().contains(&json!(name)))
    };
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut changed = record.clone();
        change(&mut changed);
        assert!(
            !faults(schema, &changed).is_empty(),
            "{}",
            changed["rows"][0]
        );
    };
    for name in row.keys() {
        refused(&|r| r["rows"][0][name] = json!(["of another type"]));
        if required(name) {
            refused(&|r| {
                r["rows"][0].as_object_mut().unwrap().remove(name);
            });
        }
    }
    refused(&|r| r["rows"][0]["no_such_field"] = json!(1));
    refused(&|r| r["machine"]["no_such_field"] = json!(1));
    refused(&|r| r["schema"] = json!(3));
    refused(&|r| r["type"] = json!("no such type"));
    refused(&|r| r["type"] = json!("linux-build"));
    refused(&|r| {
        r.as_object_mut().unwrap().remove("type");
    });
    refused(&|r| r["seed"] = json!(-1));
}

/// Old records, such as those with schema version 1 in `docs/records`, must remain valid.
#[test]
fn records_of_the_documents_are_as_the_schema_says() {
    let schema = schema();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records");
    let mut number = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let faults = faults(&schema, &record);
        let some = &faults[..faults.len().min(8)];
        assert!(faults.is_empty(), "{}: {some:#?}", path.display());
        assert_ne!(kiln_record::type_of(&record).name, "other");
        number += 1;
    }
    assert!(number > 10);
}
