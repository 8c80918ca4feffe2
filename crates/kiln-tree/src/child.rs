//! The same program again as a child that holds a tree: whatever the tree's code does to its process, Kiln goes on.

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

/// The environment variable by which the child knows what it is.
const VARIABLE: &str = "KILN_TREE_CHILD";

/// How long a child may take after Ctrl-C to print what it has.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a child needs in addition to its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The image to load.
    pub image: PathBuf,
    /// The parent's seed.
    pub seed: u64,
    /// Whether the tree tests itself while its initcalls run.
    pub tests: bool,
    /// Whether only the tree's own tasks can end a wait: one that lasts is reported as a deadlock.
    pub lonely: bool,
    /// How many times slower than the host's clock the tree's clock runs, so that its timeouts fit the slower work.
    #[serde(default)]
    pub slow: u32,
    /// Drivers whose tests are left out.
    pub skipped: Vec<String>,
    /// What the image is of.
    #[serde(default)]
    pub label: Label,
    /// The drivers that a child of [`crate::contexts::run`] tries in every context; other children have none.
    #[serde(default)]
    pub drivers: Vec<Driver>,
    /// The KUnit suite that a child of [`crate::kunit::run`] runs; other children have none.
    #[serde(default)]
    pub kunit: Option<KunitOrder>,
    /// What a child of [`crate::oracle::run`] examines; other children have none.
    #[serde(default)]
    pub oracle: Option<OracleOrder>,
    /// Whether a child of [`crate::library::run`] checks the functions of the library.
    #[serde(default)]
    pub library: bool,
    /// The descriptor for events.
    events: RawFd,
}

/// What a child cannot read from the image: how its rows name the tree.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// As the user named it, such as `tree:DIR`; empty where rows have no such name.
    pub name: String,
    /// Such as `6.12.117`.
    pub version: String,
    /// Such as `kiln`, or `cloud.config (retpoline, rethunk, ibt)`.
    pub config: String,
}

/// A driver that a child tries in every context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    pub name: String,
    /// What it implements.
    pub alg: String,
    /// The number of its type in `tree/contexts.c`.
    pub kind: u32,
}

/// What a child is to run; without a suite, it lists those that there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KunitOrder {
    pub suite: Option<String>,
    /// A pattern of its cases; none: all.
    pub cases: Option<String>,
    pub bench: bool,
    /// The tiers that the tree may see; none: whatever the CPU has.
    pub tiers: Option<Vec<String>>,
    /// The functions of interrupt tests are stepped.
    #[serde(default)]
    pub prove: Option<ProveOrder>,
}

/// Drivers under one oracle; without a number: which drivers there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OracleOrder {
    /// Its name.
    pub oracle: String,
    /// Its number in `enum kiln_oracle`.
    pub number: Option<u32>,
    pub thorough: bool,
    pub subjects: Vec<Subject>,
    /// Numbers of CPU features that the tree does not see.
    #[serde(default)]
    pub hidden: Vec<u16>,
}

/// How functions are stepped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProveOrder {
    pub contexts: Vec<ProveContext>,
    /// How many visits of each instruction are interrupted.
    pub visits: u64,
    /// The last interrupt: the call, and the instruction in it; none: all.
    pub at: Option<(u64, u64)>,
    /// Functions of the library: which part of how many.
    #[serde(default)]
    pub part: (usize, usize),
    /// Digests of functions of the library that need no interrupts any more.
    #[serde(default)]
    pub known: Vec<u64>,
}

impl Order {
    /// An order to load this image, without self-tests.
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

    /// What this process was ordered, if it is a child. To be asked once, early: the variable is not for grandchildren.
    ///
    /// # Errors
    /// The variable is set, but not by a parent of this version.
    pub fn from_env() -> Result<Option<Order>, Error> {
        let Some(text) = env::var_os(VARIABLE) else {
            return Ok(None);
        };
        env::remove_var(VARIABLE);
        let order: Option<Order> = serde_json::from_str(&text.to_string_lossy()).ok();
        // SAFETY: asks about a number; touches nothing.
        let open = |fd: RawFd| unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
        match order {
            Some(order) if order.events > 2 && open(order.events) => Ok(Some(order)),
            _ => Err(Error::Variable(VARIABLE)),
        }
    }

    /// The descriptor for events.
    pub(crate) fn events(&self) -> RawFd {
        self.events
    }
}

/// What a child left.
#[derive(Debug)]
pub struct Ended {
    /// What it told, in order.
    pub events: Vec<Event>,
    /// Its standard output.
    pub output: Vec<u8>,
    /// How it ended.
    pub status: ExitStatus,
    /// If it ended early: what happened, where, in whose test.
    pub fault: Option<Fault>,
}

/// A crash of a tree's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub what: String,
    /// Where; 0 if unknown.
    pub address: u64,
    /// Whose test ran; empty: none.
    pub driver: String,
    /// What an oracle called; empty: none was at work.
    pub case: String,
    /// Return addresses, the innermost first.
    pub trace: Vec<u64>,
}

impl Fault {
    /// One line, with the function and the offset in it.
    pub fn line(&self, image: &Path) -> String {
        match self.address {
            0 => self.what.clone(),
            at => Symbols::lazily(image).fault(&self.what, at),
        }
    }
}

/// How a child is watched over.
pub struct Watch<'a> {
    /// Set by Ctrl-C: the child gets one, too, and has some seconds to end.
    pub stop: &'a AtomicBool,
    /// End it after so long without an event; none: it may be silent.
    pub silence: Option<Duration>,
    /// Called with each event.
    pub event: &'a mut dyn FnMut(&Event),
}

/// Runs this program again with these arguments as a child with an image.
///
/// # Errors
/// It cannot be started.
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
        // The terminal's Ctrl-C is for the parent, which passes on one.
        .process_group(0);
    // SAFETY: async-signal-safe calls only: the descriptor outlives exec, the child does not outlive its parent.
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
            // SAFETY: a signal to a child that was not waited for: the number is its own.
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

/// How it ended, if that was early.
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

/// A pipe whose ends no other child gets: where to read, where to write.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors; on success nothing else owns them.
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
