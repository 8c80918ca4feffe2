//! `kiln serve` with its sandbox closed, as a process of its own.

// Not every test needs all of it.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A device that runs, in a directory of its own.
pub struct Device {
    pub dir: tempfile::TempDir,
    pub child: Child,
}

impl Device {
    pub fn start(args: &[&str]) -> Device {
        Device::start_in(tempfile::tempdir().unwrap(), args)
    }

    pub fn start_in(dir: tempfile::TempDir, args: &[&str]) -> Device {
        let child = Command::new(env!("CARGO_BIN_EXE_kiln"))
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
        until("it listens", || {
            UnixStream::connect(device.path("metrics.sock")).is_ok()
        });
        device
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn metrics(&self) -> String {
        let mut stream = UnixStream::connect(self.path("metrics.sock")).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Sessions of all guests together.
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

    pub fn signal(&self, signal: i32) {
        // SAFETY: the child was not waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// How it ended, and its log.
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

/// Waits for it.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "{what}: not in 20 s");
        sleep(Duration::from_millis(2));
    }
}
