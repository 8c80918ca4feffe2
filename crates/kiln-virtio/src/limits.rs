//! What a device allows each guest. All of it is checked before anything is allocated.

use crate::wire::Status;

/// Caps of one guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions at a time, up to the 2^20 that a name has room for.
    pub max_sessions: usize,
    /// Bytes of a data request's variable-length parameters together.
    pub max_request: usize,
    /// Bytes of a cipher's or AEAD's key.
    pub max_key: usize,
    /// Bytes of a MAC's key.
    pub max_auth_key: usize,
    /// Bytes of an encoded akcipher key.
    pub max_akcipher_key: usize,
    /// Bits of an RSA modulus.
    pub max_modulus: usize,
    /// Data queues; only told to the driver.
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
    /// 4096 sessions; requests of 256 KiB; the longest keys there are, MACs' at most 512 bytes, RSA's of 4096 bits; one
    /// data queue.
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
