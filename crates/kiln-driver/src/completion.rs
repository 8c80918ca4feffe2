//! Lets a thread wait for one request. When the request is finished, only that thread is woken.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::error::Error;
use crate::sleepers::{Sleepers, Woken};

const WAITING: u8 = 0;
const DONE: u8 = 1;
const ABANDONED: u8 = 2;

/// The state and result of a request that a thread waits for.
pub(crate) struct Completion {
    state: AtomicU8,
    result: OnceLock<Result<(), Error>>,
    bed: NonZeroU32,
}

impl Completion {
    /// Creates a completion for one thread, which will sleep on `sleepers`.
    pub(crate) fn new(sleepers: &Sleepers) -> Arc<Completion> {
        Arc::new(Completion {
            state: AtomicU8::new(WAITING),
            result: OnceLock::new(),
            bed: sleepers.bed(),
        })
    }

    /// Sets the result and adds the waiting thread to `woken`. Returns false if the thread has
    /// given up.
    pub(crate) fn finish(&self, result: Result<(), Error>, woken: &mut Woken) -> bool {
        let _ = self.result.set(result);
        let was = self
            .state
            .compare_exchange(WAITING, DONE, Ordering::AcqRel, Ordering::Acquire);
        if was.is_ok() {
            woken.add(self.bed);
        }
        was.is_ok()
    }

    /// Returns whether the result is set or the thread has given up.
    pub(crate) fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) != WAITING
    }

    /// Stops waiting and returns [`Error::Timeout`], or the result if it has been set in the
    /// meantime.
    pub(crate) fn give_up(&self) -> Result<(), Error> {
        let was =
            self.state
                .compare_exchange(WAITING, ABANDONED, Ordering::AcqRel, Ordering::Acquire);
        match was {
            Ok(_) => Err(Error::Timeout),
            Err(_) => self.take(),
        }
    }

    /// Sleeps until the result is set or `deadline` has passed.
    pub(crate) fn wait(&self, sleepers: &Sleepers, deadline: Option<Instant>) -> Result<(), Error> {
        match sleepers.sleep(self.bed, deadline, || self.is_done()) {
            true => self.take(),
            false => self.give_up(),
        }
    }

    fn take(&self) -> Result<(), Error> {
        let result = self.result.get();
        result.expect("set before the state").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn who_gave_up_is_not_woken_and_who_waits_is() {
        let sleepers = Sleepers::new();
        let given_up = Completion::new(&sleepers);
        let soon = Some(Instant::now() + Duration::from_millis(1));
        assert_eq!(given_up.wait(&sleepers, soon), Err(Error::Timeout));
        assert!(!given_up.finish(Ok(()), &mut Woken::default()));

        let waited = Completion::new(&sleepers);
        thread::scope(|scope| {
            let helper = scope.spawn(|| {
                let mut woken = Woken::default();
                let told = waited.finish(Err(Error::Lost), &mut woken);
                sleepers.wake(&woken);
                told
            });
            assert_eq!(waited.wait(&sleepers, None), Err(Error::Lost));
            assert!(helper.join().unwrap());
        });
    }
}
