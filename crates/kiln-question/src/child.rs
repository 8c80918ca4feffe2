//! A command of this program as a process of its own, which has so long and no longer.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Error;

/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(20);
/// After Ctrl-C it has so long to print what it has.
const GRACE: Duration = Duration::from_secs(5);

/// What a process left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its exit status, or how else it ended.
    pub status: Result<i32, String>,
    /// Its standard output.
    pub output: Vec<u8>,
    /// The last line of its standard error.
    pub said: Option<String>,
}

/// How it is watched over.
pub struct Watch<'a> {
    /// Set by Ctrl-C: the process gets one, too.
    pub stop: &'a AtomicBool,
    /// Ended after so long.
    pub patience: Duration,
    /// Called now and then.
    pub tick: &'a mut dyn FnMut(),
}

/// Runs `program`, waits for it, and leaves nothing of it behind.
///
/// # Errors
/// It cannot be started.
pub fn run<S: AsRef<OsStr>>(program: &str, args: &[S], watch: &mut Watch) -> Result<Left, Error> {
    let mut command = Command::new(program);
    command
        .arg0("kiln")
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // The terminal's Ctrl-C is for this process, which passes on one; and what it starts ends with it.
        .process_group(0);
    end_with_parent(&mut command);
    // Who starts something in the background of a script has it ignore Ctrl-C, and what it starts as well.
    // SAFETY: one system call, which may be made between fork and exec.
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
            // SAFETY: a signal to a child that was not waited for: the number is its own.
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

/// How it ended; what is left of its group is ended first, so that nobody holds the pipes.
fn end(child: &mut Child, status: Option<ExitStatus>) -> Result<i32, String> {
    // SAFETY: a signal; no memory of this process is touched. The group's number is not given anew while anybody is in it,
    // and if nobody is, the leader was waited for a moment ago, and numbers are given in turn.
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

/// A process that outlives whoever started it would measure, or serve, for nobody.
pub fn end_with_parent(command: &mut Command) {
    // SAFETY: one system call, which may be made between fork and exec.
    unsafe {
        command.pre_exec(
            || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            },
        );
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
        let start = Instant::now();
        let left = sh("sleep 600 & echo $!; sleep 600", 200, false);
        assert_eq!(left.status, Err("no end after 0 s".into()));
        assert!(start.elapsed() < Duration::from_secs(60));
        let pid: u32 = String::from_utf8(left.output)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // It is gone, or a zombie that init has not yet seen; not in no time.
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
