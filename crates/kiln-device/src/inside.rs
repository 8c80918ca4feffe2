//! The process that serves one guest. It receives the guest's connection from the main process.

use std::env;
use std::fs::File;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kiln_virtio::{Services, Worker};
use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::Errno;

use crate::adapter::Socket;
use crate::config::Config;
use crate::confine;
use crate::error::Error;
use crate::guest::{Connection, Name};
use crate::inflight::Inflight;
use crate::notify::timespec;
use crate::process::{GUEST, READY, READY_UNLOCKED, VARIABLE};
use crate::sandbox::{self, Role};
use crate::tally::Counters;
use crate::watch;

/// How often this process checks whether the connection is stuck.
const LOOK: Duration = Duration::from_secs(watch::LONGEST.as_secs() / 2);

/// Exit status of a process whose connection was stuck.
const HELD: libc::c_int = 4;

/// A guest process's connection to the main process.
pub struct Inside {
    /// The channel on which the main process hands over the guest. The main process closes it to stop this process.
    channel: UnixStream,
    /// The pipe for reporting that this process is ready. It stays open until the process exits.
    pipe: File,
}

impl Inside {
    /// Returns the channel to the main process, or `None` if this process does not serve a single
    /// guest. Call this function once and early: it removes the environment variable so that child
    /// processes do not see it.
    ///
    /// # Errors
    /// Fails if something other than the main process has set the variable.
    pub fn from_env() -> Result<Option<Inside>, Error> {
        let Some(text) = env::var_os(VARIABLE) else {
            return Ok(None);
        };
        env::remove_var(VARIABLE);
        // SAFETY: the call accesses only a descriptor's flags, and no memory.
        let open = |fd: &RawFd| unsafe { libc::fcntl(*fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
        let descriptor = |text: &str| text.parse().ok().filter(|fd| *fd > 2).filter(open);
        let parts: Vec<&str> = text.to_str().unwrap_or_default().split(',').collect();
        let (channel, pipe, clock) = match parts[..] {
            [channel, pipe, clock] => (descriptor(channel), descriptor(pipe), clock.parse().ok()),
            _ => (None, None, None),
        };
        match channel.zip(pipe).filter(|(channel, pipe)| channel != pipe) {
            Some((channel, pipe)) => {
                if let Some(hz) = clock {
                    Worker::set_clock(hz);
                }
                // SAFETY: the main process passed these two descriptors to be owned here, and no
                // other code in this process uses them.
                let [channel, pipe] = [channel, pipe].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
                Ok(Some(Inside {
                    channel: channel.into(),
                    pipe: pipe.into(),
                }))
            }
            None => Err(Error::Argument(format!(
                "{VARIABLE} is for the device's own processes: unset it"
            ))),
        }
    }

    /// Waits for a guest and serves it.
    pub fn serve(mut self, config: &Config) -> Result<(), Error> {
        let services = Services::detect();
        let lacks = |e: std::io::Error| Error::lacks("a guest's process", e);
        // The sandbox does not allow creating files later.
        let inflight = Inflight::file(usize::from(config.queues) + 1).map_err(lacks)?;
        let ready = match confine::confine_guest(config)? {
            true => READY,
            false => READY_UNLOCKED,
        };
        if config.sandbox {
            sandbox::close(Role::Guest)?;
        }
        if self.pipe.write_all(&[ready]).is_err() {
            return Ok(());
        }
        let socket = Socket::new(self.channel.try_clone().map_err(lacks)?);
        // The channel closes without a message if the device exits before this process gets a
        // guest.
        let Ok(Some(message)) = socket.receive() else {
            return Ok(());
        };
        let number = |at: usize| {
            let bytes = message.payload.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        let mut fds = message.fds.into_iter();
        let (GUEST, Some(number), Some(socket), Some(connection), Some(counters)) = (
            message.request,
            number(0),
            number(8),
            fds.next(),
            fds.next(),
        ) else {
            return Err(Error::Argument(
                "a guest's process was not given a guest".into(),
            ));
        };
        let counters = Counters::open(counters.into(), config.queues).map_err(lacks)?;
        let socket = config.sockets.get(socket as usize);
        let name = Name {
            number,
            socket: &socket.map_or_else(|| PathBuf::from("inherited"), PathBuf::clone),
        };
        let stream = connection.into();
        let connection =
            Connection::new(stream, &name, &services, counters, inflight, config).map_err(lacks)?;
        loop {
            let mut fds = [
                PollFd::new(&self.channel, PollFlags::IN),
                PollFd::new(connection.over(), PollFlags::IN),
            ];
            match poll(&mut fds, Some(&timespec(LOOK))) {
                Ok(0) if connection.is_late() => {
                    tracing::error!(
                        guest = number,
                        "a step of its connection does not end: its front end holds it, so its \
                         process ends"
                    );
                    // SAFETY: the call ends the process without running exit()'s handlers, which
                    // blocked threads could hold up.
                    unsafe { libc::_exit(HELD) }
                }
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(e) => return Err(lacks(e.into())),
            }
            let [told, over] = [0, 1].map(|i| !fds[i].revents().is_empty());
            if over {
                return Ok(());
            }
            if told {
                connection.drain();
                connection.end(Instant::now() + config.drain);
                return Ok(());
            }
        }
    }
}
