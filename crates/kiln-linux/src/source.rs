//! Finds a kernel's sources: a tree that the user names, or Debian's source package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_tree::{root, Extent, Source};

use crate::Error;

/// Directory where Debian's `linux-source-*` packages install their archives.
const PACKAGES: &str = "/usr/src";

/// Returns the tree with this name. Without a name, unpacks the newest installed Debian package
/// `linux-source-*` into the cache and returns its tree.
///
/// # Errors
/// Fails if the name is neither a kernel tree nor a git revision of one.
pub fn find(name: Option<&Path>, progress: &dyn Fn(f64, &str)) -> Result<Source, Error> {
    match name {
        Some(name) => Ok(Source::find(name, Extent::Whole, progress)?),
        None => packaged(Path::new(PACKAGES), progress),
    }
}

fn packaged(packages: &Path, progress: &dyn Fn(f64, &str)) -> Result<Source, Error> {
    let entries = fs::read_dir(packages).into_iter().flatten().flatten();
    let newest = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((version(&name)?, entry.path()))
        })
        .max();
    let Some((version, archive)) = newest else {
        return Err(Error::NoSource(packages.to_owned()));
    };
    progress(0.0, "unpacking Debian's kernel source");
    Ok(Source::open(&unpacked(&archive, version)?)?)
}

/// Parses the version in a file name such as `linux-source-6.12.tar.xz`.
fn version(name: &str) -> Option<(u32, u32)> {
    let version = name
        .strip_prefix("linux-source-")?
        .strip_suffix(".tar.xz")?;
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the directory of an unpacked archive. The directory's name depends on the archive's size
/// and modification time, so that each version of the package has its own directory.
fn unpacked(archive: &Path, version: (u32, u32)) -> Result<PathBuf, Error> {
    let io = |e| Error::cache(archive, e);
    let meta = fs::metadata(archive).map_err(io)?;
    let time = meta.modified().map_err(io)?;
    let of = kiln_tree::hash(&[
        archive.as_os_str().as_encoded_bytes(),
        &meta.len().to_le_bytes(),
        format!("{time:?}").as_bytes(),
    ]);
    let places = root()?.join("kiln/linux/source");
    let tree = places.join(format!("linux-{}.{}-{of:016x}", version.0, version.1));
    if tree.join("Kbuild").is_file() {
        return Ok(tree);
    }
    // Unpack into a scratch directory, so that a partial tree never looks complete.
    fs::create_dir_all(&places).map_err(|e| Error::cache(&places, e))?;
    let half = kiln_tree::make_scratch(&places, "half.").map_err(|e| Error::cache(&places, e))?;
    let output = Command::new("tar")
        .args(["-x", "-J", "--strip-components", "1", "-C"])
        .arg(half.path())
        .arg("-f")
        .arg(archive)
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| kiln_tree::Error::tool("cannot run tar", "tar xz-utils", e))?;
    let done = match output.status.success() {
        true => fs::rename(half.path(), &tree).map_err(|e| Error::cache(&tree, e)),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let line = said.lines().next().unwrap_or("tar says nothing").to_owned();
            Err(Error::Unpack {
                archive: archive.to_owned(),
                place: places.to_owned(),
                line,
            })
        }
    };
    // The rename fails if another kiln process finished first. In that case, use its tree.
    match tree.join("Kbuild").is_file() {
        true => Ok(tree),
        false => done.map(|()| tree),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_told_by_their_names() {
        assert_eq!(version("linux-source-6.12.tar.xz"), Some((6, 12)));
        assert!(version("linux-source-6.12.tar.xz") > version("linux-source-6.1.tar.xz"));
        for other in [
            "linux-source-6.12",
            "linux-headers-6.12.tar.xz",
            "linux-source-6.tar.xz",
            "linux-source-a.b.tar.xz",
            "linux-source-6.99999999999.tar.xz",
        ] {
            assert_eq!(version(other), None, "{other}");
        }
    }

    #[test]
    fn no_source_is_told_with_the_remedy() {
        let empty = tempfile::tempdir().unwrap();
        for dir in [empty.path(), &empty.path().join("none")] {
            let line = packaged(dir, &|_, _| ()).unwrap_err().to_string();
            assert!(line.contains("apt-get install linux-source"), "{line}");
        }
    }

    #[test]
    fn an_archive_that_is_none_is_refused_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join("linux-source-6.12.tar.xz");
        fs::write(&archive, "no archive").unwrap();
        let line = unpacked(&archive, (6, 12)).unwrap_err().to_string();
        assert!(line.contains("linux-source-6.12.tar.xz"), "{line}");
        assert_eq!(line.lines().count(), 1);
    }
}
