//! Subjects: the code that is compiled, and how it is called.

use std::path::PathBuf;

/// The harness, and the files of the conventions.
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

/// A calling convention: a file of the harness, and the macros with which it is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Convention {
    /// Its name: `block`, `digest` and so on.
    pub name: &'static str,
    /// Its file in the harness.
    pub file: &'static str,
    /// Macros `SUBJECT_…`.
    pub defines: Vec<String>,
    /// Name of the function that is timed.
    pub function: String,
    /// Length of the key that the harness generates, in bytes.
    pub key: usize,
    /// Length of the IV that the harness generates, in bytes.
    pub iv: usize,
}

/// How a source is compiled, apart from level, width and variant.
#[derive(Clone, Debug)]
pub(super) enum Flags {
    /// Compiled with the recipe of `kernel/`.
    Kernel {
        /// Path of `kernel/`.
        dir: PathBuf,
    },
    /// Compiled like an ordinary program.
    Program {
        /// Directories of headers.
        include: Vec<PathBuf>,
    },
    /// Compiled with the flags of a kernel tree's build.
    Tree {
        /// Flags common to all objects.
        common: Vec<String>,
        /// Flags that only this object has.
        own: Vec<String>,
        /// Working directory.
        dir: PathBuf,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Source {
    pub path: PathBuf,
    pub flags: Flags,
}

/// The source of right answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judge {
    /// Another implementation of this algorithm, run in this process.
    Algorithm {
        alg: &'static str,
        /// Driver name of the implementation under test, which must not judge itself.
        but: &'static str,
    },
    /// The answer that most builds give.
    Majority,
}

#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// Its name for the user.
    pub name: String,
    /// The algorithm that it computes.
    pub alg: String,
    /// Key size in bits.
    pub key_bits: Option<u32>,
    /// The files under test.
    pub sources: Vec<Source>,
    pub convention: Convention,
    /// Files that the subject needs but that are not under test.
    pub support: Vec<Source>,
    /// x86-64 objects and archives that the subject needs.
    pub objects: Vec<PathBuf>,
    pub judge: Judge,
    /// Whether it can be built for 32 bits.
    pub narrow: bool,
    /// Whether it is assembly, which does not depend on the compiler.
    pub assembly: bool,
}
