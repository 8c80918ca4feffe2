//! Handles trees that were configured or built in their source directory. The kernel's build system
//! refuses to build such a tree into another directory, so Kiln creates a directory with links to
//! the source files only.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::{git, Error};

/// Files whose presence makes the kernel's build system reject an out-of-tree build.
const TRACES: [&str; 4] = [
    ".config",
    "include/config",
    "arch/x86/include/generated",
    "arch/um/include/generated",
];

/// Classifies a tree by the build products in it. The kind determines how Kiln lists the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The tree contains no build products.
    Clean,
    /// The tree's only build product is a `.config`.
    Configured,
    /// The tree is a git checkout, whose index lists the sources.
    Git,
}

/// Determines the tree's kind. Fails if the tree contains build products other than a `.config` but
/// is not a git checkout. The error is the path of one of these build products.
pub(crate) fn kind(tree: &Path) -> Result<Kind, &'static str> {
    let mut traces = TRACES.into_iter().filter(|t| tree.join(t).exists());
    match (traces.next(), traces.next()) {
        (None, _) => Ok(Kind::Clean),
        (Some(".config"), None) => Ok(Kind::Configured),
        _ if listed(tree).is_some() => Ok(Kind::Git),
        (Some(_), Some(trace)) | (Some(trace), None) => Err(trace),
    }
}

/// Returns the directory to build from: either the tree itself, or a directory with links to its
/// sources.
pub(crate) fn source(tree: &Path, kind: Kind, cache: &Path) -> Result<PathBuf, Error> {
    let names = match kind {
        Kind::Clean => return Ok(tree.to_owned()),
        Kind::Configured => top(tree)?,
        Kind::Git => listed(tree).ok_or_else(|| Error::NotListed(tree.to_owned()))?,
    };
    let (farm, list) = (cache.join("source"), cache.join("sources"));
    if farm.is_dir() && fs::read(&list).is_ok_and(|old| old == names) {
        return Ok(farm);
    }
    let _ = fs::remove_file(&list);
    if farm.exists() {
        fs::remove_dir_all(&farm).map_err(|e| Error::cache(&farm, e))?;
    }
    fs::create_dir_all(&farm).map_err(|e| Error::cache(&farm, e))?;
    let mut parent = PathBuf::new();
    for name in names.split(|b| *b == 0).filter(|n| !n.is_empty()) {
        let name = Path::new(OsStr::from_bytes(name));
        let (from, to) = (tree.join(name), farm.join(name));
        // Skip files that were deleted from the work tree but are still in the index.
        if from.symlink_metadata().is_err() {
            continue;
        }
        if let Some(dir) = to.parent().filter(|dir| *dir != parent) {
            fs::create_dir_all(dir).map_err(|e| Error::cache(dir, e))?;
            parent = dir.to_owned();
        }
        symlink(&from, &to).map_err(|e| Error::cache(&to, e))?;
    }
    fs::write(&list, &names).map_err(|e| Error::cache(&list, e))?;
    Ok(farm)
}

/// Lists the names in the tree's top directory, except those that begin with `.config`.
fn top(tree: &Path) -> Result<Vec<u8>, Error> {
    let entries = fs::read_dir(tree).map_err(|e| Error::read(tree, e))?;
    let mut names: Vec<_> = entries
        .flatten()
        .map(|e| e.file_name())
        .filter(|name| !name.as_bytes().starts_with(b".config"))
        .collect();
    names.sort();
    let mut out = Vec::new();
    for name in names {
        out.extend_from_slice(name.as_bytes());
        out.push(0);
    }
    Ok(out)
}

/// Lists the files that git tracks, and untracked files that are not ignored; `None` if the
/// directory is not a checkout.
fn listed(tree: &Path) -> Option<Vec<u8>> {
    if !tree.join(".git").exists() {
        return None;
    }
    let output = git::command(tree)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .ok()?;
    (output.status.success() && !output.stdout.is_empty()).then_some(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        dir
    }

    fn built_from(dir: &Path, cache: &Path) -> PathBuf {
        source(dir, kind(dir).unwrap(), cache).unwrap()
    }

    #[test]
    fn a_configuration_in_the_way_is_hidden() {
        let dir = tree(&["Makefile", "lib/a.c", ".config"]);
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(kind(dir.path()), Ok(Kind::Configured));
        let farm = built_from(dir.path(), cache.path());
        assert!(!farm.join(".config").exists());
        assert_eq!(fs::read_to_string(farm.join("lib/a.c")).unwrap(), "lib/a.c");
        // A file added after the first call is linked too.
        fs::write(dir.path().join("Kbuild"), "").unwrap();
        assert!(built_from(dir.path(), cache.path()).join("Kbuild").exists());
    }

    #[test]
    fn a_checkout_that_was_built_in_shows_its_sources_only() {
        let dir = tree(&[
            "Makefile",
            "lib/a.c",
            "lib/a.o",
            "include/config/x",
            ".config",
        ]);
        assert_eq!(kind(dir.path()), Err("include/config"));
        fs::write(
            dir.path().join(".gitignore"),
            "*.o\n.config\ninclude/config/\n",
        )
        .unwrap();
        let git = |args: &[&str]| {
            let done = Command::new("git")
                .arg("-C")
                .arg(dir.path())
                .args(args)
                .output();
            assert!(done.unwrap().status.success(), "git {args:?}");
        };
        git(&["init", "-q"]);
        git(&["add", "."]);
        assert_eq!(kind(dir.path()), Ok(Kind::Git));
        let cache = tempfile::tempdir().unwrap();
        let farm = built_from(dir.path(), cache.path());
        assert!(farm.join("lib/a.c").exists() && !farm.join("lib/a.o").exists());
        assert!(!farm.join("include").exists());
        assert_eq!(built_from(dir.path(), cache.path()), farm);
    }

    #[test]
    fn a_clean_tree_is_built_from_as_it_is() {
        let dir = tree(&["Makefile"]);
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(built_from(dir.path(), cache.path()), dir.path());
    }
}
