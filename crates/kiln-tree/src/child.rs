//! Starts this program a second time, as a child process that loads a tree. If the tree's code
//! crashes, only the child dies.

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

/// Environment variable that holds the command for a child. The variable is set only in child
/// processes.
const VARIABLE: &str = "KILN_TREE_CHILD";

/// How long a child may take to print its results after Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(10);

/// The input that a child receives in addition to its command-line arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Path of the image to load.
    pub image: PathBuf,
    /// Seed for random numbers in the child, chosen by the parent.
    pub seed: u64,
    /// Whether the tree runs its self-tests during its initcalls.
    pub tests: bool,
    /// Whether a waiting task can be woken only by the tree's own tasks. If so, a deadlock is
    /// reported when all tasks have been waiting for too long.
    pub lonely: bool,
    /// Factor by which the tree's clock runs slower than the host's. With a slower clock, tests
    /// that take longer than usual stay within the tree's timeouts.
    #[serde(default)]
    pub slow: u32,
    /// Drivers whose tests are skipped.
    pub skipped: Vec<String>,
    /// Description of the tree from which the image was built. The child adds it to its result
    /// rows.
    #[serde(default)]
    pub label: Label,
    /// Drivers to run in every context, for a child of [`crate::contexts::run`]; empty for other
    /// children.
    #[serde(default)]
    pub drivers: Vec<Driver>,
    /// KUnit suite to run, for a child of [`crate::kunit::run`]; `None` for other children.
    #[serde(default)]
    pub kunit: Option<KunitOrder>,
    /// Oracle to run, and drivers to examine, for a child of [`crate::oracle::run`]; `None` for
    /// other children.
    #[serde(default)]
    pub oracle: Option<OracleOrder>,
    /// Whether to check the functions of the tree's library. Set only for children of
    /// [`crate::library::run`].
    #[serde(default)]
    pub library: bool,
    /// File descriptor to which the child writes its events.
    events: RawFd,
}

/// A tree's description in result rows. The parent passes it to the child, because the image does
/// not contain it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// The name that the user gave, such as `tree:DIR`; empty if the rows do not contain a tree's
    /// name.
    pub name: String,
    /// Linux version, such as `6.12.117`.
    pub version: String,
    /// Configuration, such as `kiln`, or `cloud.config (retpoline, rethunk, ibt)`.
    pub config: String,
}

/// A driver to run in every context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    pub name: String,
    /// Name of the driver's algorithm.
    pub alg: String,
    /// The driver's type, as a value of `enum kiln_type`.
    pub kind: u32,
}

/// The KUnit cases that a child runs. If `suite` is `None`, the child lists the available suites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KunitOrder {
    pub suite: Option<String>,
    /// Pattern of case names; `None` selects all cases.
    pub cases: Option<String>,
    pub bench: bool,
    /// Tiers whose CPU features the tree can see; `None` hides no features.
    pub tiers: Option<Vec<String>>,
    /// How to single-step the functions that the suites' interrupt tests call; `None` disables
    /// stepping.
    #[serde(default)]
    pub prove: Option<ProveOrder>,
}

/// The drivers that a child examines with one oracle. If `number` is `None`, the child lists the
/// drivers instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OracleOrder {
    pub oracle: String,
    /// The oracle's value in `enum kiln_oracle`.
    pub number: Option<u32>,
    pub thorough: bool,
    pub subjects: Vec<Subject>,
    /// CPU features to hide from the tree, identified by their numbers.
    #[serde(default)]
    pub hidden: Vec<u16>,
}

/// Options for single-stepping functions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProveOrder {
    pub contexts: Vec<ProveContext>,
    /// Maximum number of times that each instruction is interrupted.
    pub visits: u64,
    /// The last call to interrupt, and the last instruction to interrupt within that call; `None`
    /// sets no limit.
    pub at: Option<(u64, u64)>,
    /// Library functions to step, in this order, for a child that steps the library.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Digests of functions that earlier children have interrupted. A function with one of these
    /// digests is not interrupted again.
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

    /// Returns this process's order if the process is a child. Must be called once and early: it
    /// removes the environment variable, so that grandchildren do not see it.
    ///
    /// # Errors
    /// Fails if the variable is set, but not by a parent process of the same version of Kiln.
    pub fn from_env() -> Result<Option<Order>, Error> {
        let Some(text) = env::var_os(VARIABLE) else {
            return Ok(None);
        };
        env::remove_var(VARIABLE);
        let order: Option<Order> = serde_json::from_str(&text.to_string_lossy()).ok();
        // SAFETY: the call only changes a flag of the descriptor and touches no memory.
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

/// The events that a child sent, and how the child ended.
#[derive(Debug)]
pub struct Ended {
    /// The events that the child sent, in order.
    pub events: Vec<Event>,
    pub output: Vec<u8>,
    pub status: ExitStatus,
    /// The crash that ended the child early; `None` if the child ended normally.
    pub fault: Option<Fault>,
}

/// A crash in the tree's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub what: String,
    /// Instruction address; 0 if unknown.
    pub address: u64,
    /// Driver under test; empty if no test was running.
    pub driver: String,
    /// The oracle's case; empty if no oracle was running.
    pub case: String,
    /// Return addresses, innermost first.
    pub trace: Vec<u64>,
}

impl Fault {
    /// Describes the crash on one line, including the function and the offset.
    pub fn line(&self, image: &Path) -> String {
        match self.address {
            0 => self.what.clone(),
            at => Symbols::lazily(image).fault(&self.what, at),
        }
    }
}

/// Options for supervising a child.
pub struct Watch<'a> {
    /// Set when the user presses Ctrl-C. The parent then sends SIGINT to the child and gives it a
    /// few seconds to end.
    pub stop: &'a AtomicBool,
    /// Maximum time between two events. A child that sends no events for longer than this is
    /// killed. `None` sets no limit.
    pub silence: Option<Duration>,
    /// Callback that receives each event.
    pub event: &'a mut dyn FnMut(&Event),
}

/// Makes the kernel kill the child when the parent thread exits, even if the parent process is
/// killed. Otherwise, the child would keep running, although its results would never be read.
pub fn end_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: the closure makes only system calls that are allowed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // If the parent exited before the call above, the signal is never sent, so fail here.
            if u32::try_from(libc::getppid()) != Ok(parent) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// Starts this program with these arguments as a child that loads an image, and waits until the
/// child exits.
///
/// # Errors
/// Fails if the child cannot be started.
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
        // The child gets its own process group, so that the terminal's Ctrl-C does not reach it.
        // The parent forwards Ctrl-C as SIGINT.
        .process_group(0);
    end_with_parent(&mut command);
    // SAFETY: the closure makes a single system call, which is allowed between fork and exec. It
    // keeps the descriptor open across exec.
    unsafe {
        command.pre_exec(move || match libc::fcntl(told_fd, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
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
            // SAFETY: the call takes no pointers. The child has not been waited for, so its PID
            // cannot have been reused.
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

/// Returns the fault that ended the child early, or `None` if the child ended normally.
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

/// Creates a pipe that other children do not inherit. Returns the read end, then the write end.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has space for two descriptors. After a successful call, nothing else owns
    // the descriptors.
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
