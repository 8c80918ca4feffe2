//! Finds and validates kernel source trees.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::git::{Commit, Repository};
use crate::revision::{check_out, Checkout, Extent};
use crate::{farm, Error};

/// A Linux version: `VERSION`, `PATCHLEVEL`, `SUBLEVEL` and `EXTRAVERSION` in a tree's Makefile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// First number, such as 6.
    pub version: u32,
    /// Second number, such as 12.
    pub patchlevel: u32,
    /// Third number, such as 57.
    pub sublevel: u32,
    /// Suffix, such as `-rc3`, or empty.
    pub extra: String,
}

impl Version {
    /// Parses a tree's Makefile. Returns `None` if it is not the Makefile of a kernel.
    pub fn parse(makefile: &str) -> Option<Version> {
        let value = |name: &str| {
            makefile.lines().take(40).find_map(|line| {
                let (key, value) = line.split_once('=')?;
                (key.trim() == name).then(|| value.trim().to_string())
            })
        };
        Some(Version {
            version: value("VERSION")?.parse().ok()?,
            patchlevel: value("PATCHLEVEL")?.parse().ok()?,
            sublevel: value("SUBLEVEL").and_then(|v| v.parse().ok()).unwrap_or(0),
            extra: value("EXTRAVERSION").unwrap_or_default(),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version {
            version,
            patchlevel,
            sublevel,
            extra,
        } = self;
        write!(f, "{version}.{patchlevel}.{sublevel}{extra}")
    }
}

/// A kernel source tree. Kiln does not write to it.
#[derive(Debug, Clone)]
pub struct Source {
    /// The tree's absolute path.
    pub dir: PathBuf,
    pub version: Version,
    /// How to distinguish the tree's sources from the build products among them.
    pub(crate) kind: farm::Kind,
    /// The checkout in Kiln's cache, if the tree is a git revision. The checkout is not removed
    /// while this value exists.
    pub(crate) checkout: Option<Arc<Checkout>>,
}

/// Where a tree is located: in a directory, or in a git repository.
enum Place {
    Directory(PathBuf),
    Revision(Repository, Commit),
}

impl Place {
    /// Resolves a name, which is either a directory or a git revision. A revision is written as
    /// `DIR@REV`, or as `REV` alone if the current directory is in the repository.
    fn find(name: &Path) -> Result<Place, Error> {
        let not = |why: String| Error::NotATree {
            dir: name.to_owned(),
            why,
        };
        match fs::metadata(name) {
            Ok(_) => return Ok(Place::Directory(name.to_owned())),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                return Err(not(e.to_string()))
            }
            Err(_) => {}
        }
        if name.starts_with("~") {
            return Err(not(
                "the shell expands ~ only at the start of a word, so write $HOME".to_owned(),
            ));
        }
        let (dir, revision) = split_name(name);
        let repository = match Repository::find(dir) {
            Ok(found) => found,
            Err(Error::Tool { .. }) => {
                return Err(not(
                    "no such directory; git, which would know whether it is a revision, is not installed: \
                     apt-get install git"
                        .to_owned(),
                ))
            }
            Err(e) => return Err(e),
        };
        let shown = match dir == Path::new(".") {
            true => "the current directory".to_owned(),
            false => format!("'{}'", dir.display()),
        };
        let Some(repository) = repository else {
            return Err(not(format!(
                "no such directory, and {shown} is not in a git repository in which to look for a revision"
            )));
        };
        match repository.commit(revision)? {
            Some(commit) => Ok(Place::Revision(repository, commit)),
            None => Err(not(format!(
                "no such directory, nor a revision that git knows in {shown}"
            ))),
        }
    }
}

/// Splits `DIR@REV` into the directory and the revision. A name without a directory, such as
/// `HEAD@{1}`, refers to the current repository.
fn split_name(name: &Path) -> (&Path, &OsStr) {
    let bytes = name.as_os_str().as_bytes();
    for (at, _) in bytes.iter().enumerate().filter(|(_, b)| **b == b'@') {
        let dir = Path::new(OsStr::from_bytes(&bytes[..at]));
        if dir.is_dir() {
            return (dir, OsStr::from_bytes(&bytes[at + 1..]));
        }
    }
    (Path::new("."), name.as_os_str())
}

/// Returns whether a name refers to a git revision. Returns false if there is a file with this
/// name, or if git cannot resolve the name.
pub fn is_revision(name: &Path) -> bool {
    matches!(Place::find(name), Ok(Place::Revision(..)))
}

impl Source {
    /// Opens a tree by name: either a directory, or a git revision, which is checked out into the
    /// cache.
    ///
    /// # Errors
    /// The same errors as [`Source::open`]. In addition, git may fail to resolve the revision, or
    /// the cache may be unusable.
    pub fn find(
        name: &Path,
        extent: Extent,
        progress: &dyn Fn(f64, &str),
    ) -> Result<Source, Error> {
        let (repository, commit) = match Place::find(name)? {
            Place::Directory(dir) => return Source::open(&dir),
            Place::Revision(repository, commit) => (repository, commit),
        };
        let top = repository.top().to_owned();
        let checkout = check_out(repository, commit, extent, progress)?;
        let not_a_tree = |e| match e {
            Error::NotATree { why, .. } => Error::NotATreeCommit {
                revision: name.to_owned(),
                repository: top,
                why,
            },
            Error::Incomplete { version, lacks, .. } => Error::Incomplete {
                dir: name.to_owned(),
                version,
                lacks,
            },
            other => other,
        };
        let mut source = Source::open(&checkout.source()).map_err(not_a_tree)?;
        source.checkout = Some(Arc::new(checkout));
        Ok(source)
    }

    /// Returns a title to show to users: the version and, for a revision, the commit.
    pub fn title(&self) -> String {
        match self.commit() {
            Some(commit) => format!(
                "Linux {}, commit {} (\"{}\")",
                self.version,
                commit.short(),
                commit.subject
            ),
            None => format!("Linux {}", self.version),
        }
    }

    /// Like [`Source::title`], except that for a directory in a git repository, the title also
    /// contains the commit that is checked out, and whether the files differ from that commit.
    pub fn title_by_git(&self) -> String {
        let head = || {
            let repository = Repository::find(&self.dir).ok()??;
            let commit = repository.commit(OsStr::new("HEAD")).ok()??;
            let edited = !repository.changed(&commit, None).ok()?.is_empty();
            Some((commit, edited))
        };
        match self.checkout.is_none().then(head).flatten() {
            Some((commit, edited)) => format!(
                "Linux {}, commit {} (\"{}\"){}",
                self.version,
                commit.short(),
                commit.subject,
                if edited { ", edited" } else { "" }
            ),
            None => self.title(),
        }
    }

    /// Returns the commit that was checked out, if the tree is a git revision.
    pub fn commit(&self) -> Option<&Commit> {
        self.checkout.as_ref().map(|checkout| &checkout.commit)
    }

    /// Opens the tree in this directory.
    ///
    /// # Errors
    /// Fails if the directory is not a kernel tree, if the tree has no x86 code, or if the tree was
    /// built in place and has no git index to distinguish sources from build products.
    pub fn open(dir: &Path) -> Result<Source, Error> {
        let shown = dir.to_owned();
        let not = |why: &str| Error::NotATree {
            dir: shown.clone(),
            why: why.to_owned(),
        };
        let dir = fs::canonicalize(dir).map_err(|e| not(&e.to_string()))?;
        if !dir.is_dir() {
            return Err(not("not a directory"));
        }
        let makefile = fs::read(dir.join("Makefile")).map_err(|_| not("no Makefile"))?;
        let version = Version::parse(&String::from_utf8_lossy(&makefile))
            .ok_or_else(|| not("its Makefile names no VERSION and PATCHLEVEL"))?;
        if !dir.join("Kbuild").is_file() {
            return Err(not("no Kbuild file"));
        }
        let lacks = "arch/x86/crypto";
        if !dir.join(lacks).is_dir() {
            let version = version.to_string();
            return Err(Error::Incomplete {
                dir: shown,
                version,
                lacks,
            });
        }
        let kind = farm::kind(&dir).map_err(|trace| Error::BuiltInPlace {
            dir: shown.clone(),
            trace,
        })?;
        // Reject paths that the kernel's Makefile does not support as source or output directories.
        let path = dir.to_string_lossy();
        if path.contains([' ', ':', '\n']) {
            return Err(Error::UnusablePath(shown));
        }
        Ok(Source {
            dir,
            version,
            kind,
            checkout: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiny::Tiny;

    const HEAD: &str =
        "# SPDX-License-Identifier: GPL-2.0\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 57\n\
                        EXTRAVERSION = -rc1\nNAME = Anything\n";

    fn tree(makefile: &str, dirs: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("Makefile"), makefile).unwrap();
        fs::write(dir.path().join("Kbuild"), "").unwrap();
        for d in dirs {
            fs::create_dir_all(dir.path().join(d)).unwrap();
        }
        dir
    }

    fn refusal(dir: &Path) -> String {
        let line = Source::open(dir).unwrap_err().to_string();
        assert_eq!(line.lines().count(), 1, "{line}");
        line
    }

    #[test]
    fn versions_are_read_from_the_makefile() {
        assert_eq!(Version::parse(HEAD).unwrap().to_string(), "6.12.57-rc1");
        let old = Version::parse("VERSION = 6\nPATCHLEVEL = 6\nEXTRAVERSION =\n").unwrap();
        assert_eq!(old.to_string(), "6.6.0");
        assert_eq!(Version::parse("all:\n\tcc a.c\n"), None);
        assert_eq!(Version::parse("VERSION = 1.2\nPATCHLEVEL = x\n"), None);
    }

    #[test]
    fn a_tree_is_recognised() {
        let dir = tree(HEAD, &["arch/x86/crypto"]);
        let source = Source::open(dir.path()).unwrap();
        assert_eq!(source.version.patchlevel, 12);
        assert!(source.dir.is_absolute());
    }

    #[test]
    fn what_is_no_tree_is_refused_in_one_line() {
        let none = tempfile::tempdir().unwrap();
        assert!(refusal(none.path()).contains("no Makefile"));
        assert!(refusal(&none.path().join("x")).contains("not a Linux source tree"));
        assert!(refusal(tree("all:\n", &[]).path()).contains("VERSION"));
        let arm = tree(HEAD, &["arch/arm64/crypto"]);
        assert!(refusal(arm.path()).contains("arch/x86"));
        let built = tree(HEAD, &["arch/x86/crypto", "include/config"]);
        assert!(refusal(built.path()).contains("mrproper"));
    }

    #[test]
    fn a_name_is_a_directory_or_else_a_revision() {
        let tiny = Tiny::new();
        tiny.git(&["tag", "v1"]);
        let shown = tiny.path().to_str().unwrap();
        let find = |name: &str| Place::find(Path::new(name));
        let commit = |name: &str| match find(name) {
            Ok(Place::Revision(_, commit)) => commit.id,
            _ => panic!("{name}"),
        };
        let head = tiny.git(&["rev-parse", "HEAD"]);
        for revision in ["HEAD", "v1", "main", &head[..9], "HEAD@{0}", ":/first"] {
            assert_eq!(commit(&format!("{shown}@{revision}")), head, "{revision}");
        }
        // The directory before `@` may also be a subdirectory of the tree.
        assert_eq!(commit(&format!("{shown}/lib@HEAD")), head);
        for wrong in ["HEAD~1", "", "-x", "--all", "v1:Makefile", "main:lib"] {
            let e = find(&format!("{shown}@{wrong}")).err().unwrap().to_string();
            assert!(e.contains("git knows"), "{e}");
        }
        // The shell leaves ~ unchanged in `--tree=~/linux`, for example.
        let e = find("~/no-such-tree").err().unwrap().to_string();
        assert!(e.contains("write $HOME"), "{e}");
        // A name does not refer to a revision if there is a file with this name.
        let clash = format!("{shown}@HEAD");
        assert!(is_revision(Path::new(&clash)));
        fs::create_dir(&clash).unwrap();
        assert!(!is_revision(Path::new(&clash)));
        fs::remove_dir(&clash).unwrap();
        let bare = tempfile::tempdir().unwrap();
        let name = format!("{}@HEAD", bare.path().display());
        let e = find(&name).err().unwrap().to_string();
        assert!(e.contains("is not in a git repository"), "{e}");
    }

    #[test]
    fn changes_are_those_of_commits_edits_and_new_files() {
        let tiny = Tiny::new();
        tiny.write("lib/a.c", "second");
        tiny.commit("second");
        let found = Repository::find(tiny.path()).unwrap().unwrap();
        let commit = |name: &str| found.commit(name.as_ref()).unwrap().unwrap();
        let (first, second) = (commit("HEAD~1"), commit("HEAD"));
        let changed = |from: &Commit, to: Option<&Commit>| -> Vec<String> {
            let paths = found.changed(from, to).unwrap();
            paths.iter().map(|p| p.display().to_string()).collect()
        };
        assert_eq!(changed(&first, Some(&second)), ["lib/a.c"]);
        assert!(changed(&second, None).is_empty());
        tiny.write("lib/new.c", "x");
        tiny.write("ignored.o", "x");
        tiny.write(".gitignore", "*.o\n");
        fs::remove_file(tiny.path().join("Kbuild")).unwrap();
        let before = tiny.everything();
        assert_eq!(
            changed(&second, None),
            [".gitignore", "Kbuild", "lib/new.c"]
        );
        assert_eq!(
            changed(&first, None),
            [".gitignore", "Kbuild", "lib/a.c", "lib/new.c"]
        );
        assert_eq!(tiny.everything(), before);
    }
}
