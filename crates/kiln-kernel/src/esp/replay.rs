//! A receiver's anti-replay window (RFC 4303, section 3.4.3).

use crate::sys;

/// Maximum size of a window, in sequence numbers.
pub const MAX: u32 = sys::KILN_REPLAY_MAX;

/// A window that records which of the latest sequence numbers have been received.
pub struct Window(sys::Replay);

impl Window {
    /// Creates a window that covers `size` sequence numbers.
    pub fn new(size: u32) -> Window {
        let mut raw = sys::Replay::default();
        // SAFETY: the function initialises the structure that the pointer refers to.
        unsafe { sys::kiln_replay_init(&raw mut raw, size) };
        Window(raw)
    }

    /// Records a packet's sequence number. Returns whether the packet is accepted.
    pub fn accept(&mut self, seq: u64) -> bool {
        // SAFETY: the structure was initialised by `new`.
        unsafe { sys::kiln_replay_accept(&raw mut self.0, seq) }
    }

    /// Returns how many packets were rejected because they were older than the window, and how many
    /// because they were duplicates.
    pub fn refused(&self) -> (u64, u64) {
        (self.0.lost, self.0.replayed)
    }
}

/// Faults that tests plant in the window to check that violations of its rules are detected.
#[doc(hidden)]
pub mod broken {
    /// Packets that are older than the window are accepted.
    pub const ENDLESS: u32 = 1;
    /// Duplicate packets are accepted.
    pub const BLIND: u32 = 2;

    /// Plants the faults whose bits are set in `rules`, for the whole process, and removes all
    /// others.
    pub fn set(rules: u32) {
        // SAFETY: the function accepts any number.
        unsafe { crate::sys::kiln_replay_break(rules) }
    }
}
