//! A ring with a scripted device that can write any value anywhere in memory, for tests and
//! fuzzing.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::memory::{Memory, Span};
use crate::ring::{Part, Ring, DESCRIPTOR};

/// Number of ring entries, kept small so that the ring wraps often.
const SIZE: u16 = 8;
/// Bytes of memory in addition to the ring.
const HEAP: usize = 4096;

/// Runs a script. Returns how many requests the device completed, and whether a protocol violation
/// was detected.
///
/// # Panics
/// Panics if the driver accepts an answer without a request or an answer longer than allowed, if it
/// continues after a protocol violation, or if its count of requests in flight is wrong.
pub fn play(script: &[u8]) -> (usize, bool) {
    let Some((&first, script)) = script.split_first() else {
        return (0, false);
    };
    let memory = Memory::new(crate::ring::bytes(SIZE) + HEAP).expect("memory for a ring");
    let mut ring =
        Ring::new(&memory, SIZE, first & 1 != 0).expect("the memory has space for the ring");
    if first & 2 != 0 {
        ring = ring.in_order();
    }
    let heap = memory
        .take(2048, 64)
        .expect("the memory has space for buffers");
    let mut held: BTreeMap<u16, u32> = BTreeMap::new();
    let mut used = 0_u16;
    let (mut back, mut lied) = (0, false);
    for step in script.chunks_exact(4) {
        let [what, a, b, c] = [step[0], step[1], step[2], step[3]];
        match what % 10 {
            0 | 1 => {
                let part = Span {
                    offset: heap.offset,
                    len: usize::from(b) + 1,
                };
                let parts = [
                    Part::readable(part),
                    Part::writable(part),
                    Part::writable(part),
                ];
                let parts = &parts[..1 + usize::from(a) % 3];
                let table = heap.part(1024, parts.len() * DESCRIPTOR);
                if let Ok(head) = ring.add(parts, (c & 1 != 0).then_some(table)) {
                    let writable = (parts.len() as u32 - 1) * (u32::from(b) + 1);
                    assert!(!lied, "a broken ring accepts nothing");
                    assert_eq!(held.insert(head, writable), None, "{head} is in flight");
                }
            }
            2 => {
                ring.publish();
            }
            // Overwrite any byte of the memory.
            3 if c % 8 == 0 => {
                let at = usize::from(u16::from_le_bytes([a, b])) % memory.size();
                memory.store(at, c, Ordering::Relaxed);
            }
            // Write a valid used entry for a request in flight.
            4 => {
                let Some((&head, &writable)) = held.iter().nth(usize::from(a) % held.len().max(1))
                else {
                    continue;
                };
                complete(&memory, &ring, used, head as u8, writable.min(b.into()));
                used = used.wrapping_add(1);
            }
            // Write an arbitrary used entry, which usually matches no request in flight.
            5 if c % 8 == 0 => {
                complete(
                    &memory,
                    &ring,
                    used,
                    a,
                    u32::from(b) | u32::from(c & 1) << 31,
                );
                used = used.wrapping_add(1);
            }
            6 => {
                ring.enable_interrupt(a.into());
                ring.disable_interrupt();
            }
            7 | 8 => match ring.pop() {
                Ok(Some(entry)) => {
                    let allowed = held.remove(&entry.head).expect("it was in flight");
                    assert!(entry.len <= allowed, "{} of {allowed}", entry.len);
                    assert!(!lied, "a broken ring returns nothing");
                    back += 1;
                }
                Ok(None) => {}
                Err(_) => lied = true,
            },
            _ => {}
        }
        assert_eq!(usize::from(ring.in_flight()), held.len());
        assert!(ring.room() <= SIZE);
    }
    (back, lied)
}

fn complete(memory: &Arc<Memory>, ring: &Ring, used: u16, id: u8, len: u32) {
    let at = ring.layout().used.offset;
    let entry = at + 4 + 8 * usize::from(used % SIZE);
    memory.store(entry, u32::from(id).to_le(), Ordering::Relaxed);
    memory.store(entry + 4, len.to_le(), Ordering::Relaxed);
    memory.store(at + 2, used.wrapping_add(1).to_le(), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_measure::SplitMix64;

    #[test]
    fn scripts_at_random_are_survived() {
        let mut random = SplitMix64(1);
        let (mut back, mut lies) = (0, 0);
        for _ in 0..2000 {
            let mut script = [0; 201];
            random.fill(&mut script);
            let (came, lied) = play(&script);
            back += came;
            lies += usize::from(lied);
        }
        // The test is meaningful only if both outcomes occur.
        assert!(back > 100 && lies > 100, "{back} back, {lies} lies");
    }

    #[test]
    fn an_honest_script_brings_all_back() {
        for features in [1, 3] {
            let mut script = vec![features];
            for i in 0..100_u8 {
                script.extend_from_slice(&[0, 1, 9, i & 1]);
                script.extend_from_slice(&[2, 0, 0, 0]);
                script.extend_from_slice(&[4, 0, 5, 0]);
                script.extend_from_slice(&[7, 0, 0, 0]);
            }
            assert_eq!(play(&script), (100, false));
        }
    }

    /// The virtio specification (2.7.9) allows a device to write a single used entry for several
    /// requests. The entry contains the head of the last request.
    #[test]
    fn one_entry_may_stand_for_several_requests_in_order() {
        let memory = Memory::new(crate::ring::bytes(SIZE) + HEAP).unwrap();
        let mut ring = Ring::new(&memory, SIZE, false).unwrap().in_order();
        let heap = memory.take(64, 64).unwrap();
        let parts = [Part::readable(heap), Part::writable(heap)];
        let mut used = 0_u16;
        for round in 0..10_u16 {
            // Add chains of two descriptors, which are allocated in table order.
            let heads = [0, 1, 2].map(|n| {
                let head = ring.add(&parts, None).unwrap();
                assert_eq!(head, (6 * round + 2 * n) % SIZE);
                head
            });
            ring.publish();
            complete(&memory, &ring, used, heads[2] as u8, 5);
            used = used.wrapping_add(3);
            let at = ring.layout().used.offset;
            memory.store(at + 2, used.to_le(), Ordering::Release);
            for (head, len) in heads.into_iter().zip([64, 64, 5]) {
                let got = ring.pop().unwrap().unwrap();
                assert_eq!((got.head, got.len), (head, len));
            }
            assert_eq!(ring.pop(), Ok(None));
        }
        // The entry covers two requests, but the used index advances by only one.
        let heads = [0, 1].map(|_| ring.add(&parts, None).unwrap());
        ring.publish();
        complete(&memory, &ring, used, heads[1] as u8, 5);
        assert_eq!(ring.pop(), Err(crate::Lie::Id(heads[1].into())));
    }
}
