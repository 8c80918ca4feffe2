//! Tests the control queue against a device that behaves correctly.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use kiln_driver::{Driver, Error, Mode, Options, Wishes};

use crate::device::{Conduct, Device};
use crate::{cbc, options};

fn many(mode: Mode, wishes: Wishes) {
    let device = Device::start(&[Conduct::Honest]);
    let options = Options {
        wishes,
        observe: true,
        ..options(mode)
    };
    let driver = Driver::connect(device.path(), options).unwrap();
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..50 {
                    let session = driver.control().create(cbc(16)).unwrap();
                    assert!(session.id().is_ok());
                    driver.control().close(session).unwrap();
                }
            });
        }
    });
    assert_eq!(device.sessions(0), 0);
    assert_eq!(driver.control().sessions(), 0);
    let counts = driver.control().counts();
    assert_eq!(counts.interrupts > 1, mode == Mode::Wait, "{counts:?}");
    assert!(counts.kicks > 0);
    let holds = driver.control().take_holds().unwrap();
    assert!(holds.total() >= 400, "{}", holds.total());
    assert_eq!(
        driver.control().create(cbc(15)).map(|_| ()),
        Err(Error::Status(1)),
        "no such key"
    );
}

#[test]
fn sessions_come_and_go_by_polling() {
    many(Mode::Poll, Wishes::default());
}

#[test]
fn sessions_come_and_go_by_waiting() {
    many(Mode::Wait, Wishes::default());
}

#[test]
fn and_without_event_idx_and_indirect_descriptors() {
    let wishes = Wishes {
        event_idx: false,
        indirect: false,
        ..Wishes::default()
    };
    many(Mode::Wait, wishes.clone());
    many(Mode::Poll, wishes);
}

#[test]
fn callbacks_may_ask_again() {
    let device = Device::start(&[Conduct::Honest]);
    let driver = Driver::connect(device.path(), options(Mode::Wait)).unwrap();
    // Submit more requests than fit in the queue.
    const CHAINS: usize = 600;
    let (done, told) = channel();
    let mut batch = driver.control().batch();
    for _ in 0..CHAINS {
        let done = done.clone();
        batch.create(cbc(32), move |batch, session| {
            batch.close(session.unwrap(), move |_, result| {
                result.unwrap();
                done.send(()).unwrap();
            });
        });
    }
    assert_eq!(batch.len(), CHAINS);
    driver.control().submit(batch).unwrap();
    for _ in 0..CHAINS {
        told.recv_timeout(Duration::from_secs(20)).unwrap();
    }
    assert_eq!(device.sessions(0), 0);
}

#[test]
fn a_polled_queue_calls_nobody() {
    let device = Device::start(&[Conduct::Honest]);
    let driver = Driver::connect(device.path(), options(Mode::Poll)).unwrap();
    let batch = driver.control().batch();
    assert!(matches!(
        driver.control().submit(batch),
        Err(Error::Request(_))
    ));
}

#[test]
fn what_is_dropped_is_closed_and_keys_may_be_too_long() {
    for mode in [Mode::Wait, Mode::Poll] {
        let device = Device::start(&[Conduct::Honest]);
        let driver = Driver::connect(device.path(), options(mode)).unwrap();
        drop(driver.control().create(cbc(16)).unwrap());
        // The queue is served in order, so when this call returns, all earlier requests have been
        // answered.
        let kept = driver.control().create(cbc(16)).unwrap();
        assert_eq!(device.sessions(0), 1);
        assert!(matches!(
            driver.control().create(cbc(5000)),
            Err(Error::Request(_))
        ));
        driver.control().close(kept).unwrap();
        assert_eq!(device.sessions(0), 0);
    }
}
