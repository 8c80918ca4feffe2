//! The settings of a device.

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use kiln_virtio::Limits;

use crate::error::Error;
use crate::pace::Rates;

/// Data queues that a device may have.
pub(crate) const MAX_QUEUES: u16 = 16;

/// Descriptors that a ring may have.
pub(crate) const MAX_RING: u16 = 1024;

/// The thread that serves the control queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlBy {
    /// The queue's own thread.
    #[default]
    Inline,
    /// Another, to which each request is handed, so that what that costs can be seen.
    Thread,
}

impl FromStr for ControlBy {
    type Err = Error;

    fn from_str(name: &str) -> Result<ControlBy, Error> {
        match name {
            "inline" => Ok(ControlBy::Inline),
            "thread" => Ok(ControlBy::Thread),
            _ => Err(Error::Argument(format!(
                "unknown way of serving '{name}': there are inline, thread"
            ))),
        }
    }
}

/// A device's settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; each connection is a guest of its own.
    pub sockets: Vec<PathBuf>,
    /// Descriptors that were passed on: sockets that listen, or one connection each.
    pub inherited: Vec<RawFd>,
    /// Permissions and group of the sockets; none: as the file mode creation mask and the process say.
    pub socket_mode: Option<u32>,
    pub socket_group: Option<u32>,
    /// Data queues; the control queue comes behind them.
    pub queues: u16,
    /// Who serves the control queue.
    pub control: ControlBy,
    /// What each guest may have.
    pub limits: Limits,
    /// How fast each guest may be.
    pub rates: Rates,
    /// Guests at a time, of each socket.
    pub max_guests: usize,
    /// Bytes of memory that each guest may share.
    pub max_memory: u64,
    /// How long a queue's thread looks for more before it sleeps.
    pub poll: Duration,
    /// How long a stop waits for what guests have made available.
    pub drain: Duration,
    /// Where metrics are served.
    pub metrics: Option<PathBuf>,
    /// Close the sandbox before the first guest.
    pub sandbox: bool,
    /// Serve each guest in a process of its own. Without it, and in tests, all are served in this one.
    pub isolation: bool,
    /// This process does other things as well, as a test does: it keeps its limits, its core dumps and memory that is
    /// not locked.
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
            max_memory: 1 << 40,
            poll: Duration::from_micros(50),
            drain: Duration::from_millis(1500),
            metrics: None,
            sandbox: true,
            isolation: true,
            shares_process: false,
        }
    }
}

/// What a request and its answer hold besides what `--max-request` counts: headers, and an answer as long as the data.
const AROUND: usize = 4096;

impl Config {
    /// The most that all buffers of one request may hold.
    pub(crate) fn max_chain(&self) -> usize {
        let data = self.limits.max_request.saturating_mul(2);
        let keys = self.limits.max_akcipher_key + self.limits.max_key + self.limits.max_auth_key;
        data.max(keys).saturating_add(AROUND)
    }

    /// Checks what one setting alone cannot say.
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
        for (i, fd) in self.inherited.iter().enumerate() {
            if *fd < 3 || self.inherited[..i].contains(fd) {
                return refuse(format!("--fd {fd}: name another descriptor, from 3 on"));
            }
        }
        for (i, path) in self.sockets.iter().enumerate() {
            if self.sockets[..i].contains(path) || self.metrics.as_ref() == Some(path) {
                return refuse(format!(
                    "{}: the same socket twice: name another",
                    path.display()
                ));
            }
        }
        Ok(())
    }
}
