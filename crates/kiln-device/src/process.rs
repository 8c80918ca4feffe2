//! The main process's view of a process that serves one guest. That process runs the same program
//! with the same arguments. It is started in advance, enters its sandbox, and then receives a
//! connection.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use kiln_virtio::Worker;
use rustix::pipe::{pipe_with, PipeFlags};

use crate::adapter::{Message, Socket};

/// The environment variable that marks a guest's process. It contains the numbers of two
/// descriptors, the channel and the pipe, and the TSC frequency, which would take 20 ms to measure
/// after the guest has connected.
pub(crate) const VARIABLE: &str = "KILN_SERVE_GUEST";

/// Values that a guest's process sends when it is ready for a guest. The second value also reports
/// that the process could not lock its memory.
pub(crate) const READY: u8 = b'r';
pub(crate) const READY_UNLOCKED: u8 = b'u';

/// The only message that the main process sends. It contains the guest number, the socket number,
/// and two descriptors: the connection and the counters.
pub(crate) const GUEST: u32 = 1;

/// The progress of a guest's process from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Starting,
    Ready {
        locked: bool,
    },
    /// The process has closed its end of the pipe, so it is exiting or has exited.
    Closed,
}

pub(crate) struct Process {
    child: Child,
    /// Passes the guest to the process. Nothing can be sent to this end: a compromised process
    /// could send descriptors, and closing those can block.
    channel: UnixStream,
    /// The pipe for the report that the process is ready. A pipe cannot carry descriptors.
    pipe: File,
    pub state: State,
    started: Instant,
}

/// How long a new process may take to become ready for a guest.
pub(crate) const START: Duration = Duration::from_secs(20);

impl Process {
    pub(crate) fn start() -> io::Result<Process> {
        let (channel, theirs) = one_way()?;
        let (pipe, says) = pipe_with(PipeFlags::CLOEXEC)?;
        let fds = [theirs.as_raw_fd(), says.as_raw_fd()];
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(env::args_os().next().unwrap_or_else(|| "kiln".into()))
            .args(env::args_os().skip(1))
            .env(
                VARIABLE,
                format!("{},{},{}", fds[0], fds[1], Worker::clock()),
            )
            // Do not look for a configuration file: the sandbox that the child inherits may make
            // reading it fail, and the child would then end.
            .env("KILN_DEFAULTS", "")
            .stdin(Stdio::null())
            // The process writes nothing to stdout, and could otherwise change a file or socket
            // that other programs share.
            .stdout(Stdio::null())
            // Ctrl-C on a terminal is meant only for the main process, which lets its guests
            // finish.
            .process_group(0);
        // SAFETY: the closure makes only async-signal-safe calls. They let the descriptor survive
        // exec() and make the kernel kill the child when its parent exits.
        unsafe {
            command.pre_exec(move || {
                if fds.iter().any(|fd| libc::fcntl(*fd, libc::F_SETFD, 0) != 0)
                    || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0
                {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn()?;
        // A compromised process must not be able to block this one.
        channel.set_nonblocking(true)?;
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Process {
            child,
            channel,
            pipe: pipe.into(),
            state: State::Starting,
            started: Instant::now(),
        })
    }

    /// Returns the pipe, which becomes readable when [`Process::look`] has something to read.
    pub(crate) fn pipe(&self) -> &File {
        &self.pipe
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads what the process has written to its pipe, and updates its state.
    ///
    /// Only a process that was taken over writes more than the one byte. It is killed, because it
    /// could keep the main process busy by writing all the time.
    pub(crate) fn look(&mut self) {
        let mut said = [0; 2];
        match (self.state, self.pipe.read(&mut said)) {
            (_, Ok(0)) => self.state = State::Closed,
            (State::Starting, Ok(1)) if [READY, READY_UNLOCKED].contains(&said[0]) => {
                let locked = said[0] == READY;
                self.state = State::Ready { locked };
            }
            (_, Ok(_)) => {
                let pid = self.id();
                tracing::error!(
                    pid,
                    "a guest's process writes what it should not: it is killed"
                );
                self.discard();
            }
            (_, Err(e)) if e.kind() == io::ErrorKind::WouldBlock => {}
            (_, Err(_)) => self.state = State::Closed,
        }
    }

    /// Passes a guest to the process. The send cannot block, because it is the only message on this
    /// channel.
    pub(crate) fn give(
        &self,
        number: u64,
        socket: usize,
        connection: &UnixStream,
        counters: &File,
    ) -> io::Result<()> {
        let payload = [number, socket as u64].map(u64::to_le_bytes).concat();
        let mut message = Message::new(GUEST, 0, payload);
        message.fds = vec![
            connection.as_fd().try_clone_to_owned()?,
            counters.as_fd().try_clone_to_owned()?,
        ];
        Socket::new(self.channel.try_clone()?)
            .send(&message)
            .map_err(io::Error::other)
    }

    /// Makes the process serve the requests that are already available, and then exit.
    pub(crate) fn drain(&self) {
        let _ = self.channel.shutdown(Shutdown::Write);
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Kills the process and ignores its pipe from now on. The caller must wait for it to exit.
    pub(crate) fn discard(&mut self) {
        self.kill();
        self.state = State::Closed;
    }

    /// Returns whether the process should have become ready by now.
    pub(crate) fn is_late(&self) -> bool {
        self.state == State::Starting && self.started.elapsed() > START
    }

    /// Returns the exit status, or `None` if the process has not exited.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

/// Returns the two ends of a new channel. Nothing can be sent to the first one.
fn one_way() -> io::Result<(UnixStream, UnixStream)> {
    let (channel, theirs) = UnixStream::pair()?;
    channel.shutdown(Shutdown::Read)?;
    Ok((channel, theirs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::process::ExitStatusExt;

    use vmm_sys_util::sock_ctrl_msg::ScmSocket;

    #[test]
    fn nothing_can_be_sent_to_the_main_process() {
        let (channel, theirs) = one_way().unwrap();
        let (pipe, _other) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let send = |stream: &UnixStream| stream.send_with_fd(&[1u8][..], pipe.as_raw_fd()).is_ok();
        assert!(!send(&theirs), "to the main process");
        assert!(send(&channel), "to the guest's process");
        // Control: a two-way channel accepts descriptors from both ends.
        let (channel, theirs) = UnixStream::pair().unwrap();
        assert!(send(&theirs) && send(&channel));
    }

    /// Returns a process that does nothing, and the pipe's end that it would write to.
    fn idle() -> (Process, File) {
        let (channel, _) = one_way().unwrap();
        let (pipe, says) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let process = Process {
            child,
            channel,
            pipe: pipe.into(),
            state: State::Starting,
            started: Instant::now(),
        };
        (process, says.into())
    }

    #[test]
    fn a_process_that_writes_more_than_one_byte_is_killed() {
        let ready = State::Ready { locked: true };
        let cases: [(&[&[u8]], State); 6] = [
            // Controls: it is ready, and stays so if it writes nothing more.
            (&[&[READY]], ready),
            (&[&[READY], &[]], ready),
            (&[&[READY_UNLOCKED]], State::Ready { locked: false }),
            (&[&[READY], b"x"], State::Closed),
            (&[&[READY, READY]], State::Closed),
            (&[b"x"], State::Closed),
        ];
        for (writes, state) in cases {
            let (mut process, mut says) = idle();
            for bytes in writes {
                says.write_all(bytes).unwrap();
                process.look();
            }
            assert_eq!(process.state, state, "{writes:?}");
            if state != State::Closed {
                assert_eq!(process.ended(), None, "{writes:?}");
                process.kill();
            }
            // Without a kill, this would wait a minute.
            let status = process.child.wait().unwrap();
            assert_eq!(status.signal(), Some(libc::SIGKILL), "{writes:?}");
        }
    }
}
