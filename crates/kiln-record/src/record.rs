//! The JSON document that a command writes: arguments, machine and results.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Facts, Part, Setting};

/// Version of the record format. It is increased when a field is removed or changes its meaning,
/// but not when a field is added.
pub const SCHEMA: u32 = 2;

/// A row as a JSON object, with its fields in order.
pub type Row = Map<String, Value>;

/// The document that `--json` prints and `--out` writes. Fields keep their names and units; fields
/// may be added without a new schema number. A result that could not be measured is null, and a
/// note gives the reason.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "A record of Kiln")]
pub struct Record<'a, R> {
    /// Version of Kiln that wrote the record.
    pub kiln: &'static str,
    /// The commit that Kiln was built from, in the format of `git describe --always`. `-dirty` is
    /// appended if a source file differed from the commit. `unknown` if Kiln was built outside a
    /// git repository.
    #[schemars(extend("x-since" = 2))]
    pub commit: &'static str,
    /// The cargo features that Kiln was built with.
    #[schemars(extend("x-since" = 2))]
    pub features: Vec<&'static str>,
    /// Start time of the run in UTC, to the second, in RFC 3339 format.
    #[schemars(extend("x-since" = 2))]
    pub date: &'a str,
    /// Version of the record format. Absent if the record was written before the format had version
    /// numbers.
    #[schemars(extend("x-since" = 1))]
    pub schema: u32,
    /// The command that wrote the record. The words of a subcommand are joined by a dash:
    /// `linux-tcrypt` for `kiln linux tcrypt`.
    pub command: &'a str,
    /// Type of the rows. The section of `docs/RECORDS.md` with this name describes their fields.
    #[serde(rename = "type")]
    #[schemars(extend("x-since" = 2))]
    pub row_type: String,
    /// Command-line arguments without the program's name. A key given with `--key` is replaced by
    /// three dots.
    pub args: &'a [String],
    /// Values that the run took from the configuration file (`kiln.toml`) because they were missing
    /// from `args`. Absent if the run took none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<&'a [Setting]>,
    /// The seed that determines all random choices of the run.
    pub seed: u64,
    /// The part of the run that the record contains. Present only if `--shard` divided the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<Part>,
    /// The machine on which the record was made.
    pub machine: &'a Facts,
    /// The results. Each row is a flat object, and `type` determines its fields.
    #[schemars(with = "Vec<Row>")]
    pub rows: &'a [R],
    /// Remarks needed to interpret the rows: conditions of the run, disturbances, and reasons why
    /// results are null.
    pub notes: &'a [String],
    /// In a survey: the complete records from which the answers were derived.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Value>", extend("items" = {"$ref": "#"}))]
    pub records: Option<&'a [Value]>,
}

impl<R: Serialize> Record<'_, R> {
    /// Formats the record as a JSON document that ends with a newline.
    pub fn to_json(&self) -> String {
        pretty(self)
    }

    /// Returns the document that [`Record::to_json`] formats, as a JSON value.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a record has string keys only")
    }
}

/// Returns the current time in UTC in RFC 3339 format, such as `2026-11-22T15:33:07Z`.
pub fn utc_now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// Formats JSON for human readers: each field is on a separate line, and a list of numbers stays on
/// a single line.
pub(crate) fn pretty(document: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(document).expect("a record has string keys only");
    let is_number = |line: &str| {
        let value = line.trim().trim_end_matches(',');
        value == "null" || value.parse::<f64>().is_ok()
    };
    let mut out = String::with_capacity(text.len());
    let mut numbers = false;
    // JSON strings do not contain raw newlines, so a line that consists of a number is an element
    // of a list.
    for line in text.lines() {
        let ends = numbers && line.trim_start().starts_with(']');
        match (is_number(line), ends) {
            (true, _) if numbers => out.push(' '),
            (true, _) | (_, true) => {}
            _ if out.is_empty() => {}
            _ => out.push('\n'),
        }
        numbers = is_number(line);
        match numbers || ends {
            true => out.push_str(line.trim()),
            false => out.push_str(line),
        }
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_measure::Machine;

    #[test]
    fn a_record_has_the_fields_of_the_contract() {
        #[derive(Serialize)]
        struct Row {
            len: usize,
            ratio: Option<f64>,
        }
        let facts = Facts {
            machine: Machine::read(),
            kernel_cc: "gcc (Debian) 14".to_string(),
            tiers: vec!["generic"],
        };
        let record = Record {
            kiln: "0",
            commit: "312f00c",
            features: vec!["peers"],
            date: &utc_now(),
            schema: SCHEMA,
            command: "speed",
            row_type: "speed".to_string(),
            args: &["speed".to_string()],
            defaults: None,
            seed: u64::MAX,
            shard: None,
            machine: &facts,
            rows: &[Row {
                len: 16,
                ratio: None,
            }],
            notes: &[],
            records: None,
        };
        let doc: Value = serde_json::from_str(&record.to_json()).unwrap();
        let keys: Vec<_> = doc.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            [
                "kiln", "commit", "features", "date", "schema", "command", "type", "args", "seed",
                "machine", "rows", "notes"
            ]
        );
        assert_eq!(doc["schema"], SCHEMA);
        assert_eq!(doc["seed"], u64::MAX);
        assert!(doc["rows"][0]["ratio"].is_null());
        assert!(doc["machine"]["kernel_cc"].as_str().unwrap().contains('('));
        assert!(doc["machine"]["core_hz"].as_f64().unwrap() > 1e8);
        assert_eq!(doc["machine"]["tiers"][0], "generic");
    }

    #[test]
    fn lists_of_numbers_take_one_line() {
        let document = serde_json::json!({"a": [1.5, null, -2e9], "b": [], "c": [[1], {"d": 1}, "7", "]"], "e": [3]});
        let text = pretty(&document);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            document
        );
        assert!(
            text.contains("\n  \"a\": [1.5, null, -2000000000.0],\n"),
            "{text}"
        );
        assert!(
            text.contains("\n    [1],\n") && text.contains("\n    \"7\",\n    \"]\"\n  ],\n"),
            "{text}"
        );
        assert!(text.ends_with("\n  \"e\": [3]\n}\n"), "{text}");
    }

    #[test]
    fn dates_are_in_utc_to_the_second() {
        use std::time::UNIX_EPOCH;

        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs();
        let before = seconds(SystemTime::now());
        let now = utc_now();
        let after = seconds(SystemTime::now());
        assert_eq!(now.len(), "2026-11-22T15:33:07Z".len());
        let told = seconds(humantime::parse_rfc3339(&now).unwrap());
        assert!((before..=after).contains(&told), "{now}");
    }
}
