//! A guest held to a rate: requests a second and bytes a second, over all its queues.
//!
//! The generic cell rate algorithm: one word says until when the guest has used its share up. A guest that is ahead
//! waits; nothing is refused, and no other guest notices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much may be used at once by a guest that has been idle.
const BURST: Duration = Duration::from_millis(10);

/// Rates; none means without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Requests a second.
    pub ops: Option<u64>,
    /// Bytes a second, read and written together.
    pub bytes: Option<u64>,
}

struct Bucket {
    per_second: u64,
    /// Nanoseconds since the start until which the share is used up.
    used_until: AtomicU64,
}

impl Bucket {
    fn new(per_second: u64) -> Bucket {
        Bucket {
            per_second: per_second.max(1),
            used_until: AtomicU64::new(0),
        }
    }

    /// Uses `amount` at `now`; how long until it would have been due.
    fn take(&self, amount: u64, now: u64) -> u64 {
        let cost = u128::from(amount) * 1_000_000_000 / u128::from(self.per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX / 4);
        let step = |until: u64| Some(until.max(now).saturating_add(cost));
        let until = self
            .used_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step)
            .unwrap_or_else(|same| same)
            .max(now)
            .saturating_add(cost);
        until.saturating_sub(now.saturating_add(BURST.as_nanos() as u64))
    }
}

/// One guest's rates, shared by the threads of its queues.
pub(crate) struct Pace {
    start: Instant,
    ops: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Pace {
    /// An idle guest with these rates.
    pub(crate) fn new(rates: &Rates) -> Pace {
        Pace {
            start: Instant::now(),
            ops: rates.ops.map(Bucket::new),
            bytes: rates.bytes.map(Bucket::new),
        }
    }

    /// Whether there is any rate to hold.
    pub(crate) fn is_limited(&self) -> bool {
        self.ops.is_some() || self.bytes.is_some()
    }

    /// Counts a request of `bytes`. Returns how long to wait before the next one, if the guest exceeds its rate.
    pub(crate) fn take(&self, bytes: u64) -> Option<Duration> {
        let now = self.start.elapsed().as_nanos() as u64;
        let ops = self.ops.as_ref().map_or(0, |b| b.take(1, now));
        let bytes = self.bytes.as_ref().map_or(0, |b| b.take(bytes, now));
        match ops.max(bytes) {
            0 => None,
            ahead => Some(Duration::from_nanos(ahead)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_the_burst_through_and_then_the_rate() {
        let bucket = Bucket::new(1000);
        // 10 ms at 1000/s: ten at once, the eleventh waits a millisecond.
        for _ in 0..10 {
            assert_eq!(bucket.take(1, 0), 0);
        }
        assert_eq!(bucket.take(1, 0), 1_000_000);
        // A second later all of that is over.
        assert_eq!(bucket.take(1, 1_000_000_000), 0);
    }

    #[test]
    fn no_amount_overflows_a_bucket() {
        let bucket = Bucket::new(1);
        assert!(bucket.take(u64::MAX, u64::MAX / 2) > 0);
        // An instant beyond the clock's range: do not wait.
        assert_eq!(bucket.take(u64::MAX, u64::MAX - 1), 0);
    }
}
