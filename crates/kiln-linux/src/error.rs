//! The errors that occur while Linux is built or booted. The first line of a message tells the user
//! what to do; the end of a log may follow.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An error that occurs while Linux is built or booted. Variants without a comment are explained by
/// their messages.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A source tree, the cache or a tool cannot be used.
    #[error(transparent)]
    Tree(kiln_tree::Error),
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Compiler(#[source] kiln_kbuild::Error),
    /// A module directory cannot be read.
    #[error("{0}")]
    Walk(#[source] kiln_kbuild::Error),

    #[error("'{}' is not empty: name a new directory", .0.display())]
    NotEmpty(PathBuf),
    #[error(
        "no kernel source was found: name a tree with --tree DIR, or apt-get install linux-source (looked for \
         {}/linux-source-*.tar.xz)",
        .0.display()
    )]
    NoSource(PathBuf),
    #[error(
        "{} cannot be unpacked into {}: {line}: free 2 GB there, or apt-get install xz-utils",
        archive.display(),
        place.display()
    )]
    Unpack {
        archive: PathBuf,
        place: PathBuf,
        line: String,
    },
    #[error("'{}' has no arch/um: user mode Linux cannot be built from it", .0.display())]
    NoUserMode(PathBuf),
    #[error(
        "user mode Linux of '{}' can store {room} bytes of extended registers, but this CPU's take {needed}: name a tree of \
         6.13 or newer with --tree",
        tree.display()
    )]
    RegisterRoom {
        tree: PathBuf,
        room: u32,
        needed: u32,
    },
    #[error(
        "{what}{cause}: the log is {}, its end is above\n  {tail}",
        log.display()
    )]
    Build {
        what: String,
        cause: String,
        log: PathBuf,
        tail: String,
    },
    #[error("Linux {version} has no module {path} as Kiln configures it: {source}")]
    NoModule {
        version: String,
        path: String,
        source: io::Error,
    },

    #[error("cannot read the kernel image '{}': {source}: name the image of a built kernel, such as DIR/arch/x86/boot/bzImage or /boot/vmlinuz-VERSION", .path.display())]
    Image { path: PathBuf, source: io::Error },
    #[error("'{}' is not a bzImage: name one, such as DIR/arch/x86/boot/bzImage or /boot/vmlinuz-VERSION", .0.display())]
    NotBzImage(PathBuf),
    #[error("--sources {}: {source}: name a new directory in a place where you may write", dir.display())]
    Sources { dir: PathBuf, source: io::Error },
    #[error("--headers {}: {source}", path.display())]
    Headers { path: PathBuf, source: io::Error },
    #[error(
        "'{}' has no include/config/kernel.release ({source}): name a kernel's headers, or its tree after make \
         modules_prepare",
        headers.display()
    )]
    NoRelease { headers: PathBuf, source: io::Error },
    #[error(
        "apt has no package linux-image-{0}*-amd64: see 'apt-cache search ^linux-image' after 'apt-get update' for the \
         versions to give to --debian, or name a kernel with --kernel and --headers"
    )]
    NoImage(String),
    #[error(
        "{0}: {1}: this is not a Debian system; name a kernel with --kernel BZIMAGE --headers DIR"
    )]
    NotDebian(String, #[source] io::Error),
    #[error("{command} failed: {line}: apt-get update, and try again")]
    Apt { command: String, line: String },
    #[error("'{}' has no kernel's headers: apt-get install linux-headers-{release}", dir.display())]
    NoHeaders { dir: PathBuf, release: String },
    #[error(
        "'{}' has no kernel headers: name /lib/modules/VERSION/build ('apt-get install linux-headers-amd64' creates one)",
        .0.display()
    )]
    NotHeaders(PathBuf),
    #[error("{program} cannot unpack {name}: install the kernel's package again")]
    PackedModule { program: &'static str, name: String },

    /// Kiln's module cannot be built; `cause` is the compiler's first error, if one was found.
    #[error("{which} does not build against {against}{cause}: the log is {}", log.display())]
    Module {
        which: &'static str,
        against: String,
        cause: String,
        log: PathBuf,
    },
    #[error("Kiln's module cannot be linked into one object: {tool}: {why}")]
    OneObject { tool: String, why: String },
    #[error("{} cannot compile Kiln's init as a static program: {why}: apt-get install libc6-dev", compiler.display())]
    Init { compiler: PathBuf, why: String },
    #[error("'{}' contains a tab, a newline or a NUL, which the orders to Kiln's init cannot contain: rename it", .0.escape_debug())]
    OrderSeparator(String),
    #[error(
        "'{line:.40}...' is too long for Kiln's init: {bytes} bytes and {words} words at most"
    )]
    OrderLength {
        line: String,
        bytes: usize,
        words: usize,
    },
    #[error("'{}' cannot be written to a disk: {line}: name the root of a Debian system, and be root to read it", root.display())]
    SystemDisk { root: PathBuf, line: String },
    #[error("program '{0}' was not found: name its file")]
    NoProgram(String),
    #[error("'{}' is not an ELF program, and the booted system has no shell to run it", .0.display())]
    NotElf(PathBuf),
    #[error("'{}' is not text", .0.display())]
    NotText(PathBuf),
    /// ldd cannot find a library.
    #[error("{}: {line}", program.display())]
    Libraries { program: PathBuf, line: String },
    #[error("tcrypt has no mode for '{name}': name one of {known}, or a --mode of its own")]
    NoMode { name: String, known: String },

    #[error("{0} is not installed: apt-get install qemu-system-x86")]
    NoQemu(&'static str),
    #[error("{what} {} cannot be started: {source}", program.display())]
    NoStart {
        what: &'static str,
        program: PathBuf,
        source: io::Error,
    },
    #[error(
        "{kvm} cannot run this kernel ({said}): use --accel tcg, which gives answers but no costs"
    )]
    Kvm { kvm: String, said: String },
    /// A boot ended before init printed its last line.
    #[error(
        "{name} {end} ({} s, see --limit); the end of its console is above\n  {}",
        limit.as_secs_f64(),
        tail.join("\n  ")
    )]
    Boot {
        name: &'static str,
        end: BootEnd,
        limit: Duration,
        tail: Vec<String>,
    },
    /// Init ran, but one of its commands failed.
    #[error("{what}; the end of its console is above\n  {}", tail.join("\n  "))]
    Console { what: String, tail: Vec<String> },
    #[error("Kiln's module in Linux {version}, hosted: {fault}")]
    HostedFault { version: String, fault: String },
    #[error("Kiln's module does not report whether it can save and restore registers")]
    NoWidths,
    #[error(
        "Kiln's module saves and restores {name} registers: wrong in {wrong} of {rounds} rounds; unsaved, {missed} \
         looked right"
    )]
    Width {
        name: String,
        wrong: u32,
        rounds: u32,
        missed: u32,
    },
    #[error("Linux {0} did not run its full tests, so its results do not count")]
    TestsCut(String),
    /// An answer from the real kernel is missing or cannot be parsed.
    #[error("{0}")]
    Answer(String),
    #[error("the emulated CPU: {0}")]
    EmulatedCpu(String),
    #[error("the emulated CPU panicked")]
    EmulatedCpuPanicked,

    #[error("{0} has no module virtio_crypto")]
    NoVirtioCrypto(String),
    #[error("--socket '{}': use a path without blanks, colons, commas and quotes", .0.display())]
    SocketPath(PathBuf),
    #[error("{} serve cannot be started: {source}", program.display())]
    NoServe { program: PathBuf, source: io::Error },
    #[error("kiln serve {how}; the end of its log is above\n  {tail}")]
    Serve { how: String, tail: String },

    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// How a boot ended if init did not print its last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootEnd {
    /// The boot exceeded its time limit.
    TimeLimit,
    /// The kernel's process exited on its own.
    Early,
    /// The kernel printed a message after which its further output is of no use.
    Useless,
}

impl fmt::Display for BootEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BootEnd::TimeLimit => "was killed at its time limit",
            BootEnd::Early => "ended before Kiln's init was done",
            BootEnd::Useless => "is of no use here",
        })
    }
}

impl Error {
    /// Creates an error about an unusable cache file.
    pub fn cache(path: &Path, source: io::Error) -> Error {
        Error::Tree(kiln_tree::Error::cache(path, source))
    }

    /// Creates an error about an unreadable file that the user named.
    pub(crate) fn read(path: &Path, source: io::Error) -> Error {
        let path = path.to_owned();
        Error::Read { path, source }
    }
}

impl From<kiln_tree::Error> for Error {
    fn from(e: kiln_tree::Error) -> Error {
        match e {
            kiln_tree::Error::Interrupted => Error::Interrupted,
            // Unwrap the boxed error if it is one of this crate's own errors: for a hosted tree,
            // this crate compiles Kiln's module.
            kiln_tree::Error::Guest(e) => match e.downcast() {
                Ok(e) => *e,
                Err(e) => Error::Tree(kiln_tree::Error::Guest(e)),
            },
            e => Error::Tree(e),
        }
    }
}
