//! The compiler flags for building `kernel/`.

use std::path::Path;

use crate::tiers::{Tier, TIERS};

/// Flags for every object, C and assembly.
///
/// Features that distributions enable by default (stack protector, CET, stack clash protection) are
/// disabled explicitly, so that all compilers generate comparable code. `-nostdinc` leaves only the
/// compiler's own headers, so libc headers cannot be included by accident. `char` is unsigned, as
/// in kernels since 6.2, because its signedness can affect how intrinsics are compiled. Debugging
/// information contains only line numbers, because writing type information would take longer than
/// compiling the SIMD files. Functions are aligned to cache lines, because otherwise a change in
/// one file would shift the loops in other files. In measurements, such shifts made short calls up
/// to 30% slower or faster.
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

/// Warning flags for every object.
pub(crate) const WARNINGS: &[&str] = &[
    "-Wall",
    "-Wextra",
    "-Wmissing-prototypes",
    "-Wdeclaration-after-statement",
    "-Wvla",
    "-Wundef",
];

/// Flags for C objects.
pub const C: &[&str] = &["-std=gnu11"];

/// Flags for assembly objects. Without the note that this flag adds to the object, the linker would
/// make the stack of the whole program executable.
pub const ASSEMBLY: &[&str] = &["-Wa,--noexecstack"];

/// Flags for general objects, which have no SIMD tier.
pub const GENERAL: &[&str] = &["-mgeneral-regs-only"];

/// Flags for SIMD objects. `<immintrin.h>` includes `mm_malloc.h`, which needs a libc. These flags
/// define the include guards that gcc and clang use in `mm_malloc.h`, which makes this header
/// empty.
pub const SIMD: &[&str] = &["-D_MM_MALLOC_H_INCLUDED", "-D__MM_MALLOC_H"];

/// Content of the header that is precompiled for each tier. Without precompilation, reading it
/// takes a compiler 0.3 to 0.7 s, which is more than half of the time for most SIMD objects.
pub(crate) const INTRINSICS_H: &str = "#include <immintrin.h>\n";

/// Flags for SIMD objects that intentionally leave data in vector registers. Without this flag, gcc
/// clears the upper halves of these registers at the end of a function.
const PATTERNS: &[&str] = &["-mno-vzeroupper"];

/// Returns flags that only this source file needs, in addition to those of its tier.
pub fn extra_flags(source: &Path) -> &'static [&'static str] {
    let name = source.file_name().and_then(|n| n.to_str()).unwrap_or("");
    match tier_of(source) {
        Some(tier) if name.starts_with("patterns_") && tier.bits > 128 => PATTERNS,
        _ => &[],
    }
}

/// Content of a header included before each C file. `-fvisibility=hidden` affects only definitions.
/// Without this pragma, code would read the address of a function in another file from the GOT.
pub const HIDDEN_H: &str = "#pragma GCC visibility push(hidden)\n";

/// Functions that compilers call implicitly, and the functions that replace them. Each inner list
/// is one pass of objcopy. `memcmp` and `bcmp` are renamed in different passes, because objcopy
/// cannot give two symbols the same name in one pass.
pub const IMPLICIT_CALLS: &[&[(&str, &str)]] = &[
    &[
        ("memcpy", "kiln_memcpy"),
        ("memmove", "kiln_memmove"),
        ("memset", "kiln_memset"),
        ("memcmp", "kiln_memcmp"),
    ],
    &[("bcmp", "kiln_memcmp")],
];

/// Environment variables that would change the flags, the include paths or the output of gcc or
/// clang.
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

/// Returns the SIMD tier of a source file. If the file's name ends with the suffixes of several
/// tiers, the tier with the longest suffix is returned. Returns `None` for other files, which use
/// only general-purpose registers.
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
