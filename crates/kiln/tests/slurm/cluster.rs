//! A Slurm cluster on this machine, which the script `packaging/slurm/kiln-cluster` sets up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const CLUSTER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/slurm/kiln-cluster"
);
/// Exit status of the script `kiln-cluster` if Slurm is not installed.
const LACKS: i32 = 3;
/// Time limit for each wait. The limit is long, because a cluster on a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Cluster {
    pub home: tempfile::TempDir,
    pub conf: PathBuf,
}

/// Polls until the condition is true. Panics after `PATIENCE`.
#[track_caller]
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < PATIENCE,
            "{what}: not within {PATIENCE:?}"
        );
        sleep(Duration::from_millis(50));
    }
}

impl Cluster {
    /// Starts four nodes. Returns `None` if Slurm is not installed or the test is not run by root.
    pub fn start() -> Option<Cluster> {
        // Do not use a directory inside /tmp: munged rejects directories that are inside
        // world-writable ones.
        let home = tempfile::Builder::new()
            .prefix("kiln-slurm")
            .tempdir_in("/run");
        let Ok(home) = home else {
            eprintln!("SKIPPED: cannot write to /run: daemons of Slurm need root");
            return None;
        };
        let cluster = Cluster {
            conf: home.path().join("slurm.conf"),
            home,
        };
        let output = cluster.script(&["start"], &["4"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(LACKS) {
            eprintln!("SKIPPED: {said}");
            return None;
        }
        assert!(output.status.success(), "{said}");
        Some(cluster)
    }

    fn script(&self, before: &[&str], after: &[&str]) -> Command {
        let mut command = Command::new(CLUSTER);
        command.args(before).arg(self.home.path()).args(after);
        command
    }

    /// Runs a program and returns its output.
    ///
    /// # Panics
    /// Panics if the program fails.
    pub fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new(args[0]);
        command.args(&args[1..]).env("SLURM_CONF", &self.conf);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Kills a node's daemon, and marks the node as down. Tasks on the node continue to run.
    pub fn lose_node(&self, node: &str) {
        let pid = fs::read_to_string(self.home.path().join(format!("{node}.pid"))).unwrap();
        // SAFETY: kill() does not access memory. The PID in the file belongs to a daemon that this
        // test has started.
        let killed = unsafe { libc::kill(pid.trim().parse().unwrap(), libc::SIGKILL) };
        assert_eq!(killed, 0);
        self.run(&[
            "scontrol",
            "update",
            &format!("nodename={node}"),
            "state=down",
            "reason=test",
        ]);
    }

    pub fn start_node(&self, node: &str) {
        assert!(self.script(&["node"], &[node]).status().unwrap().success());
    }

    /// Mounts a file system of 512 KiB at `dir`.
    pub fn small_disk(&self, dir: &Path) -> Disk {
        let dir = dir.to_str().unwrap();
        self.run(&[
            "mount",
            "-t",
            "tmpfs",
            "-o",
            "size=512k,mode=755",
            "kiln-test",
            dir,
        ]);
        Disk(dir.to_string())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.script(&["stop"], &[]).status();
    }
}

/// A mounted file system, which is unmounted on drop.
pub struct Disk(String);

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}
