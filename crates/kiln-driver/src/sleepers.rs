//! Wakes many threads at once, each of which sleeps until its own request is done.
//!
//! A device answers in batches. Waking the waiters individually takes one system call per waiter.
//! If they share a core with the interrupt thread, it also takes one context switch per waiter,
//! because a woken thread runs immediately. Here, each thread sleeps with its own bit
//! (FUTEX_WAIT_BITSET), so a single call wakes exactly the threads whose requests are done. With
//! more than 32 threads, bits are shared, so some threads wake too early and sleep again.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rustix::thread::futex::{self, Flags, Timespec};
use rustix::time::{clock_gettime, ClockId};

/// The futex that the threads sleep on, and the assignment of bits to threads.
pub(crate) struct Sleepers {
    /// Number of wake-ups. It is incremented before each wake-up, so that a thread that is about to
    /// sleep checks its condition once more.
    calls: AtomicU32,
    beds: AtomicU32,
}

/// The bits of the threads to wake in one call.
#[derive(Default)]
pub(crate) struct Woken(u32);

impl Woken {
    pub(crate) fn add(&mut self, bed: NonZeroU32) {
        self.0 |= bed.get();
    }
}

impl Sleepers {
    pub(crate) fn new() -> Sleepers {
        Sleepers {
            calls: AtomicU32::new(0),
            beds: AtomicU32::new(0),
        }
    }

    /// Assigns a bit to a thread that will sleep.
    pub(crate) fn bed(&self) -> NonZeroU32 {
        let n = self.beds.fetch_add(1, Ordering::Relaxed);
        NonZeroU32::new(1 << (n % 32)).unwrap_or(NonZeroU32::MIN)
    }

    /// Sleeps until `done` returns true, or until the time `until`. Checks `done` before sleeping
    /// and after each wake-up, and returns its last result.
    pub(crate) fn sleep(
        &self,
        bed: NonZeroU32,
        until: Option<Instant>,
        done: impl Fn() -> bool,
    ) -> bool {
        let limit = until.map(on_the_clock);
        loop {
            let calls = self.calls.load(Ordering::Acquire);
            if done() {
                return true;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return false;
            }
            // An error needs no handling, because the loop checks the condition after every wait.
            let _ = futex::wait_bitset(&self.calls, Flags::PRIVATE, calls, limit.as_ref(), bed);
        }
    }

    /// Wakes these threads. Their requests must be marked as done before the call.
    pub(crate) fn wake(&self, woken: &Woken) {
        let Some(beds) = NonZeroU32::new(woken.0) else {
            return;
        };
        self.calls.fetch_add(1, Ordering::Release);
        let _ = futex::wake_bitset(&self.calls, Flags::PRIVATE, i32::MAX as u32, beds);
    }
}

/// Converts a time to an absolute time on the clock that FUTEX_WAIT_BITSET uses.
fn on_the_clock(until: Instant) -> Timespec {
    let left = until.saturating_duration_since(Instant::now());
    let now = clock_gettime(ClockId::Monotonic);
    let ns = now.tv_nsec + i64::from(left.subsec_nanos());
    let secs = i64::try_from(left.as_secs()).unwrap_or(i64::MAX / 4);
    Timespec {
        tv_sec: now.tv_sec.saturating_add(secs) + ns / 1_000_000_000,
        tv_nsec: ns % 1_000_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn all_of_many_are_woken_and_none_for_another() {
        let sleepers = Sleepers::new();
        let turn = AtomicUsize::new(0);
        let beds: Vec<_> = (0..40).map(|_| sleepers.bed()).collect();
        // Beyond 32 threads, bits are shared.
        assert_eq!(beds[0], beds[32]);
        assert_ne!(beds[0], beds[31]);
        thread::scope(|scope| {
            for (i, &bed) in beds.iter().enumerate() {
                let (sleepers, turn) = (&sleepers, &turn);
                scope.spawn(move || {
                    assert!(sleepers.sleep(bed, None, || turn.load(Ordering::Acquire) > i));
                });
            }
            for (i, bed) in beds.iter().enumerate() {
                turn.store(i + 1, Ordering::Release);
                let mut woken = Woken::default();
                woken.add(*bed);
                sleepers.wake(&woken);
            }
        });
    }

    #[test]
    fn a_sleep_has_an_end() {
        let sleepers = Sleepers::new();
        let start = Instant::now();
        let until = start + Duration::from_millis(5);
        assert!(!sleepers.sleep(sleepers.bed(), Some(until), || false));
        assert!(Instant::now() >= until);
        assert!(
            !sleepers.sleep(sleepers.bed(), Some(start), || false),
            "that was"
        );
        assert!(sleepers.sleep(sleepers.bed(), Some(start), || true));
    }
}
