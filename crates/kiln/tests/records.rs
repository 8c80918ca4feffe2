//! `docs/schema.json`: that records are as it says, that it says all of them, and that `docs/RECORDS.md` says the same.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use common::kiln;
use common::schema::{defs, faults, field, read as schema};
use serde_json::{json, Value};

/// Set to write `docs/RECORDS.md` instead of comparing it.
const WRITE: &str = "KILN_WRITE_RECORDS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_schema_is_known_to_its_last_word() {
    let schema = schema();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    // Controls: a word, a pattern and a reference that nobody here knows do not pass for fulfilled.
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

/// Controls: the same record with a field of another type, of another name, without one, is refused.
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
    refused(&|r| r["schema"] = json!(2));
    refused(&|r| r["seed"] = json!(-1));
}

/// Where the fields of each definition are written, and which structures make it up.
const SOURCES: &[(&str, &[(&str, &str)])] = &[
    (
        "machine",
        &[
            ("kiln-measure/src/machine.rs", "Machine"),
            ("kiln-lab/src/record.rs", "Facts"),
        ],
    ),
    ("survey", &[("kiln-lab/src/survey/row.rs", "Row")]),
    (
        "speed",
        &[
            ("kiln-lab/src/speed/row.rs", "Row"),
            ("kiln-lab/src/speed/row.rs", "Against"),
            ("kiln-lab/src/speed/best.rs", "BestPeer"),
            ("kiln-lab/src/speed/best.rs", "BestTree"),
            ("kiln-lab/src/speed/best.rs", "ManyRival"),
        ],
    ),
    ("speed-via", &[("kiln-lab/src/via/row.rs", "Row")]),
    ("tcrypt", &[("kiln-tree/src/tcrypt.rs", "Row")]),
    (
        "fpu",
        &[
            ("kiln-lab/src/fpu/row.rs", "Row"),
            ("kiln-lab/src/fpu/esp/sweep.rs", "Sweep"),
        ],
    ),
    ("fpu-overhead", &[("kiln-lab/src/overhead/mod.rs", "Row")]),
    ("fpu-step", &[("kiln-lab/src/fpu/step.rs", "StepRow")]),
    (
        "fpu-answers",
        &[("kiln-lab/src/fpu/answers.rs", "AnswerRow")],
    ),
    ("budget", &[("kiln-lab/src/budget/row.rs", "Row")]),
    ("compilers", &[("kiln-lab/src/compilers/row.rs", "Row")]),
    ("ctrlq", &[("kiln-lab/src/ctrlq/row.rs", "Row")]),
    (
        "test",
        &[
            ("kiln-lab/src/check/masks.rs", "Outcome"),
            ("kiln/src/cmd/test_tree.rs", "Row"),
        ],
    ),
    (
        "constant-time",
        &[("kiln-lab/src/constant_time/run.rs", "Row")],
    ),
    ("list", &[("kiln-lab/src/list.rs", "Row")]),
    ("crypt", &[("kiln/src/cmd/crypt.rs", "Row")]),
    ("compare", &[("kiln-lab/src/compare/row.rs", "Row")]),
    ("tree", &[("kiln-tree/src/row.rs", "Row")]),
    ("self-check", &[("kiln-measure/src/trust.rs", "TrustRow")]),
    ("virtio-check", &[("kiln/src/cmd/virtio_check.rs", "Row")]),
    ("linux-build", &[("kiln/src/cmd/linux/build.rs", "Row")]),
    ("linux-selftest", &[("kiln-linux/src/selftest.rs", "Row")]),
    (
        "linux-fidelity",
        &[("kiln-linux/src/fidelity/row.rs", "Row")],
    ),
    (
        "linux-nested",
        &[("kiln-linux/src/fidelity/nested.rs", "Row")],
    ),
    ("linux-virtio", &[("kiln-linux/src/virtio/row.rs", "Row")]),
];

/// Names and types of a structure's fields as they are written, those with parts of their own left out.
fn fields(file: &str, name: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(root().join("crates").join(file)).unwrap();
    let heads = [
        format!("struct {name} {{\n"),
        format!("struct {name}<'a> {{\n"),
    ];
    let begin = heads.iter().find_map(|h| Some(text.find(h)? + h.len()));
    let body = &text[begin.unwrap_or_else(|| panic!("no {name} in {file}"))..];
    let body = &body[..body.find("\n}").unwrap()];
    let (mut found, mut attributes) = (BTreeMap::new(), String::new());
    for line in body.lines().map(str::trim) {
        if line.starts_with("#[") {
            attributes.push_str(line);
        } else if let Some((field, of)) = line.split_once(": ").filter(|_| !line.starts_with("//"))
        {
            let own = std::mem::take(&mut attributes);
            if own.contains("flatten") || own.contains("serde(skip)") {
                continue;
            }
            let renamed = own
                .split_once("rename = \"")
                .map(|(_, rest)| rest.split('"').next().unwrap());
            let field = field.trim_start_matches("pub ");
            found.insert(
                renamed.unwrap_or(field).to_string(),
                of.trim_end_matches(',').to_string(),
            );
        }
    }
    assert!(!found.is_empty(), "{file}");
    found
}

#[test]
fn the_schema_names_every_field_there_is() {
    let schema = schema();
    let defs = schema["$defs"].as_object().unwrap();
    for (def, structures) in SOURCES {
        let own = &defs[*def]["properties"];
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for (file, name) in *structures {
            all.extend(fields(file, name));
        }
        for (field, of) in &all {
            let said = own
                .get(field)
                .unwrap_or_else(|| panic!("{def}: {field} is not in docs/schema.json"));
            assert!(said["description"].is_string(), "{def}: {field}");
            let required = defs[*def]["required"]
                .as_array()
                .unwrap()
                .contains(&json!(field));
            if of.starts_with("Option") && required {
                let null = said["type"]
                    .as_array()
                    .is_some_and(|t| t.contains(&json!("null")));
                assert!(null, "{def}: {field} may be null");
            }
        }
        // What a structure does not name is written by a part of its own: these are few, and known.
        let more: Vec<&String> = own
            .as_object()
            .unwrap()
            .keys()
            .filter(|k| !all.contains_key(*k))
            .collect();
        let known = *def == "fpu" && more.iter().all(|k| k.starts_with("t_"));
        assert!(
            more.is_empty() || known,
            "{def}: docs/schema.json has {more:?}, which nothing writes"
        );
    }
    let described: Vec<&str> = SOURCES.iter().map(|s| s.0).collect();
    for def in defs.keys() {
        assert!(described.contains(&def.as_str()), "{def}");
    }
}

#[test]
fn the_reference_is_the_schemas() {
    let path = root().join("docs/RECORDS.md");
    let text = reference(&schema());
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &text).unwrap();
    }
    let have = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        have == text,
        "docs/RECORDS.md differs from docs/schema.json: {WRITE}=1 cargo test -p kiln --test records"
    );
}

/// The schema for people.
fn reference(schema: &Value) -> String {
    let mut out = String::from(
        "# Records\n\n\
         What `--json` prints and `--out DIR` writes as `DIR/COMMAND.json`. The form is [schema.json](schema.json) (JSON\n\
         Schema, draft 2020-12), from which this page is made. Fields keep their names and units; new ones may come\n\
         without a new schema number, so a reader passes over what it does not know. A figure that could not be measured\n\
         is null, and a note says why. Rows are flat; raw rounds are lists of numbers.\n\n",
    );
    table(&mut out, schema);
    out.push_str(
        "\n`kiln report` and `kiln compare` read records, bundles (a record of `survey`, whose `records` are those of the\n\
         commands it stands on), directories of records, and reports (HTML), which hold the records they were made of.\n\
         Exports of all rows: `kiln report A --format csv|markdown|google-benchmark|ktap`.\n\n## Machine\n\n",
    );
    let defs = &schema["$defs"];
    table(&mut out, &defs["machine"]);
    let branches = schema["allOf"].as_array().unwrap();
    let command_of = |branch: &'_ Value| {
        let command = &branch["if"]["properties"]["command"]["const"];
        command.as_str().unwrap().to_string()
    };
    let titles: Vec<String> = branches
        .iter()
        .map(|b| format!("`{}`", command_of(b)))
        .collect();
    for branch in branches {
        let command = command_of(branch);
        let items = &branch["then"]["properties"]["rows"]["items"];
        let refs: Vec<&Value> = match items["anyOf"].as_array() {
            Some(all) => all.iter().collect(),
            None => vec![items],
        };
        let _ = write!(out, "\n## `{command}`\n");
        for one in refs {
            let name = one["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
            let def = &defs[name];
            let title = def["title"].as_str().unwrap();
            if command == "linux-tcrypt" {
                out.push_str("\nRows as of `speed --tcrypt`.\n");
                continue;
            }
            // Rows that have the name of another command are described there.
            if title != format!("`{command}`") && titles.iter().any(|t| t == title) {
                let _ = write!(out, "\nSome records have rows as of {title}.\n");
                continue;
            }
            if title != format!("`{command}`") {
                let _ = write!(out, "\n### {title}\n");
            }
            let _ = write!(out, "\n{}\n\n", def["description"].as_str().unwrap());
            table(&mut out, def);
        }
    }
    out
}

fn table(out: &mut String, def: &Value) {
    out.push_str("| field | type | unit | meaning |\n|---|---|---|---|\n");
    let required = def["required"].as_array().unwrap();
    let text = |v: &Value| v.as_str().unwrap_or_default().replace('|', "\\|");
    let kind = |of: &Value| match (&of["type"], of.get("$ref"), of.get("enum")) {
        (_, Some(_), _) => "object".to_string(),
        (_, _, Some(_)) => "string".to_string(),
        (Value::Array(all), ..) => {
            let all: Vec<String> = all.iter().map(text).collect();
            all.join(" or ")
        }
        (one, ..) => text(one),
    };
    let mut line = |field: &str, of: &Value, there: bool| {
        let absent = if there { "" } else { "; may be absent" };
        let _ = writeln!(
            out,
            "| `{field}` | {} | {} | {}{absent} |",
            kind(of),
            text(&of["unit"]),
            text(&of["description"])
        );
    };
    // In the order of the file, which a map does not keep: required ones as listed, then the others by name.
    let all = def["properties"].as_object().unwrap();
    for field in required {
        let field = field.as_str().unwrap();
        line(field, &all[field], true);
    }
    for (field, of) in all.iter().filter(|(f, _)| !required.contains(&json!(f))) {
        line(field, of, false);
    }
    for (pattern, of) in def["patternProperties"].as_object().into_iter().flatten() {
        let shown = pattern
            .trim_matches(['^', '$'])
            .replace("[0-9]+", "N")
            .replace("(le_N|more)", "le_N`, `…_more");
        line(&shown, of, false);
    }
}
