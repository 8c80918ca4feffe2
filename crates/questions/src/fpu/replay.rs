//! Notes that contain the command to reproduce a loss of state.

/// Prefix of a note that contains such a command.
pub(super) const REPLAY: &str = "replay: ";
