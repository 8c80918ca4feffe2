//! Sessions as QEMU's `cryptodev-vhost-user` sends them: QEMU keeps the control queue, and has a message for each session
//! that its guest creates or closes. The payload is a structure of QEMU's as its compiler lays it out, in no
//! specification, and it has changed:
//!
//! | QEMU | bytes | what |
//! |---|---|---|
//! | up to 8.0 | 632 | session, symmetric parameters (48), key (64), MAC key (512) |
//! | since 8.1 | 1072 | operation, then symmetric as above or asymmetric parameters (32) and key (1024), session |
//!
//! Symmetric parameters: algorithm, key length, hash, length of its result, length of its key, length of the associated
//! data, four words of one byte (kind, direction, mode of the hash, order) and two pointers that mean nothing here.
//! Asymmetric: algorithm, kind of key, length of the key, a hole, a pointer, padding and hash.
//!
//! Each becomes a control request of the legacy layout (virtio 1.2, 5.9.7.2), so that the session table has one door.

use zeroize::Zeroizing;

use super::message::word;

/// A payload up to QEMU 8.0.
const OLD: usize = 632;
/// One since.
const NEW: usize = 1072;

/// Where a payload has its parts.
struct Layout {
    /// The operation, which the old one does not have.
    operation: Option<usize>,
    /// Parameters.
    parameters: usize,
    /// The session, where the answer has it.
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

/// Symmetric parameters, the pointers among them.
const SYMMETRIC: usize = 48;
const CIPHER_KEY: usize = 64;
const AUTH_KEY: usize = 512;
/// Asymmetric parameters.
const ASYMMETRIC: usize = 32;
const ASYMMETRIC_KEY: usize = 1024;

/// Operations of a control request (virtio 1.2, 5.9.7.2): a service's number, then what is done.
mod opcode {
    pub const CIPHER_CREATE: u32 = 0x02;
    pub const CIPHER_DESTROY: u32 = 0x03;
    pub const AKCIPHER_CREATE: u32 = 0x404;
    pub const AKCIPHER_DESTROY: u32 = 0x405;
}

/// Kinds of symmetric sessions.
const PLAIN: u8 = 1;
const CHAINED: u8 = 2;
/// A hash with a key.
const AUTH: u8 = 2;

/// A legacy control request: header, parameters.
const REQUEST_HEADER: usize = 16;
const REQUEST_PARAMETERS: usize = 56;
/// The kind, behind the parameters of a symmetric session.
const KIND: usize = 48;

/// Bytes of an answer: session, status, padding.
const ANSWER: usize = 16;
/// A destroyed session's is one of status.
const STATUS: usize = 1;
const OK: u32 = 0;

/// What has sessions.
pub trait Sessions {
    /// A control request of the legacy layout as a driver's queue would bring it: the used length.
    fn control(&self, request: &[u8], answer: &mut [u8]) -> usize;
}

impl<F: Fn(&[u8], &mut [u8]) -> usize> Sessions for F {
    fn control(&self, request: &[u8], answer: &mut [u8]) -> usize {
        self(request, answer)
    }
}

/// Creates one; the payload of the answer, as long as the question's, which is what QEMU demands. A session that is not
/// made is -1. One of an unknown layout is -1 wherever its number may be.
pub fn create(payload: &[u8], sessions: &dyn Sessions) -> Vec<u8> {
    let Some((len, layout)) = LAYOUTS.iter().find(|(len, _)| *len == payload.len()) else {
        return vec![0xff; payload.len()];
    };
    let id = request(payload, layout)
        .and_then(|request| {
            let mut answer = [0xff; ANSWER];
            let used = sessions.control(&request, &mut answer);
            let made = used >= 12 && word(&answer, 8) == Some(OK);
            let id = u64::from_le_bytes(answer[..8].try_into().expect("eight bytes"));
            made.then_some(id).and_then(|id| i64::try_from(id).ok())
        })
        .unwrap_or(-1);
    let mut answer = vec![0; *len];
    answer[layout.session..layout.session + 8].copy_from_slice(&id.to_le_bytes());
    answer
}

/// Closes one: whether there was one. QEMU does not say of which kind.
pub fn close(id: u64, sessions: &dyn Sessions) -> bool {
    [opcode::CIPHER_DESTROY, opcode::AKCIPHER_DESTROY]
        .iter()
        .any(|code| {
            let mut request = header(*code, 0);
            request.extend(id.to_le_bytes());
            request.resize(REQUEST_HEADER + REQUEST_PARAMETERS, 0);
            let mut status = [0xff; STATUS];
            sessions.control(&request, &mut status) == STATUS && status == [OK as u8]
        })
}

/// The control request, if lengths and kinds are possible ones.
fn request(payload: &[u8], layout: &Layout) -> Option<Zeroizing<Vec<u8>>> {
    let operation = match layout.operation {
        None => opcode::CIPHER_CREATE,
        // In eight bytes, although it has four.
        Some(at) if word(payload, at + 4)? == 0 => word(payload, at)?,
        Some(_) => return None,
    };
    let parameters = &payload[layout.parameters..];
    match operation {
        opcode::CIPHER_CREATE => symmetric(parameters),
        opcode::AKCIPHER_CREATE => asymmetric(parameters),
        _ => None,
    }
}

fn symmetric(given: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let field = |n: usize| word(given, 4 * n);
    let [kind, direction, hash_mode, order] = *given.get(24..28)? else {
        return None;
    };
    let (algorithm, len) = (field(0)?, field(1)?);
    let key = part(given, SYMMETRIC, CIPHER_KEY, len)?;
    let cipher = [algorithm, len, u32::from(direction), 0];
    let mut words = Vec::new();
    let mut auth_key: &[u8] = &[];
    match kind {
        PLAIN => words.extend(cipher),
        CHAINED => {
            let (hash, result, auth_len) = (field(2)?, field(3)?, field(4)?);
            words.extend([u32::from(order), u32::from(hash_mode)]);
            words.extend(cipher);
            // Without a key it has no length of one, but the same room.
            match hash_mode {
                AUTH => {
                    auth_key = part(given, SYMMETRIC + CIPHER_KEY, AUTH_KEY, auth_len)?;
                    words.extend([hash, result, auth_len, 0]);
                }
                _ => words.extend([hash, result, 0, 0]),
            }
            words.extend([field(5)?, 0]);
        }
        _ => return None,
    }
    words.resize(KIND / 4, 0);
    words.extend([u32::from(kind), 0]);
    Some(whole(
        header(opcode::CIPHER_CREATE, algorithm),
        &words,
        [key, auth_key],
    ))
}

fn asymmetric(given: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let field = |at| word(given, at);
    let (algorithm, len) = (field(0)?, field(8)?);
    let key = part(given, ASYMMETRIC, ASYMMETRIC_KEY, len)?;
    let words = [algorithm, field(4)?, len, field(24)?, field(28)?];
    Some(whole(
        header(opcode::AKCIPHER_CREATE, algorithm),
        &words,
        [key, &[]],
    ))
}

/// The first `len` bytes of a field of so many.
fn part(given: &[u8], at: usize, room: usize, len: u32) -> Option<&[u8]> {
    given.get(at..at + room)?.get(..usize::try_from(len).ok()?)
}

/// Operation, algorithm, flags, queue.
fn header(operation: u32, algorithm: u32) -> Vec<u8> {
    let words = [operation, algorithm, 0, 0];
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// In one piece of memory, so that no key is left behind where it grew.
fn whole(header: Vec<u8>, words: &[u32], keys: [&[u8]; 2]) -> Zeroizing<Vec<u8>> {
    let fixed = REQUEST_HEADER + REQUEST_PARAMETERS;
    let mut request = Zeroizing::new(Vec::with_capacity(fixed + keys[0].len() + keys[1].len()));
    request.extend(header);
    request.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    request.resize(fixed, 0);
    for key in keys {
        request.extend_from_slice(key);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;

    /// What Debian's QEMU 7.2 sent when the guest's testmgr set its first key of cbc(aes).
    fn of_qemu_7_2() -> Vec<u8> {
        let mut payload = vec![0; OLD];
        let words: [u32; 6] = [3, 16, 0, 0, 0, 0];
        for (i, word) in words.iter().enumerate() {
            payload[8 + 4 * i..][..4].copy_from_slice(&word.to_le_bytes());
        }
        payload[32..36].copy_from_slice(&[PLAIN, 1, 0, 0]);
        // A pointer of QEMU's.
        payload[40..48].copy_from_slice(&0x7f84_2c21_7940u64.to_le_bytes());
        payload[56..72]
            .copy_from_slice(b"\x06\xa9\x21\x40\x36\xb8\xa1\x5b\x51\x2e\x03\xd5\x34\x12\0\x06");
        payload
    }

    /// The same as QEMU 8.1 has it.
    fn of_qemu_8_1(operation: u64, body: &[u8]) -> Vec<u8> {
        let mut payload = operation.to_le_bytes().to_vec();
        payload.extend(body);
        payload.resize(NEW, 0);
        payload
    }

    /// Answers every creation with one number and keeps the requests.
    struct Table(RefCell<Vec<Vec<u8>>>, u64);

    impl Table {
        fn new(id: u64) -> Table {
            Table(RefCell::default(), id)
        }
    }

    impl Sessions for Table {
        fn control(&self, request: &[u8], answer: &mut [u8]) -> usize {
            self.0.borrow_mut().push(request.to_vec());
            if answer.len() < ANSWER {
                answer[0] = 0;
                return 1;
            }
            answer[..8].copy_from_slice(&self.1.to_le_bytes());
            answer[8..].fill(0);
            ANSWER
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
            let answer = create(payload, &table);
            assert_eq!(answer.len(), payload.len());
            assert_eq!(answer[at..at + 8], 7i64.to_le_bytes());
            let rest = answer.iter().filter(|b| **b != 0).count();
            assert_eq!(rest, 1, "no key goes back");
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
        // HMAC-SHA1 of 20 bytes with a key of 13, the cipher first.
        for (at, word) in [(16, 2u32), (20, 20), (24, 13), (28, 9)] {
            payload[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        payload[32..36].copy_from_slice(&[CHAINED, 2, AUTH, 1]);
        payload[120..133].fill(0xa5);
        let table = Table::new(1);
        create(&payload, &table);
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
        create(&of_qemu_8_1(0x404, &body), &table);
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
        chained[32..36].copy_from_slice(&[CHAINED, 1, AUTH, 1]);
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
            let answer = create(&payload, &table);
            let at = if payload.len() == OLD { 0 } else { 1064 };
            assert_eq!(answer[at..at + 8], (-1i64).to_le_bytes());
            assert!(table.0.borrow().is_empty());
        }
    }

    #[test]
    fn an_unknown_layout_is_no_session_wherever_its_number_is() {
        for len in [0, 8, 631, 633, 640, 1073, 4096] {
            let answer = create(&vec![0; len], &Table::new(1));
            assert_eq!(answer, vec![0xff; len]);
        }
    }

    #[test]
    fn a_table_that_refuses_or_lies_makes_no_session() {
        let payload = of_qemu_7_2();
        let refused = |_: &[u8], answer: &mut [u8]| {
            answer[..8].fill(0);
            answer[8..12].copy_from_slice(&1u32.to_le_bytes());
            ANSWER
        };
        let silent = |_: &[u8], answer: &mut [u8]| {
            answer.fill(0);
            0
        };
        assert_eq!(create(&payload, &refused)[..8], (-1i64).to_le_bytes());
        assert_eq!(create(&payload, &silent)[..8], (-1i64).to_le_bytes());
        let beyond = create(&payload, &Table::new(u64::MAX - 1));
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
        assert!(close(9, &only(3)) && close(9, &only(0x405)));
        assert!(!close(9, &only(0x303)) && !close(8, &only(3)));
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
            // Lengths that may be right, or just not.
            for (at, value) in [(12, small[0]), (16, small[2]), (24, small[1])] {
                payload[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            payload[32] = kind;
            let table = Table::new(3);
            let answer = create(&payload, &table);
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
