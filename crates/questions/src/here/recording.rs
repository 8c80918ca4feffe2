//! Records a machine's files in a directory, which `kiln here --root` can judge on another machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path};

use kiln_question::Error;

use super::config::condense_config;
use super::files::{condense, Root, RELEASE, SOURCES};

/// Reads all files needed to judge a machine. The keys are paths relative to the root directory.
pub(super) fn read_files(root: &Root) -> BTreeMap<String, Vec<String>> {
    let mut files = BTreeMap::new();
    for source in SOURCES {
        for (path, lines) in root.all(source) {
            let lines = condense(&path, lines);
            if !lines.is_empty() {
                files.insert(path, lines);
            }
        }
    }
    let release = root.lines(&RELEASE).unwrap_or_default();
    let release = release.first().map_or("", String::as_str);
    if let Ok((_, lines)) = root.configuration(release) {
        // A recording stores the configuration uncompressed, at the path that Debian uses.
        let path = format!("boot/config-{release}");
        files.insert(path, condense_config(&lines.join("\n")));
    }
    files
}

/// Checks that a recording can be written to `dir`.
///
/// # Errors
/// Fails if the directory is not empty.
pub(crate) fn check_recording(dir: &Path) -> Result<(), Error> {
    match fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        true => Err(refuse(dir, "is not empty")),
        false => Ok(()),
    }
}

fn refuse(path: &Path, what: &str) -> Error {
    Error::input(format!(
        "'{}': {what}: name an empty or a new directory",
        path.display()
    ))
}

/// Writes files to `dir`, which must be empty. The keys of `files` are paths relative to `dir`.
/// Returns the number of bytes written.
///
/// # Errors
/// Fails if the directory is not empty or not writable, or if a path points outside the directory.
pub(crate) fn write_recording(
    dir: &Path,
    files: &BTreeMap<String, Vec<String>>,
) -> Result<usize, Error> {
    check_recording(dir)?;
    let mut bytes = 0;
    for (path, lines) in files {
        let below = Path::new(path);
        let plain = |c: Component| matches!(c, Component::Normal(_));
        if !below.components().all(plain) {
            return Err(refuse(below, "leads out of the recording"));
        }
        let path = dir.join(below);
        let text: String = lines.iter().flat_map(|l| [l.as_str(), "\n"]).collect();
        fs::create_dir_all(path.parent().unwrap_or(dir))
            .and_then(|()| fs::write(&path, &text))
            .map_err(|e| refuse(dir, &e.to_string()))?;
        bytes += text.len();
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_stays_in_its_directory_and_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let files = |path: &str| BTreeMap::from([(path.to_owned(), vec!["x".to_owned()])]);
        for path in ["../out", "/etc/x", "proc/../../x"] {
            let e = write_recording(&dir.path().join("a"), &files(path)).unwrap_err();
            assert_eq!(e.exit_code(), 2, "{path}");
        }
        assert_eq!(
            write_recording(dir.path(), &files("proc/version")).unwrap(),
            2
        );
        let e = write_recording(dir.path(), &files("proc/version")).unwrap_err();
        assert!(e.to_string().contains("is not empty"), "{e}");
        let below = dir.path().join("proc/version/machine");
        let e = write_recording(&below, &files("proc/version")).unwrap_err();
        let place = format!("'{}': ", below.display());
        assert!(e.to_string().starts_with(&place), "{e}");
    }

    #[test]
    fn a_recording_of_a_recording_is_the_same() {
        let from = super::super::tests::recorded("debian-6.12");
        let first = read_files(&Root::new(&from));
        let dir = tempfile::tempdir().unwrap();
        write_recording(dir.path(), &first).unwrap();
        assert_eq!(read_files(&Root::new(dir.path())), first);
        assert!(first.len() > 20, "{}", first.len());
    }
}
