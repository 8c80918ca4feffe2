//! Compiler flags of all objects, as tables.

use std::path::Path;

use crate::tiers::{Tier, TIERS};

/// Every object, C and assembly.
///
/// Features that distributions enable by default (stack protector, CET, stack clash protection) are
/// disabled explicitly, so that all compilers are asked for the same code. `-nostdinc` leaves the
/// compiler's own headers only: no libc header can slip in. `char` is unsigned, as in kernels since
/// 6.2, because it can change how intrinsics are compiled. Debugging information covers lines only:
/// with types, writing it would take longer than compiling the SIMD files. Functions start at a cache
/// line, so that a change of one file does not move the loops of another: that alone made short calls
/// up to 30 % slower or faster.
pub const COMMON: &[&str] = &[
    "-O2",
    "-ffreestanding",
    "-nostdinc",
    "-fPIE",
    "-fvisibility=hidden",
    "-ftls-model=initial-exec",
    "-fno-stack-protector",
    "-fno-stack-clash-protection",
    "-fno-strict-aliasing",
    "-funsigned-char",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
    "-mno-red-zone",
    "-g1",
    "-falign-functions=64",
];

/// Warnings, for every object.
pub(crate) const WARNINGS: &[&str] = &[
    "-Wall",
    "-Wextra",
    "-Wmissing-prototypes",
    "-Wdeclaration-after-statement",
    "-Wvla",
    "-Wundef",
];

/// For C objects.
pub const C: &[&str] = &["-std=gnu11"];

/// For assembly objects. Without this note, the linker would make the stack of the whole program
/// executable.
pub const ASSEMBLY: &[&str] = &["-Wa,--noexecstack"];

/// For objects without a SIMD tier.
pub const GENERAL: &[&str] = &["-mgeneral-regs-only"];

/// For SIMD objects. `<immintrin.h>` includes `mm_malloc.h`, which needs a libc. Defining gcc's and
/// clang's include guards makes that header empty.
pub const SIMD: &[&str] = &["-D_MM_MALLOC_H_INCLUDED", "-D__MM_MALLOC_H"];

/// For SIMD objects that intentionally leave data in vector registers: otherwise gcc would clear the upper halves at
/// the end of a function.
const PATTERNS: &[&str] = &["-mno-vzeroupper"];

/// Flags for single sources, in addition to those of their tiers.
pub fn extra_flags(source: &Path) -> &'static [&'static str] {
    let name = source.file_name().and_then(|n| n.to_str()).unwrap_or("");
    match tier_of(source) {
        Some(tier) if name.starts_with("patterns_") && tier.bits > 128 => PATTERNS,
        _ => &[],
    }
}

/// Included before each C file. `-fvisibility=hidden` covers definitions only: taking the
/// address of a function that another file defines would still go through the GOT.
pub const HIDDEN_H: &str = "#pragma GCC visibility push(hidden)\n";

/// Functions that compilers call implicitly, and their replacements. There are two passes, because
/// objcopy does not give two symbols the same name in one pass.
pub const IMPLICIT_CALLS: &[&[(&str, &str)]] = &[
    &[
        ("memcpy", "kiln_memcpy"),
        ("memmove", "kiln_memmove"),
        ("memset", "kiln_memset"),
        ("memcmp", "kiln_memcmp"),
    ],
    &[("bcmp", "kiln_memcmp")],
];

/// Environment variables from which gcc or clang would take flags or include paths.
pub const IGNORED_ENV: &[&str] = &[
    "CCC_OVERRIDE_OPTIONS",
    "COMPILER_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "DEPENDENCIES_OUTPUT",
    "GCC_COMPARE_DEBUG",
    "SOURCE_DATE_EPOCH",
    "SUNPRO_DEPENDENCIES",
];

/// The SIMD tier of a source file: the one whose name is the suffix of the file's name, the longest if several match. A
/// file without such a suffix uses general-purpose registers only.
pub fn tier_of(source: &Path) -> Option<&'static Tier> {
    let stem = source.file_stem()?.to_str()?;
    TIERS
        .tiers
        .iter()
        .filter(|tier| !tier.flags.is_empty())
        .filter(|tier| {
            stem.strip_suffix(&tier.suffix)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '-']))
        })
        .max_by_key(|tier| tier.suffix.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(source: &str) -> Option<&'static str> {
        tier_of(Path::new(source)).map(|t| t.suffix.as_str())
    }

    #[test]
    fn patterns_keep_their_upper_halves() {
        let extra = |name: &str| extra_flags(Path::new(name));
        assert_eq!(extra("load/patterns_avx2.c"), ["-mno-vzeroupper"]);
        assert!(extra("load/patterns_aesni.c").is_empty());
        assert!(extra("ciphers/xts/avx2.c").is_empty());
    }

    #[test]
    fn file_names_choose_tiers() {
        assert_eq!(tier("ciphers/xts/aesni.c"), Some("aesni"));
        assert_eq!(tier("ciphers/gcm/ghash_aesni.c"), Some("aesni"));
        assert_eq!(tier("ciphers/xts/vaes_avx2.c"), Some("vaes_avx2"));
        assert_eq!(tier("ciphers/xts/xts-vaes_avx512.S"), Some("vaes_avx512"));
    }

    #[test]
    fn other_files_are_general() {
        assert_eq!(tier("ciphers/xts/generic.c"), None);
        assert_eq!(tier("aesni/dispatch.c"), None);
        assert_eq!(tier("notaesni.c"), None);
    }
}
