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

use clap::builder::{PathBufValueParser, TypedValueParser};
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
    /// Starts this program's `serve` command in a separate process. The process runs on `cores`, or
    /// on the calling thread's cores if `cores` is `None`.
    ///
    /// # Errors
    /// Fails if the process cannot be started or ends early, if its socket does not appear in time,
    /// or if `stop` is set before the socket appears.
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
            // Ignore any file of defaults, because it may select other cores.
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

/// Starts a process on `cores`, or on this thread's cores if `cores` is `None`. A process inherits
/// the affinity of the thread that starts it, so this thread is pinned to `cores` while it spawns
/// the process. A temporary thread would not work, because the process is killed when the thread
/// that started it exits ([`end_with_parent`]).
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
    // The device may use cores outside this thread's affinity, so comparing the list with `before`
    // would not validate it. The kernel silently ignores nonexistent cores if the list also
    // contains valid ones, so check which cores this thread was actually pinned to.
    let done = pin_within(cores, cores).and_then(|()| CoreList::allowed());
    let child = match done {
        Ok(allowed) if allowed == *cores => start(command),
        _ => Err(Error::input(format!(
            "--device-cpu {cores}: {}",
            why_unusable(cores, CoreList::online())
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

/// Explains why a process cannot be pinned to these cores.
fn why_unusable(cores: &CoreList, online: Option<CoreList>) -> String {
    let absent = |online: &CoreList| cores.without(online);
    match online.map(|online| (absent(&online), online)) {
        Some((absent, online)) if !absent.cores().is_empty() => {
            format!("core {absent} is not online: name some of {online}")
        }
        _ => "this process may not use all of these cores: a cgroup or a container excludes some"
            .to_string(),
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the parser for flags that name a Unix socket. It rejects the forms that QEMU (`unix:PATH`)
/// and web clients (URLs) use.
pub(crate) fn socket_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path: PathBuf| {
        let text = path.to_string_lossy().into_owned();
        match text.split_once(':') {
            Some(("unix", only)) => {
                let only = only.strip_prefix("//").unwrap_or(only);
                Err(format!("write only the path: {only}"))
            }
            Some((_, rest)) if rest.starts_with("//") => {
                Err("this is a URL: name the path of a Unix socket".to_string())
            }
            _ => Ok(path),
        }
    })
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

/// Returns the CPU time that a device has used so far, given the process ID of its server. Each guest
/// is served by a child of that process. The time of children that have exited is not included.
pub(crate) fn cpu_time(server: u32) -> Option<Duration> {
    let mut time = kiln_device::cpu_time(server)?;
    for child in children(server) {
        // A child may have exited since the list was read, so count 0 if its time cannot be read.
        time += kiln_device::cpu_time(child).unwrap_or_default();
    }
    Some(time)
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
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn a_core_that_is_not_online_is_named() {
        let list = |text: &str| -> CoreList { text.parse().unwrap() };
        let why = |online| why_unusable(&list("1-2"), online);
        assert_eq!(
            why(Some(list("0-1"))),
            "core 2 is not online: name some of 0-1"
        );
        let excluded = "a cgroup or a container excludes some";
        assert!(why(Some(list("0-3"))).contains(excluded));
        assert!(why(None).contains(excluded));
    }

    #[test]
    fn a_socket_is_a_path_and_not_a_url() {
        let command = clap::Command::new("kiln");
        let parse = |text: &str| {
            let parsed = socket_path().parse_ref(&command, None, text.as_ref());
            parsed.map_err(|e| std::error::Error::source(&e).unwrap().to_string())
        };
        for path in ["kiln.sock", "/run/vm:1/kiln.sock", "./unix:kiln.sock"] {
            assert_eq!(parse(path), Ok(PathBuf::from(path)));
        }
        let only = |path: &str| Err(format!("write only the path: {path}"));
        assert_eq!(parse("unix:kiln.sock"), only("kiln.sock"));
        assert_eq!(parse("unix:///run/kiln.sock"), only("/run/kiln.sock"));
        let e = parse("http://localhost:9090/metrics").unwrap_err();
        assert!(e.starts_with("this is a URL"), "{e}");
    }

    #[test]
    fn the_time_of_children_is_included() {
        // The inner shell computes, reports, and waits until its input is closed.
        let inner = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; read line";
        let mut server = Command::new("sh")
            .args(["-c", "sh -c \"$0\"; true", inner])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = server.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
        let children = children(server.id());
        assert_eq!(children.len(), 1);
        let of_child = kiln_device::cpu_time(children[0]).unwrap();
        let of_server = kiln_device::cpu_time(server.id()).unwrap();
        assert!(of_child > Duration::ZERO);
        // Read the total last, because both processes may still accumulate CPU time.
        assert!(cpu_time(server.id()).unwrap() >= of_child + of_server);
        drop(server.stdin.take());
        server.wait().unwrap();
        // Process IDs are smaller than this (proc_sys_kernel(5), pid_max).
        assert_eq!(cpu_time(1 << 22), None);
    }
}
