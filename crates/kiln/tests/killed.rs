//! Tests that run Kiln's device and driver in two processes and kill one of them.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::device::{until, Device};
use kiln_driver::{Data, DataQueue, Driver, Error, Job, Mode, Options, Request, Session};
use kiln_virtio::wire::data::Cipher;
use kiln_virtio::wire::{algo, session, Action, Create, Operation};

const LEN: usize = 64;
const LONG: Duration = Duration::from_secs(20);

fn key(n: usize) -> [u8; 16] {
    (n as u128 * 0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

fn request(n: usize) -> Request {
    let create = Create::Cipher(session::Cipher {
        algo: algo::cipher::AES_CBC,
        key_len: 16,
        op: algo::OP_ENCRYPT,
    });
    Request::new(create, &key(n))
}

/// Encrypts zeros in a session. Returns `None` if the device disconnects before the result arrives.
fn encrypted(driver: &Driver, queue: &mut DataQueue, session: &Session) -> Option<Vec<u8>> {
    let job = Job {
        action: Action::Encrypt,
        op: Operation::Cipher(Cipher {
            iv_len: 16,
            src_len: LEN as u32,
            dst_len: LEN as u32,
        }),
        session,
        iv: &[0; 16],
        aad: &[],
    };
    let mut source = driver.buffer(LEN).unwrap();
    source.write(0, &[0; LEN]);
    let data = Data {
        source,
        destination: None,
    };
    queue.submit(&job, data, 1).ok()?;
    assert!(queue.wait(1, LONG).unwrap());
    let mut done = Vec::new();
    queue.reap(&mut done);
    let one = done.pop().unwrap();
    match one.result {
        Ok(n) => assert_eq!(n, LEN),
        Err(Error::Lost) => return None,
        Err(e) => panic!("{e}"),
    }
    let mut bytes = vec![0; LEN];
    one.data.source.read(0, &mut bytes);
    Some(bytes)
}

fn eventually(driver: &Driver, queue: &mut DataQueue, session: &Session) -> Vec<u8> {
    let mut got = None;
    until("a result", || {
        got = encrypted(driver, queue, session);
        got.is_some()
    });
    got.unwrap()
}

/// Kills the device three times while four workers use the control queue. Every session that a
/// device has acknowledged must exist on the next device, with its key.
#[test]
fn a_device_killed_under_load_loses_nothing_that_was_acknowledged() {
    const DEATHS: usize = 3;
    let mut device = Device::start(&[]);
    let options = Options {
        mode: Mode::Wait,
        timeout: Some(LONG),
        reconnect: LONG,
        ..Options::default()
    };
    let driver = Driver::connect(&device.path("kiln.sock"), options).unwrap();
    let mut queue = driver.data_queue(0).unwrap();
    let kept: Vec<Session> = (0..5)
        .map(|n| driver.control().create(request(n)).unwrap())
        .collect();
    let before: Vec<_> = kept
        .iter()
        .map(|s| eventually(&driver, &mut queue, s))
        .collect();
    assert_ne!(before[0], before[1], "each has its own key");
    let (stop, pairs) = (AtomicBool::new(false), AtomicUsize::new(0));
    let acknowledged: Vec<Vec<(usize, Session)>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (driver, stop, pairs) = (&driver, &stop, &pairs);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let n = pairs.fetch_add(1, Ordering::Relaxed) + 100;
                        let session = driver.control().create(request(n)).unwrap();
                        // Keep one session in 64 open, and close the rest.
                        match n % 64 {
                            0 => mine.push((n, session)),
                            _ => driver.control().close(session).unwrap(),
                        }
                    }
                    mine
                })
            })
            .collect();
        for death in 1..=DEATHS {
            let so_far = pairs.load(Ordering::Relaxed);
            until("work is done", || {
                pairs.load(Ordering::Relaxed) > so_far + 300
            });
            device.signal(libc::SIGKILL);
            device.child.wait().unwrap();
            let dir = std::mem::replace(&mut device.dir, tempfile::tempdir().unwrap());
            device = Device::start_in(dir, &[]);
            until("the driver is back", || {
                driver.control().counts().recoveries >= death as u64
            });
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    let survivors: Vec<_> = acknowledged.into_iter().flatten().collect();
    assert!(survivors.len() > DEATHS, "{} sessions", survivors.len());
    for (session, before) in kept.iter().zip(&before) {
        assert_eq!(&eventually(&driver, &mut queue, session), before);
    }
    for (n, session) in &survivors {
        let fresh = driver.control().create(request(*n)).unwrap();
        assert_eq!(
            eventually(&driver, &mut queue, session),
            eventually(&driver, &mut queue, &fresh)
        );
        driver.control().close(fresh).unwrap();
    }
    // The device must have no other sessions, such as a closed session or one for which the driver
    // received no answer.
    assert_eq!(device.sessions() as usize, kept.len() + survivors.len());
}

#[test]
fn a_driver_that_is_killed_leaves_no_session() {
    let device = Device::start(&[]);
    let mut driver = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .args([
            "ctrlq",
            "--mode",
            "wait",
            "--workers",
            "4",
            "--seconds",
            "60",
        ])
        .args(["--socket", "kiln.sock"])
        .current_dir(device.dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the driver has sessions", || device.sessions() > 0);
    driver.kill().unwrap();
    driver.wait().unwrap();
    until("the sessions of the killed driver are gone", || {
        device.sessions() == 0
    });
    assert!(device.metrics().contains("kiln_sessions"));
}
