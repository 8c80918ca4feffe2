//! Expected results for algorithms that neither a driver nor Kiln's ciphers can judge: checksums,
//! computed from their polynomials, and RAID parities, computed byte by byte.

use super::crc::Crc;

/// Computes the expected result for the message in the first slice and writes it to the second
/// slice, whose length must be exactly that of the result.
pub(super) type Answer = fn(&[u8], &mut [u8]);

/// Returns the computation for an algorithm, if this file defines one.
pub(super) fn answer(alg: &str) -> Option<Answer> {
    Some(match alg {
        "crc4" => |src, dst| dst[0] = crc4(src),
        "crc7-be" => |src, dst| crc("crc-msb:12", 0, src, dst),
        "crc8" => |src, dst| crc("crc-msb:07", 0, src, dst),
        "crc16" => |src, dst| crc("crc-lsb:a001", 0, src, dst),
        "crc-ccitt" => |src, dst| crc("crc-lsb:8408", 0, src, dst),
        "crc-itu-t" => |src, dst| crc("crc-msb:1021", 0, src, dst),
        "crc32" => |src, dst| crc("crc-lsb:edb88320", 0, src, dst),
        "crc32-be" => |src, dst| crc("crc-msb:04c11db7", 0, src, dst),
        "crc64-be" => |src, dst| crc("crc-msb:42f0e1eba9ea3693", 0, src, dst),
        "crc64-nvme" => |src, dst| crc("crc-lsb:9a6c9329ac4bc9b5", u64::MAX, src, dst),
        "xor" => |src, dst| parities(src, dst, false),
        "raid6" => |src, dst| parities(src, dst, true),
        "raid6-recover-2data" => recover_2data,
        "raid6-recover-datap" => recover_datap,
        // If the first byte of a message is odd, the tree's wrapper verifies a modified message,
        // and the signature must be rejected with -EKEYREJECTED (-129): see hashes.c.
        "ml-dsa-44" | "ml-dsa-65" | "ml-dsa-87" => |src, dst| {
            let verdict = -129 * i32::from(src[0] & 1);
            dst.copy_from_slice(&verdict.to_le_bytes());
        },
        _ => return None,
    })
}

fn crc(name: &str, invert: u64, src: &[u8], dst: &mut [u8]) {
    let crc = Crc::parse(name).expect("a polynomial");
    crc.store(invert, src, dst);
}

/// Computes a CRC with the polynomial x^4 + x^2 + x + 1. The message is treated as a little-endian
/// number and processed from its most significant bit.
fn crc4(src: &[u8]) -> u8 {
    let mut crc = 0;
    for &byte in src.iter().rev() {
        for bit in (0..8).rev() {
            let top = (crc >> 3) ^ ((byte >> bit) & 1);
            crc = ((crc << 1) & 0xf) ^ (7 * top);
        }
    }
    crc
}

/// Multiplies in the field of RAID 6, whose elements are bytes modulo x^8 + x^4 + x^3 + x^2 + 1.
fn product(a: u8, b: u8) -> u8 {
    let mut sum = 0;
    let mut power = a;
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            sum ^= power;
        }
        power = (power << 1) ^ (0x1d * (power >> 7));
    }
    sum
}

/// Computes 1 / a as a^254, because a^255 is 1 for each of the field's 255 nonzero elements.
fn inverse(a: u8) -> u8 {
    (0..254).fold(1, |power, _| product(power, a))
}

/// Computes 2^n, the coefficient of the n-th disk in Q.
fn generator(n: usize) -> u8 {
    (0..n).fold(1, |power, _| product(power, 2))
}

/// Computes P and, if requested, Q for four disks.
fn parities(src: &[u8], dst: &mut [u8], with_q: bool) {
    let size = src.len() / 4;
    let (p, q) = dst.split_at_mut(size);
    for i in 0..size {
        let disk = |n: usize| src[n * size + i];
        p[i] = (0..4).fold(0, |sum, n| sum ^ disk(n));
        if with_q {
            q[i] = (0..4).fold(0, |sum, n| sum ^ product(disk(n), generator(n)));
        }
    }
}

/// Recovers the first two disks from the third, the fourth, P and Q.
fn recover_2data(src: &[u8], dst: &mut [u8]) {
    let size = src.len() / 4;
    let (first, second) = dst.split_at_mut(size);
    for i in 0..size {
        let [c, d, p, q] = [0, 1, 2, 3].map(|n| src[n * size + i]);
        // Solve a + b = x and a + 2 b = y.
        let x = p ^ c ^ d;
        let y = q ^ product(c, generator(2)) ^ product(d, generator(3));
        second[i] = product(x ^ y, inverse(1 ^ 2));
        first[i] = x ^ second[i];
    }
}

/// Recovers the first disk and P from the other disks and Q.
fn recover_datap(src: &[u8], dst: &mut [u8]) {
    let size = src.len() / 4;
    let (first, p) = dst.split_at_mut(size);
    for i in 0..size {
        let [b, c, d, q] = [0, 1, 2, 3].map(|n| src[n * size + i]);
        let others = product(b, 2) ^ product(c, generator(2)) ^ product(d, generator(3));
        first[i] = q ^ others;
        p[i] = first[i] ^ b ^ c ^ d;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values for "123456789" are from the CRC catalogue.
    #[test]
    fn checksums_have_their_check_values() {
        let check = |alg: &str, bytes: usize| {
            let mut dst = [0; 8];
            answer(alg).unwrap()(b"123456789", &mut dst[..bytes]);
            u64::from_le_bytes(dst)
        };
        for (alg, bytes, value) in [
            ("crc7-be", 1, 0x75 << 1),
            ("crc8", 1, 0xf4),
            ("crc16", 2, 0xbb3d),
            ("crc-ccitt", 2, 0x2189),
            ("crc-itu-t", 2, 0x31c3),
            ("crc64-be", 8, 0x6c40_df5f_0b49_7347),
            ("crc64-nvme", 8, 0xae8b_1486_0a79_9888),
        ] {
            assert_eq!(check(alg, bytes), value, "{alg}");
        }
        // Both algorithms are variants of CRC-32 (the second is big-endian) without the inversions
        // that the catalogue's check values include.
        let inverted = |alg: &str, first: &[u8]| {
            let mut message = b"123456789".to_vec();
            message.iter_mut().zip(first).for_each(|(m, f)| *m ^= f);
            let mut dst = [0; 4];
            answer(alg).unwrap()(&message, &mut dst);
            !u32::from_le_bytes(dst)
        };
        assert_eq!(inverted("crc32", &[0xff; 4]), 0xcbf4_3926);
        assert_eq!(inverted("crc32-be", &[0xff; 4]), 0xfc89_1918);
        assert!(answer("sha256").is_none());
    }

    #[test]
    fn what_is_recovered_is_what_was_there() {
        let data: Vec<u8> = (0..2048u32).map(|i| (i * i / 7) as u8).collect();
        let disk = |n: usize| &data[n * 512..][..512];
        let mut pq = [0; 1024];
        parities(&data, &mut pq, true);
        let (p, q) = pq.split_at(512);
        let mut two = [0; 1024];
        recover_2data(&[disk(2), disk(3), p, q].concat(), &mut two);
        assert_eq!(two, [disk(0), disk(1)].concat()[..]);
        recover_datap(&[disk(1), disk(2), disk(3), q].concat(), &mut two);
        assert_eq!(two, [disk(0), p].concat()[..]);
    }
}
