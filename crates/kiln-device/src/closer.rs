//! Closes sockets from front ends in child processes, because closing can take a long time.
//!
//! When a socket is closed, the kernel also drops its unread messages and the descriptors sent with
//! them. Dropping the last reference to a file frees it, which takes 0.16 s of CPU time per GiB of a
//! memfd. A TCP socket with `SO_LINGER` waits for its peer, and a file on FUSE may wait for its
//! server. Neither a timer nor SIGKILL ends all of these waits. The main process therefore never
//! drops the last reference to a file that a front end has sent: a child process that has no other
//! task drops it instead.
//!
//! The main process never receives such a descriptor either, because every close() of a file on
//! FUSE, not only the last, waits for its server (FUSE_FLUSH).

use std::io::{self, IoSliceMut};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use rustix::net::{recvmsg, RecvAncillaryBuffer, RecvFlags, ReturnFlags};

/// Maximum number of concurrent child processes per owner. A child process stuck in a file system
/// occupies one of its owner's slots forever.
pub(crate) const PROCESSES: usize = 8;

/// Maximum number of sockets per owner that wait for a child process. At this limit the owner's
/// front ends can connect only after one of its child processes has exited.
pub(crate) const LEFT: usize = 64;

/// How long a child process may run before it is killed. Closing a TCP socket can block until the
/// remote side has read all data.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long a front end whose connection has ended is expected to exit, or to read its answers.
/// Others may wait for its place meanwhile.
const READING: Duration = Duration::from_millis(500);

/// The listening socket that a front end has connected to, by its index. The limits above are per
/// owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Socket(usize),
    Metrics,
}

pub(crate) struct Closer {
    /// Whether this process may fork, which is safe only while it has a single thread.
    forks: bool,
    left: Vec<(Owner, OwnedFd)>,
    /// Connections that are shut down, but whose front ends have not read all answers. The kernel
    /// counts the descriptors in these answers, which are in flight, against the device's user.
    unread: Vec<Unread>,
    children: Vec<Child>,
}

struct Unread {
    owner: Owner,
    stream: UnixStream,
    since: Instant,
}

struct Child {
    owner: Owner,
    process: libc::pid_t,
    since: Instant,
}

impl Closer {
    pub(crate) fn new(forks: bool) -> Closer {
        Closer {
            forks,
            left: Vec::new(),
            unread: Vec::new(),
            children: Vec::new(),
        }
    }

    /// Closes a connection. If unread data remains, a child process will close it.
    pub(crate) fn end(&mut self, owner: Owner, stream: UnixStream) {
        // After the shutdown, the other side cannot send anything more.
        let _ = stream.shutdown(Shutdown::Both);
        // In a process that may not fork, the sandbox forbids this ioctl as well.
        if self.forks && ioctl_fionread(&stream) != Ok(0) {
            self.left.push((owner, stream.into()));
        }
    }

    /// Closes a connection that a guest's process has held, always in a child process. A
    /// compromised process can receive a byte out of band, and then the descriptors sent with that
    /// byte stay in the socket although FIONREAD returns 0.
    ///
    /// Returns false if the front end has not read all answers. Until it has, or closes its end, the
    /// connection counts among those of [`Closer::unread`].
    pub(crate) fn end_held(&mut self, owner: Owner, stream: UnixStream) -> bool {
        let _ = stream.shutdown(Shutdown::Both);
        if !self.forks {
            return true;
        }
        if is_read(&stream) {
            self.left.push((owner, stream.into()));
            return true;
        }
        // The front end's own end may be in a message that was not received. A child process drops
        // the messages, because otherwise the front end could never close it.
        match stream.try_clone() {
            Ok(copy) => {
                self.left.push((owner, copy.into()));
                let since = Instant::now();
                self.unread.push(Unread {
                    owner,
                    stream,
                    since,
                });
                false
            }
            Err(_) => {
                self.left.push((owner, stream.into()));
                true
            }
        }
    }

    /// Returns the number of an owner's connections whose front ends have not read all answers.
    pub(crate) fn unread(&self, owner: Owner) -> usize {
        self.unread.iter().filter(|u| u.owner == owner).count()
    }

    /// Returns whether one of these connections has ended so recently that the front end may still
    /// be about to exit.
    pub(crate) fn may_be_read(&self, owner: Owner) -> bool {
        let is_new = |u: &Unread| u.owner == owner && u.since.elapsed() < READING;
        self.unread.iter().any(is_new)
    }

    /// Returns whether further front ends of this owner may connect.
    pub(crate) fn has_room(&self, owner: Owner) -> bool {
        self.left.iter().filter(|(of, _)| *of == owner).count() < LEFT
    }

    /// Returns whether [`Closer::go_on`] has something to wait for.
    pub(crate) fn is_busy(&self) -> bool {
        !self.children.is_empty() || !self.left.is_empty() || !self.unread.is_empty()
    }

    /// Reaps child processes that have exited. Starts one for each owner with waiting sockets and
    /// fewer than [`PROCESSES`] children; the sockets of other owners keep waiting.
    pub(crate) fn go_on(&mut self) {
        let unread = std::mem::take(&mut self.unread).into_iter();
        let (read, unread): (Vec<_>, _) = unread.partition(|u| is_read(&u.stream));
        self.unread = unread;
        let read = read.into_iter().map(|u| (u.owner, u.stream.into()));
        self.left.extend(read);
        self.children.retain(|child| {
            // SAFETY: the only pointer is null, which waitpid() allows. The child has not been
            // waited for yet, so its process ID has not been reused.
            unsafe {
                if child.since.elapsed() > PATIENCE {
                    libc::kill(child.process, libc::SIGKILL);
                }
                libc::waitpid(child.process, std::ptr::null_mut(), libc::WNOHANG) == 0
            }
        });
        while let Some(owner) = self.next_owner() {
            let left = std::mem::take(&mut self.left).into_iter();
            let (over, rest) = left.partition(|(of, _)| *of == owner);
            self.left = rest;
            if !self.hand_over(owner, over) {
                return;
            }
        }
    }

    /// Hands all waiting sockets to one more child process, regardless of the limits, because this
    /// process is about to exit and would otherwise drop the last references itself.
    pub(crate) fn finish(mut self) {
        let mut left = std::mem::take(&mut self.left);
        let unread = std::mem::take(&mut self.unread).into_iter();
        left.extend(unread.map(|u| (u.owner, u.stream.into())));
        if self.forks && !left.is_empty() {
            self.hand_over(Owner::Metrics, left);
        }
    }

    /// Keeps a listening socket for [`Closer::finish`], because front ends that were never accepted
    /// may have sent something.
    pub(crate) fn end_listener(&mut self, owner: Owner, listener: OwnedFd) {
        // After the shutdown, the socket refuses connections.
        let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
        self.left.push((owner, listener));
    }

    /// Returns an owner with waiting sockets that may start a child process.
    fn next_owner(&self) -> Option<Owner> {
        let running = |owner| self.children.iter().filter(|c| c.owner == owner).count();
        let mut owners = self.left.iter().map(|(owner, _)| *owner);
        owners.find(|owner| !self.forks || running(*owner) < PROCESSES)
    }

    /// Hands the sockets to a child process. Returns false, and keeps them, if it cannot be
    /// started.
    fn hand_over(&mut self, owner: Owner, over: Vec<(Owner, OwnedFd)>) -> bool {
        if !self.forks {
            return true;
        }
        match start(&over) {
            Ok((process, hold)) => {
                drop(over);
                // The child holds the last references now, and closing `hold` lets it exit.
                drop(hold);
                self.children.push(Child {
                    owner,
                    process,
                    since: Instant::now(),
                });
                true
            }
            Err(error) => {
                tracing::error!(
                    %error,
                    "cannot start a process that closes descriptors from front ends"
                );
                self.left.extend(over);
                false
            }
        }
    }
}

/// Returns whether the other side has received everything sent on a connection, or has closed it.
fn is_read(stream: &UnixStream) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the command writes one number, which outlives the call.
    let done = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    done != 0 || bytes == 0
}

/// Reads bytes that were sent without descriptors.
///
/// # Errors
/// Fails if descriptors were sent with the next bytes, and leaves both in the socket: reading the
/// bytes alone would drop this process's references to the files.
pub(crate) fn read(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<usize> {
    let receive = |bytes: &mut [u8], flags| {
        let mut parts = [IoSliceMut::new(bytes)];
        recvmsg(
            stream,
            &mut parts,
            &mut RecvAncillaryBuffer::default(),
            flags | RecvFlags::DONTWAIT,
        )
    };
    // Without a control buffer, MSG_PEEK sets MSG_CTRUNC if descriptors are attached. recvmsg() never
    // reads beyond the first bytes that have descriptors, so if the flag is clear, none of the bytes
    // has any.
    let seen = receive(bytes, RecvFlags::PEEK)?;
    if seen.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "descriptors were sent",
        ));
    }
    Ok(receive(&mut bytes[..seen.bytes], RecvFlags::empty())?.bytes)
}

/// Starts a child process that holds these sockets until the returned socket is closed, and then
/// drops what they have received and exits.
fn start(left: &[(Owner, OwnedFd)]) -> io::Result<(libc::pid_t, UnixStream)> {
    let (over, hold) = UnixStream::pair()?;
    let mut keep: Vec<RawFd> = left.iter().map(|(_, fd)| fd.as_raw_fd()).collect();
    keep.push(over.as_raw_fd());
    keep.sort_unstable();
    // SAFETY: this process has a single thread, and the child makes only system calls before it
    // calls _exit().
    let process = unsafe { libc::fork() };
    match process {
        0 => leave(&keep, over.as_raw_fd()),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok((process, hold)),
    }
}

/// Runs in the child: closes all descriptors not in `keep`, waits until the other end of `over` is
/// closed, drops what the sockets have received, and exits.
fn leave(keep: &[RawFd], over: RawFd) -> ! {
    let mut next: libc::c_uint = 0;
    // SAFETY: this process does not use any of the closed descriptors afterwards, and `byte`
    // outlives the read() call that writes to it.
    unsafe {
        for fd in keep.iter().map(|fd| *fd as libc::c_uint) {
            if fd > next {
                libc::syscall(libc::SYS_close_range, next, fd - 1, 0);
            }
            next = fd + 1;
        }
        libc::syscall(libc::SYS_close_range, next, libc::c_uint::MAX, 0);
        let mut byte = 0u8;
        libc::read(over, std::ptr::from_mut(&mut byte).cast(), 1);
        // The main process may keep some of the sockets open.
        for fd in keep {
            let mut bytes = [0u8; 4096];
            let at = bytes.as_mut_ptr().cast();
            while libc::recv(*fd, at, bytes.len(), libc::MSG_DONTWAIT) > 0 {}
        }
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::thread::sleep;

    use rustix::net::sockopt::{set_socket_linger, set_socket_oobinline};
    use vmm_sys_util::sock_ctrl_msg::ScmSocket;

    /// Returns a TCP socket whose last close blocks for ten minutes unless the process is exiting,
    /// and the socket connected to it, from which nothing is read.
    fn slow_to_close() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 1 << 16]).is_ok() {}
        set_socket_linger(&stream, Some(Duration::from_secs(600))).unwrap();
        (stream, peer)
    }

    /// Returns a connection to which a front end has sent a byte with a descriptor that is slow to
    /// close, and whatever must stay open meanwhile.
    fn sent() -> (UnixStream, impl Sized) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (slow, peer) = slow_to_close();
        ours.send_with_fd(&[1u8][..], slow.as_raw_fd()).unwrap();
        (theirs, (ours, peer))
    }

    #[test]
    fn what_was_sent_out_of_band_and_read_is_closed_in_another_process() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (slow, _peer) = slow_to_close();
        let fds = [slow.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&fds)));
        let byte = [io::IoSlice::new(&[1])];
        let flags = rustix::net::SendFlags::OOB;
        rustix::net::sendmsg(&ours, &byte, &mut control, flags).unwrap();
        let mut read = [0; 1];
        rustix::net::recv(&theirs, &mut read, RecvFlags::OOB).unwrap();
        // Control: nothing is left to read, so end() would close the socket in this process.
        assert_eq!(ioctl_fionread(&theirs), Ok(0));
        let mut closer = Closer::new(true);
        closer.end_held(Owner::Socket(0), theirs);
        assert_eq!(closer.left.len(), 1);
        closer.finish();
    }

    #[test]
    fn what_was_sent_is_closed_in_another_process() {
        let mut closer = Closer::new(true);
        let owner = Owner::Socket(0);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        closer.end(owner, theirs);
        closer.go_on();
        assert!(!closer.is_busy(), "nothing was sent");
        assert!(ours.write_all(&[1]).is_err(), "it is over");
        // A guest's process has held this connection and could have hidden what was sent.
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        closer.end_held(owner, theirs);
        assert!(closer.is_busy(), "a child process closes it");
        closer.go_on();
        while closer.is_busy() {
            sleep(Duration::from_millis(1));
            closer.go_on();
        }
        assert!(ours.write_all(&[1]).is_err(), "it is over");

        for is_read in [false, true] {
            let (theirs, _held) = sent();
            if is_read {
                let refused = read(&theirs, &mut [0]).unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
            }
            closer.end(owner, theirs);
            // If this process dropped the last reference, this call would block.
            closer.go_on();
            while closer.is_busy() {
                sleep(Duration::from_millis(1));
                closer.go_on();
            }
        }
        let (theirs, _held) = sent();
        closer.end(owner, theirs);
        closer.finish();
    }

    /// Bytes without descriptors are read, even if bytes with descriptors follow. Bytes with
    /// descriptors are not, out of band or not.
    #[test]
    fn bytes_are_read_only_without_descriptors() {
        for out_of_band in [false, true] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            set_socket_oobinline(&theirs, true).unwrap();
            ours.write_all(b"abc").unwrap();
            let mut bytes = [0; 8];
            assert_eq!(read(&theirs, &mut bytes).unwrap(), 3);
            assert_eq!(&bytes[..3], b"abc");
            let empty = read(&theirs, &mut bytes).unwrap_err();
            assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
            let (pipe, other) = std::io::pipe().unwrap();
            ours.write_all(b"d").unwrap();
            send(&ours, &other, out_of_band);
            ours.write_all(b"f").unwrap();
            drop(other);
            // The bytes before an out-of-band mark are read separately.
            if read(&theirs, &mut bytes).is_ok() {
                assert!(out_of_band && bytes[0] == b'd');
                assert!(read(&theirs, &mut bytes).is_err());
            }
            rustix::io::ioctl_fionbio(&pipe, true).unwrap();
            let closed = rustix::io::read(&pipe, &mut [0; 1]);
            assert_eq!(closed, Err(rustix::io::Errno::AGAIN), "it is still open");
            drop(theirs);
            assert_eq!(rustix::io::read(&pipe, &mut [0; 1]), Ok(0), "the control");
        }
    }

    fn send(stream: &UnixStream, fd: &impl std::os::fd::AsFd, out_of_band: bool) {
        use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
        use std::mem::MaybeUninit;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [fd.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let flags = match out_of_band {
            true => SendFlags::OOB,
            false => SendFlags::empty(),
        };
        sendmsg(stream, &[io::IoSlice::new(b"e")], &mut ancillary, flags).unwrap();
    }

    /// A child process that never exits occupies only a slot of its own socket. That socket's
    /// further connections then wait instead of being closed here.
    #[test]
    fn children_that_do_not_end_take_the_places_of_their_own_socket() {
        let mut closer = Closer::new(true);
        let (full, other) = (Owner::Socket(0), Owner::Socket(1));
        // SAFETY: the child only waits for a signal.
        let stuck = || unsafe {
            match libc::fork() {
                0 => loop {
                    libc::pause();
                },
                process => Child {
                    owner: full,
                    process,
                    // It is not killed for a day, as if a signal could not end it.
                    since: Instant::now() + Duration::from_secs(86_400),
                },
            }
        };
        closer.children = (0..PROCESSES).map(|_| stuck()).collect();
        for n in 0..LEFT {
            assert!(closer.has_room(full), "{n}");
            closer.left.push((full, sent_nothing()));
            closer.go_on();
        }
        assert!(!closer.has_room(full) && closer.has_room(other));
        assert_eq!(closer.children.len(), PROCESSES);
        let (theirs, _held) = sent();
        closer.end(other, theirs);
        closer.go_on();
        assert_eq!(closer.left.len(), LEFT, "the other socket's is closed");
        assert_eq!(closer.children.len(), PROCESSES + 1);
        // One of them exits, so a child process takes over all waiting sockets. SAFETY: the child
        // has not been waited for.
        unsafe { libc::kill(closer.children[0].process, libc::SIGKILL) };
        while !closer.left.is_empty() {
            sleep(Duration::from_millis(1));
            closer.go_on();
        }
        assert!(closer.has_room(full));
        for child in &closer.children {
            // SAFETY: as above.
            unsafe { libc::kill(child.process, libc::SIGKILL) };
        }
        while closer.is_busy() {
            sleep(Duration::from_millis(1));
            closer.go_on();
        }
    }

    fn sent_nothing() -> OwnedFd {
        UnixStream::pair().unwrap().0.into()
    }
}
