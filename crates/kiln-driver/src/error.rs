//! What goes wrong between a driver and its device.

use std::fmt;
use std::io;

/// What a device did that no honest one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The used ring moved past all that was asked.
    Index {
        /// Entries that it claims to have used.
        claimed: u16,
        /// Requests that were in its hands.
        held: u16,
    },
    /// A used entry names a descriptor that heads no request.
    Id(u32),
    /// A used entry claims more bytes than the device was allowed to write.
    Length { claimed: u32, allowed: u32 },
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lie::Index { claimed, held } => {
                write!(f, "{claimed} used entries for {held} requests")
            }
            Lie::Id(id) => write!(f, "used entry {id}, which is no request's"),
            Lie::Length { claimed, allowed } => {
                write!(f, "{claimed} bytes written of {allowed} allowed")
            }
        }
    }
}

/// Why a request or a connection failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The socket cannot be reached, or its other end is gone.
    Connect(String),
    /// The other end speaks, but not as a virtio-crypto device does.
    Protocol(String),
    /// The machine refused memory or a file descriptor.
    Resource(String),
    /// The device lied: its queue is not used any more.
    Lied(Lie),
    /// The device went away before it answered.
    Lost,
    /// No answer in the time given. The request still belongs to the device.
    Timeout,
    /// The program asked for it: [`crate::Wishes::stop`].
    Stopped,
    /// Too long, or of a shape that no queue takes.
    Request(&'static str),
    /// All descriptors, or all of the shared memory, are in use.
    Full,
    /// The device answered with this status.
    Status(u32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Connect(e) => write!(f, "cannot reach the device: {e}"),
            Error::Protocol(what) => write!(f, "the device does not answer as it must: {what}"),
            Error::Resource(e) => write!(f, "cannot make memory to share with the device: {e}"),
            Error::Lied(lie) => write!(f, "the device lied: {lie}"),
            Error::Lost => f.write_str("the device went away before it answered"),
            Error::Timeout => f.write_str("the device did not answer in time"),
            Error::Stopped => f.write_str("it was interrupted"),
            Error::Request(what) => write!(f, "no such request can be made: {what}"),
            Error::Full => f.write_str("the queue is full"),
            Error::Status(status) => write!(f, "the device refused with status {status}"),
        }
    }
}

impl std::error::Error for Lie {}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Lied(lie) => Some(lie),
            _ => None,
        }
    }
}

impl Error {
    /// The socket's fault.
    pub(crate) fn connect(e: impl Into<io::Error>) -> Error {
        Error::Connect(e.into().to_string())
    }

    /// The machine's fault.
    pub(crate) fn resource(e: impl Into<io::Error>) -> Error {
        Error::Resource(e.into().to_string())
    }
}

impl From<Lie> for Error {
    fn from(lie: Lie) -> Error {
        Error::Lied(lie)
    }
}

impl From<vhost::Error> for Error {
    fn from(e: vhost::Error) -> Error {
        Error::Protocol(e.to_string())
    }
}
