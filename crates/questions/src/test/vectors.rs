//! Known answers from RFCs, FIPS, NIST's SP 800-38 series, IEEE 1619, and other sources named in
//! the files.
//!
//! Each block of `kernel/ciphers/*/vectors.txt` ([`blocks`]) is one case. Its fields are `alg` (the
//! kernel's name); for ciphers `key`, `iv`, `aad`, `pt`, `ct` and `tag`; and for hashes `msg` and
//! `md`. The format of the values is described at [`bytes`].

use kiln_kbuild::{blocks, bytes};
use kiln_kernel::cipher::{Impl, Op};

use super::expectation::VECTORS;
use super::judge::{judge, same, Judged};
use super::message::{Answer, Message};

/// A message and its known answer.
#[derive(Clone, Debug)]
pub struct Vector {
    /// The algorithm's name in the kernel.
    pub alg: String,
    /// The file that contains the vector, and the source that the vector was taken from.
    pub name: String,
    /// The message to encrypt or digest.
    pub message: Message,
    /// The ciphertext; empty for a hash.
    pub cipher: Vec<u8>,
    /// The tag of an AEAD, or the digest of a hash; empty for other algorithms.
    pub tag: Vec<u8>,
}

impl Vector {
    /// Returns the message for one direction, and the expected result. `with` computes the values
    /// that the standards do not specify: the IV after the call, and the context that `setkey`
    /// derives from the key.
    pub fn task(&self, with: Impl, op: Op) -> Result<(Message, Judged), String> {
        let (message, text) = self.in_direction(op);
        let mut judged = judge(with, op, &message, &self.tag)?;
        judged.answer = Answer {
            text,
            tag: self.tag.clone(),
            iv: judged.answer.iv,
        };
        Ok((message, judged))
    }

    /// Checks the result of `imp` in ordinary memory, for messages that do not fit in the guarded
    /// buffers.
    pub fn check_plainly(&self, imp: Impl, op: Op) -> Result<(), String> {
        let (message, text) = self.in_direction(op);
        let answer = judge(imp, op, &message, &self.tag)?.answer;
        same("output", &answer.text, &text)?;
        same("tag or digest", &answer.tag, &self.tag)
    }

    fn in_direction(&self, op: Op) -> (Message, Vec<u8>) {
        let mut message = self.message.clone();
        let mut text = self.cipher.clone();
        if op == Op::Decrypt {
            std::mem::swap(&mut message.text, &mut text);
        }
        (message, text)
    }
}

/// Returns all known answers of an algorithm.
pub fn of(alg: &str) -> Vec<Vector> {
    // All vectors of an algorithm are in its cipher's folder, so the other folders need not be
    // read.
    let all = Impl::find_all(alg);
    let folder = all.first().and_then(|imp| imp.folder());
    let own = VECTORS.iter().filter(|(name, _)| Some(*name) == folder);
    let read = own.flat_map(|(folder, text)| read(folder, text));
    read.filter(|v| v.alg == alg).collect()
}

/// Reads the known answers in a file.
///
/// # Panics
/// Panics if the file is malformed.
pub fn read(file: &str, text: &str) -> Vec<Vector> {
    let mut all = Vec::new();
    for block in blocks(file, text) {
        let mut vector = Vector {
            alg: String::new(),
            name: format!("{file}, {}", block.source),
            message: Message::default(),
            cipher: Vec::new(),
            tag: Vec::new(),
        };
        for (name, text) in block.fields {
            match name {
                "alg" => vector.alg = text.to_string(),
                "key" => vector.message.key = bytes(text),
                "iv" => vector.message.iv = bytes(text),
                "aad" => vector.message.aad = bytes(text),
                "pt" | "msg" => vector.message.text = bytes(text),
                "ct" => vector.cipher = bytes(text),
                "tag" => {
                    vector.tag = bytes(text);
                    vector.message.tag_size = vector.tag.len();
                }
                "md" => vector.tag = bytes(text),
                other => panic!("{file}: {other}"),
            }
        }
        assert!(!vector.alg.is_empty(), "{}: no alg", vector.name);
        all.push(vector);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_vectors_in_its_folder_and_in_no_other() {
        for (folder, text) in VECTORS {
            for vector in read(folder, text) {
                let impls = Impl::find_all(&vector.alg);
                let first = impls.first();
                let first = first.unwrap_or_else(|| panic!("{}: {}", vector.name, vector.alg));
                assert_eq!(first.folder(), Some(*folder), "{}", vector.name);
            }
        }
        for alg in Impl::algorithms() {
            assert!(!of(alg).is_empty(), "{alg}");
        }
    }

    /// Checks the number and the sizes of the vectors from IEEE Std 1619-2018, annex B.
    #[test]
    fn all_nineteen_of_xts_are_there() {
        let all = of("xts(aes)");
        assert_eq!(all.len(), 19);
        for (n, v) in (1..).zip(&all) {
            assert!(v.name.ends_with(&format!(", vector {n}")), "{}", v.name);
            let len = match n {
                1..=3 => 32,
                15..=18 => n + 2,
                _ => 512,
            };
            assert_eq!((v.message.text.len(), v.cipher.len()), (len, len), "{n}");
            let aes_256 = matches!(n, 10..=14);
            let key = if aes_256 { 64 } else { 32 };
            assert_eq!(v.message.key.len(), key, "{n}");
        }
        assert_eq!(all[4].message.text, all[3].cipher);
    }
}
