//! What came of a run: results, and the exit status.

use std::process::ExitCode;

/// How a command ended that met no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// A check failed.
    Failed,
    /// With `--bisect`: what was to be judged cannot be built or tried.
    Untried,
    /// A child has said why not, with this status.
    Refused(u8),
    /// Interrupted; what there was is printed.
    Interrupted,
}

impl Exit {
    /// A failed check counts for more than an interruption.
    pub fn from_run(failed: bool, interrupted: bool) -> Exit {
        match (failed, interrupted) {
            (true, _) => Exit::Failed,
            (false, true) => Exit::Interrupted,
            (false, false) => Exit::Done,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Untried => 125,
            Exit::Refused(status) => status,
            Exit::Interrupted => 130,
        })
    }
}

/// What a question has found out.
#[derive(Clone, Debug)]
pub struct Outcome<R> {
    /// The results.
    pub rows: Vec<R>,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
    /// A check failed: exit status 1.
    pub failed: bool,
    /// Stopped before its end.
    pub interrupted: bool,
}

impl<R> Default for Outcome<R> {
    fn default() -> Outcome<R> {
        Outcome {
            rows: Vec::new(),
            notes: Vec::new(),
            failed: false,
            interrupted: false,
        }
    }
}

impl<R> Outcome<R> {
    /// A failed check counts for more than an interruption.
    pub fn exit(&self) -> Exit {
        Exit::from_run(self.failed, self.interrupted)
    }

    /// Adds notes that are not there yet.
    pub fn add_notes(&mut self, notes: impl IntoIterator<Item = String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}
