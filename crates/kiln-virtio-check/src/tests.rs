//! Tests that Kiln's own device passes all checks, and that every kind of check can fail.

use std::io::Write;
use std::net::Shutdown;
use std::os::fd::{AsFd, IntoRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use kiln_device::{Config, Limits, Server};
use kiln_virtio::wire::Status;

use rustix::fs::MemfdFlags;

use crate::conform::{in_session, open, usable};
use crate::link::{Came, Queue, INDIRECT, PATIENCE};
use crate::naive::Naive;
use crate::rings::{hostile, CANARY};
use crate::{list, names, offer, raw, resources, rule, run, Fault, Group, Offer, Target, Verdict};

/// Returns a guard that a test holds while it opens many file descriptors. Such tests therefore run
/// one at a time and do not exceed this process's limit.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `check` while a device serves on the target's socket.
fn served(max_request: usize, check: impl FnOnce(&Target)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("device");
    let config = Config {
        sockets: vec![path.clone()],
        queues: 1,
        // Admit many guests per second, because some checks connect many front ends within their
        // time limit.
        max_new_guests: 1000,
        limits: Limits {
            max_sessions: 64,
            max_request,
            ..Limits::default()
        },
        // The sandbox is disabled because it is irreversible and this process also runs other
        // tests. Isolation is disabled because this program cannot run as the process that serves a
        // guest.
        sandbox: false,
        isolation: false,
        shares_process: true,
        ..Config::default()
    };
    let server = Server::bind(config).unwrap();
    let (stop, rings) = UnixStream::pair().unwrap();
    thread::scope(|s| {
        s.spawn(|| server.run(rings.as_fd()).unwrap());
        check(&Target {
            path,
            stop: Default::default(),
        });
        drop(stop);
    });
}

#[test]
fn own_device() {
    let _alone = alone();
    served(Limits::default().max_request, |target| {
        let offer = offer(target).unwrap();
        assert!(names(&offer).len() >= 130, "{}", names(&offer).len());
        // Skip the checks in which a front end's memory disappears. Such checks kill the process
        // that serves the front end, which is the test process here.
        let cases = crate::cases(&offer).into_iter();
        let ends = |name: &str| {
            is_of_a_front_end(name) || name.starts_with("INFLIGHT_SHMFD: a corrupted record")
        };
        let cases: Vec<_> = cases.filter(|case| !ends(&case.name)).collect();
        let rows: Vec<_> = cases.into_iter().map(|case| case.run(target)).collect();
        let failed: Vec<_> = rows
            .iter()
            .filter(|row| matches!(row.verdict, Verdict::Fail(_)))
            .collect();
        assert!(failed.is_empty(), "{failed:#?}");
        let passed = rows.iter().filter(|row| row.verdict == Verdict::Pass);
        assert!(passed.count() > 100);
    });
}

fn is_of_a_front_end(name: &str) -> bool {
    name.starts_with("a front end with ")
}

/// Every check has a group and a rule, and the groups are in the order of [`Group::ALL`]. For
/// section numbers, only the form is checked.
#[test]
fn every_check_has_a_group_and_a_section() {
    let all = list();
    assert!(all.len() >= 130, "{}", all.len());
    let mut groups: Vec<Group> = all.iter().map(|(group, ..)| *group).collect();
    groups.dedup();
    assert_eq!(groups, Group::ALL);
    for (group, name, rule) in all {
        let rule = rule.to_string();
        let (source, place) = rule.split_once(' ').unwrap();
        let of_a_device = place.starts_with("5.9.") || place.starts_with("2.");
        match group {
            Group::FrontEnds => assert_eq!(source, "vhost-user", "{name}"),
            Group::Features => {}
            Group::Rings if place == "Communication" => {}
            _ => assert!(source == "virtio" && of_a_device, "{name}: {rule}"),
        }
        let digits = |part: &str| part.parse::<u8>().is_ok();
        assert!(
            source != "virtio" || place.split('.').all(digits),
            "{name}: {rule}"
        );
    }
}

/// Control: every front-end check must fail on a device that stops serving as soon as a second
/// front end connects.
#[test]
fn what_a_front_end_does_to_all_others_is_seen() {
    let _alone = alone();
    served(4096, |target| {
        let offer = offer(target).unwrap();
        let cases = crate::cases(&offer).into_iter();
        let mut n = 0;
        for case in cases.filter(|case| is_of_a_front_end(&case.name)) {
            let fragile = Fragile::start();
            let target = Target {
                path: fragile.path.clone(),
                stop: target.stop.clone(),
            };
            let row = case.run(&target);
            let Verdict::Fail(what) = &row.verdict else {
                panic!("{row:?}");
            };
            // The connected driver may be served once more before the device stops, but the next
            // driver must not be served.
            let notices = ["another driver meanwhile", "the next driver"];
            assert!(notices.iter().any(|n| what.starts_with(n)), "{row:?}");
            n += 1;
        }
        assert!(n >= 19, "{n}");
    });
}

/// A device that serves one connection correctly, but stops serving altogether when a second one
/// arrives.
struct Fragile {
    path: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

impl Fragile {
    fn start() -> Fragile {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fragile");
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            let (first, _) = listener.accept().unwrap();
            let config = Config {
                inherited: vec![first.into_raw_fd()],
                queues: 1,
                sandbox: false,
                isolation: false,
                shares_process: true,
                ..Config::default()
            };
            let server = Server::bind(config).unwrap();
            let (stop, rings) = UnixStream::pair().unwrap();
            thread::scope(|s| {
                s.spawn(|| server.run(rings.as_fd()).unwrap());
                let second = listener.accept();
                drop((stop, second));
            });
        });
        Fragile { path, _dir: dir }
    }
}

/// Control: every check of resource exhaustion and of the newer features must fail on a device
/// without defences, because the device lacks the defence that the check tests.
#[test]
fn each_defence_is_missed_where_it_is_not() {
    let _alone = alone();
    let naive = Naive::start();
    let offer = offer(&naive.target()).unwrap();
    // The device must serve ordinary requests.
    let mut link = open(&naive.target(), 0).unwrap();
    assert_eq!(in_session(&mut link, &usable(&offer).unwrap()), Ok(()));
    drop(link);
    assert!(!naive.end().contains("panicked"));
    let reasons = [
        ("a front end with calls that block", "hangs: call"),
        ("a front end with huge pages that are not there", "SIGBUS"),
        ("a front end with a part of a huge page", "SIGBUS"),
        (
            "a front end with memory behind the end of its file",
            "a region inside its file",
        ),
        ("a front end with memory that is cut off", "SIGBUS"),
        (
            "a front end with memory of a device",
            "a region inside its file",
        ),
        (
            "a front end with memory of a file of a file system",
            "PermissionDenied",
        ),
        ("a front end with an address space of memory", "OutOfMemory"),
        (
            "a front end with as many regions as there may be",
            "a descriptor",
        ),
        (
            "a front end with descriptors with a message that does not end",
            "hangs: receive",
        ),
        ("a front end with silent connections", "hangs: receive"),
        (
            "a front end with connections in a loop",
            "Too many open files",
        ),
        ("a front end with a ring without a kick", "a kick"),
        (
            "a front end with a kick that is always readable",
            "hangs: kick",
        ),
        ("a front end with a flood of refused messages", "hangs: log"),
        ("a front end with unknown messages", "message "),
        (
            "a front end with wrong lengths",
            "out of range for slice of length 4096",
        ),
        (
            "a front end with descriptors where none belong",
            "one descriptor at most",
        ),
        (
            "a front end with sessions by message, with and without agreement",
            "out of range for slice",
        ),
        (
            "VIRTIO_F_IN_ORDER: buffers are returned in order",
            "was returned with head",
        ),
        (
            "VIRTIO_F_RING_RESET: a data queue is reset alone",
            "its session: status invsess",
        ),
        (
            "VIRTIO_F_RING_RESET: the control queue is reset alone",
            "its session: status invsess",
        ),
        (
            "INFLIGHT_SHMFD: the next connection continues",
            "a wrong result with status ok",
        ),
        ("INFLIGHT_SHMFD: a corrupted record", "SIGBUS"),
        ("STATUS: what is set is read", "a status of one byte"),
    ];
    let has_huge = raw::memory(2 << 20, MemfdFlags::HUGETLB).is_ok();
    let mut cases = resources::cases(&offer);
    assert_eq!(cases.len(), reasons.len(), "each has its control");
    for (name, reason) in reasons {
        let at = cases.iter().position(|case| case.name == name);
        let case = cases.swap_remove(at.unwrap_or_else(|| panic!("{name}")));
        if name.contains("huge") && !has_huge {
            eprintln!("SKIPPED: {name}: this kernel has no huge pages");
            continue;
        }
        let naive = Naive::start();
        let row = case.run(&naive.target());
        let said = naive.end();
        let Verdict::Fail(what) = &row.verdict else {
            panic!("{row:?}: {said}");
        };
        assert!(
            what.contains(reason) || said.contains(reason),
            "{row:?} for another reason than {reason:?}: {said}"
        );
    }
}

#[test]
fn indirect_descriptors_are_checked_only_if_offered() {
    let target = Target {
        path: "/".into(),
        stop: Default::default(),
    };
    for (features, wanted) in [(0, "skip"), (INDIRECT, "fail")] {
        let offer = Offer {
            features,
            ..Offer::everything()
        };
        let mut cases = crate::conform::cases(&offer);
        let at = cases.iter().position(|c| c.name == "descriptors: indirect");
        let row = cases.swap_remove(at.unwrap()).run(&target);
        assert_eq!(row.status(), wanted, "{row:?}");
    }
}

/// The checks must detect devices that serve less than they offer, accept invalid requests, write
/// where they must not, or do not serve the next driver.
#[test]
fn checks_can_fail() {
    let _alone = alone();
    served(8, |target| {
        let mut cases = crate::conform::cases(&offer(target).unwrap());
        let at = cases.iter().position(|c| c.name == "legacy: aes-cbc");
        let row = cases.swap_remove(at.unwrap()).run(target);
        let Verdict::Fail(what) = &row.verdict else {
            panic!("{row:?}")
        };
        assert!(what.contains("status err"), "{what}");
    });
    served(4096, |target| {
        let link = open(target, 0).unwrap();
        let vector = usable(&link.offer).unwrap();
        let accepts =
            crate::hostile::refused(rule::CIPHER, "accepts", &vector, |_, _| Ok(Status::Ok));
        assert_eq!(accepts.run(target).status(), "fail");
        let refuses =
            crate::hostile::refused(rule::CIPHER, "refuses", &vector, |_, _| Ok(Status::Err));
        assert_eq!(refuses.run(target).status(), "pass");
        let nowhere = Target {
            path: "/no/such".into(),
            stop: Default::default(),
        };
        let gone = crate::hostile::next_driver(&nowhere, &vector);
        assert!(gone.unwrap_err().starts_with("the next driver"));
        assert_eq!(hostile(target, link, &vector, |_, _| ()), Ok(()));
        let link = open(target, 0).unwrap();
        let wrote = hostile(target, link, &vector, |link, _| link.write(CANARY, &[0]));
        assert_eq!(
            wrote,
            Err("the device wrote outside the writable buffers".into())
        );
    });
}

/// A device must not be able to kill the checks with SIGBUS, so the memory that they share with it
/// cannot be truncated. Control: memory that a hostile front end shares can be truncated.
#[test]
fn the_memory_of_the_checks_cannot_be_cut_off() {
    let (file, _memory) = crate::link::shared().unwrap();
    let refused = file.set_len(0).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    let open = raw::memory(raw::SIZE, MemfdFlags::empty()).unwrap();
    open.set_len(0).unwrap();
}

/// Neither the checks nor Ctrl-C may wait for a device that does not answer, or does not even
/// accept connections.
#[test]
fn a_silent_device_holds_nothing_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("silent");
    let silent = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&silent, 1).unwrap();
    let target = Target {
        path: path.clone(),
        stop: Default::default(),
    };
    let fault = offer(&target).unwrap_err();
    assert_eq!(fault, Fault::Late("answer GET_FEATURES"));
    let stopped = Target {
        path,
        stop: Arc::new(true.into()),
    };
    assert_eq!(offer(&stopped).unwrap_err(), Fault::Stopped);
    // The kernel queues only a few connections that have not been accepted. Connect until it
    // refuses more.
    let mut waiting = Vec::new();
    let fault = loop {
        match crate::link::reach(&stopped) {
            Ok(socket) => waiting.push(socket),
            Err(e) => break e,
        }
    };
    assert_eq!(fault.kind(), std::io::ErrorKind::WouldBlock);
    let fault = offer(&target).unwrap_err();
    assert_eq!(fault, Fault::Late("accept the connection"));

    served(4096, |target| {
        let mut link = open(target, 0).unwrap();
        assert_eq!(link.wait(Queue::Data, PATIENCE / 50), Came::Silence);
        target.stop.store(true, Ordering::Relaxed);
        assert_eq!(link.wait(Queue::Data, PATIENCE), Came::Stopped);
        let mut told = 0;
        let offer = link.offer;
        assert!(run(target, &offer, &mut |_| told += 1).is_empty() && told == 0);
    });
}

/// The flag that marks vhost-user messages as replies.
const REPLY: u32 = 4;

/// Runs `answer` on the first connection, and returns the fault that `offer()` reports. The
/// connection stays open until `offer()` has returned.
fn fault_of(answer: impl FnOnce(&mut UnixStream) + Send) -> Fault {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("peer");
    let listener = UnixListener::bind(&path).unwrap();
    let (over, told) = channel::<()>();
    thread::scope(|s| {
        s.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            answer(&mut stream);
            let _ = told.recv();
        });
        let stop = Default::default();
        let fault = offer(&Target { path, stop }).unwrap_err();
        drop(over);
        fault
    })
}

/// A peer that does not answer may still be a virtio-crypto device, so "not a virtio-crypto device"
/// is reported only for a wrong answer. If an answer is missing, the error states which one, how
/// long Kiln waited, and what to do.
#[test]
fn a_slow_answer_is_not_called_a_wrong_one() {
    let features = |offered| {
        move |stream: &mut UnixStream| {
            let answer = raw::message(raw::GET_FEATURES, REPLY, &raw::words(&[offered]));
            stream.write_all(&answer).unwrap();
        }
    };
    thread::scope(|s| {
        // These two devices do not answer, so each call waits for the full time limit.
        let silent = s.spawn(|| fault_of(|_| ()));
        let stops = s.spawn(|| fault_of(features(1 << 32 | 1 << 30)));
        // The answers are wrong in three ways: not vhost-user messages, features without virtio 1,
        // and features without virtio 1 after a delay.
        let noise = |stream: &mut UnixStream| {
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .unwrap();
        };
        let slow = |stream: &mut UnixStream| {
            thread::sleep(PATIENCE / 10);
            features(1 << 30)(stream);
        };
        for wrong in [fault_of(noise), fault_of(features(1 << 30)), fault_of(slow)] {
            assert!(matches!(wrong, Fault::Device(_)), "{wrong}");
            let text = wrong.to_string();
            assert!(
                text.starts_with("the peer is not a virtio-crypto device"),
                "{text}"
            );
        }
        let silent = silent.join().unwrap();
        assert_eq!(silent, Fault::Late("answer GET_FEATURES"));
        let text = silent.to_string();
        for part in ["GET_FEATURES", "within 5 seconds", "log", "try again"] {
            assert!(text.contains(part), "{part} in: {text}");
        }
        assert!(!text.contains("not a virtio-crypto device"), "{text}");
        let stops = stops.join().unwrap();
        assert_eq!(stops, Fault::Late("answer GET_PROTOCOL_FEATURES"));
        // A closed connection is reported as a refusal, not as a late answer.
        let gone = fault_of(|stream| stream.shutdown(Shutdown::Both).unwrap());
        assert_eq!(gone, Fault::Refused);
    });
}

#[test]
fn after_the_device_has_ended_the_rest_is_skipped() {
    let mut known = None;
    served(4096, |target| {
        known = Some((offer(target).unwrap(), target.path.clone()))
    });
    let (offer, path) = known.unwrap();
    // The device has exited before the first check that connects, so that check fails.
    let target = Target {
        path,
        stop: Default::default(),
    };
    let rows = run(&target, &offer, &mut |_| ());
    assert_eq!(rows.len(), names(&offer).len());
    let failed = |row: &crate::Row| row.status() == "fail";
    let first = rows.iter().position(failed).unwrap();
    let Verdict::Fail(what) = &rows[first].verdict else {
        unreachable!()
    };
    assert!(what.ends_with("nothing listens on its socket"), "{what}");
    let why = format!("the device has ended in the check '{}'", rows[first].case);
    let skipped = |row: &crate::Row| matches!(&row.verdict, Verdict::Skip(w) if *w == why);
    assert!(rows[first + 1..].iter().all(skipped));
}

/// The device can fill the counter of a kick eventfd and make the eventfd blocking, so no check may
/// wait for a write.
#[test]
fn a_kick_that_the_device_holds_holds_no_check() {
    let kick = Arc::new(raw::event().unwrap());
    rustix::io::write(&*kick, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    raw::ring(&kick).unwrap();
    // Control: a blocking write does block.
    let (done, ended) = channel();
    let held = kick.clone();
    let thread = thread::spawn(move || {
        rustix::io::write(&*held, &1_u64.to_ne_bytes()).unwrap();
        done.send(()).unwrap();
    });
    assert!(ended.recv_timeout(PATIENCE / 20).is_err());
    // Each read lets the blocked writes continue.
    while !thread.is_finished() {
        rustix::io::read(&*kick, &mut [0; 8]).unwrap();
        rustix::io::write(&*kick, &1_u64.to_ne_bytes()).unwrap();
        thread::yield_now();
    }
}

/// Returns whether this process holds a lock on the file. A process loses its lock when it closes
/// any descriptor for the file.
fn has_lock(file: &std::fs::File) -> bool {
    let inode = format!(":{} ", rustix::fs::fstat(file).unwrap().st_ino);
    let own = format!(" {} ", std::process::id());
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks
        .lines()
        .any(|line| line.contains(&inode) && line.contains(&own))
}

/// A device can attach a descriptor to any answer, and closing a descriptor can block forever (a
/// file on FUSE). The checks therefore receive only descriptors that they requested.
#[test]
fn a_descriptor_that_was_not_asked_for_is_never_received() {
    use rustix::fs::FlockOperation;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("device");
    let listener = UnixListener::bind(&path).unwrap();
    let file = std::fs::File::create(dir.path().join("file")).unwrap();
    let target = Target {
        path,
        stop: Default::default(),
    };
    let mut checks = raw::Raw::connect(&target).unwrap();
    let (device, _) = listener.accept().unwrap();
    let answer = || {
        let bytes = raw::message(raw::GET_FEATURES, REPLY, &[0; 8]);
        raw::send_with(&device, &bytes, &[file.as_fd()]).unwrap();
    };
    rustix::fs::fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
    answer();
    assert!(checks.ask(raw::GET_FEATURES, &[]).is_some());
    assert!(has_lock(&file));
    // Control: a descriptor that was requested is received and then closed.
    answer();
    assert!(checks.ask_file(raw::GET_FEATURES, &[]).is_some());
    assert!(!has_lock(&file));
}
