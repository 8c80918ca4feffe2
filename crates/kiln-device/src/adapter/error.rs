//! Why a connection through the adapter ends.

use std::fmt;
use std::io;

use super::message::{LONGEST, MOST_FDS};

/// Why a connection ends that neither side has closed.
#[derive(Debug)]
pub enum Error {
    /// A socket failed.
    Io(io::Error),
    /// A payload longer than that of any message.
    TooLong {
        /// The message's number.
        request: u32,
        /// Bytes of its payload.
        len: usize,
    },
    /// More descriptors than any message has.
    TooManyFds,
    /// The connection ended within a message.
    CutShort,
    /// A message without the protocol feature for it.
    NotAgreed(u32),
    /// A device status that is not one.
    Status,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(e) => write!(f, "the vhost-user socket failed: {e}"),
            Error::TooLong { request, len } => write!(
                f,
                "vhost-user message {request} has {len} bytes: {LONGEST} at most"
            ),
            Error::TooManyFds => write!(
                f,
                "a vhost-user message has more than {} file descriptors",
                MOST_FDS
            ),
            Error::CutShort => write!(f, "the connection ended within a vhost-user message"),
            Error::NotAgreed(request) => write!(
                f,
                "vhost-user message {request} without the protocol feature for it"
            ),
            Error::Status => write!(f, "a device status is one byte, in a payload of eight"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(e) => Some(e),
            _ => None,
        }
    }
}
