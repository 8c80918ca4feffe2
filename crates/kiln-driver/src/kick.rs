//! What tells the device that there is something to do.
//!
//! The device shares the event, its counter and its flags: it can fill the counter and let a write wait. Every write is
//! counted where it begins and where it ends, so that the thread that watches the connection sees one that does not end,
//! and lets it go on by emptying the counter.

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
    /// The writes that were under way when it was looked at last: how many had begun and had ended.
    seen: (AtomicU64, AtomicU64),
    /// No write begins any more.
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

    /// What the device is given.
    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }

    /// Tells the device. If the counter is full it has been told.
    pub(crate) fn ring(&self) {
        // Either this sees that it is retired, or whoever retires it sees that this has begun.
        self.begun.fetch_add(1, Ordering::SeqCst);
        if !self.retired.load(Ordering::SeqCst) {
            let _ = self.event.write(1);
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// The same from the thread that would let a write go on: one that the device holds is left to itself.
    pub(crate) fn ring_apart(self: &Arc<Self>) {
        let kick = self.clone();
        thread::spawn(move || kick.ring());
    }

    /// Lets a write go on that has been under way since the last call. True if there was one: the device held it.
    pub(crate) fn release(&self) -> bool {
        let ended = self.ended.load(Ordering::Relaxed);
        let begun = self.begun.load(Ordering::Relaxed);
        let before = (
            self.seen.0.swap(begun, Ordering::Relaxed),
            self.seen.1.swap(ended, Ordering::Relaxed),
        );
        // One had begun before, and none has ended since.
        let held = before.0 > before.1 && before.1 == ended;
        if held {
            // The device can make the read block as well, so a thread of its own makes it, and is not joined.
            if let Ok(event) = self.event.try_clone() {
                thread::spawn(move || event.read());
            }
        }
        held
    }

    fn is_quiet(&self) -> bool {
        self.ended.load(Ordering::SeqCst) == self.begun.load(Ordering::SeqCst)
    }

    /// Lets all writes go on, and lets none begin.
    pub(crate) fn retire(self: &Arc<Self>) {
        self.retired.store(true, Ordering::SeqCst);
        if self.is_quiet() {
            return;
        }
        // The device may fill the counter again, and may make reads block: then the counter is empty, as it should be. A
        // reader that sleeps at the end is left to itself.
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
            "the control: it has ended"
        );
        // What a device may do at any time.
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
        // Filled again: this would wait for ever.
        kick.event.write(1).unwrap();
        kick.event.read().unwrap();
        kick.event.write(u64::MAX - 1).unwrap();
        kick.ring();
    }
}
