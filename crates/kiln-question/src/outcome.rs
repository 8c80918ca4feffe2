//! Defines `Exit`, which states how a command's run ended, and `Outcome`, which holds the rows and
//! notes of a run.

use std::process::ExitCode;

/// How a command ended, if it did not end with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// A check failed, for example because a result was wrong.
    Failed,
    /// With `--bisect`, this revision could not be built or tested.
    Untried,
    /// A child process exited with this status after printing the reason.
    Refused(u8),
    /// The run was interrupted; the results obtained before that have been printed.
    Interrupted,
}

impl Exit {
    /// Returns how a run ended. A failed check takes precedence over an interruption.
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

/// The rows that answer a question, with notes and the state of the run.
#[derive(Clone, Debug)]
pub struct Outcome<R> {
    pub rows: Vec<R>,
    /// Remarks needed to interpret the rows.
    pub notes: Vec<String>,
    /// Whether a check failed, in which case the exit status is 1.
    pub failed: bool,
    /// Whether the run was stopped early.
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
    /// Returns how the command ends. A failed check takes precedence over an interruption.
    pub fn exit(&self) -> Exit {
        Exit::from_run(self.failed, self.interrupted)
    }

    /// Adds notes, except those that the outcome already contains.
    pub fn add_notes(&mut self, notes: impl IntoIterator<Item = String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}
