//! Tests with front ends that attack the device's resources: descriptors, memory, threads and time.
//! In each test, the device must keep serving another guest. Most tests have a control, in which
//! the same front end attacks a device without the defence.

mod held;
mod rates;
mod reset;
mod taken;
mod waiting;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::device::{until, was_late, Device};
use crate::guest::{memfd, Guest};
use crate::raw::{self, message, Raw, SIZE};
use vhost::VhostBackend;

/// A guest with a session. The device must keep serving this guest, regardless of what other guests
/// do.
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

/// Stops a device. The device must exit with status 0, and its log must contain each of the texts
/// in `says`.
fn end(device: Device, says: &[&str]) {
    device.signal(libc::SIGTERM);
    let (status, log) = device.end();
    assert_eq!(status, Some(0), "{log}");
    for text in says {
        assert!(log.contains(text), "{text}: {log}");
    }
}

/// Connects a guest, makes the thread of its control queue block in a system call that never
/// returns, and disconnects.
fn hold_a_thread(device: &Device) {
    let mut guest = Guest::connect(&device.path("kiln.sock"), 2);
    guest.create();
    guest.block_calls();
    guest.ask_in_vain();
    until("two requests are answered", || guest.used(false) == 2);
}

#[test]
fn a_call_that_blocks_holds_one_process_and_it_is_ended() {
    let device = Device::start(&["--max-guests", "3"]);
    let mut victim = Victim::new(&device);
    for _ in 0..6 {
        hold_a_thread(&device);
        victim.is_served();
        until("its process is gone", || device.threads().len() <= 3);
    }
    assert!(device.metrics().contains("kiln_killed_total 6"));
    victim.is_served();
    end(device, &["it is killed"]);
}

/// Control: without isolation, the blocked thread remains as long as the device runs. The log and
/// the metrics do not report that a process was killed, because the guest has no process of its
/// own.
#[test]
fn a_call_that_blocks_stays_in_a_device_without_isolation() {
    let device = Device::start(&["--no-isolation"]);
    let before = device.threads().len();
    hold_a_thread(&device);
    until("the guest is given up", || device.sessions() == 0);
    let held = |name: &String| name == "kiln-1-control";
    assert!(before == 0 && device.threads().iter().any(held));
    assert!(device.metrics().contains("kiln_killed_total 0"));
    device.signal(libc::SIGTERM);
    let (status, log) = device.end();
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(log.matches("its threads do not end").count(), 1, "{log}");
    for wrong in ["its process", "is killed", "for a guest"] {
        assert!(!log.contains(wrong), "{wrong}: {log}");
    }
}

#[test]
fn a_stop_waits_for_those_who_drain_and_not_for_those_who_hang() {
    for _ in 0..3 {
        let device = Device::start(&["--max-ops", "100"]);
        let (_hung, process) = device.process_of(|| Victim::new(&device));
        let mut busy = Guest::connect(&device.path("kiln.sock"), 2);
        let session = busy.create();
        // SAFETY: kill() does not access memory, and the process is running.
        assert_eq!(unsafe { libc::kill(process as i32, libc::SIGSTOP) }, 0);
        busy.pile_up(session, 30);
        device.signal(libc::SIGTERM);
        let (status, log) = device.end();
        assert_eq!(status, Some(0), "{log}");
        // On a busy machine, the second guest may miss the device's time limit, so try again.
        if was_late(&log, 2) {
            continue;
        }
        assert_eq!(busy.used(true), 30);
        assert!(was_late(&log, 1), "{log}");
        return;
    }
    panic!("the busy guest did not finish in time, three times in a row");
}

#[test]
fn a_process_that_hangs_or_dies_costs_its_guest_alone() {
    let device = Device::start(&["--max-guests", "2"]);
    let (mut victim, _) = device.process_of(|| Victim::new(&device));
    for signal in [libc::SIGSTOP, libc::SIGKILL, libc::SIGSEGV] {
        let (other, process) = device.process_of(|| Victim::new(&device));
        // SAFETY: kill() does not access memory, and the process is running.
        assert_eq!(unsafe { libc::kill(process as i32, signal) }, 0);
        victim.is_served();
        let is_gone = || !device.children().contains(&process);
        // After SIGKILL, wait until the device has noticed and logged the death before the front
        // end disconnects. The other signals do not end the process. Because SIGSEGV was not caused
        // by a memory access, the first one only makes Rust's handler remove itself.
        if signal == libc::SIGKILL {
            until("its end is noticed", is_gone);
        }
        drop(other);
        until("its process is gone", is_gone);
    }
    victim.is_served();
    end(device, &["its process ended"]);
}

/// Control: without isolation, one guest's crash takes down all guests.
#[test]
fn a_crash_ends_all_guests_of_a_device_without_isolation() {
    let device = Device::start(&["--no-isolation"]);
    let _victim = Victim::new(&device);
    device.signal(libc::SIGABRT);
    assert_eq!(device.end().0, None, "a signal");
}

/// A front end can request huge pages without privileges. If the pool is empty, the device's first
/// access raises SIGBUS.
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
    end(
        device,
        &[
            "of the huge page size",
            "pages of the shared memory are missing",
        ],
    );
    // Control: without isolation, the same front end takes down the device for all guests.
    let device = Device::start(&["--no-isolation"]);
    let _victim = Victim::new(&device);
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(0);
    raw.table(HUGE, &memfd(HUGE, libc::MFD_HUGETLB));
    raw.ring(0);
    raw.until_closed();
    assert_eq!(device.end().0, None, "SIGBUS");
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
            end(device, &["pages of the shared memory are missing"]);
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
    assert!(
        !refused(&memory, 1 << 20),
        "the control: a region within the limit is accepted"
    );
    assert!(
        refused(&memory, 4 << 20),
        "a region larger than --max-memory"
    );
    assert!(
        refused(&memfd(4096, 0), 1 << 20),
        "a region beyond the end of its file"
    );
    assert!(
        refused(&memfd(0, 0), 1 << 46),
        "a region as large as the address space"
    );
    // Files that do not support seals, such as files on FUSE, must be rejected.
    let program = File::open("/proc/self/exe").unwrap();
    assert!(
        refused(&program, 4096),
        "a region of a file on a file system"
    );
    let zero = File::options().read(true).write(true).open("/dev/zero");
    assert!(refused(&zero.unwrap(), 4096), "a region of a device");
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
    // Each region needs a descriptor. In total, pass more than a single process can have open.
    for _ in 0..10 {
        let mut raw = Raw::connect(&device.path("kiln.sock"));
        raw.hello(0);
        for n in 0..REGIONS {
            assert!(raw.add(n * 4096, 4096, &file), "region {n}");
        }
        // Send a message header with descriptors, but do not send the payload.
        let header = &message(5, 1, &[0; 40])[..12];
        raw.send_bytes(header, &[file.as_fd().as_raw_fd(); 8]);
        held.push(raw);
    }
    victim.is_served();
    // Harmless guests must still be able to restart a ring, as they do for a new MSI-X vector, and
    // to add memory, as they do for memory hotplug.
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

/// Control: in a single process, one guest exhausts the descriptors that all guests share.
#[test]
fn descriptors_of_one_guest_are_missed_by_others_without_isolation() {
    const REGIONS: u64 = 220;
    let device = Device::start_with(&["--no-isolation", "--max-guests", "3"], || {
        let limit = libc::rlimit {
            rlim_cur: 420,
            rlim_max: 420,
        };
        // SAFETY: `limit` outlives the call, which only reads it.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    });
    let file = memfd(4096, 0);
    let [one, other] = [0, 1].map(|_| {
        let mut raw = Raw::connect(&device.path("kiln.sock"));
        raw.hello(0);
        let added = (0..REGIONS).take_while(|n| raw.add(n * 4096, 4096, &file));
        (added.count() as u64, raw)
    });
    assert!(one.0 == REGIONS && other.0 < REGIONS, "{}", other.0);
}

#[test]
fn silent_connections_and_those_in_a_loop_keep_nobody_out() {
    let device = Device::start(&["--socket", "other.sock", "--max-guests", "2"]);
    let path = device.path("kiln.sock");
    let silent: Vec<_> = (0..100).map(|_| UnixStream::connect(&path)).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Stop the threads even if the test fails, because the scope waits for them.
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
        // The device must exit even while the attackers keep connecting.
        until("the device ends", || UnixStream::connect(&path).is_err());
    });
    drop(silent);
    let (status, log) = device.end();
    assert_eq!(status, Some(0), "{log}");
}

/// Returns the resources that the main process holds: the numbers of descriptors, threads and
/// children, and the anonymous memory in KiB.
fn holdings(device: &Device) -> [usize; 4] {
    let main = device.child.id();
    let count = |what: &str| {
        let all = std::fs::read_dir(format!("/proc/{main}/{what}"));
        all.unwrap().count()
    };
    let status = std::fs::read_to_string(format!("/proc/{main}/status")).unwrap();
    let memory = status.lines().filter_map(|line| {
        let rest = line
            .strip_prefix("RssAnon:")
            .or(line.strip_prefix("RssShmem:"))?;
        rest.split_whitespace().next()?.parse::<usize>().ok()
    });
    [
        count("fd"),
        count("task"),
        device.children().len(),
        memory.sum(),
    ]
}

/// Makes one attack of each kind. The attackers' resources are held until the returned value is
/// dropped.
fn attack(device: &Device) -> impl Sized {
    let path = device.path("kiln.sock");
    let hello = || {
        let mut raw = Raw::connect(&path);
        raw.hello(0);
        raw
    };
    hold_a_thread(device);
    let (mut cut, file) = (hello(), memfd(SIZE, 0));
    assert!(cut.table(SIZE, &file) && cut.ring(0));
    file.set_len(0).unwrap();
    cut.kick();
    cut.until_closed();
    let mut full = hello();
    let page = memfd(4096, 0);
    for n in 0..509 {
        assert!(full.add(n * 4096, 4096, &page));
    }
    full.send_bytes(&message(5, 1, &[0; 40])[..12], &[page.as_raw_fd(); 8]);
    let mut loud = hello();
    for _ in 0..300 {
        loud.config(4000);
    }
    let (dead, process) = device.process_of(hello);
    // SAFETY: kill() does not access memory, and the process is running.
    assert_eq!(unsafe { libc::kill(process as i32, libc::SIGKILL) }, 0);
    for _ in 0..100 {
        let _ = UnixStream::connect(&path);
    }
    let silent: Vec<_> = (0..80)
        .map(|n| {
            UnixStream::connect(if n % 8 == 0 {
                device.path("metrics.sock")
            } else {
                path.clone()
            })
        })
        .collect();
    (full, loud, dead, silent)
}

#[test]
fn what_attacks_took_is_given_back() {
    let device = Device::start(&["--max-guests", "30"]);
    let mut victim = Victim::new(&device);
    // Attack before the measurement, because the allocator retains some memory after the first
    // attacks.
    for _ in 0..2 {
        drop(attack(&device));
        victim.is_served();
    }
    let quiet = |before: [usize; 4]| {
        let now = holdings(&device);
        now[..3] == before[..3] && now[3] <= before[3] + 256
    };
    let settled = || device.children().len() == 2 && device.threads().len() == 3;
    until(
        "the processes and threads of the first attacks are gone",
        settled,
    );
    // Wait until the device has also closed silent connections.
    let (mut before, mut since) = (holdings(&device), Instant::now());
    until("the device holds the same resources for a second", || {
        let now = holdings(&device);
        if now[..3] != before[..3] {
            since = Instant::now();
        }
        before = now;
        since.elapsed() >= Duration::from_secs(1)
    });
    let held = attack(&device);
    assert!(
        !quiet(before),
        "the control: {before:?}, {:?}",
        holdings(&device)
    );
    drop(held);
    for _ in 0..3 {
        drop(attack(&device));
    }
    victim.is_served();
    until(&format!("only {before:?} are held again"), || quiet(before));
    victim.is_served();
    end(device, &[]);
}

/// Control: connections that send data count as guests, so further connections are rejected.
#[test]
fn connections_that_speak_take_places() {
    let device = Device::start(&["--max-guests", "2"]);
    let _held = [0, 1].map(|_| Victim::new(&device));
    let mut late = Raw::connect(&device.path("kiln.sock"));
    late.send_bytes(&message(1, 0, &[]), &[]);
    late.until_closed();
    assert!(device.metrics().contains("kiln_refused_total 1\n"));
}

/// A guard that sets a flag on drop, to stop the loops of other threads.
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
    let [before, ..] = holdings(&device);
    let silent: Vec<_> = (0..100).map(|_| UnixStream::connect(&path)).collect();
    assert!(device.metrics().contains("kiln_sessions{guest=\"1\"} 1"));
    let [now, ..] = holdings(&device);
    // 64 descriptors for silent clients, 64 for connections that are being closed, and a few for
    // one child process.
    assert!(now <= before + 130, "{now} descriptors, {before} before");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", device.child.id()));
    assert_eq!(tasks.unwrap().count(), 1, "no thread is made for a client");
    victim.is_served();
    drop(silent);
    end(device, &[]);
}

/// QEMU's cryptodev creates sessions with vhost-user messages. The rate limit counts these messages
/// as requests. A driver that starts after a reset must not inherit earlier sessions.
#[test]
fn sessions_of_messages_are_held_to_the_rate_and_end_with_the_driver() {
    const BY_MESSAGE: u64 = 1 << 7;
    let device = Device::start(&["--max-ops", "100"]);
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
    // If the ring continues at the entry where it stopped, the sessions must be preserved.
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

    // Control: without a rate limit, no message is delayed.
    let device = Device::start(&[]);
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(BY_MESSAGE);
    for _ in 0..31 {
        assert!(raw.create() >= 0);
    }
    let text = device.metrics();
    assert!(
        text.contains("kiln_held_total{queue=\"control\"} 0\n"),
        "{text}"
    );
}

#[test]
fn no_address_and_no_flood_gets_into_the_log() {
    let start = std::time::Instant::now();
    let device = Device::start(&[]);
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(0);
    // Request an offset outside the configuration space, which must cause an error without ending
    // the connection.
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
    // Each of the three processes (two for guests, and the main process) may log a burst of 200
    // lines, plus 20 lines per second.
    let most = 600 + 20 * start.elapsed().as_secs() as usize;
    assert!(log.lines().count() < most, "{} lines", log.lines().count());
    // Control: if there are only a few events, all of them must be logged.
    let device = Device::start(&[]);
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(0);
    for _ in 0..20 {
        raw.config(4000);
    }
    device.signal(libc::SIGTERM);
    let (_, log) = device.end();
    let told = log
        .lines()
        .filter(|line| line.contains("configuration read of"));
    assert_eq!(told.count(), 20, "{log}");
}

/// Keys must not reach core dumps or swap, even in a device that can be debugged.
#[test]
fn a_device_without_a_sandbox_has_no_core_dumps_and_locks_its_memory() {
    const NONE: &str = "Max core file size        1                    1 ";
    const NONE_HERE: &str = "Max core file size        0                    0 ";
    for args in [
        &["--no-sandbox"][..],
        &["--no-sandbox", "--no-isolation"],
        &[],
    ] {
        let device = Device::start(args);
        let _victim = Victim::new(&device);
        let read = |pid: u32, file: &str| {
            std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
        };
        if read(std::process::id(), "limits").contains(NONE_HERE) {
            eprintln!("SKIPPED: no process has core dumps here");
            return;
        }
        let guests = match args.contains(&"--no-isolation") {
            true => vec![device.child.id()],
            false => vec![device.process_of(|| ()).1],
        };
        for pid in [device.child.id()].iter().chain(&guests) {
            let limits = read(*pid, "limits");
            assert!(limits.contains(NONE), "{args:?}: {limits}");
        }
        // Require locked memory only if the device runs as root, which is always allowed to lock
        // memory. A device with a sandbox does not keep running as root.
        // SAFETY: geteuid() takes no arguments and cannot fail.
        let may_lock = unsafe { libc::geteuid() } == 0 && !args.is_empty();
        if !may_lock {
            eprintln!("SKIPPED: whether memory is locked depends on a limit here");
            continue;
        }
        for pid in guests {
            let status = read(pid, "status");
            let locked = status.lines().find(|line| line.starts_with("VmLck:"));
            let locked = locked.is_some_and(|line| !line.ends_with("\t       0 kB"));
            assert!(locked, "{args:?}: {status}");
        }
    }
}

#[test]
fn a_guests_process_has_no_descriptor_that_the_device_inherited() {
    // Without the sandbox, a process of the same user can list the descriptors.
    let device = Device::start_with(&["--no-sandbox"], || {
        // SAFETY: dup2() accesses no memory, and the new process uses no descriptor 100.
        unsafe { libc::dup2(2, 100) };
    });
    let (_victim, guest) = device.process_of(|| Victim::new(&device));
    let has = |pid: u32, fd: u32| {
        let link = format!("/proc/{pid}/fd/{fd}");
        Path::new(&link).symlink_metadata().is_ok()
    };
    assert!(has(guest, 2) && !has(guest, 100));
    assert!(has(device.child.id(), 100), "the control");
}

/// Returns a TCP socket whose close() blocks, because its peer does not read the data sent to it.
/// Also returns the peer, which must be kept open.
fn lingering() -> (TcpStream, impl Sized) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let peer = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 1 << 16]).is_ok() {}
    stream.set_nonblocking(false).unwrap();
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 600,
    };
    // SAFETY: the structure outlives the call and is passed with its own size.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            std::ptr::from_ref(&linger).cast(),
            size_of_val(&linger) as libc::socklen_t,
        )
    };
    assert_eq!(done, 0);
    (stream, (listener, peer))
}

/// The main process may be the one that closes the last reference to a file that was sent to it:
/// when it rejects a connection, or when a client of the metrics sends a descriptor. Closing the
/// file must not block the main process.
#[test]
fn descriptors_that_are_slow_to_close_hold_nobody_up() {
    for isolation in [true, false] {
        let mut args = vec!["--max-guests", "1", "--socket", "other.sock"];
        args.extend((!isolation).then_some("--no-isolation"));
        let device = Device::start(&args);
        let mut victim = Victim::new(&device);
        // Pause the device, so that the test closes its copies of the sockets before the device
        // does. Otherwise, the last close() might be in the test, which would then block. Pause the
        // device only once, because a later signal would interrupt its own wait in close().
        let signal = |signal| {
            // SAFETY: kill() does not access memory. This process has not waited for the child, so
            // the child's PID has not been reused.
            assert_eq!(unsafe { libc::kill(device.child.id() as i32, signal) }, 0);
        };
        signal(libc::SIGSTOP);
        until("the device is stopped", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", device.child.id()));
            stat.unwrap().contains(") T ")
        });
        let held = ["kiln.sock", "metrics.sock", "kiln.sock"].map(|socket| {
            let (slow, peer) = lingering();
            let mut late = Raw::connect(&device.path(socket));
            late.send_bytes(&message(3, 0, &[]), &[slow.as_raw_fd()]);
            (late, peer)
        });
        signal(libc::SIGCONT);
        victim.is_served();
        if isolation {
            Victim::at(&device, "other.sock").is_served();
            assert!(device.metrics().contains("kiln_refused_total"));
            end(device, &["connection rejected"]);
        } else {
            // Control: without isolation, the device blocks and does not answer clients of the
            // metrics.
            let mut client = UnixStream::connect(device.path("metrics.sock")).unwrap();
            let limit = Some(std::time::Duration::from_secs(1));
            client.set_read_timeout(limit).unwrap();
            client.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
            let answer = client.read(&mut [0; 16]);
            assert!(answer.is_err(), "{answer:?}");
        }
        drop(held);
    }
}

/// A request in stateless format carries its own key, which does not belong to a session. The key
/// must be wiped after the request.
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
    // Control: a string that is known to be in memory must be found.
    if search(b"KILN_SERVE_FORK")
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

const INFLIGHT: u64 = 1 << 12;
const STATUS: u64 = 1 << 16;
const IN_ORDER: u64 = 1 << 35;
const RING_RESET: u64 = 1 << 40;

/// Returns whether the device's notes (`inflight.rs`) show that a process ended while writing the
/// answer to a request. The request starts at descriptor `head` of the first queue.
fn is_half_answered(notes: &File, head: u16) -> bool {
    let mut state = [0; 2];
    let at = 16 + 16 * u64::from(head);
    std::os::unix::fs::FileExt::read_exact_at(notes, &mut state, at).unwrap();
    state == [1, 1]
}

/// The status `VIRTIO_CRYPTO_ERR`, which the device reports for a request that failed.
const ERR: u8 = 1;

/// Each request's output overwrites its input, so a request that is executed twice would encrypt
/// its text twice.
#[test]
fn a_process_that_was_killed_loses_no_request_and_does_none_twice() {
    const REQUESTS: u16 = 20;
    let device = Device::start(&["--max-ops", "100"]);
    let path = device.path("kiln.sock");
    let mut victim = Victim::new(&device);
    for at in [0, 1, 2, 7, 15] {
        let file = memfd(SIZE, 0);
        let mut raw = Raw::connect(&path).wants(IN_ORDER, 0);
        raw.hello(INFLIGHT);
        let (told, inflight) = raw.ask_inflight(3, raw::RING as u16).unwrap();
        assert!(raw.table(SIZE, &file) && raw.give_inflight(&told, &inflight) && raw.ring(0));
        raw.pile_up_in_place(REQUESTS);
        let mut cut_off = std::collections::BTreeSet::new();
        for at in [at, at + 3] {
            until("some are answered", || raw.used() >= at);
            let ((), process) = device.process_of(|| ());
            // SAFETY: kill() does not access memory, and the process is running.
            assert_eq!(unsafe { libc::kill(process as i32, libc::SIGKILL) }, 0);
            raw.until_closed();
            cut_off.extend((0..REQUESTS).filter(|n| is_half_answered(&inflight, 3 * n)));
            raw.reconnect(&path);
            raw.hello(INFLIGHT);
            assert!(raw.table(SIZE, &file) && raw.give_inflight(&told, &inflight));
            // Continue from the used index, as QEMU does.
            assert!(raw.goes_on(raw.used()));
        }
        until("all are answered", || raw.used() == REQUESTS);
        // Each kill may have cut off one answer. A request whose answer was cut off must not be
        // served again.
        assert!(cut_off.len() <= 2, "{cut_off:?}");
        let mut whole = (0..REQUESTS).filter(|n| !cut_off.contains(n));
        let first = raw.in_place(whole.next().unwrap());
        assert!(first.1 == 0 && first.0 != [3; 64], "{first:?}");
        for n in whole {
            assert_eq!(raw.in_place(n), first, "request {n}");
        }
        for n in cut_off {
            assert_eq!(raw.in_place(n).1, ERR, "request {n}");
        }
        victim.is_served();
    }
    end(device, &["its process ended"]);
}

#[test]
fn notes_on_requests_in_flight_may_say_anything() {
    let device = Device::start(&[]);
    let path = device.path("kiln.sock");
    let mut victim = Victim::new(&device);
    let connect = || {
        let mut raw = Raw::connect(&path);
        raw.hello(INFLIGHT);
        raw
    };
    // Request in-flight memory with an invalid number of queues or an invalid size.
    for (queues, size) in [(0, 64), (4, 64), (u16::MAX, 64), (3, 0), (3, u16::MAX)] {
        let mut raw = connect();
        assert!(
            raw.ask_inflight(queues, size).is_none(),
            "{queues} of {size}"
        );
        victim.is_served();
    }
    // Request in-flight memory without having negotiated the feature.
    let mut raw = Raw::connect(&path);
    raw.hello(0);
    assert!(raw.ask_inflight(3, 64).is_none());
    let (told, good) = connect().ask_inflight(3, 64).unwrap();
    assert!(
        good.set_len(0).is_err(),
        "what the device has made cannot shrink"
    );
    // Pass in-flight memory with invalid sizes, offsets and files.
    let with = |size: u64, offset: u64| {
        [&size.to_le_bytes()[..], &offset.to_le_bytes(), &told[16..]].concat()
    };
    let size = u64::from_le_bytes(told[..8].try_into().unwrap());
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    for (told, file) in [
        (with(size - 1, 0), &good),
        (with(u64::MAX, u64::MAX - 4095), &good),
        (with(size, 1 << 40), &good),
        (with(size, 8), &good),
        (with(size, 0), &memfd(2048, 0)),
        (with(size, 0), &null),
    ] {
        let mut raw = connect();
        assert!(!raw.give_inflight(&told, file));
        raw.until_closed();
        victim.is_served();
    }
    // Pass in-flight memory with arbitrary content. The device need not serve the requests, but
    // other guests must not be affected.
    for byte in [0u8, 1, 2, 0x7f, 0xff] {
        let mut raw = connect();
        let file = memfd(SIZE, 0);
        let notes = memfd(size, 0);
        std::os::unix::fs::FileExt::write_all_at(&notes, &vec![byte; size as usize], 0).unwrap();
        assert!(raw.table(SIZE, &file) && raw.give_inflight(&told, &notes) && raw.ring(0));
        raw.pile_up_in_place(5);
        until("all are handed back", || raw.used() == 5);
        // Truncate the in-flight memory while the device is using it.
        notes.set_len(0).unwrap();
        raw.kick();
        raw.send_bytes(&message(11, 0, &[0; 8]), &[]);
        raw.until_closed();
        victim.is_served();
    }
    // Start a ring that is larger than the queue size given in the request for in-flight memory.
    let mut raw = connect();
    let (told, small) = raw.ask_inflight(3, 16).unwrap();
    assert!(raw.table(SIZE, &memfd(SIZE, 0)) && raw.give_inflight(&told, &small));
    assert!(!raw.ring(0));
    victim.is_served();
    end(device, &["no room in the in-flight memory"]);
}

#[test]
fn a_status_shows_what_was_agreed_on_and_that_a_ring_is_broken() {
    const ACKNOWLEDGE: u64 = 1;
    const DRIVER: u64 = 2;
    const DRIVER_OK: u64 = 4;
    const FEATURES_OK: u64 = 8;
    const NEEDS_RESET: u64 = 64;
    let device = Device::start(&[]);
    let mut victim = Victim::new(&device);
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(STATUS);
    let begun = ACKNOWLEDGE | DRIVER | FEATURES_OK;
    assert!(raw.status() == Some(0) && raw.set_status(begun));
    assert_eq!(raw.status(), Some(begun));
    assert!(raw.table(SIZE, &memfd(SIZE, 0)) && raw.ring(0));
    assert!(raw.set_status(begun | DRIVER_OK));
    assert_eq!(raw.status(), Some(begun | DRIVER_OK));
    raw.break_ring();
    until("the status has NEEDS_RESET", || {
        raw.status() == Some(begun | DRIVER_OK | NEEDS_RESET)
    });
    // A driver that has reset the device must negotiate features again.
    assert!(raw.set_status(0) && raw.status() == Some(0));
    assert!(raw.set_status(begun));
    assert_eq!(raw.status(), Some(ACKNOWLEDGE | DRIVER));
    // Set an invalid status, and request the status without having negotiated the feature.
    assert!(!raw.set_status(256));
    raw.until_closed();
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(0);
    assert_eq!(raw.status(), None);
    victim.is_served();
    end(
        device,
        &[
            "a device status must be one byte",
            "a feature that was not negotiated",
        ],
    );
}

/// With RING_RESET, a driver is allowed to reset only its control queue and keep its sessions
/// (virtio specification, 2.6.1). Without RING_RESET, a restart of the control queue means that the
/// driver was reset.
#[test]
fn a_queue_that_is_reset_alone_keeps_the_sessions() {
    let device = Device::start(&[]);
    for more in [RING_RESET | IN_ORDER, RING_RESET, 0] {
        let stream = UnixStream::connect(device.path("kiln.sock")).unwrap();
        let mut guest = Guest::with(stream, 2, more);
        let session = guest.create();
        guest.reset_queue(true);
        assert_eq!(guest.encrypt(session).1, 0, "a data queue");
        guest.reset_queue(false);
        let is_kept = guest.encrypt(session).1 == 0;
        assert_eq!(is_kept, more != 0, "{more:#x}");
        // A broken queue must be served again after it is reset.
        let session = guest.create();
        guest.break_ring();
        guest.reset_queue(true);
        assert_eq!(guest.encrypt(session).1, 0);
        // Negotiate features before the queue restarts, which tells the device that the driver was
        // reset. The session must then be gone.
        let features = guest.front_end.get_features().unwrap();
        guest
            .front_end
            .set_features(features & (1 << 32 | 1 << 30 | more))
            .unwrap();
        guest.reset_queue(false);
        assert_ne!(guest.encrypt(session).1, 0, "{more:#x}");
    }
    end(device, &["the driver was reset"]);
}
