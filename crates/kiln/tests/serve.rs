//! Tests `kiln serve` as users run it: the program in its sandbox, with guests on its socket.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::device::{until, was_late, Device};
use crate::guest::{Guest, LEFT};
use kiln_virtio::sample::destroy;

const INVSESS: u8 = 4;

fn guest(device: &Device) -> Guest {
    Guest::connect(&device.path("kiln.sock"), 2)
}

#[test]
fn guests_are_served_apart_in_the_sandbox() {
    for control in ["inline", "thread"] {
        let device = Device::start(&["--ctrl", control, "--max-guests", "2"]);
        let (mut one, mut other) = (guest(&device), guest(&device));
        let session = one.create();
        let (result, status) = one.encrypt(session);
        assert_eq!(status, 0);
        assert_ne!(result, [3; 64], "encrypted");
        assert!(one.was_called());
        // Another guest must not be able to use the session, even though it knows the session's ID.
        assert_eq!(other.encrypt(session), (vec![LEFT; 64], INVSESS));
        assert_ne!(other.ask(false, &destroy(session), 1), Some(vec![0]));
        assert_eq!(one.encrypt(session), (result, 0));
        // Wait until the metrics count a rejection, because connect() succeeds even if the device
        // then rejects the connection. The two guests that are served are the control.
        until("a third guest is rejected", || {
            device.metrics().contains("kiln_refused_total 1") || {
                let _ = UnixStream::connect(device.path("kiln.sock"));
                false
            }
        });
        let text = device.metrics();
        let line = "kiln_requests_total{queue=\"data0\",status=\"invsess\"} 1";
        assert!(text.contains(line), "{text}");
        // When a driver disconnects, the device must remove its sessions and accept another guest.
        assert_eq!(device.sessions(), 1);
        drop(one);
        until("its sessions are gone", || device.sessions() == 0);
        let mut third = guest(&device);
        let session = third.create();
        assert_eq!(third.encrypt(session).1, 0);
        device.signal(libc::SIGTERM);
        let (status, log) = device.end();
        assert_eq!(status, Some(0), "{log}");
    }
}

#[test]
fn a_guest_whose_memory_goes_harms_no_other() {
    let device = Device::start(&[]);
    let (mut one, mut other) = (guest(&device), guest(&device));
    let (gone, session) = (one.create(), other.create());
    assert_eq!(one.encrypt(gone).1, 0);
    one.shrink();
    for _ in 0..100 {
        assert_eq!(other.encrypt(session).1, 0);
    }
    until("its session is gone", || device.sessions() == 1);
    device.signal(libc::SIGTERM);
    let (status, log) = device.end();
    assert_eq!(status, Some(0), "{log}");
    assert!(
        log.contains("pages of the shared memory are missing"),
        "{log}"
    );
}

#[test]
fn a_stop_serves_what_is_there() {
    for _ in 0..3 {
        let device = Device::start(&["--max-ops", "100"]);
        let mut guest = guest(&device);
        let session = guest.create();
        // Send more requests than the rate allows, so that the device is still processing them
        // when SIGTERM arrives.
        guest.pile_up(session, 30);
        device.signal(libc::SIGTERM);
        let (status, log) = device.end();
        assert_eq!(status, Some(0), "{log}");
        // On a busy machine, the guest may miss the device's time limit, so try again.
        if was_late(&log, 1) {
            continue;
        }
        assert_eq!(guest.used(true), 30);
        assert!(log.contains("requests=31"), "{log}");
        return;
    }
    panic!("the guest did not finish in time, three times in a row");
}

#[test]
fn a_device_that_was_killed_is_started_again() {
    let mut device = Device::start(&[]);
    guest(&device).create();
    device.signal(libc::SIGKILL);
    device.child.wait().unwrap();
    // Because the device was killed, its socket file remains although no process is listening on
    // it.
    let dir = std::mem::replace(&mut device.dir, tempfile::tempdir().unwrap());
    assert!(dir.path().join("kiln.sock").exists());
    let device = Device::start_in(dir, &[]);
    let mut guest = guest(&device);
    let session = guest.create();
    assert_eq!(guest.encrypt(session).1, 0);
    // A second device must fail to start, because the socket is in use.
    let second = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .args(["serve", "--socket", "kiln.sock"])
        .current_dir(device.dir.path())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(String::from_utf8(second.stderr)
        .unwrap()
        .contains("another process listens there"));
}

#[test]
fn arguments_that_cannot_be_are_told_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    for (args, says) in [
        (&["--queues", "17"][..], "from 1 to 16"),
        (&["--ctrl", "both"], "choose inline or thread"),
        (&["--log", "xml"], "choose text or json"),
        (&["--socket", "a", "--socket", "a"], "twice"),
        (&["--fd", "2"], "from 3 on"),
        (&["--fd", "77"], "--fd 77"),
        (&["--socket-mode", "999"], "octal"),
        (&["--socket-group", "no such group"], "/etc/group"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_kiln"))
            .args(["serve", "--socket", "k"])
            .args(args)
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{said}");
    }
}

/// The process that reads the log may exit before the device does, for example because a pager
/// quits or a service restarts. The device must continue.
#[test]
fn a_device_whose_log_has_no_reader_goes_on() {
    let mut device = Device::start(&["--log-level", "debug"]);
    drop(device.child.stderr.take());
    for _ in 0..2 {
        let mut guest = guest(&device);
        let session = guest.create();
        assert_eq!(guest.encrypt(session).1, 0);
    }
    device.signal(libc::SIGTERM);
    assert_eq!(device.child.wait().unwrap().code(), Some(0));
}

/// The process that reads the log may stall. The device must still serve guests and exit on
/// SIGTERM.
#[test]
fn a_device_whose_log_is_a_full_pipe_goes_on() {
    let mut device = Device::start(&["--log-level", "debug"]);
    let reader = device.child.stderr.take().unwrap();
    // Fill the pipe, as another process that shares it might.
    let mut filler = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{}", reader.as_raw_fd()))
        .unwrap();
    while filler.write(b"x").is_ok() {}
    for _ in 0..2 {
        let mut guest = guest(&device);
        let session = guest.create();
        assert_eq!(guest.encrypt(session).1, 0);
    }
    // Control: the pipe is still full, so an ordinary write to it would have blocked.
    let full = filler.write(b"x").unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock);
    device.signal(libc::SIGTERM);
    assert_eq!(device.child.wait().unwrap().code(), Some(0));
}

#[test]
fn sockets_have_the_permissions_that_are_asked_for() {
    let mine = std::fs::metadata("/proc/self").unwrap().gid().to_string();
    let device = Device::start(&["--socket-mode", "640", "--socket-group", &mine]);
    let mode = |name| {
        let found = std::fs::metadata(device.path(name)).unwrap();
        found.mode() & 0o777
    };
    assert_eq!(mode("kiln.sock"), 0o640);
    assert_ne!(mode("metrics.sock"), 0o640, "the control");
    drop(guest(&device));
}

/// Passes a listening socket or a single connection to the device, as systemd and libvirt do. If
/// the device was given a single connection, it must exit when the connection is closed.
#[test]
fn a_socket_can_be_passed_on() {
    const FD: i32 = 100;
    let start = |fd: OwnedFd| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command.args(["serve", "--fd", "100", "--queues", "2"]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        // SAFETY: the closure makes a single async-signal-safe system call, and the descriptor
        // outlives the closure.
        unsafe {
            command.pre_exec(move || match libc::dup2(fd.as_raw_fd(), FD) {
                FD => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        command.spawn().unwrap()
    };
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = start(theirs.into());
    let mut one = Guest::on(ours, 2);
    let session = one.create();
    assert_eq!(one.encrypt(session).1, 0);
    drop(one);
    assert_eq!(
        child.wait().unwrap().code(),
        Some(0),
        "it ends with its guest"
    );
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = start(theirs.into());
    drop(ours);
    assert_eq!(
        child.wait().unwrap().code(),
        Some(0),
        "it ends with a front end that sends nothing"
    );

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let mut child = start(listener.into());
    for _ in 0..2 {
        let mut one = Guest::connect(&path, 2);
        let session = one.create();
        assert_eq!(one.encrypt(session).1, 0);
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let file = std::fs::File::open("/dev/null").unwrap();
    let mut child = start(file.into());
    assert_eq!(child.wait().unwrap().code(), Some(2), "no socket");
}

#[test]
fn managers_are_told_what_it_is() {
    let out = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .args(["serve", "--print-capabilities"])
        .output()
        .unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    let words: String = said.split_whitespace().collect();
    assert_eq!(
        (out.status.code(), words.as_str()),
        (Some(0), "{\"type\":\"crypto\"}")
    );
}

/// A command that starts a device creates the socket in a private directory, so that no other user
/// can replace it with a different socket.
#[test]
fn the_device_of_a_command_is_in_a_private_directory() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args([
        "ctrlq",
        "--mode",
        "wait",
        "--workers",
        "1",
        "--seconds",
        "60",
    ]);
    command.env("TMPDIR", dir.path()).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let found = || std::fs::read_dir(dir.path()).unwrap().flatten().next();
    until("kiln ctrlq has started its device", || {
        found().is_some_and(|entry| entry.path().join("device.sock").exists())
    });
    let entry = found().unwrap();
    assert_eq!(entry.metadata().unwrap().mode() & 0o7777, 0o700);
    let name = entry.file_name().into_string().unwrap();
    assert!(name.starts_with("kiln-device-") && !name.contains(&child.id().to_string()));
    // SAFETY: kill() does not access memory. The child has not been waited for, so its PID has not
    // been reused.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    child.wait().unwrap();
    assert!(found().is_none(), "it leaves nothing");
}
/// Runs all checks of `kiln virtio-check`, including those with hostile front ends, which require
/// one process per guest. Also runs them on a device that serves one guest at a time. Control: on a
/// device without isolation, the check that truncates guest memory must fail.
#[test]
fn its_own_checks_pass_and_without_isolation_they_do_not() {
    for args in [&[][..], &["--max-guests", "1"], &["--no-isolation"]] {
        let isolation = !args.contains(&"--no-isolation");
        // The checks connect 334 guests, one after the other, so raise the limit on new guests per
        // second.
        let device = Device::start(&[args, &["--max-new-guests", "1000"]].concat());
        let out = Command::new(env!("CARGO_BIN_EXE_kiln"))
            .args(["virtio-check", "--socket"])
            .arg(device.path("kiln.sock"))
            .output()
            .unwrap();
        let said = String::from_utf8(out.stdout).unwrap();
        let mut failed: Vec<_> = said.lines().filter(|l| l.starts_with("not ok")).collect();
        if args.contains(&"--max-guests") {
            // Ignore this check, which needs a second guest while the first one is still connected.
            failed.retain(|line| !line.contains("a corrupted record"));
        }
        if isolation {
            assert_eq!(failed, Vec::<&str>::new(), "{said}");
            let passed = said.lines().filter(|l| l.starts_with("ok"));
            assert!(passed.count() >= 130, "{said}");
            // The totals must match the lines, and every line must name a section of the
            // specification or a message.
            let checks = said
                .lines()
                .filter(|l| l.contains("ok ") && !l.starts_with('#'));
            let (skipped, run): (Vec<_>, Vec<_>) = checks.partition(|l| l.contains("# SKIP"));
            let all = said.lines().last().expect("totals");
            let (failed, passed) = (said.matches("\nnot ok ").count(), run.len());
            let passed = passed - failed;
            let skipped = skipped.len();
            let want = format!("# Totals: pass:{passed} fail:{failed} skip:{skipped} error:0");
            assert_eq!(all, want);
            let named = |l: &&str| l.contains(" [virtio ") || l.contains(" [vhost-user ");
            assert!(run.iter().all(named), "{said}");
            for group in ["configuration: 3 passed", "hostile rings: 18 passed"] {
                assert!(said.contains(&format!("\n# {group}, 0 failed")), "{said}");
            }
        } else {
            // A hostile front end takes down the device for all guests, so the remaining checks are
            // skipped.
            let last = failed
                .last()
                .unwrap_or_else(|| panic!("no check fails: {said}"));
            let name = last.splitn(4, ' ').nth(3).expect("not ok, number, name");
            let (killer, _) = name.rsplit_once(" [").expect("a section");
            let why = format!("the device has ended in the check '{killer}'");
            assert!(killer.contains("a front end"), "{said}");
            assert!(said.lines().any(|l| l.ends_with(&why)), "{said}");
        }
    }
}
