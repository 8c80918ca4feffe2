//! Sources of candidates: Kiln's own implementations, other libraries, and kernel trees.

use std::borrow::Cow;

use kiln_question::Error;
use zeroize::Zeroizing;

use super::candidate::{Candidate, Judge, Takes};
use super::level::Level;
use super::shape::{Kind, Op, Shape};

/// An algorithm with the sizes needed to time it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The algorithm's name in the kernel.
    pub name: Cow<'static, str>,
    pub kind: Kind,
    /// Key sizes in bits, in ascending order. Rows store these sizes in the field `key_bits`. If
    /// the algorithm takes no key, the only entry is 0.
    pub key_bits: Vec<u32>,
    /// Length of the IV in bytes.
    pub iv: usize,
    /// Number of bytes in the source before the message, as in [`Shape`].
    pub prefix: usize,
    /// Length of the tag in bytes.
    pub tag: usize,
    /// Length of the digest in bytes.
    pub digest: usize,
    /// The lengths that the algorithm accepts.
    pub takes: Takes,
    /// Lengths measured in addition to the default ones, for functions that accept only a few
    /// lengths.
    pub more: Vec<usize>,
}

impl Spec {
    /// Returns the shape of a call with a message of `len` bytes.
    pub fn shape(&self, op: Op, len: usize) -> Shape {
        Shape {
            kind: self.kind,
            op,
            len,
            iv: self.iv,
            prefix: self.prefix,
            tag: self.tag,
            digest: self.digest,
        }
    }

    /// Returns whether calls of both algorithms have inputs and outputs of the same kinds and
    /// sizes.
    pub(crate) fn is_like(&self, other: &Spec) -> bool {
        let keyed = |s: &Spec| s.key_bits != [0];
        keyed(self) == keyed(other)
            && (self.kind, self.iv, self.prefix, self.tag, self.digest)
                == (other.kind, other.iv, other.prefix, other.tag, other.digest)
    }

    /// Returns the length in bytes of the complete key for a `bits`-bit cipher key; see
    /// [`key_bytes`].
    pub fn key_bytes(&self, bits: u32) -> usize {
        key_bytes(&self.name, bits)
    }

    /// Returns the default key size in bits: 256 if the algorithm has it, otherwise the largest.
    pub fn usual_key(&self) -> u32 {
        match self.key_bits.contains(&256) {
            true => 256,
            false => self.key_bits.last().copied().unwrap_or(0),
        }
    }

    /// Returns the table heading for this algorithm, such as `AES-256-XTS` or `sha256`.
    pub fn title(&self, key_bits: u32) -> String {
        title(&self.name, key_bits)
    }
}

/// Returns the length in bytes of the complete key for a `bits`-bit cipher key. The complete key
/// consists of two cipher keys for XTS. For LRW it includes an additional block, and for some other
/// modes a salt or nonce.
pub(super) fn key_bytes(alg: &str, bits: u32) -> usize {
    let cipher = bits as usize / 8;
    let template = alg.trim_start_matches("__");
    let of = |names: &[&str]| names.iter().any(|n| template.starts_with(n));
    match () {
        () if cipher == 0 => 0,
        () if of(&["xts("]) => 2 * cipher,
        () if of(&["lrw("]) => cipher + 16,
        () if of(&["rfc4106(", "rfc4543(", "rfc3686(", "rfc7539esp("]) => cipher + 4,
        () if of(&["rfc4309("]) => cipher + 3,
        () => cipher,
    }
}

/// The inverse of [`key_bytes`]: returns the size in bits of the cipher key within a complete key
/// of `bytes` bytes.
pub(super) fn bits_of_key(alg: &str, bytes: usize) -> Option<u32> {
    let bits = (1..=bytes as u32).map(|n| 8 * n);
    bits.into_iter().find(|&bits| key_bytes(alg, bits) == bytes)
}

/// Returns the title of an algorithm, such as `AES-256-XTS`, `AES-256, cbc(aes)` or `sha256`.
pub(super) fn title(alg: &str, key_bits: u32) -> String {
    match (alg, key_bits) {
        ("xts(aes)", bits) => format!("AES-{bits}-XTS"),
        (alg, 0) => alg.to_string(),
        (alg, bits) => format!("{alg}, {bits}-bit key"),
    }
}

/// The operation and the key that all candidates in a table use.
pub struct Work {
    pub spec: Spec,
    pub op: Op,
    /// Size of the cipher's key in bits.
    pub key_bits: u32,
    /// The complete key, including XTS's second key or a salt.
    pub key: Zeroizing<Vec<u8>>,
}

impl Work {
    /// Returns the shape of a call with a message of `len` bytes.
    pub fn shape(&self, len: usize) -> Shape {
        self.spec.shape(self.op, len)
    }

    /// Describes this work on messages of `len` bytes, for use in a note.
    pub fn what(&self, len: usize) -> String {
        format!("{} {}, {len} B", self.spec.title(self.key_bits), self.op)
    }

    /// Returns the same work with another operation.
    pub fn with_op(&self, op: Op) -> Work {
        Work {
            spec: self.spec.clone(),
            op,
            key_bits: self.key_bits,
            key: self.key.clone(),
        }
    }
}

/// Selects the candidates to measure for an algorithm.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// Names of implementations; if empty, all are selected.
    pub impls: &'a [String],
    /// Level of the calls; if `None`, all levels are selected.
    pub level: Option<Level>,
    /// Whether to chain the calls, so that each call's IV is taken from the previous call's result.
    pub latency: bool,
}

impl Choice<'_> {
    /// Returns whether this candidate is selected.
    pub fn wants(&self, name: &str, level: Level) -> bool {
        let named = self.impls.is_empty() || self.impls.iter().any(|n| n == name);
        named && self.level.is_none_or(|l| l == level)
    }
}

/// Supplies candidates and, in most cases, a judge that computes the correct results.
pub trait Source {
    /// Returns the algorithms that the source supports.
    fn algorithms(&self) -> Vec<Spec>;

    /// Returns the names and levels of an algorithm's candidates, including candidates that cannot
    /// run on this machine.
    fn names(&self, alg: &str) -> Vec<(String, Level)>;

    /// Returns an error if `name` exists but cannot run on this machine.
    fn usable(&self, _alg: &str, _name: &str) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the selected candidates. For each missing candidate, adds a note that states the
    /// reason.
    fn candidates(
        &self,
        work: &Work,
        choice: Choice,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Candidate<'_>>, Error>;

    /// Returns the judge for this work; `None` if this source only supplies candidates.
    fn judge(&self, work: &Work) -> Result<Option<Judge<'_>>, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_templates() {
        assert_eq!(key_bytes("xts(aes)", 256), 64);
        assert_eq!(key_bytes("__xts(camellia)", 128), 32);
        assert_eq!(key_bytes("lrw(serpent)", 256), 48);
        assert_eq!(key_bytes("rfc4106(gcm(aes))", 128), 20);
        assert_eq!(key_bytes("gcm(aes)", 192), 24);
        assert_eq!(key_bytes("xts(aes)", 0), 0);
    }

    #[test]
    fn titles() {
        assert_eq!(title("xts(aes)", 256), "AES-256-XTS");
        assert_eq!(title("sha256", 0), "sha256");
        assert_eq!(title("cbc(aes)", 128), "cbc(aes), 128-bit key");
    }

    #[test]
    fn the_usual_key_is_256_bits_or_the_largest() {
        let mut spec = Spec {
            name: "cbc(x)".into(),
            kind: Kind::Skcipher,
            key_bits: vec![128, 256, 448],
            iv: 16,
            prefix: 0,
            tag: 0,
            digest: 0,
            takes: Takes::default(),
            more: Vec::new(),
        };
        assert_eq!(spec.usual_key(), 256);
        spec.key_bits = vec![64, 128];
        assert_eq!(spec.usual_key(), 128);
        spec.key_bits = vec![0];
        assert_eq!(spec.usual_key(), 0);
    }
}
