//! Checks with descriptors and rings from a hostile driver. The device may answer with an error,
//! ignore the request, or disconnect. It must write only to memory that it is allowed to write to,
//! and it must keep serving other drivers, including one that stays connected during the check.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kiln_virtio::wire::data::Mode;

use crate::case::{Case, Group};
use crate::conform::{create, describe, in_session, open, usable};
use crate::hostile::next_driver;
use crate::link::{
    Came, Descriptor, Link, Queue, Target, BASE, MEMORY, NEXT, RING, ROOM, TABLE, WRITE,
};
use crate::rule::{self, Rule};
use crate::vectors::Vector;

/// How long to watch the device after a check has published descriptors that the device may ignore.
const WATCHED: Duration = Duration::from_millis(200);
/// Offset of an area that lies after all memory used by requests. The device must not write to this
/// area.
pub(crate) const CANARY: usize = ROOM + 0x100000;
const CANARY_LEN: usize = 0x10000;

pub(crate) type Act = fn(&mut Link, &[u8]);

pub(crate) fn cases() -> Vec<Case> {
    let acts: [(&str, Rule, Act); 17] = [
        (
            "CVE-2020-14376: writable memory that is not the guest's",
            rule::BUFFERS,
            |link, bytes| {
                chain(link, bytes, BASE + MEMORY as u64, 33);
            },
        ),
        (
            "CVE-2020-14377: writable memory that extends beyond the end",
            rule::BUFFERS,
            |link, bytes| {
                chain(link, bytes, BASE + MEMORY as u64 - 8, 33);
            },
        ),
        ("an address that wraps", rule::BUFFERS, |link, bytes| {
            chain(link, bytes, u64::MAX - 7, 33)
        }),
        ("a length of 4 GiB", rule::CHAINS, |link, bytes| {
            chain(link, bytes, BASE + ROOM as u64, u32::MAX)
        }),
        (
            "CVE-2020-14378: a chain that is a loop",
            rule::CHAINS,
            |link, _| {
                let readable = piece(ROOM, 72, NEXT, 0);
                head(link, &[readable]);
            },
        ),
        (
            "CVE-2026-86847: a writable chain that is a loop",
            rule::CHAINS,
            |link, bytes| {
                link.write(ROOM, bytes);
                head(
                    link,
                    &[
                        piece(ROOM, bytes.len(), NEXT, 1),
                        piece(ROOM + 0x4000, 8, NEXT | WRITE, 1),
                    ],
                );
            },
        ),
        ("a next beyond the table", rule::BUFFERS, |link, bytes| {
            link.write(ROOM, bytes);
            head(link, &[piece(ROOM, bytes.len(), NEXT, 9999)]);
        }),
        ("a head beyond the table", rule::AVAILABLE, |link, _| {
            link.publish(Queue::Data, 9999, 1)
        }),
        (
            "CVE-2026-86846: an index that jumps",
            rule::AVAILABLE,
            |link, bytes| {
                chain_at(link, bytes, BASE + (ROOM + 0x4000) as u64, 33);
                link.publish(Queue::Data, 0, RING + 1);
            },
        ),
        (
            "CVE-2026-86846: an index that goes back",
            rule::AVAILABLE_INDEX,
            |link, bytes| {
                chain_at(link, bytes, BASE + (ROOM + 0x4000) as u64, 33);
                link.publish(Queue::Data, 0, u16::MAX);
            },
        ),
        (
            "writable before readable",
            rule::ORDER_OF_BUFFERS,
            |link, bytes| {
                link.write(ROOM, bytes);
                head(
                    link,
                    &[
                        piece(ROOM + 0x4000, 33, NEXT | WRITE, 1),
                        piece(ROOM, bytes.len(), 0, 0),
                    ],
                );
            },
        ),
        (
            "nothing writable, nothing readable, and no bytes",
            rule::DATA,
            |link, bytes| {
                link.write(ROOM, bytes);
                for piece in [
                    piece(ROOM, bytes.len(), 0, 0),
                    piece(ROOM + 0x4000, 33, WRITE, 0),
                    piece(ROOM, 0, 0, 0),
                ] {
                    head(link, &[piece]);
                    link.wait(Queue::Data, Duration::from_millis(20));
                }
            },
        ),
        (
            "an indirect table in an indirect table",
            rule::INDIRECT_DRIVER,
            |link, _| {
                let table = ROOM + 0x8000;
                link.describe(table, 0, piece(table, 16, TABLE, 0));
                head(link, &[piece(table, 16, TABLE, 0)]);
            },
        ),
        (
            "an indirect table with an invalid length",
            rule::INDIRECT,
            |link, _| {
                for len in [0, 1, 15, 17, 0xffff_fff0_u32 as usize] {
                    head(link, &[piece(ROOM + 0x8000, len, TABLE, 0)]);
                    link.wait(Queue::Data, Duration::from_millis(20));
                }
            },
        ),
        ("an indirect table with a loop", rule::CHAINS, |link, _| {
            let table = ROOM + 0x8000;
            link.describe(table, 0, piece(ROOM, 16, NEXT, 1));
            link.describe(table, 1, piece(ROOM, 16, NEXT, 0));
            head(link, &[piece(table, 32, TABLE, 0)]);
        }),
        (
            "CVE-2024-3446: an answer that overwrites the rings",
            rule::WRITES,
            |link, bytes| {
                let [table, avail, used] = link.layout(Queue::Data);
                for at in [table, avail, used] {
                    chain(link, bytes, BASE + at as u64, 33);
                    link.wait(Queue::Data, Duration::from_millis(20));
                }
            },
        ),
        (
            "CVE-2026-86848: a next that changes while it is followed",
            rule::CHAINS,
            flipping,
        ),
    ];
    let ring = acts.into_iter().map(|(name, rule, act)| {
        Case::new((Group::Rings, rule), name, move |target| {
            let link = open(target, 0)?;
            let vector = usable(&link.offer).ok_or("no known algorithm")?;
            hostile(target, link, &vector, act)
        })
    });
    let gone = Case::new(
        (Group::Rings, rule::CONNECTION),
        "a driver that disconnects with requests in flight",
        |target| {
            for _ in 0..20 {
                let mut link = open(target, 0)?;
                let vector = usable(&link.offer).ok_or("no known algorithm")?;
                let bytes = request(&mut link, &vector)?;
                chain(&mut link, &bytes, BASE + (ROOM + 0x4000) as u64, 33);
            }
            let link = open(target, 0)?;
            let vector = usable(&link.offer).ok_or("no known algorithm")?;
            drop(link);
            next_driver(target, &vector)
        },
    );
    ring.chain([gone]).collect()
}

fn request(link: &mut Link, vector: &Vector) -> Result<Vec<u8>, String> {
    let name = create(link, vector)?;
    let mut bytes = Vec::new();
    vector
        .request(Mode::Session(name))
        .emit(link.features, &mut bytes);
    Ok(bytes)
}

pub(crate) fn hostile(
    target: &Target,
    mut link: Link,
    vector: &Vector,
    act: Act,
) -> Result<(), String> {
    let bytes = request(&mut link, vector)?;
    // An error means that the device serves only one driver at a time. Ignore it, because the check
    // cannot harm another driver in that case.
    let mut other = Link::open(target, 0).ok();
    link.write(CANARY, &[0x5c; CANARY_LEN]);
    act(&mut link, &bytes);
    if let Came::Used(id, len) = link.wait(Queue::Data, WATCHED) {
        // One check makes the invalid head 9999 available, so the device may return this head.
        if id >= RING.into() && id != 9999 {
            return Err(format!(
                "the used ring has descriptor {id} with {len} bytes, but the table has {RING} \
                 descriptors"
            ));
        }
    }
    if link.read(CANARY, CANARY_LEN).iter().any(|&b| b != 0x5c) {
        return Err("the device wrote outside the writable buffers".into());
    }
    if let Some(other) = &mut other {
        in_session(other, vector).map_err(|e| format!("another driver meanwhile: {e}"))?;
    }
    drop((link, other));
    next_driver(target, vector)
}

fn piece(offset: usize, len: usize, flags: u16, next: u16) -> Descriptor {
    Descriptor {
        address: BASE + offset as u64,
        len: len as u32,
        flags,
        next,
    }
}

/// Writes these descriptors and makes the first one available.
fn head(link: &mut Link, pieces: &[Descriptor]) {
    let table = link.layout(Queue::Data)[0];
    for (i, piece) in pieces.iter().enumerate() {
        link.describe(table, i as u16, *piece);
    }
    link.publish(Queue::Data, 0, 1);
}

/// Writes the descriptors for a valid request whose answer is written to address `answer`.
fn chain_at(link: &mut Link, bytes: &[u8], answer: u64, len: u32) {
    link.write(ROOM, bytes);
    let table = link.layout(Queue::Data)[0];
    link.describe(table, 0, piece(ROOM, bytes.len(), NEXT, 1));
    let answer = Descriptor {
        address: answer,
        len,
        flags: WRITE,
        next: 0,
    };
    link.describe(table, 1, answer);
}

fn chain(link: &mut Link, bytes: &[u8], answer: u64, len: u32) {
    chain_at(link, bytes, answer, len);
    link.publish(Queue::Data, 0, 1);
}

/// Keeps changing the first descriptor's `next` between the correct value, an index beyond the
/// table, and the index of the descriptor itself.
fn flipping(link: &mut Link, bytes: &[u8]) {
    link.write(ROOM, bytes);
    let table = link.layout(Queue::Data)[0];
    let answer = (ROOM + 0x4000, 33, WRITE);
    describe(link, table, &[(ROOM, bytes.len(), 0), answer]);
    let stop = AtomicBool::new(false);
    let memory = link.shared();
    thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for next in [1_u16, 9999, 1, 0, 1] {
                    memory.write(table + 14, &next.to_le_bytes());
                }
            }
        });
        for _ in 0..200 {
            link.publish(Queue::Data, 0, 1);
            // The device may stop serving the queue at some point.
            if link.wait(Queue::Data, Duration::from_millis(20)) == Came::Gone {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
