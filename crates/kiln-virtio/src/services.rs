//! The services that a device offers. One implementation per algorithm is chosen at start-up.

use std::sync::Arc;

use kiln_kernel::cipher::Impl;

use crate::akcipher::Library;
use crate::wire::algo::{aead, akcipher, cipher, hash, mac};
use crate::wire::{config, feature, Config, Service};
use crate::Limits;

/// Algorithm numbers from the specification, each paired with the name that `kernel/` uses for the
/// algorithm.
type Names = [(u32, &'static str)];

const CIPHERS: &Names = &[
    (cipher::AES_ECB, "ecb(aes)"),
    (cipher::AES_CBC, "cbc(aes)"),
    (cipher::AES_CTR, "ctr(aes)"),
    (cipher::AES_XTS, "xts(aes)"),
];
const HASHES: &Names = &[
    (hash::SHA1, "sha1"),
    (hash::SHA_256, "sha256"),
    (hash::SHA_512, "sha512"),
];
const MACS: &Names = &[
    (mac::HMAC_SHA1, "hmac(sha1)"),
    (mac::HMAC_SHA_256, "hmac(sha256)"),
    (mac::HMAC_SHA_512, "hmac(sha512)"),
    (mac::CMAC_AES, "cmac(aes)"),
];
const AEADS: &Names = &[
    (aead::GCM, "gcm(aes)"),
    (aead::CCM, "ccm(aes)"),
    (aead::CHACHA20_POLY1305, "rfc7539(chacha20,poly1305)"),
];

/// The chosen implementations, by service and algorithm number.
#[derive(Clone)]
pub struct Services {
    all: Arc<[Vec<(u32, Impl)>; 4]>,
    pub(crate) library: Option<Library>,
}

/// Returns the constant-time implementation with the highest priority. If this machine cannot run
/// any constant-time implementation, returns the usable implementation with the highest priority.
fn choose(alg: &str) -> Option<Impl> {
    let usable = |i: &Impl| i.tier().usable();
    let blind = Impl::find_all(alg)
        .into_iter()
        .rfind(|i| usable(i) && i.constant_time());
    blind.or_else(|| Impl::best(alg))
}

impl Services {
    /// Returns the services available on this machine. RSA and ECDSA need libcrypto.
    pub fn detect() -> Services {
        Services {
            library: crate::akcipher::load(),
            ..Services::symmetric()
        }
    }

    /// Returns all services except RSA and ECDSA.
    pub fn symmetric() -> Services {
        let found = |names: &Names| {
            let named = names.iter().filter_map(|&(n, alg)| Some((n, choose(alg)?)));
            named.collect()
        };
        Services {
            all: Arc::new([CIPHERS, HASHES, MACS, AEADS].map(found)),
            library: None,
        }
    }

    pub(crate) fn find(&self, service: Service, algo: u32) -> Option<Impl> {
        let of = self.all.get(service as usize)?;
        of.iter().find(|(n, _)| *n == algo).map(|&(_, imp)| imp)
    }

    /// Returns whether RSA and ECDSA are available.
    pub fn has_akcipher(&self) -> bool {
        self.library.is_some()
    }

    fn mask(&self, service: Service) -> u64 {
        if service == Service::Akcipher {
            let both = 1 << akcipher::RSA | 1 << akcipher::ECDSA;
            return if self.has_akcipher() { both } else { 0 };
        }
        let of = self.all.get(service as usize);
        of.into_iter().flatten().fold(0, |m, (n, _)| m | 1 << n)
    }

    /// Returns the contents of the configuration space.
    pub fn config(&self, limits: &Limits) -> Config {
        let services = Service::ALL.into_iter().filter(|&s| self.mask(s) != 0);
        Config {
            status: config::HW_READY,
            max_dataqueues: u32::from(limits.data_queues).max(1),
            crypto_services: services.fold(0, |m, s| m | 1 << s as u32),
            cipher_algo: self.mask(Service::Cipher),
            hash_algo: self.mask(Service::Hash) as u32,
            mac_algo: self.mask(Service::Mac),
            aead_algo: self.mask(Service::Aead) as u32,
            max_cipher_key_len: limits.max_key as u32,
            max_auth_key_len: limits.max_auth_key as u32,
            akcipher_algo: self.mask(Service::Akcipher) as u32,
            max_size: limits.max_request as u64,
        }
    }

    /// Returns the device-specific feature bits to offer: REVISION_1, and the stateless mode of
    /// each available service.
    pub fn features(&self) -> u64 {
        let services = Service::ALL.into_iter().filter(|&s| self.mask(s) != 0);
        services.fold(feature::REVISION_1, |bits, s| {
            bits | feature::CIPHER_STATELESS << s as u32
        })
    }
}
