//! Sessions as QEMU's `cryptodev-vhost-user` sends them. QEMU handles the control queue itself and
//! sends a message for each session that its guest creates or closes. The payload is one of QEMU's
//! C structures, in the layout that QEMU's compiler chose. No specification describes the layout,
//! and it has changed once:
//!
//! | QEMU | bytes | contents |
//! |---|---|---|
//! | up to 8.0 | 632 | session, symmetric parameters (48), key (64), MAC key (512) |
//! | since 8.1 | 1072 | operation, then symmetric as above or asymmetric parameters (32) and key (1024), session |
//!
//! Symmetric parameters: algorithm, key length, hash algorithm, hash result length, hash key
//! length, length of the associated data, four one-byte fields (kind, direction, hash mode, order)
//! and two pointers that are meaningless here. Asymmetric parameters: algorithm, key type, key
//! length, padding bytes, a pointer, padding type and hash.
//!
//! Each message is converted to the control request that a driver would make, so the session table
//! has only one interface.

use kiln_virtio::wire::control::{Created, CREATED, DESTROYED};
use kiln_virtio::wire::session::{Akcipher, Chain, ChainHash, Cipher, Hash, Mac};
use kiln_virtio::wire::{algo, Control, Create, Features, Service, Status};
use zeroize::Zeroizing;

use super::message::word;

/// Payload size up to QEMU 8.0.
const OLD: usize = 632;
/// Payload size since QEMU 8.1.
const NEW: usize = 1072;

/// Offsets within a payload.
struct Layout {
    /// Offset of the operation, which the old layout does not contain.
    operation: Option<usize>,
    parameters: usize,
    /// Offset of the session number in both requests and answers.
    session: usize,
}

const LAYOUTS: [(usize, Layout); 2] = [
    (
        OLD,
        Layout {
            operation: None,
            parameters: 8,
            session: 0,
        },
    ),
    (
        NEW,
        Layout {
            operation: Some(0),
            parameters: 8,
            session: 1064,
        },
    ),
];

/// Size in bytes of the symmetric parameters, including the pointers.
const SYMMETRIC: usize = 48;
const CIPHER_KEY: usize = 64;
const AUTH_KEY: usize = 512;
/// Size in bytes of the asymmetric parameters.
const ASYMMETRIC: usize = 32;
const ASYMMETRIC_KEY: usize = 1024;

/// The session table: a function that serves a control request as if the request came from a
/// driver's queue, and returns the used length.
pub type Sessions<'a> = dyn Fn(&[u8], &mut [u8]) -> usize + 'a;

/// Creates a session and returns the payload of the answer, which QEMU requires to be as long as
/// the request's payload. If no session was created, the session number is -1. For an unknown
/// layout, every byte is 0xff, so that the session number is -1 wherever QEMU reads it. `features`
/// are the features that the front end accepted, which determine the format of control requests.
pub(super) fn create(payload: &[u8], features: Features, sessions: &Sessions) -> Vec<u8> {
    let Some((len, layout)) = LAYOUTS.iter().find(|(len, _)| *len == payload.len()) else {
        return vec![0xff; payload.len()];
    };
    let id = request(payload, layout)
        .and_then(|request| {
            let request = emit(&request, features);
            let mut answer = [0; CREATED];
            if sessions(&request, &mut answer) != CREATED {
                return None;
            }
            let id = Created::parse(&answer).ok()?.result().ok()?;
            i64::try_from(id).ok()
        })
        .unwrap_or(-1);
    let mut answer = vec![0; *len];
    answer[layout.session..layout.session + 8].copy_from_slice(&id.to_le_bytes());
    answer
}

/// Closes a session, and returns whether it existed. QEMU does not send the session's service, so
/// both kinds of close request are tried.
pub(super) fn close(session: u64, features: Features, sessions: &Sessions) -> bool {
    [Service::Cipher, Service::Akcipher]
        .into_iter()
        .any(|service| {
            let request = emit(&Control::Destroy { service, session }, features);
            let mut status = [Status::Err as u8; DESTROYED];
            sessions(&request, &mut status) == DESTROYED && status == [Status::Ok as u8]
        })
}

/// Encodes a control request in memory that is wiped when dropped. The buffer has its full capacity
/// from the start, because a growing buffer would leave a copy of the key behind.
fn emit(request: &Control, features: Features) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(NEW + OLD));
    request.emit(features, &mut bytes);
    bytes
}

/// Builds the control request. Returns `None` if lengths or types in the payload are invalid.
fn request<'a>(payload: &'a [u8], layout: &Layout) -> Option<Control<'a>> {
    let operation = match layout.operation {
        None => Service::Cipher.create(),
        // The field has eight bytes, of which only the first four are used.
        Some(at) if word(payload, at + 4)? == 0 => word(payload, at)?,
        Some(_) => return None,
    };
    let given = &payload[layout.parameters..];
    if operation == Service::Cipher.create() {
        symmetric(given)
    } else if operation == Service::Akcipher.create() {
        asymmetric(given)
    } else {
        None
    }
}

fn symmetric(given: &[u8]) -> Option<Control<'_>> {
    let field = |n: usize| word(given, 4 * n);
    let [kind, direction, hash_mode, order] = *given.get(24..28)? else {
        return None;
    };
    let cipher = Cipher {
        algo: field(0)?,
        key_len: field(1)?,
        op: direction.into(),
    };
    let key = part(given, SYMMETRIC, CIPHER_KEY, cipher.key_len)?;
    if u32::from(kind) == algo::SYM_OP_CIPHER {
        return Some(Control::Create {
            create: Create::Cipher(cipher),
            key,
            auth_key: &[],
        });
    }
    if u32::from(kind) != algo::SYM_OP_CHAIN {
        return None;
    }
    let (algo, result_len, key_len) = (field(2)?, field(3)?, field(4)?);
    let (hash, auth_key) = match hash_mode.into() {
        algo::HASH_MODE_PLAIN => (ChainHash::Plain(Hash { algo, result_len }), &[][..]),
        algo::HASH_MODE_AUTH => {
            let mac = Mac {
                algo,
                result_len,
                key_len,
            };
            let key = part(given, SYMMETRIC + CIPHER_KEY, AUTH_KEY, key_len)?;
            (ChainHash::Auth(mac), key)
        }
        _ => return None,
    };
    Some(Control::Create {
        create: Create::Chain(Chain {
            order: order.into(),
            cipher,
            hash,
            aad_len: field(5)?,
        }),
        key,
        auth_key,
    })
}

fn asymmetric(given: &[u8]) -> Option<Control<'_>> {
    let field = |at| word(given, at);
    let key_len = field(8)?;
    Some(Control::Create {
        create: Create::Akcipher(Akcipher {
            algo: field(0)?,
            key_type: field(4)?,
            key_len,
            para: [field(24)?, field(28)?],
        }),
        key: part(given, ASYMMETRIC, ASYMMETRIC_KEY, key_len)?,
        auth_key: &[],
    })
}

/// Returns the first `len` bytes of the field at offset `at`. The field is `room` bytes long.
fn part(given: &[u8], at: usize, room: usize, len: u32) -> Option<&[u8]> {
    given.get(at..at + room)?.get(..usize::try_from(len).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;

    use kiln_virtio::{Guest, Limits, Services};

    fn legacy() -> Features {
        Features::new(0)
    }

    /// Returns the payload that Debian's QEMU 7.2 sent when the guest's testmgr set its first key
    /// for cbc(aes).
    fn of_qemu_7_2() -> Vec<u8> {
        let mut payload = vec![0; OLD];
        let words: [u32; 6] = [3, 16, 0, 0, 0, 0];
        for (i, word) in words.iter().enumerate() {
            payload[8 + 4 * i..][..4].copy_from_slice(&word.to_le_bytes());
        }
        payload[32..36].copy_from_slice(&[1, 1, 0, 0]);
        // A pointer in QEMU's address space.
        payload[40..48].copy_from_slice(&0x7f84_2c21_7940u64.to_le_bytes());
        payload[56..72]
            .copy_from_slice(b"\x06\xa9\x21\x40\x36\xb8\xa1\x5b\x51\x2e\x03\xd5\x34\x12\0\x06");
        payload
    }

    /// Returns a payload in QEMU 8.1's layout.
    fn of_qemu_8_1(operation: u64, body: &[u8]) -> Vec<u8> {
        let mut payload = operation.to_le_bytes().to_vec();
        payload.extend(body);
        payload.resize(NEW, 0);
        payload
    }

    /// A session table that records requests and answers every creation with the same session
    /// number.
    struct Table(RefCell<Vec<Vec<u8>>>, u64);

    impl Table {
        fn new(id: u64) -> Table {
            Table(RefCell::default(), id)
        }

        fn create(&self, payload: &[u8]) -> Vec<u8> {
            create(payload, legacy(), &|request, answer| {
                self.0.borrow_mut().push(request.to_vec());
                let made = Created {
                    session: self.1,
                    status: 0,
                };
                answer.copy_from_slice(&made.emit());
                CREATED
            })
        }
    }

    fn words(request: &[u8]) -> Vec<u32> {
        let words = request.chunks_exact(4).take(18);
        words
            .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
            .collect()
    }

    #[test]
    fn a_session_of_either_layout_becomes_the_drivers_own_request() {
        let old = of_qemu_7_2();
        let new = of_qemu_8_1(2, &old[8..]);
        for (payload, at) in [(&old, 0), (&new, 1064)] {
            let table = Table::new(7);
            let answer = table.create(payload);
            assert_eq!(answer.len(), payload.len());
            assert_eq!(answer[at..at + 8], 7i64.to_le_bytes());
            let rest = answer.iter().filter(|b| **b != 0).count();
            assert_eq!(rest, 1, "no key is sent back");
            let requests = table.0.into_inner();
            let mut wanted = vec![0; 18];
            wanted[..2].copy_from_slice(&[2, 3]);
            wanted[4..7].copy_from_slice(&[3, 16, 1]);
            wanted[16] = 1;
            assert_eq!(words(&requests[0]), wanted);
            assert_eq!(requests[0][72..], old[56..72]);
        }
    }

    #[test]
    fn a_chained_session_has_both_keys() {
        let mut payload = of_qemu_7_2();
        // HMAC-SHA1 with a 20-byte result and a 13-byte key, encrypt-then-MAC.
        for (at, word) in [(16, 2u32), (20, 20), (24, 13), (28, 9)] {
            payload[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        payload[32..36].copy_from_slice(&[2, 2, 2, 1]);
        payload[120..133].fill(0xa5);
        let table = Table::new(1);
        table.create(&payload);
        let request = &table.0.borrow()[0];
        assert_eq!(
            words(request)[4..],
            [1, 2, 3, 16, 2, 0, 2, 20, 13, 0, 9, 0, 2, 0]
        );
        assert_eq!(request.len(), 72 + 16 + 13);
        assert_eq!(request[72 + 16..], [0xa5; 13]);
    }

    #[test]
    fn an_asymmetric_session_is_one_of_rsa() {
        let mut body = vec![0; ASYMMETRIC + ASYMMETRIC_KEY];
        for (at, word) in [(0, 1u32), (4, 2), (8, 300), (24, 1), (28, 3)] {
            body[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        body[32..332].fill(0x30);
        let table = Table::new(1);
        table.create(&of_qemu_8_1(0x404, &body));
        let request = &table.0.borrow()[0];
        assert_eq!(words(request)[..9], [0x404, 1, 0, 0, 1, 2, 300, 1, 3]);
        assert_eq!(request[72..], [0x30; 300]);
    }

    #[test]
    fn lengths_beyond_their_fields_never_reach_the_table() {
        let edit = |at: usize, value: u32| {
            let mut payload = of_qemu_7_2();
            payload[at..at + 4].copy_from_slice(&value.to_le_bytes());
            payload
        };
        let mut chained = edit(24, 513);
        chained[32..36].copy_from_slice(&[2, 1, 2, 1]);
        let mut kind = of_qemu_7_2();
        kind[32] = 3;
        let mut asymmetric = vec![0; ASYMMETRIC];
        asymmetric[8..12].copy_from_slice(&1025u32.to_le_bytes());
        for payload in [
            edit(12, 65),
            edit(12, u32::MAX),
            chained,
            kind,
            of_qemu_8_1(0x404, &asymmetric),
            of_qemu_8_1(0x102, &[]),
            of_qemu_8_1(2 | 1 << 32, &of_qemu_7_2()[8..]),
        ] {
            let table = Table::new(1);
            let answer = table.create(&payload);
            let at = if payload.len() == OLD { 0 } else { 1064 };
            assert_eq!(answer[at..at + 8], (-1i64).to_le_bytes());
            assert!(table.0.borrow().is_empty());
        }
    }

    #[test]
    fn an_unknown_layout_is_no_session_wherever_its_number_is() {
        for len in [0, 8, 631, 633, 640, 1073, 4096] {
            let answer = Table::new(1).create(&vec![0; len]);
            assert_eq!(answer, vec![0xff; len]);
        }
    }

    #[test]
    fn a_table_that_refuses_or_lies_makes_no_session() {
        let payload = of_qemu_7_2();
        let refused = |_: &[u8], answer: &mut [u8]| {
            answer[..8].fill(0);
            answer[8..12].copy_from_slice(&1u32.to_le_bytes());
            CREATED
        };
        let silent = |_: &[u8], answer: &mut [u8]| {
            answer.fill(0);
            0
        };
        assert_eq!(
            create(&payload, legacy(), &refused)[..8],
            (-1i64).to_le_bytes()
        );
        assert_eq!(
            create(&payload, legacy(), &silent)[..8],
            (-1i64).to_le_bytes()
        );
        let beyond = Table::new(u64::MAX - 1).create(&payload);
        assert_eq!(beyond[..8], (-1i64).to_le_bytes());
    }

    #[test]
    fn a_session_is_closed_whichever_kind_it_is() {
        let only = |kind: u32| {
            move |request: &[u8], answer: &mut [u8]| {
                assert_eq!((request.len(), answer.len()), (72, 1));
                let well = words(request)[0] == kind && words(request)[4] == 9;
                answer[0] = if well { 0 } else { 4 };
                1
            }
        };
        assert!(close(9, legacy(), &only(3)) && close(9, legacy(), &only(0x405)));
        assert!(!close(9, legacy(), &only(0x303)) && !close(8, legacy(), &only(3)));
    }

    #[test]
    fn a_session_of_the_real_table_is_there_until_it_is_closed() {
        for features in [legacy(), Features::new(1)] {
            let guest = Guest::new(Limits::default(), &Services::symmetric());
            let control = |request: &[u8], answer: &mut [u8]| guest.control(request, answer);
            guest.negotiate(features.bits());
            let answer = create(&of_qemu_7_2(), features, &control);
            let id = i64::from_le_bytes(answer[..8].try_into().unwrap());
            assert!(id >= 0 && guest.sessions() == 1, "{id}");
            assert!(!close(id as u64 ^ 1 << 40, features, &control));
            assert!(close(id as u64, features, &control) && guest.sessions() == 0);
            // 17 bytes is not a valid key size for CBC.
            let mut wrong = of_qemu_7_2();
            wrong[12] = 17;
            let answer = create(&wrong, features, &control);
            assert_eq!(answer[..8], (-1i64).to_le_bytes());
        }
    }

    proptest! {
        #[test]
        fn no_payload_makes_a_request_that_is_not_whole(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), OLD),
                proptest::collection::vec(any::<u8>(), NEW),
            ],
            small in proptest::array::uniform3(0u32..1100),
            operation in prop_oneof![Just(2u32), Just(0x404)],
            kind in 0u8..4,
        ) {
            let mut payload = bytes;
            let new = payload.len() == NEW;
            if new {
                payload[..8].copy_from_slice(&u64::from(operation).to_le_bytes());
            }
            // Set the lengths to values around the valid ones.
            for (at, value) in [(12, small[0]), (16, small[2]), (24, small[1])] {
                payload[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            payload[32] = kind;
            let table = Table::new(3);
            let answer = table.create(&payload);
            prop_assert_eq!(answer.len(), payload.len());
            for request in table.0.borrow().iter() {
                let words = words(request);
                let keys = match (words[0], words[16]) {
                    (0x404, _) => words[6],
                    (_, 1) => words[5],
                    _ => words[7] + words[12],
                };
                prop_assert_eq!(request.len(), 72 + keys as usize);
            }
        }
    }
}
