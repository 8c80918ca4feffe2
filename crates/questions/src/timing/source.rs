//! Where candidates come from: Kiln's own implementations, other libraries, a kernel tree.

use std::borrow::Cow;

use kiln_question::Error;
use zeroize::Zeroizing;

use super::candidate::{Candidate, Judge, Takes};
use super::level::Level;
use super::shape::{Kind, Op, Shape};

/// An algorithm as it is timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// The kernel's name.
    pub name: Cow<'static, str>,
    /// What it is.
    pub kind: Kind,
    /// Sizes of its key, in bits as rows have them, ascending; a single 0 if it has none.
    pub key_bits: Vec<u32>,
    /// Bytes of an IV.
    pub iv: usize,
    /// Bytes before the message: see [`Shape`].
    pub prefix: usize,
    /// Bytes of a tag.
    pub tag: usize,
    /// Bytes of a digest.
    pub digest: usize,
    /// Lengths it takes.
    pub takes: Takes,
    /// Lengths that are measured in addition to the usual ones, for functions that take few lengths.
    pub more: Vec<usize>,
}

impl Spec {
    /// What one call looks like.
    pub(crate) fn shape(&self, op: Op, len: usize) -> Shape {
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

    /// Whether both take and give the same bytes.
    pub(crate) fn is_like(&self, other: &Spec) -> bool {
        let keyed = |s: &Spec| s.key_bits != [0];
        keyed(self) == keyed(other)
            && (self.kind, self.iv, self.prefix, self.tag, self.digest)
                == (other.kind, other.iv, other.prefix, other.tag, other.digest)
    }

    /// Bytes of a whole key of this size: [`key_bytes`].
    pub(crate) fn key_bytes(&self, bits: u32) -> usize {
        key_bytes(&self.name, bits)
    }

    /// The size of key that is measured when nobody asks for another: 256 bits, or the largest there is.
    pub(crate) fn usual_key(&self) -> u32 {
        match self.key_bits.contains(&256) {
            true => 256,
            false => self.key_bits.last().copied().unwrap_or(0),
        }
    }

    /// What a table may be headed with: `AES-256-XTS` or `sha256`.
    pub(crate) fn title(&self, key_bits: u32) -> String {
        title(&self.name, key_bits)
    }
}

/// Bytes of a whole key, for a cipher's key of `bits`: XTS takes two of them, LRW a block more, and some AEADs a salt.
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

/// The inverse: bits of the cipher's key, for a whole key of so many bytes.
pub(super) fn bits_of_key(alg: &str, bytes: usize) -> Option<u32> {
    let bits = (1..=bytes as u32).map(|n| 8 * n);
    bits.into_iter().find(|&bits| key_bytes(alg, bits) == bytes)
}

/// `AES-256-XTS`, `AES-256, cbc(aes)` or `sha256`.
pub(super) fn title(alg: &str, key_bits: u32) -> String {
    match (alg, key_bits) {
        ("xts(aes)", bits) => format!("AES-{bits}-XTS"),
        (alg, 0) => alg.to_string(),
        (alg, bits) => format!("{alg}, {bits}-bit key"),
    }
}

/// What all candidates of a table do.
pub(crate) struct Work {
    /// The algorithm.
    pub spec: Spec,
    /// The operation.
    pub op: Op,
    /// Bits of the key.
    pub key_bits: u32,
    /// The whole key.
    pub key: Zeroizing<Vec<u8>>,
}

impl Work {
    /// What one call looks like.
    pub(crate) fn shape(&self, len: usize) -> Shape {
        self.spec.shape(self.op, len)
    }

    /// For notes.
    pub(crate) fn what(&self, len: usize) -> String {
        format!("{} {}, {len} B", self.spec.title(self.key_bits), self.op)
    }

    /// The same with another operation.
    pub(crate) fn with_op(&self, op: Op) -> Work {
        Work {
            spec: self.spec.clone(),
            op,
            key_bits: self.key_bits,
            key: self.key.clone(),
        }
    }
}

/// Which candidates are wanted.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    /// Names; all if empty.
    pub impls: &'a [String],
    /// At this level; at all if none.
    pub level: Option<Level>,
    /// Each call's IV is the last call's result.
    pub latency: bool,
}

impl Choice<'_> {
    /// Whether this one is.
    pub(crate) fn wants(&self, name: &str, level: Level) -> bool {
        let named = self.impls.is_empty() || self.impls.iter().any(|n| n == name);
        named && self.level.is_none_or(|l| l == level)
    }
}

/// A source of candidates.
pub(crate) trait Source {
    /// Algorithms it has.
    fn algorithms(&self) -> Vec<Spec>;

    /// Names of its candidates for an algorithm with the levels they are called at, whether or not they run here.
    fn names(&self, alg: &str) -> Vec<(String, Level)>;

    /// Refuses a name that is there but cannot run here.
    fn usable(&self, _alg: &str, _name: &str) -> Result<(), Error> {
        Ok(())
    }

    /// The candidates wanted; notes say who is absent and why.
    fn candidates(
        &self,
        work: &Work,
        choice: Choice,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Candidate<'_>>, Error>;

    /// Who has the answers; nobody, for a source that is only judged.
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
