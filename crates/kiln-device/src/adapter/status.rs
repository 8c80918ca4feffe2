//! The device status (virtio 1.2, section 2.1), which a front end with the protocol feature STATUS sets and asks for. The
//! vhost crate does not know the two messages.

use std::sync::atomic::{AtomicBool, Ordering};

/// Status bits.
const FEATURES_OK: u64 = 8;
const NEEDS_RESET: u64 = 64;
/// All that a status has.
const ALL: u64 = 0xff;

/// What the device says of itself, and is told.
#[derive(Debug, Default)]
pub struct Health {
    /// A ring is served no more.
    broken: AtomicBool,
    /// A driver has begun anew and no ring has started since.
    anew: AtomicBool,
}

impl Health {
    pub(crate) fn set_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// The device is as at first.
    pub(crate) fn reset(&self) {
        self.broken.store(false, Ordering::Relaxed);
        self.anew.store(true, Ordering::Relaxed);
    }

    /// Whether a driver has begun anew since this was last asked.
    pub(crate) fn take_anew(&self) -> bool {
        self.anew.swap(false, Ordering::Relaxed)
    }
}

/// The status of one connection.
#[derive(Debug, Default)]
pub(super) struct Status {
    bits: u64,
    /// Features were taken since the status was 0.
    features: bool,
}

impl Status {
    pub(super) fn took_features(&mut self) {
        self.features = true;
    }

    /// Sets it; false if that is no status.
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

    /// As a driver reads it: FEATURES_OK does not stay set without features, and NEEDS_RESET is the device's alone.
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
        // QEMU sets what it has read and more.
        assert!(status.set(0x4f, &health));
        assert!(!health.take_anew() && status.set(0, &health) && health.take_anew());
        assert_eq!(status.get(&health), 0);
        assert!(!health.take_anew());
        for bits in [0x100, u64::MAX] {
            assert!(!status.set(bits, &health) && status.get(&health) == 0);
        }
    }
}
