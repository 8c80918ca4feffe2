//! Adds one of this machine's programs to an initramfs, together with the shared libraries that the
//! program needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::initramfs::Initramfs;
use crate::Error;

/// Returns the program's path, which is the same in the initramfs as on this machine.
///
/// # Errors
/// Fails if the program does not exist.
pub fn path(name: &str) -> Result<String, Error> {
    find(name).and_then(|path| Ok(format!("/{}", inside(&path)?)))
}

/// Adds a program and its libraries to the archive.
///
/// # Errors
/// Fails if the program does not exist, or is a script, which Linux cannot execute without an
/// interpreter.
pub fn add(archive: &mut Initramfs, name: &str) -> Result<(), Error> {
    let path = find(name)?;
    let bytes = read(&path)?;
    if !bytes.starts_with(b"\x7fELF") {
        return Err(Error::NotElf(path));
    }
    for library in libraries(&path)? {
        archive.file(inside(&library)?, &read(&library)?);
    }
    archive.file(inside(&path)?, &bytes);
    Ok(())
}

/// Finds a program in PATH, as a shell does.
fn find(name: &str) -> Result<PathBuf, Error> {
    kiln_kbuild::which(name)
        .and_then(|path| fs::canonicalize(path).ok())
        .ok_or_else(|| Error::NoProgram(name.to_owned()))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|e| Error::read(path, e))
}

fn inside(path: &Path) -> Result<&str, Error> {
    path.to_str()
        .and_then(|p| p.strip_prefix('/'))
        .ok_or_else(|| Error::NotText(path.to_owned()))
}

/// Returns the paths of the libraries that ldd(1) lists; empty for a static program.
fn libraries(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let output = Command::new("ldd")
        .arg(path)
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| kiln_tree::Error::tool("cannot run ldd", "libc-bin", e))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if let Some(line) = said.lines().find(|l| l.contains("not found")) {
        return Err(Error::Libraries {
            program: path.to_owned(),
            line: line.trim().to_owned(),
        });
    }
    Ok(paths(&said))
}

/// Parses lines in the formats `NAME => PATH (ADDRESS)` and `PATH (ADDRESS)`.
fn paths(said: &str) -> Vec<PathBuf> {
    said.lines()
        .filter_map(|line| line.trim().rsplit_once(" (")?.0.split(" => ").last())
        .filter(|path| path.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_of_ldd() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tnot a dynamic executable\n";
        let found = paths(said);
        assert_eq!(
            found,
            [
                Path::new("/lib/x/libc.so.6"),
                Path::new("/lib64/ld-linux-x86-64.so.2")
            ]
        );
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        for name in [
            script.to_str().unwrap(),
            "kiln-no-such-program",
            "/nonexistent/x",
        ] {
            let line = add(&mut Initramfs::new(), name).unwrap_err().to_string();
            assert_eq!(line.lines().count(), 1);
        }
    }
}
