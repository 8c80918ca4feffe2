//! A thread that waits for one request, and is woken for that one only.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Instant;

use crate::error::Error;

const WAITING: u8 = 0;
const DONE: u8 = 1;
const ABANDONED: u8 = 2;

/// What one thread sleeps on and another fills.
pub(crate) struct Completion {
    state: AtomicU8,
    result: OnceLock<Result<(), Error>>,
    thread: Thread,
}

impl Completion {
    /// For the calling thread.
    pub(crate) fn new() -> Arc<Completion> {
        Arc::new(Completion {
            state: AtomicU8::new(WAITING),
            result: OnceLock::new(),
            thread: thread::current(),
        })
    }

    /// Wakes the thread. False if it has given up.
    pub(crate) fn finish(&self, result: Result<(), Error>) -> bool {
        let _ = self.result.set(result);
        let was = self
            .state
            .compare_exchange(WAITING, DONE, Ordering::AcqRel, Ordering::Acquire);
        if was.is_ok() {
            self.thread.unpark();
        }
        was.is_ok()
    }

    /// Whether it is over.
    pub(crate) fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) != WAITING
    }

    /// Gives up; unless it was finished at just this moment.
    pub(crate) fn give_up(&self) -> Result<(), Error> {
        let was =
            self.state
                .compare_exchange(WAITING, ABANDONED, Ordering::AcqRel, Ordering::Acquire);
        match was {
            Ok(_) => Err(Error::Timeout),
            Err(_) => self.take(),
        }
    }

    /// Sleeps until it is finished or `deadline` has passed.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<(), Error> {
        while !self.is_done() {
            match deadline {
                None => thread::park(),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return self.give_up();
                    }
                    thread::park_timeout(left);
                }
            }
        }
        self.take()
    }

    fn take(&self) -> Result<(), Error> {
        let result = self.result.get();
        result.expect("set before the state").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_gave_up_is_not_woken_and_who_waits_is() {
        let given_up = Completion::new();
        let soon = Some(Instant::now() + Duration::from_millis(1));
        assert_eq!(given_up.wait(soon), Err(Error::Timeout));
        assert!(!given_up.finish(Ok(())));

        let waited = Completion::new();
        let other = waited.clone();
        let helper = thread::spawn(move || other.finish(Err(Error::Lost)));
        assert_eq!(waited.wait(None), Err(Error::Lost));
        assert!(helper.join().unwrap());
    }
}
