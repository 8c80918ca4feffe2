//! Flags of every object, as tables.

use std::path::Path;

use crate::tiers::{Tier, TIERS};

/// Every object, C and assembly.
///
/// What a distribution's compiler switches on by itself (stack protector, CET, stack clash
/// protection) is switched off by name, so that all compilers are asked for the same code.
/// `-nostdinc` leaves the compiler's own headers only: no libc header can slip in. `char` is
/// unsigned as in kernels since 6.2: the same intrinsics can be compiled differently for it. Debugging
/// information is of lines alone: with types it takes longer to write than the code of the SIMD files.
/// Functions start at a cache line, so that a change of one file does not move the loops of another:
/// that alone made short calls up to 30 % slower or faster.
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

/// Warnings, of every object.
pub(crate) const WARNINGS: &[&str] = &[
    "-Wall",
    "-Wextra",
    "-Wmissing-prototypes",
    "-Wdeclaration-after-statement",
    "-Wvla",
    "-Wundef",
];

/// C objects.
pub const C: &[&str] = &["-std=gnu11"];

/// Assembly objects. Without the note the linker would make the stack of the whole program
/// executable.
pub const ASSEMBLY: &[&str] = &["-Wa,--noexecstack"];

/// Objects of no SIMD tier.
pub const GENERAL: &[&str] = &["-mgeneral-regs-only"];

/// SIMD objects. `<immintrin.h>` includes `mm_malloc.h`, which wants a libc; these are the
/// guards that make gcc's and clang's empty.
pub const SIMD: &[&str] = &["-D_MM_MALLOC_H_INCLUDED", "-D__MM_MALLOC_H"];

/// Of SIMD objects that leave patterns in registers behind them: gcc clears upper halves where a function ends.
const PATTERNS: &[&str] = &["-mno-vzeroupper"];

/// A source's own flags, besides its tier's.
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

/// Functions that compilers call unasked, and what they are to call instead. In two passes:
/// objcopy gives no two symbols one name at a time.
pub const IMPLICIT_CALLS: &[&[(&str, &str)]] = &[
    &[
        ("memcpy", "kiln_memcpy"),
        ("memmove", "kiln_memmove"),
        ("memset", "kiln_memset"),
        ("memcmp", "kiln_memcmp"),
    ],
    &[("bcmp", "kiln_memcmp")],
];

/// Environment variables by which gcc or clang would take flags or include paths.
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

/// The SIMD tier of a source file: the one whose name ends the file's, the longest if several do. A
/// file that ends in none of them gets general registers only.
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
