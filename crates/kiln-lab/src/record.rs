//! The JSON document of a command: what was asked, where, what came out.

use std::fs;
use std::path::Path;

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
        let mut text = serde_json::to_string_pretty(self).expect("a record has string keys only");
        text.push('\n');
        text
    }

    /// Writes `DIR/COMMAND.json`.
    pub fn write_to(&self, dir: &Path) -> Result<(), Error> {
        replace::write(
            &dir.join(format!("{}.json", self.command)),
            self.to_json().as_bytes(),
        )
    }
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
            "kiln", "schema", "command", "args", "seed", "machine", "rows", "notes",
        ] {
            assert!(keys.iter().any(|k| k == key), "{key}");
        }
        assert_eq!(keys.len(), 8);
        assert_eq!(doc["schema"], 1);
        assert_eq!(doc["seed"], u64::MAX);
        assert!(doc["rows"][0]["ratio"].is_null());
        assert!(doc["machine"]["kernel_cc"].as_str().unwrap().contains('('));
        assert!(doc["machine"]["core_hz"].as_f64().unwrap() > 1e8);
        assert_eq!(doc["machine"]["tiers"][0], "generic");
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
