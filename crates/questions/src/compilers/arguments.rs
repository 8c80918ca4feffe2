//! Determines the compiler arguments for the source of a subject.

use kiln_kbuild::recipe;

use super::cell::{Abi, Opt};
use super::subject::{Flags, Source};
use super::toolchain::Toolchain;
use super::variant::Variant;

/// Flags that turn off what distributions enable by default when compiling programs.
const PROGRAM: [&str; 4] = [
    "-fno-stack-protector",
    "-fno-stack-clash-protection",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
];

impl Source {
    /// Returns the arguments for compiling the source, except the names of the source and the
    /// output.
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
                // Leave out -fPIE, because a kernel is not position-independent, and leave out -g,
                // because debugging information is not used. -O2 and -nostdinc are added elsewhere.
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
                    // Compilers released before 2017 do not have -mgeneral-regs-only, so disable
                    // each register set separately.
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

/// Returns those flags of a tree that `cc` accepts. Only -f and -m flags are checked, because every
/// compiler accepts the other flags, which specify directories, macros and the like.
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
