//! The result of a run: rows, notes, and whether a check failed.

/// Rows of all policies, and what a reader must know of them.
#[derive(Debug)]
pub struct Outcome<R> {
    /// In the policy table each row is followed by its control.
    pub rows: Vec<R>,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
    /// Commands that show again what was lost.
    pub replays: Vec<String>,
    /// A policy lost state that must not, or the control shows that no loss could have been seen.
    pub failed: bool,
    /// Stopped before its end.
    pub interrupted: bool,
}

impl<R> Default for Outcome<R> {
    fn default() -> Outcome<R> {
        Outcome {
            rows: Vec::new(),
            notes: Vec::new(),
            replays: Vec::new(),
            failed: false,
            interrupted: false,
        }
    }
}
