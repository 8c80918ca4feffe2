//! Text files that a program carries: a table of `include_str!`, written by a build script.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{walk, Error};

/// Files to carry, by the names that they have in the program.
#[derive(Debug, Default)]
pub struct Embedded(BTreeMap<String, PathBuf>);

impl Embedded {
    /// Add one file. Its path must be absolute: the table is included from elsewhere.
    pub fn add_file(&mut self, name: &str, path: &Path) {
        self.0.insert(name.to_owned(), path.to_owned());
    }

    /// Add the files under `dir` that `wanted` accepts, with their paths below `dir` appended to `name`.
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

    /// Write the table, sorted by name: an expression of type `&[(&str, &str)]`.
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

/// Whether a file is C or assembly.
pub fn is_source(path: &Path) -> bool {
    matches!(
        path.extension().and_then(|e| e.to_str()),
        Some("c" | "h" | "S")
    )
}
