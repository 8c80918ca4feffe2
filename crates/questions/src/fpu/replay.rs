//! Notes that contain a command; each command reproduces a loss.

/// Prefix of these notes.
pub(super) const REPLAY: &str = "replay: ";
