//! Generates the messages that every build processes, and computes the expected results in this
//! process with another implementation.

use kiln_kernel::cipher::{Impl, Op};
use kiln_measure::SplitMix64;
use kiln_question::{Algorithm, Error};

use super::kernel::judge_of;
use super::subject::{Judge, Subject};
use crate::crypt;

/// The associated data of every message, which must be the same as in `harness/kiln.c`.
const AAD: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// Returns the digest of the expected results, or `None` if builds can only be compared with each
/// other.
pub(super) fn expected(
    subject: &Subject,
    seed: u64,
    len: usize,
    count: usize,
) -> Result<Option<u64>, Error> {
    let Judge::Algorithm { alg, but } = subject.judge else {
        return Ok(None);
    };
    let Some(judge) = judge_of(alg, but) else {
        return Ok(None);
    };
    let (key_bytes, iv_bytes) = (subject.convention.key, subject.convention.iv);
    let mut rng = SplitMix64(seed);
    let mut drawn = |n: usize| {
        let mut bytes = vec![0; n];
        rng.fill(&mut bytes);
        bytes
    };
    let key = drawn(key_bytes);
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for _ in 0..count {
        let text = drawn(len);
        let mut iv = drawn(iv_bytes);
        if alg == "ccm(aes)" {
            iv[0] = 3;
        }
        for byte in encrypt(judge, &key, &iv, text)? {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    Ok(Some(digest))
}

fn encrypt(judge: Impl, key: &[u8], iv: &[u8], text: Vec<u8>) -> Result<Vec<u8>, Error> {
    let aead = judge.kind() == kiln_kernel::cipher::Kind::Aead;
    let plan = crypt::Plan {
        alg: Algorithm::named(judge.alg())
            .ok_or_else(|| Error::input(format!("no algorithm {}", judge.alg())))?,
        imp: Some(judge.driver()),
        op: Op::Encrypt,
        key: (!key.is_empty()).then_some(key),
        iv: (!iv.is_empty()).then_some(iv),
        aad: if aead { &AAD } else { &[] },
        tag: None,
        divide: &[],
    };
    let result = crypt::Cipher::new(&plan)?.crypt(&text, "the message")?;
    Ok(result.to_vec())
}
