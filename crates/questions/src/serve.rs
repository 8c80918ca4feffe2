//! `kiln serve`.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kiln_device::log::{self, Form};
use kiln_device::{Config, ControlBy, Limits, Rates, Server};
use kiln_question::{Error, Exit, Question, Session};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// The virtio-crypto device on a vhost-user socket
///
/// For virtual machines of QEMU and others, and for programs with a driver of their own. Each connection is a guest of its
/// own: its sessions are no other guest's, and are wiped when it goes.
#[derive(Args)]
#[command(after_long_help = "\
SIGTERM or Ctrl-C serves what guests have made available and ends; a second
one ends at once. After start no file can be opened, and only the system calls
of serving can be made.

Examples:
  kiln serve --socket /run/kiln.sock
  kiln serve --socket a.sock --socket b.sock --queues 2 --max-sessions 1024
  kiln serve --socket kiln.sock --metrics metrics.sock
  curl --unix-socket metrics.sock http://kiln/metrics

See also:
  docs/VIRTIO.md (command lines of QEMU, libvirt and Cloud Hypervisor)")]
pub struct ServeArgs {
    /// Where to listen (repeatable)
    #[arg(long, value_name = "PATH", required = true)]
    socket: Vec<PathBuf>,
    /// Data queues, each on a thread of its own; the control queue comes behind them
    #[arg(long, value_name = "N", default_value_t = 4)]
    queues: u16,
    /// Control requests on the queue's thread (inline), or each handed to another (thread)
    #[arg(long, value_name = "HOW", default_value = "inline")]
    ctrl: String,
    /// Sessions of each guest
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_sessions)]
    max_sessions: usize,
    /// Bytes of a request's data, IV and associated data together
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().max_request)]
    max_request: usize,
    /// Guests at a time
    #[arg(long, value_name = "N", default_value_t = 16)]
    max_guests: usize,
    /// Requests a second of each guest
    #[arg(long, value_name = "N")]
    max_ops: Option<u64>,
    /// Bytes a second of each guest, read and written
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,
    /// Microseconds that a queue's thread looks for more before it sleeps
    #[arg(long, value_name = "US", default_value_t = 50)]
    poll_us: u64,
    /// Serve metrics in Prometheus's text form on this Unix socket
    #[arg(long, value_name = "PATH")]
    metrics: Option<PathBuf>,
    /// Log lines as text or json
    #[arg(long, value_name = "FORM", default_value = "text")]
    log: String,
    /// The least grave events to log: off, error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Without seccomp and landlock, for debuggers
    #[arg(long)]
    no_sandbox: bool,
}

impl ServeArgs {
    fn config(&self) -> Result<Config, kiln_device::Error> {
        Ok(Config {
            sockets: self.socket.clone(),
            queues: self.queues,
            control: self.ctrl.parse::<ControlBy>()?,
            limits: Limits {
                max_sessions: self.max_sessions,
                max_request: self.max_request,
                ..Limits::default()
            },
            rates: Rates {
                ops: self.max_ops,
                bytes: self.max_bytes,
            },
            max_guests: self.max_guests,
            poll: Duration::from_micros(self.poll_us),
            metrics: self.metrics.clone(),
            sandbox: !self.no_sandbox,
            ..Config::default()
        })
    }
}

/// Readable once there was a SIGTERM or a Ctrl-C.
fn stop_signal() -> io::Result<UnixStream> {
    let (stop, rings) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        pipe::register(signal, rings.try_clone()?)?;
    }
    Ok(stop)
}

impl Question for ServeArgs {
    const NAME: &'static str = "serve";

    fn run(&self, _: &Session) -> Result<Exit, Error> {
        let config = self.config().map_err(fault)?;
        log::start(self.log.parse::<Form>().map_err(fault)?, &self.log_level).map_err(fault)?;
        let stop = stop_signal().map_err(|e| Error::lacks(format!("cannot catch signals: {e}")))?;
        let server = Server::bind(config).map_err(fault)?;
        server.run(stop.as_fd()).map_err(fault)?;
        Ok(Exit::Done)
    }
}

fn fault(e: kiln_device::Error) -> Error {
    match e {
        kiln_device::Error::Lacks { .. } => Error::lacks(e.to_string()),
        _ => Error::input(e.to_string()),
    }
}
