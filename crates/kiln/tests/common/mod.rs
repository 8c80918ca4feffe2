//! Helpers for tests that run the program.
pub mod oracle;
pub mod schema;
pub mod tree;

use std::fmt;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The exit status and the output of a run.
pub struct Run {
    pub status: i32,
    pub bytes: Vec<u8>,
    pub stderr: String,
}

/// Formats the output as text, because a record printed as a list of byte values is unreadable.
impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stdout = String::from_utf8_lossy(&self.bytes);
        write!(f, "status {}\n{}\n{stdout}", self.status, self.stderr)
    }
}

impl Run {
    pub fn stdout(&self) -> String {
        String::from_utf8(self.bytes.clone()).unwrap()
    }

    /// Parses the record on stdout and checks it against the schema.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let document = serde_json::from_slice(&self.bytes);
        let document = document.unwrap_or_else(|e| panic!("{e}: {self:?}"));
        schema::check(&document);
        document
    }

    /// Returns whether a row of the record has no result because the measurement was disturbed.
    fn lacks_results(&self) -> bool {
        let document: serde_json::Value = serde_json::from_slice(&self.bytes).unwrap_or_default();
        let list = |field: &str| document[field].as_array().into_iter().flatten();
        let is_disturbed = |note: &serde_json::Value| {
            let note = note.as_str().unwrap_or_default();
            note.ends_with("every sample was disturbed")
                || note.ends_with("the clock never stood still")
        };
        // With --baseline, the ratio is null if disturbances left too few rounds to compare.
        let lacks_ratio = |row: &serde_json::Value| {
            let ratio = row.get("ratio");
            ratio.is_some_and(serde_json::Value::is_null)
        };
        list("notes").any(is_disturbed)
            || document["command"] == "speed" && list("rows").any(lacks_ratio)
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command
        .args(args)
        .env_remove("KILN_TIERS")
        .env_remove("KILN_OPENSSL")
        // Disable the user's configuration file, which could change results.
        .env("KILN_DEFAULTS", "")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn finish(child: Child) -> Run {
    let output = child.wait_with_output().unwrap();
    Run {
        status: output.status.code().expect("not killed"),
        bytes: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

pub fn kiln(args: &[&str]) -> Run {
    kiln_with(args, &[])
}

pub fn kiln_with(args: &[&str], env: &[(&str, &str)]) -> Run {
    let mut command = command(args);
    command.envs(env.iter().copied());
    finish(command.spawn().unwrap())
}

/// Runs a measurement. Repeats it up to four times if it was disturbed so much that a row has no
/// result, as can happen on a busy machine.
pub fn until_measured(run: impl Fn() -> Run) -> Run {
    let mut last = run();
    for _ in 0..4 {
        if !last.lacks_results() {
            break;
        }
        println!("disturbed, so measured again: {last:?}");
        last = run();
    }
    last
}

/// Runs the program with `input` on its stdin.
pub fn kiln_fed(args: &[&str], input: &[u8]) -> Run {
    let mut child = command(args).stdin(Stdio::piped()).spawn().unwrap();
    // Ignore a write error, because a run that rejects its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    finish(child)
}

/// Runs the program with its stdout connected to a pipe whose read end is closed.
pub fn kiln_into_closed_pipe(args: &[&str]) -> Run {
    let mut child = command(args).spawn().unwrap();
    drop(child.stdout.take());
    finish(child)
}

/// Runs the program and sends it SIGINT as soon as it has installed a handler.
pub fn kiln_interrupted(args: &[&str]) -> Run {
    let child = command(args).spawn().unwrap();
    while !catches_sigint(child.id()) {
        sleep(Duration::from_millis(5));
    }
    interrupt(child.id());
    finish(child)
}

/// Sends SIGINT to a process. Uses the shell's built-in kill, because a minimal system has no kill
/// program.
pub fn interrupt(pid: u32) {
    let kill = Command::new("sh")
        .args(["-c", "kill -INT \"$0\"", &pid.to_string()])
        .status();
    assert!(kill.unwrap().success());
}

/// Returns whether the process handles SIGINT, according to bit 1 of SigCgt (proc_pid_status(5)).
pub fn catches_sigint(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status
        .lines()
        .find_map(|l| l.strip_prefix("SigCgt:"))
        .unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 2 != 0
}

/// Asserts that a run has this exit status, an empty stdout, and one line on stderr that contains
/// `want`.
#[track_caller]
pub fn fault(run: &Run, status: i32, want: &str) {
    assert_eq!(run.status, status, "{run:?}");
    assert_eq!(run.stdout(), "");
    // Ignore the message that another test is using the same tree.
    let waits = |line: &&str| line.ends_with(kiln_tree::WAITING);
    let told: Vec<&str> = run.stderr.lines().filter(|l| !waits(l)).collect();
    assert!(run.stderr.starts_with("kiln: "), "{}", run.stderr);
    assert_eq!(told.len(), 1, "{}", run.stderr);
    assert!(told[0].contains(want), "{:?} in {}", want, run.stderr);
}
