//! Tests data queues: results, batching, and buffer ownership.

use std::time::Duration;

use kiln_driver::{Buffer, Data, Done, Driver, Error, Job, Mode, Options, Session, Wishes};
use kiln_virtio::wire::data::{Aead, Cipher};
use kiln_virtio::wire::{algo, session, Action, Create, Operation};

use crate::device::{Conduct, Device};
use crate::{cipher, options};

const IV: [u8; 16] = [9; 16];

/// Returns an XTS operation on `len` bytes.
pub(crate) fn xts(len: u32) -> Operation {
    Operation::Cipher(Cipher {
        iv_len: 16,
        src_len: len,
        dst_len: len,
    })
}

/// Returns a job that encrypts in `session`.
pub(crate) fn job<'a>(session: &'a Session, op: &Operation) -> Job<'a> {
    Job {
        action: Action::Encrypt,
        op: *op,
        session,
        iv: &IV,
        aad: &[],
    }
}

fn filled(driver: &Driver, bytes: &[u8]) -> Buffer {
    let mut buffer = driver.buffer(bytes.len()).unwrap();
    buffer.write(0, bytes);
    buffer
}

fn contents(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(0, &mut bytes);
    bytes
}

/// First ciphertext block of AES-256 in CBC mode with a zero key, IV and text. It equals the
/// cipher's output for a zero block, which is also H in test case 13 of the GCM specification.
const ZERO_BLOCK: [u8; 16] = [
    0xdc, 0x95, 0xc0, 0x78, 0xa2, 0x40, 0x89, 0x89, 0xad, 0x48, 0xa2, 0x14, 0x92, 0x84, 0x20, 0x87,
];

fn cbc_of_zeros(wishes: Wishes) {
    let device = Device::start(&[Conduct::Honest]);
    let options = Options {
        wishes,
        ..options(Mode::Wait)
    };
    let driver = Driver::connect(device.path(), options).unwrap();
    let request = cipher(algo::cipher::AES_CBC, &[0; 32]);
    let session = driver.control().create(request).unwrap();
    let mut queue = driver.data_queue(0).unwrap();
    let zeros = Job {
        iv: &[0; 16],
        ..job(&session, &xts(16))
    };
    for in_place in [false, true] {
        let data = Data {
            source: filled(&driver, &[0; 16]),
            destination: (!in_place).then(|| filled(&driver, &[0xee; 16])),
        };
        queue.submit(&zeros, data, 1).unwrap();
        assert!(queue.wait(1, Duration::from_secs(20)).unwrap());
        let mut done = Vec::new();
        assert_eq!(queue.reap(&mut done), 1);
        let Done { data, result, .. } = done.pop().unwrap();
        assert_eq!(result, Ok(16));
        let written = data.destination.as_ref().unwrap_or(&data.source);
        assert_eq!(contents(written), ZERO_BLOCK);
        if !in_place {
            assert_eq!(contents(&data.source), [0; 16], "the source is unchanged");
        }
    }
}

#[test]
fn a_known_answer() {
    cbc_of_zeros(Wishes::default());
    cbc_of_zeros(Wishes {
        event_idx: false,
        indirect: false,
        ..Wishes::default()
    });
}

#[test]
fn many_in_flight_come_back_each_with_its_own() {
    let device = Device::start(&[Conduct::Honest]);
    let driver = Driver::connect(device.path(), options(Mode::Wait)).unwrap();
    let key: Vec<u8> = (0..64).collect();
    let request = cipher(algo::cipher::AES_XTS, &key);
    let session = driver.control().create(request).unwrap();
    let mut queue = driver.data_queue(0).unwrap();
    let mut done = Vec::new();
    let mut results = std::collections::HashMap::new();
    let mut next = 0_u64;
    while results.len() < 500 {
        while next < 500 && queue.in_flight() < 64 {
            let bytes: Vec<u8> = (0..64).map(|i| (next * 7 + i) as u8).collect();
            let data = Data {
                source: filled(&driver, &bytes),
                destination: Some(driver.buffer(64).unwrap()),
            };
            queue.submit(&job(&session, &xts(64)), data, next).unwrap();
            next += 1;
        }
        assert!(queue.wait(16, Duration::from_secs(20)).unwrap());
        queue.reap(&mut done);
        for one in done.drain(..) {
            assert_eq!(one.result, Ok(64));
            let text = contents(one.data.destination.as_ref().unwrap());
            assert!(results.insert(one.tag, text).is_none(), "{} twice", one.tag);
        }
    }
    // Equal sources must give equal results, and different sources must give different results. The
    // sources repeat after 256 jobs.
    assert_eq!(results[&0], results[&256]);
    assert_ne!(results[&0], results[&1]);
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn an_aead_has_its_associated_data() {
    let device = Device::start(&[Conduct::Honest]);
    let driver = Driver::connect(device.path(), options(Mode::Wait)).unwrap();
    let seal = |op| {
        let create = Create::Aead(session::Aead {
            algo: algo::aead::GCM,
            key_len: 16,
            tag_len: 16,
            aad_len: 20,
            op,
        });
        let request = kiln_driver::Request::new(create, &[1; 16]);
        driver.control().create(request).unwrap()
    };
    let (sealing, opening) = (seal(algo::OP_ENCRYPT), seal(algo::OP_DECRYPT));
    let mut queue = driver.data_queue(0).unwrap();
    let mut go = |session: &Session, action, input: &[u8], out: usize, aad: &[u8]| {
        let op = Operation::Aead(Aead {
            iv_len: 12,
            aad_len: 20,
            src_len: input.len() as u32,
            dst_len: out as u32,
            tag_len: 16,
        });
        let job = Job {
            action,
            op,
            session,
            iv: &[5; 12],
            aad,
        };
        let data = Data {
            source: filled(&driver, input),
            destination: Some(driver.buffer(out).unwrap()),
        };
        queue.submit(&job, data, 0).unwrap();
        assert!(queue.wait(1, Duration::from_secs(20)).unwrap());
        let mut done = Vec::new();
        queue.reap(&mut done);
        let one = done.pop().unwrap();
        one.result
            .map(|_| contents(one.data.destination.as_ref().unwrap()))
    };
    let sealed = go(&sealing, Action::Encrypt, &[8; 40], 56, &[2; 20]).unwrap();
    let opened = go(&opening, Action::Decrypt, &sealed, 40, &[2; 20]).unwrap();
    assert_eq!(opened, [8; 40]);
    let other = go(&opening, Action::Decrypt, &sealed, 40, &[3; 20]);
    assert_eq!(other, Err(Error::Status(2)), "BADMSG");
}

#[test]
fn what_cannot_be_asked_comes_back_at_once() {
    let device = Device::start(&[Conduct::Honest]);
    let driver = Driver::connect(device.path(), options(Mode::Wait)).unwrap();
    let request = cipher(algo::cipher::AES_CBC, &[0; 16]);
    let session = driver.control().create(request).unwrap();
    let mut queue = driver.data_queue(0).unwrap();
    assert!(matches!(driver.data_queue(0), Err(Error::Request(_))));
    assert!(matches!(driver.data_queue(1000), Err(Error::Request(_))));
    let mut refused = |job: Job<'_>, source: usize| {
        let data = Data {
            source: driver.buffer(source).unwrap(),
            destination: None,
        };
        queue.submit(&job, data, 0).unwrap_err().error
    };
    let good = job(&session, &xts(32));
    assert!(matches!(refused(good, 16), Error::Request(_)));
    let short_iv = Job {
        iv: &IV[1..],
        ..good
    };
    assert!(matches!(refused(short_iv, 32), Error::Request(_)));
    let sign = Job {
        action: Action::Sign,
        ..good
    };
    assert!(matches!(refused(sign, 32), Error::Request(_)));
    // Fill the ring, then submit one more job.
    let mut taken = 0;
    let error = loop {
        let data = Data {
            source: driver.buffer(32).unwrap(),
            destination: None,
        };
        match queue.submit(&good, data, 0) {
            Ok(()) => taken += 1,
            Err(refused) => break refused.error,
        }
    };
    assert_eq!((taken, error), (256, Error::Full));
}
