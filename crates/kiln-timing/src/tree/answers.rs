//! Expected results that do not depend on the tree's code. They are computed with Kiln's generic
//! implementations and with plain arithmetic. They are needed because, in Linux 7.0 and later, a
//! tree's `-lib` drivers call the very assembly under test, and because some functions compute
//! results that no driver returns.

use std::rc::Rc;

use kiln_kernel::cipher::{self, Context, Impl};
use kiln_tree::primitive::Primitive;

use super::crc::Crc;
use crate::candidate::{Judge, Run};
use crate::source::Work;

/// A function that computes the result of one message. Its arguments are the IV, the source
/// (including the bytes before the message), and the destination.
type Answer = Box<dyn Fn(&[u8], &[u8], &mut [u8]) -> Result<(), String>>;

/// Returns the judge for a row of the tree's function table, or `None` if this file does not define
/// one. `key` is the key that is passed to the function, after any preparation.
pub(super) fn judge(
    row: &Primitive,
    work: &Work,
    key: &[u8],
) -> Option<Result<Judge<'static>, String>> {
    let name = match &row.judge {
        Some(name) => name.as_str(),
        None if row.from_state() => "state",
        None => return None,
    };
    let answer = match name {
        "state" => state(row),
        "aes-set-key" => Ok(aes_set_key()),
        "aes-expandkey" => Ok(aes_expandkey()),
        "xctr" => xctr(&work.key),
        "hchacha" => hchacha(key),
        "nh" => Ok(nh(key)),
        "poly1305" => Ok(poly1305()),
        "sha256-twice" => Ok(sha256_twice()),
        name => match Crc::parse(name) {
            Some(crc) => Ok(checksum(crc, row.extra)),
            None => return None,
        },
    };
    let judge = |answer| Judge {
        name: format!("Kiln's {name}"),
        run: for_each(answer),
    };
    Some(answer.map(judge))
}

/// Returns a closure that computes the results one message at a time.
fn for_each(answer: Answer) -> Run<'static> {
    Box::new(move |messages, calls| {
        let (shape, units) = (messages.shape, messages.iv_units());
        let (from, to) = (messages.src_stride, messages.dst_stride);
        let count = (messages.count() as u64).min(calls) as usize;
        let (ivs, src, dst) = messages.parts();
        for i in 0..count {
            let iv = &ivs[i * units..][..units].as_flattened()[..shape.iv];
            let message = &src[i * from..][..shape.src()];
            answer(iv, message, &mut dst[i * to..][..shape.dst()])?;
        }
        Ok(())
    })
}

/// Returns Kiln's generic implementation of an algorithm, if there is one.
fn generic(alg: &str) -> Option<Impl> {
    Impl::find_all(alg)
        .into_iter()
        .find(|i| i.tier() == kiln_kernel::Tier::Generic)
}

fn keyed(alg: &str, key: &[u8]) -> Result<(Impl, Context), String> {
    let imp = generic(alg).ok_or_else(|| format!("kernel/ has no {alg}"))?;
    let context = Context::new(imp, key);
    let context = context.map_err(|e| format!("{alg} takes no key of {} bytes", e.0))?;
    Ok((imp, context))
}

fn digest(alg: &str, key: &[u8], message: &[u8], to: &mut [u8]) -> Result<(), String> {
    let (imp, context) = keyed(alg, key)?;
    imp.once(cipher::Op::Encrypt, &context, &[], &[], message, to)
        .map(|_| ())
        .map_err(|e| e.to_string())
}

/// Returns the chaining value of the hash `alg` after it has processed `data`. Both Linux and
/// `kernel/` store it at the beginning of their state structures. Returns `None` if `kernel/` does
/// not have the hash.
pub(super) fn state_after(alg: &str, data: &[u8]) -> Option<Vec<u8>> {
    let state = generic(alg)?.unkeyed_state(data)?;
    // The first 64 bytes contain eight words, padded with zeros if the words are shorter than 64
    // bits. Counters come after them.
    Some(state.get(..64)?.to_vec())
}

fn state(row: &Primitive) -> Result<Answer, String> {
    let alg = row.alg.clone();
    state_after(&alg, &[]).ok_or_else(|| format!("kernel/ has no {alg}"))?;
    Ok(Box::new(move |_, message, to| {
        let state = state_after(&alg, message).ok_or("no state")?;
        to.copy_from_slice(&state[..to.len()]);
        Ok(())
    }))
}

/// Bytes reserved for AES round keys in `kernel/ciphers/aes/aes.h` and in Linux's `struct
/// crypto_aes_ctx`. The keys for encryption come first, then those for decryption.
const ROUND_KEYS: usize = 240;

/// Computes the AES round keys for encryption and those for the equivalent inverse cipher.
fn round_keys(key: &[u8]) -> Result<[Vec<u8>; 2], String> {
    let (_, context) = keyed("ecb(aes)", key)?;
    let bytes = 16 * (key.len() / 4 + 7);
    Ok([0, ROUND_KEYS].map(|at| context.bytes()[at..at + bytes].to_vec()))
}

fn aes_set_key() -> Answer {
    Box::new(|_, key, to| {
        for (keys, at) in round_keys(key)?.iter().zip([0, ROUND_KEYS]) {
            to[at..at + keys.len()].copy_from_slice(keys);
        }
        to[2 * ROUND_KEYS..].copy_from_slice(&(key.len() as u32).to_le_bytes());
        Ok(())
    })
}

fn aes_expandkey() -> Answer {
    Box::new(|_, key, to| {
        to.copy_from_slice(&round_keys(key)?.concat());
        Ok(())
    })
}

/// Computes XCTR ("Length-preserving encryption with HCTR2", section 2). To produce each keystream
/// block, the IV is XORed with the block number, which starts at 1, and the result is encrypted.
fn xctr(key: &[u8]) -> Result<Answer, String> {
    let (imp, context) = keyed("ecb(aes)", key)?;
    let context = Rc::new(context);
    Ok(Box::new(move |iv, message, to| {
        let mut counters = Vec::new();
        for n in 1..=message.len().div_ceil(16) as u64 {
            let low = u64::from_le_bytes(iv[..8].try_into().expect("8 bytes"));
            counters.extend((low ^ n).to_le_bytes());
            counters.extend(&iv[8..16]);
        }
        let mut stream = vec![0; counters.len()];
        imp.crypt(cipher::Op::Encrypt, &context, &[], &counters, &mut stream);
        for ((to, from), key) in to.iter_mut().zip(message).zip(stream) {
            *to = from ^ key;
        }
        Ok(())
    }))
}

/// Computes HChaCha, which is ChaCha's block function without the final addition
/// (draft-irtf-cfrg-xchacha, section 2.2). This function undoes the addition by subtracting the
/// initial state from the block function's result.
fn hchacha(key: &[u8]) -> Result<Answer, String> {
    let (imp, context) = keyed("chacha20", key)?;
    let context = Rc::new(context);
    Ok(Box::new(move |_, nonce, to| {
        let mut block = [0; 64];
        imp.crypt(cipher::Op::Encrypt, &context, nonce, &[0; 64], &mut block);
        let begin = [*b"expand 32-byte k", nonce.try_into().expect("16 bytes")].concat();
        let end = [&block[..16], &block[48..]].concat();
        let word = |of: &[u8], at| u32::from_le_bytes(of[at..at + 4].try_into().expect("a word"));
        for at in (0..32).step_by(4) {
            let word = word(&end, at).wrapping_sub(word(&begin, at));
            to[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }))
}

/// Computes NH, as used by Adiantum. Each of the four passes adds 16 message bytes to 16 key bytes,
/// word by word, multiplies the sums in pairs, and accumulates the two products. Each pass starts
/// 16 bytes later in the key than the pass before it. As in `series.c`, the results for all
/// 1024-byte chunks are added up.
fn nh(key: &[u8]) -> Answer {
    let words = |bytes: &[u8]| -> Vec<u32> {
        let all = bytes.chunks_exact(4);
        all.map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
            .collect()
    };
    let key = words(key);
    Box::new(move |_, message, to| {
        let mut sums = [0u64; 4];
        for chunk in message.chunks(1024) {
            for (i, m) in words(chunk).chunks_exact(4).enumerate() {
                for (pass, sum) in sums.iter_mut().enumerate() {
                    let k = &key[4 * (i + pass)..][..4];
                    let add = |n: usize| u64::from(m[n].wrapping_add(k[n]));
                    let both = (add(0) * add(2)).wrapping_add(add(1) * add(3));
                    *sum = sum.wrapping_add(both);
                }
            }
        }
        to.copy_from_slice(&sums.map(u64::to_le_bytes).concat());
        Ok(())
    })
}

/// Computes Poly1305. The message begins with the one-time key.
fn poly1305() -> Answer {
    Box::new(|_, message, to| digest("poly1305", &message[..32], &message[32..], to))
}

/// Computes the SHA-256 of each half of the message.
fn sha256_twice() -> Answer {
    Box::new(|_, message, to| {
        let halves = message.chunks(message.len() / 2).zip(to.chunks_mut(32));
        for (half, to) in halves {
            digest("sha256", &[], half, to)?;
        }
        Ok(())
    })
}

fn checksum(crc: Crc, invert: u64) -> Answer {
    Box::new(move |_, message, to| {
        crc.store(invert, message, to);
        Ok(())
    })
}

/// Prepares a key as the C callers of the tree's functions do.
///
/// # Errors
/// Fails if `how` names an unknown preparation, or the key has the wrong length.
pub(super) fn prepare(how: &str, key: &[u8]) -> Result<Vec<u8>, String> {
    let bytes = |key: &[u8]| <[u8; 16]>::try_from(key).map_err(|_| "a key that is not 16 bytes");
    match how {
        // Convert the GHASH key to a POLYVAL key (RFC 8452, appendix A). With the converted key,
        // POLYVAL computes GHASH, except that the bytes of each block and of the result are in
        // reverse order.
        "ghash" => {
            let h = u128::from_be_bytes(bytes(key)?);
            let carry = (h >> 127) * (0xc2 << 120);
            Ok((h.rotate_left(1) ^ carry).to_le_bytes().to_vec())
        }
        // The result consists of the key's powers in descending order, from the eighth to the
        // first.
        "polyval" => {
            let h = u128::from_le_bytes(bytes(key)?);
            let powers = std::iter::successors(Some(h), |p| Some(dot(*p, h)));
            let mut powers: Vec<_> = powers.take(8).map(u128::to_le_bytes).collect();
            powers.reverse();
            Ok(powers.concat())
        }
        _ => Err(format!("no way to prepare a key is called {how}")),
    }
}

/// Computes a * b * x^-128 in POLYVAL's field (RFC 8452, section 3).
fn dot(a: u128, b: u128) -> u128 {
    (0..128).fold(0, |sum, bit| {
        let sum = sum ^ (a * (b >> bit & 1));
        // Divide by x. The field's polynomial is x^128 + x^127 + x^126 + x^121 + 1.
        (sum >> 1) ^ ((sum & 1) * (0xe1 << 120))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .chars()
            .filter_map(|c| Some(c.to_digit(16)? as u8))
            .collect();
        digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
    }

    fn answer(answer: Answer, message: &[u8], bytes: usize) -> Vec<u8> {
        let mut to = vec![0; bytes];
        answer(&[], message, &mut to).unwrap();
        to
    }

    /// Checks the example in FIPS 197, appendix A.1. The round keys for decryption must begin with
    /// the last one for encryption, and end with the key itself (section 5.3.5).
    #[test]
    fn aes_keys_of_fips_197() {
        let key = hex("2b7e1516 28aed2a6 abf71588 09cf4f3c");
        let last = hex("d014f9a8 c9ee2589 e13f0cc8 b6630ca6");
        let both = answer(aes_expandkey(), &key, 352);
        assert_eq!([&both[..16], &both[160..176]], [&key[..], &last]);
        assert_eq!([&both[176..192], &both[336..]], [&last[..], &key]);
        let context = answer(aes_set_key(), &key, 484);
        assert_eq!(context[..176], both[..176]);
        assert_eq!(context[240..416], both[176..]);
        assert_eq!(context[480..], [16, 0, 0, 0]);
        // The expected bytes are the last round key for the 256-bit key in appendix A.3.
        let key = hex("603deb1015ca71be2b73aef0857d7781 1f352c073b6108d72d9810a30914dff4");
        let both = answer(aes_expandkey(), &key, 480);
        assert_eq!(both[224..240], hex("fe4890d1e6188d0b046df344706c631e"));
    }

    /// The expected bytes are the test vector of draft-irtf-cfrg-xchacha-03, section 2.2.1.
    #[test]
    fn hchacha_of_its_draft() {
        let key: Vec<u8> = (0..32).collect();
        let nonce = hex("000000090000004a0000000031415927");
        let want = hex("82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc");
        assert_eq!(answer(hchacha(&key).unwrap(), &nonce, 32), want);
    }

    /// The expected bytes are the test vector of RFC 8439, section 2.5.2.
    #[test]
    fn poly1305_of_its_rfc() {
        let key = hex("85d6be7857556d337f4452fe42d506a8 0103808afb0db2fd4abff6af4149f51b");
        let message = [&key[..], b"Cryptographic Forum Research Group"].concat();
        let want = hex("a8061dc1305136c6c22b8baf0c0127a9");
        assert_eq!(answer(poly1305(), &message, 16), want);
    }

    /// Checks the example of RFC 8452, appendix A: GHASH of two blocks, computed as POLYVAL of the
    /// converted blocks.
    #[test]
    fn ghash_and_polyval_of_their_rfc() {
        let le = |text| u128::from_le_bytes(hex(text).try_into().unwrap());
        let blocks = [
            "4f4f95668c83dfb6401762bb2d01a262",
            "d1a24ddd2721d006bbe45f20d3c9f362",
        ];
        let polyval = |h, blocks: [u128; 2]| blocks.iter().fold(0, |sum, b| dot(sum ^ b, h));
        let key = "25629347589242761d31f826ba4b757b";
        let want = le("f7a3b47b846119fae5b7866cf5e5b77e");
        assert_eq!(polyval(le(key), blocks.map(le)), want);

        let powers = prepare("polyval", &hex(key)).unwrap();
        assert_eq!(powers[112..], hex(key));
        let second = dot(le(key), le(key));
        assert_eq!(powers[96..112], second.to_le_bytes());

        let h = prepare("ghash", &hex(key)).unwrap();
        let h = u128::from_le_bytes(h.try_into().unwrap());
        let ghash = polyval(h, blocks.map(|b| le(b).swap_bytes()));
        assert_eq!(
            ghash.to_be_bytes()[..],
            hex("bd9b3997046731fb96251b91f9c99d7a")
        );
        assert!(prepare("poly1305", &[0; 16]).is_err() && prepare("ghash", &[0; 15]).is_err());
    }

    /// Checks that hashing two messages in a single call returns the digest of "abc" (FIPS 180-4)
    /// for both. Also checks a hash's initial state.
    #[test]
    fn digests_and_states() {
        let abc = hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let twice = answer(sha256_twice(), b"abcabc", 64);
        assert_eq!(twice, [&abc[..], &abc].concat());
        let begin = state_after("sha256", &[]).unwrap();
        assert_eq!(begin[..4], 0x6a09_e667_u32.to_le_bytes());
        assert_eq!(begin[32..], [0; 32]);
        assert_ne!(state_after("sha256", &[0; 64]).unwrap(), begin);
        assert!(state_after("blake2s", &[]).is_none());
    }
}
