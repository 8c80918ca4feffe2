//! Parses the records that Kbuild writes for the files that it builds, such as `.sha256.o.cmd`.

use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The record that Kbuild keeps about a built file.
pub(crate) struct Record {
    /// Path of the built file, relative to the build directory.
    pub owner: String,
    /// Source files that the file was built from.
    pub sources: HashSet<PathBuf>,
    /// Generated files that the file was built from.
    pub made: HashSet<String>,
}

/// Reads all records below a build directory.
pub(crate) fn read_records(objects: &Path, source: &Path) -> Vec<Record> {
    let mut records = Vec::new();
    let mut open = vec![objects.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = name.strip_prefix('.').and_then(|n| n.strip_suffix(".cmd"));
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                open.push(entry.path());
            } else if let Some(owner) = owner {
                let owner = dir.join(owner);
                let owner = owner.strip_prefix(objects).unwrap_or(&owner);
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                records.push(parse_record(&owner.to_string_lossy(), &text, source));
            }
        }
    }
    records
}

pub(crate) fn parse_record(owner: &str, text: &str, source: &Path) -> Record {
    let mut record = Record {
        owner: owner.to_owned(),
        sources: HashSet::new(),
        made: HashSet::new(),
    };
    for word in text.split(|c: char| c.is_whitespace() || "();'\"".contains(c)) {
        let path = Path::new(word);
        if let Ok(inside) = path.strip_prefix(source) {
            record.sources.insert(plain(inside));
        } else if word.contains('/') && !path.is_absolute() && !word.starts_with('-') {
            let path = plain(path);
            record.made.insert(path.to_string_lossy().into_owned());
        }
    }
    record
}

/// Resolves `.` and `..` in a path.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}
