//! The fork server: a process that starts the guest processes.
//!
//! The main process must not start a program for each guest, because any user can block an exec()
//! with a call to kcmp(). Before it checks permissions, kcmp() takes the `exec_update_lock` of one
//! of its two target processes, and then waits for the lock of the other. That other process may
//! hold its lock forever if a file system blocks its own exec(). The main process therefore starts
//! one program before it serves any guest. That program loads libcrypto and then only forks, which
//! takes no such lock. It never serves a guest itself.
//!
//! The main process never waits for the fork server: it requests a process, and takes the answer
//! when the answer arrives. Although the fork server creates it, a guest process is a child of the
//! main process (`CLONE_PARENT`), so it ends with the main process and outlives the fork server.

use std::env;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kiln_virtio::{Services, Worker};
use rustix::io::Errno;
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::Signal;
use rustix::thread::set_name;

use crate::child::{fork_with, start_program, Child};
use crate::config::Config;
use crate::confine::end_core_dumps;
use crate::error::Error;
use crate::inside::{take_sigterm, Inside};
use crate::notify::Bell;
use crate::process::{Process, Requested, START};
use crate::shared::Shared;

/// The environment variable that marks the fork server. Its value contains a descriptor number and
/// the TSC frequency, which would take 20 ms to measure after a guest has connected.
const VARIABLE: &str = "KILN_SERVE_FORK";

/// The names of the fork server and of the guest processes in `ps`.
const NAME: &CStr = c"kiln-fork";
const GUESTS_NAME: &CStr = c"kiln";

/// How long the fork server may take to answer. The first answer may take longer ([`START`]),
/// because the fork server loads libcrypto first.
const LONGEST: Duration = Duration::from_secs(5);

/// The main process's view of the fork server.
pub(crate) struct ForkServer {
    child: Child,
    channel: UnixStream,
    /// The requested process, and when it was requested.
    asked: Option<(Requested, Instant)>,
    /// How long the fork server may take to answer.
    patience: Duration,
    /// Set when the fork server has ended, or has not answered in time.
    over: bool,
}

impl ForkServer {
    /// Starts the fork server. Returns an error if the start fails within `patience`.
    pub(crate) fn start(patience: Duration) -> io::Result<ForkServer> {
        let (channel, theirs) = UnixStream::pair()?;
        let fd = theirs.as_raw_fd();
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(env::args_os().next().unwrap_or_else(|| "kiln".into()))
            .args(env::args_os().skip(1))
            .env(VARIABLE, format!("{fd},{}", Worker::clock()))
            // An empty value makes the child skip the configuration file. The child would exit if
            // it failed to read the file, and the sandbox that it inherits may prevent reading.
            .env("KILN_DEFAULTS", "")
            .stdin(Stdio::null())
            // The guest processes write nothing to stdout. If they inherited it, they could change
            // a file or socket that is shared with other programs. They inherit stderr, but replace
            // it before they are ready.
            .stdout(Stdio::null())
            // Ctrl-C on a terminal is meant only for the main process, which lets its guests
            // finish.
            .process_group(0);
        // SAFETY: the closure makes only async-signal-safe calls. They let the descriptor survive
        // exec() and make the kernel kill the child when its parent exits.
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
        let child = start_program(command, patience)?;
        channel.set_nonblocking(true)?;
        Ok(ForkServer {
            child,
            channel,
            asked: None,
            patience: START,
            over: false,
        })
    }

    /// Returns a descriptor that becomes readable when there is an answer, or when the fork server
    /// has ended.
    pub(crate) fn channel(&self) -> &UnixStream {
        &self.channel
    }

    /// Returns whether a request to the fork server is still outstanding.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns whether another fork server must be started.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Requests a process for a device with `data` data queues. The previous answer must have been
    /// taken.
    pub(crate) fn ask(&mut self, data: u16) -> io::Result<()> {
        let (requested, theirs) = Requested::create(data)?;
        let sent = send(&self.channel, 0, &theirs.each_ref().map(AsFd::as_fd));
        // If the kernel refused to send the request, a new fork server would not help, so keep this
        // one.
        self.over |= sent.as_ref().is_err_and(|e| !is_refused(e));
        sent?;
        self.asked = Some((requested, Instant::now()));
        Ok(())
    }

    /// Returns the requested process, or `None` if the fork server has not answered yet.
    ///
    /// # Errors
    /// Fails if the fork server could not fork, has ended, or has not answered in time.
    pub(crate) fn answer(&mut self) -> io::Result<Option<Process>> {
        let (id, [child]) = match receive::<1>(&self.channel) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let asked = self.asked.as_ref();
                self.over = asked.is_some_and(|(_, since)| since.elapsed() > self.patience);
                return match self.over {
                    true => Err(io::ErrorKind::TimedOut.into()),
                    false => Ok(None),
                };
            }
            Err(e) => {
                self.over = true;
                return Err(e);
            }
            Ok(answer) => answer,
        };
        self.patience = LONGEST;
        let (Some((requested, _)), Some(child)) = (self.asked.take(), child) else {
            return Err(io::Error::from_raw_os_error(-id));
        };
        Ok(Some(
            requested.into_process(Child::from_parts(id as u32, child)),
        ))
    }

    pub(crate) fn kill(&self) {
        self.child.signal(Signal::KILL);
    }
}

/// The fork server itself, before it forks.
pub struct Forks {
    channel: UnixStream,
}

impl Forks {
    /// Returns `None` if this process is not the fork server. Call this function once and early: it
    /// removes the environment variable so that child processes do not see it.
    ///
    /// # Errors
    /// Fails if something other than the main process has set the variable.
    pub fn from_env() -> Result<Option<Forks>, Error> {
        let Some(text) = env::var_os(VARIABLE) else {
            return Ok(None);
        };
        env::remove_var(VARIABLE);
        // SAFETY: the call accesses only a descriptor's flags, not memory.
        let open = |fd: &RawFd| unsafe { libc::fcntl(*fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
        let parts = text.to_str().and_then(|text| text.split_once(','));
        let fd = parts.and_then(|(fd, hz)| {
            Worker::set_clock(hz.parse().ok()?);
            fd.parse().ok().filter(|fd| *fd > 2).filter(open)
        });
        let Some(fd) = fd else {
            return Err(Error::Argument(format!(
                "{VARIABLE} is for the device's own processes: unset it"
            )));
        };
        // SAFETY: the main process passed ownership of the descriptor to this process, and only
        // this code uses it.
        let channel = unsafe { UnixStream::from_raw_fd(fd) };
        Ok(Some(Forks { channel }))
    }

    /// Forks whenever the main process requests a process. Returns [`Inside`] in each new process,
    /// and `None` once the main process has closed the channel.
    pub fn run(self, config: &Config) -> Result<Option<Inside>, Error> {
        let lacks = |e: io::Error| Error::lacks("the fork server", e);
        // The guest processes inherit this setting, so no process of the same user can inspect a
        // guest process before it has entered its sandbox.
        end_core_dumps(config)?;
        // Block SIGTERM here: it is meant for the main process, which stops this process by closing
        // the channel.
        let _ignored = take_sigterm().map_err(lacks)?;
        set_name(NAME).map_err(|e| lacks(e.into()))?;
        // Load libcrypto here, once. Loading takes several ms of CPU time, which every guest
        // process would otherwise spend. After a fork, libcrypto reseeds its random number
        // generators because the process ID has changed.
        let services = Services::detect();
        // SAFETY: the call cannot fail.
        let main = unsafe { libc::getppid() };
        loop {
            let fds = match receive::<4>(&self.channel) {
                Ok((_, [Some(channel), Some(memory), Some(bell), Some(inflight)])) => {
                    [channel, memory, bell, inflight]
                }
                Ok(_) => return Err(lacks(io::ErrorKind::InvalidData.into())),
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Err(e) => return Err(lacks(e)),
            };
            match fork() {
                Ok(None) => {
                    drop(self);
                    let inside = become_guests_process(main, fds, services);
                    return inside.map(Some).map_err(lacks);
                }
                Ok(Some((id, child))) => match send(&self.channel, id, &[child.as_fd()]) {
                    // After this report, the main process closes the new process's channel, which
                    // makes that process exit.
                    Err(e) if is_refused(&e) => self.report(&e),
                    sent => sent,
                },
                Err(e) => self.report(&e),
            }
            .map_err(lacks)?;
        }
    }

    /// Sends an error number instead of a process.
    fn report(&self, error: &io::Error) -> io::Result<()> {
        let number = error.raw_os_error().unwrap_or(libc::EAGAIN);
        send(&self.channel, -number, &[])
    }
}

/// Returns whether the kernel refused to send descriptors, because this user has too many in flight
/// or because memory is short.
fn is_refused(error: &io::Error) -> bool {
    let refusals = [
        Errno::TOOMANYREFS,
        Errno::NOMEM,
        Errno::NOBUFS,
        Errno::AGAIN,
    ];
    Errno::from_io_error(error).is_some_and(|e| refusals.contains(&e))
}

/// Prepares a forked process so that it exits when the main process does, and does not receive
/// Ctrl-C.
fn become_guests_process(
    main: libc::pid_t,
    fds: [OwnedFd; 4],
    services: Services,
) -> io::Result<Inside> {
    // SAFETY: the calls take no pointers.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 || libc::setpgid(0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        // The main process may have exited before the call to prctl().
        if libc::getppid() != main {
            libc::_exit(1);
        }
    }
    set_name(GUESTS_NAME)?;
    let [channel, memory, bell, inflight] = fds;
    // This closes the descriptor of the shared memory.
    let memory = Shared::map(&File::from(memory))?;
    let (bell, inflight) = (Bell::from(bell), File::from(inflight));
    let channel = channel.into();
    Ok(Inside::new(channel, memory, bell, inflight, services))
}

/// Forks. The child is a sibling of this process. Returns its process ID and its pidfd, or `None`
/// in the child.
fn fork() -> io::Result<Option<(libc::pid_t, OwnedFd)>> {
    // SAFETY: this process has a single thread.
    unsafe { fork_with(libc::CLONE_PARENT) }
}

/// Sends a number and descriptors. At most one message is pending in each direction, so there is
/// always room for it.
fn send(channel: &UnixStream, number: i32, fds: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    let bytes = number.to_ne_bytes();
    let flags = SendFlags::NOSIGNAL;
    match sendmsg(channel, &[IoSlice::new(&bytes)], &mut ancillary, flags) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(e) => Err(e.into()),
    }
}

/// Receives a number and up to `N` descriptors.
fn receive<const N: usize>(channel: &UnixStream) -> io::Result<(i32, [Option<OwnedFd>; N])> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 4];
    let got = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match recvmsg(channel, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            got => break got?.bytes,
        }
    };
    if got == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut fds = [const { None }; N];
    let received = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    for (place, fd) in fds.iter_mut().zip(received.flatten()) {
        *place = Some(fd);
    }
    Ok((i32::from_ne_bytes(bytes), fds))
}
