//! Defines subjects: the code to compile, and how to call it.

use std::path::PathBuf;

/// Name and text of each harness file, including one file per calling convention.
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

/// A calling convention: a harness file, and the macros with which it is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Convention {
    /// The name by which users select the convention, such as `block` or `digest`.
    pub name: &'static str,
    /// Harness file that implements the convention.
    pub file: &'static str,
    /// `SUBJECT_…` macros that adapt the file to the subject.
    pub defines: Vec<String>,
    /// Name of the function that is timed.
    pub function: String,
    /// Length of the key that the harness generates, in bytes.
    pub key: usize,
    /// Length of the IV that the harness generates, in bytes.
    pub iv: usize,
}

/// Where a file's compiler arguments come from. Arguments for the level, the width and the variant
/// are not included.
#[derive(Clone, Debug)]
pub(super) enum Flags {
    /// The file is compiled with the recipe of `kernel/`.
    Kernel {
        /// The path of `kernel/`.
        dir: PathBuf,
    },
    /// The file is compiled like an ordinary program.
    Program {
        /// Directories to search for headers.
        include: Vec<PathBuf>,
    },
    /// The file is compiled with flags taken from the build of a kernel tree.
    Tree {
        /// Flags that all objects share.
        common: Vec<String>,
        /// Flags that the tree sets for this object alone.
        own: Vec<String>,
        /// The compiler's working directory.
        dir: PathBuf,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Source {
    pub path: PathBuf,
    pub flags: Flags,
}

/// How the expected results are obtained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judge {
    /// Another implementation of this algorithm, run in this process, computes the expected
    /// results.
    Algorithm {
        alg: &'static str,
        /// Driver name of the implementation under test, which must not check itself.
        but: &'static str,
    },
    /// The result on which most builds agree is taken as correct.
    Majority,
}

#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// Name shown to the user.
    pub name: String,
    /// The algorithm that the subject computes.
    pub alg: String,
    /// Key size in bits; `None` if the algorithm has no key.
    pub key_bits: Option<u32>,
    /// The files under test.
    pub sources: Vec<Source>,
    pub convention: Convention,
    /// Files that the subject needs but that are not under test.
    pub support: Vec<Source>,
    /// x86-64 objects and archives that the subject needs.
    pub objects: Vec<PathBuf>,
    pub judge: Judge,
    /// Whether the subject can be built as 32-bit code.
    pub narrow: bool,
    /// Whether the subject is written in assembly, which makes it independent of the compiler.
    pub assembly: bool,
}
