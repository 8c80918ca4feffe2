//! The anti-replay window of a receiver (RFC 4303, 3.4.3).

use super::raw;

/// The widest window.
pub const MAX: u32 = raw::REPLAY_MAX as u32;

/// The sequence numbers received recently.
pub struct Window(raw::Replay);

impl Window {
    /// A window of `size` numbers.
    pub fn new(size: u32) -> Window {
        let mut raw = raw::Replay {
            size: 0,
            top: 0,
            lost: 0,
            replayed: 0,
            seen: [0; raw::REPLAY_MAX / 64],
        };
        // SAFETY: the function takes this structure.
        unsafe { raw::kiln_replay_init(&raw mut raw, size) };
        Window(raw)
    }

    /// Whether a packet of this number is taken.
    pub fn accept(&mut self, seq: u64) -> bool {
        // SAFETY: as above.
        unsafe { raw::kiln_replay_accept(&raw mut self.0, seq) }
    }

    /// Refused as older than the window, and refused as duplicates.
    pub fn refused(&self) -> (u64, u64) {
        (self.0.lost, self.0.replayed)
    }
}

/// Windows that do not refuse what they should: controls for tests.
#[doc(hidden)]
pub mod broken {
    /// What is older than the window is taken.
    pub const ENDLESS: u32 = 1;
    /// What has come before is taken.
    pub const BLIND: u32 = 2;

    /// From now on, in the whole process.
    pub fn set(rules: u32) {
        // SAFETY: takes any number.
        unsafe { crate::esp::raw::kiln_replay_break(rules) }
    }
}
