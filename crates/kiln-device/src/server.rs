//! The device: listens, takes guests in, and ends with all of them served.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use kiln_virtio::{Guest, Services};

use crate::backend::Queues;
use crate::config::Config;
use crate::error::Error;
use crate::guest::Connection;
use crate::locked::{self, Locked};
use crate::metrics::{self, Meter};
use crate::pace::Pace;
use crate::sandbox::{self, Files};
use crate::shrunk;

/// A device whose sockets are bound.
pub struct Server {
    config: Config,
    services: Services,
    sockets: Vec<(PathBuf, UnixListener)>,
    metrics: Option<UnixListener>,
    meter: Arc<Meter>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Front ends that connected.
    pub guests: u64,
    /// Requests answered, control requests included.
    pub requests: u64,
    /// Regions of memory that a front end took away from under its guest.
    pub shrunk: usize,
}

/// Listens at a path. A stale socket is replaced; anything else there is left alone.
fn listen(path: &Path) -> Result<UnixListener, Error> {
    let is_socket = |found: fs::Metadata| found.file_type().is_socket();
    if fs::symlink_metadata(path).is_ok_and(is_socket) {
        match UnixStream::connect(path) {
            Ok(_) => return Err(Error::InUse(path.to_owned())),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(|e| Error::io("replace", path, e))?;
            }
            Err(e) => return Err(Error::io("listen on", path, e)),
        }
    }
    appear(path).map_err(|e| Error::io("listen on", path, e))
}

/// A bound socket refuses connections until it listens: it gets its name after that, so that whoever waits for the name
/// can connect.
fn appear(path: &Path) -> io::Result<UnixListener> {
    let mut before = path.as_os_str().to_owned();
    before.push(format!(".{}", std::process::id()));
    let listener = match UnixListener::bind(&before) {
        Ok(listener) => listener,
        // The longer name is too long for a socket.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => return UnixListener::bind(path),
        Err(e) => return Err(e),
    };
    let named = fs::hard_link(&before, path);
    fs::remove_file(&before)?;
    named.map(|()| listener)
}

impl Server {
    /// Binds all sockets and finds out what there is to offer.
    pub fn bind(config: Config) -> Result<Server, Error> {
        config.check()?;
        let mut sockets = Vec::new();
        for path in &config.sockets {
            sockets.push((path.clone(), listen(path)?));
        }
        let metrics = config.metrics.as_deref().map(listen).transpose()?;
        for listener in sockets.iter().map(|(_, l)| l).chain(&metrics) {
            listener
                .set_nonblocking(true)
                .map_err(|e| Error::lacks("sockets", e))?;
        }
        Ok(Server {
            services: Services::detect(),
            meter: Arc::new(Meter::new(config.queues)),
            sockets,
            metrics,
            config,
        })
    }

    /// Serves until `stop` is readable; then what guests have made available, and no more.
    pub fn run(self, stop: BorrowedFd<'_>) -> Result<Served, Error> {
        shrunk::install()?;
        if self.config.sandbox {
            match locked::lock()? {
                Locked::All => {}
                Locked::Limited(bytes) => tracing::warn!(
                    bytes,
                    "keys are not in locked memory: raise the limit (ulimit -l unlimited, LimitMEMLOCK=infinity)"
                ),
            }
            match sandbox::close()? {
                Files::Closed => tracing::info!("the sandbox is closed"),
                Files::Partly => {
                    tracing::info!("the sandbox is closed, as far as this kernel's landlock goes")
                }
                Files::Open => tracing::warn!(
                    "the sandbox has no landlock in this kernel; seccomp refuses files"
                ),
            }
        } else {
            tracing::warn!("without a sandbox");
        }
        for (path, _) in &self.sockets {
            tracing::info!(socket = %path.display(), queues = self.config.queues, "listening");
        }
        let mut guests: Vec<Connection> = Vec::new();
        let mut served = Served::default();
        loop {
            let ready = self.wait(stop)?;
            if ready[0] {
                break;
            }
            guests.retain(|guest| !guest.is_over());
            if shrunk::count_faults() > served.shrunk {
                served.shrunk = shrunk::count_faults();
                tracing::warn!(
                    "a guest's memory was taken away by its front end; it reads zeros now"
                );
            }
            for ((path, listener), _) in self
                .sockets
                .iter()
                .zip(&ready[1..])
                .filter(|(_, &ready)| ready)
            {
                while let Some(stream) = accept(listener) {
                    if guests.len() >= self.config.max_guests {
                        tracing::warn!(
                            guests = guests.len(),
                            "turned away: as many guests as --max-guests allows"
                        );
                        self.meter.refused();
                        continue;
                    }
                    served.guests += 1;
                    match self.take_in(stream, path, served.guests) {
                        Ok(guest) => guests.push(guest),
                        Err(error) => tracing::error!(%error, "turned away"),
                    }
                }
            }
            if let (Some(listener), Some(true)) = (&self.metrics, ready.last()) {
                self.tell(listener);
            }
        }
        drop(self.sockets);
        end(guests, Instant::now() + self.config.drain);
        served.requests = self
            .meter
            .tallies()
            .iter()
            .map(|t| t.read().requests())
            .sum();
        tracing::info!(
            guests = served.guests,
            requests = served.requests,
            "stopped"
        );
        Ok(served)
    }

    /// Waits. Returns whether to stop, and which listeners have a connection.
    fn wait(&self, stop: BorrowedFd<'_>) -> Result<Vec<bool>, Error> {
        let watch = |fd: BorrowedFd<'_>| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut fds = vec![watch(stop)];
        let listeners = self.sockets.iter().map(|(_, l)| l).chain(&self.metrics);
        fds.extend(listeners.map(|l| watch(l.as_fd())));
        loop {
            // SAFETY: the array outlives the call, and its length is its own.
            let n = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) };
            match io::Error::last_os_error() {
                _ if n >= 0 => return Ok(fds.iter().map(|fd| fd.revents != 0).collect()),
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(Error::lacks("poll", e)),
            }
        }
    }

    fn take_in(&self, stream: UnixStream, socket: &Path, number: u64) -> io::Result<Connection> {
        let mut limits = self.config.limits.clone();
        limits.data_queues = self.config.queues;
        let guest = Arc::new(Guest::new(limits, &self.services));
        self.meter.connected(number, &guest);
        let queues = Queues {
            data: self.config.queues,
            control: self.config.control,
            tallies: self.meter.tallies().to_vec(),
            pace: Arc::new(Pace::new(&self.config.rates)),
            max_request: self.config.max_chain(),
            poll: self.config.poll,
            number,
        };
        Connection::new(stream, socket, guest, queues)
    }

    /// Answers a request for metrics on a thread of its own, since the client may be slow.
    fn tell(&self, listener: &UnixListener) {
        while let Some(stream) = accept(listener) {
            let meter = self.meter.clone();
            let thread = thread::Builder::new()
                .name("kiln-metrics".into())
                .spawn(move || {
                    if let Err(error) = metrics::answer(stream, &meter) {
                        tracing::debug!(%error, "metrics were asked for and not taken");
                    }
                });
            if let Err(error) = thread {
                tracing::warn!(%error, "no thread for metrics");
            }
        }
    }
}

/// The next connection, if there is one.
fn accept(listener: &UnixListener) -> Option<UnixStream> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => match stream.set_nonblocking(false) {
                Ok(()) => return Some(stream),
                Err(_) => continue,
            },
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) => {
                tracing::error!(%error, "no connection");
                return None;
            }
        }
    }
}

/// Serves what is there and ends all guests.
fn end(guests: Vec<Connection>, until: Instant) {
    // All begin before one is waited for.
    for guest in &guests {
        guest.backend().drain();
    }
    for guest in guests {
        guest.backend().drained(until);
        guest.end();
    }
}
