//! A vhost-user message (QEMU's `docs/interop/vhost-user.rst`): a header of three words, a payload,
//! and file descriptors.

use std::fmt;
use std::os::fd::OwnedFd;

use zeroize::Zeroizing;

/// Header size in bytes: request, flags, payload length.
pub const HEADER: usize = 12;

/// Maximum payload length in bytes. The limit also applies to the device's own messages.
pub const LONGEST: usize = 4096;

/// Maximum number of file descriptors accepted with a message: those of the regions in
/// SET_MEM_TABLE, which cannot have more.
pub(super) const MOST_FDS: usize = 8;

/// How many times a front end may request memory for recording in-flight requests. It may leave
/// each answer and its descriptor unread.
pub(super) const ANSWERS: u32 = 4;

/// Returns how many file descriptors a front end may send with a request.
pub(super) fn most_fds(request: u32) -> usize {
    match request {
        request::SET_MEM_TABLE => MOST_FDS,
        request::SET_VRING_KICK
        | request::SET_VRING_CALL
        | request::SET_VRING_ERR
        | request::SET_BACKEND_REQ_FD
        | request::SET_INFLIGHT_FD
        | request::ADD_MEM_REG
        // The specification lets a device accept this descriptor from old front ends. The device
        // closes it.
        | request::REM_MEM_REG => 1,
        _ => 0,
    }
}

/// Numbers of the requests that the adapter handles.
pub(super) mod request {
    /// Requests the device's feature bits.
    pub(crate) const GET_FEATURES: u32 = 1;
    /// Sets the feature bits the front end accepted.
    pub(crate) const SET_FEATURES: u32 = 2;
    pub(crate) const SET_MEM_TABLE: u32 = 5;
    /// Passes a queue's kick descriptor, which starts the queue.
    pub(crate) const SET_VRING_KICK: u32 = 12;
    pub(crate) const SET_VRING_CALL: u32 = 13;
    pub(crate) const SET_VRING_ERR: u32 = 14;
    /// Asks which protocol extensions the device supports.
    pub(crate) const GET_PROTOCOL_FEATURES: u32 = 15;
    /// Sets the protocol extensions that the front end accepted.
    pub(crate) const SET_PROTOCOL_FEATURES: u32 = 16;
    /// Enables or disables a queue.
    pub(crate) const SET_VRING_ENABLE: u32 = 18;
    /// Passes a socket for requests from the device.
    pub(crate) const SET_BACKEND_REQ_FD: u32 = 21;
    /// Requests memory for recording in-flight requests. The answer carries a descriptor for it.
    pub(crate) const GET_INFLIGHT_FD: u32 = 31;
    pub(crate) const SET_INFLIGHT_FD: u32 = 32;
    pub(crate) const ADD_MEM_REG: u32 = 37;
    pub(crate) const REM_MEM_REG: u32 = 38;
    /// Sets the device status that the driver wrote.
    pub(crate) const SET_STATUS: u32 = 39;
    pub(crate) const GET_STATUS: u32 = 40;
    /// Creates a session for QEMU's cryptodev guest.
    pub(crate) const CREATE_CRYPTO_SESSION: u32 = 26;
    /// Closes a session created with a message.
    pub(crate) const CLOSE_CRYPTO_SESSION: u32 = 27;
}

/// The protocol version, in the two lowest flag bits.
pub(super) const VERSION: u32 = 1;
/// Flag that marks a reply.
pub(super) const REPLY: u32 = 1 << 2;
/// Flag that requests a reply.
pub(super) const NEED_REPLY: u32 = 1 << 3;

/// Protocol feature: the two session messages.
pub(super) const CRYPTO_SESSION: u64 = 1 << 7;
/// Protocol feature: the two device status messages.
pub(super) const STATUS: u64 = 1 << 16;

pub struct Message {
    /// Request number. A reply repeats the number of its request.
    pub request: u32,
    /// Version and flag bits.
    pub flags: u32,
    /// The payload, whose length is sent in the header. It is always wiped, because it may contain
    /// a key.
    pub payload: Zeroizing<Vec<u8>>,
    /// File descriptors sent with the message.
    pub fds: Vec<OwnedFd>,
}

/// Omits the payload, which may contain a key.
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
    /// Creates a message that the adapter sends itself, without descriptors.
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

    /// Returns the payload as a number, or `None` unless it is exactly one 64-bit number.
    pub fn number(&self) -> Option<u64> {
        Some(u64::from_le_bytes(self.payload.as_slice().try_into().ok()?))
    }

    /// Replaces the payload with one 64-bit number.
    pub(crate) fn with_number(mut self, number: u64) -> Message {
        self.payload = Zeroizing::new(number.to_le_bytes().to_vec());
        self
    }

    /// Returns the header in wire format.
    pub fn header(&self) -> [u8; HEADER] {
        let len = u32::try_from(self.payload.len()).expect("a payload of at most LONGEST bytes");
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.request.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..].copy_from_slice(&len.to_le_bytes());
        bytes
    }
}

/// Returns the 32-bit number at offset `at` of a payload, or `None` if the payload is too short.
pub(super) fn word(payload: &[u8], at: usize) -> Option<u32> {
    let bytes = payload.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
}
