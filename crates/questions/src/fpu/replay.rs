//! Notes with the command that reproduces a loss of state.

/// Prefix of a note with the command that reproduces a loss.
pub(super) const REPLAY: &str = "replay: ";
