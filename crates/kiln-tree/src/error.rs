//! The errors that this crate returns. Each has a one-line message for the user.

use std::ffi::NulError;
use std::io;
use std::path::{Path, PathBuf};

/// An error that occurred while building or running a tree. Variants without a comment are
/// explained by their messages.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user has no cache directory, because neither XDG_CACHE_HOME nor HOME is an absolute
    /// path.
    #[error("no place for a cache: set XDG_CACHE_HOME or HOME")]
    NoCache,
    /// A file in the cache cannot be read or written.
    #[error("{}", describe_cache_fault(path, source))]
    Cache { path: PathBuf, source: io::Error },
    /// A file in the tree cannot be read.
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A program cannot be run; `package` is the Debian package that contains it.
    #[error("{name}: {source}: apt-get install {package}")]
    Tool {
        name: String,
        package: String,
        source: io::Error,
    },
    /// Programs and headers that are missing, each with the name of the Debian package that
    /// contains it.
    #[error("building a kernel tree needs {}: apt-get install {}", list_tools(.0), list_packages(.0))]
    MissingTools(Vec<(&'static str, &'static str)>),
    /// The host cannot provide a process, pipe, timer or similar resource.
    #[error("{what}: {source}")]
    Host {
        what: &'static str,
        source: io::Error,
    },
    /// An emulated CPU cannot be booted: there is not enough memory, or the GS base cannot be set.
    #[error("{0}")]
    Cpu(#[source] io::Error),
    /// The host cannot reserve this much address space.
    #[error(
        "no {gib} GiB of address space for the tree: allow overcommit (sysctl vm.overcommit_memory=1), or raise \
         ulimit -v"
    )]
    AddressSpace { gib: usize },
    #[error("all FPU policy numbers are in use")]
    NoPolicy,
    /// The user's environment contains a variable that Kiln reserves for passing commands to its
    /// children.
    #[error("{0} is for kiln's own use: unset it")]
    Variable(&'static str),

    #[error("'{}' is not a Linux source tree ({why}): name the directory that holds its top Makefile, or a git revision", dir.display())]
    NotATree { dir: PathBuf, why: String },
    /// A git operation failed; `what` names the operation or the path, and `why` is the reason.
    #[error("git: {what}: {why}")]
    Git { what: String, why: String },
    /// A git revision does not contain a Linux source tree.
    #[error(
        "'{}' is a commit of the git repository '{}', which is not a Linux source tree ({why}): run kiln in a kernel's \
         repository, or name one: DIR@REVISION",
        revision.display(), repository.display()
    )]
    NotATreeCommit {
        revision: PathBuf,
        repository: PathBuf,
        why: String,
    },
    /// The tree lacks a file or directory that Kiln needs.
    #[error(
        "'{}' (Linux {version}) has no {lacks}, which Kiln needs: name a complete Linux source tree (tested: 6.1, 6.12, \
         7.3)",
        dir.display()
    )]
    Incomplete {
        dir: PathBuf,
        version: String,
        lacks: &'static str,
    },
    /// The tree contains build products among its sources; `trace` is one of them.
    #[error(
        "'{}' was built in place ({trace}) and git does not tell its sources from the rest: run 'make mrproper' there, \
         or name a clean copy",
        dir.display()
    )]
    BuiltInPlace { dir: PathBuf, trace: &'static str },
    #[error("'{}': the kernel's build allows no blanks and no colons in a path: move or link the tree", .0.display())]
    UnusablePath(PathBuf),
    #[error("git no longer lists {}", .0.display())]
    NotListed(PathBuf),
    /// `--config tree` was given, but the tree's directory contains no `.config`.
    #[error(
        "{} has no .config: if the tree was configured elsewhere (make O=DIR), name that file: --config DIR/.config",
        .0.display()
    )]
    NoConfig(PathBuf),
    #[error("--config {}: {why}: name a kernel's .config", path.display())]
    Config { path: PathBuf, why: String },
    #[error("--config {}: it configures {arch}: Kiln hosts x86-64 trees only", path.display())]
    ConfigArch { path: PathBuf, arch: String },

    /// The tree's own build failed; `cause` is the first error message of the build, if one was
    /// found.
    #[error("Linux {version} {what}{cause}: the log is {}", log.display())]
    Build {
        version: String,
        what: &'static str,
        cause: String,
        log: PathBuf,
    },
    #[error(
        "Linux {0} cannot be configured so that preempt_disable() counts: its Kconfig refuses DEBUG_ATOMIC_SLEEP"
    )]
    PreemptUncounted(String),
    #[error("the tree's crypto/tcrypt.o cannot be used: {0}")]
    UnusableTcrypt(String),
    #[error("the tree's crypto/tcrypt.c does not build")]
    NoTcrypt,
    #[error("{} does not compile Kiln's services: {why}", compiler.display())]
    Services { compiler: PathBuf, why: String },
    #[error("the tree's objects cannot be linked: {tool}: {why}")]
    Link { tool: String, why: String },
    #[error(
        "Kiln's {object} cannot be linked into Linux {version}, which does not have, as configured: {}",
        missing.join(", ")
    )]
    GuestUnlinked {
        object: String,
        version: String,
        missing: Vec<String>,
    },
    #[error(
        "Linux {version} cannot be hosted as configured: its crypto core needs what nothing provides, of {}",
        missing.join(", ")
    )]
    Unhostable {
        version: String,
        missing: Vec<String>,
    },

    #[error("{} is damaged ({what}): remove it, and kiln builds it again", path.display())]
    DamagedImage { path: PathBuf, what: String },
    #[error("{} is damaged: remove it", .0.display())]
    BadSegment(PathBuf),
    #[error("{} is of another version of kiln: remove it", .0.display())]
    OtherVersion(PathBuf),
    /// The image lacks one of the symbols that the glue defines.
    #[error("{} has no {name}: remove it, and kiln builds it again", image.display())]
    NoSymbol { image: PathBuf, name: String },
    /// The image calls a function from Kiln's `kernel/` directory, but this program does not export
    /// that function.
    #[error("{} needs {name}, which this kiln does not have: remove it", image.display())]
    NoFunction { image: PathBuf, name: String },
    #[error("the tree's code cannot be loaded at {start:#x}, where it was linked for: {why}")]
    Load { start: u64, why: String },
    /// The image was linked without the glue that makes requests.
    #[error(
        "this tree cannot be called by kiln ({name} is not in {}): 'kiln tree' says what does not build",
        image.display()
    )]
    NoCall { name: String, image: PathBuf },
    #[error("the tree's KUnit suites cannot be listed: {0}")]
    Suites(String),
    #[error("the tree's templates cannot be tried: {0}")]
    Reach(String),
    #[error("--fuzz: this tree's testmgr has no fuzz_iterations")]
    NoFuzz,
    #[error("the tree does not open '{driver}': {source}")]
    Refused { driver: String, source: io::Error },
    /// Compiling a [`crate::Guest`] failed.
    #[error(transparent)]
    Guest(Box<dyn std::error::Error + Send + Sync>),
    /// A name contains a NUL byte, so it cannot be passed to C.
    #[error(transparent)]
    Nul(#[from] NulError),

    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Creates an error about a cache file.
    pub fn cache(path: &Path, source: io::Error) -> Error {
        let path = path.to_owned();
        Error::Cache { path, source }
    }

    pub(crate) fn read(path: &Path, source: io::Error) -> Error {
        let path = path.to_owned();
        Error::Read { path, source }
    }

    /// Creates an error about a program that cannot be run.
    pub fn tool(name: &str, package: &str, source: io::Error) -> Error {
        Error::Tool {
            name: name.to_owned(),
            package: package.to_owned(),
            source,
        }
    }

    pub(crate) fn host(what: &'static str, source: io::Error) -> Error {
        Error::Host { what, source }
    }
}

fn describe_cache_fault(path: &Path, e: &io::Error) -> String {
    let path = path.display();
    match e.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            format!(
                "no space for {path}: free about 200 MB, or name another place in XDG_CACHE_HOME"
            )
        }
        Some(libc::EROFS | libc::EACCES | libc::ENOTDIR | libc::ENOENT | libc::EPERM) => {
            format!("cannot write {path}: {e}: name a place you may write to in XDG_CACHE_HOME")
        }
        _ => format!("{path}: {e}"),
    }
}

fn list_tools(missing: &[(&str, &str)]) -> String {
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

fn list_packages(missing: &[(&str, &str)]) -> String {
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_cannot_be_used_is_named_with_the_remedy() {
        for code in [libc::ENOSPC, libc::EROFS, libc::EACCES, libc::ENOTDIR] {
            let e = Error::cache(Path::new("/c/kiln"), io::Error::from_raw_os_error(code));
            let line = e.to_string();
            assert!(
                line.contains("/c/kiln") && line.contains("XDG_CACHE_HOME"),
                "{line}"
            );
            assert_eq!(line.lines().count(), 1);
        }
    }
}
