//! Embeds text files in a program. A build script writes a file that contains a table of names and
//! `include_str!` expressions, and the program includes this file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{walk, Error};

/// Files to embed, each under the key that the program looks up.
#[derive(Debug, Default)]
pub struct Embedded(BTreeMap<String, PathBuf>);

impl Embedded {
    /// Adds one file. `path` must be absolute, because the table is included from another
    /// directory.
    pub fn add_file(&mut self, name: &str, path: &Path) {
        self.0.insert(name.to_owned(), path.to_owned());
    }

    /// Adds the files under `dir` that `wanted` accepts. The key of each file is `name` followed by
    /// the path below `dir`.
    ///
    /// # Errors
    /// Fails if a directory cannot be read.
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

    /// Writes the table to `file`, sorted by name, as an expression of type `&[(&str, &str)]`.
    ///
    /// # Errors
    /// Fails if `file` cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), Error> {
        let mut table = String::from("&[\n");
        for (name, path) in &self.0 {
            let _ = writeln!(table, "    ({name:?}, include_str!({path:?})),");
        }
        table.push_str("]\n");
        fs::write(file, table).map_err(|e| Error::io(file, e))
    }
}

/// Returns whether the file name has the extension of a C file, a C header or an assembly file.
pub fn is_source(path: &Path) -> bool {
    matches!(
        path.extension().and_then(|e| e.to_str()),
        Some("c" | "h" | "S")
    )
}
