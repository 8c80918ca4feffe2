//! A process that serves one guest, as the main process sees it: the same program again, with the same arguments. It is
//! started before there is a guest for it, closes its sandbox, and is then handed a connection.

use std::env;
use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use kiln_virtio::Worker;

use crate::adapter::{Message, Socket};
use crate::closer::Closer;

/// The environment variable by which such a process knows what it is: the number of its descriptor, and the ticks per second
/// of the clock that workers run by, which would take it 20 ms of its guest's time to measure.
pub(crate) const VARIABLE: &str = "KILN_SERVE_GUEST";

/// What it says once it can be handed a guest; the second if its memory could not be locked.
pub(crate) const READY: u8 = b'r';
pub(crate) const READY_UNLOCKED: u8 = b'u';

/// The only message that it is sent: number of the guest, number of the socket, and two descriptors, the connection and
/// the counters.
pub(crate) const GUEST: u32 = 1;

/// How far a process has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Starting,
    Ready {
        locked: bool,
    },
    /// It has closed its channel: it is ending, or is over.
    Closed,
}

pub(crate) struct Process {
    child: Child,
    channel: UnixStream,
    pub state: State,
}

impl Process {
    /// Starts one.
    pub(crate) fn start() -> io::Result<Process> {
        let (channel, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let fd = theirs.as_raw_fd();
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(env::args_os().next().unwrap_or_else(|| "kiln".into()))
            .args(env::args_os().skip(1))
            .env(VARIABLE, format!("{fd},{}", Worker::clock()))
            .stdin(Stdio::null())
            // A terminal's Ctrl-C is for the main process, which lets its guests finish.
            .process_group(0);
        // SAFETY: async-signal-safe calls only: the descriptor outlives exec, the process does not outlive its parent.
        unsafe {
            command.pre_exec(move || {
                if libc::fcntl(fd, libc::F_SETFD, 0) != 0
                    || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0
                {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn()?;
        // What a process that was taken over does with its end must not hold this one.
        channel.set_nonblocking(true)?;
        Ok(Process {
            child,
            channel,
            state: State::Starting,
        })
    }

    /// Readable when there is something to [`Process::look`] at.
    pub(crate) fn channel(&self) -> &UnixStream {
        &self.channel
    }

    /// What is left of one that has ended.
    pub(crate) fn into_channel(self) -> UnixStream {
        self.channel
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads what the process said.
    pub(crate) fn look(&mut self, closer: &mut Closer) {
        let mut said = [0; 16];
        match closer.read(&self.channel, &mut said) {
            Ok(0) => self.state = State::Closed,
            Ok(n) if self.state == State::Starting => {
                let locked = said[n - 1] != READY_UNLOCKED;
                self.state = State::Ready { locked };
            }
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.state = State::Closed,
        }
    }

    /// Hands it its guest. The channel has room for the one message that it is ever sent.
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

    /// Tells it to serve what its guest has made available, and to end.
    pub(crate) fn drain(&self) {
        let _ = self.channel.shutdown(Shutdown::Write);
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}
