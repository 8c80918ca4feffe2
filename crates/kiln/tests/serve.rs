//! `kiln serve` as its users have it: the program, its sandbox closed, and guests on its socket.

mod device;
mod guest;

use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use device::{until, Device};
use guest::{destroy, Guest, LEFT};

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
        // The other guest knows the name, and it is nothing to it.
        assert_eq!(other.encrypt(session), (vec![LEFT; 64], INVSESS));
        assert_ne!(other.ask(false, &destroy(session), 1), Some(vec![0]));
        assert_eq!(one.encrypt(session), (result, 0));
        // Between connecting and being turned away nothing is promised; being served is the control.
        until("a third is turned away", || {
            device.metrics().contains("kiln_refused_total 1") || {
                let _ = UnixStream::connect(device.path("kiln.sock"));
                false
            }
        });
        let text = device.metrics();
        let line = "kiln_requests_total{queue=\"data0\",status=\"invsess\"} 1";
        assert!(text.contains(line), "{text}");
        // A driver that is gone leaves no session, and its place is free.
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
    // Long enough that its queues have looked.
    sleep(Duration::from_millis(100));
    for _ in 0..100 {
        assert_eq!(other.encrypt(session).1, 0);
    }
    drop(one);
    until("its session is gone", || device.sessions() == 1);
    // The next connection finds it said in the log.
    drop(guest(&device));
    device.signal(libc::SIGTERM);
    let (status, log) = device.end();
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("memory was taken away"), "{log}");
}

#[test]
fn a_stop_serves_what_is_there() {
    let device = Device::start(&["--max-ops", "100"]);
    let mut guest = guest(&device);
    let session = guest.create();
    // More than it may have at once: the device is in the middle of it, waiting, when it is told to stop.
    guest.pile_up(session, 30);
    device.signal(libc::SIGTERM);
    let (status, log) = device.end();
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(guest.used(true), 30);
    assert!(log.contains("requests=31"), "{log}");
}

#[test]
fn a_device_that_was_killed_is_started_again() {
    let mut device = Device::start(&[]);
    guest(&device).create();
    device.signal(libc::SIGKILL);
    device.child.wait().unwrap();
    // Its socket is still there, and nobody listens on it.
    let dir = std::mem::replace(&mut device.dir, tempfile::tempdir().unwrap());
    assert!(dir.path().join("kiln.sock").exists());
    let device = Device::start_in(dir, &[]);
    let mut guest = guest(&device);
    let session = guest.create();
    assert_eq!(guest.encrypt(session).1, 0);
    // A second device is told that there is one.
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
    for (args, says) in [
        (&["--queues", "17"][..], "from 1 to 16"),
        (&["--ctrl", "both"], "there are inline, thread"),
        (&["--log", "xml"], "there are text, json"),
        (&["--socket", "a", "--socket", "a"], "twice"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_kiln"))
            .args(["serve", "--socket", "k"])
            .args(args)
            .current_dir(std::env::temp_dir())
            .output()
            .unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{said}");
    }
}

/// Whoever reads the log may go: a pager, a service that is restarted.
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
