//! A vhost-user message (QEMU's `docs/interop/vhost-user.rst`): a header of three words, a payload,
//! and file descriptors.

use std::fmt;
use std::os::fd::OwnedFd;

use zeroize::Zeroizing;

/// Header size in bytes: request, flags, payload length.
pub(crate) const HEADER_LEN: usize = 12;

/// Maximum payload length in bytes.
pub const MAX_PAYLOAD: usize = 4096;

/// Maximum number of file descriptors accepted with any message. SET_MEM_TABLE can have the most,
/// because it has one for each of up to eight regions.
pub(super) const MAX_FDS: usize = 8;

/// How many times a front end may request memory for recording in-flight requests. Each answer
/// carries a descriptor, and the front end may leave every answer unread, so this also limits the
/// number of descriptors in unread answers.
pub(crate) const MAX_GET_INFLIGHT: u32 = 4;

/// Returns how many file descriptors a front end may send with a request.
pub(super) fn max_fds(request: u32) -> usize {
    match request {
        request::SET_MEM_TABLE => MAX_FDS,
        request::SET_VRING_KICK
        | request::SET_VRING_CALL
        | request::SET_VRING_ERR
        | request::SET_BACKEND_REQ_FD
        | request::SET_INFLIGHT_FD
        | request::ADD_MEM_REG
        // The specification lets a device accept this descriptor because old front ends send it.
        // This device accepts and closes it.
        | request::REM_MEM_REG => 1,
        _ => 0,
    }
}

/// The numbers of the requests that the device serves.
pub(crate) mod request {
    pub(crate) const GET_FEATURES: u32 = 1;
    /// Sets the feature bits that the front end accepted.
    pub(crate) const SET_FEATURES: u32 = 2;
    pub(crate) const SET_OWNER: u32 = 3;
    pub(crate) const RESET_OWNER: u32 = 4;
    pub(crate) const SET_MEM_TABLE: u32 = 5;
    pub(crate) const SET_VRING_NUM: u32 = 8;
    pub(crate) const SET_VRING_ADDR: u32 = 9;
    pub(crate) const SET_VRING_BASE: u32 = 10;
    /// Stops a queue, and asks for the index of its next available entry.
    pub(crate) const GET_VRING_BASE: u32 = 11;
    /// Passes a queue's kick descriptor, which starts the queue.
    pub(crate) const SET_VRING_KICK: u32 = 12;
    pub(crate) const SET_VRING_CALL: u32 = 13;
    pub(crate) const SET_VRING_ERR: u32 = 14;
    /// Asks which protocol extensions the device supports.
    pub(crate) const GET_PROTOCOL_FEATURES: u32 = 15;
    /// Sets the protocol extensions that the front end accepted.
    pub(crate) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(crate) const GET_QUEUE_NUM: u32 = 17;
    /// Enables or disables a queue.
    pub(crate) const SET_VRING_ENABLE: u32 = 18;
    /// Passes the back-end channel, on which a device can send requests.
    pub(crate) const SET_BACKEND_REQ_FD: u32 = 21;
    pub(crate) const GET_CONFIG: u32 = 24;
    /// Creates a session for the guest that QEMU's cryptodev serves.
    pub(crate) const CREATE_CRYPTO_SESSION: u32 = 26;
    /// Closes a session that CREATE_CRYPTO_SESSION created.
    pub(crate) const CLOSE_CRYPTO_SESSION: u32 = 27;
    /// Requests memory for recording requests in flight. The answer carries a descriptor for this
    /// memory.
    pub(crate) const GET_INFLIGHT_FD: u32 = 31;
    pub(crate) const SET_INFLIGHT_FD: u32 = 32;
    pub(crate) const RESET_DEVICE: u32 = 34;
    pub(crate) const GET_MAX_MEM_SLOTS: u32 = 36;
    pub(crate) const ADD_MEM_REG: u32 = 37;
    pub(crate) const REM_MEM_REG: u32 = 38;
    /// Sets the device status to the value that the driver wrote.
    pub(crate) const SET_STATUS: u32 = 39;
    pub(crate) const GET_STATUS: u32 = 40;
}

/// The protocol version, in the two lowest flag bits.
pub(super) const VERSION: u32 = 1;
/// Flag that marks a reply.
pub(super) const REPLY: u32 = 1 << 2;
/// Flag that requests a reply.
pub(super) const NEED_REPLY: u32 = 1 << 3;

/// Returns whether a message's flags mark it as a request in this protocol version.
pub(super) fn is_request(flags: u32) -> bool {
    const VERSIONS: u32 = 3;
    const RESERVED: u32 = !0xf;
    flags & VERSIONS == VERSION && flags & (REPLY | RESERVED) == 0
}

/// Protocol features, which a front end must accept before it sends certain messages.
pub(crate) mod feature {
    /// More than one queue.
    pub(crate) const MQ: u64 = 1;
    /// Replies to requests that have no answer of their own.
    pub(crate) const REPLY_ACK: u64 = 1 << 3;
    /// The back-end channel.
    pub(crate) const BACKEND_REQ: u64 = 1 << 5;
    /// Creating and closing sessions by message.
    pub(crate) const CRYPTO_SESSION: u64 = 1 << 7;
    /// Reading the configuration space.
    pub(crate) const CONFIG: u64 = 1 << 9;
    /// Memory that both sides share to record requests in flight.
    pub(crate) const INFLIGHT_SHMFD: u64 = 1 << 12;
    pub(crate) const RESET_DEVICE: u64 = 1 << 13;
    /// Adding and removing individual memory regions.
    pub(crate) const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
    /// Reading and setting the device status.
    pub(crate) const STATUS: u64 = 1 << 16;

    pub(crate) const ALL: u64 = MQ
        | REPLY_ACK
        | BACKEND_REQ
        | CRYPTO_SESSION
        | CONFIG
        | INFLIGHT_SHMFD
        | RESET_DEVICE
        | CONFIGURE_MEM_SLOTS
        | STATUS;
}

/// Returns the protocol feature that a request belongs to, or 0 if it belongs to none.
pub(super) fn feature_of(request: u32) -> u64 {
    match request {
        request::GET_QUEUE_NUM => feature::MQ,
        request::SET_BACKEND_REQ_FD => feature::BACKEND_REQ,
        request::CREATE_CRYPTO_SESSION | request::CLOSE_CRYPTO_SESSION => feature::CRYPTO_SESSION,
        request::GET_CONFIG => feature::CONFIG,
        request::GET_INFLIGHT_FD | request::SET_INFLIGHT_FD => feature::INFLIGHT_SHMFD,
        request::RESET_DEVICE => feature::RESET_DEVICE,
        request::GET_MAX_MEM_SLOTS | request::ADD_MEM_REG | request::REM_MEM_REG => {
            feature::CONFIGURE_MEM_SLOTS
        }
        request::GET_STATUS | request::SET_STATUS => feature::STATUS,
        _ => 0,
    }
}

pub struct Message {
    /// Request number. A reply repeats the number of its request.
    pub request: u32,
    /// Version and flag bits.
    pub flags: u32,
    /// The payload. It is wiped when dropped, because it may contain a key.
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
    /// Creates a message without descriptors.
    pub fn new(request: u32, flags: u32, payload: Vec<u8>) -> Message {
        Message {
            request,
            flags,
            payload: Zeroizing::new(payload),
            fds: Vec::new(),
        }
    }

    pub(crate) fn answer(request: u32, payload: impl Into<Vec<u8>>) -> Message {
        Message::new(request, VERSION | REPLY, payload.into())
    }

    /// Returns the message in wire format, in memory that is wiped when dropped.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let len =
            u32::try_from(self.payload.len()).expect("a payload of at most MAX_PAYLOAD bytes");
        let mut bytes = Zeroizing::new(Vec::with_capacity(HEADER_LEN + self.payload.len()));
        for word in [self.request, self.flags, len] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}

/// Returns the 32-bit number at offset `at` of a payload, or `None` if the payload is too short.
pub(super) fn word(payload: &[u8], at: usize) -> Option<u32> {
    let bytes = payload.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
}
