//! Notes that are commands, each of which reproduces a loss.

/// Prefix of these notes.
pub(super) const REPLAY: &str = "replay: ";
