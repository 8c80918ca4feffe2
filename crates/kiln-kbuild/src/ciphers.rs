//! Finds the ciphers in `kernel/ciphers` by their folders, and generates a header that lists them.

use std::fs;
use std::path::Path;

use crate::Error;

/// Path of the header that lists the ciphers, relative to the include path. The header has one line
/// `CIPHER(FOLDER)` per cipher.
pub const CIPHER_LIST: &str = "kiln/generated/ciphers.h";

/// Returns the names of the folders in `kernel/ciphers` that define a cipher, in sorted order. A
/// folder `NAME` defines a cipher if it contains a file `NAME.c`. That file contains the table
/// `NAME_impls`. Other folders contain code that several ciphers share.
///
/// # Errors
/// Fails if a directory cannot be read. A `kernel_dir` without `ciphers` is not an error; the
/// result is then empty.
pub fn cipher_folders(kernel_dir: &Path) -> Result<Vec<String>, Error> {
    let dir = kernel_dir.join("ciphers");
    let mut found = Vec::new();
    if !dir.is_dir() {
        return Ok(found);
    }
    for entry in fs::read_dir(&dir).map_err(|e| Error::io(&dir, e))? {
        let folder = entry.map_err(|e| Error::io(&dir, e))?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if folder.join(format!("{name}.c")).is_file() {
            found.push(name.into_owned());
        }
    }
    found.sort();
    Ok(found)
}

/// Generates the header [`CIPHER_LIST`].
///
/// # Errors
/// Fails if a directory cannot be read, as for [`cipher_folders`].
pub fn cipher_list(kernel_dir: &Path) -> Result<String, Error> {
    let folders = cipher_folders(kernel_dir)?;
    Ok(folders.iter().map(|f| format!("CIPHER({f})\n")).collect())
}
