//! Boots user mode Linux with a time limit and passes each line of its console to a callback. The
//! kernel's process never outlives the call, not even if this process is killed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use kiln_tree::child::end_with_parent;
use tempfile::TempDir;

use crate::console::{self, Line};
use crate::error::BootEnd;
use crate::Error;

/// Interval at which the stop flag is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Number of console lines that are kept for the error message if a boot fails.
const TAIL: usize = 15;

/// Maximum line length in bytes. Without this limit, a console that prints no newline would fill
/// memory.
const LONGEST: u64 = 1 << 16;

pub struct Boot<'a> {
    /// The executable of user mode Linux.
    pub linux: &'a Path,
    /// An archive that contains Kiln's init and the commands for it.
    pub initramfs: Vec<u8>,
    /// Memory size, such as `256M`.
    pub memory: &'a str,
    /// Additional words for the kernel command line.
    pub arguments: &'a [&'a str],
    pub limit: Duration,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
}

#[derive(Debug)]
pub struct Outcome {
    /// Exit code from init's last line: 0 if all commands succeeded. `None` if init did not print
    /// its last line.
    pub exit: Option<i32>,
    /// Time from the start of the process to init's first line.
    pub to_init: Option<Duration>,
    pub took: Duration,
    /// The last lines of the console.
    pub tail: Vec<String>,
}

impl Boot<'_> {
    /// Boots the kernel and passes each line of the console to `line`.
    ///
    /// # Errors
    /// Fails if the kernel cannot be started, does not shut down within the limit, or shuts down
    /// before init reports its exit code.
    pub fn run(&self, line: &mut dyn FnMut(&Line)) -> Result<Outcome, Error> {
        let initramfs = Scratch::new("initramfs")?;
        fs::write(&initramfs.path, &self.initramfs)
            .map_err(|e| Error::cache(&initramfs.path, e))?;
        watch(
            self.command(&initramfs.path),
            &Watch {
                name: "user mode Linux",
                limit: self.limit,
                stop: self.stop,
            },
            &mut |said| {
                line(said);
                true
            },
        )
    }

    fn command(&self, initramfs: &Path) -> Command {
        let mut command = Command::new(self.linux);
        command
            .arg(format!("mem={}", self.memory))
            .arg(format!("initrd={}", initramfs.display()))
            // The first console writes to the standard output of the kernel's process and has no
            // input.
            .args(["con=null", "con0=null,fd:1", "console=tty0"])
            .args(self.arguments)
            // Discard messages printed before the console works.
            .stderr(Stdio::null());
        command
    }
}

/// Options for supervising a machine.
pub(crate) struct Watch<'a> {
    /// The machine's name in messages.
    pub name: &'static str,
    pub limit: Duration,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
}

/// Starts the machine and passes each line of its output to `line`. If `line` returns false, kills
/// the machine and returns an error. The machine's process never outlives this call.
pub(crate) fn watch(
    mut command: Command,
    how: &Watch,
    line: &mut dyn FnMut(&Line) -> bool,
) -> Result<Outcome, Error> {
    let start = Instant::now();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Give the machine its own process group, which can be killed as a whole and does not
        // receive the terminal's signals.
        .process_group(0);
    end_with_parent(&mut command);
    let child = command.spawn().map_err(|source| Error::NoStart {
        what: how.name,
        program: command.get_program().into(),
        source,
    })?;
    let mut machine = Machine(child);
    let lines = reader(&mut machine.0);
    let mut outcome = Outcome {
        exit: None,
        to_init: None,
        took: Duration::ZERO,
        tail: Vec::new(),
    };
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(bytes) => {
                let said = console::line(&bytes);
                match &said {
                    Line::Start { .. } => outcome.to_init = Some(start.elapsed()),
                    Line::Exit(status) => outcome.exit = Some(*status),
                    _ => {}
                }
                if outcome.tail.len() == TAIL {
                    outcome.tail.remove(0);
                }
                outcome.tail.push(printable(&bytes));
                if !line(&said) {
                    machine.kill();
                    return Err(failed(how, BootEnd::Useless, outcome));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if how.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if start.elapsed() > how.limit {
            machine.kill();
            return Err(failed(how, BootEnd::TimeLimit, outcome));
        }
    }
    drop(machine);
    outcome.took = start.elapsed();
    match outcome.exit {
        Some(_) => Ok(outcome),
        None => Err(failed(how, BootEnd::Early, outcome)),
    }
}

fn failed(how: &Watch, end: BootEnd, outcome: Outcome) -> Error {
    let mut tail = outcome.tail;
    if tail.is_empty() {
        tail.push("nothing".to_owned());
    }
    Error::Boot {
        name: how.name,
        end,
        limit: how.limit,
        tail,
    }
}

/// The machine's process. Dropping it also kills all processes that the machine has started.
struct Machine(Child);

impl Machine {
    fn kill(&mut self) {
        let group = libc::pid_t::try_from(self.0.id()).expect("a process id");
        // SAFETY: the system call does not access memory of this process. The group ID is the
        // child's PID, which cannot have been reused, because the child has not been waited for.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
        let _ = self.0.wait();
    }
}

/// Starts a thread that reads the child's output. Returns a channel that delivers the lines.
fn reader(child: &mut Child) -> mpsc::Receiver<Vec<u8>> {
    let output = child.stdout.take().expect("it is piped");
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        use std::io::Read;
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            let read = output.by_ref().take(LONGEST).read_until(b'\n', &mut line);
            if !read.is_ok_and(|n| n > 0) || send.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Removes control sequences from a line, so that it is safe to print on a terminal.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end()
        .chars()
        .map(|c| if c.is_control() && c != '\t' { '.' } else { c })
        .take(300)
        .collect()
}

/// A scratch directory of this process. The directory is removed on drop or, if this process is
/// killed, before the next boot.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
    _dir: TempDir,
    _lock: File,
}

impl Scratch {
    pub(crate) fn new(name: &str) -> Result<Scratch, Error> {
        let boots = kiln_tree::root()?.join("kiln/linux/boot");
        fs::create_dir_all(&boots).map_err(|e| Error::cache(&boots, e))?;
        let (dir, lock) =
            kiln_tree::make_locked_scratch(&boots).map_err(|e| Error::cache(&boots, e))?;
        Ok(Scratch {
            path: dir.path().join(name),
            _dir: dir,
            _lock: lock,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Creates a shell script that is run instead of a kernel.
    fn machine(script: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("linux");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (dir, path)
    }

    fn boot(linux: &Path, ms: u64) -> Result<Outcome, Error> {
        let stop = AtomicBool::new(false);
        let boot = Boot {
            linux,
            initramfs: vec![0; 4],
            memory: "64M",
            arguments: &[],
            limit: Duration::from_millis(ms),
            stop: &stop,
        };
        loop {
            match boot.run(&mut |_| ()) {
                // Retry: a process that another test has forked keeps the script open for writing
                // until it calls exec().
                Err(Error::NoStart { source, .. })
                    if source.raw_os_error() == Some(libc::ETXTBSY) =>
                {
                    thread::yield_now();
                }
                result => return result,
            }
        }
    }

    #[test]
    fn one_that_hangs_is_killed_with_all_it_started_and_its_last_lines_are_told() {
        let (dir, linux) = machine("echo $$ >\"$(dirname \"$0\")/pid\"; echo one; printf 'two\\033[2J\\n'; sleep 60 & wait");
        let last_lines = "one\n  two.[2J";
        let mut line = String::new();
        // Try longer limits, because on a busy machine the script may need more time to write both
        // lines.
        for ms in [400, 2_000, 10_000] {
            line = boot(&linux, ms).unwrap_err().to_string();
            if line.contains(last_lines) {
                break;
            }
        }
        assert!(
            line.contains("time limit") && line.contains(last_lines),
            "{line}"
        );
        let pid = fs::read_to_string(dir.path().join("pid")).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists());
    }

    #[test]
    fn one_that_ends_without_a_word_of_init_has_failed() {
        let (_dir, linux) = machine("echo 'Kernel panic - not syncing'; exit 134");
        let line = boot(&linux, 20_000).unwrap_err().to_string();
        assert!(
            line.contains("before Kiln's init") && line.contains("not syncing"),
            "{line}"
        );
        let absent = boot(Path::new("/nonexistent/linux"), 1000);
        assert!(matches!(absent, Err(Error::NoStart { .. })));
    }

    #[test]
    fn init_has_the_last_word() {
        let (_dir, linux) = machine("echo 'kiln:start 6.12.1 x86_64'; echo kiln:exit 1");
        let outcome = boot(&linux, 20_000).unwrap();
        assert_eq!(outcome.exit, Some(1));
        assert!(outcome.to_init.is_some());
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let (_dir, linux) =
            machine("head -c 300000 /dev/zero | tr '\\0' x; echo; echo kiln:exit 0");
        assert_eq!(boot(&linux, 20_000).unwrap().exit, Some(0));
    }
}
