//! What is compiled, and how it is called.

use std::path::PathBuf;

/// The harness, and the file of each convention.
pub(super) const HARNESS: [(&str, &str); 10] = [
    ("harness.h", include_str!("harness/harness.h")),
    ("harness.c", include_str!("harness/harness.c")),
    ("memory.c", include_str!("harness/memory.c")),
    ("block.c", include_str!("harness/block.c")),
    ("openssl.c", include_str!("harness/openssl.c")),
    ("kiln.c", include_str!("harness/kiln.c")),
    ("cipher.c", include_str!("harness/cipher.c")),
    ("digest.c", include_str!("harness/digest.c")),
    ("checksum.c", include_str!("harness/checksum.c")),
    ("transform.c", include_str!("harness/transform.c")),
];

/// How a subject is called: a file of the harness, and the macros that it is compiled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Convention {
    /// `block`, `digest`…
    pub name: &'static str,
    /// The file.
    pub file: &'static str,
    /// `SUBJECT_…`.
    pub defines: Vec<String>,
    /// The function that is timed.
    pub function: String,
    /// Bytes of a key and of an IV that the harness draws.
    pub key: usize,
    /// As above.
    pub iv: usize,
}

/// What a source is compiled with, beside level, width and variant.
#[derive(Clone, Debug)]
pub(super) enum Flags {
    /// The recipe of `kernel/`.
    Kernel {
        /// `kernel/`.
        dir: PathBuf,
    },
    /// Those of an ordinary program.
    Program {
        /// Directories of headers.
        include: Vec<PathBuf>,
    },
    /// Those of a kernel tree's build.
    Tree {
        /// All but the object's own.
        common: Vec<String>,
        /// The object's own.
        own: Vec<String>,
        /// Where it is compiled.
        dir: PathBuf,
    },
}

/// A file under test.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The file.
    pub path: PathBuf,
    /// What it is compiled with.
    pub flags: Flags,
}

/// What has the right answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judge {
    /// Another implementation of this algorithm, in this process.
    Algorithm {
        /// The algorithm.
        alg: &'static str,
        /// The implementation under test, which is not asked.
        but: &'static str,
    },
    /// Most cells.
    Majority,
}

/// What is compiled.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// What the user calls it.
    pub name: String,
    /// What it computes.
    pub alg: String,
    /// Bits of its key.
    pub key_bits: Option<u32>,
    /// The files under test.
    pub sources: Vec<Source>,
    /// How it is called.
    pub convention: Convention,
    /// Files it needs that are not under test.
    pub support: Vec<Source>,
    /// Objects and archives it needs, of x86-64.
    pub objects: Vec<PathBuf>,
    /// What has the right answers.
    pub judge: Judge,
    /// Whether it can be built for 32 bits.
    pub narrow: bool,
    /// Whether no compiler has a part in it.
    pub assembly: bool,
}
