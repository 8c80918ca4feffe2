//! Limits of AES-XTS that follow from the throughput and latency of the AES unit.

use kiln_kernel::cipher::BLOCK;
use kiln_kernel::{Feature, Tier};

use super::{Limits, AES_LATENCY, AES_XMM, AES_YMM, AES_ZMM};

/// Returns the number of AES rounds for a key of `key_bits` bits (FIPS 197, table 3).
fn rounds(key_bits: u32) -> f64 {
    f64::from(key_bits / 32 + 6)
}

/// Returns the width in bits of the vectors that `tier` passes to the AES unit; `None` if the tier
/// does not use the unit.
fn aes_bits(tier: Tier) -> Option<u32> {
    if tier.has(Feature::Vaes) {
        return Some(tier.bits());
    }
    tier.has(Feature::Aes).then_some(128)
}

/// Returns the minimum number of cycles in which the AES unit could process the blocks of a message
/// of `len` bytes with the vectors of `tier`: blocks × rounds ÷ (blocks in a vector × vectors per
/// cycle). Tweaks, loads and stores are not included. Returns `None` if the tier does not use the
/// unit.
pub(crate) fn xts_cycles(limits: &Limits, tier: Tier, key_bits: u32, len: usize) -> Option<f64> {
    let bits = aes_bits(tier)?;
    let name = match bits {
        128 => AES_XMM,
        256 => AES_YMM,
        _ => AES_ZMM,
    };
    let in_vector = f64::from(bits / 128);
    // With ciphertext stealing, a partial last block costs as much as a full one.
    let blocks = len.div_ceil(BLOCK) as f64;
    Some(blocks * rounds(key_bits) / (in_vector * limits.get(name)?))
}

/// Returns how many cycles the serial chain takes if the IV of each call is the output of the
/// previous call. The chain consists of the AES rounds for the tweak, followed by those for the
/// first block; each round must wait for the previous one.
pub(crate) fn serial_cycles(limits: &Limits, tier: Tier, key_bits: u32) -> Option<f64> {
    aes_bits(tier)?;
    Some(2.0 * rounds(key_bits) * limits.get(AES_LATENCY)?)
}

#[cfg(test)]
mod tests {
    use super::super::Limit;
    use super::*;

    fn reference_machine() -> Limits {
        let limit = |name, value| Limit {
            name,
            what: "",
            value: Some(value),
            low: None,
            high: None,
            unit: "",
            lacks: None,
        };
        Limits {
            all: vec![
                limit(AES_XMM, 2.0),
                limit(AES_YMM, 2.0),
                limit(AES_ZMM, 2.0),
                limit(AES_LATENCY, 4.0),
            ],
        }
    }

    #[test]
    fn limits_are_those_of_the_design() {
        let l = reference_machine();
        let zmm = |bits, len| xts_cycles(&l, Tier::VaesAvx512, bits, len);
        assert_eq!(zmm(256, 16384), Some(1792.0));
        assert_eq!(zmm(256, 4096), Some(448.0));
        assert_eq!(zmm(192, 64), Some(6.0));
        assert_eq!(zmm(128, 64), Some(5.0));
        assert_eq!(xts_cycles(&l, Tier::VaesAvx2, 256, 64), Some(14.0));
        assert_eq!(xts_cycles(&l, Tier::Aesni, 256, 64), Some(28.0));
        assert_eq!(xts_cycles(&l, Tier::Aesni, 256, 17), Some(14.0));
        assert_eq!(xts_cycles(&l, Tier::Generic, 256, 64), None);
        assert_eq!(serial_cycles(&l, Tier::VaesAvx512, 256), Some(112.0));
        assert_eq!(serial_cycles(&l, Tier::Generic, 256), None);
    }

    #[test]
    fn what_was_not_measured_limits_nothing() {
        let none = Limits::default();
        assert_eq!(xts_cycles(&none, Tier::Aesni, 256, 64), None);
        assert_eq!(serial_cycles(&none, Tier::Aesni, 256), None);
    }
}
