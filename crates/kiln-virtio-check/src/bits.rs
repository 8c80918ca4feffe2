//! Names the bits in the device's bit masks as the virtio specification and Linux's headers do.
//! Numbers in parentheses are sections of the specification.

use kiln_virtio::wire::{Config, Status};

/// The numbers and names of the bits in a mask.
type Names = &'static [(u32, &'static str)];

/// The feature bits that the crypto device (5.9.3), rings and transports (6), and vhost-user
/// define.
const FEATURES: Names = &[
    (0, "REVISION_1"),
    (1, "CIPHER_STATELESS_MODE"),
    (2, "HASH_STATELESS_MODE"),
    (3, "MAC_STATELESS_MODE"),
    (4, "AEAD_STATELESS_MODE"),
    (5, "AKCIPHER_STATELESS_MODE"),
    (24, "NOTIFY_ON_EMPTY"),
    (26, "LOG_ALL"),
    (27, "ANY_LAYOUT"),
    (28, "INDIRECT_DESC"),
    (29, "EVENT_IDX"),
    (30, "PROTOCOL_FEATURES"),
    (32, "VERSION_1"),
    (33, "ACCESS_PLATFORM"),
    (34, "RING_PACKED"),
    (35, "IN_ORDER"),
    (36, "ORDER_PLATFORM"),
    (37, "SR_IOV"),
    (38, "NOTIFICATION_DATA"),
    (39, "NOTIF_CONFIG_DATA"),
    (40, "RING_RESET"),
];

/// Bits in the field `crypto_services` (5.9.4). Version 1.4 of the specification adds IPSEC.
const SERVICES: Names = &[
    (0, "CIPHER"),
    (1, "HASH"),
    (2, "MAC"),
    (3, "AEAD"),
    (4, "AKCIPHER"),
    (5, "IPSEC"),
];

/// Bits in the field `cipher_algo` (5.9.4.1).
const CIPHERS: Names = &[
    (0, "NO_CIPHER"),
    (1, "ARC4"),
    (2, "AES_ECB"),
    (3, "AES_CBC"),
    (4, "AES_CTR"),
    (5, "DES_ECB"),
    (6, "DES_CBC"),
    (7, "3DES_ECB"),
    (8, "3DES_CBC"),
    (9, "3DES_CTR"),
    (10, "KASUMI_F8"),
    (11, "SNOW3G_UEA2"),
    (12, "AES_F8"),
    (13, "AES_XTS"),
    (14, "ZUC_EEA3"),
];

/// Bits in the field `hash_algo` (5.9.4.2).
const HASHES: Names = &[
    (0, "NO_HASH"),
    (1, "MD5"),
    (2, "SHA1"),
    (3, "SHA_224"),
    (4, "SHA_256"),
    (5, "SHA_384"),
    (6, "SHA_512"),
    (7, "SHA3_224"),
    (8, "SHA3_256"),
    (9, "SHA3_384"),
    (10, "SHA3_512"),
    (11, "SHA3_SHAKE128"),
    (12, "SHA3_SHAKE256"),
];

/// Bits in the field `mac_algo` (5.9.4.3).
const MACS: Names = &[
    (0, "NO_MAC"),
    (1, "HMAC_MD5"),
    (2, "HMAC_SHA1"),
    (3, "HMAC_SHA_224"),
    (4, "HMAC_SHA_256"),
    (5, "HMAC_SHA_384"),
    (6, "HMAC_SHA_512"),
    (25, "CMAC_3DES"),
    (26, "CMAC_AES"),
    (27, "KASUMI_F9"),
    (28, "SNOW3G_UIA2"),
    (41, "GMAC_AES"),
    (42, "GMAC_TWOFISH"),
    (49, "CBCMAC_AES"),
    (50, "CBCMAC_KASUMI_F9"),
    (53, "XCBC_AES"),
    (54, "ZUC_EIA3"),
];

/// Bits in the field `aead_algo` (5.9.4.4).
const AEADS: Names = &[
    (0, "NO_AEAD"),
    (1, "GCM"),
    (2, "CCM"),
    (3, "CHACHA20_POLY1305"),
];

/// Bits in the field `akcipher_algo` (5.9.4.5). Linux's header differs: bit 2 is DSA, and bit 3 is
/// ECDSA.
const AKCIPHERS: Names = &[(0, "NO_AKCIPHER"), (1, "RSA"), (2, "ECDSA")];

/// Bits in the field `status` of the configuration (5.9.5).
const READINESS: Names = &[(0, "HW_READY")];

/// Bits in the device status (2.1).
const DEVICE_STATUS: Names = &[
    (0, "ACKNOWLEDGE"),
    (1, "DRIVER"),
    (2, "DRIVER_OK"),
    (3, "FEATURES_OK"),
    (6, "DEVICE_NEEDS_RESET"),
    (7, "FAILED"),
];

/// Returns the names of all bits that are set, joined by `|`. Returns `none` if no bit is set.
fn name(bits: u64, names: Names) -> String {
    let named = |bit: u32| match names.iter().find(|(number, _)| *number == bit) {
        Some((_, name)) => name.to_string(),
        None => format!("bit {bit}"),
    };
    let set: Vec<String> = (0..64).filter(|b| bits >> b & 1 != 0).map(named).collect();
    match set.is_empty() {
        true => "none".into(),
        false => set.join("|"),
    }
}

fn defined(names: Names) -> u64 {
    names.iter().fold(0, |mask, (bit, _)| mask | 1 << bit)
}

pub(crate) fn name_features(bits: u64) -> String {
    name(bits, FEATURES)
}

pub(crate) fn name_device_status(bits: u64) -> String {
    name(bits, DEVICE_STATUS)
}

/// A configuration field that is a bit mask.
pub(crate) struct Mask {
    pub field: &'static str,
    bits: u64,
    names: Names,
}

impl Mask {
    /// Returns the names of the set bits, joined by `|`.
    pub(crate) fn name(&self) -> String {
        name(self.bits, self.names)
    }

    /// Returns the names of the set bits that the specification does not define, or `None` if there
    /// are none.
    pub(crate) fn undefined(&self) -> Option<String> {
        let more = self.bits & !defined(self.names);
        (more != 0).then(|| name(more, self.names))
    }
}

/// Returns all bit masks in a configuration.
pub(crate) fn masks(config: &Config) -> [Mask; 7] {
    let mask = |field, bits, names| Mask { field, bits, names };
    [
        mask("status", config.status.into(), READINESS),
        mask("crypto_services", config.crypto_services.into(), SERVICES),
        mask("cipher_algo", config.cipher_algo, CIPHERS),
        mask("hash_algo", config.hash_algo.into(), HASHES),
        mask("mac_algo", config.mac_algo, MACS),
        mask("aead_algo", config.aead_algo.into(), AEADS),
        mask("akcipher_algo", config.akcipher_algo.into(), AKCIPHERS),
    ]
}

/// Returns the name and number of a request's status (5.9.7.1).
pub(crate) fn name_status(raw: u8) -> String {
    match Status::from_raw(raw) {
        Some(status) => format!("{} ({raw})", status.name()),
        None => format!("{raw}, which the specification does not define"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_virtio::wire::{config, feature};

    #[test]
    fn bits_have_names() {
        assert_eq!(name_features(0), "none");
        assert_eq!(
            name_features(feature::REVISION_1 | 1 << 32 | 1 << 17),
            "REVISION_1|bit 17|VERSION_1"
        );
        assert_eq!(defined(FEATURES) & 0xffff, feature::ALL);
        assert_eq!(name_device_status(11), "ACKNOWLEDGE|DRIVER|FEATURES_OK");
        assert_eq!(name_status(3), "notsupp (3)");
        assert_eq!(name_status(9), "9, which the specification does not define");
    }

    #[test]
    fn undefined_bits_of_a_configuration_are_named() {
        let right = Config {
            status: config::HW_READY,
            crypto_services: 0x1f,
            mac_algo: 1 << 26,
            ..Config::default()
        };
        assert!(masks(&right).iter().all(|mask| mask.undefined().is_none()));
        let wrong = Config {
            mac_algo: 1 << 26 | 1 << 7,
            ..right
        };
        let found: Vec<_> = masks(&wrong)
            .iter()
            .filter_map(|mask| Some((mask.field, mask.undefined()?)))
            .collect();
        assert_eq!(found, [("mac_algo", "bit 7".to_string())]);
    }
}
