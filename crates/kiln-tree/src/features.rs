//! Checks which CPU features a driver's instructions need, for the oracle `features`. A driver that
//! registers while a feature is hidden from the tree must not use that feature's instructions,
//! because they would crash on a CPU without the feature.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, Formatter, GasFormatter, Instruction};

use crate::event::Violation;
use crate::host::Host;

/// A CPU feature, and the instructions that need it.
pub(crate) struct Feature {
    pub name: &'static str,
    /// Number of the feature in Linux: 32 times the capability word, plus the bit.
    number: u16,
    of: &'static [CpuidFeature],
    /// Other features that every CPU with this feature has.
    needs: &'static [&'static str],
}

macro_rules! features {
    ($($name:literal = $word:literal * 32 + $bit:literal, [$($of:ident)|*] $(needs $($other:literal)+)?;)*) => {
        &[$(Feature {
            name: $name,
            number: $word * 32 + $bit,
            of: &[$(CpuidFeature::$of),*],
            needs: &[$($($other),+)?],
        }),*]
    };
}

/// Features that drivers check to select their FPU code. AES, PCLMULQDQ, AVX, SHA and GFNI imply
/// SSE4.2, because every CPU with one of them has SSE4.2, and kernels do not check for SSE4.2
/// separately.
pub(crate) const ALL: &[Feature] = features! {
    "SSSE3" = 4 * 32 + 9, [SSSE3];
    "SSE4.1" = 4 * 32 + 19, [SSE4_1] needs "SSSE3";
    "SSE4.2" = 4 * 32 + 20, [SSE4_2] needs "SSE4.1";
    "MOVBE" = 4 * 32 + 22, [MOVBE];
    "PCLMULQDQ" = 4 * 32 + 1, [PCLMULQDQ] needs "SSE4.2";
    "AES" = 4 * 32 + 25, [AES] needs "SSE4.2";
    "AVX" = 4 * 32 + 28, [AVX] needs "SSE4.2";
    "SHA" = 9 * 32 + 29, [SHA] needs "SSE4.2";
    "BMI1" = 9 * 32 + 3, [BMI1];
    "BMI2" = 9 * 32 + 8, [BMI2];
    "ADX" = 9 * 32 + 19, [ADX];
    "GFNI" = 16 * 32 + 8, [GFNI] needs "SSE4.2";
    "AVX2" = 9 * 32 + 5, [AVX2] needs "AVX";
    "VAES" = 16 * 32 + 9, [VAES] needs "AVX" "AES";
    "VPCLMULQDQ" = 16 * 32 + 10, [VPCLMULQDQ] needs "AVX" "PCLMULQDQ";
    "AVX512F" = 9 * 32 + 16, [AVX512F] needs "AVX2";
    "AVX512BW" = 9 * 32 + 30, [AVX512BW] needs "AVX512F";
    "AVX512DQ" = 9 * 32 + 17, [AVX512DQ] needs "AVX512F";
    "AVX512VL" = 9 * 32 + 31, [AVX512VL] needs "AVX512F";
    "AVX512IFMA" = 9 * 32 + 21, [AVX512_IFMA] needs "AVX512F";
    "AVX512VBMI" = 16 * 32 + 1, [AVX512_VBMI] needs "AVX512BW";
};

/// Maximum length in bytes of an x86 instruction.
const LONGEST: usize = 15;

/// Maximum number of bytes to decode per function.
const FUNCTION: u64 = 1 << 16;

/// Returns the numbers of a feature and of every feature that depends on it.
pub(crate) fn with_dependents(name: &str) -> Vec<u16> {
    let mut names = vec![name];
    // One pass suffices, because each feature in the table follows the features that it needs.
    for f in ALL {
        if f.needs.iter().any(|n| names.contains(n)) {
            names.push(f.name);
        }
    }
    let hidden = ALL.iter().filter(|f| names.contains(&f.name));
    hidden.map(|f| f.number).collect()
}

fn decode(address: u64) -> Instruction {
    // SAFETY: the address is in the image's text, which continues for at least 15 bytes after every
    // function.
    let bytes = unsafe { slice::from_raw_parts(address as *const u8, LONGEST) };
    Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode()
}

/// Returns the features that an instruction needs. TZCNT does not need a feature, because CPUs
/// without BMI1 execute it as BSF, and kernels rely on that.
fn needed(instruction: &Instruction) -> impl Iterator<Item = &'static Feature> {
    let of = match instruction.mnemonic() {
        iced_x86::Mnemonic::Tzcnt => &[][..],
        _ => instruction.cpuid_features(),
    };
    ALL.iter()
        .filter(move |f| of.iter().any(|n| f.of.contains(n)))
}

/// Examines every function that contains one of `addresses`, which were executed in FPU sections.
/// Returns one violation per function and hidden feature that the function's instructions need,
/// whether or not these instructions were executed. Also returns the names of all features that
/// the functions use.
pub(crate) fn judge(
    host: &Host,
    addresses: &BTreeSet<u64>,
    hidden: &[u16],
) -> (Vec<Violation>, Vec<String>) {
    let mut used = BTreeSet::new();
    // The key is a function and a feature. The value is the address of an instruction that needs
    // the feature, and whether that instruction was executed. Executed instructions are inserted
    // first, so they take precedence.
    let mut wrong: BTreeMap<(String, &str), (u64, bool)> = BTreeMap::new();
    let mut functions = BTreeSet::new();
    for &address in addresses {
        let name = host.image.name(address);
        // Skip addresses that are outside any function or belong to Kiln's own code.
        if name.starts_with("0x") || name.starts_with("kiln_") || name.starts_with("svc_") {
            continue;
        }
        let (function, offset) = name.split_once("+0x").unwrap_or((&name, "0"));
        let offset = u64::from_str_radix(offset, 16).unwrap_or(0);
        functions.insert((address - offset, function.to_owned()));
        for f in needed(&decode(address)) {
            used.insert(f.name);
            if hidden.contains(&f.number) {
                wrong
                    .entry((function.to_owned(), f.name))
                    .or_insert((address, true));
            }
        }
    }
    for (start, function) in functions {
        let mut at = start;
        while at < start + FUNCTION && host.image.name(at).split('+').next() == Some(&function) {
            let instruction = decode(at);
            for f in needed(&instruction) {
                used.insert(f.name);
                if hidden.contains(&f.number) {
                    wrong
                        .entry((function.clone(), f.name))
                        .or_insert((at, false));
                }
            }
            at += instruction.len().max(1) as u64;
        }
    }
    let violations = wrong
        .into_iter()
        .map(|((_, feature), (address, executed))| {
            let mut text = String::new();
            GasFormatter::new().format(&decode(address), &mut text);
            let how = if executed { "executes" } else { "has" };
            Violation {
                rule: "feature".into(),
                what: format!("{how} '{text}' on a CPU without {feature}, which nothing asked for"),
                trace: vec![address],
                ..Violation::default()
            }
        });
    (
        violations.collect(),
        used.into_iter().map(String::from).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_a_feature_is_hidden_with_it() {
        let names = |of: &str| -> Vec<&str> {
            let hidden = with_dependents(of);
            let all = ALL.iter().filter(|f| hidden.contains(&f.number));
            all.map(|f| f.name).collect()
        };
        assert_eq!(names("BMI2"), ["BMI2"]);
        assert_eq!(names("AVX512BW"), ["AVX512BW", "AVX512VBMI"]);
        assert!(names("SSSE3").contains(&"AVX512VL"));
    }

    #[test]
    fn instructions_need_their_features() {
        let of = |bytes: &[u8]| -> Vec<&str> {
            let mut bytes = bytes.to_vec();
            bytes.resize(LONGEST, 0x90);
            needed(&decode(bytes.as_ptr() as u64))
                .map(|f| f.name)
                .collect()
        };
        // The instructions are pshufb, vpxor with ymm registers, vaesenc with ymm registers, tzcnt,
        // and pxor.
        assert_eq!(of(&[0x66, 0x0f, 0x38, 0x00, 0xc1]), ["SSSE3"]);
        assert_eq!(of(&[0xc5, 0xfd, 0xef, 0xc0]), ["AVX2"]);
        assert_eq!(of(&[0xc4, 0xe2, 0x7d, 0xdc, 0xc1]), ["VAES"]);
        assert!(of(&[0xf3, 0x0f, 0xbc, 0xc0]).is_empty());
        assert!(of(&[0x66, 0x0f, 0xef, 0xc0]).is_empty());
    }
}
