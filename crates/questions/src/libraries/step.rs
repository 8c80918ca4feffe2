//! Runs one program of a build. The program's output is written to a log, and the length of the log
//! determines the progress shown.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use kiln_kbuild::reason;

use super::job::{Fault, Job};

/// How a step contributes to the job's progress. During the step, progress rises from `from` to
/// `to`, in proportion to the lines printed so far. The step is expected to print `lines` lines.
pub(super) struct Span {
    pub what: &'static str,
    pub from: f64,
    pub to: f64,
    pub lines: usize,
}

/// Environment variables to remove, because they would change the behaviour of cargo, make or
/// compilers.
const IGNORED_ENV: [&str; 8] = [
    "MAKEFLAGS",
    "MFLAGS",
    "MAKELEVEL",
    "CFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "CARGO_TARGET_DIR",
    "CROSS_COMPILE",
];

/// Runs a program in `dir` and returns its standard output and standard error as one text. Ctrl-C
/// stops the program and every process that it started.
///
/// # Errors
/// Fails if the program fails. The error consists of the output line that states the reason,
/// followed by `help`.
pub(super) fn run(
    job: &Job,
    dir: &Path,
    program: &str,
    arguments: &[&str],
    span: &Span,
    help: &str,
) -> Result<String, Fault> {
    if job.stopped() {
        return Err(Fault::Stopped);
    }
    (job.report)(span.from, span.what);
    let log = job.dir.join("log");
    let open = || -> std::io::Result<(File, File)> {
        let out = File::create(&log)?;
        let err = out.try_clone()?;
        Ok((out, err))
    };
    let (out, err) = open().map_err(|e| job.file_fault(&log, e))?;
    let mut command = Command::new(program);
    for name in IGNORED_ENV {
        command.env_remove(name);
    }
    let mut child = command
        .args(arguments)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .map_err(|e| job.fault(&format!("{program} cannot be started: {e}"), help))?;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if job.stopped() => {
                end_group(child.id());
                let _ = child.wait();
                return Err(Fault::Stopped);
            }
            Ok(None) => {
                let lines = fs::read(&log).map_or(0, |t| t.iter().filter(|b| **b == b'\n').count());
                let part = (lines as f64 / span.lines as f64).min(1.0);
                (job.report)(span.from + (span.to - span.from) * part, span.what);
                thread::sleep(Duration::from_millis(200));
            }
            Err(e) => {
                end_group(child.id());
                let _ = child.wait();
                return Err(job.fault(&format!("{program}: {e}"), help));
            }
        }
    };
    let said = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    match status.success() {
        true => Ok(said),
        false => Err(job.fault(&format!("{program} failed: {}", find_reason(&said)), help)),
    }
}

/// Returns the output line that states why a program failed. apt's errors begin with `E:`, and the
/// first of them states the cause.
fn find_reason(said: &str) -> String {
    match said.lines().find_map(|l| l.strip_prefix("E: ")) {
        Some(line) => line.trim().to_string(),
        None => reason(said),
    }
}

/// Kills all processes in a program's process group.
fn end_group(id: u32) {
    let Ok(id) = i32::try_from(id) else { return };
    // SAFETY: kill() does not access memory. The group was created for this child, which has not
    // been waited for, so the group's ID cannot have been reused.
    unsafe { libc::kill(-id, libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    const SPAN: Span = Span {
        what: "trying",
        from: 0.0,
        to: 1.0,
        lines: 1,
    };

    fn with_job<T>(stop: &AtomicBool, f: impl FnOnce(&Job) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        f(&Job {
            name: "openssl",
            dir: dir.path().to_owned(),
            stop,
            report: &|_, _| {},
        })
    }

    #[test]
    fn a_failure_is_one_line_with_the_cause_and_a_remedy() {
        let stop = AtomicBool::new(false);
        with_job(&stop, |job| {
            let sh = |script: &str| run(job, &job.dir, "sh", &["-c", script], &SPAN, "do this");
            assert_eq!(sh("echo yes").unwrap_or_default(), "yes\n");
            let script = "echo a warning; echo 'E: no such package' >&2; echo more; exit 100";
            let Err(Fault::Error(e)) = sh(script) else {
                panic!("not refused")
            };
            assert_eq!(
                e.to_string(),
                "cannot install openssl: sh failed: no such package: do this"
            );
        });
    }

    #[test]
    fn a_program_ends_with_all_that_it_started() {
        let stop = AtomicBool::new(false);
        with_job(&stop, |job| {
            let file = job.dir.join("child");
            let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
            let ended = thread::scope(|scope| {
                scope.spawn(|| {
                    while !fs::read_to_string(&file).is_ok_and(|t| t.ends_with('\n')) {
                        thread::sleep(Duration::from_millis(5));
                    }
                    stop.store(true, Ordering::Relaxed);
                });
                run(job, &job.dir, "sh", &["-c", &script], &SPAN, "")
            });
            assert!(matches!(ended, Err(Fault::Stopped)));
            let child: i32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
            // The process must have disappeared, or be a zombie whose parent has not waited for it.
            // The kernel may need some time to deliver the signal.
            let ended = || {
                let state = fs::read_to_string(format!("/proc/{child}/stat"));
                state.map_or(true, |s| s.contains(") Z"))
            };
            assert!(
                (0..6000).any(|_| ended() || {
                    thread::sleep(Duration::from_millis(10));
                    false
                }),
                "still there"
            );
        });
    }
}
