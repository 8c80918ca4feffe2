//! A vhost-user message (QEMU's `docs/interop/vhost-user.rst`): a header of three words, a payload, file descriptors.

use std::fmt;
use std::os::fd::OwnedFd;

use zeroize::Zeroizing;

/// Bytes of a header: request, flags, length of the payload.
pub const HEADER: usize = 12;

/// The longest payload. The device's own messages end there, too.
pub const LONGEST: usize = 4096;

/// More descriptors than any message has.
pub(super) const MOST_FDS: usize = 32;

/// Requests that the adapter looks at.
pub(super) mod request {
    /// Feature bits of the device.
    pub(crate) const GET_FEATURES: u32 = 1;
    /// Those that the front end takes.
    pub(crate) const SET_FEATURES: u32 = 2;
    pub(crate) const SET_MEM_TABLE: u32 = 5;
    /// Starts a queue.
    pub(crate) const SET_VRING_KICK: u32 = 12;
    /// Features of the conversation itself.
    pub(crate) const GET_PROTOCOL_FEATURES: u32 = 15;
    /// Those that the front end takes.
    pub(crate) const SET_PROTOCOL_FEATURES: u32 = 16;
    /// Switches a queue on or off.
    pub(crate) const SET_VRING_ENABLE: u32 = 18;
    /// The device status that the driver has set.
    pub(crate) const SET_STATUS: u32 = 39;
    pub(crate) const GET_STATUS: u32 = 40;
    /// QEMU's cryptodev: a session of its guest's.
    pub(crate) const CREATE_CRYPTO_SESSION: u32 = 26;
    /// The end of one.
    pub(crate) const CLOSE_CRYPTO_SESSION: u32 = 27;
}

/// The version, in the lowest two of the flags.
pub(super) const VERSION: u32 = 1;
/// A flag: this is an answer.
pub(super) const REPLY: u32 = 1 << 2;
/// A flag: tell me how it went.
pub(super) const NEED_REPLY: u32 = 1 << 3;

/// A protocol feature: the two messages about sessions.
pub(super) const CRYPTO_SESSION: u64 = 1 << 7;
/// A protocol feature: the two messages about the device status.
pub(super) const STATUS: u64 = 1 << 16;

pub struct Message {
    /// What it asks, or what it answers.
    pub request: u32,
    /// Version and flags.
    pub flags: u32,
    /// The payload; its length is the header's. It may be a key, served or not.
    pub payload: Zeroizing<Vec<u8>>,
    /// Descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

/// Without the payload, which may be a key.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, fds) = (self.payload.len(), self.fds.len());
        write!(
            f,
            "message {}, {len} bytes, {fds} descriptors",
            self.request
        )
    }
}

impl Message {
    /// One of the adapter's own, without descriptors.
    pub fn new(request: u32, flags: u32, payload: Vec<u8>) -> Message {
        Message {
            request,
            flags,
            payload: Zeroizing::new(payload),
            fds: Vec::new(),
        }
    }

    pub fn answer(request: u32, payload: Vec<u8>) -> Message {
        Message::new(request, VERSION | REPLY, payload)
    }

    /// The payload if it is one number.
    pub fn number(&self) -> Option<u64> {
        Some(u64::from_le_bytes(self.payload.as_slice().try_into().ok()?))
    }

    /// The same message with another number.
    pub(crate) fn with_number(mut self, number: u64) -> Message {
        self.payload = Zeroizing::new(number.to_le_bytes().to_vec());
        self
    }

    /// The header, as it is sent.
    pub fn header(&self) -> [u8; HEADER] {
        let len = u32::try_from(self.payload.len()).expect("a payload of at most LONGEST bytes");
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.request.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..].copy_from_slice(&len.to_le_bytes());
        bytes
    }
}

/// The number at a place of a payload, if it has that many bytes.
pub(super) fn word(payload: &[u8], at: usize) -> Option<u32> {
    let bytes = payload.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
}
