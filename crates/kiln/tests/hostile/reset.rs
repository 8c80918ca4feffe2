//! Tests that sessions created by vhost-user messages end when their driver is reset, and survive
//! when it is paused.
//!
//! No message announces that a driver was reset. A pause looks similar: QEMU stops all rings, sets
//! the features, and then starts the rings one after the other.

use std::os::unix::net::UnixStream;

use super::RING_RESET;
use crate::device::Device;
use crate::guest::{memfd, Guest};
use crate::raw::{Raw, SIZE};

const BY_MESSAGE: u64 = 1 << 7;

fn connect(device: &Device, more: u64) -> Raw {
    let mut raw = Raw::connect(&device.path("kiln.sock")).wants(more, 0);
    raw.hello(BY_MESSAGE);
    assert!(raw.table(SIZE, &memfd(SIZE, 0)));
    raw
}

#[test]
fn sessions_of_messages_end_with_their_driver_whatever_it_asked_for() {
    let device = Device::start(&[]);
    for more in [0, RING_RESET] {
        let mut raw = connect(&device, more);
        assert!(raw.ring(0));
        let session = raw.create();
        raw.stop(0);
        raw.features_again();
        assert!(raw.ring(0));
        assert!(!raw.encrypts(session), "{more:#x}: no request was made");

        // Start the ring at entry 65535, so that one more request brings it back to entry 0.
        raw.stop(0);
        raw.features_again();
        assert!(raw.ring_at(u16::MAX));
        let session = raw.create();
        assert!(raw.encrypts(session) && raw.stop(0) == 0, "the control");
        raw.features_again();
        assert!(raw.ring(0));
        assert!(
            !raw.encrypts(session),
            "{more:#x}: 65536 requests were made"
        );

        // The ring that starts first has never been used, but the other ring has.
        assert!(raw.idle_ring(1, 0));
        let session = raw.create();
        assert!(raw.encrypts(session), "the control");
        assert!(raw.stop(0) > 0 && raw.stop(1) == 0);
        raw.features_again();
        assert!(raw.idle_ring(1, 0) && raw.ring(0));
        assert!(!raw.encrypts(session), "{more:#x}: two rings");

        // The next driver uses the ring that the previous driver never used.
        raw.stop(1);
        assert!(raw.idle_ring(1, 5));
        raw.stop(0);
        assert!(raw.ring(0));
        let session = raw.create();
        assert!(raw.stop(0) == 0 && raw.stop(1) == 5);
        raw.features_again();
        assert!(raw.ring(0) && raw.idle_ring(1, 0));
        assert!(!raw.encrypts(session), "{more:#x}: it waited for the other");

        // The next driver starts only the ring that the previous driver never used.
        assert!(raw.stop(1) == 0 && raw.idle_ring(1, 5));
        raw.stop(0);
        assert!(raw.ring(0));
        let session = raw.create();
        assert!(raw.stop(0) == 0 && raw.stop(1) == 5);
        raw.features_again();
        assert!(raw.ring(0));
        let next = raw.create();
        assert!(raw.encrypts(next) && !raw.encrypts(session), "{more:#x}");
    }
}

/// Control for the test above: events that look similar but do not mean that a new driver starts.
#[test]
fn sessions_of_messages_survive_a_pause() {
    let device = Device::start(&[]);
    for more in [0, RING_RESET] {
        // Sessions may be created before the first ring starts.
        let mut raw = connect(&device, more);
        let session = raw.create();
        assert!(raw.ring(0) && raw.encrypts(session), "{more:#x}");

        // The unused ring starts last in the first round, and first in the second. QEMU sets the
        // features for each ring.
        assert!(raw.idle_ring(1, 0));
        for is_last in [true, false] {
            let base = raw.stop(0);
            assert!(base > 0 && raw.stop(1) == 0);
            raw.features_again();
            assert!(is_last || raw.idle_ring(1, 0));
            raw.features_again();
            assert!(raw.ring(base));
            raw.features_again();
            assert!(!is_last || raw.idle_ring(1, 0));
            assert!(raw.encrypts(session), "{more:#x} {is_last}");
        }

        // Send the request on a ring that has never been used. The device must hold the request
        // until the other ring, which has been used, starts as well.
        let mut raw = connect(&device, more);
        assert!(raw.ring(0) && raw.idle_ring(1, 5));
        let session = raw.create();
        assert!(raw.stop(0) == 0 && raw.stop(1) == 5);
        raw.features_again();
        assert!(raw.ring(0) && raw.idle_ring(1, 5));
        assert!(raw.encrypts(session), "{more:#x}: it waited for the other");

        // With RING_RESET, a driver is allowed to reset a single ring and keep its sessions.
        // Without RING_RESET, a ring that starts over means that the driver was reset.
        raw.stop(0);
        assert!(raw.ring(0));
        assert_eq!(raw.encrypts(session), more == RING_RESET, "{more:#x}");
    }
}

/// The next driver might set up only a data queue.
#[test]
fn sessions_end_with_their_driver_if_the_next_has_no_control_queue() {
    let device = Device::start(&[]);
    for more in [0, RING_RESET] {
        let guest = || {
            let stream = UnixStream::connect(device.path("kiln.sock")).unwrap();
            Guest::with(stream, 2, more)
        };
        for is_anew in [true, false] {
            let mut guest = guest();
            let session = guest.create();
            assert_eq!(guest.encrypt(session).1, 0);
            assert!(guest.stop(false) > 0 && guest.stop(true) > 0);
            if is_anew {
                guest.features_again(more);
            }
            guest.clear(true);
            guest.start_at(true, 0);
            let is_kept = guest.encrypt(session).1 == 0;
            // If the features were set again, the session must be gone. Control: if only the queue
            // was reset, the session must be kept.
            assert_eq!(is_kept, !is_anew, "{more:#x}");
        }
        // If the data queue has never been used, the device waits for the control queue before it
        // decides whether the driver was paused or reset.
        let mut guest = guest();
        let session = guest.create();
        let base = guest.stop(false);
        assert!(base > 0 && guest.stop(true) == 0);
        guest.features_again(more);
        guest.start_at(true, 0);
        guest.start_at(false, base);
        assert_eq!(guest.encrypt(session).1, 0, "{more:#x}: a pause");
    }
}
