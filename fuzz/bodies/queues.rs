//! The device processes the queues of a hostile driver: descriptors, indices and buffers in guest
//! memory, in any order and with any content. After a reset, a well-behaved driver must be served.

use std::cell::RefCell;

use kiln_device::rig::{Rig, Which, BUFFERS, NEXT, RING, WRITE};
use kiln_device::Limits;
use kiln_virtio::sample::create;
use kiln_virtio::wire::algo::OP_ENCRYPT;
use kiln_virtio::wire::control::Created;

const MAX_SESSIONS: usize = 8;
const MAX_REQUEST: usize = 4096;

thread_local! {
    static RIG: RefCell<Rig> = RefCell::new(Rig::new(Limits {
        max_sessions: MAX_SESSIONS,
        max_request: MAX_REQUEST,
        ..Limits::default()
    }));
}

/// The fuzzer's input. Reading past its end returns zeros.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let n = N.min(self.0.len());
        bytes[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        bytes
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    /// Returns an address that is usually in the rings or buffers, but can be any 64-bit value.
    fn address(&mut self) -> u64 {
        let [kind, a, b] = self.take();
        let near = u64::from(u16::from_le_bytes([a, b]));
        match kind % 8 {
            0 => u64::from_le_bytes(self.take()),
            1 => (1 << 20) - (near & 0xff),
            2 => near,
            _ => BUFFERS + (near & 0x3fff),
        }
    }

    fn len(&mut self) -> u32 {
        let [kind, a, b] = self.take();
        match kind % 8 {
            0 => u32::from_le_bytes(self.take()),
            _ => u32::from(u16::from_le_bytes([a, b])) & 0xfff,
        }
    }
}

/// Checks that the device still works: a well-formed request must create a session.
fn is_well(rig: &mut Rig) {
    let request = create(OP_ENCRYPT);
    let table = rig.place(Which::Control).desc;
    rig.put(BUFFERS, &request);
    rig.describe(table, 0, (BUFFERS, request.len() as u32), NEXT, 1);
    rig.describe(table, 1, (BUFFERS + 0x1000, 16), WRITE, 0);
    rig.offer(Which::Control, &[0]);
    rig.serve(Which::Control).expect("the ring is in order");
    assert_eq!(rig.used(Which::Control), [(0, 16)]);
    let answer = rig.get(BUFFERS + 0x1000, 16);
    let created = Created::parse(&answer).expect("16 bytes");
    assert!(created.result().is_ok());
}

/// Runs one input. Returns whether the device writes an answer.
pub(crate) fn run(data: &[u8]) -> bool {
    RIG.with_borrow_mut(|rig| {
        rig.reset();
        let mut answered = false;
        let mut input = Input(data);
        while !input.0.is_empty() {
            let [what, index] = input.take();
            let which = if what & 8 == 0 {
                Which::Control
            } else {
                Which::Data
            };
            let table = rig.place(which).desc;
            match what & 7 {
                0 | 1 => {
                    let span = (input.address(), input.len());
                    let (flags, next) = (input.short() & 7, input.short() % (RING + 2));
                    let table = if what & 16 == 0 { table } else { BUFFERS };
                    rig.describe(table, u16::from(index) % (2 * RING), span, flags, next);
                }
                2 => {
                    let at = input.address();
                    let len = usize::from(index).min(input.0.len());
                    let (bytes, rest) = input.0.split_at(len);
                    rig.put(at, bytes);
                    input.0 = rest;
                }
                3 => {
                    let request = create(OP_ENCRYPT);
                    rig.put(BUFFERS + 0x80 * u64::from(index % 16), &request);
                }
                4 => rig.set_avail_idx(which, input.short()),
                5 => rig.offer(which, &[u16::from(index) % (RING + 1)]),
                _ => {
                    answered |= rig.serve(which).is_ok_and(|count| count.bytes_out > 0);
                }
            }
            assert!(rig.guest.sessions() <= MAX_SESSIONS);
        }
        for which in [Which::Control, Which::Data] {
            answered |= rig.serve(which).is_ok_and(|count| count.bytes_out > 0);
        }
        // Requests and answers are at most 4 KiB long, plus headers. The capacity of their vectors
        // grows by doubling, so 64 KiB must be enough.
        assert!(rig.allocated() <= 64 << 10, "{} bytes", rig.allocated());
        rig.reset();
        is_well(rig);
        answered
    })
}
