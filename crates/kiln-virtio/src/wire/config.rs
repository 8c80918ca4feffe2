//! The device's configuration space (section 5.9.5).

use super::bytes::{Put, Reader};
use super::{Fault, Service};

/// Size of `struct virtio_crypto_config` in bytes.
pub const SIZE: usize = 56;
/// `VIRTIO_CRYPTO_S_HW_READY`.
pub const HW_READY: u32 = 1;

/// `struct virtio_crypto_config`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// [`HW_READY`] or 0.
    pub status: u32,
    /// Number of data queues. The control queue follows them.
    pub max_dataqueues: u32,
    /// Bit mask of the offered [`Service`]s.
    pub crypto_services: u32,
    /// Bit mask of the algorithms in [`super::algo::cipher`].
    pub cipher_algo: u64,
    /// Bit mask of the algorithms in [`super::algo::hash`].
    pub hash_algo: u32,
    /// Bit mask of the algorithms in [`super::algo::mac`].
    pub mac_algo: u64,
    /// Bit mask of the algorithms in [`super::algo::aead`].
    pub aead_algo: u32,
    /// Maximum cipher key length in bytes.
    pub max_cipher_key_len: u32,
    /// Maximum authentication key length in bytes.
    pub max_auth_key_len: u32,
    /// Bit mask of the algorithms in [`super::algo::akcipher`].
    pub akcipher_algo: u32,
    /// Maximum size in bytes of a data request's variable-length parameters.
    pub max_size: u64,
}

impl Config {
    /// Encodes the configuration space into the byte layout that the specification defines.
    pub fn emit(&self) -> [u8; SIZE] {
        let mut out = Vec::with_capacity(SIZE);
        out.words(&[self.status, self.max_dataqueues, self.crypto_services]);
        out.u64(self.cipher_algo);
        out.words(&[self.hash_algo]);
        out.u64(self.mac_algo);
        out.words(&[
            self.aead_algo,
            self.max_cipher_key_len,
            self.max_auth_key_len,
            self.akcipher_algo,
        ]);
        out.u64(self.max_size);
        out.try_into().expect("the words above are so many bytes")
    }

    pub fn parse(bytes: &[u8]) -> Result<Config, Fault> {
        let mut r = Reader(bytes);
        Ok(Config {
            status: r.u32()?,
            max_dataqueues: r.u32()?,
            crypto_services: r.u32()?,
            cipher_algo: r.u64()?,
            hash_algo: r.u32()?,
            mac_algo: r.u64()?,
            aead_algo: r.u32()?,
            max_cipher_key_len: r.u32()?,
            max_auth_key_len: r.u32()?,
            akcipher_algo: r.u32()?,
            max_size: r.u64()?,
        })
    }

    /// Returns whether the device offers a service, according to `crypto_services`.
    pub fn has(&self, service: Service) -> bool {
        self.crypto_services & 1 << service as u32 != 0
    }

    /// Returns whether this algorithm of the service is offered.
    pub fn offers(&self, service: Service, algo: u32) -> bool {
        let mask = match service {
            Service::Cipher => self.cipher_algo,
            Service::Hash => self.hash_algo.into(),
            Service::Mac => self.mac_algo,
            Service::Aead => self.aead_algo.into(),
            Service::Akcipher => self.akcipher_algo.into(),
        };
        self.has(service) && mask.checked_shr(algo).unwrap_or(0) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let config = Config {
            status: HW_READY,
            max_dataqueues: 2,
            crypto_services: 3,
            cipher_algo: 4 << 32 | 5,
            hash_algo: 6,
            mac_algo: 7 << 32 | 8,
            aead_algo: 9,
            max_cipher_key_len: 10,
            max_auth_key_len: 11,
            akcipher_algo: 12,
            max_size: 13,
        };
        let bytes = config.emit();
        // Check the offsets against the specification's structure.
        assert_eq!((bytes[12], bytes[16], bytes[24], bytes[28]), (5, 4, 8, 7));
        assert_eq!((bytes[44], bytes[48]), (12, 13));
        assert_eq!(Config::parse(&bytes), Ok(config));
        assert!(config.offers(Service::Cipher, 34) && !config.offers(Service::Cipher, 64));
        assert!(
            !config.offers(Service::Mac, 3),
            "the service is not offered"
        );
    }
}
