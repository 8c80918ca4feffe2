//! The fixed parts of data requests, which contain the lengths of the variable parts.

use super::algo::{SYM_OP_CHAIN, SYM_OP_CIPHER};
use super::bytes::{Put, Reader};
use super::{Action, Fault, Service};

/// `VIRTIO_CRYPTO_SYM_DATA_REQ_HDR_SIZE`: number of bytes before the `op_type` of a symmetric
/// request.
const SYM: usize = 40;

/// `struct virtio_crypto_cipher_data_flf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cipher {
    /// IV length in bytes.
    pub iv_len: u32,
    /// Source length in bytes.
    pub src_len: u32,
    /// Destination length in bytes.
    pub dst_len: u32,
}

/// `struct virtio_crypto_alg_chain_data_flf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// IV length in bytes.
    pub iv_len: u32,
    /// Source length in bytes.
    pub src_len: u32,
    /// Destination length in bytes, not counting the hash.
    pub dst_len: u32,
    /// Offset in the source where the cipher starts.
    pub cipher_start: u32,
    /// Number of bytes that the cipher processes.
    pub cipher_len: u32,
    /// Offset of the hashed region in the source or, if the cipher runs first, in the destination.
    pub hash_start: u32,
    /// Length of the hashed region in bytes, not counting the associated data.
    pub hash_len: u32,
    /// Length in bytes of the associated data, which is hashed first.
    pub aad_len: u32,
    /// Requested hash length in bytes.
    pub result_len: u32,
}

/// `struct virtio_crypto_hash_data_flf`, also used for MACs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Source length in bytes.
    pub src_len: u32,
    /// Result length in bytes.
    pub result_len: u32,
}

/// `struct virtio_crypto_aead_data_flf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aead {
    /// IV length in bytes.
    pub iv_len: u32,
    /// Length of the associated data in bytes.
    pub aad_len: u32,
    /// Source length in bytes. For decryption, it includes the tag, which follows the text.
    pub src_len: u32,
    /// Destination size in bytes. For encryption, it includes the tag.
    pub dst_len: u32,
    /// Tag length in bytes. In the legacy format, 0 selects the session's tag length, because
    /// Linux's header lacks this field.
    pub tag_len: u32,
}

/// `struct virtio_crypto_akcipher_data_flf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Akcipher {
    /// Source length in bytes. In a signature verification, this is the length of the signature.
    pub src_len: u32,
    /// Destination size in bytes. In a signature verification, this is the length of the signed
    /// data, which follows the signature.
    pub dst_len: u32,
}

/// The fixed part of a data request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A cipher without a hash or MAC.
    Cipher(Cipher),
    /// A cipher chained with a hash or MAC.
    Chain(Chain),
    Hash(Digest),
    Mac(Digest),
    Aead(Aead),
    /// RSA or ECDSA.
    Akcipher(Akcipher),
}

impl Operation {
    /// Returns the service that performs the operation.
    pub fn service(&self) -> Service {
        match self {
            Operation::Cipher(_) | Operation::Chain(_) => Service::Cipher,
            Operation::Hash(_) => Service::Hash,
            Operation::Mac(_) => Service::Mac,
            Operation::Aead(_) => Service::Aead,
            Operation::Akcipher(_) => Service::Akcipher,
        }
    }

    /// Returns the lengths in bytes of the IV, the source and the associated data.
    pub(super) fn lens(&self, action: Action) -> [u32; 3] {
        match *self {
            Operation::Cipher(c) => [c.iv_len, c.src_len, 0],
            Operation::Chain(c) => [c.iv_len, c.src_len, c.aad_len],
            Operation::Hash(d) | Operation::Mac(d) => [0, d.src_len, 0],
            Operation::Aead(a) => [a.iv_len, a.src_len, a.aad_len],
            Operation::Akcipher(a) if action == Action::Verify => [0, a.src_len, a.dst_len],
            Operation::Akcipher(a) => [0, a.src_len, 0],
        }
    }

    /// Returns the number of bytes the device may write, not counting the status.
    pub fn room(&self, action: Action) -> u64 {
        match *self {
            Operation::Cipher(c) => c.dst_len.into(),
            Operation::Chain(c) => u64::from(c.dst_len) + u64::from(c.result_len),
            Operation::Hash(d) | Operation::Mac(d) => d.result_len.into(),
            Operation::Aead(a) => a.dst_len.into(),
            Operation::Akcipher(_) if action == Action::Verify => 0,
            Operation::Akcipher(a) => a.dst_len.into(),
        }
    }

    pub(super) fn parse(service: Service, r: &mut Reader<'_>) -> Result<Operation, Fault> {
        Ok(match service {
            Service::Cipher => {
                let mut body = Reader(r.take(SYM)?);
                let [op_type, _] = r.words()?;
                match op_type {
                    SYM_OP_CIPHER => Operation::Cipher(Cipher::parse(&mut body)?),
                    SYM_OP_CHAIN => Operation::Chain(Chain::parse(&mut body)?),
                    n => return Err(Fault::OpType(n)),
                }
            }
            Service::Hash => Operation::Hash(Digest::parse(r)?),
            Service::Mac => Operation::Mac(Digest::parse(r)?),
            Service::Aead => {
                let [iv_len, aad_len, src_len, dst_len, tag_len, _] = r.words()?;
                Operation::Aead(Aead {
                    iv_len,
                    aad_len,
                    src_len,
                    dst_len,
                    tag_len,
                })
            }
            Service::Akcipher => Operation::Akcipher(Akcipher::parse(r)?),
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match *self {
            Operation::Cipher(c) => {
                out.words(&c.words());
                out.pad(start, SYM);
                out.words(&[SYM_OP_CIPHER, 0]);
            }
            Operation::Chain(c) => {
                out.words(&c.words());
                out.words(&[0, SYM_OP_CHAIN, 0]);
            }
            Operation::Hash(d) | Operation::Mac(d) => out.words(&[d.src_len, d.result_len]),
            Operation::Aead(a) => {
                out.words(&[a.iv_len, a.aad_len, a.src_len, a.dst_len, a.tag_len, 0]);
            }
            Operation::Akcipher(a) => out.words(&[a.src_len, a.dst_len]),
        }
    }
}

impl Cipher {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Cipher, Fault> {
        let [iv_len, src_len, dst_len] = r.words()?;
        Ok(Cipher {
            iv_len,
            src_len,
            dst_len,
        })
    }

    pub(super) fn words(self) -> [u32; 3] {
        [self.iv_len, self.src_len, self.dst_len]
    }
}

impl Chain {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Chain, Fault> {
        let [iv_len, src_len, dst_len, cipher_start, cipher_len, hash_start, hash_len, aad_len, result_len] =
            r.words()?;
        Ok(Chain {
            iv_len,
            src_len,
            dst_len,
            cipher_start,
            cipher_len,
            hash_start,
            hash_len,
            aad_len,
            result_len,
        })
    }

    pub(super) fn words(self) -> [u32; 9] {
        [
            self.iv_len,
            self.src_len,
            self.dst_len,
            self.cipher_start,
            self.cipher_len,
            self.hash_start,
            self.hash_len,
            self.aad_len,
            self.result_len,
        ]
    }
}

impl Digest {
    fn parse(r: &mut Reader<'_>) -> Result<Digest, Fault> {
        let [src_len, result_len] = r.words()?;
        Ok(Digest {
            src_len,
            result_len,
        })
    }
}

impl Akcipher {
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Akcipher, Fault> {
        let [src_len, dst_len] = r.words()?;
        Ok(Akcipher { src_len, dst_len })
    }
}
