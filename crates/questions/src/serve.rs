//! `kiln serve`: runs the virtio-crypto device.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kiln_device::log::{self, Form};
use kiln_device::{warn_of_few_tasks, Config, ControlBy, Forks, Limits, Rates, Server};
use kiln_question::{Error, Exit, Question, Session};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::device::socket_path;

/// Serve a virtio-crypto device over vhost-user
///
/// Serves virtual machines under QEMU and other hypervisors, and programs that contain a
/// virtio-crypto driver. Each connection counts as one guest, and is served by a separate process.
/// A guest cannot use the sessions of other guests. When a guest disconnects, its sessions are
/// wiped.
#[derive(Args)]
#[command(after_long_help = "\
On SIGTERM or Ctrl-C, the device serves the requests that are already in the
queues, and ends within 2 s. On a second signal, it ends at once. A process
that serves a guest cannot open files, and can make only the system calls
that serving needs.

Examples:
  kiln serve --socket /run/kiln.sock
  kiln serve --socket a.sock --socket b.sock --queues 2 --max-sessions 1024
  kiln serve --socket kiln.sock --metrics metrics.sock
  curl --unix-socket metrics.sock http://kiln/metrics
  kiln serve --socket c.sock --socket-mode 660 --max-cpu 50

See also:
  docs/VIRTIO.md (command lines of QEMU, libvirt and Cloud Hypervisor)")]
pub struct ServeArgs {
    /// Path of a socket to listen on (repeatable)
    #[arg(long, value_name = "PATH", value_parser = socket_path(), alias = "socket-path", required_unless_present_any = ["fd", "print_capabilities"])]
    socket: Vec<PathBuf>,
    /// Inherited file descriptor of a listening or connected socket (repeatable)
    #[arg(long, value_name = "N")]
    fd: Vec<RawFd>,
    /// Permissions of the sockets, such as 660
    #[arg(long, value_name = "OCTAL")]
    socket_mode: Option<String>,
    /// Group that owns the sockets, as a name or a number
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// Print the device's type as JSON and exit, as virtual machine managers expect
    #[arg(long)]
    print_capabilities: bool,
    /// Number of data queues, each served by a separate thread. The data queues have the numbers 0
    /// to N-1; the control queue is queue N
    #[arg(long, value_name = "N", default_value_t = 4)]
    queues: u16,
    /// Thread that serves control requests: inline (the control queue's own thread) or thread (a
    /// separate thread)
    #[arg(long, value_name = "HOW", default_value = "inline")]
    ctrl: String,
    /// Maximum number of sessions per guest
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_sessions)]
    max_sessions: usize,
    /// Maximum size of a request in bytes: data, IV and associated data together
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().max_request)]
    max_request: usize,
    /// Maximum number of simultaneous guests per socket
    #[arg(long, value_name = "N", default_value_t = 16)]
    max_guests: usize,
    /// Maximum number of new guests per second on each socket, after an initial burst of 64
    #[arg(long, value_name = "N", default_value_t = Config::default().max_new_guests, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_new_guests: u32,
    /// Maximum memory in bytes that each guest may share with the device (the default is 1 TiB)
    #[arg(long, value_name = "BYTES", default_value_t = Config::default().max_memory)]
    max_memory: u64,
    /// Maximum number of requests per second for each guest [default: unlimited]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_ops: Option<u64>,
    /// Maximum sum of the bytes read and the bytes written per second for each guest [default:
    /// unlimited]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    max_bytes: Option<u64>,
    /// Maximum CPU usage of the device's process for each guest, in percent of one core [default:
    /// unlimited]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..))]
    max_cpu: Option<u64>,
    /// Microseconds that a queue's thread polls for further requests before it sleeps
    #[arg(long, value_name = "US", default_value_t = 50)]
    poll_us: u64,
    /// Serve metrics on this Unix socket in the OpenMetrics text format, which Prometheus reads
    #[arg(long, value_name = "PATH", value_parser = socket_path())]
    metrics: Option<PathBuf>,
    /// Format of log lines: text or json
    #[arg(long, value_name = "FORM", default_value = "text")]
    log: String,
    /// Log level: off, error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Run without seccomp and landlock, for debuggers
    #[arg(long)]
    no_sandbox: bool,
    /// Serve all guests in one process, for debugging; a crash then affects all guests
    #[arg(long)]
    no_isolation: bool,
}

impl ServeArgs {
    fn config(&self) -> Result<Config, kiln_device::Error> {
        Ok(Config {
            sockets: self.socket.clone(),
            inherited: self.fd.clone(),
            socket_mode: self.mode()?,
            socket_group: self.group()?,
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
                cpu: self.max_cpu,
            },
            max_guests: self.max_guests,
            max_new_guests: self.max_new_guests,
            max_memory: self.max_memory,
            poll: Duration::from_micros(self.poll_us),
            metrics: self.metrics.clone(),
            sandbox: !self.no_sandbox,
            isolation: !self.no_isolation,
            ..Config::default()
        })
    }
}

impl ServeArgs {
    fn mode(&self) -> Result<Option<u32>, kiln_device::Error> {
        let parse = |text: &String| {
            let mode = u32::from_str_radix(text, 8).ok();
            mode.filter(|mode| *mode <= 0o777).ok_or_else(|| {
                kiln_device::Error::Argument(format!(
                    "--socket-mode {text}: three octal digits, such as 660"
                ))
            })
        };
        self.socket_mode.as_ref().map(parse).transpose()
    }

    fn group(&self) -> Result<Option<u32>, kiln_device::Error> {
        let find = |name: &String| {
            if let Ok(number) = name.parse() {
                return Ok(number);
            }
            let all = fs::read_to_string("/etc/group").unwrap_or_default();
            let mut lines = all.lines().map(|line| line.split(':'));
            let number = lines.find_map(|mut line| {
                (line.next()? == name).then_some(())?;
                line.nth(1)?.parse().ok()
            });
            number.ok_or_else(|| {
                kiln_device::Error::Argument(format!(
                    "--socket-group {name}: not in /etc/group: name a group, or its number"
                ))
            })
        };
        self.socket_group.as_ref().map(find).transpose()
    }
}

/// Returns a stream that becomes readable on SIGTERM or Ctrl-C.
fn stop_signal() -> io::Result<UnixStream> {
    let (stop, rings) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        pipe::register(signal, rings.try_clone()?)?;
    }
    Ok(stop)
}

impl Question for ServeArgs {
    const NAME: &'static str = "serve";

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if session.global.json {
            return Err(Error::input(
                "--json: the device has no result to print: use --log json for log lines in JSON",
            ));
        }
        if session.global.out.is_some() {
            return Err(Error::input(
                "--out: the device writes no record: send its log to a file with 2>FILE",
            ));
        }
        if self.print_capabilities {
            // The section "Backend program conventions" of vhost-user.rst defines this format.
            return match writeln!(io::stdout(), "{{\n  \"type\": \"crypto\"\n}}") {
                Ok(()) => Ok(Exit::Done),
                Err(e) => Err(Error::lacks(format!("stdout: {e}"))),
            };
        }
        let config = self.config().map_err(fault)?;
        let form = self.log.parse::<Form>().map_err(fault)?;
        if let Some(forks) = Forks::from_env().map_err(fault)? {
            if let Some(inside) = forks.run(&config).map_err(fault)? {
                inside.start_log(form, &self.log_level).map_err(fault)?;
                inside.serve(&config).map_err(fault)?;
            }
            return Ok(Exit::Done);
        }
        log::start(form, &self.log_level).map_err(fault)?;
        let stop = stop_signal().map_err(|e| Error::lacks(format!("cannot catch signals: {e}")))?;
        warn_of_few_tasks(&config);
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
