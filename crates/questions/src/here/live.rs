//! Measures a running kernel's FPU sections with bpftrace.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kiln_question::Error;

use super::machine::Machine;
use super::script::write_script;

const PROGRAM: &str = "bpftrace";
/// Time that bpftrace may take in addition to the tracing itself. Before it starts to trace,
/// bpftrace compiles the script, which can take a long time on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns whether this process is allowed to trace, which requires root.
pub(super) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Runs the script for `seconds` seconds, and returns the output of bpftrace.
///
/// # Errors
/// Fails if this user is not allowed to trace, if bpftrace, a kernel symbol or a kernel option is
/// missing, or if bpftrace fails.
pub(super) fn trace(machine: &Machine, seconds: u64, stop: &AtomicBool) -> Result<String, Error> {
    let script = write_script(machine, Some(seconds)).map_err(Error::lacks)?;
    if let Ok(config) = &machine.config {
        let missing = ["KPROBES", "BPF_SYSCALL"]
            .into_iter()
            .find(|o| !config.is_set(o));
        if let Some(option) = missing {
            return Err(Error::lacks(format!(
                "--live: /{}: CONFIG_{}, so bpftrace cannot trace this kernel: boot one that has this option{}",
                config.path.trim_start_matches('/'),
                config.words(option),
                match kiln_kbuild::which(PROGRAM) {
                    Some(_) => "",
                    None => "; bpftrace is missing as well: apt-get install bpftrace",
                }
            )));
        }
    }
    if !is_root() {
        return Err(Error::lacks(
            "--live: only root may trace the kernel: sudo kiln here --live",
        ));
    }
    let program = kiln_kbuild::which(PROGRAM)
        .ok_or_else(|| Error::lacks("--live: no bpftrace in PATH: apt-get install bpftrace"))?;
    let fault = |what: String| {
        Error::lacks(format!(
            "--live: {what}: 'kiln here --bpftrace' prints the script, to try it by hand"
        ))
    };
    let mut child = Command::new(program)
        .args(["-q", "-e", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| fault(format!("bpftrace cannot be started: {e}")))?;
    // Read the pipes while bpftrace runs, because its output may be larger than a pipe buffer.
    let drain = |pipe: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(pipe) = pipe {
                let _ = pipe.take(4 << 20).read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = drain(child.stdout.take().map(|p| Box::new(p) as _));
    let err = drain(child.stderr.take().map(|p| Box::new(p) as _));
    let limit = Instant::now() + Duration::from_secs(seconds) + PATIENCE;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < limit && !stop.load(Ordering::Relaxed) => {
                thread::sleep(Duration::from_millis(20));
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    let (out, err) = (
        out.join().unwrap_or_default(),
        err.join().unwrap_or_default(),
    );
    match status {
        Some(status) if status.success() => Ok(out),
        Some(_) => {
            let said = err
                .lines()
                .find(|l| !l.trim().is_empty())
                .unwrap_or("no message");
            Err(fault(format!("bpftrace failed: {said}")))
        }
        None => Err(fault("bpftrace was stopped before its end".into())),
    }
}
