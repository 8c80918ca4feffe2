//! Counters of what queues did: counted by a queue's thread for itself, added to the shared ones once a batch.

use std::sync::atomic::{AtomicU64, Ordering};

/// Statuses that are counted separately: `VIRTIO_CRYPTO_OK` to `KEY_REJECTED` (5.9.7), and any other.
pub(crate) const STATUSES: usize = 7;

/// Latency classes: at most 2^n ns; the last takes all that is slower.
pub(crate) const CLASSES: usize = 32;

/// One queue's counts.
#[derive(Clone, Debug)]
// The rig shows it to fuzzers.
#[cfg_attr(not(feature = "rig"), allow(unreachable_pub))]
pub struct Count {
    /// Requests by the status they were answered with.
    pub status: [u64; STATUSES],
    /// Bytes read from the guest.
    pub bytes_in: u64,
    /// Bytes written to the guest.
    pub bytes_out: u64,
    /// Requests available when the queue was last looked at.
    pub depth: u64,
    /// Chains that could not be followed.
    pub malformed: u64,
    /// Times the driver was told.
    pub interrupts: u64,
    /// Times the thread slept.
    pub sleeps: u64,
    /// Times the guest was held to its rate.
    pub held: u64,
    /// Nanoseconds of service, by class.
    pub class: [u64; CLASSES],
    /// Nanoseconds of service, all together.
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
            class: [0; CLASSES],
            nanos: 0,
        }
    }
}

impl Count {
    /// Counts a request answered with `status` after `nanos`.
    pub(crate) fn answered(&mut self, status: u32, nanos: u64) {
        self.status[(status as usize).min(STATUSES - 1)] += 1;
        self.class[class_of(nanos)] += 1;
        self.nanos += nanos;
    }

    /// Requests answered.
    pub(crate) fn requests(&self) -> u64 {
        self.status.iter().sum()
    }
}

/// The first class whose bound is not below `nanos`.
fn class_of(nanos: u64) -> usize {
    let class = 64 - nanos.saturating_sub(1).leading_zeros() as usize;
    class.min(CLASSES - 1)
}

/// The counts of all queues of one index, whichever guest's.
#[derive(Default)]
pub(crate) struct Tally {
    status: [AtomicU64; STATUSES],
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    depth: AtomicU64,
    malformed: AtomicU64,
    interrupts: AtomicU64,
    sleeps: AtomicU64,
    held: AtomicU64,
    class: [AtomicU64; CLASSES],
    nanos: AtomicU64,
}

impl Tally {
    /// Adds a thread's counts and leaves it none.
    pub(crate) fn add(&self, count: &mut Count) {
        let put = |to: &AtomicU64, from: u64| {
            if from != 0 {
                to.fetch_add(from, Ordering::Relaxed);
            }
        };
        for (to, from) in self.status.iter().zip(count.status) {
            put(to, from);
        }
        for (to, from) in self.class.iter().zip(count.class) {
            put(to, from);
        }
        put(&self.bytes_in, count.bytes_in);
        put(&self.bytes_out, count.bytes_out);
        self.depth.store(count.depth, Ordering::Relaxed);
        put(&self.malformed, count.malformed);
        put(&self.interrupts, count.interrupts);
        put(&self.sleeps, count.sleeps);
        put(&self.held, count.held);
        put(&self.nanos, count.nanos);
        *count = Count::default();
    }

    /// The counts so far.
    pub(crate) fn read(&self) -> Count {
        let get = |from: &AtomicU64| from.load(Ordering::Relaxed);
        Count {
            status: std::array::from_fn(|i| get(&self.status[i])),
            bytes_in: get(&self.bytes_in),
            bytes_out: get(&self.bytes_out),
            depth: get(&self.depth),
            malformed: get(&self.malformed),
            interrupts: get(&self.interrupts),
            sleeps: get(&self.sleeps),
            held: get(&self.held),
            class: std::array::from_fn(|i| get(&self.class[i])),
            nanos: get(&self.nanos),
        }
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
        let tally = Tally::default();
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
}
