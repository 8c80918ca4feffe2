//! Notifies the device that requests are available.
//!
//! The device shares the eventfd's counter and flags, so it can fill the counter and make a write
//! block. The driver counts every write when it begins and when it ends. The thread that watches
//! the connection can therefore detect a blocked write, and unblock it by emptying the counter.

use std::io::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use vmm_sys_util::eventfd::EventFd;

pub(crate) struct Kick {
    event: EventFd,
    begun: AtomicU64,
    ended: AtomicU64,
    /// Values of `begun` and `ended` at the last call of [`Kick::release`].
    seen: (AtomicU64, AtomicU64),
    /// Set to forbid further writes.
    retired: AtomicBool,
}

impl Kick {
    pub(crate) fn new() -> Result<Kick> {
        Ok(Kick {
            event: EventFd::new(libc::EFD_CLOEXEC)?,
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            seen: (AtomicU64::new(0), AtomicU64::new(0)),
            retired: AtomicBool::new(false),
        })
    }

    /// Returns the eventfd to pass to the device.
    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }

    /// Notifies the device. A full counter means that the device has already been notified.
    pub(crate) fn ring(&self) {
        // Either this thread sees that `retired` is set, or the thread that sets `retired` sees
        // that this write has begun.
        self.begun.fetch_add(1, Ordering::SeqCst);
        if !self.retired.load(Ordering::SeqCst) {
            let _ = self.event.write(1);
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Notifies the device from a separate thread. The thread that unblocks writes must use this
    /// method instead of [`Kick::ring`], because the device may block this write as well.
    pub(crate) fn ring_apart(self: &Arc<Self>) {
        let kick = self.clone();
        thread::spawn(move || kick.ring());
    }

    /// If the device has blocked a write, unblocks it and returns true. A write counts as blocked
    /// if it was already in progress at the previous call and no write has ended since then.
    pub(crate) fn release(&self) -> bool {
        let ended = self.ended.load(Ordering::Relaxed);
        let begun = self.begun.load(Ordering::Relaxed);
        let before = (
            self.seen.0.swap(begun, Ordering::Relaxed),
            self.seen.1.swap(ended, Ordering::Relaxed),
        );
        // A write was in progress at the last check, and none has ended since then.
        let held = before.0 > before.1 && before.1 == ended;
        if held {
            // The device can make this read block too, so read on a separate thread that is never
            // joined.
            if let Ok(event) = self.event.try_clone() {
                thread::spawn(move || event.read());
            }
        }
        held
    }

    fn is_quiet(&self) -> bool {
        self.ended.load(Ordering::SeqCst) == self.begun.load(Ordering::SeqCst)
    }

    /// Unblocks all writes and forbids further ones.
    pub(crate) fn retire(self: &Arc<Self>) {
        self.retired.store(true, Ordering::SeqCst);
        if self.is_quiet() {
            return;
        }
        // Read repeatedly, because the device may fill the counter again. The device can also make
        // a read block by emptying the counter, but writes do not block while it is empty. The
        // reader thread is never joined, so it may stay blocked.
        let reader = self.clone();
        thread::spawn(move || {
            while !reader.is_quiet() {
                let _ = reader.event.read();
                thread::yield_now();
            }
        });
        while !self.is_quiet() {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_write_that_the_device_holds_is_let_go() {
        let kick = Arc::new(Kick::new().unwrap());
        kick.ring();
        assert!(
            !kick.release() && !kick.release(),
            "the control: the write has ended"
        );
        // Fill the counter, as the device may do at any time.
        kick.event.write(u64::MAX - 2).unwrap();
        let held = thread::spawn({
            let kick = kick.clone();
            move || kick.ring()
        });
        while !kick.release() {
            thread::sleep(Duration::from_millis(1));
        }
        held.join().unwrap();
        assert!(!kick.release());
    }

    #[test]
    fn a_kick_that_is_retired_holds_no_write_and_begins_none() {
        let kick = Arc::new(Kick::new().unwrap());
        kick.event.write(u64::MAX - 1).unwrap();
        let held = [0; 3].map(|_| {
            let kick = kick.clone();
            thread::spawn(move || kick.ring())
        });
        while kick.begun.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
        assert!(
            !held.iter().any(|thread| thread.is_finished()),
            "the control"
        );
        kick.retire();
        held.into_iter().for_each(|thread| thread.join().unwrap());
        // The reader thread that `retire` started may still be blocked. Unblock it and let it end,
        // so that it does not empty the counter below.
        while Arc::strong_count(&kick) > 1 {
            kick.event.write(1).unwrap();
            thread::yield_now();
        }
        // Fill the counter a second time, so that a further write would block forever.
        kick.event.write(1).unwrap();
        kick.event.read().unwrap();
        kick.event.write(u64::MAX - 1).unwrap();
        kick.ring();
    }
}
