//! Writes the byte budgets to a C header, as constants. A comment above each constant shows how it
//! was derived.

use std::fmt::Write;

use kiln_kernel::cipher::{Impl, Op};

/// The machine on which the constants were measured, and the measurement conditions.
pub(super) struct Facts<'a> {
    /// The CPU model that the machine reports.
    pub model: &'a str,
    /// TSC ticks per second.
    pub tsc_hz: f64,
    /// Core cycles per second.
    pub core_hz: f64,
    /// Maximum section length in microseconds.
    pub target_us: f64,
}

/// Converts a driver name such as `xts-aes-vaes-avx512` to an identifier for C constants.
fn constant(driver: &str) -> String {
    let upper = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_uppercase(),
        _ => '_',
    };
    driver.chars().map(upper).collect()
}

/// Removes character sequences that would end a C comment from text reported by the machine.
fn harmless(text: &str) -> String {
    text.replace("*/", "* /").replace(['\n', '\\', '?'], " ")
}

/// Returns the text of the whole header.
pub(super) fn text(impls: &[Impl], facts: &Facts<'_>) -> String {
    let mut out = format!(
        "/*\n * Bytes that one FPU section may hold so that it lasts {} us at most.\n *\n \
         * Written by kiln budget on {}. They fit this\n * CPU at this clock and no other: where they are \
         compiled in, they are guesses elsewhere.\n */\n#ifndef KILN_BYTES_PER_FPU_H\n#define KILN_BYTES_PER_FPU_H\n\n",
        facts.target_us,
        harmless(facts.model)
    );
    let per_tick = facts.core_hz / facts.tsc_hz;
    let cycles = facts.target_us * facts.core_hz / 1e6;
    let ticks = (facts.target_us * facts.tsc_hz / 1e6) as u64;
    out.push_str("enum {\n");
    for &imp in impls {
        let of = [Op::Encrypt, Op::Decrypt].map(|op| imp.bytes_in(op, ticks));
        let (Some(encrypt), Some(decrypt)) = (of[0], of[1]) else {
            continue;
        };
        // Encryption and decryption share one constant, so the slower direction determines it.
        let (d, bytes) = match decrypt < encrypt {
            true => (1, decrypt),
            false => (0, encrypt),
        };
        let known = imp.budget();
        let _ = writeln!(
            out,
            "\t/*\n\t * {}: {:.3} cycles per byte measured, {:.3} for cache misses, {:.0} for the\n\t * section and \
             the call. At {:.2} GHz {} us are {cycles:.0} cycles, of which four fifths\n\t * hold {:.0} bytes: \
             in whole units of {} {bytes}.\n\t */\n\tBYTES_PER_FPU_{} = {bytes},",
            imp.driver(),
            known.rate[d] * per_tick,
            known.miss_rate * per_tick,
            f64::from(known.start[d]) * per_tick,
            facts.core_hz / 1e9,
            facts.target_us,
            (ticks as f64 * 0.8 - f64::from(known.start[d])) / (known.rate[d] + known.miss_rate),
            if bytes % 1024 == 0 { 1024 } else { known.granule },
            constant(imp.driver()),
        );
    }
    out.push_str("};\n\n#endif\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_c() {
        assert_eq!(constant("crc32c-sse42-aesni"), "CRC32C_SSE42_AESNI");
        assert!(!harmless("a */ b\\\n").contains("*/"));
    }
}
