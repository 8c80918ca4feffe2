//! ESP packets (RFC 4303): framing, encryption and authentication.

use crate::cipher::{Context, Impl, Kind, Op};
use crate::crypto::authenc_key;

/// Size in bytes of an ESP header: SPI and sequence number.
pub const HEADER: usize = 8;
/// Size in bytes of the integrity check value, which is a full GCM tag or half of an HMAC-SHA-256
/// digest (RFC 4868).
pub(crate) const ICV: usize = 16;
/// The "next header" value of a tunnel that carries IPv4 packets.
const NEXT_HEADER: u8 = 4;
/// Maximum payload size in bytes, enough for a jumbo frame.
pub const MAX_PAYLOAD: usize = 9216;

/// The algorithms that encrypt and authenticate packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// `rfc4106(gcm(aes))` with 256-bit keys. `seqiv` generates the IVs of outgoing packets.
    Rfc4106,
    /// `authenc(hmac(sha256),cbc(aes))` with 256-bit keys and 128-bit tags. Each packet carries its
    /// own IV.
    CbcHmac,
}

impl Transform {
    /// Returns the algorithm's name in the crypto API.
    pub fn alg(self) -> &'static str {
        match self {
            Transform::Rfc4106 => "seqiv(rfc4106(gcm(aes)))",
            Transform::CbcHmac => "authenc(hmac(sha256),cbc(aes))",
        }
    }

    /// Returns the size in bytes of the IV in a packet.
    pub fn iv_len(self) -> usize {
        match self {
            Transform::Rfc4106 => 8,
            Transform::CbcHmac => 16,
        }
    }

    /// Returns the alignment in bytes. Padding rounds the total length of payload and trailer up to
    /// a multiple of it.
    fn unit(self) -> usize {
        match self {
            Transform::Rfc4106 => 4,
            Transform::CbcHmac => 16,
        }
    }

    /// Returns the length in bytes of a request's associated data. With `seqiv`, the IV is part of
    /// the text, not of the associated data.
    pub(super) fn assoc_len(self) -> usize {
        match self {
            Transform::Rfc4106 => HEADER,
            Transform::CbcHmac => HEADER + 16,
        }
    }

    /// Returns the length in bytes of a packet with a payload of `payload` bytes.
    pub(crate) fn packet_len(self, payload: usize) -> usize {
        HEADER + self.iv_len() + (payload + 2).next_multiple_of(self.unit()) + ICV
    }
}

/// Builds and encrypts the expected packets with one key, using scalar implementations.
pub struct Sealer {
    transform: Transform,
    raw: Vec<u8>,
    cipher: (Impl, Context),
    mac: Option<(Impl, Context)>,
}

fn open(alg: &str, key: &[u8]) -> (Impl, Context) {
    let scalar = Impl::find_all(alg)
        .into_iter()
        .rfind(|i| i.tier() == crate::Tier::Generic);
    let imp = scalar.expect("every algorithm has an implementation without SIMD");
    let key = Context::new(imp, key).expect("a key of the right length");
    (imp, key)
}

impl Sealer {
    /// Creates a sealer with a random key. `random` must fill the buffer that it receives with
    /// random bytes.
    pub fn new(transform: Transform, random: &mut dyn FnMut(&mut [u8])) -> Sealer {
        let mut bytes = [0; 64];
        random(&mut bytes);
        match transform {
            Transform::Rfc4106 => Sealer {
                transform,
                raw: bytes[..36].to_vec(),
                cipher: open("rfc4106(gcm(aes))", &bytes[..36]),
                mac: None,
            },
            Transform::CbcHmac => Sealer {
                transform,
                raw: authenc_key(&bytes[..32], &bytes[32..]),
                cipher: open("cbc(aes)", &bytes[32..]),
                mac: Some(open("hmac(sha256)", &bytes[..32])),
            },
        }
    }

    /// Returns the key in the crypto API's format.
    pub fn key(&self) -> &[u8] {
        &self.raw
    }

    /// Builds a packet before encryption: header, IV, payload, padding (1, 2, 3 …), padding length,
    /// and next header.
    pub fn plain(&self, spi: u32, seq: u32, iv: &[u8], payload: &[u8]) -> Vec<u8> {
        let unit = self.transform.unit();
        let padding = (payload.len() + 2).next_multiple_of(unit) - payload.len() - 2;
        let mut packet = Vec::with_capacity(self.transform.packet_len(payload.len()));
        packet.extend(spi.to_be_bytes());
        packet.extend(seq.to_be_bytes());
        packet.extend(&iv[..self.transform.iv_len()]);
        packet.extend(payload);
        packet.extend((1..=padding).map(|i| i as u8));
        packet.extend([padding as u8, NEXT_HEADER]);
        packet
    }

    /// Encrypts a packet built by [`Sealer::plain`] and appends the ICV.
    pub fn seal(&self, plain: &[u8]) -> Vec<u8> {
        let text = HEADER + self.transform.iv_len();
        let (head, body) = plain.split_at(text);
        let iv = &head[HEADER..];
        let aad = match self.mac {
            None => &head[..HEADER],
            Some(_) => &[],
        };
        let (imp, key) = &self.cipher;
        let (out, mut icv) = once(*imp, key, body, iv, aad);
        let mut packet = [head, &out].concat();
        if let Some((imp, key)) = &self.mac {
            icv = once(*imp, key, &packet, &[], &[]).1;
        }
        packet.extend(&icv[..ICV]);
        packet
    }
}

/// Encrypts or hashes one message with a scalar implementation. Returns the resulting text, and the
/// tag or digest.
fn once(imp: Impl, key: &Context, text: &[u8], iv: &[u8], aad: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let size = match imp.kind() {
        Kind::Hash => imp.digest_size(),
        _ => ICV,
    };
    let mut tag = vec![0; size];
    let sealed = imp.once(Op::Encrypt, key, iv, aad, text, &mut tag);
    (sealed.ok().flatten().expect("a text of some length"), tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_framed_as_the_rfc_has_it() {
        for (transform, len) in [(Transform::Rfc4106, 60), (Transform::CbcHmac, 72)] {
            let sealer = Sealer::new(transform, &mut |b| b.fill(3));
            let plain = sealer.plain(0x0102_0304, 7, &[9; 16], &[0xaa; 23]);
            assert_eq!(plain[..8], [1, 2, 3, 4, 0, 0, 0, 7]);
            let (text, trailer) = plain.split_at(8 + transform.iv_len() + 23);
            assert!(text.ends_with(&[0xaa; 23]));
            let padding = trailer.len() - 2;
            assert_eq!(trailer[padding..], [padding as u8, 4]);
            assert!(trailer[..padding].iter().zip(1..).all(|(&a, b)| a == b));
            let sealed = sealer.seal(&plain);
            assert_eq!(sealed.len(), len);
            assert_eq!(sealed.len(), transform.packet_len(23));
            assert_eq!(
                sealed[..8 + transform.iv_len()],
                plain[..8 + transform.iv_len()]
            );
            assert_ne!(sealed[24..40], plain[24..40]);
        }
    }
}
