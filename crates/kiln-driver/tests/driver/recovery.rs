//! Tests with devices that disconnect, with and without a replacement.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kiln_driver::{Data, Driver, Error, Mode, Options};
use kiln_virtio::wire::algo;

use crate::data::{job, xts};
use crate::device::{Conduct, Device};
use crate::{cbc, cipher, options};

const LONG: Duration = Duration::from_secs(20);

/// Checks that threads can create and close sessions while devices die. The threads must not see an
/// error; only the counters show the reconnections.
fn survives(mode: Mode) {
    const DEATHS: usize = 4;
    let mut conducts = vec![Conduct::Dies(40); DEATHS];
    conducts.push(Conduct::Honest);
    let device = Device::start(&conducts);
    let driver = Driver::connect(device.path(), options(mode)).unwrap();
    let kept: Vec<_> = (0..3)
        .map(|_| driver.control().create(cbc(16)).unwrap())
        .collect();
    let acknowledged = AtomicUsize::new(0);
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..60 {
                    let session = driver.control().create(cbc(32)).unwrap();
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                    driver.control().close(session).unwrap();
                }
            });
        }
    });
    assert_eq!(acknowledged.into_inner(), 240);
    let counts = driver.control().counts();
    assert_eq!(counts.recoveries, DEATHS as u64, "{counts:?}");
    // The last device must have exactly the sessions that are still open, including those created
    // on the first device.
    assert_eq!(device.sessions(DEATHS), kept.len());
    assert_eq!(driver.control().sessions(), kept.len());
    for session in kept {
        driver.control().close(session).unwrap();
    }
    assert_eq!(device.sessions(DEATHS), 0);
}

#[test]
fn sleepers_survive_devices() {
    survives(Mode::Wait);
}

#[test]
fn pollers_survive_devices() {
    survives(Mode::Poll);
}

#[test]
fn callbacks_survive_devices() {
    let device = Device::start(&[Conduct::Dies(10), Conduct::Dies(30), Conduct::Honest]);
    let driver = Driver::connect(device.path(), options(Mode::Wait)).unwrap();
    let (done, told) = channel();
    let mut batch = driver.control().batch();
    for _ in 0..100 {
        let done = done.clone();
        batch.create(cbc(16), move |batch, session| {
            batch.close(session.unwrap(), move |_, result| {
                result.unwrap();
                done.send(()).unwrap();
            });
        });
    }
    driver.control().submit(batch).unwrap();
    for _ in 0..100 {
        told.recv_timeout(LONG).unwrap();
    }
    assert_eq!(driver.control().counts().recoveries, 2);
    assert_eq!(device.sessions(2), 0);
}

#[test]
fn lost_jobs_are_reported_and_the_session_goes_on() {
    let device = Device::start(&[Conduct::Dies(4), Conduct::Honest]);
    let driver = Driver::connect(device.path(), options(Mode::Wait)).unwrap();
    let request = cipher(algo::cipher::AES_CBC, &[0; 16]);
    let session = driver.control().create(request).unwrap();
    let mut queue = driver.data_queue(0).unwrap();
    let buffers = || Data {
        source: driver.buffer(64).unwrap(),
        destination: Some(driver.buffer(64).unwrap()),
    };
    // The device does not answer its fourth request. The first request created the session, so the
    // fourth is the third job.
    for tag in 0..5 {
        queue
            .submit(&job(&session, &xts(64)), buffers(), tag)
            .unwrap();
    }
    let mut done = Vec::new();
    while done.len() < 5 {
        assert!(queue.wait(5, LONG).unwrap());
        queue.reap(&mut done);
    }
    let mut tags: Vec<u64> = done.iter().map(|d| d.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [0, 1, 2, 3, 4], "each once");
    let lost: Vec<u64> = done
        .iter()
        .filter(|d| d.result == Err(Error::Lost))
        .map(|d| d.tag)
        .collect();
    assert!(lost.len() >= 3 && lost.contains(&4), "{lost:?}");
    // Buffers from before the disconnect can be used once the next device is connected.
    let mut data = done.pop().unwrap().data;
    loop {
        match queue.submit(&job(&session, &xts(64)), data, 9) {
            Ok(()) => break,
            Err(refused) => {
                assert_eq!(refused.error, Error::Lost);
                data = refused.data;
                thread::yield_now();
            }
        }
    }
    assert!(queue.wait(1, LONG).unwrap());
    done.clear();
    queue.reap(&mut done);
    assert_eq!((done[0].tag, &done[0].result), (9, &Ok(64)));
}

#[test]
fn a_device_that_stays_away_is_an_error_to_all() {
    for mode in [Mode::Wait, Mode::Poll] {
        let device = Device::start(&[Conduct::Honest]);
        let options = Options {
            reconnect: Duration::from_millis(30),
            ..options(mode)
        };
        let driver = Arc::new(Driver::connect(device.path(), options).unwrap());
        let session = driver.control().create(cbc(16)).unwrap();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let driver = driver.clone();
                thread::spawn(move || loop {
                    let created = driver.control().create(cbc(16));
                    if let Err(error) = created.and_then(|s| driver.control().close(s)) {
                        return error;
                    }
                })
            })
            .collect();
        device.kill();
        for worker in workers {
            assert_eq!(worker.join().unwrap(), Error::Lost);
        }
        assert_eq!(driver.control().close(session), Err(Error::Lost));
    }
}

#[test]
fn a_driver_that_goes_frees_its_sessions() {
    let device = Device::start(&[Conduct::Honest, Conduct::Honest]);
    let first = Driver::connect(device.path(), options(Mode::Wait)).unwrap();
    std::mem::forget(first.control().create(cbc(16)).unwrap());
    drop(first);
    let second = Driver::connect(device.path(), options(Mode::Wait)).unwrap();
    assert_eq!(device.sessions(1), 0);
    drop(second);
}
