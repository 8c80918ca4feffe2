//! Tests what a malicious front end could do after taking over the process that serves its guest.
//! The tests cover what this process shares with the main process, how this process is ended, and
//! other ways to make the main process wait.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use vmm_sys_util::sock_ctrl_msg::ScmSocket;

use super::held::asleep;
use super::{end, Victim};
use crate::device::{until, Device};
use crate::guest::{memfd, Guest};
use crate::raw::{message, Raw, SIZE};

/// Returns the files that the descriptors of a process refer to, except `/dev/null`.
fn files(pid: u32) -> BTreeSet<String> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let target = |link: std::fs::DirEntry| std::fs::read_link(link.path()).ok();
    links
        .flatten()
        .filter_map(target)
        .map(|file| file.to_string_lossy().into_owned())
        .filter(|file| file != "/dev/null")
        .collect()
}

/// A process that was taken over can lock and modify the files that it has open. It has no
/// descriptor for the log, for a pipe to the main process, or for the memory that holds the
/// counters. The main process holds the in-flight memory only to send it to the front end, and does
/// not map it.
#[test]
fn a_guests_process_shares_a_connection_and_memory_with_the_main_process() {
    // Without the sandbox, a process of the same user can list the descriptors.
    let device = Device::start(&["--no-sandbox"]);
    let (mut victim, guest) = device.process_of(|| Victim::new(&device));
    victim.is_served();
    let [ours, theirs] = [device.child.id(), guest].map(files);
    // Ignore eventfds, because all of them have the same name.
    let eventfd = "anon_inode:[eventfd]";
    let both = ours.intersection(&theirs).filter(|file| *file != eventfd);
    let both: Vec<_> = both.collect();
    assert!(
        both.len() == 2
            && both[0].contains("memfd:kiln-inflight")
            && both[1].starts_with("socket:"),
        "{both:?}"
    );
    let maps = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    assert!(!maps(device.child.id()).contains("kiln-inflight"));
    let log = std::fs::read_link(format!("/proc/{}/fd/2", device.child.id())).unwrap();
    let log = log.to_string_lossy().into_owned();
    let memory = "memfd:kiln-shared";
    for file in [&log[..], "pipe:", memory] {
        let has = |files: &BTreeSet<String>| files.iter().any(|name| name.contains(file));
        assert!(!has(&theirs), "{file}: {theirs:?}");
        assert!(file == memory || has(&ours), "the control: {file}");
    }
    // Control: the process has mapped the counters, and its messages appear in the log.
    assert!(maps(guest).contains(memory), "{}", maps(guest));
    end(device, &["connected guest=1"]);
}

/// When a process is reaped, the kernel detaches whatever is mounted on the process's directory in
/// `/proc`, which can block the reaper for ever. Here, the main process is stopped and cannot reap.
#[test]
fn a_process_that_exits_is_not_reaped_by_the_main_process() {
    let exists = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
    // SAFETY: kill() does not access memory. The process is running or has not been waited for.
    let kill = |pid: u32| assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGKILL) }, 0);
    let device = Device::start(&[]);
    let (_victim, guest) = device.process_of(|| Victim::new(&device));
    device.signal(libc::SIGSTOP);
    kill(guest);
    until("its process is gone", || !exists(guest));
    // Control: a killed child exists until its parent reaps it.
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    kill(child.id());
    sleep(Duration::from_millis(300));
    assert!(exists(child.id()), "the control");
    child.wait().unwrap();
    assert!(!exists(child.id()));
    device.signal(libc::SIGCONT);
    until("the main process has noticed it", || {
        !device.metrics().contains("guest=\"1\"")
    });
    Victim::new(&device).is_served();
    end(device, &["its process ended"]);
}

/// Returns whether the kernel can report which process made a connection (Linux 6.5).
fn knows_front_ends() -> bool {
    let (stream, _other) = UnixStream::pair().unwrap();
    let (mut fd, mut len) = (-1, size_of::<i32>() as libc::socklen_t);
    // SAFETY: both pointers are valid during the call, and nothing else owns the new descriptor.
    unsafe {
        let done = libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            std::ptr::from_mut(&mut fd).cast(),
            &mut len,
        );
        drop((done == 0).then(|| std::os::fd::OwnedFd::from_raw_fd(fd)));
        done == 0
    }
}

/// Connects from another process. Returns a socket and the connection. The other process exits when
/// the socket is closed.
fn connect_elsewhere(path: &Path) -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    // SAFETY: the child only makes system calls and allocates, which the C library allows after a
    // fork, and exits with _exit().
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(ours);
        if let Ok(stream) = UnixStream::connect(path) {
            let _ = theirs.send_with_fd(&[0u8][..], stream.as_raw_fd());
            // Keep this child process running until the parent closes its end of the socket pair.
            let _ = std::io::Read::read(&mut &theirs, &mut [0]);
        }
        // SAFETY: the call ends the process.
        unsafe { libc::_exit(0) }
    }
    drop(theirs);
    let (_, connection) = ours.recv_with_fd(&mut [0]).unwrap();
    let connection = std::os::fd::OwnedFd::from(connection.expect("a descriptor"));
    (ours, connection.into())
}

/// The front end can send a process that was taken over a descriptor of its own end of the
/// connection. As long as the process keeps this descriptor, the connection does not hang up. Here,
/// the test itself keeps the descriptor.
#[test]
fn a_guest_loses_its_place_when_the_process_that_connected_exits() {
    if !knows_front_ends() {
        println!("SKIPPED: this kernel does not tell which process made a connection");
        return;
    }
    let device = Device::start(&["--max-guests", "1"]);
    let (front_end, connection) = connect_elsewhere(&device.path("kiln.sock"));
    let copy = connection.try_clone().unwrap();
    let mut guest = Guest::on(connection, 2);
    let session = guest.create();
    // Control: the guest is served as long as the process that made the connection exists.
    sleep(Duration::from_secs(1));
    assert_eq!(guest.encrypt(session).1, 0);
    drop(front_end);
    until("its process is gone", || device.threads().is_empty());
    Victim::new(&device).is_served();
    drop(copy);
    end(device, &["its front end is gone"]);
}

/// Returns a client of the metrics that has sent the beginning of a request.
fn client(device: &Device) -> UnixStream {
    let mut stream = UnixStream::connect(device.path("metrics.sock")).unwrap();
    stream.write_all(b"G").unwrap();
    stream
}

/// Each client occupies a child process for at most one second, and takes none of the main
/// process's time.
#[test]
fn clients_of_the_metrics_that_stop_halfway_hold_child_processes_only() {
    const AT_ONCE: usize = 8;
    let device = Device::start(&[]);
    let mut victim = Victim::new(&device);
    until("a spare process is there", || device.children().len() == 2);
    let clients: Vec<_> = (0..2 * AT_ONCE).map(|_| client(&device)).collect();
    until("each has a child process", || {
        device.children().len() >= 2 + AT_ONCE
    });
    victim.is_served();
    Victim::new(&device).is_served();
    assert!(device.metrics().contains("kiln_connections_total 2"));
    drop(clients);
    until("they are gone", || device.children().len() == 2);
    end(device, &[]);
}

/// A device without isolation must be able to stop even if a front end blocks one of its threads.
/// The seccomp filter of such a device must allow all system calls that are needed to stop.
#[test]
fn a_device_without_isolation_stops_although_a_thread_is_blocked() {
    let device = Device::start(&["--no-isolation"]);
    let _held = asleep(&device);
    let _client = UnixStream::connect(device.path("metrics.sock")).unwrap();
    assert!(device.metrics().contains("kiln_connections_total 1"));
    end(device, &["stopped"]);
}

/// Returns the status of each thread of a process.
fn statuses(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
        .collect()
}

/// Waits until a device has exactly one child process and that process has this many threads.
/// Returns its PID.
fn process_with(device: &Device, threads: usize) -> u32 {
    let mut process = None;
    until("a process has all its threads", || {
        process = match device.children()[..] {
            [one] if statuses(one).len() == threads => Some(one),
            _ => None,
        };
        process.is_some()
    });
    process.unwrap()
}

/// Connects a front end that starts all rings of a device with two data queues. Calls `before`
/// between the handshake and the start of the rings.
fn start_all_rings(device: &Device, before: impl FnOnce()) -> Raw {
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(0);
    before();
    let file = memfd(SIZE, 0);
    assert!(raw.table(SIZE, &file), "memory");
    assert!(raw.ring(0), "a data queue");
    assert!(raw.idle_ring(1, 0), "the other data queue");
    assert!(raw.idle_ring(2, 0), "the control queue");
    raw
}

/// A process that was taken over cannot create threads, because its seccomp filter forbids that
/// from the moment the process is ready for a guest (`what_a_taken_over_process_tries_ends_it`).
#[test]
fn a_guests_process_has_all_its_threads_before_it_has_a_guest() {
    // One thread each for the process itself, the connection, and the three queues. With `thread`,
    // the control queue has a second thread.
    for (control, all) in [("inline", 5), ("thread", 6)] {
        let device = Device::start(&["--ctrl", control]);
        let process = process_with(&device, all);
        let mut raw = start_all_rings(&device, || {});
        assert_eq!(device.process_of(|| ()).1, process);
        // threads() counts only threads whose names contain a guest's number. This excludes the
        // first thread and the control queue's second thread.
        until("all rings have started", || device.threads().len() == 4);
        assert!(raw.encrypts_with(b"key of one reque"), "it is served");
        let statuses = statuses(process);
        assert_eq!(statuses.len(), all);
        let filters = |status: &String| {
            let lines = status.lines().filter(|line| line.starts_with("Seccomp"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let filters: BTreeSet<_> = statuses.iter().map(filters).collect();
        assert_eq!(filters.len(), 1, "all threads have the same: {filters:?}");
        drop(raw);
        end(device, &[]);
    }
}

/// Prevents a process of the device, and the processes it starts, from creating processes or
/// threads.
fn limit_tasks(process: u32) {
    const NOBODY: libc::uid_t = 65534;
    let limit = libc::rlimit {
        rlim_cur: 1,
        rlim_max: 1,
    };
    // SAFETY: the child only makes system calls and exits with _exit(). All pointers are null or
    // point to local variables.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            // Only a process of the same user is allowed to set the limit. If the test runs as
            // root, the device runs as user 65534, so switch to that user.
            let is_same = libc::geteuid() != 0
                || libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
                    && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0;
            let old = std::ptr::null_mut();
            let done = libc::prlimit(process as i32, libc::RLIMIT_NPROC, &limit, old);
            libc::_exit(i32::from(!is_same || done != 0));
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "the limit is set");
    }
}

/// Other programs can use up all the tasks that the device is allowed to have, so serving a
/// connected guest must not require a new task.
#[test]
fn a_guest_that_is_connected_needs_no_further_task() {
    let device = Device::start(&[]);
    let mut raw = start_all_rings(&device, || limit_tasks(device.process_of(|| ()).1));
    assert!(raw.encrypts_with(b"key of one reque"), "it is served");
    end(device, &[]);
    // Control: without isolation, threads are created for each connection.
    let device = Device::start(&["--no-isolation"]);
    Victim::new(&device).is_served();
    limit_tasks(device.child.id());
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    assert!(!raw.try_hello(0));
    end(device, &["connection rejected"]);
}

/// Any user can delay an exec(), so the main process must never wait for an exec() to finish, and
/// must not need one to serve a guest. Control: without the fork server, no further guest is
/// served.
#[test]
fn a_fork_server_that_hangs_or_dies_delays_new_guests_only() {
    let device = Device::start(&[]);
    let mut victim = Victim::new(&device);
    until("a spare process is there", || device.children().len() == 2);
    let server = device.fork_server().unwrap();
    // SAFETY: kill() does not access memory, and the process is running.
    let kill = |pid: u32, signal| assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
    kill(server, libc::SIGSTOP);
    Victim::new(&device).is_served();
    let mut waits = UnixStream::connect(device.path("kiln.sock")).unwrap();
    let hello = [message(3, 0, &[]), message(1, 0, &[])].concat();
    waits.write_all(&hello).unwrap();
    let limit = |ms| Some(Duration::from_millis(ms));
    waits.set_read_timeout(limit(500)).unwrap();
    assert!(waits.read(&mut [0; 20]).is_err(), "the control");
    assert!(device.metrics().contains("kiln_connections_total 2"));
    victim.is_served();
    // The main process kills a fork server that has not answered for 5 s, and starts another one.
    waits.set_read_timeout(limit(60_000)).unwrap();
    waits.read_exact(&mut [0; 20]).unwrap();
    let next = device.fork_server().unwrap();
    assert_ne!(next, server);
    kill(next, libc::SIGKILL);
    for _ in 0..3 {
        Victim::new(&device).is_served();
    }
    victim.is_served();
    end(device, &["cannot start a process for a guest"]);
}
