//! The ciphers of `kernel/ciphers`, found by their folders.

use std::fs;
use std::path::Path;

use crate::Error;

/// The header that lists the ciphers, relative to the include path: one line `CIPHER(FOLDER)` per
/// cipher.
pub const CIPHER_LIST: &str = "kiln/generated/ciphers.h";

/// The folders of `kernel/ciphers` that are ciphers, sorted: `NAME` is one if it has a file `NAME.c`, which defines the
/// table `NAME_impls`. Other folders hold code that ciphers share.
///
/// # Errors
/// A directory cannot be read. It is not an error if `kernel_dir` has no `ciphers`; the result is then empty.
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

/// The text of [`CIPHER_LIST`].
///
/// # Errors
/// As [`cipher_folders`].
pub fn cipher_list(kernel_dir: &Path) -> Result<String, Error> {
    let folders = cipher_folders(kernel_dir)?;
    Ok(folders.iter().map(|f| format!("CIPHER({f})\n")).collect())
}
