//! The settings of a device, their limits, and a consistency check.

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use kiln_virtio::Limits;

use crate::error::Error;
use crate::pace::Rates;

/// Maximum number of data queues.
pub(crate) const MAX_QUEUES: u16 = 16;

/// Maximum number of descriptors in a ring.
pub(crate) const MAX_RING: u16 = 1024;

/// Which thread serves the control queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlBy {
    /// The queue's own thread.
    #[default]
    Inline,
    /// A second thread, which gets each request from the queue's thread. This setting exists to
    /// measure the handover cost.
    Thread,
}

impl FromStr for ControlBy {
    type Err = Error;

    fn from_str(name: &str) -> Result<ControlBy, Error> {
        match name {
            "inline" => Ok(ControlBy::Inline),
            "thread" => Ok(ControlBy::Thread),
            _ => Err(Error::Argument(format!(
                "unknown mode '{name}': choose inline or thread"
            ))),
        }
    }
}

/// Settings of a device, fixed when the device starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// Socket paths to listen on. Each connection is a separate guest.
    pub sockets: Vec<PathBuf>,
    /// Inherited descriptors. Each is a listening socket or a single connection.
    pub inherited: Vec<RawFd>,
    /// Permissions and group of the sockets; `None` uses the umask and the process's group.
    pub socket_mode: Option<u32>,
    pub socket_group: Option<u32>,
    /// Number of data queues. The control queue follows the last data queue.
    pub queues: u16,
    /// Which thread serves the control queue.
    pub control: ControlBy,
    /// Limits on each guest's sessions, keys and requests.
    pub limits: Limits,
    /// Rate limits for each guest.
    pub rates: Rates,
    /// Maximum number of concurrent guests per socket.
    pub max_guests: usize,
    /// Maximum number of new guests per second on each socket, after an initial burst. Starting a
    /// process for each new guest takes CPU time, so without this limit a front end that connects
    /// in a loop would slow down other guests.
    pub max_new_guests: u32,
    /// Maximum memory each guest may share, in bytes.
    pub max_memory: u64,
    /// How long a queue's thread polls before it sleeps.
    pub poll: Duration,
    /// Maximum time that a shutdown waits for requests that guests have already made available.
    pub drain: Duration,
    /// Path of the Unix socket for metrics, if any.
    pub metrics: Option<PathBuf>,
    /// Whether to enter the sandbox before serving the first guest.
    pub sandbox: bool,
    /// Whether to serve each guest in a separate process. If false, as in tests, this process
    /// serves all guests.
    pub isolation: bool,
    /// Whether this process also does other work, as a test does. If true, the device does not
    /// change resource limits, core dumps or memory locking.
    pub shares_process: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            sockets: Vec::new(),
            inherited: Vec::new(),
            socket_mode: None,
            socket_group: None,
            queues: 4,
            control: ControlBy::Inline,
            limits: Limits::default(),
            rates: Rates::default(),
            max_guests: 16,
            max_new_guests: 5,
            max_memory: 1 << 40,
            poll: Duration::from_micros(50),
            drain: Duration::from_millis(1300),
            metrics: None,
            sandbox: true,
            isolation: true,
            shares_process: false,
        }
    }
}

/// Bytes allowed for headers in addition to `--max-request`.
const AROUND: usize = 4096;

impl Config {
    /// Returns the maximum total size of a request's buffers, in bytes.
    pub(crate) fn max_chain(&self) -> usize {
        let data = self.limits.max_request.saturating_mul(2);
        let keys = self.limits.max_akcipher_key + self.limits.max_key + self.limits.max_auth_key;
        data.max(keys).saturating_add(AROUND)
    }

    /// Checks settings that depend on each other.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |line: String| Err(Error::Argument(line));
        if self.sockets.is_empty() && self.inherited.is_empty() {
            return refuse("no socket: name one with --socket PATH or --fd N".into());
        }
        if self.queues == 0 || self.queues > MAX_QUEUES {
            return refuse(format!(
                "--queues {}: a device has from 1 to {MAX_QUEUES}",
                self.queues
            ));
        }
        if self.max_guests == 0 {
            return refuse("--max-guests 0: at least one is needed".into());
        }
        if self.max_new_guests == 0 {
            return refuse("--max-new-guests 0: at least one per second is needed".into());
        }
        if self.limits.max_sessions == 0 {
            return refuse("--max-sessions 0: a guest needs at least one".into());
        }
        if self.limits.max_request == 0 {
            return refuse("--max-request 0: a request has at least one byte".into());
        }
        if self.max_memory == 0 {
            return refuse("--max-memory 0: a guest's rings need some memory".into());
        }
        for (i, fd) in self.inherited.iter().enumerate() {
            if *fd < 3 || self.inherited[..i].contains(fd) {
                return refuse(format!("--fd {fd}: name another descriptor, from 3 on"));
            }
        }
        for (i, path) in self.sockets.iter().enumerate() {
            if self.sockets[..i].contains(path) || self.metrics.as_ref() == Some(path) {
                return refuse(format!(
                    "{}: the socket is named twice: name another",
                    path.display()
                ));
            }
        }
        Ok(())
    }
}
