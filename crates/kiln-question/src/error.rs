//! The errors that commands return, and their exit statuses.

use std::fmt;

/// A one-line error message that states what is wrong, where the problem is, and what to do about
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    Failed(String),
    /// The input or the arguments are wrong.
    Input(String),
    /// Something that the command needs is missing on this machine. The text states what is missing
    /// and how to provide it.
    Lacks(String),
}

impl Error {
    /// Returns the exit status for this error (`CLI.md`).
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Failed(_) => 1,
            Error::Input(_) => 2,
            Error::Lacks(_) => 3,
        }
    }

    /// Creates an error about wrong input or arguments (exit status 2).
    pub fn input(line: impl Into<String>) -> Error {
        Error::Input(line.into())
    }

    /// Creates an error about something that this machine lacks (exit status 3).
    pub fn lacks(line: impl Into<String>) -> Error {
        Error::Lacks(line.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Failed(line) | Error::Input(line) | Error::Lacks(line)) = self;
        // Escape line breaks and other control characters, so that the error remains a single line
        // even if a file name or a library's message contains such characters.
        for c in line.chars() {
            match c {
                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Converts errors from `kiln_tree`. The variant chosen for an interruption does not matter: an
/// interrupted program prints no error line and always ends with the exit status for interruptions.
impl From<kiln_tree::Error> for Error {
    fn from(e: kiln_tree::Error) -> Error {
        use kiln_tree::Error as E;
        let line = e.to_string();
        match e {
            E::NoCache
            | E::Cache { .. }
            | E::Tool { .. }
            | E::MissingTools(_)
            | E::Host { .. }
            | E::Cpu(_)
            | E::AddressSpace { .. }
            | E::NoPolicy
            | E::Services { .. }
            | E::DamagedImage { .. }
            | E::BadSegment(_)
            | E::OtherVersion(_)
            | E::NoSymbol { .. }
            | E::NoFunction { .. }
            | E::Load { .. }
            | E::Interrupted => Error::Lacks(line),
            E::Read { .. }
            | E::Variable(_)
            | E::NotATree { .. }
            | E::Git { .. }
            | E::NotATreeCommit { .. }
            | E::Incomplete { .. }
            | E::BuiltInPlace { .. }
            | E::UnusablePath(_)
            | E::NotListed(_)
            | E::NoConfig(_)
            | E::Config { .. }
            | E::ConfigArch { .. }
            | E::Build { .. }
            | E::PreemptUncounted(_)
            | E::UnusableTcrypt(_)
            | E::NoTcrypt
            | E::Link { .. }
            | E::GuestUnlinked { .. }
            | E::Unhostable { .. }
            | E::NoCall { .. }
            | E::Suites(_)
            | E::Reach(_)
            | E::NoFuzz
            | E::Refused { .. }
            | E::Guest(_)
            | E::Nul(_) => Error::Input(line),
        }
    }
}

/// Converts errors that occur while Linux is being built or booted. The message may contain the
/// last lines of a log.
impl From<kiln_linux::Error> for Error {
    fn from(e: kiln_linux::Error) -> Error {
        use kiln_linux::Error as E;
        let line = e.to_string();
        match e {
            E::Tree(e) => e.into(),
            E::Compiler(_)
            | E::NoSource(_)
            | E::Unpack { .. }
            | E::RegisterRoom { .. }
            | E::NoImage(_)
            | E::NotDebian(..)
            | E::Apt { .. }
            | E::NoHeaders { .. }
            | E::Init { .. }
            | E::NoQemu(_)
            | E::NoStart { .. }
            | E::EmulatedCpu(_)
            | E::NoServe { .. }
            | E::Interrupted => Error::Lacks(line),
            E::Kvm { .. }
            | E::Boot { .. }
            | E::Console { .. }
            | E::HostedFault { .. }
            | E::NoWidths
            | E::Width { .. }
            | E::TestsCut(_)
            | E::Answer(_)
            | E::EmulatedCpuPanicked
            | E::Serve { .. } => Error::Failed(line),
            E::Read { .. }
            | E::Walk(_)
            | E::NoUserMode(_)
            | E::Build { .. }
            | E::NoModule { .. }
            | E::Image { .. }
            | E::NotBzImage(_)
            | E::NotEmpty(_)
            | E::Headers { .. }
            | E::NoRelease { .. }
            | E::PackedModule { .. }
            | E::Module { .. }
            | E::OneObject { .. }
            | E::OrderSeparator(_)
            | E::OrderLength { .. }
            | E::SystemDisk { .. }
            | E::NoProgram(_)
            | E::NotElf(_)
            | E::NotText(_)
            | E::Libraries { .. }
            | E::NoMode { .. }
            | E::NoVirtioCrypto(_)
            | E::NotHeaders(_)
            | E::Sources { .. }
            | E::SocketPath(_) => Error::Input(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_one_line() {
        let e = Error::input("no file 'a\nb'");
        assert_eq!(e.to_string(), "no file 'a\\nb'");
        assert_eq!(e.exit_code(), 2);
        assert_eq!(Error::lacks("").exit_code(), 3);
    }
}
