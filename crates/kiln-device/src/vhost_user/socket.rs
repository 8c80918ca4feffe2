//! Sends and receives whole messages, including their descriptors, over a Unix socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    recvmsg, send, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use zeroize::Zeroizing;

use super::error::Error;
use super::message::{word, Message, HEADER_LEN, MAX_FDS, MAX_PAYLOAD};

pub(crate) struct Socket(UnixStream);

impl Socket {
    pub(crate) fn new(stream: UnixStream) -> Socket {
        Socket(stream)
    }

    /// Receives the next message. Returns `None` if the other side has closed the connection.
    ///
    /// # Errors
    /// Fails if the message is truncated, too long, or has too many descriptors.
    pub(crate) fn receive(&self) -> Result<Option<Message>, Error> {
        let (mut header, mut fds) = ([0; HEADER_LEN], Vec::new());
        if !self.fill(&mut header, &mut fds, true)? {
            return Ok(None);
        }
        let field = |at| word(&header, at).expect("a header has three words");
        let len = field(8) as usize;
        if len > MAX_PAYLOAD {
            return Err(Error::TooLong {
                request: field(0),
                len,
            });
        }
        let mut payload = Zeroizing::new(vec![0; len]);
        self.fill(&mut payload, &mut fds, false)?;
        Ok(Some(Message {
            request: field(0),
            flags: field(4),
            payload,
            fds,
        }))
    }

    /// Fills `bytes`. If the other side closes the connection before the first byte, returns false
    /// if `may_end` is set, and an error otherwise.
    fn fill(
        &self,
        mut bytes: &mut [u8],
        fds: &mut Vec<OwnedFd>,
        may_end: bool,
    ) -> Result<bool, Error> {
        let mut first = may_end;
        while !bytes.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(bytes)];
            let got = match recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(got) => got,
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET) if first => return Ok(false),
                Err(e) => return Err(Error::Io(e.into())),
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(more) = message {
                    fds.extend(more);
                }
            }
            // The kernel closes descriptors that do not fit. A message that has lost descriptors
            // must not be processed.
            if fds.len() > MAX_FDS || got.flags.contains(ReturnFlags::CTRUNC) {
                return Err(Error::TooManyFds);
            }
            match got.bytes {
                0 if first => return Ok(false),
                0 => return Err(Error::CutShort),
                n => bytes = &mut bytes[n..],
            }
            first = false;
        }
        Ok(true)
    }

    /// Sends a message. If it has descriptors, they are attached to the first byte.
    ///
    /// # Errors
    /// Fails if the other side has closed the connection, or reads too little before the socket's
    /// timeout expires.
    pub(crate) fn send(&self, message: &Message) -> Result<(), Error> {
        let bytes = message.to_bytes();
        let fds: Vec<BorrowedFd> = message.fds.iter().map(AsFd::as_fd).collect();
        let mut sent = 0;
        while sent < bytes.len() {
            let rest = &bytes[sent..];
            // A guest process is not allowed to send descriptors, so it must not use sendmsg().
            let done = match sent == 0 && !fds.is_empty() {
                true => send_with_fds(&self.0, rest, &fds, SendFlags::NOSIGNAL),
                false => send(&self.0, rest, SendFlags::NOSIGNAL),
            };
            match done {
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(Error::Io(e.into())),
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn try_clone(&self) -> std::io::Result<UnixStream> {
        self.0.try_clone()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends bytes and descriptors. Returns how many bytes were sent.
fn send_with_fds(
    stream: &UnixStream,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, flags)
}

/// Sends a short message with a descriptor, without waiting or allocating. Returns whether it was
/// sent. A message that does not fit is not sent at all.
pub(crate) fn send_nonblocking(stream: &UnixStream, message: &[u8], fd: BorrowedFd<'_>) -> bool {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    send_with_fds(stream, message, &[fd], flags) == Ok(message.len())
}
