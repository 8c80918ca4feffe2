//! Computes cyclic redundancy checks (CRCs) for an arbitrary polynomial, using a single lookup
//! table. The results of a tree's functions are compared with these values.

/// A CRC, defined by its polynomial.
pub(super) struct Crc {
    /// Whether the lowest bit of a byte is processed first.
    lsb: bool,
    bits: u32,
    table: [u64; 256],
}

impl Crc {
    /// Parses `crc-lsb:` or `crc-msb:`, followed by the polynomial in hex. The polynomial is
    /// written without its highest term and with leading zeros, so the number of digits determines
    /// the CRC's width.
    pub(super) fn parse(name: &str) -> Option<Crc> {
        let (order, polynomial) = name.strip_prefix("crc-")?.split_once(':')?;
        let lsb = match order {
            "lsb" => true,
            "msb" => false,
            _ => return None,
        };
        let bits = 4 * polynomial.len() as u32;
        let polynomial = u64::from_str_radix(polynomial, 16).ok()?;
        let byte = |n: usize| match lsb {
            true => (0..8).fold(n as u64, |crc, _| match crc & 1 {
                0 => crc >> 1,
                _ => crc >> 1 ^ polynomial,
            }),
            false => (0..8).fold((n as u64) << (bits - 8), |crc, _| {
                match crc >> (bits - 1) & 1 {
                    0 => crc << 1,
                    _ => crc << 1 ^ polynomial,
                }
            }),
        };
        Some(Crc {
            lsb,
            bits,
            table: std::array::from_fn(byte),
        })
    }

    fn continue_from(&self, begin: u64, message: &[u8]) -> u64 {
        // If the CRC is narrower than 64 bits, discard the bits that are shifted out of it.
        let mask = u64::MAX >> (64 - self.bits);
        message.iter().fold(begin, |crc, &byte| match self.lsb {
            true => crc >> 8 ^ self.table[usize::from(crc as u8 ^ byte)],
            false => {
                let top = (crc >> (self.bits - 8)) as u8;
                (crc << 8 ^ self.table[usize::from(top ^ byte)]) & mask
            }
        })
    }

    /// Computes the CRC of a message. The register starts at `invert` and is XORed with `invert` at
    /// the end. Stores the low `to.len()` bytes of the CRC in `to`.
    pub(super) fn store(&self, invert: u64, message: &[u8], to: &mut [u8]) {
        let crc = self.continue_from(invert, message) ^ invert;
        to.copy_from_slice(&crc.to_le_bytes()[..to.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values for "123456789" are from the CRC catalogue: CRC-32, CRC-16/T10-DIF,
    /// CRC-64/ECMA-182 and CRC-64/NVME.
    #[test]
    fn crcs_of_the_usual_nine_bytes() {
        for (name, invert, bytes, check) in [
            ("crc-lsb:edb88320", u64::from(u32::MAX), 4, 0xcbf4_3926),
            ("crc-lsb:82f63b78", u64::from(u32::MAX), 4, 0xe306_9283),
            ("crc-msb:8bb7", 0, 2, 0xd0db),
            ("crc-msb:42f0e1eba9ea3693", 0, 8, 0x6c40_df5f_0b49_7347),
            (
                "crc-lsb:9a6c9329ac4bc9b5",
                u64::MAX,
                8,
                0xae8b_1486_0a79_9888_u64,
            ),
        ] {
            let crc = Crc::parse(name).unwrap();
            let mut found = vec![0; bytes];
            crc.store(invert, b"123456789", &mut found);
            assert_eq!(found, check.to_le_bytes()[..bytes], "{name}");
        }
        assert!(Crc::parse("crc-both:8bb7").is_none() && Crc::parse("nh_generic").is_none());
    }
}
