//! A side is one column of a report. It holds the records of one machine or one commit.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde_json::{json, Value};

use crate::error::Error;
use crate::record::{self, Origin};

/// Maximum file size. Larger files are rejected, so that reading a device or a disk image does not
/// exhaust memory. Kiln's files are far smaller.
const MOST_BYTES: u64 = 64 << 20;
/// Opening tag of the element in which a page stores its records.
const EMBEDDED: &str = "<script type=\"application/json\" id=\"kiln-records\">";
/// Text near the beginning of every page that Kiln writes.
const GENERATOR: &str = "name=\"generator\" content=\"kiln ";

#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The name shown to the reader, such as a file name or a machine's name.
    pub name: String,
    /// The records, each written by one command.
    pub records: Vec<Value>,
}

impl Side {
    /// Reads a record, a bundle, a report page (which contains the records that it shows), or a
    /// directory of records.
    pub fn read(path: &Path) -> Result<Vec<Side>, Error> {
        if path.is_dir() {
            return read_directory(path);
        }
        let text = read_text(path)?;
        let name = path.display().to_string();
        match text.trim_start().starts_with('<') {
            true => read_page(&name, &text),
            false => Side::parse(&name, &text).map(|side| vec![side]),
        }
    }

    /// Parses a record or a bundle. All records of a bundle belong to the same side.
    pub fn parse(name: &str, text: &str) -> Result<Side, Error> {
        let is_conflict = |line: &str| line.starts_with("<<<<<<< ");
        let document: Value = serde_json::from_str(text).map_err(|e| {
            Error::new(if let Some(at) = text.lines().position(is_conflict) {
                format!(
                    "'{name}' line {} is a conflict marker of git: resolve the conflict",
                    at + 1
                )
            } else if text.trim().is_empty() {
                format!("'{name}' is empty: name a file that --json or --out wrote")
            } else if e.is_eof() {
                format!(
                    "'{name}' ends in the middle of a record: measure again with --json or --out"
                )
            } else {
                format!(
                    "'{name}' is not a record of Kiln: {e}: name a file that --json or --out wrote"
                )
            })
        })?;
        Side::new(name, document)
    }

    /// Creates a side from a record, or from all records of a bundle.
    pub fn new(name: &str, mut document: Value) -> Result<Side, Error> {
        record::check(name, &document).map_err(Error::new)?;
        record::clean(&mut document);
        let fields = document.as_object_mut().expect("checked");
        let inner = match fields.remove("records") {
            Some(Value::Array(inner)) => inner,
            None | Some(Value::Null) => Vec::new(),
            Some(_) => {
                return Err(Error::new(format!(
                "'{name}' is not a bundle of Kiln's: its records are not a list: run kiln survey again"
            )))
            }
        };
        for one in &inner {
            record::check(name, one).map_err(Error::new)?;
        }
        let mut records = vec![document];
        records.extend(inner);
        Ok(Side {
            name: name.to_string(),
            records,
        })
    }

    /// Returns the side in the JSON form that a page stores.
    pub(crate) fn to_value(&self) -> Value {
        json!({"name": self.name, "records": self.records})
    }

    /// Returns the machine, commit and compiler of the side's records.
    pub(crate) fn origin(&self) -> Origin {
        self.records.first().map(record::origin).unwrap_or_default()
    }
}

fn read_text(path: &Path) -> Result<String, Error> {
    let shown = path.display();
    let fault = |why: String| {
        Error::new(format!(
            "cannot read '{shown}': {why}: name a record that --json or --out wrote"
        ))
    };
    let file = File::open(path).map_err(|e| match e.kind() {
        ErrorKind::PermissionDenied => Error::new(format!(
            "cannot read '{shown}': {e}: name a record that you may read"
        )),
        _ => fault(e.to_string()),
    })?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| fault(e.to_string()))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(fault(format!("it has more than {} MB", MOST_BYTES >> 20)));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Error::new(format!(
            "cannot read '{shown}': it is UTF-16, not UTF-8: convert it with 'iconv -f UTF-16 -t UTF-8'"
        )));
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(Error::new(format!(
            "cannot read '{shown}': it is compressed by gzip: decompress it with 'gunzip -k'"
        )));
    }
    let text =
        String::from_utf8(bytes).map_err(|_| fault("it is not text in UTF-8".to_string()))?;
    // Remove the byte-order mark that some editors and shells write at the start of a text file.
    Ok(text.trim_start_matches('\u{feff}').to_string())
}

/// Reads all records in a directory and creates one side per machine, commit and compiler. A record
/// that is also part of a bundle is used only once.
fn read_directory(dir: &Path) -> Result<Vec<Side>, Error> {
    let shown = dir.display();
    let listed = fs::read_dir(dir).map_err(|e| {
        Error::new(format!(
            "cannot read '{shown}': {e}: name a directory that --out wrote"
        ))
    })?;
    let mut files: Vec<PathBuf> = listed
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "json") && p.is_file())
        .collect();
    files.sort();
    let mut seen: HashSet<String> = HashSet::new();
    let mut sides: Vec<(Origin, Side)> = Vec::new();
    for file in &files {
        let text = read_text(file)?;
        for record in Side::parse(&file.display().to_string(), &text)?.records {
            if !seen.insert(record.to_string()) {
                continue;
            }
            let origin = record::origin(&record);
            match sides.iter_mut().find(|(other, _)| *other == origin) {
                Some((_, side)) => side.records.push(record),
                None => {
                    let side = Side {
                        name: shown.to_string(),
                        records: vec![record],
                    };
                    sides.push((origin, side));
                }
            }
        }
    }
    if sides.is_empty() {
        return Err(Error::new(format!(
            "no record in '{shown}': name a directory that --out wrote"
        )));
    }
    let origins: Vec<Origin> = sides.iter().map(|(origin, _)| origin.clone()).collect();
    let mut sides: Vec<Side> = sides.into_iter().map(|(_, side)| side).collect();
    if let [_, _, ..] = &origins[..] {
        for (side, origin) in sides.iter_mut().zip(&origins) {
            let differing = differing(origin, &origins).join(", ");
            side.name = format!("{shown}/{}", differing.replace('/', "_"));
        }
    }
    Ok(sides)
}

/// Returns those parts of `origin` that are not the same for all origins in a report.
pub(crate) fn differing<'a>(origin: &'a Origin, all: &[Origin]) -> Vec<&'a str> {
    let parts: [fn(&Origin) -> &str; 3] = [|o| &o.machine, |o| &o.commit, |o| &o.compiler];
    let differ = |part: &&fn(&Origin) -> &str| all.iter().any(|o| part(o) != part(&all[0]));
    let own = parts.iter().filter(differ).map(|part| part(origin));
    own.map(|text| if text.is_empty() { "unknown" } else { text })
        .collect()
}

/// Reads the sides that a report page was made from.
fn read_page(name: &str, text: &str) -> Result<Vec<Side>, Error> {
    let fault = |why: &str| {
        Error::new(format!(
            "'{name}' is not a report of Kiln's: {why}: name a page that kiln report wrote"
        ))
    };
    let cut = || {
        Error::new(format!(
            "'{name}' is a report of Kiln's that is cut off: copy it again"
        ))
    };
    let is_cut = text.contains(GENERATOR) && !text.contains("</html>");
    let begin = text.find(EMBEDDED).ok_or_else(|| match is_cut {
        true => cut(),
        false => fault("it holds no records"),
    })?;
    let rest = &text[begin + EMBEDDED.len()..];
    let end = rest.find("</script>").ok_or_else(cut)?;
    let mut document: Value =
        serde_json::from_str(&rest[..end]).map_err(|e| fault(&e.to_string()))?;
    record::clean(&mut document);
    let sides = document.get("sides").and_then(Value::as_array);
    let sides = sides.ok_or_else(|| fault("it holds no records"))?;
    let mut found = Vec::new();
    for side in sides {
        let called = side.get("name").and_then(Value::as_str).unwrap_or(name);
        let records = side.get("records").and_then(Value::as_array);
        let records = records.ok_or_else(|| fault("a side has no records"))?;
        for one in records {
            record::check(name, one).map_err(Error::new)?;
        }
        found.push(Side {
            name: called.to_string(),
            records: records.clone(),
        });
    }
    match found.iter().any(|s| !s.records.is_empty()) {
        true => Ok(found),
        false => Err(fault("its records were too large for it")),
    }
}

/// Formats the records in the form in which a page stores them, escaped so that the text cannot end
/// the script element.
pub(crate) fn embedded(sides: &[Side]) -> String {
    let all: Vec<Value> = sides.iter().map(Side::to_value).collect();
    format!("{EMBEDDED}{}</script>", escaped(&json!({ "sides": all })))
}

/// Formats JSON and escapes angle brackets.
pub(crate) fn escaped(document: &Value) -> String {
    let text = document.to_string();
    text.replace('<', "\\u003c").replace('>', "\\u003e")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather;

    fn record(command: &str, model: &str) -> Value {
        json!({"kiln": "1", "schema": 1, "command": command, "args": [command], "seed": 1,
               "machine": {"model": model, "kernel": "6"}, "rows": [{"alg": "a"}], "notes": []})
    }

    fn side(name: &str, command: &str, model: &str) -> Side {
        Side::new(name, record(command, model)).unwrap()
    }

    #[test]
    fn a_bundle_is_all_its_records() {
        let mut bundle = record("survey", "m");
        bundle["records"] = json!([record("speed", "m"), record("fpu", "m")]);
        let side = Side::parse("s", &bundle.to_string()).unwrap();
        let commands: Vec<&str> = side.records.iter().map(record::command).collect();
        assert_eq!(commands, ["survey", "speed", "fpu"]);
        assert!(side.records[0].get("records").is_none());
        bundle["records"][1]["schema"] = json!(9);
        let e = Side::parse("s", &bundle.to_string()).unwrap_err();
        assert!(e.to_string().contains("schema 9"), "{e}");
        bundle["records"] = json!({});
        assert!(Side::parse("s", &bundle.to_string()).is_err());
    }

    #[test]
    fn commands_of_one_machine_are_one_side() {
        let names = |found: Vec<Side>| -> Vec<(String, usize)> {
            let sides = gather(found);
            sides
                .into_iter()
                .map(|s| (s.name, s.records.len()))
                .collect()
        };
        assert_eq!(
            names(vec![
                side("d/speed.json", "speed", "m"),
                side("d/fpu.json", "fpu", "m")
            ]),
            [("d".to_string(), 2)]
        );
        assert_eq!(
            names(vec![
                side("a/speed.json", "speed", "m"),
                side("b/speed.json", "speed", "m")
            ]),
            [("a".to_string(), 1), ("b".to_string(), 1)]
        );
        assert_eq!(
            names(vec![
                side("x.json", "speed", "m"),
                side("y.json", "fpu", "n")
            ]),
            [("x".to_string(), 1), ("y".to_string(), 1)]
        );
        assert_eq!(
            names(vec![
                side("x.json", "speed", "m"),
                side("x.json", "speed", "m")
            ]),
            [("x".to_string(), 1), ("x (2)".to_string(), 1)]
        );
    }

    #[test]
    fn a_page_gives_its_records_back() {
        let mut hostile = side("</script><b>", "speed", "m");
        hostile.records[0]["rows"][0]["alg"] = json!("</script><script>alert(1)</script><!--");
        let page = format!("<!DOCTYPE html>{}", embedded(&[hostile.clone()]));
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(!page.contains("<!--"));
        assert_eq!(read_page("p", &page).unwrap(), [hostile]);
        for (text, why) in [
            ("<html></html>".to_string(), "holds no records"),
            (format!("<html><meta {GENERATOR}1\">"), "is cut off: copy"),
            (
                format!("<html><meta {GENERATOR}1\"></html>"),
                "holds no records",
            ),
            (page.replace("</script>", ""), "cut off"),
            (format!("{EMBEDDED}{{}}</script>"), "holds no records"),
            (format!("{EMBEDDED}{{</script>"), "not a report"),
        ] {
            let e = read_page("p", &text).unwrap_err();
            assert!(e.to_string().contains(why), "{e}");
        }
    }

    #[test]
    fn files_that_are_none_are_told_in_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("r.json");
        for (bytes, why) in [
            (&b"{"[..], "ends in the middle of a record"),
            (b"", "is empty"),
            (b"[]", "not a JSON object"),
            (b"{\xff", "not text"),
            (b"\x1f\x8b\x08", "'gunzip -k'"),
            (
                b"{\n<<<<<<< HEAD\n\"a\": 1\n",
                "line 2 is a conflict marker",
            ),
            (b"{\n\"a\": <<<\n", "is not a record"),
            (b"\xff\xfe{\0", "it is UTF-16"),
            (b"{\"context\": {}, \"benchmarks\": []}", "an array 'rows'"),
        ] {
            fs::write(&file, bytes).unwrap();
            let e = Side::read(&file).unwrap_err().to_string();
            assert!(e.contains(why) && !e.contains('\n'), "{e}");
        }
        let e = Side::read(&dir.path().join("none")).unwrap_err();
        assert!(e.to_string().contains("cannot read"), "{e}");
        let e = Side::read(Path::new("/dev/zero")).unwrap_err();
        assert!(e.to_string().contains("more than 64 MB"), "{e}");
        fs::remove_file(&file).unwrap();
        let e = Side::read(dir.path()).unwrap_err();
        assert!(e.to_string().contains("no record in"), "{e}");
    }

    #[test]
    fn a_bundle_beside_its_parts_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut bundle = record("survey", "m");
        bundle["records"] = json!([record("speed", "m")]);
        let write =
            |name: &str, v: &Value| fs::write(dir.path().join(name), v.to_string()).unwrap();
        write("survey.json", &bundle);
        write("speed.json", &record("speed", "m"));
        let sides = Side::read(dir.path()).unwrap();
        assert_eq!(sides[0].records.len(), 2);
    }
}
