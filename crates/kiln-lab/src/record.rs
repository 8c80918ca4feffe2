//! The JSON document of a command: what was asked, where, what came out.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use kiln_kernel::Tier;
use kiln_measure::Machine;
use serde::Serialize;

use crate::{replace, Error};

/// The machine's facts, with what `kernel/` was built with and may use.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// Hardware and host.
    #[serde(flatten)]
    pub machine: Machine,
    /// The compiler that built `kernel/`.
    pub kernel_cc: String,
    /// Tiers that were usable, the mask applied.
    pub tiers: Vec<&'static str>,
}

impl Facts {
    /// Reads them all; takes some 80 ms, for the clocks.
    pub fn read() -> Facts {
        Facts {
            machine: Machine::read(),
            kernel_cc: kiln_kernel::COMPILER.to_string(),
            tiers: Tier::ALL
                .into_iter()
                .filter(|t| t.usable())
                .map(Tier::name)
                .collect(),
        }
    }
}

/// Version of the documents' form, `docs/schema.json`. Grows when a field goes or means something else; not when one is
/// added.
pub const SCHEMA: u32 = 1;

/// The document. Its field names are a promise (`CLI.md`).
#[derive(Clone, Debug, Serialize)]
pub struct Record<'a, R> {
    /// Version of Kiln.
    pub kiln: &'static str,
    /// The commit it was built from, with `-dirty` if a source differed; `unknown` outside git.
    pub commit: &'static str,
    /// The cargo features it was built with.
    pub features: Vec<&'static str>,
    /// When the run began: UTC, RFC 3339, to the second.
    pub date: &'a str,
    /// `SCHEMA`.
    pub schema: u32,
    /// The command's name.
    pub command: &'a str,
    /// The arguments after the program's name, secrets struck out.
    pub args: &'a [String],
    /// From which every random choice follows.
    pub seed: u64,
    /// Where.
    pub machine: &'a Facts,
    /// Flat rows.
    pub rows: &'a [R],
    /// What a reader of the rows must know.
    pub notes: &'a [String],
}

impl<R: Serialize> Record<'_, R> {
    /// One JSON document, with a newline at its end.
    pub fn to_json(&self) -> String {
        pretty(self)
    }

    /// Writes `DIR/COMMAND.json`.
    pub fn write_to(&self, dir: &Path) -> Result<(), Error> {
        replace::write(
            &dir.join(format!("{}.json", self.command)),
            self.to_json().as_bytes(),
        )
    }
}

/// The time of day in UTC as RFC 3339 has it: `2026-11-22T15:33:07Z`.
pub fn utc_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    utc(since.map_or(0, |s| s.as_secs()))
}

/// The date and time of day so many seconds after 1970 began, in the Gregorian calendar.
fn utc(seconds: u64) -> String {
    let (mut days, second) = (seconds / 86400, seconds % 86400);
    let leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (month, day) = (month + 1, days + 1);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// JSON for people: a field to a line, and a list of numbers in one.
pub(crate) fn pretty(document: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(document).expect("a record has string keys only");
    let is_number = |line: &str| {
        let value = line.trim().trim_end_matches(',');
        value == "null" || value.parse::<f64>().is_ok()
    };
    let mut out = String::with_capacity(text.len());
    let mut numbers = false;
    // Strings have no newlines of their own in JSON, so that a line with a number alone is an element of a list.
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

/// Makes the directory for records, before anything is measured for them.
pub fn prepare(dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(|e| {
        Error::input(format!(
            "cannot use '{}' for records: {e}: name a directory you may write to",
            dir.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_fields_of_the_contract() {
        #[derive(Serialize)]
        struct Row {
            len: usize,
            ratio: Option<f64>,
        }
        let facts = Facts::read();
        let record = Record {
            kiln: "0",
            commit: "312f00c",
            features: vec!["peers"],
            date: &utc(0),
            schema: SCHEMA,
            command: "speed",
            args: &["speed".to_string()],
            seed: u64::MAX,
            machine: &facts,
            rows: &[Row {
                len: 16,
                ratio: None,
            }],
            notes: &[],
        };
        let dir = tempfile::tempdir().unwrap();
        record.write_to(dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join("speed.json")).unwrap();
        let doc: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<_> = doc.as_object().unwrap().keys().cloned().collect();
        for key in [
            "kiln", "commit", "features", "date", "schema", "command", "args", "seed", "machine",
            "rows", "notes",
        ] {
            assert!(keys.iter().any(|k| k == key), "{key}");
        }
        assert_eq!(keys.len(), 11);
        assert_eq!(doc["schema"], 1);
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
    fn dates_are_those_of_the_calendar() {
        // As `date -u -d @SECONDS +%FT%TZ` prints them.
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (1_795_361_587, "2026-11-22T15:33:07Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), date);
        }
        assert!(utc_now().as_str() > "2026");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "").unwrap();
        let e = prepare(&file.join("sub")).unwrap_err();
        assert!(e.to_string().contains("for records"), "{e}");
        assert_eq!(e.exit_code(), 2);
    }
}
