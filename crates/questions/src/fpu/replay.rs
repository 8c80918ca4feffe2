//! Notes that are commands: each shows again what was lost.

/// Begins them.
pub(super) const REPLAY: &str = "replay: ";
