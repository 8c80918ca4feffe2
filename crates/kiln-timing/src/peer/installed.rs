//! Libraries that `kiln libraries install` has put into Kiln's cache:
//! `kiln/libraries/NAME-VERSION/FILE`.
//!
//! A directory gets its final name only after the library in it is complete, so every directory
//! whose name has the form `NAME-VERSION` is usable.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

/// A library in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installed {
    pub version: String,
    pub dir: PathBuf,
    /// Path of the shared object.
    pub file: PathBuf,
}

/// Returns the cache directory, which contains one subdirectory per installed library, or `None` if
/// the directory cannot be determined.
pub fn directory() -> Option<PathBuf> {
    Some(kiln_tree::root().ok()?.join("kiln/libraries"))
}

/// Returns the installed versions of a library, newest first. `file` is the name of the library's
/// shared object.
pub(crate) fn find_installed(all: &Path, name: &str, file: &str) -> Vec<Installed> {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    let mut found: Vec<Installed> = entries
        .filter_map(|entry| {
            let dir = entry.path();
            let version = entry
                .file_name()
                .to_str()?
                .strip_prefix(name)?
                .strip_prefix('-')?
                .to_string();
            let file = dir.join(file);
            // The rest of the name must be a version: openssl-4.0.3 is accepted, openssl-fips-1.0
            // is not.
            let usable = version.starts_with(|c: char| c.is_ascii_digit()) && file.is_file();
            usable.then_some(Installed { version, dir, file })
        })
        .collect();
    found.sort_by(|a, b| compare_versions(&b.version, &a.version));
    found
}

/// Compares versions by the numbers in them, and by their text if the numbers are equal: 3.0.19
/// precedes 3.0.20, and 1.1.1t precedes 1.1.1w.
pub(crate) fn compare_versions(a: &str, b: &str) -> Ordering {
    let numbers = |s: &str| -> Vec<u64> {
        s.split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_complete_one_comes_first() {
        let all = tempfile::tempdir().unwrap();
        for (dir, file) in [
            ("openssl-4.0.3", "libcrypto.so"),
            ("openssl-4.0.10", "libcrypto.so"),
            ("openssl-3.6.1", "libcrypto.so"),
            // These directories must be ignored: one has an incomplete file, one belongs to another
            // library, and one was left behind by an interrupted build.
            ("openssl-9.0.0", "libcrypto.so.part"),
            ("openssl-fips-9.0", "libcrypto.so"),
            (".new-openssl-9", "libcrypto.so"),
        ] {
            fs::create_dir(all.path().join(dir)).unwrap();
            fs::write(all.path().join(dir).join(file), "").unwrap();
        }
        let found = find_installed(all.path(), "openssl", "libcrypto.so");
        let versions: Vec<&str> = found.iter().map(|i| i.version.as_str()).collect();
        assert_eq!(versions, ["4.0.10", "4.0.3", "3.6.1"]);
        assert_eq!(find_installed(&all.path().join("x"), "openssl", "y"), []);
    }

    #[test]
    fn versions_are_ordered_by_number() {
        for (less, more) in [
            ("3.0.19", "3.0.20"),
            ("3.9", "3.10"),
            ("1.1.1t", "1.1.1w"),
            ("1.12.4", "2"),
            ("3.6.5", "4.0.0"),
        ] {
            assert_eq!(compare_versions(less, more), Ordering::Less);
            assert_eq!(compare_versions(more, less), Ordering::Greater);
        }
        assert_eq!(compare_versions("3.0", "3.0"), Ordering::Equal);
    }
}
