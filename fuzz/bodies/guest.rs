//! A hostile guest sends control and data requests in any order, valid or malformed, to a device
//! that also serves another guest.

use std::cell::RefCell;

use kiln_virtio::wire::control::Created;
use kiln_virtio::wire::Status;
use kiln_virtio::{Guest, Limits, Services, Worker};

thread_local! {
    static DEVICE: RefCell<(Services, Worker)> =
        RefCell::new((Services::detect(), Worker::new().expect("memory for an emulated CPU")));
}

/// If all bits of the session ID at offset `at` are set, replaces it with `session`, the ID of the
/// session created most recently.
fn name(bytes: &mut [u8], at: usize, session: u64) {
    if let Some(place) = bytes.get_mut(at..at + 8) {
        if place.iter().all(|&b| b == 0xff) {
            place.copy_from_slice(&session.to_le_bytes());
        }
    }
}

/// Runs one input. Returns whether it creates a session or gets a result with status ok.
pub(crate) fn run(data: &[u8]) -> bool {
    DEVICE.with_borrow_mut(|(services, worker)| {
        let limits = Limits {
            max_sessions: 8,
            max_request: 4096,
            ..Limits::default()
        };
        let guest = Guest::new(limits, services);
        let Some((&features, mut rest)) = data.split_first() else {
            return false;
        };
        guest.negotiate(features.into());
        let mut last = 0;
        let mut served = false;
        // Each request is encoded as the queue, the space for the answer, a length (two bytes,
        // little-endian), and that many bytes.
        while let [queue, room, low, high, tail @ ..] = rest {
            let len = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
            let (bytes, tail) = tail.split_at(len);
            rest = tail;
            let mut bytes = bytes.to_vec();
            let room = usize::from(*room) * if queue & 2 == 0 { 1 } else { 16 };
            let mut answer = vec![0xa5; room];
            if queue & 1 == 0 {
                name(&mut bytes, 16, last);
                let used = guest.control(&bytes, &mut answer);
                assert!(used <= room);
                assert!(answer[used..].iter().all(|&b| b == 0));
                if used == 16 {
                    let created = Created::parse(&answer).expect("the answer has the right size");
                    match created.result() {
                        Ok(session) => {
                            last = session;
                            served = true;
                        }
                        Err(status) => assert_eq!(created.status, status as u32),
                    }
                }
            } else {
                name(&mut bytes, 8, last);
                let used = guest.data(worker, &mut bytes, &mut answer);
                assert!(used <= room);
                let Some((status, dst)) = answer.split_last() else {
                    continue;
                };
                let status = Status::from_raw(*status).expect("a status");
                served |= status == Status::Ok;
                assert!(
                    status == Status::Ok || used == 1,
                    "no result without success"
                );
                assert!(dst[used - 1..].iter().all(|&b| b == 0));
            }
            assert!(guest.sessions() <= 8);
        }
        guest.reset();
        assert_eq!(guest.sessions(), 0);
        served
    })
}
