//! Closes file descriptors from front ends in child processes, because closing can take a long
//! time.
//!
//! When a connection is closed, the kernel also drops its unread messages and the descriptors sent
//! with them. Dropping the last reference to a file frees it, which takes 0.16 s of CPU time per
//! GiB of a memfd, and no signal interrupts that work. The main process therefore never drops the
//! last reference to a file that a front end has sent. A child process that has no other task drops
//! it instead.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use rustix::net::{recvmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

/// Maximum number of concurrent child processes. At the limit, the main process closes descriptors
/// itself, and signals limit how long it waits ([`crate::alarm`]).
const PROCESSES: usize = 64;

/// How long a child process may run before it is killed. Closing a socket can block until the
/// remote side has read all data.
const PATIENCE: Duration = Duration::from_millis(100);

/// Maximum number of descriptors that Linux allows in one message (`SCM_MAX_FD`).
const MOST_FDS: usize = 253;

pub(crate) struct Closer {
    /// Whether this process may fork, which is safe only while it has a single thread.
    forks: bool,
    left: Vec<OwnedFd>,
    processes: Vec<(libc::pid_t, Instant)>,
}

impl Closer {
    pub(crate) fn new(forks: bool) -> Closer {
        Closer {
            forks,
            left: Vec::new(),
            processes: Vec::new(),
        }
    }

    /// Closes a connection. If unread data remains, a child process will close it.
    pub(crate) fn end(&mut self, stream: UnixStream) {
        // After the shutdown, the other side cannot send anything more.
        let _ = stream.shutdown(Shutdown::Both);
        // In a process that may not fork, the sandbox forbids this ioctl as well.
        if self.forks && ioctl_fionread(&stream) != Ok(0) {
            self.left.push(stream.into());
        }
    }

    /// Reads from a stream. Descriptors received with the bytes are closed by the next
    /// [`Closer::go_on`].
    pub(crate) fn read(&mut self, stream: &UnixStream, bytes: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(bytes)];
        let got = recvmsg(
            stream,
            &mut parts,
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        )?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.left.extend(fds);
            }
        }
        Ok(got.bytes)
    }

    /// Returns whether child processes exist that [`Closer::go_on`] has to wait for.
    pub(crate) fn is_busy(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Closes everything scheduled since the last call, and reaps child processes that have ended.
    pub(crate) fn go_on(&mut self) {
        self.processes.retain(|(process, since)| {
            // SAFETY: the only pointer is null, which waitpid() allows. The child has not been
            // waited for yet, so its process ID has not been reused.
            unsafe {
                if since.elapsed() > PATIENCE {
                    libc::kill(*process, libc::SIGKILL);
                }
                libc::waitpid(*process, std::ptr::null_mut(), libc::WNOHANG) == 0
            }
        });
        if self.left.is_empty() {
            return;
        }
        let left = std::mem::take(&mut self.left);
        if !self.forks || self.processes.len() >= PROCESSES {
            return;
        }
        match start(left) {
            Ok(process) => self.processes.push((process, Instant::now())),
            Err(error) => {
                tracing::error!(
                    %error,
                    "cannot start a process that closes descriptors from front ends"
                );
            }
        }
    }
}

/// Starts a child process that holds the last references to these descriptors and drops them when
/// it exits.
fn start(left: Vec<OwnedFd>) -> io::Result<libc::pid_t> {
    let (over, hold) = UnixStream::pair()?;
    let mut keep: Vec<RawFd> = left.iter().map(AsRawFd::as_raw_fd).collect();
    keep.push(over.as_raw_fd());
    keep.sort_unstable();
    // SAFETY: this process has a single thread, and the child makes only system calls before it
    // ends with _exit().
    let process = unsafe { libc::fork() };
    match process {
        0 => leave(&keep, over.as_raw_fd()),
        -1 => Err(io::Error::last_os_error()),
        _ => {
            drop(left);
            // The child holds the last references now, and closing `hold` lets it exit.
            drop(hold);
            Ok(process)
        }
    }
}

/// Runs in the child: closes all descriptors not in `keep`, waits until the other end of `over` is
/// closed, and exits.
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
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::thread::sleep;

    use rustix::net::sockopt::set_socket_linger;
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

    #[test]
    fn what_was_sent_is_closed_in_another_process() {
        let mut closer = Closer::new(true);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        closer.end(theirs);
        closer.go_on();
        assert!(!closer.is_busy(), "nothing was sent");
        assert!(ours.write_all(&[1]).is_err(), "it is over");

        for received in [false, true] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (slow, _peer) = slow_to_close();
            ours.send_with_fd(&[1u8][..], slow.as_raw_fd()).unwrap();
            drop(slow);
            if received {
                assert_eq!(closer.read(&theirs, &mut [0]).unwrap(), 1);
            }
            closer.end(theirs);
            // If this process dropped the last reference, this call would block.
            closer.go_on();
            while closer.is_busy() {
                sleep(Duration::from_millis(1));
                closer.go_on();
            }
        }
    }
}
