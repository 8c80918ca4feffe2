//! Defines the shape of a call: its kind, its operation, and the sizes of its inputs and outputs.

use std::fmt;

use kiln_question::{unknown, Error};

/// Kinds of algorithms that can be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A cipher whose output is as long as its input.
    Skcipher,
    /// A cipher with associated data and a tag.
    Aead,
    /// A hash, a MAC or a checksum. The digest has a fixed size.
    Hash,
    /// A key agreement. The shared secret has a fixed size.
    Kpp,
    /// RAID parity blocks. The output is half as long as the input.
    Parity,
}

impl Kind {
    /// Returns this kind's operations. The first one is the default.
    pub fn ops(self) -> &'static [Op] {
        match self {
            Kind::Skcipher | Kind::Aead => &[Op::Encrypt, Op::Decrypt],
            Kind::Hash | Kind::Parity => &[Op::Digest],
            Kind::Kpp => &[Op::Derive],
        }
    }
}

/// An operation on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Encrypt,
    Decrypt,
    /// Computes a message's digest.
    Digest,
    /// Computes the shared secret from a public value.
    Derive,
}

impl Op {
    /// Returns the operation's name as used in rows and flags.
    pub fn name(self) -> &'static str {
        match self {
            Op::Encrypt => "encrypt",
            Op::Decrypt => "decrypt",
            Op::Digest => "digest",
            Op::Derive => "derive",
        }
    }

    /// Parses an operation's name, such as `encrypt`.
    pub fn parse(name: &str) -> Result<Op, Error> {
        let all = [Op::Encrypt, Op::Decrypt, Op::Digest, Op::Derive];
        all.into_iter()
            .find(|op| op.name() == name)
            .ok_or_else(|| unknown("operation", name, &all.map(Op::name)))
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The kind, the operation and the data sizes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    pub kind: Kind,
    pub op: Op,
    /// Message length in bytes. Rows store it in the field `len`.
    pub len: usize,
    /// Length of the IV in bytes; 0 if the algorithm has no IV.
    pub iv: usize,
    /// Number of bytes in the source before the message: an AEAD's associated data, or a MAC's
    /// one-time key.
    pub prefix: usize,
    /// Length of an AEAD's tag in bytes; the tag follows the ciphertext.
    pub tag: usize,
    /// Length of a digest or a secret in bytes.
    pub digest: usize,
}

impl Shape {
    /// Returns the shape of a cipher's message.
    #[cfg(test)]
    pub fn skcipher(op: Op, len: usize, iv: usize) -> Shape {
        Shape {
            kind: Kind::Skcipher,
            op,
            len,
            iv,
            prefix: 0,
            tag: 0,
            digest: 0,
        }
    }

    /// Returns the source length in bytes.
    pub fn src(&self) -> usize {
        let tag = match (self.kind, self.op) {
            (Kind::Aead, Op::Decrypt) => self.tag,
            _ => 0,
        };
        self.prefix + self.len + tag
    }

    /// Returns the destination length in bytes. For an AEAD, the destination begins with space for
    /// the associated data, which need not be written.
    pub fn dst(&self) -> usize {
        match (self.kind, self.op) {
            (Kind::Skcipher, _) => self.len,
            (Kind::Aead, Op::Encrypt) => self.prefix + self.len + self.tag,
            (Kind::Aead, _) => self.prefix + self.len,
            (Kind::Hash | Kind::Kpp, _) => self.digest,
            (Kind::Parity, _) => self.len / 2,
        }
    }

    /// Returns the number of bytes at the start of the destination whose content is unspecified.
    pub(crate) fn unsaid(&self) -> usize {
        match self.kind {
            Kind::Aead => self.prefix,
            _ => 0,
        }
    }

    /// Returns whether calls can be chained by using the beginning of each result as the IV of the
    /// next call.
    pub fn chains(&self) -> bool {
        self.kind == Kind::Skcipher && self.iv > 0 && self.len >= self.iv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aead_has_its_tag_on_one_side() {
        let seal = Shape {
            kind: Kind::Aead,
            op: Op::Encrypt,
            len: 100,
            iv: 12,
            prefix: 16,
            tag: 16,
            digest: 0,
        };
        assert_eq!((seal.src(), seal.dst(), seal.unsaid()), (116, 132, 16));
        let open = Shape {
            op: Op::Decrypt,
            ..seal
        };
        assert_eq!((open.src(), open.dst()), (132, 116));
        assert!(!seal.chains());
    }

    #[test]
    fn a_hash_gives_its_digest_only() {
        let hash = Shape {
            kind: Kind::Hash,
            op: Op::Digest,
            digest: 32,
            ..Shape::skcipher(Op::Digest, 64, 0)
        };
        assert_eq!((hash.src(), hash.dst(), hash.unsaid()), (64, 32, 0));
    }

    #[test]
    fn operations_have_names() {
        for op in [Op::Encrypt, Op::Decrypt, Op::Digest, Op::Derive] {
            assert_eq!(Op::parse(op.name()), Ok(op));
        }
        let e = Op::parse("sign").unwrap_err().to_string();
        assert!(
            e.contains("choose from encrypt, decrypt, digest, derive"),
            "{e}"
        );
    }
}
