//! Connection errors, and violations of the ring protocol by the device.

use std::fmt;
use std::io;

/// A violation of the ring protocol by the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The used index moved past the requests that were made available.
    Index {
        /// Number of entries that the device claims to have used.
        claimed: u16,
        /// Number of requests that the device actually held.
        held: u16,
    },
    /// A used entry contains the index of a descriptor that is not the head of a request.
    Id(u32),
    /// A used entry claims more bytes than the device was allowed to write.
    Length { claimed: u32, allowed: u32 },
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lie::Index { claimed, held } => {
                write!(
                    f,
                    "the device claims to have used {claimed} entries, but only {held} requests \
                     are in flight"
                )
            }
            Lie::Id(id) => write!(
                f,
                "the device returned descriptor {id}, which is not the head of a request"
            ),
            Lie::Length { claimed, allowed } => {
                write!(
                    f,
                    "the device claims to have written {claimed} bytes, but only {allowed} are \
                     allowed"
                )
            }
        }
    }
}

/// Why a request or a connection failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The socket cannot be reached, or the other end has closed the connection.
    Connect(String),
    /// The other end does not behave like a virtio-crypto device.
    Protocol(String),
    /// The host denied memory, a thread or a file descriptor. The text names the resource and the
    /// reason.
    Resource(String),
    /// The device violated the ring protocol, so the driver has stopped using its queue.
    Lied(Lie),
    /// The device disconnected before it answered.
    Lost,
    /// The device did not answer within the time limit. The device still holds the request.
    Timeout,
    /// The program has set [`crate::Wishes::stop`].
    Stopped,
    /// The request is invalid or too long. The text states the reason.
    Request(&'static str),
    /// All descriptors are in use, or the shared memory is exhausted.
    Full,
    /// The device answered with this error status.
    Status(u32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Connect(e) => write!(f, "cannot reach the device: {e}"),
            Error::Protocol(what) => write!(f, "the device violates the protocol: {what}"),
            Error::Resource(e) => write!(f, "the host refused {e}"),
            Error::Lied(lie) => write!(f, "the device violated the ring protocol: {lie}"),
            Error::Lost => f.write_str("the device disconnected before it answered"),
            Error::Timeout => f.write_str("the device did not answer in time"),
            Error::Stopped => f.write_str("it was interrupted"),
            Error::Request(what) => write!(f, "invalid request: {what}"),
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
    /// Converts a socket error to [`Error::Connect`].
    pub(crate) fn connect(e: impl Into<io::Error>) -> Error {
        Error::Connect(e.into().to_string())
    }

    /// Returns a function that converts a host error to [`Error::Resource`]. `what` is the resource
    /// that the host denied.
    pub(crate) fn resource<E: fmt::Display>(what: &'static str) -> impl FnOnce(E) -> Error {
        move |e| Error::Resource(format!("{what}: {e}"))
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
