//! Text files embedded in a program: a table of `include_str!` that a build script writes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{walk, Error};

/// The files to embed, by their names in the program.
#[derive(Debug, Default)]
pub struct Embedded(BTreeMap<String, PathBuf>);

impl Embedded {
    /// Adds one file. Its path must be absolute, since the table is included from another
    /// directory.
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
