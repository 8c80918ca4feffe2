//! Limits that a device sets for each guest. Each limit is checked before memory is allocated.

use crate::wire::Status;

/// Limits for one guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of concurrent sessions. It is at most 2^20, the number of slots that a
    /// session ID can encode.
    pub max_sessions: usize,
    /// Maximum total size in bytes of the variable-length parameters of a data request.
    pub max_request: usize,
    /// Maximum length in bytes of a key for a cipher or an AEAD.
    pub max_key: usize,
    /// Maximum length in bytes of a key for a MAC.
    pub max_auth_key: usize,
    /// Maximum length in bytes of an encoded akcipher key.
    pub max_akcipher_key: usize,
    /// Maximum size in bits of an RSA modulus.
    pub max_modulus: usize,
    /// Number of data queues to report to the driver. This crate does not enforce it.
    pub data_queues: u16,
}

impl Limits {
    pub(crate) fn keys(&self, lens: [usize; 2], akcipher: bool) -> Result<(), Status> {
        let [key, auth_key] = lens;
        let most = if akcipher {
            self.max_akcipher_key
        } else {
            self.max_key.max(self.max_auth_key)
        };
        match key <= most && auth_key <= self.max_auth_key {
            true => Ok(()),
            false => Err(Status::Err),
        }
    }
}

impl Default for Limits {
    /// Returns the default limits: 4096 sessions, requests of up to 256 KiB, the maximum key length
    /// of each algorithm (up to 512 bytes for MACs, up to 4096 bits for RSA), and one data queue.
    fn default() -> Limits {
        Limits {
            max_sessions: 4096,
            max_request: 256 << 10,
            max_key: 64,
            max_auth_key: 512,
            max_akcipher_key: 4096,
            max_modulus: 4096,
            data_queues: 1,
        }
    }
}
