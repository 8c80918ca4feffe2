//! The device status (virtio 1.2, section 2.1). A front end can read and set the status if it has
//! negotiated the protocol feature STATUS.

use std::sync::atomic::{AtomicBool, Ordering};

/// Status bits (virtio 1.2, section 2.1).
const FEATURES_OK: u64 = 8;
const NEEDS_RESET: u64 = 64;
/// Mask of all valid status bits.
const ALL: u64 = 0xff;

/// Whether the device is broken, and whether a driver has reset it.
#[derive(Debug, Default)]
pub struct Health {
    /// Set when the device has stopped serving a ring because of an error.
    broken: AtomicBool,
    /// Set when a driver has reset the device and no ring has started since.
    anew: AtomicBool,
}

impl Health {
    pub(crate) fn set_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Clears the error, and records that a driver has reset the device.
    pub(crate) fn reset(&self) {
        self.broken.store(false, Ordering::Relaxed);
        self.anew.store(true, Ordering::Relaxed);
    }

    /// Returns whether a driver has reset the device since the last call.
    pub(crate) fn take_anew(&self) -> bool {
        self.anew.swap(false, Ordering::Relaxed)
    }
}

/// The device status of one connection.
#[derive(Debug, Default)]
pub(super) struct Status {
    bits: u64,
    /// Set when features have been accepted since the status was last 0.
    features: bool,
}

impl Status {
    pub(super) fn took_features(&mut self) {
        self.features = true;
    }

    /// Sets the status. Returns false if `bits` is not a valid status.
    pub(super) fn set(&mut self, bits: u64, health: &Health) -> bool {
        if bits & !ALL != 0 {
            return false;
        }
        if bits == 0 {
            self.features = false;
            health.reset();
        }
        self.bits = bits;
        true
    }

    /// Returns the status as a driver reads it. FEATURES_OK is cleared unless features were
    /// accepted, and NEEDS_RESET is set only if the device is broken.
    pub(super) fn get(&self, health: &Health) -> u64 {
        let mut bits = self.bits & !NEEDS_RESET;
        if !self.features {
            bits &= !FEATURES_OK;
        }
        if health.broken.load(Ordering::Relaxed) {
            bits |= NEEDS_RESET;
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_what_was_set_and_what_is_true() {
        let (mut status, health) = (Status::default(), Health::default());
        assert_eq!(status.get(&health), 0);
        assert!(status.set(0xb, &health));
        assert_eq!(status.get(&health), 3, "without features");
        status.took_features();
        assert_eq!(status.get(&health), 0xb);
        health.set_broken();
        assert_eq!(status.get(&health), 0x4b);
        // QEMU writes back the bits it has read, plus new ones.
        assert!(status.set(0x4f, &health));
        assert!(!health.take_anew() && status.set(0, &health) && health.take_anew());
        assert_eq!(status.get(&health), 0);
        assert!(!health.take_anew());
        for bits in [0x100, u64::MAX] {
            assert!(!status.set(bits, &health) && status.get(&health) == 0);
        }
    }
}
