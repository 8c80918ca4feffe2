//! Checks the descriptors with which a front end and the device signal each other: kicks, calls,
//! errors, and the device's channel to the front end. The device keeps these descriptors open until
//! the connection ends.
//!
//! Such a descriptor must never keep the front end's own end of the connection open. It would do so
//! if it referred to that end itself, or to a file or queued message that keeps that end open. The
//! connection would then never hang up, even after the front end has exited, and the guest's
//! process, memory and slot would be lost.

use std::fs::File;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::fs::{fstat, FileType};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{recv, AddressFamily, RecvFlags, SocketType};

use super::error::Error;
use super::message::{request, Message};

/// Refuses a message unless each of its descriptors is of a kind that drivers use as a signal: an
/// eventfd or a pipe. For calls and for the channel, user mode Linux passes one socket of a socket
/// pair instead. Such a socket is also accepted, but nothing can be received from it afterwards.
///
/// # Errors
/// Fails if a descriptor is anything else.
pub(super) fn check(message: &Message) -> Result<(), Error> {
    let may_be_socket = match message.request {
        request::SET_VRING_KICK => false,
        request::SET_VRING_CALL | request::SET_VRING_ERR | request::SET_BACKEND_REQ_FD => true,
        _ => return Ok(()),
    };
    let is_fine = |fd: &OwnedFd| match FileType::from_raw_mode(fstat(fd)?.st_mode) {
        FileType::Fifo => Ok(true),
        FileType::Socket if may_be_socket => keep_from_receiving(fd),
        // Only the kernel's anonymous files, such as eventfds, have no file type.
        FileType::Unknown => is_eventfd(fd),
        _ => Ok(false),
    };
    for fd in &message.fds {
        if !is_fine(fd).map_err(Error::Io)? {
            return Err(Error::Signal(message.request));
        }
    }
    Ok(())
}

/// Returns whether a file that has no file type is an eventfd. Writing 0 to an eventfd succeeds and
/// leaves its counter unchanged, but other files without a type do not support writing. These
/// include io_uring instances, which must be refused because they can keep other files open.
fn is_eventfd(fd: &OwnedFd) -> io::Result<bool> {
    let file = File::from(fd.try_clone()?);
    Ok((&file).write(&0u64.to_ne_bytes()).is_ok())
}

/// Shuts down the receiving side of a Unix stream socket and discards the data queued there.
/// Returns false if the socket is of another kind, or if its peer has a name. The sockets of a pair
/// have no names. The front end's own end of the connection has a named peer, because the device's
/// socket is bound to a path.
fn keep_from_receiving(fd: &OwnedFd) -> io::Result<bool> {
    if socket_domain(fd)? != AddressFamily::UNIX || socket_type(fd)? != SocketType::STREAM {
        return Ok(false);
    }
    let stream = UnixStream::from(fd.try_clone()?);
    if !stream.peer_addr().is_ok_and(|peer| peer.is_unnamed()) {
        return Ok(false);
    }
    // The loop below ends, because the other end cannot send after this shutdown.
    stream.shutdown(Shutdown::Read)?;
    let mut bytes = [0; 4096];
    loop {
        // Without a control buffer, the kernel drops any descriptors sent along with the data.
        match recv(&stream, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Ok(true),
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::VERSION;
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use vmm_sys_util::sock_ctrl_msg::ScmSocket;

    use crate::fork_lock::fork_alone;

    const SIGNALS: [u32; 4] = [12, 13, 14, 21];

    fn message(request: u32, fd: OwnedFd) -> Message {
        let mut message = Message::new(request, VERSION, vec![0; 8]);
        message.fds.push(fd);
        message
    }

    /// Returns, for each of the four messages in `SIGNALS`, whether it may carry this file.
    fn accepted(fd: impl Into<OwnedFd>) -> [bool; 4] {
        let fd = fd.into();
        SIGNALS.map(|request| check(&message(request, fd.try_clone().unwrap())).is_ok())
    }

    #[test]
    fn only_what_drivers_use_as_a_signal_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let own = UnixStream::connect(&path).unwrap();
        let (datagram, _other) = UnixDatagram::pair().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC);
        // The front end's own end of this connection, or of another one, must be refused.
        assert_eq!(accepted(own), [false; 4]);
        assert_eq!(accepted(listener), [false; 4]);
        // Sockets that can send to any address must be refused.
        assert_eq!(accepted(datagram), [false; 4]);
        assert_eq!(accepted(udp), [false; 4]);
        assert_eq!(accepted(epoll.unwrap()), [false; 4]);
        assert_eq!(accepted(File::open("/dev/zero").unwrap()), [false; 4]);
        // Controls: descriptors that drivers use must be accepted.
        let (pair, _other) = UnixStream::pair().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let event = rustix::event::eventfd(1, rustix::event::EventfdFlags::empty()).unwrap();
        assert_eq!(accepted(event.try_clone().unwrap()), [true; 4]);
        assert_eq!(rustix::io::read(&event, &mut [0; 8]), Ok(8), "unchanged");
        assert_eq!(accepted(reader), [true; 4]);
        assert_eq!(accepted(writer), [true; 4]);
        assert_eq!(accepted(pair), [false, true, true, true]);
        // Messages of other kinds are not checked.
        assert!(check(&message(5, File::open("/dev/zero").unwrap().into())).is_ok());
    }

    /// If a message sent to a call socket were neither received nor dropped, the files attached to
    /// it would stay open until the socket was closed.
    #[test]
    fn a_call_keeps_no_other_file_open() {
        let _alone = fork_alone();
        for sent_before in [true, false] {
            let (reader, writer) = std::io::pipe().unwrap();
            let (call, theirs) = UnixStream::pair().unwrap();
            let send = || theirs.send_with_fd(&[0u8][..], writer.as_raw_fd());
            if sent_before {
                send().unwrap();
            }
            let call = message(13, call.into());
            check(&call).unwrap();
            if !sent_before {
                assert!(send().is_err());
            }
            drop(writer);
            // End of file on the pipe shows that every descriptor for the write end is closed.
            rustix::io::ioctl_fionbio(&reader, true).unwrap();
            assert_eq!(rustix::io::read(&reader, &mut [0; 8]), Ok(0));
        }
        // Control: without the check, the write end stays open.
        let (reader, writer) = std::io::pipe().unwrap();
        let (call, theirs) = UnixStream::pair().unwrap();
        theirs.send_with_fd(&[0u8][..], writer.as_raw_fd()).unwrap();
        drop(writer);
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        assert_eq!(rustix::io::read(&reader, &mut [0; 8]), Err(Errno::AGAIN));
        drop(call);
    }
}
