//! Tests the control queue and data queues with devices that violate the protocol.

use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use kiln_driver::{Data, Driver, Error, Lie, Mode, Options, Wishes};
use kiln_virtio::wire::algo;

use crate::data::{job, xts};
use crate::device::{Conduct, Device};
use crate::{cbc, cipher, options};

/// Checks that the driver reports this violation and stops using the device, in both waiting modes,
/// with and without indirect descriptors.
fn caught(conduct: Conduct, is: fn(Lie) -> bool) {
    for mode in [Mode::Wait, Mode::Poll] {
        for indirect in [true, false] {
            let device = Device::start(&[conduct]);
            let wishes = Wishes {
                indirect,
                ..Wishes::default()
            };
            let options = Options {
                wishes,
                ..options(mode)
            };
            let driver = Driver::connect(device.path(), options).unwrap();
            let told = driver.control().create(cbc(16)).map(drop);
            let lie = match told {
                Err(Error::Lied(lie)) => lie,
                // The device returns each answer twice. The first one is valid.
                Ok(()) if conduct == Conduct::Twice => {
                    match driver.control().create(cbc(16)).map(drop) {
                        Err(Error::Lied(lie)) => lie,
                        told => panic!("{mode:?}: {told:?}"),
                    }
                }
                told => panic!("{mode:?}: {told:?}"),
            };
            assert!(is(lie), "{lie:?}");
            assert!(device.lies.load(Ordering::SeqCst) > 0);
            let again = driver.control().create(cbc(16)).map(drop);
            assert!(matches!(again, Err(Error::Lied(_))), "{again:?}");
        }
    }
}

#[test]
fn a_used_entry_that_no_request_has() {
    caught(Conduct::Id(7), |lie| lie == Lie::Id(7));
    caught(Conduct::Id(u32::MAX), |lie| lie == Lie::Id(u32::MAX));
    // The lower 16 bits of this index would be a valid descriptor.
    caught(Conduct::Id(1 << 16), |lie| lie == Lie::Id(1 << 16));
}

#[test]
fn more_bytes_than_there_is_room_for() {
    let is = |lie| matches!(lie, Lie::Length { allowed: 16, .. });
    caught(Conduct::Length(17), is);
    caught(Conduct::Length(u32::MAX), is);
}

#[test]
fn more_answers_than_requests() {
    let is = |lie| matches!(lie, Lie::Index { held: 1, .. });
    caught(Conduct::Index(2), is);
    caught(Conduct::Index(u16::MAX), is);
}

#[test]
fn the_same_answer_twice() {
    // When the second answer arrives, the descriptor may already belong to a close request, which
    // has space only for a status. If so, the driver reports a wrong length.
    caught(Conduct::Twice, |lie| {
        matches!(
            lie,
            Lie::Id(_) | Lie::Index { .. } | Lie::Length { allowed: 1, .. }
        )
    });
}

#[test]
fn descriptors_that_the_device_wrote_over_are_not_believed() {
    for mode in [Mode::Wait, Mode::Poll] {
        let device = Device::start(&[Conduct::Scribble]);
        let driver = Driver::connect(device.path(), options(mode)).unwrap();
        for _ in 0..300 {
            let session = driver.control().create(cbc(16)).unwrap();
            driver.control().close(session).unwrap();
        }
        assert!(device.lies.load(Ordering::SeqCst) >= 600);
    }
}

#[test]
fn an_answer_that_nobody_wrote_is_a_refusal() {
    let device = Device::start(&[Conduct::Empty]);
    let driver = Driver::connect(device.path(), options(Mode::Wait)).unwrap();
    let told = driver.control().create(cbc(16)).map(drop);
    assert_eq!(told, Err(Error::Status(1)));
    assert_eq!(driver.control().sessions(), 0);
}

#[test]
fn a_status_that_there_is_not_is_a_refusal() {
    let device = Device::start(&[Conduct::Status(99)]);
    let driver = Driver::connect(device.path(), options(Mode::Wait)).unwrap();
    let told = driver.control().create(cbc(16)).map(drop);
    assert_eq!(told, Err(Error::Status(99)));
}

#[test]
fn silence_ends_in_time() {
    for mode in [Mode::Wait, Mode::Poll] {
        let device = Device::start(&[Conduct::Silent]);
        let options = Options {
            timeout: Some(Duration::from_millis(20)),
            ..options(mode)
        };
        let driver = Driver::connect(device.path(), options).unwrap();
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(
                driver.control().create(cbc(16)).map(drop),
                Err(Error::Timeout)
            );
        }
        assert!(start.elapsed() >= Duration::from_millis(60));
    }
}

/// When a program sets the stop flag, for example on Ctrl-C, every wait for a silent device must
/// end.
#[test]
fn stop_ends_every_wait() {
    for mode in [Mode::Wait, Mode::Poll] {
        let device = Device::start(&[Conduct::Silent]);
        let options = options(mode);
        let stop = options.wishes.stop.clone();
        let driver = Driver::connect(device.path(), options).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| driver.control().create(cbc(16)).map(drop));
            thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished(), "the control");
            stop.store(true, Ordering::Relaxed);
            assert_eq!(waits.join().unwrap(), Err(Error::Stopped), "{mode:?}");
        });
        assert_eq!(
            driver.control().create(cbc(16)).map(drop),
            Err(Error::Stopped)
        );
    }
    // The first device does not answer. The second one does not even accept connections.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("silent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let connect = || {
        let options = options(Mode::Wait);
        options.wishes.stop.store(true, Ordering::Relaxed);
        Driver::connect(&path, options).map(drop)
    };
    assert_eq!(connect(), Err(Error::Stopped));
    rustix::net::listen(&listener, 0).unwrap();
    assert_eq!(connect(), Err(Error::Stopped));
}

#[test]
fn a_configuration_that_cannot_be() {
    type Tamper = fn(&mut Vec<u8>);
    let tampers: [Tamper; 4] = [
        |config| config[0] = 0,
        |config| config[4..8].fill(0),
        |config| config[4..8].fill(0xff),
        |config| config[4] = 200,
    ];
    for tamper in tampers {
        let device = Device::with_config(tamper);
        let told = Driver::connect(device.path(), Options::default());
        assert!(matches!(told, Err(Error::Protocol(_))), "{:?}", told.err());
    }
}

#[test]
fn a_device_that_does_not_talk_is_hung_up_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("silent.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let options = Options {
        wishes: Wishes {
            patience: Duration::from_millis(50),
            ..Wishes::default()
        },
        ..Options::default()
    };
    let told = Driver::connect(&path, options).map(drop);
    assert_eq!(told, Err(Error::Timeout));
    drop(listener);
    let told = Driver::connect(&path, Options::default()).map(drop);
    assert!(matches!(told, Err(Error::Connect(_))), "{told:?}");
}

/// The device answers session requests correctly, then misbehaves on data queues.
#[test]
fn data_queues_catch_lies_too() {
    for (conduct, wanted) in [
        (Conduct::Id(9), Some(Lie::Id(9))),
        (
            Conduct::Length(66),
            Some(Lie::Length {
                claimed: 66,
                allowed: 65,
            }),
        ),
        (
            Conduct::Index(3),
            Some(Lie::Index {
                claimed: 3,
                held: 1,
            }),
        ),
        (Conduct::Status(2), None),
    ] {
        let device = Device::lying_about_data(conduct);
        let driver = Driver::connect(device.path(), options(Mode::Wait)).unwrap();
        let key: Vec<u8> = (0..64).collect();
        let request = cipher(algo::cipher::AES_XTS, &key);
        let session = driver.control().create(request).unwrap();
        let mut queue = driver.data_queue(0).unwrap();
        let source = driver.buffer(64).unwrap();
        let destination = Some(driver.buffer(64).unwrap());
        let data = Data {
            source,
            destination,
        };
        queue.submit(&job(&session, &xts(64)), data, 5).unwrap();
        assert!(queue.wait(1, Duration::from_secs(20)).unwrap());
        let mut done = Vec::new();
        assert_eq!(queue.reap(&mut done), 1);
        let error = match wanted {
            Some(lie) => Error::Lied(lie),
            None => Error::Status(2),
        };
        assert_eq!(done[0].tag, 5);
        assert_eq!(done[0].result, Err(error));
        assert_eq!(done[0].data.source.len(), 64, "the buffers are returned");
    }
}
