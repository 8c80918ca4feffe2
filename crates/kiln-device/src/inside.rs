//! The process that serves one guest. It receives the guest's connection from the main process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_virtio::Services;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::Errno;

use crate::config::Config;
use crate::confine;
use crate::crew::Crew;
use crate::error::Error;
use crate::guest::{Connection, Name};
use crate::lines::{self, Writer};
use crate::log::{self, Form};
use crate::notify::{timespec, Bell};
use crate::process::{relay_cell, GUEST, READY, READY_UNLOCKED};
use crate::relay::RelayClient;
use crate::sandbox::{self, Role};
use crate::shared::Shared;
use crate::tally::{Counters, Gauge};
use crate::vhost_user::{Error as FrontEndError, SendInflight, Socket};
use crate::watch;

/// How often this process checks whether the connection is stuck.
const LOOK: Duration = Duration::from_secs(watch::LONGEST.as_secs() / 2);

/// Exit status of a process whose connection was stuck.
const HELD: libc::c_int = 4;

/// A guest process's connection to the main process.
pub struct Inside {
    /// The channel on which the main process hands over the guest. To stop this process instead,
    /// the main process closes the channel without handing over a guest.
    channel: UnixStream,
    /// The shared memory for counters, log lines, and requests to send a GET_INFLIGHT_FD reply.
    memory: Arc<Shared>,
    /// Wakes the main process when this process is ready, has written log lines, or requests a
    /// reply.
    bell: Arc<Bell>,
    /// The memfd for in-flight requests.
    inflight: File,
    services: Services,
}

impl Inside {
    pub(crate) fn new(
        channel: UnixStream,
        memory: Shared,
        bell: Bell,
        inflight: File,
        services: Services,
    ) -> Inside {
        Inside {
            channel,
            memory: Arc::new(memory),
            bell: Arc::new(bell),
            inflight,
            services,
        }
    }

    /// Starts logging through the main process.
    pub fn start_log(&self, form: Form, level: &str) -> Result<(), Error> {
        let lines = Writer::new(self.memory.clone());
        log::start_inside(lines, self.bell.clone(), form, level)
    }

    /// Waits for a guest and serves it.
    pub fn serve(self, config: &Config) -> Result<(), Error> {
        let lacks = |e: io::Error| Error::lacks("a guest's process", e);
        // Block SIGTERM before any thread is created, so that the threads block it as well.
        let drain = take_sigterm().map_err(lacks)?;
        let counters = Counters::at(self.memory.clone(), lines::CELLS, config.queues);
        let ready = match confine::confine_guest(config)? {
            true => READY,
            false => READY_UNLOCKED,
        };
        let stderr = leave_stderr().map_err(lacks)?;
        let crew = enter_sandbox(config).inspect_err(|_| {
            let _ = set_stderr(&stderr);
        })?;
        drop(stderr);
        counters.set(Gauge::Ready, ready);
        self.bell.ring();
        // The channel closes without a message if the device exits before this process gets a
        // guest.
        let Ok(Some(message)) = Socket::new(self.channel).receive() else {
            return Ok(());
        };
        if !self.services.has_akcipher() {
            tracing::debug!(
                "RSA and ECDSA are not offered: libcrypto is missing or failed its test"
            );
        }
        let number = |at: usize| {
            let bytes = message.payload.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        let mut fds = message.fds.into_iter();
        let (GUEST, Some(number), Some(socket), Some(connection)) =
            (message.request, number(0), number(8), fds.next())
        else {
            return Err(Error::Argument(
                "a guest's process was not given a guest".into(),
            ));
        };
        let socket = config.sockets.get(socket as usize);
        let name = Name {
            number,
            socket: &socket.map_or_else(|| PathBuf::from("inherited"), PathBuf::clone),
        };
        let stream = connection.into();
        let mut relay = RelayClient::new(self.memory, relay_cell(config.queues), self.bell);
        let send: SendInflight =
            Box::new(move |_, area| relay.send(&area).map_err(FrontEndError::Inflight));
        let inflight = (self.inflight, send);
        let connection = Connection::new(
            stream,
            &name,
            &self.services,
            counters,
            inflight,
            config,
            crew,
        )
        .inspect_err(|error| tracing::error!(guest = number, %error, "cannot be served"))
        .map_err(lacks)?;
        loop {
            let mut fds = [
                PollFd::new(&drain, PollFlags::IN),
                PollFd::new(connection.over(), PollFlags::IN),
            ];
            match poll(&mut fds, Some(&timespec(LOOK))) {
                Ok(0) if connection.is_late() => {
                    tracing::error!(
                        guest = number,
                        "a step of its connection does not end: its front end holds it, so its \
                         process ends"
                    );
                    exit_at_once(HELD)
                }
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(e) => {
                    tracing::error!(guest = number, error = %e, "poll() failed; the guest's process exits");
                    exit_at_once(1)
                }
            }
            let [told, over] = [0, 1].map(|i| !fds[i].revents().is_empty());
            if over {
                drop(connection);
                exit_at_once(0)
            }
            if told {
                connection.drain();
                connection.end(Instant::now() + config.drain);
                exit_at_once(0)
            }
        }
    }
}

/// Ends the process without running the exit handlers. Blocked threads could hold them up, and
/// libcrypto's handler frees everything that libcrypto has allocated, which takes longer than
/// serving a short connection.
fn exit_at_once(status: libc::c_int) -> ! {
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(status) }
}

/// Enters the sandbox and creates all threads of this process. A thread inherits the landlock domain
/// only when it is created, so the threads are created inside it. The seccomp filter forbids
/// creating threads, so it is installed last, in all threads at once.
fn enter_sandbox(config: &Config) -> Result<Crew, Error> {
    if config.sandbox {
        sandbox::enter_landlock(Role::Guest)?;
    }
    let crew = Crew::create(config).map_err(|e| {
        let advice =
            "if the limit of tasks is reached, raise it (TasksMax), or lower --max-guests \
                      or --queues";
        Error::lacks("the threads for a guest", format!("{e}: {advice}"))
    })?;
    if config.sandbox {
        sandbox::install_filters(Role::Guest)?;
    }
    Ok(crew)
}

/// Blocks SIGTERM, which the main process sends to a guest process to make it drain. Returns a
/// descriptor that becomes readable when the signal has arrived.
pub(crate) fn take_sigterm() -> io::Result<OwnedFd> {
    // SAFETY: `set` outlives the calls that write to it and read it, and the returned value is the
    // only owner of the new descriptor.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        if blocked != 0 {
            return Err(io::Error::from_raw_os_error(blocked));
        }
        match libc::signalfd(-1, &set, libc::SFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Redirects standard error to standard output, which is `/dev/null`, so that this process has no
/// descriptor for the log. Also installs a hook that logs panics, whose messages would otherwise be
/// lost. Returns the old descriptor, which the caller must close.
fn leave_stderr() -> io::Result<OwnedFd> {
    let stderr = io::stderr().as_fd().try_clone_to_owned()?;
    set_stderr(&io::stdout())?;
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a thread failed")));
    Ok(stderr)
}

fn set_stderr(to: &impl AsFd) -> io::Result<()> {
    // SAFETY: the call takes no pointers, and standard error stays open.
    match unsafe { libc::dup2(to.as_fd().as_raw_fd(), libc::STDERR_FILENO) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
