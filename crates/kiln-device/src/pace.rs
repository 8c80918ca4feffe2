//! Rate limits for one guest: requests per second, bytes per second and CPU time, summed over all
//! its queues and messages.
//!
//! Each limit uses the generic cell rate algorithm, which needs only one word: the time at which
//! the guest's use so far will conform to its rate. If a guest exceeds its rate, its requests are
//! delayed but not rejected, and other guests are not affected.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::cpu::cpu_time;

/// The burst allowed to a guest that has been idle.
const BURST: Duration = Duration::from_millis(10);

/// Rate limits of a guest; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Maximum number of requests per second.
    pub ops: Option<u64>,
    /// Maximum number of bytes per second, counting both bytes read and bytes written.
    pub bytes: Option<u64>,
    /// Maximum CPU time of the guest process, as a percentage of one core.
    pub cpu: Option<u64>,
}

pub(crate) struct Bucket {
    per_second: u64,
    /// The allowed burst, expressed as the time in nanoseconds that it takes at the permitted rate.
    burst: u64,
    /// The time at which the use so far will conform to the rate without any burst, in nanoseconds
    /// since the start.
    used_until: AtomicU64,
}

impl Bucket {
    /// Creates a bucket that allows a full burst.
    pub(crate) fn new(per_second: u64, burst: Duration) -> Bucket {
        Bucket {
            per_second: per_second.max(1),
            burst: burst.as_nanos() as u64,
            used_until: AtomicU64::new(0),
        }
    }

    /// Returns whether the bucket permits more use at time `now`.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.used_until.load(Ordering::Relaxed) <= now.saturating_add(self.burst)
    }

    /// Returns how many nanoseconds to wait at time `now` until the use so far conforms to the rate.
    fn ahead(&self, now: u64) -> u64 {
        let until = self.used_until.load(Ordering::Relaxed);
        until.saturating_sub(now.saturating_add(self.burst))
    }

    /// Records the use of `amount` at time `now`. Returns how many nanoseconds to wait until this
    /// use conforms to the rate.
    pub(crate) fn take(&self, amount: u64, now: u64) -> u64 {
        let cost = u128::from(amount) * 1_000_000_000 / u128::from(self.per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX / 4);
        let step = |until: u64| Some(until.max(now).saturating_add(cost));
        let until = self
            .used_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step)
            .unwrap_or_else(|same| same)
            .max(now)
            .saturating_add(cost);
        until.saturating_sub(now.saturating_add(self.burst))
    }
}

/// The rate limiter of one guest, shared by the threads of its queues.
pub(crate) struct Pace {
    start: Instant,
    ops: Option<Bucket>,
    bytes: Option<Bucket>,
    cpu: Option<Bucket>,
    /// CPU time already charged to `cpu`, in nanoseconds.
    spent: AtomicU64,
}

impl Pace {
    /// Creates the rate limiter of an idle guest.
    pub(crate) fn new(rates: &Rates) -> Pace {
        Pace {
            start: Instant::now(),
            ops: rates.ops.map(|rate| Bucket::new(rate, BURST)),
            bytes: rates.bytes.map(|rate| Bucket::new(rate, BURST)),
            // One percent of a second is 10 ms.
            cpu: rates
                .cpu
                .map(|percent| Bucket::new(percent.saturating_mul(10_000_000), BURST)),
            spent: AtomicU64::new(spent()),
        }
    }

    /// Returns whether at least one of the rates is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.ops.is_some() || self.bytes.is_some() || self.cpu.is_some()
    }

    /// Counts `ops` requests or messages of `bytes` bytes in total. Returns how long to wait until
    /// they conform to the rate.
    pub(crate) fn take(&self, ops: u64, bytes: u64) -> Option<Duration> {
        let now = self.now();
        let ops = self.ops.as_ref().map_or(0, |b| b.take(ops, now));
        let bytes = self.bytes.as_ref().map_or(0, |b| b.take(bytes, now));
        wait_of(ops.max(bytes).max(self.take_cpu(now)))
    }

    /// Returns how long the guest has to wait before its next request or message. Unlike the result
    /// of [`Pace::take`], which is lost if the wait is interrupted, this result can be computed
    /// again at any time.
    pub(crate) fn hold(&self) -> Option<Duration> {
        if !self.is_limited() {
            return None;
        }
        let now = self.now();
        let ahead = |bucket: &Option<Bucket>| bucket.as_ref().map_or(0, |b| b.ahead(now));
        let ops = ahead(&self.ops).max(ahead(&self.bytes));
        wait_of(ops.max(self.take_cpu(now)))
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Charges the CPU time used since the last call. Returns how many nanoseconds to wait.
    fn take_cpu(&self, now: u64) -> u64 {
        self.cpu.as_ref().map_or(0, |b| {
            let spent = spent();
            let before = self.spent.fetch_max(spent, Ordering::Relaxed);
            b.take(spent.saturating_sub(before), now)
        })
    }
}

fn wait_of(nanos: u64) -> Option<Duration> {
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

/// Returns the CPU time of this process so far, in nanoseconds. Each guest has a separate process,
/// so all of this time is charged to the guest.
fn spent() -> u64 {
    cpu_time(std::process::id()).map_or(0, |time| time.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_the_burst_through_and_then_the_rate() {
        let bucket = Bucket::new(1000, BURST);
        // A burst of 10 ms at 1000 requests per second is ten requests. The eleventh request waits
        // 1 ms.
        for _ in 0..10 {
            assert_eq!(bucket.take(1, 0), 0);
        }
        assert_eq!(bucket.take(1, 0), 1_000_000);
        // One second later the full burst is available again.
        assert_eq!(bucket.take(1, 1_000_000_000), 0);
    }

    #[test]
    fn no_amount_overflows_a_bucket() {
        let bucket = Bucket::new(1, BURST);
        assert!(bucket.take(u64::MAX, u64::MAX / 2) > 0);
        // The end of the wait saturates at the maximum time. That time is less than one burst away,
        // so the wait is zero.
        assert_eq!(bucket.take(u64::MAX, u64::MAX - 1), 0);
    }

    #[test]
    fn cpu_time_counts_whatever_it_was_spent_on() {
        let pace = Pace::new(&Rates {
            cpu: Some(1),
            ..Rates::default()
        });
        let spent = spent();
        while super::spent() < spent + 20_000_000 {
            std::hint::spin_loop();
        }
        // At one percent of a core, 20 ms of CPU time takes 2 s.
        let taken = Instant::now();
        assert!(pace.take(1, 0).unwrap() > Duration::from_millis(1500));
        // `hold` is shorter than the wait that `take` returned, but by no more than the time that
        // has passed since `taken`.
        let hold = pace.hold().unwrap_or_default();
        assert!(hold + taken.elapsed() > Duration::from_millis(1500));
        let free = Pace::new(&Rates {
            cpu: Some(100_000),
            ..Rates::default()
        });
        assert_eq!(free.take(1, 0), None);
        assert_eq!(free.hold(), None);
    }

    #[test]
    fn a_hold_lasts_until_the_rate_permits_more() {
        let pace = Pace::new(&Rates {
            ops: Some(1),
            ..Rates::default()
        });
        assert_eq!(pace.hold(), None);
        // The wait is long enough that a delay in this test does not matter.
        let first = pace.take(1000, 0).unwrap();
        for _ in 0..3 {
            let hold = pace.hold().unwrap();
            assert!(hold <= first && hold > first / 2, "{hold:?} of {first:?}");
        }
        let free = Pace::new(&Rates::default());
        assert!(free.take(1, 0).is_none() && free.hold().is_none());
    }
}
