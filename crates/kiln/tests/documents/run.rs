//! Runs a command as a reader would: either to completion, or for about a second until it is
//! stopped with Ctrl-C.

use std::env;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::command::unquoted;
use super::scratch::Scratch;

/// How long to wait before sending Ctrl-C to a command that has become interruptible.
const LOOK: Duration = Duration::from_millis(700);
/// Time limit for a command to become interruptible or finish, and for it to exit after Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(180);
const INTERRUPTED: i32 = 130;
const SIGINT: i32 = 2;

/// Returns whether all commands must run to completion (`KILN_DOCS=full`).
pub fn full() -> bool {
    env::var("KILN_DOCS").is_ok_and(|v| v == "full")
}

/// Returns a text that selects pages: only pages whose names contain it are run. `None` means that
/// all pages are run.
pub fn only() -> Option<String> {
    env::var("KILN_DOCS")
        .ok()
        .filter(|v| !v.is_empty() && v != "full")
}

/// A server that runs in the background while other commands run. [`end`] stops the server.
pub struct Background {
    child: Child,
    text: String,
}

/// Runs a command. Returns a one-line error if the command does not exit as expected.
pub fn run(text: &str, allowed: &[i32], scratch: &Scratch) -> Result<(), String> {
    let (mut child, stderr) = start(text, scratch)?;
    let group = child.id();
    let begun = Instant::now();
    let mut listens: Option<Instant> = None;
    let mut told: Option<Instant> = None;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        if listens.is_none() && catches_sigint(group) {
            listens = Some(Instant::now());
        }
        if told.is_none() && !full() && listens.is_some_and(|at| at.elapsed() >= LOOK) {
            signal("INT", group);
            told = Some(Instant::now());
        }
        let since = told.or(listens.is_none().then_some(begun));
        if since.is_some_and(|at| at.elapsed() >= PATIENCE) {
            signal("KILL", group);
            let _ = child.wait();
            return Err(match told {
                Some(_) => "a Ctrl-C does not end it".to_string(),
                None => format!("not done within {} s", PATIENCE.as_secs()),
            });
        }
        sleep(Duration::from_millis(10));
    };
    // The last program in a pipeline may not handle SIGINT. In that case, the shell is killed by
    // the signal too, which is acceptable.
    if told.is_some() && status.signal() == Some(SIGINT) && unquoted(text).contains('|') {
        return Ok(());
    }
    judge(status, told.is_some(), allowed, &stderr)
}

/// Starts a server, and waits until its socket exists.
pub fn begin(text: &str, scratch: &Scratch) -> Result<Background, String> {
    let text = text.trim_end_matches('&').trim();
    let (mut child, stderr) = start(text, scratch)?;
    let begun = Instant::now();
    while missing_socket(text, scratch).is_some() {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            judge(status, false, &[], &stderr)?;
            return Err("ends before it serves".to_string());
        }
        if begun.elapsed() >= PATIENCE {
            signal("KILL", child.id());
            return Err("has no socket".to_string());
        }
        sleep(Duration::from_millis(10));
    }
    Ok(Background {
        child,
        text: text.to_string(),
    })
}

/// Sends a Ctrl-C to the server, and checks that it exits with status 0.
pub fn end(mut server: Background) -> Result<(), String> {
    signal("INT", server.child.id());
    let begun = Instant::now();
    loop {
        match server.child.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{}: ends with {status}", server.text)),
            None if begun.elapsed() >= PATIENCE => {
                signal("KILL", server.child.id());
                return Err(format!("{}: a Ctrl-C does not end it", server.text));
            }
            None => sleep(Duration::from_millis(10)),
        }
    }
}

/// Starts a command in a separate process group, like a foreground job in a terminal. Returns the
/// process, and the path of the file that receives its stderr.
fn start(text: &str, scratch: &Scratch) -> Result<(Child, PathBuf), String> {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let at = |kind: &str| scratch.path().join(format!(".{kind}-{run}"));
    let file = |kind: &str| File::create(at(kind)).map_err(|e| e.to_string());
    let child = scratch
        .command("bash")
        .args(["-o", "pipefail", "-c", &local(text, scratch)])
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(file("stdout")?)
        .stderr(file("stderr")?)
        .spawn()
        .map_err(|e| format!("bash: {e}"))?;
    Ok((child, at("stderr")))
}

/// Returns the socket named by the command's `--socket` flag, or `None` if the command has no such
/// flag or the socket already exists.
pub fn missing_socket(text: &str, scratch: &Scratch) -> Option<String> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == "--socket")?;
    let socket = words.next()?;
    let there = scratch.path().join(local(socket, scratch)).exists();
    (!there).then(|| socket.to_string())
}

/// Replaces `/run` and `/usr/local` in a command with paths in the scratch directory.
fn local(text: &str, scratch: &Scratch) -> String {
    let dir = scratch.path().display();
    ["/run/", "/usr/local/"]
        .iter()
        .fold(text.to_string(), |text, top| {
            text.replace(top, &format!("{dir}{top}"))
        })
}

fn judge(
    status: ExitStatus,
    interrupted: bool,
    allowed: &[i32],
    stderr: &Path,
) -> Result<(), String> {
    let code = status.code();
    let fine = code == Some(0)
        || (interrupted && code == Some(INTERRUPTED))
        || code.is_some_and(|c| allowed.contains(&c));
    if fine {
        return Ok(());
    }
    let said = fs::read_to_string(stderr).unwrap_or_default();
    let said = said.lines().last().unwrap_or("nothing on stderr");
    Err(format!("{status}: {said}"))
}

fn signal(name: &str, group: u32) {
    // Use the shell's built-in kill, because a minimal system has no kill program.
    let status = Command::new("sh")
        .args(["-c", "kill -s \"$0\" -- \"-$1\"", name, &group.to_string()])
        .stderr(Stdio::null())
        .status();
    assert!(status.is_ok(), "{status:?}");
}

/// Returns whether a kiln process in this process group handles SIGINT, according to bit 1 of
/// SigCgt (proc_pid_status(5)).
fn catches_sigint(group: u32) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    processes.flatten().any(|process| {
        let read = |name: &str| fs::read_to_string(process.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        // The fields of `stat` are: PID, name in parentheses, state, parent, process group.
        let Some((name, rest)) = stat.rsplit_once(") ") else {
            return false;
        };
        let of_group = rest.split(' ').nth(2) == Some(&group.to_string());
        of_group && name.ends_with("(kiln") && {
            let status = read("status");
            let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
            mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok())
                .is_some_and(|m| m & 2 != 0)
        }
    })
}
