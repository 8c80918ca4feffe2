//! Runs a virtio-crypto device in a separate process, and reads the CPU time of processes.

use std::env;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kiln_measure::{pin_within, CoreList, PinError};
use kiln_question::Error;
use kiln_tree::child::end_with_parent;
use tempfile::TempDir;

/// Maximum time to wait for the device's socket to appear.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that runs `kiln serve`. It is killed when this value is dropped.
pub(crate) struct Device {
    child: Child,
    dir: TempDir,
}

impl Device {
    /// Starts this program's `serve` command in a separate process. The process runs on `cores`;
    /// with `None`, on the cores of the calling thread.
    ///
    /// # Errors
    /// The process cannot be started or ends early, its socket does not appear in time, or `stop`
    /// is set first.
    pub(crate) fn start(
        ctrl: &str,
        queues: usize,
        poll_us: Option<u64>,
        cores: Option<&CoreList>,
        stop: &AtomicBool,
    ) -> Result<Device, Error> {
        let program = env::current_exe()
            .map_err(|e| Error::lacks(format!("cannot find this program: {e}: mount /proc")))?;
        // The directory is private and its name cannot be guessed, so no other process can listen
        // on the socket.
        let dir = kiln_tree::make_scratch(&env::temp_dir(), "kiln-device-")
            .map_err(|e| Error::lacks(format!("{e}: set TMPDIR to a directory of yours")))?;
        let socket = dir.path().join("device.sock");
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg("--socket")
            .arg(&socket)
            .args(["--queues", &queues.to_string(), "--ctrl", ctrl])
            .args(["--log-level", "error"]);
        if let Some(us) = poll_us {
            command.args(["--poll-us", &us.to_string()]);
        }
        command
            // Do not read a file of defaults, which may name other cores.
            .env("KILN_DEFAULTS", "")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        end_with_parent(&mut command);
        let child = spawn_on(&mut command, cores)?;
        let mut device = Device { child, dir };
        let until = Instant::now() + PATIENCE;
        while !socket.exists() {
            if let Ok(Some(status)) = device.child.try_wait() {
                let mut said = String::new();
                if let Some(mut stderr) = device.child.stderr.take() {
                    let _ = stderr.read_to_string(&mut said);
                }
                let said = said.lines().next().unwrap_or("it said nothing").to_string();
                return Err(Error::lacks(format!("the device ended ({status}): {said}")));
            }
            if stop.load(Ordering::Relaxed) || Instant::now() > until {
                return Err(Error::lacks(
                    "the device opens no socket: try kiln serve by hand, and --socket",
                ));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(device)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("device.sock")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// Starts a process on these cores. A process inherits the cores of the thread that starts it, so
/// this thread pins itself to them for the spawn. A temporary thread would not do: the process is
/// killed when the thread that started it exits ([`end_with_parent`]).
fn spawn_on(command: &mut Command, cores: Option<&CoreList>) -> Result<Child, Error> {
    let start = |command: &mut Command| {
        command
            .spawn()
            .map_err(|e| Error::lacks(format!("cannot start the device: {e}")))
    };
    let Some(cores) = cores else {
        return start(command);
    };
    let fault = |e: PinError| Error::input(format!("--device-cpu: {e}"));
    let before = CoreList::allowed().map_err(fault)?;
    // The device may use cores outside this thread's affinity, so `before` cannot validate the
    // list. The kernel ignores cores that do not exist if the list also has others, so check which
    // cores this thread was actually pinned to.
    let done = pin_within(cores, cores).and_then(|()| CoreList::allowed());
    let child = match done {
        Ok(allowed) if allowed == *cores => start(command),
        _ => Err(Error::input(format!(
            "--device-cpu {cores}: this process may not use all of these cores, or not all exist: 'nproc' counts those it may use"
        ))),
    };
    match (pin_within(&before, &before), child) {
        (Ok(()), child) => child,
        (Err(e), Ok(mut child)) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(fault(e))
        }
        (Err(_), Err(e)) => Err(e),
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Explains why the driver cannot use the device at `socket`, and what to do. `is_given` says
/// whether the user named the socket.
pub(crate) fn explain(socket: &Path, is_given: bool, error: &kiln_driver::Error) -> Error {
    let place = socket.display();
    let file = fs::metadata(socket);
    let advice = match (error, &file) {
        (_, Ok(file)) if !file.file_type().is_socket() => {
            return Error::input(format!(
                "{place}: not a socket: name the socket of a device (kiln serve --socket PATH starts one)"
            ));
        }
        (kiln_driver::Error::Connect(e), _) if e.contains("Permission denied") => {
            "you may not connect to this socket: start kiln serve with --socket-mode or --socket-group"
        }
        (kiln_driver::Error::Connect(_), _) => "start a device there (kiln serve --socket PATH)",
        _ => "check the device with kiln virtio-check --socket PATH",
    };
    let other = if is_given {
        ", or leave --socket out"
    } else {
        ""
    };
    let line = format!("{place}: {error}: {advice}{other}");
    Error::lacks(line)
}

/// Returns the CPU time that the threads of a process and of its children have used so far
/// (proc(5), schedstat). Children are included because a device serves each guest in a separate
/// process. The time of threads that have exited is not included.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    let mut ns = 0;
    for child in children(pid) {
        // A child may have exited since the list was read.
        ns += threads_time(child).unwrap_or(0);
    }
    Some(Duration::from_nanos(ns + threads_time(pid)?))
}

fn threads_time(pid: u32) -> Option<u64> {
    let tasks = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task")).ok()?;
    let mut ns = 0;
    for task in tasks.flatten() {
        let Ok(stat) = fs::read_to_string(task.path().join("schedstat")) else {
            continue;
        };
        ns += stat.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(ns)
}

/// Returns the process IDs of a process's children.
fn children(pid: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|child| {
            let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            // The process name may contain any character, so search for the last closing
            // parenthesis. The state and the parent's process ID follow it.
            let parent = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
            parent == Some(pid)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_is_spent_is_seen() {
        let me = std::process::id();
        let before = cpu_time(me).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        assert!(cpu_time(me).unwrap() > before);
        assert_eq!(cpu_time(u32::MAX), None);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(me).contains(&child.id()));
        assert!(!children(child.id()).contains(&me));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
