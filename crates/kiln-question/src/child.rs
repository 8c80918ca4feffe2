//! Runs a command of this program in a child process with a time limit.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kiln_tree::child::end_with_parent;

use crate::Error;

/// The environment variable that names the configuration file. If it is empty, no file is read.
pub const DEFAULTS: &str = "KILN_DEFAULTS";
/// How often the process is polled.
const LOOK: Duration = Duration::from_millis(20);
/// How long the process may take to print its results after Ctrl-C.
const GRACE: Duration = Duration::from_secs(5);

/// The exit status and the output of a process that has exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The exit status, or the reason why the process has none, such as a signal or a timeout.
    pub status: Result<i32, String>,
    /// Everything the process wrote to stdout.
    pub output: Vec<u8>,
    /// The last non-blank line that the process wrote to stderr; `None` if it wrote nothing.
    pub said: Option<String>,
}

/// How a child process is supervised.
pub struct Watch<'a> {
    /// A flag that Ctrl-C sets. When it is set, SIGINT is sent to the process.
    pub stop: &'a AtomicBool,
    /// Time limit, after which the process is killed.
    pub patience: Duration,
    /// Called at every poll.
    pub tick: &'a mut dyn FnMut(),
}

/// Runs `program` and waits until it exits. Any background processes that it leaves running are
/// killed.
///
/// # Errors
/// Fails if the program cannot be started.
pub fn run<S: AsRef<OsStr>>(program: &str, args: &[S], watch: &mut Watch) -> Result<Left, Error> {
    let mut command = Command::new(program);
    command
        .arg0("kiln")
        .args(args)
        // The child must not read the configuration file, which the parent has already read.
        .env(DEFAULTS, "")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // The child runs in a process group of its own, so it does not receive Ctrl-C from the
        // terminal; this process forwards it. Killing the group also kills the processes that the
        // child started.
        .process_group(0);
    end_with_parent(&mut command);
    // A shell script starts background processes with SIGINT ignored, and their children inherit
    // this setting, so restore the default action.
    // SAFETY: the closure makes a single system call, which is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::signal(libc::SIGINT, libc::SIG_DFL) {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let mut child = command
        .spawn()
        .map_err(|e| Error::lacks(format!("cannot start kiln again: {e}: mount /proc")))?;
    let output = reader(child.stdout.take());
    let said = reader(child.stderr.take());
    let start = Instant::now();
    let mut stopped: Option<Instant> = None;
    let mut hung = false;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) => {}
            Err(_) => break None,
        }
        if watch.stop.load(Ordering::Relaxed) && stopped.is_none() {
            stopped = Some(Instant::now());
            // SAFETY: kill() does not access memory. The child has not been waited for, so its
            // process ID has not been reused.
            unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        }
        hung = start.elapsed() > watch.patience;
        if hung || stopped.is_some_and(|since| since.elapsed() > GRACE) {
            break None;
        }
        (watch.tick)();
        thread::sleep(LOOK);
    };
    let end = end(&mut child, status);
    let said = String::from_utf8_lossy(&said.join().unwrap_or_default()).into_owned();
    Ok(Left {
        status: match hung {
            true => Err(format!(
                "no end after {} s",
                watch.patience.as_secs_f64().round()
            )),
            false => end,
        },
        output: output.join().unwrap_or_default(),
        said: said
            .lines()
            .rfind(|l| !l.trim().is_empty())
            .map(str::to_string),
    })
}

/// Kills the rest of the child's process group, so that no process keeps the pipes open. Returns
/// how the child ended.
fn end(child: &mut Child, status: Option<ExitStatus>) -> Result<i32, String> {
    // SAFETY: kill() does not access memory. The group's ID cannot be reused while the group
    // contains a process. If the group is empty, its leader was reaped only a moment ago, and the
    // kernel assigns IDs in ascending order, so the ID is still unused.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    let status = match status {
        Some(status) => status,
        None => child.wait().map_err(|e| format!("lost: {e}"))?,
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => Ok(code),
        (None, Some(signal)) => Err(format!("ended by signal {signal}")),
        (None, None) => Err("ended somehow".to_string()),
    }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, patience_ms: u64, stop: bool) -> Left {
        let stop = AtomicBool::new(stop);
        let mut watch = Watch {
            stop: &stop,
            patience: Duration::from_millis(patience_ms),
            tick: &mut || (),
        };
        run("/bin/sh", &["-c", script], &mut watch).unwrap()
    }

    #[test]
    fn an_end_is_told_as_it_was() {
        let left = sh(
            "echo out; echo first >&2; echo last >&2; exit 3",
            20_000,
            false,
        );
        assert_eq!(left.status, Ok(3));
        assert_eq!(left.output, b"out\n");
        assert_eq!(left.said.as_deref(), Some("last"));
        assert_eq!(
            sh("kill -SEGV $$", 20_000, false).status,
            Err("ended by signal 11".into())
        );
    }

    #[test]
    fn what_hangs_is_ended_with_all_it_started() {
        // If the shell was killed before it printed anything, try again with a longer time limit.
        let (start, left, patience) = [1000, 4000, 16_000]
            .into_iter()
            .map(|patience| {
                let start = Instant::now();
                let left = sh("sleep 600 & echo $!; sleep 600", patience, false);
                (start, left, patience)
            })
            .find(|(_, left, _)| !left.output.is_empty())
            .expect("the shell prints a line");
        let told = format!("no end after {} s", patience / 1000);
        assert_eq!(left.status, Err(told));
        assert!(start.elapsed() < Duration::from_secs(60));
        let pid: u32 = String::from_utf8(left.output)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // Wait until the process has either disappeared or become a zombie, which init will reap.
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        while !(stat().is_empty() || stat().contains(" Z ")) {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", stat());
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn ctrl_c_is_passed_on() {
        let left = sh(
            "trap 'echo caught; exit 130' INT; while :; do sleep 0.02; done",
            20_000,
            true,
        );
        assert!(left.status == Ok(130) || left.status == Err("ended by signal 2".into()));
    }

    #[test]
    fn a_program_that_is_not_there_is_a_line() {
        let stop = AtomicBool::new(false);
        let mut watch = Watch {
            stop: &stop,
            patience: Duration::from_secs(1),
            tick: &mut || (),
        };
        let e = run::<&str>("/no/such/kiln", &[], &mut watch).unwrap_err();
        assert_eq!(e.exit_code(), 3);
    }
}
