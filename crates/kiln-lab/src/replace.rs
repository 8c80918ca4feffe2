//! Files written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// Puts `bytes` at `path`, replacing what is there: written beside it, then renamed over it, so that nobody ever
/// sees half a file and a fault leaves the old one. What is not a regular file (a pipe, `/dev/null`) is written to
/// and stays what it is. A symbolic link's target is replaced, not the link; an old file's permissions are kept.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let fault = |e: io::Error| {
        Error::input(format!(
            "cannot write '{}': {e}: name a file in a directory you may write to",
            path.display()
        ))
    };
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(fault(io::Error::from(io::ErrorKind::IsADirectory))),
        Ok(meta) if !meta.is_file() => {
            let mut there = OpenOptions::new().write(true).open(path).map_err(fault)?;
            there.write_all(bytes).map_err(fault)
        }
        Ok(meta) => {
            let target = fs::canonicalize(path).map_err(fault)?;
            rename_over(&target, bytes, Some(meta.permissions())).map_err(fault)
        }
        Err(_) => rename_over(path, bytes, None).map_err(fault),
    }
}

fn rename_over(path: &Path, bytes: &[u8], permissions: Option<fs::Permissions>) -> io::Result<()> {
    let (beside, mut file) = create_beside(path)?;
    let written = (|| {
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A new file in `path`'s directory, of a name nobody has.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    for n in 0..100 {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".kiln-{}-{n}", std::process::id()));
        let beside = path.with_file_name(hidden);
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&beside)
        {
            Ok(file) => return Ok((beside, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt};

    #[test]
    fn replaces_whole_files_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write(&path, b"one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o640
        );
        let link = dir.path().join("l");
        symlink(&path, &link).unwrap();
        write(&link, b"three").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn devices_stay_and_directories_are_refused() {
        write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let dir = tempfile::tempdir().unwrap();
        let e = write(dir.path(), b"x").unwrap_err();
        assert_eq!(e.exit_code(), 2);
        let e = write(&dir.path().join("no/file"), b"x").unwrap_err();
        assert!(e.to_string().starts_with("cannot write '"), "{e}");
    }
}
