//! Writes files atomically.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::Builder;

use crate::Error;

/// Writes `bytes` to `path`, replacing an existing file. The bytes are first written to a temporary
/// file in the same directory, which is then renamed to `path`, so that other processes never see a
/// partial file and an error leaves the old file unchanged. Pipes, devices and other special files
/// are written directly. If `path` is a symbolic link, the file that it points to is replaced. An
/// existing file's permissions are kept.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let fault = |e: io::Error| {
        let why = e.to_string();
        // Remove the name of the temporary file, which the crate tempfile adds to its errors.
        let why = why.split(" at path ").next().unwrap_or_default();
        Error::input(format!(
            "cannot write '{}': {why}: name a file in a directory you may write to",
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

fn rename_over(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    // Request the usual permissions for a new file, because a temporary file has stricter ones by
    // default.
    let usual = Permissions::from_mode(0o666);
    let mut file = Builder::new()
        .prefix(".kiln-")
        .permissions(usual)
        .tempfile_in(dir.unwrap_or(Path::new(".")))?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn replaces_whole_files_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write(&path, b"one").unwrap();
        let plain = dir.path().join("plain");
        fs::write(&plain, b"").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), mode(&plain));
        fs::remove_file(&plain).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(mode(&path), 0o640);
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
