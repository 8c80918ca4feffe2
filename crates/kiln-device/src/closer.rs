//! Closes what may take long to close in processes of their own.
//!
//! A message that was sent and not received goes with its connection, and so do the descriptors that came with it. To drop the
//! last reference to a file is to free it: 0.16 s of CPU time per GiB of a memfd, and no signal cuts that short. So the main
//! process never drops the last reference to what a front end has sent. A child that does nothing else does it.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use rustix::net::{recvmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

/// Such processes at a time. What is more is closed here, as far as signals allow ([`crate::alarm`]).
const PROCESSES: usize = 64;

/// How long one may sleep, as in a close that waits for a peer, until it is killed.
const PATIENCE: Duration = Duration::from_millis(100);

/// More descriptors than Linux lets a message have.
const MOST_FDS: usize = 253;

pub(crate) struct Closer {
    /// Whether this process may fork: it has one thread.
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

    /// Ends a connection.
    pub(crate) fn end(&mut self, stream: UnixStream) {
        // Nothing can be sent to it from here on.
        let _ = stream.shutdown(Shutdown::Both);
        // A process that may not fork may not ask either.
        if self.forks && ioctl_fionread(&stream) != Ok(0) {
            self.left.push(stream.into());
        }
    }

    /// Reads from a stream. Descriptors that come with the bytes are closed.
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

    /// Whether there are processes to look at.
    pub(crate) fn is_busy(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Has closed what was left since the last call, and takes leave of processes that are done.
    pub(crate) fn go_on(&mut self) {
        self.processes.retain(|(process, since)| {
            // SAFETY: no pointers but a null one, which is allowed. The process was not waited for, so the number is its own.
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
            Err(error) => tracing::error!(%error, "no process to close what front ends have sent"),
        }
    }
}

/// Starts a process that has these descriptors and no others, and drops the last references to them.
fn start(left: Vec<OwnedFd>) -> io::Result<libc::pid_t> {
    let (over, hold) = UnixStream::pair()?;
    let mut keep: Vec<RawFd> = left.iter().map(AsRawFd::as_raw_fd).collect();
    keep.push(over.as_raw_fd());
    keep.sort_unstable();
    // SAFETY: this process has one thread, and the child makes system calls only until it leaves by _exit.
    let process = unsafe { libc::fork() };
    match process {
        0 => leave(&keep, over.as_raw_fd()),
        -1 => Err(io::Error::last_os_error()),
        _ => {
            drop(left);
            // Now the child has the last references.
            drop(hold);
            Ok(process)
        }
    }
}

/// The child: closes all descriptors but `keep`, waits until the other end of `over` is closed, and ends.
fn leave(keep: &[RawFd], over: RawFd) -> ! {
    let mut next: libc::c_uint = 0;
    // SAFETY: descriptors of a process that uses none of them any more, and a byte that outlives the call.
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

    /// A TCP socket whose last close takes ten minutes (not in a process that ends), and its peer, which takes nothing.
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
            // Were the last reference dropped here, this would wait.
            closer.go_on();
            while closer.is_busy() {
                sleep(Duration::from_millis(1));
                closer.go_on();
            }
        }
    }
}
