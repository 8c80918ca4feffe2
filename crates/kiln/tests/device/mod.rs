//! Runs `kiln serve` in a separate process, with its sandbox.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A running device. Its sockets are in a temporary directory.
pub struct Device {
    pub dir: tempfile::TempDir,
    pub child: Child,
}

impl Device {
    pub fn start(args: &[&str]) -> Device {
        Device::start_in(tempfile::tempdir().unwrap(), args)
    }

    pub fn start_in(dir: tempfile::TempDir, args: &[&str]) -> Device {
        Device::start_how(dir, args, || {})
    }

    /// Starts a device. The new process calls `first`, which must make only system calls, before it
    /// executes the program.
    pub fn start_with(args: &[&str], first: fn()) -> Device {
        Device::start_how(tempfile::tempdir().unwrap(), args, first)
    }

    fn start_how(dir: tempfile::TempDir, args: &[&str], first: fn()) -> Device {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        // SAFETY: `first` makes only system calls, which are allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                first();
                Ok(())
            });
        }
        let child = command
            .args([
                "serve",
                "--socket",
                "kiln.sock",
                "--metrics",
                "metrics.sock",
                "--queues",
                "2",
            ])
            .args(args)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let device = Device { dir, child };
        until("the device listens on its metrics socket", || {
            UnixStream::connect(device.path("metrics.sock")).is_ok()
        });
        device
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn metrics(&self) -> String {
        let mut text = String::new();
        // On a busy machine, the device may close the connection before it has sent all metrics.
        until("the metrics are complete", || {
            let mut stream = UnixStream::connect(self.path("metrics.sock")).unwrap();
            text.clear();
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").is_ok()
                && stream.read_to_string(&mut text).is_ok()
                && text.ends_with("# EOF\n")
        });
        text
    }

    /// Returns the total number of sessions over all guests.
    pub fn sessions(&self) -> u64 {
        let text = self.metrics();
        let of = |line: &str| {
            Some(
                line.strip_prefix("kiln_sessions{")?
                    .rsplit_once(' ')?
                    .1
                    .parse::<u64>()
                    .unwrap(),
            )
        };
        text.lines().filter_map(of).sum()
    }

    /// Returns the PIDs of the processes that serve guests, and of the spare process that waits for
    /// the next guest.
    pub fn children(&self) -> Vec<u32> {
        let mut all: Vec<u32> = all_processes()
            .filter(|pid| parent(*pid) == Some(self.child.id()) && !is_fork_server(*pid))
            .collect();
        all.sort_unstable();
        all
    }

    /// Returns the PID of the fork server.
    pub fn fork_server(&self) -> Option<u32> {
        let of_main = |pid: &u32| parent(*pid) == Some(self.child.id());
        all_processes()
            .filter(of_main)
            .find(|pid| is_fork_server(*pid))
    }

    /// Connects a guest by calling `connect`. Returns the guest, and the PID of the process that
    /// serves it.
    pub fn process_of<G>(&self, connect: impl FnOnce() -> G) -> (G, u32) {
        let guest = connect();
        // Thread names contain the guest's number, so the process with the highest number serves
        // the newest guest.
        let newest = |pid: &u32| threads(*pid).iter().filter_map(|name| number(name)).max();
        let mut children = self.children();
        children.sort_by_key(newest);
        (guest, *children.last().unwrap())
    }

    /// Returns the names of the threads that serve guests, in all processes of the device.
    pub fn threads(&self) -> Vec<String> {
        let all = self.children().into_iter().chain([self.child.id()]);
        all.flat_map(threads)
            .filter(|name| number(name).is_some())
            .collect()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: kill() does not access memory. The child has not been waited for, so its PID has
        // not been reused.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Waits until the device has exited. Returns its exit code and its log.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        let status = self.child.wait().unwrap();
        (status.code(), log)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Polls until `done` returns true, and fails after 20 s.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "{what}: not in 20 s");
        sleep(Duration::from_millis(2));
    }
}

/// Returns whether, according to the log, this guest did not finish in time when the device
/// stopped, so that the device killed the guest's process.
pub fn was_late(log: &str, guest: u64) -> bool {
    let of_guest = format!(" guest={guest}");
    log.lines()
        .any(|line| line.contains("did not finish in time") && line.ends_with(&of_guest))
}

fn all_processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn is_fork_server(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name == "kiln-fork\n")
}

/// Returns the parent of a running process, or `None` if the process is a zombie.
pub fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    let state = rest.next()?;
    rest.next()?.parse().ok().filter(|_| state != "Z")
}

fn threads(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let name = |task: std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).map(|name| name.trim().to_string())
    };
    tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| name(task).ok())
        .collect()
}

/// Returns the guest's number, which is part of the thread name.
fn number(name: &str) -> Option<u64> {
    let rest = name.strip_prefix("kiln-")?;
    rest.split('-').next()?.parse().ok()
}
