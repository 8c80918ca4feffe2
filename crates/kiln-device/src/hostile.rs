//! Tests with a hostile driver that fills the queues. Each fault known from another device has a
//! test named after it.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_virtio::sample::{create, destroy, encrypt};
use kiln_virtio::wire::algo::{aead, OP_DECRYPT, OP_ENCRYPT};
use kiln_virtio::wire::control::Created;
use kiln_virtio::wire::{data, session, Action, Control, Create, Features, Request, Status};
use kiln_virtio::Limits;

use crate::chain::MAX_DESCRIPTORS;
use crate::notify::Kick;
use crate::pace::Rates;
use crate::rig::{Rig, Which, BUFFERS, INDIRECT, MEMORY, NEXT, RING, WRITE};
use crate::ring::{Broken, Place};
use vm_memory::{Bytes, GuestAddress};

const OK: u8 = Status::Ok as u8;
const ERR: u8 = Status::Err as u8;
const LEGACY: u64 = 0;

/// Initial value of every byte in the answer buffer. If the device writes only a status, all other
/// bytes must keep this value.
const LEFT: u8 = 0xee;

/// Addresses of requests, results and indirect tables.
const REQUEST: u64 = BUFFERS;
const RESULT: u64 = BUFFERS + 0x8000;
const TABLE: u64 = BUFFERS + 0x1_0000;

fn limits() -> Limits {
    Limits {
        max_sessions: 8,
        max_request: 4096,
        ..Limits::default()
    }
}

/// A flag that stops the thread that modifies guest memory during a test. Dropping [`Stopped`] sets
/// the flag, even if the test fails.
#[derive(Default)]
struct Stop(AtomicBool);

struct Stopped<'a>(&'a Stop);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0 .0.store(true, Ordering::Relaxed);
    }
}

impl Rig {
    /// Sends one request with one readable and one writable buffer, and returns the answer's length
    /// and bytes.
    fn ask(&mut self, which: Which, request: &[u8], room: u32) -> (u32, Vec<u8>) {
        let table = self.place(which).desc;
        self.put(REQUEST, request);
        self.put(RESULT, &vec![LEFT; room as usize]);
        self.describe(table, 0, (REQUEST, request.len() as u32), NEXT, 1);
        self.describe(table, 1, (RESULT, room), WRITE, 0);
        self.offer(which, &[0]);
        self.serve(which).expect("the ring is in order");
        let (head, used) = *self.used(which).last().expect("an answer");
        assert_eq!(head, 0);
        (used, self.get(RESULT, room as usize))
    }

    fn session(&mut self) -> u64 {
        let (used, answer) = self.ask(Which::Control, &create(OP_ENCRYPT), 16);
        assert_eq!(used, 16);
        Created::parse(&answer).unwrap().result().unwrap()
    }

    /// Checks, as a control, that a well-formed request is still served after a hostile one.
    fn is_well(&mut self) {
        let session = self.session();
        let (used, answer) = self.ask(Which::Data, &encrypt(session, &[3; 64]), 65);
        assert_eq!((used, answer[64]), (65, OK));
        assert_ne!(answer[..64], [LEFT; 64]);
        let (_, answer) = self.ask(Which::Control, &destroy(session), 1);
        assert_eq!(answer, [OK]);
    }

    /// Makes the chain that starts at `head` available, lets the device serve it, and returns its
    /// used element.
    fn follow(&mut self, head: u16) -> (u32, u64) {
        self.offer(Which::Data, &[head]);
        let count = self.serve(Which::Data).expect("the ring is in order");
        let (of, used) = *self.used(Which::Data).last().expect("handed back");
        assert_eq!(of, u32::from(head));
        (used, count.malformed)
    }
}

#[test]
fn a_driver_that_behaves_is_served() {
    Rig::new(limits()).is_well();
}

#[test]
fn cve_2017_5931_lengths_that_overflow() {
    let mut rig = Rig::new(limits());
    let session = rig.session();
    let table = rig.place(Which::Data).desc;
    // The buffers' total length is 2^32, which overflows to zero in a 32-bit sum.
    rig.describe(table, 0, (REQUEST, 0x8000_0000), NEXT, 1);
    rig.describe(table, 1, (REQUEST, 0x8000_0000), NEXT, 2);
    rig.describe(table, 2, (RESULT, 16), WRITE, 0);
    rig.put(RESULT, &[LEFT; 16]);
    assert_eq!(rig.follow(0).1, 1);
    assert_eq!(rig.get(RESULT, 16)[15], ERR);
    // The lengths in the header overflow in the same way: IV and source together are 2^32 bytes.
    let mut request = encrypt(session, &[0; 16]);
    request[24..28].copy_from_slice(&16u32.to_le_bytes());
    request[28..32].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    request[32..36].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    let (_, answer) = rig.ask(Which::Data, &request, 17);
    assert_eq!(answer[16], ERR);
    rig.is_well();
}

#[test]
fn cve_2020_10724_key_lengths() {
    let mut rig = Rig::new(limits());
    for len in [0, 15, 17, 33, 65, 4096, 0x8000_0000, u32::MAX] {
        let mut request = create(OP_ENCRYPT);
        request[20..24].copy_from_slice(&u32::to_le_bytes(len));
        let (_, answer) = rig.ask(Which::Control, &request, 16);
        assert_ne!(answer[8], OK, "a key said to have {len} bytes");
    }
    assert_eq!(rig.guest.sessions(), 0);
    rig.is_well();
}

#[test]
fn cve_2020_14374_more_data_than_the_buffers_hold() {
    let mut rig = Rig::new(limits());
    let session = rig.session();
    let request = encrypt(session, &[3; 256]);
    // First the source buffer is too short, then the destination buffer.
    let (_, answer) = rig.ask(Which::Data, &request[..request.len() - 16], 257);
    assert_eq!(answer[256], ERR);
    let (_, answer) = rig.ask(Which::Data, &request, 65);
    assert_eq!(answer[64], ERR);
    assert_eq!(answer[..64], [LEFT; 64], "no byte of a result");
    rig.is_well();
}

#[test]
fn cve_2020_14375_memory_that_changes_while_it_is_read() {
    let mut rig = Rig::new(limits());
    let session = rig.session();
    let memory = rig.memory.clone();
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let _stopped = Stopped(&stop);
        // Another CPU of the guest alternates the source and destination lengths in the header
        // between the right value and a huge one.
        scope.spawn(|| {
            use vm_memory::{Bytes, GuestAddress};
            let mut huge = false;
            while !stop.0.load(Ordering::Relaxed) {
                huge = !huge;
                let len: u32 = if huge { 0x0fff_fff0 } else { 64 };
                for at in [28, 32] {
                    memory.write_obj(len, GuestAddress(REQUEST + at)).unwrap();
                }
            }
        });
        for _ in 0..400 {
            let (used, answer) = rig.ask(Which::Data, &encrypt(session, &[3; 64]), 65);
            // The device may see either length, but must consistently use the one that it has read.
            match answer[64] {
                OK => assert_eq!(used, 65),
                _ => assert_eq!(answer[..64], [LEFT; 64]),
            }
        }
    });
    rig.is_well();
}

#[test]
fn cve_2020_14376_14377_every_length_of_both_sides() {
    let mut rig = Rig::new(limits());
    let session = rig.session();
    let request = encrypt(session, &[3; 64]);
    for readable in 0..=request.len() {
        for room in [0, 1, 16, 63, 64, 65, 66] {
            let (used, answer) = rig.ask(Which::Data, &request[..readable], room);
            assert!(used <= room);
            let served = readable == request.len() && room >= 65;
            let ok = answer.last() == Some(&OK);
            assert_eq!(ok, served, "{readable} bytes of request, room for {room}");
        }
    }
    rig.is_well();
}

/// Guest memory between the result and the status, which is the last byte, stays unchanged. The
/// used length is the result's length plus one byte for the status.
#[test]
fn room_beyond_the_result_keeps_what_it_had() {
    let mut rig = Rig::new(limits());
    let session = rig.session();
    let request = encrypt(session, &[3; 16]);
    let (used, answer) = rig.ask(Which::Data, &request, 64);
    assert_eq!((used, answer[63]), (17, OK));
    assert_ne!(answer[..16], [LEFT; 16]);
    assert_eq!(answer[16..63], [LEFT; 47]);
}

/// A request that is longer than the limit is answered with the status only. The used length must
/// not count the rest of the writable buffers: a driver would mistake their old contents for a
/// result (virtio 1.3, 2.7.8.2). Control: for a request within the limit, the used length covers
/// the whole result.
#[test]
fn a_request_that_is_too_long_has_the_used_length_of_its_status() {
    let mut rig = Rig::new(limits());
    let session = rig.session();
    let room = (TABLE - RESULT) as u32;
    let request = encrypt(session, &[3; 64]);
    let (used, answer) = rig.ask(Which::Data, &request, room);
    assert_eq!(used, 1);
    let (status, rest) = answer.split_last().unwrap();
    assert_eq!(*status, ERR);
    assert!(rest.iter().all(|byte| *byte == LEFT));
    let (used, answer) = rig.ask(Which::Data, &request, 65);
    assert_eq!((used, answer[64]), (65, OK));
}

/// If the tag is wrong, no plaintext is written to guest memory, and the used length covers only
/// the status.
#[test]
fn a_wrong_tag_writes_no_text() {
    let mut rig = Rig::new(limits());
    let key = [7; 16];
    let [seal, open] = [OP_ENCRYPT, OP_DECRYPT].map(|op| {
        let mut bytes = Vec::new();
        let create = Create::Aead(session::Aead {
            algo: aead::GCM,
            key_len: 16,
            tag_len: 16,
            aad_len: 0,
            op,
        });
        let (key, auth_key) = (&key[..], &[][..]);
        let control = Control::Create {
            create,
            key,
            auth_key,
        };
        control.emit(Features::new(LEGACY), &mut bytes);
        let (_, answer) = rig.ask(Which::Control, &bytes, 16);
        Created::parse(&answer).unwrap().result().unwrap()
    });
    let crypt = |session: u64, action, src: &[u8], dst_len: u32| {
        let mut bytes = Vec::new();
        Request {
            mode: data::Mode::Session(session),
            action,
            op: data::Operation::Aead(data::Aead {
                iv_len: 12,
                aad_len: 0,
                src_len: src.len() as u32,
                dst_len,
                tag_len: 16,
            }),
            iv: &[1; 12],
            src,
            aad: &[],
        }
        .emit(Features::new(LEGACY), &mut bytes);
        bytes
    };
    let (used, sealed) = rig.ask(Which::Data, &crypt(seal, Action::Encrypt, &[3; 32], 48), 49);
    assert_eq!((used, sealed[48]), (49, OK));
    // Control: with the right tag, the plaintext is written.
    let (used, opened) = rig.ask(
        Which::Data,
        &crypt(open, Action::Decrypt, &sealed[..48], 32),
        33,
    );
    assert_eq!((used, opened), (33, [&[3; 32][..], &[OK]].concat()));
    let mut wrong = sealed[..48].to_vec();
    wrong[47] ^= 1;
    let (used, opened) = rig.ask(Which::Data, &crypt(open, Action::Decrypt, &wrong, 32), 33);
    let status = Status::BadMsg as u8;
    assert_eq!((used, opened), (1, [&[LEFT; 32][..], &[status]].concat()));
}

#[test]
fn cve_2020_14378_more_descriptors_than_there_are() {
    let mut rig = Rig::new(limits());
    let table = rig.place(Which::Data).desc;
    // Build a chain through the whole ring. Its last descriptor points back to an earlier one.
    for i in 0..RING {
        rig.describe(table, i, (REQUEST, 1), NEXT, (i + 1) % RING);
    }
    assert_eq!(rig.follow(0), (0, 1));
    // Use an indirect table that is longer than the longest chain the device follows.
    let long = MAX_DESCRIPTORS as u32 + 1;
    for i in 0..long as u16 {
        rig.describe(TABLE, i, (REQUEST, 1), NEXT, i + 1);
    }
    rig.describe(table, 0, (TABLE, 16 * long), INDIRECT, 0);
    assert_eq!(rig.follow(0), (0, 1));
    // `next` points past the end of the table: first in the ring, then in an indirect table.
    rig.describe(table, 0, (REQUEST, 1), NEXT, RING);
    assert_eq!(rig.follow(0), (0, 1));
    rig.describe(TABLE, 0, (REQUEST, 1), NEXT, 1);
    rig.describe(table, 0, (TABLE, 16), INDIRECT, 0);
    assert_eq!(rig.follow(0), (0, 1));
    rig.is_well();
}

#[test]
fn cve_2023_3180_source_and_destination_of_different_lengths() {
    let mut rig = Rig::new(limits());
    let session = rig.session();
    for (src, dst) in [(64u32, 16u32), (16, 64), (64, 0), (0, 64), (64, u32::MAX)] {
        let mut request = encrypt(session, &[3; 64]);
        request[28..32].copy_from_slice(&src.to_le_bytes());
        request[32..36].copy_from_slice(&dst.to_le_bytes());
        let (_, answer) = rig.ask(Which::Data, &request, 17);
        assert_eq!(answer[16], ERR, "{src} bytes in, {dst} out");
        assert_eq!(answer[..16], [LEFT; 16]);
    }
    rig.is_well();
}

#[test]
fn cve_2024_3446_results_over_the_ring_itself() {
    // The result overwrites the request's own descriptors, the driver area or the device area. This
    // may break the ring, but only for that guest: the device has already copied everything that
    // it needs.
    let place = *Rig::new(limits()).place(Which::Data);
    for target in [place.desc, place.avail, place.used, REQUEST] {
        let mut rig = Rig::new(limits());
        let session = rig.session();
        let request = encrypt(session, &[3; 64]);
        rig.put(REQUEST, &request);
        rig.describe(place.desc, 0, (REQUEST, request.len() as u32), NEXT, 1);
        rig.describe(place.desc, 1, (target, 65), WRITE, 0);
        rig.offer(Which::Data, &[0]);
        // The first result may have overwritten the ring, so serve the ring again, whatever it
        // contains now. Either call may fail: only the effect on the other queue matters.
        let _ = rig.serve(Which::Data);
        let _ = rig.serve(Which::Data);
        // The other queue must be unaffected.
        let (_, answer) = rig.ask(Which::Control, &destroy(session), 1);
        assert_eq!(answer, [OK]);
    }
}

#[test]
fn cve_2025_14876_allocation_before_the_check() {
    let mut rig = Rig::new(limits());
    let table = rig.place(Which::Control).desc;
    // The lengths exceed the guest's memory, and the device must not allocate buffers for them.
    for len in [16 << 20, 0x7fff_ffff, u32::MAX] {
        rig.describe(table, 0, (REQUEST, len), NEXT, 1);
        rig.describe(table, 1, (RESULT, 16), WRITE, 0);
        rig.offer(Which::Control, &[0]);
        let count = rig.serve(Which::Control).unwrap();
        assert_eq!(count.malformed, 1);
        rig.describe(table, 0, (REQUEST, 16), NEXT, 1);
        rig.describe(table, 1, (RESULT, len), WRITE, 0);
        rig.offer(Which::Control, &[0]);
        let count = rig.serve(Which::Control).unwrap();
        assert_eq!(count.malformed, 1);
    }
    assert!(rig.allocated() < 64 << 10, "{} bytes", rig.allocated());
    rig.is_well();
}

#[test]
fn cve_2026_86845_a_session_that_is_gone() {
    let mut rig = Rig::new(limits());
    let session = rig.session();
    let (_, answer) = rig.ask(Which::Control, &destroy(session), 1);
    assert_eq!(answer, [OK]);
    // Another session reuses the closed session's slot.
    let other = rig.session();
    assert_ne!(session, other);
    for name in [session, other ^ 1, other + (1 << 32), u64::MAX, !other] {
        let (_, answer) = rig.ask(Which::Data, &encrypt(name, &[3; 64]), 65);
        assert_ne!(answer[64], OK, "session {name:#x}");
        assert_eq!(answer[..64], [LEFT; 64]);
    }
    let (_, answer) = rig.ask(Which::Control, &destroy(session), 1);
    assert_ne!(answer, [OK], "closed twice");
    assert_eq!(rig.guest.sessions(), 1);
}

#[test]
fn cve_2026_86846_an_available_index_that_jumps() {
    let mut rig = Rig::new(limits());
    for jump in [RING + 1, 0x7fff, 0xffff] {
        rig.set_avail_idx(Which::Data, jump);
        let broken = rig.serve(Which::Data).expect_err("more than the ring has");
        assert_eq!(broken, Broken::AvailIndex(jump));
        assert_eq!(rig.used(Which::Data), []);
    }
    // An invalid head also breaks the ring.
    rig.set_avail_idx(Which::Data, 0);
    rig.offer(Which::Data, &[RING]);
    assert_eq!(rig.serve(Which::Data).err(), Some(Broken::Head(RING)));
}

#[test]
fn cve_2026_86847_chains_that_come_back_to_themselves() {
    let mut rig = Rig::new(limits());
    let table = rig.place(Which::Data).desc;
    rig.describe(table, 0, (REQUEST, 16), NEXT, 0);
    assert_eq!(rig.follow(0), (0, 1));
    rig.describe(table, 0, (RESULT, 16), NEXT | WRITE, 1);
    rig.describe(table, 1, (RESULT, 16), NEXT | WRITE, 0);
    assert_eq!(rig.follow(0), (0, 1));
    // Repeat with the same fault in an indirect table, and with nested tables.
    rig.describe(table, 2, (TABLE, 32), INDIRECT, 0);
    rig.describe(TABLE, 0, (REQUEST, 16), NEXT, 1);
    rig.describe(TABLE, 1, (REQUEST, 16), NEXT, 0);
    assert_eq!(rig.follow(2), (0, 1));
    rig.describe(TABLE, 0, (TABLE, 32), INDIRECT, 0);
    assert_eq!(rig.follow(2), (0, 1));
    rig.is_well();
}

#[test]
fn cve_2026_86848_descriptors_that_change_while_they_are_followed() {
    let mut rig = Rig::new(limits());
    let session = rig.session();
    let place = *rig.place(Which::Data);
    let memory = rig.memory.clone();
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let _stopped = Stopped(&stop);
        // Another CPU of the guest keeps changing `next`, a length and a flag.
        scope.spawn(|| {
            use vm_memory::{Bytes, GuestAddress};
            let mut odd = 0u16;
            while !stop.0.load(Ordering::Relaxed) {
                odd = odd.wrapping_add(1);
                let next: u16 = if odd & 1 == 0 { 1 } else { 0xffff };
                let len: u32 = if odd & 2 == 0 { 65 } else { u32::MAX };
                let flags: u16 = if odd & 4 == 0 { WRITE } else { INDIRECT | NEXT };
                memory
                    .write_obj(next, GuestAddress(place.desc + 14))
                    .unwrap();
                memory
                    .write_obj(len, GuestAddress(place.desc + 24))
                    .unwrap();
                memory
                    .write_obj(flags, GuestAddress(place.desc + 28))
                    .unwrap();
            }
        });
        for _ in 0..400 {
            let (used, _) = rig.ask(Which::Data, &encrypt(session, &[3; 64]), 65);
            assert!(used == 0 || used == 1 || used == 65, "{used}");
        }
    });
    rig.is_well();
}

#[test]
fn buffers_outside_of_memory_and_out_of_order() {
    let mut rig = Rig::new(limits());
    let session = rig.session();
    let table = rig.place(Which::Data).desc;
    let request = encrypt(session, &[3; 64]);
    let len = request.len() as u32;
    rig.put(REQUEST, &request);
    let end = MEMORY as u64;
    for (read, write) in [
        (end, RESULT),
        (end - 1, RESULT),
        (u64::MAX - 4, RESULT),
        (REQUEST, end - 64),
        (REQUEST, end),
        (REQUEST, u64::MAX - 64),
    ] {
        rig.describe(table, 0, (read, len), NEXT, 1);
        rig.describe(table, 1, (write, 65), WRITE, 0);
        assert_eq!(rig.follow(0), (0, 1), "{read:#x} to {write:#x}");
    }
    // The writable buffer precedes the readable one, which is not allowed.
    rig.describe(table, 0, (RESULT, 65), WRITE | NEXT, 1);
    rig.describe(table, 1, (REQUEST, len), 0, 0);
    assert_eq!(rig.follow(0), (0, 1));
    // Use tables whose size is not a multiple of the descriptor size, empty tables, and tables
    // outside memory.
    for table_at in [(TABLE, 24), (TABLE, 0), (end - 16, 32)] {
        rig.describe(table, 0, table_at, INDIRECT, 0);
        assert_eq!(rig.follow(0), (0, 1), "{table_at:x?}");
    }
    rig.is_well();
}

#[test]
fn more_sessions_than_are_allowed() {
    let mut rig = Rig::new(limits());
    let sessions: Vec<u64> = (0..8).map(|_| rig.session()).collect();
    let (_, answer) = rig.ask(Which::Control, &create(OP_DECRYPT), 16);
    assert_ne!(answer[8], OK);
    for session in sessions {
        let (_, answer) = rig.ask(Which::Control, &destroy(session), 1);
        assert_eq!(answer, [OK]);
    }
    rig.is_well();
}

#[test]
fn one_guest_cannot_name_anothers_sessions() {
    let mut one = Rig::new(limits());
    let session = one.session();
    // Use another thread, because a thread can have only one emulated CPU.
    let other = std::thread::spawn(move || {
        let mut other = Rig::new(limits());
        let (_, answer) = other.ask(Which::Data, &encrypt(session, &[3; 64]), 65);
        assert_eq!(answer[64], Status::InvSess as u8);
        let (_, answer) = other.ask(Which::Control, &destroy(session), 1);
        assert_ne!(answer, [OK]);
        other.is_well();
    });
    other.join().unwrap();
    assert_eq!(one.guest.sessions(), 1);
    one.is_well();
}

/// A kick descriptor may be any file, including one that is always readable. The allowed number of
/// wake-ups grows with the measured time, so a slow machine does not make the test fail.
#[test]
fn a_wake_up_for_nothing_is_followed_by_longer_and_longer_pauses() {
    let mut rig = Rig::new(Limits::default());
    let zero = File::options().read(true).write(true).open("/dev/zero");
    let semaphore = {
        let flags = rustix::event::EventfdFlags::SEMAPHORE;
        File::from(rustix::event::eventfd(1 << 30, flags).unwrap())
    };
    for file in [zero.unwrap(), semaphore] {
        let kick = Kick::new(file).unwrap();
        // On a busy machine, the device may be stopped before it has run, so try again.
        let (sleeps, most) = (0..50)
            .map(|_| {
                let start = Instant::now();
                let sleeps = rig.serve_for(&kick, Duration::from_millis(100)).sleeps;
                (sleeps, 32 + start.elapsed().as_millis() as u64 / 5)
            })
            .find(|&(sleeps, _)| sleeps > 0)
            .expect("the device never slept");
        assert!(sleeps < most, "{sleeps} of {most}");
    }
}

/// Restarting the ring cuts short a delay imposed by the rate limit, but must not let the guest
/// exceed its rate.
#[test]
fn a_ring_that_is_restarted_is_held_to_the_rate() {
    const REQUESTS: usize = 12;
    let restart = |bytes| {
        let rates = Rates {
            bytes,
            ..Rates::default()
        };
        let mut rig = Rig::with_rates(limits(), &rates);
        let table = rig.place(Which::Data).desc;
        rig.describe(table, 0, (BUFFERS, 1000), 0, 0);
        rig.offer(Which::Data, &[0; REQUESTS]);
        (0..REQUESTS).map(|_| rig.restart(Which::Data)).last()
    };
    // At one byte per second, the first request is served after 1000 s. Before that, nothing is
    // served, so a front end that reconnects gains nothing.
    assert_eq!(restart(Some(1)), Some(0));
    assert_eq!(restart(None), Some(REQUESTS), "the control");
}

/// The rate limit delays a request for 1000 s, and the driver breaks the ring during this delay.
/// The device must not wait for the end of the delay before it reports this. Control: if the ring
/// stays intact, no error is reported.
#[test]
fn a_ring_that_breaks_while_its_guest_is_held_is_reported() {
    const PATIENCE: Duration = Duration::from_secs(20);
    for (breaks, limit) in [(true, PATIENCE), (false, Duration::from_millis(300))] {
        let rates = Rates {
            bytes: Some(1),
            ..Rates::default()
        };
        let mut rig = Rig::with_rates(limits(), &rates);
        let Place { desc, avail, .. } = *rig.place(Which::Data);
        rig.describe(desc, 0, (BUFFERS, 1000), 0, 0);
        rig.offer(Which::Data, &[0]);
        let start = Instant::now();
        let done = rig.serve_while(Which::Data, limit, |memory| {
            std::thread::sleep(Duration::from_millis(50));
            if breaks {
                let index = GuestAddress(avail + 2);
                memory.store(1000u16, index, Ordering::Release).unwrap();
            }
        });
        assert_eq!(done.is_err(), breaks, "{done:?}");
        assert!(start.elapsed() < PATIENCE || !breaks);
        assert_eq!(rig.used(Which::Data).len(), 0);
    }
}

/// A request delayed by the rate limit is charged once, however often its ring is restarted, and is
/// served eventually.
#[test]
fn a_request_is_charged_before_it_is_served_and_once() {
    let rates = Rates {
        bytes: Some(100_000),
        ..Rates::default()
    };
    let mut rig = Rig::with_rates(limits(), &rates);
    let table = rig.place(Which::Data).desc;
    // At this rate, 4 KiB take 41 ms, of which the burst covers 10 ms.
    rig.describe(table, 0, (BUFFERS, 4096), 0, 0);
    rig.offer(Which::Data, &[0]);
    let start = Instant::now();
    let mut restarts = 0;
    while rig.restart(Which::Data) == 0 {
        restarts += 1;
        // If each restart charged the request again, it would never be served.
        assert!(start.elapsed() < Duration::from_secs(60), "{restarts}");
    }
    assert!(start.elapsed() > Duration::from_millis(30) && restarts > 0);
}

/// The device copies a request buffer by buffer. If a later buffer is outside guest memory, the key
/// that was already copied is wiped.
#[test]
fn the_key_of_a_request_that_is_cut_off_is_wiped() {
    let request = create(OP_ENCRYPT);
    let key = &request[request.len() - 16..];
    let mut rig = Rig::new(limits());
    let table = rig.place(Which::Control).desc;
    rig.put(REQUEST, &request);
    rig.describe(table, 0, (REQUEST, request.len() as u32), NEXT, 1);
    rig.describe(table, 1, (1 << 40, 8), NEXT, 2);
    rig.describe(table, 2, (RESULT, 16), WRITE, 0);
    rig.offer(Which::Control, &[0]);
    assert_eq!(rig.serve(Which::Control).unwrap().malformed, 1);
    assert!(!rig.holds(key));
    // Control: the copy of a data request is not wiped, so `holds` finds the same bytes in it.
    let table = rig.place(Which::Data).desc;
    rig.describe(table, 0, (REQUEST, request.len() as u32), NEXT, 1);
    rig.describe(table, 1, (RESULT, 16), WRITE, 0);
    rig.offer(Which::Data, &[0]);
    rig.serve(Which::Data).unwrap();
    assert!(rig.holds(key));
}
