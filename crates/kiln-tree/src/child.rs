//! Runs this program again as a child that holds a tree, so that Kiln survives whatever the tree's code does to its
//! process.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, io};

use serde::{Deserialize, Serialize};

use crate::event::{Event, ProveContext, Subject};
use crate::fault::Symbols;
use crate::Error;

/// The environment variable that marks a process as a child.
const VARIABLE: &str = "KILN_TREE_CHILD";

/// How long a child may take after Ctrl-C to print its results.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a child needs in addition to its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The image to load.
    pub image: PathBuf,
    /// The parent's seed.
    pub seed: u64,
    /// Whether the tree runs its self-tests while its initcalls run.
    pub tests: bool,
    /// Whether only the tree's own tasks can end a wait. If so, a long wait is reported as a deadlock.
    pub lonely: bool,
    /// How many times slower than the host's clock the tree's clock runs, so that its timeouts suit slower execution.
    #[serde(default)]
    pub slow: u32,
    /// Drivers whose tests are skipped.
    pub skipped: Vec<String>,
    /// How result rows name the image's tree.
    #[serde(default)]
    pub label: Label,
    /// The drivers to run in every context, for a child of [`crate::contexts::run`]; empty for other children.
    #[serde(default)]
    pub drivers: Vec<Driver>,
    /// The KUnit suite to run, for a child of [`crate::kunit::run`]; `None` for other children.
    #[serde(default)]
    pub kunit: Option<KunitOrder>,
    /// What to examine, for a child of [`crate::oracle::run`]; `None` for other children.
    #[serde(default)]
    pub oracle: Option<OracleOrder>,
    /// Whether a child of [`crate::library::run`] checks the functions of the library.
    #[serde(default)]
    pub library: bool,
    /// File descriptor for events.
    events: RawFd,
}

/// How result rows name the tree, which the child cannot read from the image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// As the user named it, such as `tree:DIR`; empty if rows have no such name.
    pub name: String,
    /// Such as `6.12.117`.
    pub version: String,
    /// Such as `kiln`, or `cloud.config (retpoline, rethunk, ibt)`.
    pub config: String,
}

/// A driver to run in every context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    pub name: String,
    /// The algorithm it implements.
    pub alg: String,
    /// The number of its type in `tree/contexts.c`.
    pub kind: u32,
}

/// What a child is to run. Without a suite, it lists the available ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KunitOrder {
    pub suite: Option<String>,
    /// Pattern of case names; `None`: all cases.
    pub cases: Option<String>,
    pub bench: bool,
    /// The tiers visible to the tree; `None`: everything the CPU has.
    pub tiers: Option<Vec<String>>,
    /// Step the functions of interrupt tests.
    #[serde(default)]
    pub prove: Option<ProveOrder>,
}

/// Drivers to examine with one oracle; without a number, list the drivers instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OracleOrder {
    pub oracle: String,
    /// Its number in `enum kiln_oracle`.
    pub number: Option<u32>,
    pub thorough: bool,
    pub subjects: Vec<Subject>,
    /// Numbers of CPU features to hide from the tree.
    #[serde(default)]
    pub hidden: Vec<u16>,
}

/// How to step functions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProveOrder {
    pub contexts: Vec<ProveContext>,
    /// How many visits to each instruction are interrupted.
    pub visits: u64,
    /// The last interrupt, as call and instruction within it; `None`: no limit.
    pub at: Option<(u64, u64)>,
    /// The part of the library's functions to step, as index and number of parts.
    #[serde(default)]
    pub part: (usize, usize),
    /// Digests of library functions that need not be interrupted again.
    #[serde(default)]
    pub known: Vec<u64>,
}

impl Order {
    /// Creates an order to load this image without self-tests.
    pub fn new(image: &Path, seed: u64) -> Order {
        Order {
            image: image.to_owned(),
            seed,
            tests: false,
            lonely: false,
            slow: 1,
            skipped: Vec::new(),
            label: Label::default(),
            drivers: Vec::new(),
            kunit: None,
            oracle: None,
            library: false,
            events: -1,
        }
    }

    /// The order this process was given, if it is a child. Call once and early: it removes the variable so that
    /// grandchildren do not see it.
    ///
    /// # Errors
    /// The variable is set, but not by a parent of this version.
    pub fn from_env() -> Result<Option<Order>, Error> {
        let Some(text) = env::var_os(VARIABLE) else {
            return Ok(None);
        };
        env::remove_var(VARIABLE);
        let order: Option<Order> = serde_json::from_str(&text.to_string_lossy()).ok();
        // SAFETY: only queries a descriptor number; touches no memory.
        let open = |fd: RawFd| unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
        match order {
            Some(order) if order.events > 2 && open(order.events) => Ok(Some(order)),
            _ => Err(Error::Variable(VARIABLE)),
        }
    }

    pub(crate) fn events(&self) -> RawFd {
        self.events
    }
}

/// What a child left behind.
#[derive(Debug)]
pub struct Ended {
    /// The events it sent, in order.
    pub events: Vec<Event>,
    pub output: Vec<u8>,
    pub status: ExitStatus,
    /// If it ended early: what happened, where, and in which driver's test.
    pub fault: Option<Fault>,
}

/// A crash of the tree's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub what: String,
    /// Instruction address; 0 if unknown.
    pub address: u64,
    /// The driver under test, or empty.
    pub driver: String,
    /// The oracle's case, or empty if no oracle was running.
    pub case: String,
    /// Return addresses, innermost first.
    pub trace: Vec<u64>,
}

impl Fault {
    /// Formats the crash on one line, with function and offset.
    pub fn line(&self, image: &Path) -> String {
        match self.address {
            0 => self.what.clone(),
            at => Symbols::lazily(image).fault(&self.what, at),
        }
    }
}

/// How to supervise a child.
pub struct Watch<'a> {
    /// Set by Ctrl-C. The child is then interrupted too, and has a few seconds to end.
    pub stop: &'a AtomicBool,
    /// End the child after this long without an event; `None`: no limit.
    pub silence: Option<Duration>,
    /// Called with each event.
    pub event: &'a mut dyn FnMut(&Event),
}

/// Runs this program again with these arguments, as a child that loads an image.
///
/// # Errors
/// The child cannot be started.
pub fn run(order: &Order, args: &[OsString], watch: &mut Watch) -> Result<Ended, Error> {
    let (events, told) = pipe().map_err(|e| Error::host("cannot make a pipe", e))?;
    let told_fd = told.as_raw_fd();
    let order = Order {
        events: told_fd,
        ..order.clone()
    };
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(env::args_os().next().unwrap_or_else(|| "kiln".into()))
        .args(args)
        .env(
            VARIABLE,
            serde_json::to_string(&order).expect("plain values"),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // The terminal sends Ctrl-C to the parent only, which forwards it.
        .process_group(0);
    // SAFETY: makes async-signal-safe calls only. The descriptor survives exec, and the child is killed when its parent
    // ends.
    unsafe {
        command.pre_exec(move || {
            if libc::fcntl(told_fd, libc::F_SETFD, 0) != 0
                || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0
            {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let mut child = command
        .spawn()
        .map_err(|e| Error::host("cannot start kiln again", e))?;
    drop(told);
    let mut stdout = child.stdout.take().expect("it is piped");
    let output = thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.read_to_end(&mut bytes);
        bytes
    });
    let (send, receive) = channel();
    let reader = thread::spawn(move || {
        let lines = BufReader::new(std::fs::File::from(events)).lines();
        for line in lines.map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });

    let mut events = Vec::new();
    let mut last = Instant::now();
    let mut stopped: Option<Instant> = None;
    let mut hangs = false;
    loop {
        match receive.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => {
                last = Instant::now();
                if let Ok(event) = serde_json::from_str::<Event>(&line) {
                    (watch.event)(&event);
                    events.push(event);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                hangs = watch.silence.is_some_and(|s| last.elapsed() > s);
            }
        }
        if watch.stop.load(Ordering::Relaxed) && stopped.is_none() {
            stopped = Some(Instant::now());
            // SAFETY: signals a child that has not been waited for, so the PID is still its own.
            unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        }
        if hangs || stopped.is_some_and(|since| since.elapsed() > PATIENCE) {
            let _ = child.kill();
            break;
        }
    }
    let status = child
        .wait()
        .map_err(|e| Error::host("the tree's process", e))?;
    let _ = reader.join();
    let output = output.join().unwrap_or_default();
    let fault = fault(&events, status, hangs.then_some(watch.silence).flatten());
    Ok(Ended {
        events,
        output,
        status,
        fault,
    })
}

/// Why the child ended early, if it did.
fn fault(events: &[Event], status: ExitStatus, silent: Option<Duration>) -> Option<Fault> {
    let told = events.iter().find_map(|event| match event {
        Event::Fault {
            what,
            address,
            driver,
            case,
            trace,
        } => Some(Fault {
            what: what.clone(),
            address: *address,
            driver: driver.clone(),
            case: case.clone(),
            trace: trace.clone(),
        }),
        _ => None,
    });
    let what = match (silent, status.signal()) {
        _ if told.is_some() => return told,
        (Some(silence), _) => format!("no sign of life for {} s", silence.as_secs()),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => return None,
    };
    Some(Fault {
        what,
        address: 0,
        driver: String::new(),
        case: String::new(),
        trace: Vec::new(),
    })
}

/// Creates a pipe that other children do not inherit. Returns the read end and the write end.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: there is space for two descriptors, and on success nothing else owns them.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_end_is_a_fault_and_the_tree_s_own_word_counts_first() {
        let killed = ExitStatus::from_raw(9);
        let fine = ExitStatus::from_raw(0);
        assert_eq!(fault(&[], fine, None), None);
        assert_eq!(fault(&[], killed, None).unwrap().what, "ended by signal 9");
        let silent = fault(&[], killed, Some(Duration::from_secs(60))).unwrap();
        assert_eq!(silent.what, "no sign of life for 60 s");
        let told = Event::Fault {
            what: "BUG".into(),
            address: 7,
            driver: "d".into(),
            case: String::new(),
            trace: Vec::new(),
        };
        assert_eq!(fault(&[told], killed, None).unwrap().address, 7);
    }
}
