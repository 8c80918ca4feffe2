//! A record as it was read: what its fields are, whatever wrote it.

pub use kiln_record::Row;
use kiln_record::SCHEMA;
use serde_json::Value;

use crate::error::Error;

/// Whether this is a record of a schema that is known here; `of` is what a fault calls it.
pub fn check(of: &str, document: &Value) -> Result<(), Error> {
    let fault = |why: &str| {
        Err(Error::new(format!(
            "'{of}' is no record of Kiln's: {why}: name a file that --json or --out wrote"
        )))
    };
    let Some(fields) = document.as_object() else {
        return fault("it is no JSON object");
    };
    match fields.get("schema") {
        None | Some(Value::Null) => {}
        Some(schema) if schema.as_u64().is_some_and(|n| n <= SCHEMA.into()) => {}
        Some(schema) => {
            return Err(Error::new(format!(
                "'{of}' has schema {}, this kiln knows up to {SCHEMA}: use the version that wrote it ({})",
                short(schema),
                fields.get("kiln").map_or("unknown".to_string(), short)
            )))
        }
    }
    match fields.get("rows").and_then(Value::as_array) {
        None => return fault("it has no rows"),
        Some(rows) if !rows.iter().all(Value::is_object) => return fault("a row is no object"),
        Some(_) => {}
    }
    if !fields.get("command").is_some_and(Value::is_string) {
        return fault("it names no command");
    }
    let schema = fields.get("schema").and_then(Value::as_u64);
    if schema == Some(SCHEMA.into()) && !fields.get("type").is_some_and(Value::is_string) {
        return fault("it does not say its type");
    }
    Ok(())
}

/// Of what may be anything.
fn short(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_string);
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// Which command wrote it.
pub fn command(record: &Value) -> &str {
    text(record, "command").unwrap_or_default()
}

/// Its rows.
pub fn rows(record: &Value) -> impl Iterator<Item = &Row> {
    let rows = record.get("rows").and_then(Value::as_array);
    rows.into_iter().flatten().filter_map(Value::as_object)
}

/// What a reader of the rows must know.
pub fn notes(record: &Value) -> impl Iterator<Item = &str> {
    let notes = record.get("notes").and_then(Value::as_array);
    notes.into_iter().flatten().filter_map(Value::as_str)
}

/// A field of the machine's facts.
pub fn fact<'a>(record: &'a Value, name: &str) -> Option<&'a Value> {
    record.get("machine")?.get(name).filter(|v| !v.is_null())
}

/// A text field.
pub fn text<'a>(record: &'a Value, name: &str) -> Option<&'a str> {
    record.get(name).and_then(Value::as_str)
}

/// A row's number, if it has one.
pub fn number(row: &Row, name: &str) -> Option<f64> {
    row.get(name)
        .and_then(Value::as_f64)
        .filter(|x| x.is_finite())
}

/// A row's text, if it has one.
pub fn word<'a>(row: &'a Row, name: &str) -> Option<&'a str> {
    row.get(name).and_then(Value::as_str)
}

/// Whether a row is Kiln's own.
pub fn is_own(row: &Row) -> bool {
    word(row, "provider") == Some("kiln")
}

/// Whether a row is of a kernel tree that the user named.
pub fn is_of_tree(row: &Row) -> bool {
    word(row, "provider").is_some_and(|p| kiln_record::family(p) == "linux")
}

/// Whether a row has it and it is true.
pub fn is(row: &Row, name: &str) -> bool {
    row.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// The line that repeats it: its arguments without where results went, and with its seed.
pub fn again(record: &Value) -> String {
    let args = record.get("args").and_then(Value::as_array);
    let mut line = String::from("kiln");
    let (mut skip, mut seeded, mut any) = (false, false, false);
    for arg in args.into_iter().flatten().filter_map(Value::as_str) {
        if std::mem::take(&mut skip) || arg == "--json" || arg.starts_with("--out=") {
            continue;
        }
        if arg == "--out" {
            skip = true;
            continue;
        }
        seeded |= arg == "--seed" || arg.starts_with("--seed=");
        any = true;
        line.push(' ');
        line.push_str(&quoted(arg));
    }
    if !any {
        line.push(' ');
        line.push_str(command(record));
    }
    match record.get("seed").and_then(Value::as_u64) {
        Some(seed) if !seeded => format!("{line} --seed {seed}"),
        _ => line,
    }
}

/// As a shell takes it for one word.
fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+@%".contains(c);
    match !arg.is_empty() && arg.chars().all(plain) {
        true => arg.to_string(),
        false => format!("'{}'", arg.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_line_that_repeats_it() {
        let record = json!({"command": "speed", "seed": 7,
            "args": ["speed", "xts(aes)", "--json", "--out", "d", "--impl", "it's"]});
        assert_eq!(
            again(&record),
            r"kiln speed 'xts(aes)' --impl 'it'\''s' --seed 7"
        );
        let seeded = json!({"command": "survey", "seed": 7, "args": ["--seed=7", "--out=x"]});
        assert_eq!(again(&seeded), "kiln --seed=7");
        assert_eq!(
            again(&json!({"command": "list", "seed": 1})),
            "kiln list --seed 1"
        );
    }

    #[test]
    fn other_schemas_and_other_programs_are_refused() {
        let good = json!({"kiln": "0.1.0", "command": "list", "rows": []});
        assert_eq!(check("f", &good), Ok(()));
        let with = |field: &str, value: Value| {
            let mut record = good.clone();
            record[field] = value;
            check("f", &record).map_err(|e| e.to_string())
        };
        assert_eq!(with("type", json!("list")), Ok(()));
        assert_eq!(with("schema", json!(1)), Ok(()));
        assert_eq!(with("schema", json!(0)), Ok(()));
        let typed =
            json!({"kiln": "1", "schema": SCHEMA, "command": "fpu", "type": "fpu-esp", "rows": []});
        assert_eq!(check("f", &typed), Ok(()));
        for (field, value, why) in [
            ("schema", json!(3), "has schema 3"),
            ("schema", json!(2), "does not say its type"),
            ("schema", json!("x\ny"), "has schema xy"),
            ("schema", json!(-1), "has schema -1"),
            ("rows", json!({}), "no rows"),
            ("rows", json!([1]), "a row is no object"),
            ("command", json!(1), "no command"),
        ] {
            let e = with(field, value).unwrap_err();
            assert!(e.contains(why) && !e.contains('\n'), "{e}");
        }
        assert!(check("f", &json!([])).is_err());
        assert!(check("f", &json!({"context": {}, "benchmarks": []})).is_err());
    }
}
