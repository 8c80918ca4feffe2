//! Notes that contain the command to reproduce a loss of state.

/// Prefix of a note that contains the command to reproduce a loss.
pub(super) const REPLAY: &str = "replay: ";
