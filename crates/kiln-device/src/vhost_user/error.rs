//! Errors that end a front end's connection.

use std::fmt;
use std::io;

use super::message::{max_fds, MAX_FDS, MAX_GET_INFLIGHT, MAX_PAYLOAD};

/// Why a connection ended without an orderly disconnect.
#[derive(Debug)]
pub enum Error {
    /// Reading from or writing to a socket failed.
    Io(io::Error),
    /// The payload is longer than that of any valid message.
    TooLong {
        /// The message's request number.
        request: u32,
        /// Payload length in bytes.
        len: usize,
    },
    /// The message has more file descriptors than any valid message.
    TooManyFds,
    /// The message has more file descriptors than its request allows. The value is the request
    /// number.
    TooManyFdsFor(u32),
    /// A kick, call, error or back-end channel descriptor has the wrong type. The value is the
    /// request number.
    Signal(u32),
    /// The front end has requested memory for in-flight requests too many times.
    TooManyInflightRequests,
    /// The connection ended in the middle of a message.
    CutShort,
    /// A message requires a protocol feature that was not negotiated. The value is the message's
    /// request number.
    NotNegotiated(u32),
    /// The front end set an invalid device status.
    Status,
    /// A message's flags, payload or number of descriptors are not valid for its request. The value
    /// is the request number.
    Malformed(u32),
    /// The device does not implement the request with this number.
    Unknown(u32),
    /// The device refused the request, for this reason.
    Refused(String),
    /// The answer to GET_INFLIGHT_FD could not be sent.
    Inflight(io::Error),
}

impl Error {
    pub(crate) fn refused(reason: impl ToString) -> Error {
        Error::Refused(reason.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(e) => write!(f, "the vhost-user socket failed: {e}"),
            Error::TooLong { request, len } => write!(
                f,
                "vhost-user message {request} has a payload of {len} bytes; the maximum is {MAX_PAYLOAD}"
            ),
            Error::TooManyFds => write!(
                f,
                "a vhost-user message has more than {} file descriptors",
                MAX_FDS
            ),
            Error::TooManyFdsFor(request) => write!(
                f,
                "vhost-user message {request} has more than {} file descriptors",
                max_fds(*request)
            ),
            Error::Signal(request) => write!(
                f,
                "the descriptor of vhost-user message {request} is not an eventfd, a pipe, or (except for kicks) one of a socket pair"
            ),
            Error::TooManyInflightRequests => write!(
                f,
                "the front end sent GET_INFLIGHT_FD more than {MAX_GET_INFLIGHT} times"
            ),
            Error::CutShort => write!(f, "the connection ended within a vhost-user message"),
            Error::NotNegotiated(request) => write!(
                f,
                "vhost-user message {request} needs a feature that was not negotiated"
            ),
            Error::Status => write!(
                f,
                "a device status must be one byte, sent as a 64-bit number"
            ),
            Error::Malformed(request) => write!(
                f,
                "vhost-user message {request} is malformed: its flags, payload or descriptors are not valid for this request"
            ),
            Error::Unknown(request) => {
                write!(f, "the device does not support vhost-user message {request}")
            }
            Error::Refused(reason) => f.write_str(reason),
            Error::Inflight(e) => write!(
                f,
                "the memory for requests in flight could not be passed to the front end: {e}"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(e) | Error::Inflight(e) => Some(e),
            _ => None,
        }
    }
}
