//! Reads the fields of records, which may have been written by any version of Kiln or by another
//! program.

use serde::Deserialize;
use serde_json::Value;

use crate::plain::plain_lines;
pub use crate::Row;
use crate::{machine_facts, Aspect, Part, SCHEMA};

/// Checks that a document is a record with a known schema. If it is not, the error is a one-line
/// message that refers to the document as `name`.
pub fn check(name: &str, document: &Value) -> Result<(), String> {
    let fault = |why: &str| {
        Err(format!(
            "'{name}' is not a record of Kiln: {why}: name a file that --json or --out wrote"
        ))
    };
    let Some(fields) = document.as_object() else {
        return fault("it is not a JSON object");
    };
    match fields.get("schema") {
        None | Some(Value::Null) => {}
        Some(schema) if schema.as_u64().is_some_and(|n| n <= SCHEMA.into()) => {}
        Some(schema) => {
            return Err(format!(
                "'{name}' has schema {}, but this kiln reads schemas up to {SCHEMA}: use the version that wrote it ({})",
                short(schema),
                fields.get("kiln").map_or("unknown".to_string(), short)
            ))
        }
    }
    match fields.get("rows").and_then(Value::as_array) {
        None => return fault("it needs an array 'rows'"),
        Some(rows) if !rows.iter().all(Value::is_object) => return fault("a row is not an object"),
        Some(_) => {}
    }
    if !fields.get("command").is_some_and(Value::is_string) {
        return fault("it needs a string 'command'");
    }
    let schema = fields.get("schema").and_then(Value::as_u64);
    if schema == Some(SCHEMA.into()) && !fields.get("type").is_some_and(Value::is_string) {
        return fault("it needs a string 'type'");
    }
    Ok(())
}

/// Replaces control characters, except line breaks and tabs, in all names and strings of a
/// document, because a terminal interprets escape sequences.
pub fn clean(document: &mut Value) {
    match document {
        Value::String(text) => *text = plain_lines(text),
        Value::Array(all) => all.iter_mut().for_each(clean),
        Value::Object(fields) => {
            let old = std::mem::take(fields);
            fields.extend(old.into_iter().map(|(name, mut value)| {
                clean(&mut value);
                (plain_lines(&name), value)
            }));
        }
        _ => {}
    }
}

/// Formats a JSON value as text, truncated to 40 characters.
fn short(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_string);
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// Returns the version of Kiln that wrote the record.
pub fn version(record: &Value) -> &str {
    text(record, "kiln").unwrap_or("-")
}

/// Returns the version, commit and features, formatted as `kiln --version` prints them. For older
/// records, which do not contain a commit, returns only the version.
pub fn build(record: &Value) -> String {
    let version = version(record);
    let Some(commit) = text(record, "commit") else {
        return version.to_string();
    };
    let features = record.get("features").and_then(Value::as_array);
    let features: Vec<&str> = features
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match features.is_empty() {
        true => format!("{version} ({commit})"),
        false => format!("{version} ({commit}, features: {})", features.join(", ")),
    }
}

/// Returns the date and time when the run began.
pub fn date(record: &Value) -> Option<&str> {
    text(record, "date")
}

/// Returns the seed that determines all random choices of the run.
pub fn seed(record: &Value) -> Option<u64> {
    record.get("seed").and_then(Value::as_u64)
}

/// Facts about the machine that exports include. Old records may lack some of them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Host {
    /// The processor's marketing name.
    pub model: Option<String>,
    /// Linux kernel release.
    pub kernel: Option<String>,
    /// Number of logical processors.
    pub cores: Option<u64>,
    /// Core cycles per second.
    pub core_hz: Option<f64>,
    /// The cpufreq governor of CPU 0.
    pub governor: Option<String>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load: Option<Vec<f64>>,
}

/// Returns facts about the machine that the record was made on.
pub fn host(record: &Value) -> Host {
    let machine = record.get("machine").cloned().unwrap_or_default();
    serde_json::from_value(machine).unwrap_or_default()
}

/// The properties that distinguish the sides of a report: a record's machine, commit and compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The facts that identify a kind of machine, separated by commas.
    pub machine: String,
    /// Kiln's version and commit.
    pub commit: String,
    /// The compiler that built the kernel code.
    pub compiler: String,
}

/// Returns the record's machine, commit and compiler. Facts that the record lacks are omitted.
pub fn origin(record: &Value) -> Origin {
    let facts = |side: Aspect| -> String {
        let own = machine_facts().iter().filter(|f| f.side == Some(side));
        let known = own.filter_map(|f| Some((f, fact(record, &f.name)?)));
        let shown = known.map(|(f, value)| match value.as_str() {
            Some(text) => text.to_string(),
            None => format!("{} {value}", f.heading),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    Origin {
        machine: facts(Aspect::Machine),
        commit: build(record),
        compiler: facts(Aspect::Compiler),
    }
}

/// Returns the name of the command that wrote the record, or an empty string if the record does not
/// contain a name.
pub fn command(record: &Value) -> &str {
    text(record, "command").unwrap_or_default()
}

pub fn rows(record: &Value) -> impl Iterator<Item = &Row> {
    let rows = record.get("rows").and_then(Value::as_array);
    rows.into_iter().flatten().filter_map(Value::as_object)
}

/// Returns the remarks needed to interpret the rows.
pub fn notes(record: &Value) -> impl Iterator<Item = &str> {
    let notes = record.get("notes").and_then(Value::as_array);
    notes.into_iter().flatten().filter_map(Value::as_str)
}

/// Looks up a machine fact by field name.
pub fn fact<'a>(record: &'a Value, name: &str) -> Option<&'a Value> {
    record.get("machine")?.get(name).filter(|v| !v.is_null())
}

fn text<'a>(record: &'a Value, name: &str) -> Option<&'a str> {
    record.get(name).and_then(Value::as_str)
}

/// Returns the value of a field if it is a number.
pub fn number(row: &Row, name: &str) -> Option<f64> {
    row.get(name)
        .and_then(Value::as_f64)
        .filter(|x| x.is_finite())
}

/// Returns the value of a field if it is text.
pub fn word<'a>(row: &'a Row, name: &str) -> Option<&'a str> {
    row.get(name).and_then(Value::as_str)
}

/// Returns the record's shard, or `None` if the run was not split into shards.
pub fn part(record: &Value) -> Option<Part> {
    serde_json::from_value(record.get("shard")?.clone()).ok()
}

/// Returns the command line that repeats the run: the original arguments and the seed, without
/// output options.
pub fn repeat_command(record: &Value) -> String {
    command_line(record, &["--out", "-o"])
}

/// Returns the command line of the whole run that this shard belongs to.
pub fn whole_command(record: &Value) -> String {
    command_line(record, &["--out", "-o", "--shard"])
}

/// Returns the command line as it was typed, without output options. Unlike the result of
/// [`repeat_command`], it contains a seed only if the user gave one.
pub fn typed_command(record: &Value) -> String {
    let without_seed = match record.clone() {
        Value::Object(mut fields) => {
            fields.remove("seed");
            Value::Object(fields)
        }
        other => other,
    };
    command_line(&without_seed, &["--out", "-o"])
}

/// Returns the original command line, with the seed added if the record has one. Omits `--json` and
/// the options in `without`, together with their values.
fn command_line(record: &Value, without: &[&str]) -> String {
    let args = record.get("args").and_then(Value::as_array);
    let mut line = String::from("kiln");
    let (mut skip, mut seeded, mut any) = (false, false, false);
    for arg in args.into_iter().flatten().filter_map(Value::as_str) {
        let name = arg.split('=').next().unwrap_or(arg);
        if std::mem::take(&mut skip) || arg == "--json" {
            continue;
        }
        if without.contains(&name) {
            skip = name == arg;
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
    match seed(record) {
        Some(seed) if !seeded => format!("{line} --seed {seed}"),
        _ => line,
    }
}

/// Quotes the argument if a shell would not read it as a single word.
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
            repeat_command(&record),
            r"kiln speed 'xts(aes)' --impl 'it'\''s' --seed 7"
        );
        let seeded = json!({"command": "survey", "seed": 7, "args": ["--seed=7", "--out=x"]});
        assert_eq!(repeat_command(&seeded), "kiln --seed=7");
        let shard =
            json!({"command": "test", "seed": 1, "args": ["test", "--shard", "2/4", "--quick"]});
        assert_eq!(
            repeat_command(&shard),
            "kiln test --shard 2/4 --quick --seed 1"
        );
        assert_eq!(whole_command(&shard), "kiln test --quick --seed 1");
        assert_eq!(
            repeat_command(&json!({"command": "list", "seed": 1})),
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
            check("f", &record)
        };
        assert_eq!(with("type", json!("list")), Ok(()));
        assert_eq!(with("schema", json!(1)), Ok(()));
        assert_eq!(with("schema", json!(0)), Ok(()));
        let typed =
            json!({"kiln": "1", "schema": SCHEMA, "command": "fpu", "type": "fpu-esp", "rows": []});
        assert_eq!(check("f", &typed), Ok(()));
        for (field, value, why) in [
            ("schema", json!(3), "has schema 3"),
            ("schema", json!(2), "it needs a string 'type'"),
            ("schema", json!("x\ny"), "has schema xy"),
            ("schema", json!(-1), "has schema -1"),
            ("rows", json!({}), "an array 'rows'"),
            ("rows", json!([1]), "a row is not an object"),
            ("command", json!(1), "a string 'command'"),
        ] {
            let e = with(field, value).unwrap_err();
            assert!(e.contains(why) && !e.contains('\n'), "{e}");
        }
        assert!(check("f", &json!([])).is_err());
        assert!(check("f", &json!({"context": {}, "benchmarks": []})).is_err());
    }
}
