//! The parameters in a request to create a session (section 5.9.7.2.1). They form the fixed-length
//! part of the request, which differs between kinds of sessions.

use super::algo::{HASH_MODE_AUTH, HASH_MODE_PLAIN, SYM_OP_CHAIN, SYM_OP_CIPHER};
use super::bytes::{Put, Reader};
use super::{Fault, Service};

/// `struct virtio_crypto_cipher_session_flf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cipher {
    /// One of the numbers in [`super::algo::cipher`].
    pub algo: u32,
    /// Key length in bytes.
    pub key_len: u32,
    /// [`super::algo::OP_ENCRYPT`] or [`super::algo::OP_DECRYPT`].
    pub op: u32,
}

/// `struct virtio_crypto_hash_create_session_flf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash {
    /// One of the numbers in [`super::algo::hash`].
    pub algo: u32,
    /// Requested digest length in bytes.
    pub result_len: u32,
}

/// `struct virtio_crypto_mac_create_session_flf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mac {
    /// One of the numbers in [`super::algo::mac`].
    pub algo: u32,
    /// Requested MAC length in bytes.
    pub result_len: u32,
    /// Key length in bytes.
    pub key_len: u32,
}

/// `struct virtio_crypto_alg_chain_session_flf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// [`super::algo::HASH_THEN_CIPHER`] or [`super::algo::CIPHER_THEN_HASH`].
    pub order: u32,
    pub cipher: Cipher,
    pub hash: ChainHash,
    /// Length of the associated data in bytes. Each request repeats this length.
    pub aad_len: u32,
}

/// The parameters of the hash or MAC in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainHash {
    /// `VIRTIO_CRYPTO_SYM_HASH_MODE_PLAIN`.
    Plain(Hash),
    /// `VIRTIO_CRYPTO_SYM_HASH_MODE_AUTH`.
    Auth(Mac),
}

/// `struct virtio_crypto_aead_create_session_flf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aead {
    /// One of the numbers in [`super::algo::aead`].
    pub algo: u32,
    /// Key length in bytes.
    pub key_len: u32,
    /// Tag length in bytes.
    pub tag_len: u32,
    /// Length of the associated data in bytes. Each request repeats this length.
    pub aad_len: u32,
    /// [`super::algo::OP_ENCRYPT`] or [`super::algo::OP_DECRYPT`].
    pub op: u32,
}

/// `struct virtio_crypto_akcipher_create_session_flf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Akcipher {
    /// One of the numbers in [`super::algo::akcipher`].
    pub algo: u32,
    /// [`super::algo::akcipher::PUBLIC`] or [`super::algo::akcipher::PRIVATE`].
    pub key_type: u32,
    /// Key length in bytes.
    pub key_len: u32,
    /// For RSA, the padding and the hash. For ECDSA, the curve and an unused word.
    pub para: [u32; 2],
}

/// The kind and parameters of a session to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// A cipher without a hash or MAC.
    Cipher(Cipher),
    /// A cipher chained with a hash or MAC.
    Chain(Chain),
    Hash(Hash),
    Mac(Mac),
    Aead(Aead),
    /// RSA or ECDSA.
    Akcipher(Akcipher),
}

/// Number of bytes before the `op_type` of a symmetric session's parameters.
const SYM: usize = 48;
/// Size in bytes of the algorithm-specific part of an akcipher session.
const AKCIPHER_ALGO: usize = 44;

impl Chain {
    fn parse(r: &mut Reader<'_>) -> Result<Chain, Fault> {
        let [order, mode] = r.words()?;
        let cipher = Cipher::parse(r)?;
        let [algo, result_len, key_len, _] = r.words()?;
        let hash = ChainHash::new(mode, algo, result_len, key_len)?;
        let [aad_len, _] = r.words()?;
        Ok(Chain {
            order,
            cipher,
            hash,
            aad_len,
        })
    }
}

impl Cipher {
    fn parse(r: &mut Reader<'_>) -> Result<Cipher, Fault> {
        let [algo, key_len, op, _] = r.words()?;
        Ok(Cipher { algo, key_len, op })
    }
}

impl ChainHash {
    pub(super) fn new(mode: u32, algo: u32, result_len: u32, key_len: u32) -> Result<Self, Fault> {
        match mode {
            HASH_MODE_PLAIN => Ok(ChainHash::Plain(Hash { algo, result_len })),
            HASH_MODE_AUTH => Ok(ChainHash::Auth(Mac {
                algo,
                result_len,
                key_len,
            })),
            mode => Err(Fault::HashMode(mode)),
        }
    }

    /// Returns the hash mode, algorithm, result length and key length, in the order in which they
    /// are encoded.
    pub(super) fn words(self) -> [u32; 4] {
        match self {
            ChainHash::Plain(h) => [HASH_MODE_PLAIN, h.algo, h.result_len, 0],
            ChainHash::Auth(m) => [HASH_MODE_AUTH, m.algo, m.result_len, m.key_len],
        }
    }
}

impl Create {
    /// Returns the service to which the session belongs.
    pub fn service(&self) -> Service {
        match self {
            Create::Cipher(_) | Create::Chain(_) => Service::Cipher,
            Create::Hash(_) => Service::Hash,
            Create::Mac(_) => Service::Mac,
            Create::Aead(_) => Service::Aead,
            Create::Akcipher(_) => Service::Akcipher,
        }
    }

    /// Returns the lengths of the first and the second key in bytes. Only a chain with a MAC has a
    /// second key.
    pub(crate) fn key_lens(&self) -> [u32; 2] {
        match self {
            Create::Cipher(c) => [c.key_len, 0],
            Create::Chain(c) => [c.cipher.key_len, c.hash.words()[3]],
            Create::Hash(_) => [0, 0],
            Create::Mac(m) => [m.key_len, 0],
            Create::Aead(a) => [a.key_len, 0],
            Create::Akcipher(a) => [a.key_len, 0],
        }
    }

    /// Parses the fixed part of a control request, without the padding.
    pub(super) fn parse(service: Service, r: &mut Reader<'_>) -> Result<Create, Fault> {
        match service {
            Service::Cipher => {
                let mut body = Reader(r.take(SYM)?);
                let [op_type, _] = r.words()?;
                match op_type {
                    SYM_OP_CIPHER => Ok(Create::Cipher(Cipher::parse(&mut body)?)),
                    SYM_OP_CHAIN => Ok(Create::Chain(Chain::parse(&mut body)?)),
                    n => Err(Fault::OpType(n)),
                }
            }
            Service::Hash => {
                let [algo, result_len] = r.words()?;
                Ok(Create::Hash(Hash { algo, result_len }))
            }
            Service::Mac => {
                let [algo, result_len, key_len, _] = r.words()?;
                Ok(Create::Mac(Mac {
                    algo,
                    result_len,
                    key_len,
                }))
            }
            Service::Aead => {
                let [algo, key_len, tag_len, aad_len, op, _] = r.words()?;
                Ok(Create::Aead(Aead {
                    algo,
                    key_len,
                    tag_len,
                    aad_len,
                    op,
                }))
            }
            Service::Akcipher => {
                let [algo, key_type, key_len] = r.words()?;
                let para = Reader(r.take(AKCIPHER_ALGO)?).words()?;
                Ok(Create::Akcipher(Akcipher {
                    algo,
                    key_type,
                    key_len,
                    para,
                }))
            }
        }
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match *self {
            Create::Cipher(c) => {
                out.words(&[c.algo, c.key_len, c.op]);
                out.pad(start, SYM);
                out.words(&[SYM_OP_CIPHER, 0]);
            }
            Create::Chain(c) => {
                let [mode, algo, result_len, key_len] = c.hash.words();
                out.words(&[c.order, mode]);
                out.words(&[c.cipher.algo, c.cipher.key_len, c.cipher.op, 0]);
                out.words(&[algo, result_len, key_len, 0, c.aad_len, 0]);
                out.words(&[SYM_OP_CHAIN, 0]);
            }
            Create::Hash(h) => out.words(&[h.algo, h.result_len]),
            Create::Mac(m) => out.words(&[m.algo, m.result_len, m.key_len, 0]),
            Create::Aead(a) => {
                out.words(&[a.algo, a.key_len, a.tag_len, a.aad_len, a.op, 0]);
            }
            Create::Akcipher(a) => {
                out.words(&[a.algo, a.key_type, a.key_len]);
                let start = out.len();
                out.words(&a.para);
                out.pad(start, AKCIPHER_ALGO);
            }
        }
    }

    /// Returns the value of the `algo` field in the request header.
    pub fn algo(&self) -> u32 {
        match self {
            Create::Cipher(c) => c.algo,
            Create::Chain(c) => c.cipher.algo,
            Create::Hash(h) => h.algo,
            Create::Mac(m) => m.algo,
            Create::Aead(a) => a.algo,
            Create::Akcipher(a) => a.algo,
        }
    }
}
