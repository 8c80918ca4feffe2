//! Counters for the activity of queues. A queue's thread counts in private variables and adds them
//! to the shared counters once per batch.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::shared::Shared;

/// Number of statuses that are counted separately: `VIRTIO_CRYPTO_OK` to `NOSPC` (5.9.7), and one
/// class for all others.
pub(crate) const STATUSES: usize = 7;

/// Number of latency classes. Class n covers latencies up to 2^n ns, and the last class covers all
/// longer ones.
pub(crate) const CLASSES: usize = 32;

/// Counts of one queue's activity.
#[derive(Clone, Debug)]
// This type is public so that the rig can expose it to fuzzers.
#[cfg_attr(not(feature = "rig"), allow(unreachable_pub))]
pub struct Count {
    /// Number of requests by response status.
    pub status: [u64; STATUSES],
    /// Number of bytes read from the guest.
    pub bytes_in: u64,
    /// Number of bytes written to the guest.
    pub bytes_out: u64,
    /// Number of requests that were available when the queue was last checked.
    pub depth: u64,
    /// Number of malformed chains.
    pub malformed: u64,
    /// Number of times the driver was notified.
    pub interrupts: u64,
    /// Number of times the thread slept.
    pub sleeps: u64,
    /// Number of times the guest was delayed because it exceeded its rate.
    pub held: u64,
    /// Number of session messages on the socket, which QEMU's cryptodev sends instead of control
    /// requests.
    pub messages: u64,
    /// Number of requests by latency class.
    pub class: [u64; CLASSES],
    /// Total service time in nanoseconds.
    pub nanos: u64,
}

impl Default for Count {
    fn default() -> Count {
        Count {
            status: [0; STATUSES],
            bytes_in: 0,
            bytes_out: 0,
            depth: 0,
            malformed: 0,
            interrupts: 0,
            sleeps: 0,
            held: 0,
            messages: 0,
            class: [0; CLASSES],
            nanos: 0,
        }
    }
}

impl Count {
    /// Counts a request answered with `status` after `nanos` nanoseconds.
    pub(crate) fn answered(&mut self, status: u32, nanos: u64) {
        self.status[(status as usize).min(STATUSES - 1)] += 1;
        self.class[class_of(nanos)] += 1;
        self.nanos += nanos;
    }

    /// Adds another queue's counts to these counts.
    pub(crate) fn merge(&mut self, other: &Count) {
        let add = |to: &mut u64, from: u64| *to = to.wrapping_add(from);
        for (to, from) in self.status.iter_mut().zip(other.status) {
            add(to, from);
        }
        for (to, from) in self.class.iter_mut().zip(other.class) {
            add(to, from);
        }
        for (to, from) in [
            (&mut self.bytes_in, other.bytes_in),
            (&mut self.bytes_out, other.bytes_out),
            (&mut self.depth, other.depth),
            (&mut self.malformed, other.malformed),
            (&mut self.interrupts, other.interrupts),
            (&mut self.sleeps, other.sleeps),
            (&mut self.held, other.held),
            (&mut self.messages, other.messages),
            (&mut self.nanos, other.nanos),
        ] {
            add(to, from);
        }
    }

    /// Returns the total number of requests answered, over all statuses.
    pub(crate) fn requests(&self) -> u64 {
        self.status
            .iter()
            .fold(0, |sum: u64, n| sum.wrapping_add(*n))
    }
}

/// Returns the first latency class whose upper bound is at least `nanos`.
fn class_of(nanos: u64) -> usize {
    let class = 64 - nanos.saturating_sub(1).leading_zeros() as usize;
    class.min(CLASSES - 1)
}

/// Number of counters per queue: statuses, latency classes, and nine others.
const CELLS: usize = STATUSES + CLASSES + 9;

/// Gauges: measured values of a guest that can go up and down, unlike counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Gauge {
    Sessions,
    /// Bytes of mapped guest memory.
    Memory,
    Regions,
    /// Whether the guest process is ready for a guest.
    Ready,
}

const GAUGES: usize = 4;

/// All counters of one guest, in memory that the guest process shares with the main process. The
/// main process sums them for metrics. After the guest process has received its guest, the main
/// process bases no decision on the counters.
pub(crate) struct Counters {
    memory: Arc<Shared>,
    /// Index of the first counter in the shared memory.
    first: usize,
    queues: usize,
}

impl Counters {
    /// Creates zeroed counters for `data` data queues and a control queue. The counters are not
    /// shared with another process.
    pub(crate) fn new(data: u16) -> io::Result<Arc<Counters>> {
        let (memory, _) = Shared::create(Counters::cells(data))?;
        Ok(Counters::at(Arc::new(memory), 0, data))
    }

    /// Returns the counters that start at cell `first` of `memory`.
    pub(crate) fn at(memory: Arc<Shared>, first: usize, data: u16) -> Arc<Counters> {
        Arc::new(Counters {
            memory,
            first,
            queues: usize::from(data) + 1,
        })
    }

    /// Returns the number of cells that the counters need.
    pub(crate) fn cells(data: u16) -> usize {
        (usize::from(data) + 1) * CELLS + GAUGES
    }

    /// Returns the counters of each queue, with the control queue last.
    pub(crate) fn tallies(self: &Arc<Self>) -> Vec<Arc<Tally>> {
        let tally = |queue| {
            Arc::new(Tally {
                counters: self.clone(),
                queue,
            })
        };
        (0..self.queues).map(tally).collect()
    }

    pub(crate) fn set(&self, gauge: Gauge, value: u64) {
        self.gauge(gauge).store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, gauge: Gauge) -> u64 {
        self.gauge(gauge).load(Ordering::Relaxed)
    }

    fn gauge(&self, gauge: Gauge) -> &AtomicU64 {
        self.cell(self.queues * CELLS + gauge as usize)
    }

    fn cell(&self, index: usize) -> &AtomicU64 {
        self.memory.cell(self.first + index)
    }

    #[cfg(test)]
    pub(crate) fn fill(&self, value: u64) {
        self.memory.fill(value);
    }
}

/// One queue's counters.
pub(crate) struct Tally {
    counters: Arc<Counters>,
    queue: usize,
}

impl Tally {
    /// Adds a thread's private counts to the shared counters and resets the private counts.
    pub(crate) fn add(&self, count: &mut Count) {
        let put = |to: &AtomicU64, from: u64| {
            if from != 0 {
                to.fetch_add(from, Ordering::Relaxed);
            }
        };
        for (n, from) in count.status.into_iter().enumerate() {
            put(self.cell(n), from);
        }
        for (n, from) in count.class.into_iter().enumerate() {
            put(self.cell(STATUSES + n), from);
        }
        for (n, from) in [
            count.bytes_in,
            count.bytes_out,
            count.malformed,
            count.interrupts,
            count.sleeps,
            count.held,
            count.nanos,
            count.messages,
        ]
        .into_iter()
        .enumerate()
        {
            put(self.cell(STATUSES + CLASSES + n), from);
        }
        self.cell(CELLS - 1).store(count.depth, Ordering::Relaxed);
        *count = Count::default();
    }

    /// Reads the shared counters. Private counts that a thread has not added yet are not included.
    pub(crate) fn read(&self) -> Count {
        let get = |n| self.cell(n).load(Ordering::Relaxed);
        let single = |n| get(STATUSES + CLASSES + n);
        Count {
            status: std::array::from_fn(get),
            class: std::array::from_fn(|n| get(STATUSES + n)),
            bytes_in: single(0),
            bytes_out: single(1),
            malformed: single(2),
            interrupts: single(3),
            sleeps: single(4),
            held: single(5),
            nanos: single(6),
            messages: single(7),
            depth: single(8),
        }
    }

    fn cell(&self, n: usize) -> &AtomicU64 {
        self.counters.cell(self.queue * CELLS + n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_what_is_not_above_its_bound() {
        for (nanos, class) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 2),
            (5, 3),
            (1024, 10),
            (1025, 11),
        ] {
            assert_eq!(class_of(nanos), class, "{nanos}");
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn counts_move_and_are_not_counted_twice() {
        let tally = Counters::new(0).unwrap().tallies().remove(0);
        let mut count = Count::default();
        count.answered(0, 100);
        count.answered(1, 200);
        count.answered(250, 300);
        tally.add(&mut count);
        assert_eq!(count.requests(), 0);
        tally.add(&mut count);
        let read = tally.read();
        assert_eq!(read.requests(), 3);
        assert_eq!(
            (read.status[0], read.status[1], read.status[STATUSES - 1]),
            (1, 1, 1)
        );
        assert_eq!(read.nanos, 600);
    }

    /// The main process must be able to read the counts of a guest process.
    #[test]
    fn another_mapping_of_the_same_counters_sees_every_cell_and_none_twice() {
        let (memory, file) = Shared::create(5 + Counters::cells(1)).unwrap();
        let counters = Counters::at(Arc::new(memory), 5, 1);
        let other = Counters::at(Arc::new(Shared::map(&file).unwrap()), 5, 1);
        let mut count = Count {
            status: std::array::from_fn(|n| 1 + n as u64),
            class: std::array::from_fn(|n| 100 + n as u64),
            bytes_in: 1001,
            bytes_out: 1002,
            depth: 1003,
            malformed: 1004,
            interrupts: 1005,
            sleeps: 1006,
            held: 1007,
            messages: 1008,
            nanos: 1009,
        };
        let wanted = format!("{count:?}");
        counters.tallies()[1].add(&mut count);
        counters.set(Gauge::Regions, 7);
        assert_eq!(format!("{:?}", other.tallies()[1].read()), wanted);
        assert_eq!(other.tallies()[0].read().requests(), 0);
        assert_eq!(
            (other.get(Gauge::Regions), other.get(Gauge::Memory)),
            (7, 0)
        );
    }
}
