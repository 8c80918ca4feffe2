//! Measures how long the thread that serves a guest's connection spends on its current step.
//!
//! A front end can block that thread in a system call. It can also prevent the connection from ever
//! hanging up, by sending a message that contains its own end of the connection and that the
//! blocked thread never receives. The main process would then wait forever for the hang-up, so this
//! process must detect by itself that the thread is blocked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a step may take: up to 5 s for a queue to stop, and up to 5 s for a send to the front
/// end.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// When a thread began its current step.
#[derive(Debug)]
pub(crate) struct Watch {
    epoch: Instant,
    /// Milliseconds from `epoch` to the start of the current step, plus 1; 0 between steps.
    begun: AtomicU64,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            epoch: Instant::now(),
            begun: AtomicU64::new(0),
        }
    }
}

impl Watch {
    /// Begins a step. Ends the previous step if it is still in progress.
    pub(crate) fn begin(&self) {
        self.begin_at(self.epoch.elapsed());
    }

    /// Ends the step. The thread now waits for something that may take arbitrarily long.
    pub(crate) fn end(&self) {
        self.begun.store(0, Ordering::Relaxed);
    }

    /// Returns whether the current step has taken too long.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late_at(self.epoch.elapsed())
    }

    fn begin_at(&self, now: Duration) {
        let now = now.as_millis() as u64;
        self.begun.store(now + 1, Ordering::Relaxed);
    }

    fn is_late_at(&self, now: Duration) -> bool {
        let begun = self.begun.load(Ordering::Relaxed);
        let now = now.as_millis() as u64 + 1;
        begun != 0 && now.saturating_sub(begun) > LONGEST.as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_late_and_a_wait_is_not() {
        let (watch, start) = (Watch::default(), Duration::from_secs(100));
        let late = start + LONGEST + Duration::from_millis(1);
        assert!(!watch.is_late_at(late), "before the first step");
        watch.begin_at(start);
        assert!(!watch.is_late_at(start + LONGEST) && watch.is_late_at(late));
        watch.begin_at(late);
        assert!(!watch.is_late_at(late), "the next step");
        watch.end();
        assert!(!watch.is_late_at(late * 2), "between two steps");
    }
}
