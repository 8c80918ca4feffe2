//! Front ends that go for the resources of the device: descriptors, memory, threads, time. Each test has a guest that is
//! served all the while, and most have a control: the same front end against a device without the defence.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::device::{until, Device};
use crate::guest::{memfd, Guest};
use crate::raw::{self, message, Raw, SIZE};

/// A guest that must be served whatever others do.
struct Victim(Guest, u64);

impl Victim {
    fn new(device: &Device) -> Victim {
        Victim::at(device, "kiln.sock")
    }

    fn at(device: &Device, socket: &str) -> Victim {
        let mut guest = Guest::connect(&device.path(socket), 2);
        let session = guest.create();
        Victim(guest, session)
    }

    fn is_served(&mut self) {
        assert_eq!(self.0.encrypt(self.1).1, 0);
    }
}

/// Ends a device; it must end well, and say so.
fn end(device: Device, says: &[&str]) {
    device.signal(libc::SIGTERM);
    let (status, log) = device.end();
    assert_eq!(status, Some(0), "{log}");
    for text in says {
        assert!(log.contains(text), "{text}: {log}");
    }
}

/// Makes the control queue's thread of a guest sleep in a call that nothing ends, and goes.
fn hold_a_thread(device: &Device) {
    let mut guest = Guest::connect(&device.path("kiln.sock"), 2);
    guest.create();
    guest.block_calls();
    guest.ask_in_vain();
    until("it is answered", || guest.used(false) == 2);
}

#[test]
fn a_call_that_blocks_holds_one_process_and_it_is_ended() {
    let device = Device::start(&["--max-guests", "3"]);
    let mut victim = Victim::new(&device);
    for _ in 0..6 {
        hold_a_thread(&device);
        victim.is_served();
        until("its process is gone", || device.threads().len() <= 4);
    }
    assert!(device.metrics().contains("kiln_killed_total 6"));
    victim.is_served();
    end(device, &["it is killed"]);
}

/// The control: without isolation the thread stays for as long as the device does.
#[test]
fn a_call_that_blocks_stays_in_a_device_without_isolation() {
    let device = Device::start(&["--no-isolation"]);
    let before = device.threads().len();
    hold_a_thread(&device);
    until("the guest is given up", || device.sessions() == 0);
    let held = |name: &String| name == "kiln-1-control";
    assert!(before == 0 && device.threads().iter().any(held));
}

#[test]
fn a_stop_waits_for_those_who_drain_and_not_for_those_who_hang() {
    let device = Device::start(&["--max-ops", "100"]);
    let (_hung, process) = device.process_of(|| Victim::new(&device));
    let mut busy = Guest::connect(&device.path("kiln.sock"), 2);
    let session = busy.create();
    // SAFETY: a child of the device, which has not waited for it.
    assert_eq!(unsafe { libc::kill(process as i32, libc::SIGSTOP) }, 0);
    busy.pile_up(session, 30);
    device.signal(libc::SIGTERM);
    let (status, log) = device.end();
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(busy.used(true), 30);
    assert!(log.contains("did not finish in time"), "{log}");
}

#[test]
fn a_process_that_hangs_or_dies_costs_its_guest_alone() {
    let device = Device::start(&["--max-guests", "2"]);
    let (mut victim, _) = device.process_of(|| Victim::new(&device));
    for signal in [libc::SIGSTOP, libc::SIGKILL, libc::SIGSEGV] {
        let (other, process) = device.process_of(|| Victim::new(&device));
        // SAFETY: as above.
        assert_eq!(unsafe { libc::kill(process as i32, signal) }, 0);
        victim.is_served();
        drop(other);
        until("it is gone", || !device.children().contains(&process));
    }
    victim.is_served();
    end(device, &["its process ended"]);
}

/// Huge pages need no privilege to ask for, and without any in the pool the first access is a SIGBUS.
#[test]
fn memory_of_huge_pages_that_are_not_there_ends_its_guest_alone() {
    const HUGE: u64 = 2 << 20;
    let device = Device::start(&[]);
    let mut victim = Victim::new(&device);
    for size in [SIZE, HUGE] {
        let mut raw = Raw::connect(&device.path("kiln.sock"));
        raw.hello(0);
        let file = memfd(HUGE, libc::MFD_HUGETLB);
        let well = raw.table(size, &file) && raw.ring(0);
        assert!(!well || size == HUGE, "a part of a huge page");
        raw.until_closed();
        victim.is_served();
    }
    end(device, &["of huge pages of", "memory was taken away"]);
}

#[test]
fn a_region_that_is_cut_off_ends_its_guest_alone_and_all_without_isolation() {
    for isolation in [true, false] {
        let device = Device::start(if isolation { &[] } else { &["--no-isolation"] });
        let mut victim = Victim::new(&device);
        let mut raw = Raw::connect(&device.path("kiln.sock"));
        raw.hello(0);
        let file = memfd(SIZE, 0);
        assert!(raw.table(SIZE, &file) && raw.ring(0));
        file.set_len(0).unwrap();
        raw.kick();
        raw.until_closed();
        if isolation {
            victim.is_served();
            end(device, &["memory was taken away"]);
        } else {
            let (status, _) = device.end();
            assert_eq!(status, None, "SIGBUS");
        }
    }
}

#[test]
fn memory_that_is_not_what_it_should_be_is_refused() {
    let device = Device::start(&["--max-memory", "2097152"]);
    let mut victim = Victim::new(&device);
    let refused = |file: &File, size: u64| {
        let mut raw = Raw::connect(&device.path("kiln.sock"));
        raw.hello(0);
        let well = raw.table(size, file);
        if !well {
            raw.until_closed();
        }
        !well
    };
    let memory = memfd(4 << 20, 0);
    assert!(!refused(&memory, 1 << 20), "the control");
    assert!(refused(&memory, 4 << 20), "--max-memory");
    assert!(refused(&memfd(4096, 0), 1 << 20), "behind the end");
    assert!(refused(&memfd(0, 0), 1 << 46), "an address space");
    // Neither of them has seals; a file of FUSE has none either.
    let program = File::open("/proc/self/exe").unwrap();
    assert!(refused(&program, 4096), "of a file system");
    let zero = File::options().read(true).write(true).open("/dev/zero");
    assert!(refused(&zero.unwrap(), 4096), "a device");
    victim.is_served();
    end(device, &["more than --max-memory", "not a memfd"]);
}

#[test]
fn descriptors_of_one_guest_are_no_other_guests() {
    const REGIONS: u64 = 509;
    let device = Device::start(&["--max-guests", "20"]);
    let mut victim = Victim::new(&device);
    let file = memfd(4096, 0);
    let mut held = Vec::new();
    // More regions than one process may have descriptors, and more than were once watched.
    for _ in 0..10 {
        let mut raw = Raw::connect(&device.path("kiln.sock"));
        raw.hello(0);
        for n in 0..REGIONS {
            assert!(raw.add(n * 4096, 4096, &file), "region {n}");
        }
        // A header with descriptors, and no payload.
        let header = &message(5, 1, &[0; 40])[..12];
        raw.send_bytes(header, &[file.as_fd().as_raw_fd(); 32]);
        held.push(raw);
    }
    victim.is_served();
    // As when a guest changes an MSI-X vector, and as with memory hot-plug.
    let mut fresh = Raw::connect(&device.path("kiln.sock"));
    fresh.hello(0);
    assert!(fresh.table(1 << 20, &memfd(1 << 20, 0)) && fresh.ring(0) && fresh.ring(0));
    assert!(fresh.add(1 << 40, 1 << 20, &memfd(1 << 20, 0)));
    let text = device.metrics();
    assert!(
        text.contains("kiln_guest_memory_regions{guest=\"2\"} 509"),
        "{text}"
    );
    drop(held);
    until("their processes are gone", || device.children().len() <= 3);
    end(device, &[]);
}

#[test]
fn silent_connections_and_those_in_a_loop_keep_nobody_out() {
    let device = Device::start(&["--socket", "other.sock", "--max-guests", "2"]);
    let path = device.path("kiln.sock");
    let silent: Vec<_> = (0..100).map(|_| UnixStream::connect(&path)).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also if something goes wrong here: the scope waits for them.
        let _end = Stop(&stop);
        for _ in 0..3 {
            scope.spawn(|| connect_in_a_loop(&path, &stop));
        }
        let mut victims = [
            Victim::at(&device, "kiln.sock"),
            Victim::at(&device, "other.sock"),
        ];
        assert!(device.metrics().contains("kiln_connections"));
        victims.iter_mut().for_each(Victim::is_served);
        device.signal(libc::SIGTERM);
        // It ends while they go on.
        until("it ends", || UnixStream::connect(&path).is_err());
    });
    drop(silent);
    let (status, log) = device.end();
    assert_eq!(status, Some(0), "{log}");
}

/// Ends loops when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn connect_in_a_loop(path: &Path, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let _ = UnixStream::connect(path);
    }
}

#[test]
fn silent_clients_of_the_metrics_are_cut_off_for_one_that_speaks() {
    let device = Device::start(&[]);
    let mut victim = Victim::new(&device);
    let path = device.path("metrics.sock");
    let silent: Vec<_> = (0..100).map(|_| UnixStream::connect(&path)).collect();
    assert!(device.metrics().contains("kiln_sessions{guest=\"1\"} 1"));
    let tasks = std::fs::read_dir(format!("/proc/{}/task", device.child.id()));
    assert_eq!(tasks.unwrap().count(), 1, "no thread is made for a client");
    victim.is_served();
    drop(silent);
    end(device, &[]);
}

/// QEMU's cryptodev makes sessions by messages, which count like requests; and the driver that comes after a reset has
/// none of those before.
#[test]
fn sessions_of_messages_are_held_to_the_rate_and_end_with_the_driver() {
    const BY_MESSAGE: u64 = 1 << 7;
    let device = Device::start(&["--max-ops", "1000"]);
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(BY_MESSAGE);
    let file = memfd(SIZE, 0);
    assert!(raw.table(SIZE, &file) && raw.ring(0));
    let first = raw.create();
    assert!(first >= 0 && raw.encrypts(first), "the control");
    for _ in 0..30 {
        assert!(raw.create() >= 0);
    }
    let text = device.metrics();
    assert!(
        text.contains("kiln_session_messages_total{queue=\"control\"} 31"),
        "{text}"
    );
    assert!(
        !text.contains("kiln_held_total{queue=\"control\"} 0\n"),
        "{text}"
    );
    // A pause keeps them.
    let base = raw.stop(0);
    assert!(base > 0 && raw.ring(base) && raw.encrypts(first));
    raw.stop(0);
    assert!(raw.ring(0));
    assert!(
        !raw.encrypts(first),
        "the next system has the keys of the one before"
    );
    assert_eq!(device.sessions(), 0);
    assert!(raw.create() >= 0);
    end(device, &["the driver was reset"]);
}

#[test]
fn no_address_and_no_flood_gets_into_the_log() {
    let device = Device::start(&[]);
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(0);
    // Behind the end of the configuration: an error, and the connection goes on.
    for _ in 0..2000 {
        raw.config(4000);
    }
    drop(raw);
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(0);
    assert!(!raw.ring(0), "there is no memory");
    raw.until_closed();
    device.signal(libc::SIGTERM);
    let (status, log) = device.end();
    assert_eq!(status, Some(0), "{log}");
    assert!(
        log.contains("is in no memory region") && !log.contains("0x1000"),
        "{log}"
    );
    assert!(log.lines().count() < 600, "{} lines", log.lines().count());
}

/// A request of the stateless form carries its key, and no session holds it.
#[test]
fn the_key_of_a_stateless_request_is_gone_once_it_was_served() {
    let device = Device::start(&[]);
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(0);
    let file = memfd(SIZE, 0);
    assert!(raw.table(SIZE, &file) && raw.ring(0));
    let key = *b"key of one reque";
    assert!(raw.encrypts_with(&key), "it is served");
    let search = |what: &[u8]| {
        let all = device.children();
        all.iter()
            .map(|pid| raw::find(*pid, what))
            .collect::<Vec<_>>()
    };
    // The control: what is there is found.
    if search(b"KILN_SERVE_GUEST")
        .into_iter()
        .flatten()
        .sum::<usize>()
        == 0
    {
        eprintln!("SKIPPED: the memory of the device's processes can be read by root alone");
        return;
    }
    assert_eq!(search(&key).into_iter().flatten().sum::<usize>(), 0);
}
