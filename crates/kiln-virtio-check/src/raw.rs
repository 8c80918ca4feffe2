//! A front end that can send arbitrary vhost-user messages, including invalid ones.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use crate::link::{hang_up_later, reach, Target, TimeLimit};
use kiln_virtio::wire::feature;
use rustix::event::{eventfd, EventfdFlags};
use rustix::fs::{memfd_create, MemfdFlags};
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// vhost-user request numbers.
pub(crate) const GET_FEATURES: u32 = 1;
pub(crate) const SET_MEM_TABLE: u32 = 5;
pub(crate) const GET_VRING_BASE: u32 = 11;
pub(crate) const GET_CONFIG: u32 = 24;
pub(crate) const CREATE_CRYPTO_SESSION: u32 = 26;
pub(crate) const GET_INFLIGHT_FD: u32 = 31;
pub(crate) const SET_INFLIGHT_FD: u32 = 32;
pub(crate) const ADD_MEM_REG: u32 = 37;
pub(crate) const SET_STATUS: u32 = 39;
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
const GET_PROTOCOL_FEATURES: u32 = 15;
const SET_PROTOCOL_FEATURES: u32 = 16;
const SET_VRING_ENABLE: u32 = 18;

const VERSION: u32 = 1;
const NEED_REPLY: u32 = 8;

/// vhost-user protocol feature bits.
pub(crate) const CRYPTO_SESSION: u64 = 1 << 7;
pub(crate) const INFLIGHT: u64 = 1 << 12;
pub(crate) const STATUS: u64 = 1 << 16;
/// Protocol features that this front end accepts whenever the device offers them: MQ, REPLY_ACK,
/// CONFIG and CONFIGURE_MEM_SLOTS.
const USUAL: u64 = 1 | 1 << 3 | 1 << 9 | 1 << 15;
/// Feature bits that this front end accepts: VERSION_1, VHOST_USER_F_PROTOCOL_FEATURES, and the
/// bits that stateless requests need.
const TAKEN: u64 = 1 << 32 | 1 << 30 | feature::ALL;

/// Size in bytes of the front end's memory, and the address at which the memory starts. The front
/// end reports `BASE` as both the guest address and the user address.
pub(crate) const SIZE: u64 = 64 << 10;
pub(crate) const BASE: u64 = 1 << 28;
pub(crate) const RING: u32 = 64;
/// Each ring has its own part of the memory. These are the offsets of the available ring and the
/// used ring within this part, and the size of the part.
pub(crate) const AVAIL: u64 = 0x1000;
pub(crate) const USED: u64 = 0x2000;
const EACH: u64 = 0x4000;

/// Maximum length in bytes of an answer's payload.
const LONGEST: usize = 4096;

pub(crate) struct Raw {
    socket: UnixStream,
    /// Feature bits and protocol feature bits that the device offers.
    pub features: u64,
    pub offered: u64,
    _hangs_up: TimeLimit,
}

pub(crate) fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Encodes two 32-bit numbers.
fn pair(a: u32, b: u32) -> Vec<u8> {
    words(&[u64::from(a) | u64::from(b) << 32])
}

/// Builds a vhost-user message, which consists of a header and the payload.
pub(crate) fn message(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let header = [request, flags | VERSION, payload.len() as u32];
    let mut bytes = header.map(u32::to_le_bytes).concat();
    bytes.extend(payload);
    bytes
}

/// Creates a memfd with a size of `size` bytes.
pub(crate) fn memory(size: u64, flags: MemfdFlags) -> io::Result<File> {
    let file = File::from(memfd_create(
        "kiln-virtio-check",
        MemfdFlags::CLOEXEC | flags,
    )?);
    file.set_len(size)?;
    Ok(file)
}

/// Closes the connection immediately, for the same reason as the `Drop` implementation of
/// [`crate::link::Link`].
impl Drop for Raw {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Raw {
    /// Connects to the device. The connection stays open for at most [`crate::link::PATIENCE`].
    pub(crate) fn connect(target: &Target) -> io::Result<Raw> {
        let socket = reach(target)?;
        Ok(Raw {
            _hangs_up: hang_up_later(target, &socket)?,
            socket,
            features: 0,
            offered: 0,
        })
    }

    /// Sends arbitrary bytes together with these descriptors. Returns whether everything was sent.
    pub(crate) fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        send_with(&self.socket, bytes, fds).is_ok_and(|sent| sent == bytes.len())
    }

    pub(crate) fn send(&self, request: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        self.send_bytes(&message(request, 0, payload), fds)
    }

    /// Receives the next answer. Returns its payload, or `None` if the connection has ended.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        Some(self.receive_with(&mut [])?.0)
    }

    /// Receives the next answer, along with a descriptor if `space` has room for one. If it has
    /// none, the kernel drops any descriptors that the device sent, and this process need not close
    /// them. Closing a file on a FUSE server that the device runs could block forever.
    fn receive_with(&mut self, space: &mut [MaybeUninit<u8>]) -> Option<(Vec<u8>, Option<File>)> {
        let mut header = [0; 12];
        let mut ancillary = RecvAncillaryBuffer::new(space);
        let got = {
            let mut parts = [IoSliceMut::new(&mut header)];
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
            recvmsg(&self.socket, &mut parts, &mut ancillary, flags).ok()?
        };
        let mut file = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                file = fds.map(File::from).next();
            }
        }
        let len = u32::from_le_bytes(header[8..].try_into().ok()?) as usize;
        if got.bytes != header.len() || len > LONGEST {
            return None;
        }
        let mut payload = vec![0; len];
        self.socket.read_exact(&mut payload).ok()?;
        Some((payload, file))
    }

    pub(crate) fn ask(&mut self, request: u32, payload: &[u8]) -> Option<Vec<u8>> {
        self.send(request, payload, &[]);
        self.receive()
    }

    /// Sends a message whose answer carries a descriptor.
    pub(crate) fn ask_file(&mut self, request: u32, payload: &[u8]) -> Option<(Vec<u8>, File)> {
        self.send(request, payload, &[]);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let (bytes, file) = self.receive_with(&mut space)?;
        Some((bytes, file?))
    }

    fn ask_number(&mut self, request: u32) -> Option<u64> {
        let bytes = self.ask(request, &[])?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Sends a message. Returns whether the device reports success.
    pub(crate) fn done(&mut self, request: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        self.send_bytes(&message(request, NEED_REPLY, payload), fds);
        self.receive() == Some(words(&[0]))
    }

    /// Negotiates features, including the protocol features in `protocol`. Returns false if the
    /// device rejects this front end.
    pub(crate) fn hello(&mut self, protocol: u64) -> bool {
        self.send(SET_OWNER, &[], &[]);
        let Some(features) = self.ask_number(GET_FEATURES) else {
            return false;
        };
        let Some(offered) = self.ask_number(GET_PROTOCOL_FEATURES) else {
            return false;
        };
        (self.features, self.offered) = (features, offered);
        let protocol = (protocol | USUAL) & offered;
        self.done(SET_PROTOCOL_FEATURES, &words(&[protocol]), &[])
            && self.done(SET_FEATURES, &words(&[TAKEN & features]), &[])
    }

    /// Shares the front end's memory. Returns whether the device accepts the memory.
    pub(crate) fn table(&mut self, size: u64, file: &File) -> bool {
        let payload = [pair(1, 0), words(&[BASE, size, BASE, 0])].concat();
        self.done(SET_MEM_TABLE, &payload, &[file.as_fd()])
    }

    /// Shares an additional memory region whose address is far from the front end's memory. Returns
    /// whether the device accepts the region.
    pub(crate) fn add(&mut self, at: u64, size: u64, file: &File) -> bool {
        let at = BASE * 16 + at;
        let payload = words(&[0, at, size, at, 0]);
        self.done(ADD_MEM_REG, &payload, &[file.as_fd()])
    }

    /// Starts a ring in the shared memory at entry `base`. Returns whether the device accepts the
    /// ring.
    pub(crate) fn ring(
        &mut self,
        index: u32,
        base: u16,
        kick: Option<BorrowedFd<'_>>,
        call: BorrowedFd<'_>,
    ) -> bool {
        let number = u64::from(index);
        let at = |offset: u64| BASE + EACH * number + offset;
        let addresses = words(&[number, at(0), at(USED), at(AVAIL), 0]);
        // Bit 8 means that the message carries no descriptor.
        let without = if kick.is_some() { 0 } else { 1 << 8 };
        let kick: Vec<_> = kick.into_iter().collect();
        self.done(SET_VRING_ENABLE, &pair(index, 0), &[])
            && self.done(SET_VRING_NUM, &pair(index, RING), &[])
            && self.done(SET_VRING_BASE, &pair(index, base.into()), &[])
            && self.done(SET_VRING_ADDR, &addresses, &[])
            && self.done(SET_VRING_CALL, &words(&[number]), &[call])
            && self.done(SET_VRING_KICK, &words(&[number | without]), &kick)
            && self.done(SET_VRING_ENABLE, &pair(index, 1), &[])
    }

    /// Shuts down this end of the connection and waits until the device has closed the other end.
    /// After that, the device does not access the shared memory.
    pub(crate) fn close(mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
        self.until_over();
    }

    /// Waits until the connection has ended.
    pub(crate) fn until_over(&mut self) {
        while self.receive().is_some() {}
    }
}

pub(crate) fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC)?)
}

/// Notifies the device. A thread that is never joined performs the write, because the device can
/// block the write by filling the eventfd.
pub(crate) fn ring(kick: &OwnedFd) -> io::Result<()> {
    let kick = kick.try_clone()?;
    thread::spawn(move || rustix::io::write(&kick, &1_u64.to_ne_bytes()));
    Ok(())
}

/// Sends bytes together with these descriptors, and returns how many bytes were sent.
pub(crate) fn send_with(
    socket: &UnixStream,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    let parts = [IoSlice::new(bytes)];
    Ok(sendmsg(
        socket,
        &parts,
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?)
}
