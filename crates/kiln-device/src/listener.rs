//! A listening socket, and the connections to it that are waiting to be served.

use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{chown, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::sockopt::socket_acceptconn;

use crate::closer::{Closer, Owner};
use crate::error::Error;
use crate::pace::Bucket;

/// How long a front end may stay silent after connecting.
const SILENCE: Duration = Duration::from_secs(5);

/// Maximum number of silent connections per socket. When another one arrives, the oldest is closed.
pub(crate) const SILENT: usize = 64;

/// Maximum number of connections per socket that have sent data and wait to be served. If
/// `--max-guests` is larger, it replaces this limit, because all front ends may reconnect at once
/// after the device restarts. Further connections are rejected.
pub(crate) const WAITING: usize = 64;

/// Maximum number of front ends per socket that are passed to processes in one burst. After this
/// burst, the rate [`Config::max_new_guests`](crate::config::Config::max_new_guests) applies.
pub(crate) const ADMITTED_AT_ONCE: u32 = 64;

/// Maximum number of metrics clients that are answered per second, after a burst of
/// [`ADMITTED_AT_ONCE`].
pub(crate) const CLIENTS: u32 = 10;

/// Maximum number of connections per second that each socket accepts, and the burst allowed after a
/// pause. This limits the work that a front end can cause by connecting and closing in a loop, both
/// in this process and in the child processes that close its connections. Once [`QUEUE`]
/// connections are waiting, connect() blocks.
const ACCEPTED: u32 = 2000;
pub(crate) const ACCEPTED_AT_ONCE: u32 = 250;

/// Number of connections that the kernel queues for a listener. If a front end connects in a loop,
/// its connections delay others on the same socket until all of them have been accepted.
const QUEUE: i32 = 256;

/// How long a listener is ignored after an error.
const REST: Duration = Duration::from_millis(200);

/// A listening socket, and its connections that are still waiting for a process.
pub(crate) struct Socket {
    pub owner: Owner,
    pub path: PathBuf,
    /// The listener, or `None` for a single inherited connection.
    pub listener: Option<UnixListener>,
    pub waiting: VecDeque<Waiting>,
    accepted: Bucket,
    pub admitted: Bucket,
    /// After an error, no connections are accepted until this time.
    rests_until: Option<Instant>,
}

pub(crate) struct Waiting {
    pub stream: UnixStream,
    since: Instant,
    /// Process ID, user and group of the front end, for the log.
    pub peer: String,
    /// Set when the front end has sent data and is still connected.
    pub speaks: bool,
    gone: bool,
}

/// File permissions and group of a socket.
#[derive(Clone, Copy, Default)]
pub(crate) struct Access {
    pub mode: Option<u32>,
    pub group: Option<u32>,
}

impl Access {
    fn give(&self, path: &Path) -> io::Result<()> {
        if self.group.is_some() {
            chown(path, None, self.group)?;
        }
        match self.mode {
            Some(mode) => fs::set_permissions(path, Permissions::from_mode(mode)),
            None => Ok(()),
        }
    }
}

/// Maximum length of a socket's path in bytes: the size of `sun_path` without the final null byte.
const LONGEST_PATH: usize = 107;

/// Listens at a path. A socket that an earlier process left at that path is replaced. Files of
/// other kinds are not touched.
pub(crate) fn listen(path: &Path, access: Access) -> Result<UnixListener, Error> {
    let length = path.as_os_str().len();
    if length > LONGEST_PATH {
        return Err(Error::Argument(format!(
            "{}: the path of a socket has at most {LONGEST_PATH} bytes, this one {length}: name a \
             shorter one",
            path.display()
        )));
    }
    if path.is_dir() {
        return Err(Error::Argument(format!(
            "{}: is a directory: name a path in it, such as {}",
            path.display(),
            path.join("kiln.sock").display()
        )));
    }
    let found = fs::symlink_metadata(path);
    if found
        .as_ref()
        .is_ok_and(|found| !found.file_type().is_socket())
    {
        return Err(Error::Argument(format!(
            "{}: exists, and is not a socket: remove it, or name another path",
            path.display()
        )));
    }
    if found.is_ok() {
        match UnixStream::connect(path) {
            Ok(_) => return Err(Error::InUse(path.to_owned())),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(|e| Error::io("replace", path, e))?;
            }
            Err(e) => return Err(Error::io("listen on", path, e)),
        }
    }
    let limited = |listener: UnixListener| limit_queue(&listener).map(|()| listener);
    let listener = appear(path, access).and_then(limited);
    listener.map_err(|e| Error::io("listen on", path, e))
}

fn limit_queue(listener: &impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(listener, QUEUE)?)
}

/// Binds the socket under a temporary name, sets its permissions, and only then renames it to its
/// final name. A client that waits for the final name can therefore connect as soon as it exists.
fn appear(path: &Path, access: Access) -> io::Result<UnixListener> {
    let mut before = path.as_os_str().to_owned();
    before.push(format!(".{}", std::process::id()));
    let listener = match UnixListener::bind(&before) {
        Ok(listener) => listener,
        // The temporary name is too long for a socket address, so bind the final name directly.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
            let listener = UnixListener::bind(path)?;
            return access.give(path).map(|()| listener);
        }
        Err(e) => return Err(e),
    };
    let named = access
        .give(before.as_ref())
        .and_then(|()| fs::hard_link(&before, path));
    fs::remove_file(&before)?;
    named.map(|()| listener)
}

/// Takes over a socket inherited from the parent process, either a listening socket or a
/// connection. `admitted` is as in [`Socket::new`].
pub(crate) fn inherit(owner: Owner, fd: RawFd, admitted: u32) -> Result<Socket, Error> {
    let refuse = |e: io::Error| Error::Argument(format!("--fd {fd}: {e}: pass a Unix socket"));
    // SAFETY: this command takes no pointer, and fails harmlessly if `fd` is not open. It also
    // keeps programs that this process starts from inheriting the descriptor.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(refuse(io::Error::last_os_error()));
    }
    // SAFETY: the descriptor is open, and the command line passed it for this purpose only.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let path = PathBuf::from(format!("fd {fd}"));
    match socket_acceptconn(&socket).map_err(|e| refuse(e.into()))? {
        true => {
            limit_queue(&socket).map_err(refuse)?;
            Ok(Socket::new(owner, path, Some(socket.into()), admitted))
        }
        false => {
            let mut one = Socket::new(owner, path, None, admitted);
            one.waiting.push_back(Waiting::new(socket.into()));
            Ok(one)
        }
    }
}

impl Waiting {
    fn new(stream: UnixStream) -> Waiting {
        Waiting {
            peer: peer(&stream),
            stream,
            since: Instant::now(),
            speaks: false,
            gone: false,
        }
    }

    /// Records what poll() found on the connection.
    pub(crate) fn notice(&mut self, found: PollFlags) {
        self.gone = found.intersects(PollFlags::HUP | PollFlags::ERR);
        self.speaks = !self.gone;
    }
}

impl Socket {
    /// Creates a socket that admits `admitted` connections per second, after a burst of
    /// [`ADMITTED_AT_ONCE`].
    pub(crate) fn new(
        owner: Owner,
        path: PathBuf,
        listener: Option<UnixListener>,
        admitted: u32,
    ) -> Socket {
        let bucket = |per_second: u32, at_once: u32| {
            let burst = Duration::from_secs(1) * at_once / per_second;
            Bucket::new(u64::from(per_second), burst)
        };
        Socket {
            owner,
            path,
            listener,
            waiting: VecDeque::new(),
            accepted: bucket(ACCEPTED, ACCEPTED_AT_ONCE),
            admitted: bucket(admitted, ADMITTED_AT_ONCE),
            rests_until: None,
        }
    }

    /// Returns whether the listener is being ignored, either after an error or because the rate is
    /// exhausted at `now`, the time since the device started.
    pub(crate) fn rests(&self, now: Duration) -> bool {
        let after_error = self.rests_until.is_some_and(|until| Instant::now() < until);
        after_error || !self.accepted.is_due(now.as_nanos() as u64)
    }

    /// Accepts one connection. Rejects it if all of the socket's guest slots are in use (`full`),
    /// or if `most` connections that have sent data are already waiting. If [`SILENT`] connections
    /// are already silent, accepts the new one and closes the oldest silent one. These limits exist
    /// because all sockets share this process's descriptors, and each waiting connection uses one.
    /// `now` is the time since the device started. Returns how many connections were rejected or
    /// closed.
    pub(crate) fn accept(
        &mut self,
        full: bool,
        most: usize,
        now: Duration,
        closer: &mut Closer,
    ) -> u64 {
        let Some(listener) = &self.listener else {
            return 0;
        };
        match listener.accept() {
            Ok((stream, _)) => {
                self.accepted.take(1, now.as_nanos() as u64);
                if full {
                    tracing::warn!(
                        socket = %self.path.display(),
                        "connection rejected: --max-guests is reached"
                    );
                    closer.end(self.owner, stream);
                    return 1;
                }
                let silent = self.waiting.iter().filter(|w| !w.speaks).count();
                if self.waiting.len() - silent >= most {
                    tracing::warn!(
                        socket = %self.path.display(),
                        "connection rejected: too many connections are waiting to be served"
                    );
                    closer.end(self.owner, stream);
                    return 1;
                }
                self.waiting.push_back(Waiting::new(stream));
                let oldest = self.waiting.iter().position(|w| !w.speaks);
                if let Some(oldest) = oldest.filter(|_| silent >= SILENT) {
                    self.end(oldest, closer);
                    return 1;
                }
            }
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) => {}
            Err(error) => {
                // The listener stays readable, so without a pause this error would repeat in a busy
                // loop.
                tracing::error!(%error, socket = %self.path.display(), "cannot accept a connection");
                self.rests_until = Some(Instant::now() + REST);
            }
        }
        0
    }

    /// Closes a waiting connection.
    pub(crate) fn end(&mut self, at: usize, closer: &mut Closer) {
        if let Some(waiting) = self.waiting.remove(at) {
            closer.end(self.owner, waiting.stream);
        }
    }

    /// Closes connections that have hung up, or have sent no data in time.
    pub(crate) fn end_late(&mut self, closer: &mut Closer) {
        let before = self.waiting.len();
        let is_over = |w: &Waiting| w.gone || !w.speaks && w.since.elapsed() >= SILENCE;
        while let Some(at) = self.waiting.iter().position(is_over) {
            self.end(at, closer);
        }
        if self.waiting.len() < before {
            tracing::debug!(
                socket = %self.path.display(),
                connections = before - self.waiting.len(),
                "connections closed: they hung up or sent no data in time"
            );
        }
    }

    /// Closes the socket and all waiting connections.
    pub(crate) fn close(self, closer: &mut Closer) {
        for waiting in self.waiting {
            closer.end(self.owner, waiting.stream);
        }
        if let Some(listener) = self.listener {
            closer.end(self.owner, listener);
        }
    }
}

/// Returns a descriptor that becomes readable when the process that made a connection has exited,
/// or `None` if the kernel does not provide such a descriptor (before Linux 6.5).
///
/// # Errors
/// Fails if that process has already exited.
pub(crate) fn front_end_process(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut fd: RawFd = -1;
    match option(stream, libc::SO_PEERPIDFD, &mut fd) {
        // SAFETY: the descriptor is new, and only the returned value owns it.
        Ok(()) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads an option of a connected socket.
fn option<T: Copy>(stream: &UnixStream, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: both pointers are valid during the call, and `len` is the size of `value`. Any bit
    // pattern is valid for the types used: integers and structures of integers.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            std::ptr::from_mut(value).cast(),
            &mut len,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the connected process's ID, user and group as reported by the kernel (`SO_PEERCRED`).
/// The process ID is 0 for a process in a PID namespace that this process cannot see; rustix cannot
/// represent that value, so this function calls libc.
fn peer(stream: &UnixStream) -> String {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    match option(stream, libc::SO_PEERCRED, &mut peer) {
        Ok(()) => format!("pid {} uid {} gid {}", peer.pid, peer.uid, peer.gid),
        Err(_) => "unknown".into(),
    }
}
