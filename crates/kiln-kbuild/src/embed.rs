//! Embeds text files in a program, with a table of `include_str!` that a build script writes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{walk, Error};

/// Files to embed. Each key is the name by which the program finds the file.
#[derive(Debug, Default)]
pub struct Embedded(BTreeMap<String, PathBuf>);

impl Embedded {
    /// Adds one file. The path must be absolute, because the table is included from another
    /// directory.
    pub fn add_file(&mut self, name: &str, path: &Path) {
        self.0.insert(name.to_owned(), path.to_owned());
    }

    /// Adds the files under `dir` that `wanted` accepts. Their names are `name` followed by their
    /// paths below `dir`.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn add_files(
        &mut self,
        name: &str,
        dir: &Path,
        wanted: fn(&Path) -> bool,
    ) -> Result<(), Error> {
        walk(dir, &mut |path| {
            if wanted(path) {
                let below = path.strip_prefix(dir).unwrap_or(path);
                let name = Path::new(name).join(below);
                self.0
                    .insert(name.to_string_lossy().into_owned(), path.to_owned());
            }
        })
    }

    /// Writes the table, sorted by name, as an expression of type `&[(&str, &str)]`.
    ///
    /// # Errors
    /// `file` cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), Error> {
        let mut table = String::from("&[\n");
        for (name, path) in &self.0 {
            let _ = writeln!(table, "    ({name:?}, include_str!({path:?})),");
        }
        table.push_str("]\n");
        fs::write(file, table).map_err(|e| Error::io(file, e))
    }
}

/// Whether the path's extension is that of a C or assembly source.
pub fn is_source(path: &Path) -> bool {
    matches!(
        path.extension().and_then(|e| e.to_str()),
        Some("c" | "h" | "S")
    )
}
