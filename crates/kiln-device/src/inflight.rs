//! Records requests that the device has taken but not yet returned, in memory that outlives this
//! process because the front end holds it (vhost-user.rst, "Inflight I/O tracking", split
//! virtqueues). The next process that serves the guest continues from this record.
//!
//! The device returns requests in the order it took them, so the used index shows which request is
//! next. It does not show how far that request had progressed, and serving it a second time gives a
//! wrong result if its destination overlaps its source. Therefore the unused bytes of the layout
//! record each request's stage:
//!
//! | when the process ended | what the next process does |
//! |---|---|
//! | before it began writing the answer | serves the request |
//! | while it wrote the answer | returns an error: part of the source may have been overwritten |
//! | after it wrote the answer | returns the request to the driver |
//!
//! Sessions, and with them the effects of control requests, are lost when the process ends, so
//! control requests are always served a second time.
//!
//! A front end may write anything into this memory. The worst effect is that its own requests are
//! skipped or repeated.

use std::fs::File;
use std::io;
use std::sync::atomic::{compiler_fence, AtomicU16, AtomicU64, Ordering};
use std::sync::Arc;

use rustix::fs::{fcntl_add_seals, memfd_create, MemfdFlags, SealFlags};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

use crate::config::MAX_RING;
use crate::memory::check;
use crate::vhost_user::InflightArea;

/// Size in bytes of a queue's header, which precedes the descriptor entries. It contains the
/// features, version, number of descriptors, head of the last batch, and used index.
const HEADER: usize = 16;
const VERSION: usize = 8;
const SIZE: usize = 10;
const LAST_BATCH: usize = 12;
const USED: usize = 14;

/// Size in bytes of a descriptor's entry. It contains the in-flight flag, five unused bytes, the
/// next entry in the batch, and the sequence number.
const DESCRIPTOR: usize = 16;
/// Offset of the in-flight flag and the first unused byte, which holds the stage. Both are accessed
/// as one 16-bit word.
const STATE: usize = 0;
/// Offsets of the other unused bytes, which hold the answer's length in two halves.
const LENGTH: [usize; 2] = [2, 4];
const NEXT: usize = 6;
const COUNTER: usize = 8;

/// Version of the record's layout, which is stored in each queue's header.
const LAYOUT: u16 = 1;
/// Alignment of each queue's record: one cache line.
const ALIGN: usize = 64;

const IN_FLIGHT: u16 = 1;

/// How far the device has progressed with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No byte of the answer has been written.
    Taken,
    /// Some bytes of the answer may have been written.
    Answering,
    /// The answer has been written; the value is its length in bytes.
    Answered(u32),
}

/// Returns the number of bytes that the record of a queue with `size` descriptors needs.
fn queue_bytes(size: u16) -> usize {
    (HEADER + DESCRIPTOR * usize::from(size)).next_multiple_of(ALIGN)
}

/// The memory that records the requests in flight on all queues of a guest.
pub(crate) struct Inflight {
    map: MmapRegion,
    queues: u16,
    size: u16,
}

impl Inflight {
    /// Creates the file that a front end receives. It is large enough for `queues` queues and is
    /// sealed against shrinking.
    pub(crate) fn file(queues: usize) -> io::Result<File> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("kiln-inflight", flags)?);
        file.set_len((queues * queue_bytes(MAX_RING)) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(file)
    }

    /// Describes the part of the file for `n` queues of `queue_size` descriptors each. Returns
    /// `None` if either number is 0 or exceeds the device's limit.
    pub(crate) fn describe(n: u16, queue_size: u16, queues: usize) -> Option<InflightArea> {
        let is_possible =
            (1..=queues).contains(&usize::from(n)) && (1..=MAX_RING).contains(&queue_size);
        let bytes = usize::from(n) * queue_bytes(queue_size.min(MAX_RING));
        is_possible.then_some(InflightArea {
            size: bytes as u64,
            offset: 0,
            queues: n,
            queue_size,
        })
    }

    /// Maps a file received from the front end. It need not be the file that the device created.
    pub(crate) fn open(
        file: File,
        given: &InflightArea,
        queues: usize,
    ) -> io::Result<Arc<Inflight>> {
        let invalid = |reason| io::Error::new(io::ErrorKind::InvalidInput, reason);
        let needed = Inflight::describe(given.queues, given.queue_size, queues)
            .ok_or_else(|| {
                invalid("in-flight memory for a number of queues or descriptors out of range")
            })?
            .size;
        if given.size < needed {
            return Err(invalid("in-flight memory that is too small for its queues"));
        }
        check(&file, given.offset, needed)?;
        let shared = FileOffset::new(file, given.offset);
        let map = MmapRegion::from_file(shared, needed as usize).map_err(io::Error::other)?;
        Ok(Arc::new(Inflight {
            map,
            queues: given.queues,
            size: given.queue_size,
        }))
    }

    /// Clears the records of all queues.
    pub(crate) fn clear(&self) {
        let zeros = vec![0; self.map.size()];
        self.map
            .as_volatile_slice()
            .write_slice(&zeros, 0)
            .expect("as many bytes as are mapped");
    }

    /// Returns the record of one queue, if it has space for a ring of `size` descriptors.
    pub(crate) fn log(self: &Arc<Self>, queue: usize, size: u16) -> Option<Log> {
        let there = queue < usize::from(self.queues) && size <= self.size;
        there.then(|| Log {
            memory: self.clone(),
            at: queue * queue_bytes(self.size),
            size,
            batch: Vec::new(),
            counter: 0,
        })
    }
}

/// The in-flight record of one queue.
pub(crate) struct Log {
    memory: Arc<Inflight>,
    at: usize,
    size: u16,
    /// Heads of requests that have been returned but not yet published.
    batch: Vec<u16>,
    counter: u64,
}

impl Log {
    fn short(&self, at: usize) -> &AtomicU16 {
        let found = self.memory.map.get_atomic_ref(self.at + at);
        found.expect("aligned, and within the queue's part")
    }

    /// Returns a field of descriptor `head`'s entry. `head` must be less than the ring size.
    fn of(&self, head: u16, part: usize) -> &AtomicU16 {
        self.short(HEADER + DESCRIPTOR * usize::from(head) + part)
    }

    fn counter_of(&self, head: u16) -> &AtomicU64 {
        let at = self.at + HEADER + DESCRIPTOR * usize::from(head) + COUNTER;
        let found = self.memory.map.get_atomic_ref(at);
        found.expect("aligned, and within the queue's part")
    }

    /// Returns the requests in flight in the order they were taken. The previous process may have
    /// exited at any point. `used` is the ring's used index.
    pub(crate) fn recover(&mut self, used: u16) -> Vec<u16> {
        self.batch.clear();
        let same = self.short(VERSION).load(Ordering::Relaxed) == LAYOUT
            && self.short(SIZE).load(Ordering::Relaxed) == self.size;
        if !same {
            self.forget();
        }
        // Entries of the most recently published batch may still be marked as in flight.
        let published = used.wrapping_sub(self.short(USED).load(Ordering::Relaxed));
        if published <= self.size {
            let mut head = self.short(LAST_BATCH).load(Ordering::Relaxed);
            for _ in 0..published {
                if head >= self.size {
                    break;
                }
                self.of(head, STATE).store(0, Ordering::Relaxed);
                head = self.of(head, NEXT).load(Ordering::Relaxed);
            }
        }
        self.short(USED).store(used, Ordering::Release);
        let is_marked = |head: &u16| {
            let state = self.of(*head, STATE).load(Ordering::Relaxed);
            state & 0xff == IN_FLIGHT
        };
        let marked = (0..self.size).filter(is_marked);
        let mut taken: Vec<(u64, u16)> = marked
            .map(|head| (self.counter_of(head).load(Ordering::Relaxed), head))
            .collect();
        taken.sort_unstable();
        self.counter = taken.last().map_or(0, |(last, _)| last.wrapping_add(1));
        taken.into_iter().map(|(_, head)| head).collect()
    }

    /// Clears the record because it belongs to a different ring.
    pub(crate) fn forget(&mut self) {
        for head in 0..self.size {
            self.of(head, STATE).store(0, Ordering::Relaxed);
        }
        self.short(SIZE).store(self.size, Ordering::Relaxed);
        self.short(VERSION).store(LAYOUT, Ordering::Release);
    }

    /// Records that the device took a request. Returns the stage that an earlier process recorded
    /// for this request, or [`Stage::Taken`] if none was recorded.
    pub(crate) fn take(&mut self, head: u16) -> Stage {
        let state = self.of(head, STATE).load(Ordering::Relaxed);
        let half = |part| u32::from(self.of(head, part).load(Ordering::Relaxed));
        let before = match (state & 0xff, state >> 8) {
            (IN_FLIGHT, 1) => Stage::Answering,
            (IN_FLIGHT, 2) => Stage::Answered(half(LENGTH[0]) | half(LENGTH[1]) << 16),
            _ => Stage::Taken,
        };
        self.counter_of(head).store(self.counter, Ordering::Relaxed);
        self.counter = self.counter.wrapping_add(1);
        if before == Stage::Taken {
            self.set(head, Stage::Taken);
        }
        before
    }

    /// Records a request's stage. The next process sees the effects of later stores only if it also
    /// sees this stage.
    pub(crate) fn set(&self, head: u16, stage: Stage) {
        let stage = match stage {
            Stage::Taken => 0,
            Stage::Answering => 1,
            Stage::Answered(length) => {
                let low = self.of(head, LENGTH[0]);
                low.store(length as u16, Ordering::Relaxed);
                let high = self.of(head, LENGTH[1]);
                high.store((length >> 16) as u16, Ordering::Relaxed);
                2
            }
        };
        // No other thread reads the record while this one runs, and once a process has exited, its
        // stores are visible in program order. It is therefore enough to keep the compiler from
        // reordering the stores.
        compiler_fence(Ordering::SeqCst);
        self.of(head, STATE)
            .store(IN_FLIGHT | stage << 8, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Records that the next publication will return this request to the driver.
    pub(crate) fn give(&mut self, head: u16) {
        let last = self.short(LAST_BATCH);
        self.of(head, NEXT)
            .store(last.load(Ordering::Relaxed), Ordering::Relaxed);
        last.store(head, Ordering::Release);
        self.batch.push(head);
    }

    /// Records that all returned requests have been published.
    pub(crate) fn publish(&mut self, used: u16) {
        while let Some(head) = self.batch.pop() {
            self.of(head, STATE).store(0, Ordering::Release);
        }
        self.short(USED).store(used, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, Which, BUFFERS, NEXT as MORE, RING, WRITE};
    use kiln_virtio::sample::{create, encrypt};
    use kiln_virtio::wire::algo::OP_ENCRYPT;
    use kiln_virtio::wire::control::Created;
    use kiln_virtio::Limits;
    use proptest::prelude::*;

    const TEXT: [u8; 64] = [3; 64];
    const STATUS: u64 = BUFFERS + 0x1000;
    const LEFT: u8 = 0xee;

    fn given(size: u16) -> InflightArea {
        Inflight::describe(2, size, 2).unwrap()
    }

    /// A rig with one session and a record of its rings. The source and destination of its only
    /// data request overlap.
    struct Guest {
        rig: Rig,
        inflight: Arc<Inflight>,
        text: u64,
    }

    impl Guest {
        fn new() -> Guest {
            let mut rig = Rig::new(Limits::default());
            let request = create(OP_ENCRYPT);
            let table = rig.place(Which::Control).desc;
            rig.put(BUFFERS, &request);
            rig.describe(table, 0, (BUFFERS, request.len() as u32), MORE, 1);
            rig.describe(table, 1, (STATUS, 16), WRITE, 0);
            rig.offer(Which::Control, &[0]);
            rig.serve(Which::Control).unwrap();
            let created = Created::parse(&rig.get(STATUS, 16)).unwrap();
            let bytes = encrypt(created.result().unwrap(), &TEXT);
            rig.put(BUFFERS, &bytes);
            rig.put(STATUS, &[LEFT]);
            let text = BUFFERS + bytes.len() as u64 - 64;
            let table = rig.place(Which::Data).desc;
            rig.describe(table, 0, (BUFFERS, bytes.len() as u32), MORE, 1);
            rig.describe(table, 1, (text, 64), WRITE | MORE, 2);
            rig.describe(table, 2, (STATUS, 1), WRITE, 0);
            let file = Inflight::file(2).unwrap();
            let inflight = Inflight::open(file, &given(RING), 2).unwrap();
            Guest {
                rig,
                inflight,
                text,
            }
        }

        fn log(&self) -> Log {
            self.inflight.log(Which::Data as usize, RING).unwrap()
        }

        fn is(&self) -> (Vec<u8>, u8) {
            (self.rig.get(self.text, 64), self.rig.get(STATUS, 1)[0])
        }

        /// Simulates a process that exits before it has published anything, and the start of the
        /// next process.
        fn begin_again(&mut self, keeps_notes: bool) {
            let place = self.rig.place(Which::Data);
            place.next_avail = 0;
            let used = place.used + 2;
            self.rig.put(used, &[0, 0]);
            self.rig.inflight = keeps_notes.then(|| self.inflight.clone());
        }
    }

    /// Returns the expected ciphertext. Another thread computes it, because each thread can have
    /// only one emulated CPU.
    fn encrypted() -> Vec<u8> {
        let run = || {
            let mut guest = Guest::new();
            guest.rig.offer(Which::Data, &[0]);
            guest.rig.serve(Which::Data).unwrap();
            guest.is()
        };
        let (text, status) = std::thread::spawn(run).join().unwrap();
        assert!(status == 0 && text != TEXT);
        text
    }

    #[test]
    fn a_request_that_was_taken_is_served_once() {
        let mut guest = Guest::new();
        guest.rig.offer(Which::Data, &[0]);
        let mut log = guest.log();
        assert!(log.recover(0).is_empty());
        assert_eq!(log.take(0), Stage::Taken);
        guest.begin_again(true);
        guest.rig.serve(Which::Data).unwrap();
        assert_eq!(guest.is(), (encrypted(), 0));
        assert_eq!(guest.rig.used(Which::Data), [(0, 65)]);
        assert!(
            guest.log().recover(1).is_empty(),
            "it is no longer in flight"
        );
    }

    #[test]
    fn an_answer_that_was_written_is_handed_back_and_not_made_again() {
        for notes in [true, false] {
            let mut guest = Guest::new();
            guest.rig.inflight = Some(guest.inflight.clone());
            guest.rig.offer(Which::Data, &[0]);
            guest.rig.serve(Which::Data).unwrap();
            // Restore the record to its state before the answer was published.
            guest.log().set(0, Stage::Answered(65));
            guest.log().short(USED).store(0, Ordering::Relaxed);
            guest.log().short(LAST_BATCH).store(0, Ordering::Relaxed);
            guest.begin_again(notes);
            guest.rig.serve(Which::Data).unwrap();
            assert_eq!(guest.rig.used(Which::Data), [(0, 65)]);
            // Control: without the record, the text is encrypted twice.
            assert_eq!(guest.is() == (encrypted(), 0), notes);
        }
    }

    #[test]
    fn an_answer_that_was_cut_off_is_an_error() {
        let mut guest = Guest::new();
        guest.rig.offer(Which::Data, &[0]);
        guest.log().recover(0);
        guest.log().set(0, Stage::Answering);
        guest.rig.put(guest.text, &[9; 10]);
        let (half, _) = guest.is();
        guest.begin_again(true);
        guest.rig.serve(Which::Data).unwrap();
        assert_eq!(guest.rig.used(Which::Data), [(0, 1)], "the status only");
        assert_eq!(
            guest.is(),
            (half, 1),
            "status ERR, and nothing else changed"
        );
    }

    /// A record from before a driver reset, or from a different ring, must be ignored.
    #[test]
    fn notes_that_do_not_fit_the_ring_are_forgotten() {
        let mut guest = Guest::new();
        for head in [0, 3] {
            guest.log().recover(0);
            guest.log().set(head, Stage::Answered(1));
        }
        guest.begin_again(true);
        guest.rig.offer(Which::Data, &[0]);
        guest.rig.serve(Which::Data).unwrap();
        assert_eq!(guest.is(), (encrypted(), 0));
    }

    #[test]
    fn what_was_published_last_is_not_in_flight() {
        let guest = Guest::new();
        let mut log = guest.log();
        assert!(log.recover(0).is_empty());
        for head in [5, 2, 7] {
            log.take(head);
        }
        assert_eq!(
            guest.log().recover(0),
            [5, 2, 7],
            "in the order in which they were taken"
        );
        log.give(5);
        log.give(2);
        // Simulate a process that ended right after it had moved the ring's used index.
        assert_eq!(guest.log().recover(2), [7]);
        log.publish(2);
        assert_eq!(guest.log().recover(2), [7]);
    }

    #[test]
    fn queues_and_sizes_beyond_those_of_the_device_are_refused() {
        assert!(Inflight::describe(2, MAX_RING, 2).is_some());
        for (queues, size) in [(0, 16), (3, 16), (u16::MAX, 16), (2, 0), (2, MAX_RING + 1)] {
            assert!(Inflight::describe(queues, size, 2).is_none());
        }
        let open = |given: InflightArea| {
            let file = Inflight::file(2).unwrap();
            Inflight::open(file, &given, 2).map(|_| ())
        };
        let good = given(16);
        assert!(open(good).is_ok());
        for (size, offset) in [
            (good.size - 1, 0),
            (good.size, 1),
            (good.size, 1 << 40),
            (u64::MAX, u64::MAX - 4095),
        ] {
            assert!(open(InflightArea {
                size,
                offset,
                ..good
            })
            .is_err());
        }
        let inflight = Inflight::open(Inflight::file(2).unwrap(), &good, 2).unwrap();
        assert!(inflight.log(1, 16).is_some());
        assert!(inflight.log(2, 16).is_none() && inflight.log(1, 32).is_none());
    }

    proptest! {
        #[test]
        fn whatever_the_notes_say_no_more_is_handed_back_than_was_made_available(
            bytes in proptest::collection::vec(
                prop_oneof![Just(0u8), Just(1u8), 0u8..20, any::<u8>()],
                queue_bytes(RING),
            ),
            sound in any::<bool>(),
            offered in 0usize..4,
        ) {
            let mut guest = Guest::new();
            let at = Which::Data as usize * queue_bytes(RING);
            let mut bytes = bytes;
            if sound {
                bytes[VERSION..SIZE + 2].copy_from_slice(&[1, 0, RING as u8, 0]);
            }
            guest.inflight.map.as_volatile_slice().write_slice(&bytes, at).unwrap();
            guest.begin_again(true);
            guest.rig.offer(Which::Data, &vec![0; offered]);
            guest.rig.serve(Which::Data).unwrap();
            prop_assert_eq!(guest.rig.used(Which::Data).len(), offered);
            prop_assert!(guest.log().recover(offered as u16).is_empty());
        }
    }
}
