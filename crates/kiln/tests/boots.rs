//! Tests that Kiln leaves neither a running machine nor files behind when a signal kills it. After
//! SIGKILL, the files remain until Kiln next boots a machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::device::{parent, until};

/// A script that writes its process ID to a file in its own directory, and then waits to be killed.
const MACHINE: &str = "#!/bin/sh
cd \"$(dirname \"$0\")\" && echo $$ >pid.new && mv pid.new pid && exec sleep 600
";

/// Creates a script that takes the place of QEMU, and everything else that `kiln linux record`
/// needs.
fn prepare(dir: &Path) {
    let script = dir.join("qemu-system-x86_64");
    fs::write(&script, MACHINE).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(dir.join("modules/6.1.0/kernel")).unwrap();
    for file in ["bzImage", "config"] {
        fs::write(dir.join(file), "").unwrap();
    }
}

/// Starts Kiln and waits until Kiln has started the machine. Returns the Kiln process and the
/// machine's process ID.
fn boot(dir: &Path) -> (Child, u32) {
    let _ = fs::remove_file(dir.join("pid"));
    let path = std::env::var("PATH").unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .args([
            "linux",
            "record",
            "recording",
            "--idle",
            "--kernel",
            "bzImage",
        ])
        .args(["--modules", "modules/6.1.0"])
        .current_dir(dir)
        .env("PATH", format!("{}:{path}", dir.display()))
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .env("KILN_DEFAULTS", "")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = dir.join("pid");
    until("the machine runs", || pid.exists());
    let pid = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    (child, pid)
}

/// Starts Kiln, sends it these signals, and waits until Kiln and the machine have exited. Returns
/// Kiln's exit status.
fn end(dir: &Path, signals: &[&str]) -> ExitStatus {
    let (mut child, machine) = boot(dir);
    assert!(parent(machine).is_some(), "the control: the machine runs");
    let kill = signals.iter().map(|s| format!("kill -{s} {};", child.id()));
    let sent = Command::new("sh")
        .args(["-c", &kill.collect::<String>()])
        .status();
    assert!(sent.unwrap().success());
    let status = child.wait().unwrap();
    until("the machine has ended", || parent(machine).is_none());
    status
}

fn left(dir: &Path) -> usize {
    fs::read_dir(dir.join("cache/kiln/linux/boot"))
        .unwrap()
        .count()
}

#[test]
fn a_signal_that_ends_kiln_ends_its_machine_too_and_no_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    prepare(dir);
    // Also test two signals in a row, because timeout(1) sends its signal twice.
    for signals in [&["TERM"][..], &["INT"], &["TERM", "TERM"], &["INT", "TERM"]] {
        assert_eq!(end(dir, signals).code(), Some(130), "{signals:?}");
        assert_eq!(left(dir), 0, "{signals:?}");
    }
    // A process killed with SIGKILL cannot remove its files. Kiln must remove them when it next
    // boots a machine.
    assert_eq!(end(dir, &["KILL"]).code(), None);
    assert_eq!(left(dir), 1);
    assert_eq!(end(dir, &["TERM"]).code(), Some(130));
    assert_eq!(left(dir), 0);
}
