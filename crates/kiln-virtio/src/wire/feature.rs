//! Feature bits that the device type defines (section 5.9.3), and the request formats that they
//! select.

use super::Service;

/// `VIRTIO_CRYPTO_F_REVISION_1`.
pub const REVISION_1: u64 = 1 << 0;
/// `VIRTIO_CRYPTO_F_CIPHER_STATELESS_MODE`. The bits for the other services follow in the order of
/// the service numbers.
pub const CIPHER_STATELESS: u64 = 1 << 1;
/// All feature bits that the device type defines.
pub const ALL: u64 = 0x3f;

/// The negotiated features. The stateless bits require REVISION_1 and are ignored without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// Parses feature bits, ignoring those that belong to the transport or to the rings.
    pub fn new(bits: u64) -> Features {
        match bits & REVISION_1 {
            0 => Features(0),
            _ => Features(bits & ALL),
        }
    }

    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns whether REVISION_1 was negotiated, in which case the fixed part of a request has no
    /// padding.
    pub(crate) fn revision_1(self) -> bool {
        self.0 & REVISION_1 != 0
    }

    /// Returns whether requests to this service use the stateless format.
    pub fn stateless(self, service: Service) -> bool {
        self.0 & (CIPHER_STATELESS << service as u32) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stateless_needs_revision_1() {
        assert_eq!(Features::new(ALL & !REVISION_1), Features::default());
        let all = Features::new(u64::MAX);
        assert_eq!(all.bits(), ALL);
        assert!(Service::ALL.iter().all(|&s| all.stateless(s)));
        let mac = Features::new(REVISION_1 | 1 << 3);
        assert!(mac.stateless(Service::Mac) && !mac.stateless(Service::Aead));
    }
}
