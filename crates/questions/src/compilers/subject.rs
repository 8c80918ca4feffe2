//! What is compiled, and how it is called.

use std::path::PathBuf;

use kiln_kbuild::recipe;
use kiln_question::Error;

use super::cell::{Abi, Opt};
use super::file;
use super::kernel::Kernel;
use super::store::Store;
use super::toolchain::Toolchain;
use super::tree::Tree;
use super::variant::Variant;

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

/// How a subject is called: a file of the harness, and what it is told by macros.
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

/// What distributions switch on by themselves, of programs.
const PROGRAM: [&str; 4] = [
    "-fno-stack-protector",
    "-fno-stack-clash-protection",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
];

impl Subject {
    /// Of its name, or of a file of a tree's or of the user's, whose headers are in these directories.
    pub(super) fn find(
        name: &str,
        tree: Option<&Tree>,
        include: &[PathBuf],
    ) -> Result<Subject, Error> {
        if let Some(subject) = tree.and_then(|t| t.subject(name)) {
            return subject;
        }
        let kernel = Kernel::open(&Store::open()?)?;
        kernel
            .subject(name)
            .unwrap_or_else(|| file::subject(name, include))
    }
}

/// Names of the subjects that are no files.
pub(super) fn names() -> Result<Vec<String>, Error> {
    Ok(Kernel::open(&Store::open()?)?.names())
}

impl Source {
    /// The arguments that compile it, but for its own name and the output's.
    pub(super) fn arguments(
        &self,
        cc: &Toolchain,
        opt: &Opt,
        abi: Abi,
        variant: &Variant,
        extra: &[String],
    ) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let assembly = self.path.extension().is_some_and(|e| e == "S");
        match &self.flags {
            Flags::Kernel { dir } => {
                // A kernel is not position-independent; debugging information is not looked at.
                let other = ["-O2", "-fPIE", "-g", "-nostdinc"];
                let common: Vec<&str> = recipe::COMMON
                    .iter()
                    .copied()
                    .filter(|f| !other.contains(f))
                    .collect();
                all.extend(cc.known(&common));
                match recipe::tier_of(&self.path) {
                    Some(tier) => all.extend(tier.flags.iter().chain(recipe::SIMD).map(owned)),
                    None if cc.knows(recipe::GENERAL[0]) => {
                        all.extend(recipe::GENERAL.iter().map(owned));
                    }
                    // Compilers of before 2017.
                    None => all.extend(cc.known(&["-mno-sse", "-mno-mmx", "-mno-80387"])),
                }
                if let Some(headers) = &cc.headers {
                    all.push("-nostdinc".into());
                    all.extend(["-isystem".into(), headers.display().to_string()]);
                }
                all.extend(["-I".into(), dir.join("include").display().to_string()]);
                if assembly {
                    all.extend(recipe::ASSEMBLY.iter().map(owned));
                } else {
                    all.extend(recipe::C.iter().map(owned));
                    all.push("-DKILN_CIPHER_ALONE".into());
                }
                all.extend(cc.known(&["-fno-pie"]));
            }
            Flags::Program { include } => {
                for dir in include {
                    all.extend(["-I".into(), dir.display().to_string()]);
                }
                all.extend(cc.known(&PROGRAM));
                all.extend(cc.known(&["-fno-pie"]));
            }
            Flags::Tree { common, own, .. } => {
                all.extend(accepted(cc, common));
                if !variant.drops_object_flags() {
                    all.extend(cc.known(own));
                }
            }
        }
        all.extend(abi.flags().iter().map(owned));
        all.push(opt.flag());
        if !assembly {
            all.extend(extra.iter().cloned());
        }
        all
    }
}

/// Those of a tree's flags that this compiler knows; names of directories and macros are everybody's.
fn accepted(cc: &Toolchain, flags: &[String]) -> Vec<String> {
    let of_code = |f: &str| f.starts_with("-f") || f.starts_with("-m");
    let asked: Vec<&String> = flags.iter().filter(|f| of_code(f)).collect();
    let known = cc.known(&asked);
    let taken = |f: &&String| !of_code(f) || known.contains(f);
    flags.iter().filter(taken).cloned().collect()
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn owned(flag: &&str) -> String {
    (*flag).to_string()
}
