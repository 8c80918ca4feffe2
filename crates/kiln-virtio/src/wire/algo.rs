//! Algorithm numbers (section 5.9.4), which are used as values in requests and as bit numbers in
//! the configuration.

/// `VIRTIO_CRYPTO_CIPHER_*`.
pub mod cipher {
    pub const AES_ECB: u32 = 2;
    pub const AES_CBC: u32 = 3;
    pub const AES_CTR: u32 = 4;
    pub const AES_XTS: u32 = 13;
}

/// `VIRTIO_CRYPTO_HASH_*`.
pub mod hash {
    pub const SHA1: u32 = 2;
    pub const SHA_256: u32 = 4;
    pub const SHA_512: u32 = 6;
}

/// `VIRTIO_CRYPTO_MAC_*`.
pub mod mac {
    pub const HMAC_SHA1: u32 = 2;
    pub const HMAC_SHA_256: u32 = 4;
    pub const HMAC_SHA_512: u32 = 6;
    pub const CMAC_AES: u32 = 26;
}

/// `VIRTIO_CRYPTO_AEAD_*`.
pub mod aead {
    /// AES-GCM.
    pub const GCM: u32 = 1;
    /// AES-CCM.
    pub const CCM: u32 = 2;
    pub const CHACHA20_POLY1305: u32 = 3;
}

/// `VIRTIO_CRYPTO_AKCIPHER_*`, and the constants that identify paddings, hashes and curves.
pub mod akcipher {
    pub const RSA: u32 = 1;
    /// ECDSA's number in the specification.
    pub const ECDSA: u32 = 2;
    /// ECDSA's number in Linux's header, which assigns 2 to DSA. The specification does not define
    /// DSA.
    ///
    /// The device advertises only bit 2, since the specification does not define bit 3, but it
    /// accepts both numbers in requests. If a driver uses 2 for DSA, the device rejects its key,
    /// because a DSA key is not a valid ECDSA key.
    pub const ECDSA_LINUX: u32 = 3;

    /// `VIRTIO_CRYPTO_AKCIPHER_KEY_TYPE_PUBLIC`.
    pub const PUBLIC: u32 = 1;
    /// `VIRTIO_CRYPTO_AKCIPHER_KEY_TYPE_PRIVATE`.
    pub const PRIVATE: u32 = 2;

    /// `VIRTIO_CRYPTO_RSA_RAW_PADDING`.
    pub const RAW_PADDING: u32 = 0;
    /// `VIRTIO_CRYPTO_RSA_PKCS1_PADDING`.
    pub const PKCS1_PADDING: u32 = 1;

    /// `VIRTIO_CRYPTO_RSA_NO_HASH`.
    pub const RSA_NO_HASH: u32 = 0;
    /// `VIRTIO_CRYPTO_RSA_MD5`.
    pub(crate) const RSA_MD5: u32 = 4;
    /// `VIRTIO_CRYPTO_RSA_SHA1`.
    pub(crate) const RSA_SHA1: u32 = 5;
    /// `VIRTIO_CRYPTO_RSA_SHA256`.
    pub const RSA_SHA256: u32 = 6;
    /// `VIRTIO_CRYPTO_RSA_SHA384`.
    pub(crate) const RSA_SHA384: u32 = 7;
    /// `VIRTIO_CRYPTO_RSA_SHA512`.
    pub(crate) const RSA_SHA512: u32 = 8;
    /// `VIRTIO_CRYPTO_RSA_SHA224`.
    pub(crate) const RSA_SHA224: u32 = 9;

    /// `VIRTIO_CRYPTO_CURVE_NIST_P192`.
    pub(crate) const P192: u32 = 1;
    /// `VIRTIO_CRYPTO_CURVE_NIST_P224`.
    pub(crate) const P224: u32 = 2;
    /// `VIRTIO_CRYPTO_CURVE_NIST_P256`.
    pub const P256: u32 = 3;
    /// `VIRTIO_CRYPTO_CURVE_NIST_P384`.
    pub(crate) const P384: u32 = 4;
    /// `VIRTIO_CRYPTO_CURVE_NIST_P521`.
    pub(crate) const P521: u32 = 5;
}

/// `VIRTIO_CRYPTO_OP_ENCRYPT`.
pub const OP_ENCRYPT: u32 = 1;
/// `VIRTIO_CRYPTO_OP_DECRYPT`.
pub const OP_DECRYPT: u32 = 2;

/// `VIRTIO_CRYPTO_SYM_OP_CIPHER`.
pub const SYM_OP_CIPHER: u32 = 1;
/// `VIRTIO_CRYPTO_SYM_OP_ALGORITHM_CHAINING`.
pub const SYM_OP_CHAIN: u32 = 2;

/// `VIRTIO_CRYPTO_SYM_ALG_CHAIN_ORDER_HASH_THEN_CIPHER`.
pub const HASH_THEN_CIPHER: u32 = 1;
/// `VIRTIO_CRYPTO_SYM_ALG_CHAIN_ORDER_CIPHER_THEN_HASH`.
pub const CIPHER_THEN_HASH: u32 = 2;

/// `VIRTIO_CRYPTO_SYM_HASH_MODE_PLAIN`.
pub const HASH_MODE_PLAIN: u32 = 1;
/// `VIRTIO_CRYPTO_SYM_HASH_MODE_AUTH`.
pub const HASH_MODE_AUTH: u32 = 2;
