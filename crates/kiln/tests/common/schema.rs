//! Validates records against `docs/schema.json`. The tests check every record that they read.
//!
//! The validator supports the keywords of JSON Schema (draft 2020-12) that this schema uses, and
//! panics if it finds any other keyword. A complete library would add forty crates, and would take
//! longer to build than the rest of Kiln.

use std::fs;
use std::path::Path;

use serde_json::Value;

pub fn read() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the definitions in the schema that describe a command's rows.
pub fn defs<'a>(schema: &'a Value, command: &str) -> Vec<&'a Value> {
    let branches = schema["allOf"].as_array().unwrap();
    let own = branches
        .iter()
        .find(|b| b["if"]["properties"]["command"]["const"] == command);
    let own = own.unwrap_or_else(|| panic!("no '{command}' in docs/schema.json"));
    let items = &own["then"]["properties"]["rows"]["items"];
    let one = std::slice::from_ref(items);
    let refs = items["anyOf"].as_array().map_or(one, Vec::as_slice);
    refs.iter()
        .map(|r| referred(schema, r["$ref"].as_str().unwrap()))
        .collect()
}

/// Returns the part of a definition that describes a field.
pub fn field<'a>(def: &'a Value, name: &str) -> Option<&'a Value> {
    let patterns = def["patternProperties"].as_object();
    let like = || {
        let found = patterns?.iter().find(|(p, _)| matches(p, name));
        found.map(|(_, of)| of)
    };
    def["properties"].get(name).or_else(like)
}

/// Returns whether the name matches the pattern. Two forms of pattern are supported: a prefix
/// followed by a number, and a prefix followed by either `le_` and a number, or `more`.
fn matches(pattern: &str, name: &str) -> bool {
    let whole = pattern.strip_prefix('^').and_then(|p| p.strip_suffix('$'));
    let whole = whole.unwrap_or_else(|| panic!("pattern {pattern}"));
    let (head, tail) = whole.split_at(whole.find(['[', '(']).unwrap_or(whole.len()));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let fits = |rest: &str| match tail {
        "[0-9]+" => digits(rest),
        "(le_[0-9]+|more)" => rest == "more" || rest.strip_prefix("le_").is_some_and(digits),
        _ => panic!("pattern {pattern}"),
    };
    // Call `fits` even if the prefix does not match, so that an unsupported pattern always panics.
    let whole = fits(name.strip_prefix(head).unwrap_or_default());
    name.starts_with(head) && whole
}

fn referred<'a>(root: &'a Value, reference: &str) -> &'a Value {
    let pointer = reference.strip_prefix('#').unwrap();
    root.pointer(pointer)
        .unwrap_or_else(|| panic!("{reference} leads nowhere"))
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|x| x.fract() == 0.0),
        other => panic!("type {other}"),
    }
}

/// Returns a list of what is wrong with a record. A field without a definition is wrong: readers
/// must accept such fields, but Kiln must not write them.
pub fn faults(root: &Value, record: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    judge(root, root, record, "", &mut faults);
    faults
}

fn judge(root: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let holds = |schema: &Value| {
        let mut found = Vec::new();
        judge(root, schema, value, at, &mut found);
        found
    };
    let words = schema.as_object().unwrap();
    let said = |what: String| -> String {
        let shown: String = value.to_string().chars().take(80).collect();
        format!("{at}: {what}: {shown}")
    };
    for (word, of) in words {
        match word.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" | "unit" | "then" => {}
            word if word.starts_with("x-") => {}
            "type" => {
                let one = std::slice::from_ref(of);
                let all = of.as_array().map_or(one, Vec::as_slice);
                if !all.iter().any(|t| is(value, t.as_str().unwrap())) {
                    faults.push(said(format!("is not {of}")));
                }
            }
            "const" if value != of => faults.push(said(format!("is not {of}"))),
            "enum" if !of.as_array().unwrap().contains(value) => {
                faults.push(said("is not listed".into()))
            }
            "minimum" if value.is_number() && value.as_f64() < of.as_f64() => {
                faults.push(said(format!("is less than {of}")))
            }
            "maximum" if value.is_number() && value.as_f64() > of.as_f64() => {
                faults.push(said(format!("is more than {of}")))
            }
            "const" | "enum" | "minimum" | "maximum" => {}
            "$ref" => faults.extend(holds(referred(root, of.as_str().unwrap()))),
            "allOf" => {
                for part in of.as_array().unwrap() {
                    faults.extend(holds(part));
                }
            }
            "anyOf" => {
                let all: Vec<Vec<String>> = of.as_array().unwrap().iter().map(holds).collect();
                if !all.iter().any(Vec::is_empty) {
                    faults.extend(all.concat());
                }
            }
            "if" => {
                if holds(of).is_empty() {
                    faults.extend(holds(&schema["then"]));
                }
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    judge(root, of, item, &format!("{at}/{i}"), faults);
                }
            }
            "required" => {
                let Some(fields) = value.as_object() else {
                    continue;
                };
                for name in of.as_array().unwrap() {
                    if !fields.contains_key(name.as_str().unwrap()) {
                        faults.push(said(format!("no {name}")));
                    }
                }
                // Report unknown fields only if the schema describes an object and thus mentions
                // all fields. A condition mentions only some of them.
                let all = schema["type"] == "object";
                for name in fields.keys().filter(|n| all && field(schema, n).is_none()) {
                    faults.push(said(format!("'{name}' is not in the schema")));
                }
            }
            "additionalProperties" if of.is_boolean() => assert_eq!(of, true),
            "additionalProperties" => {
                let fields = value.as_object().into_iter().flatten();
                for (name, inner) in fields.filter(|(n, _)| field(schema, n).is_none()) {
                    judge(root, of, inner, &format!("{at}/{name}"), faults);
                }
            }
            "properties" | "patternProperties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    let of = match word.as_str() {
                        "properties" => of.get(name),
                        _ => field(schema, name).filter(|_| schema["properties"][name].is_null()),
                    };
                    if let Some(of) = of {
                        judge(root, of, inner, &format!("{at}/{name}"), faults);
                    }
                }
            }
            other => panic!("docs/schema.json uses '{other}', which nobody here knows"),
        }
    }
}

/// Panics if the document is a Kiln record that does not match the schema. Other documents are
/// ignored.
#[track_caller]
pub fn check(document: &Value) {
    if document["kiln"].is_string() && document["rows"].is_array() {
        assert_eq!(document["schema"], kiln_record::SCHEMA);
        let faults = faults(&read(), document);
        let some = &faults[..faults.len().min(8)];
        assert!(faults.is_empty(), "not as docs/schema.json says: {some:#?}");
    }
}
