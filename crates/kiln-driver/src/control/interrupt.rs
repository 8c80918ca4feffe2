//! The control queue's interrupt handler, and the cleanup for polling threads after a disconnect.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::state::State;
use super::{finish, Shared};
use crate::batch::Batch;
use crate::port::Port;
use crate::sleepers::Woken;

impl Shared {
    /// Handles an interrupt. Returns false once the device of generation `generation` has
    /// disconnected.
    pub(crate) fn interrupt(self: &Arc<Self>, generation: u64) -> bool {
        self.interrupts.fetch_add(1, Ordering::Relaxed);
        let mut batch = Batch::new(self.closer());
        let mut landed = Vec::new();
        let mut quiet_since = None;
        loop {
            let mut held = self.lock();
            for (ask, waiter) in batch.take() {
                held.accept(ask, waiter, &mut landed);
            }
            let mut sleep = true;
            if held.generation == generation {
                if let Some(port) = &mut held.port {
                    port.ring.disable_interrupt();
                }
                loop {
                    match held.land() {
                        Ok(Some(one)) => landed.push(one),
                        Ok(None) => break,
                        Err(lie) => {
                            landed.extend(held.fail(lie.into()));
                            break;
                        }
                    }
                }
                held.drain(&mut landed);
                sleep = landed.is_empty() && self.may_sleep(&mut held, &mut quiet_since);
            }
            let current = held.generation == generation;
            let kick = held.publish();
            drop(held);
            if let Some(kick) = kick {
                kick.ring();
            }
            if !current && landed.is_empty() {
                return false;
            }
            if current && sleep {
                return true;
            }
            if !landed.is_empty() {
                quiet_since = None;
            }
            let mut woken = Woken::default();
            for one in landed.drain(..) {
                finish(one, &mut batch, &mut woken);
            }
            self.sleepers.wake(&woken);
        }
    }

    /// Enables the next interrupt. Returns false if the thread must check the ring again instead of
    /// sleeping.
    fn may_sleep(&self, held: &mut State, quiet_since: &mut Option<Instant>) -> bool {
        let Some(port) = &mut held.port else {
            return true;
        };
        if !self.linger.is_zero() && port.is_busy() {
            let since = *quiet_since.get_or_insert_with(Instant::now);
            if since.elapsed() < self.linger {
                std::hint::spin_loop();
                return false;
            }
        }
        port.ring.enable_interrupt(1)
    }

    /// In poll mode, collects the answers to resubmitted requests until the ring is idle. The
    /// threads that made these requests stopped polling when the previous device disconnected.
    pub(crate) fn catch_up(self: &Arc<Self>, generation: u64) {
        loop {
            let mut over = Vec::new();
            let mut held = self.spin();
            let busy = held.port.as_ref().is_some_and(Port::is_busy);
            let done = !busy || held.generation != generation;
            match held.land() {
                Ok(landed) => over.extend(landed),
                Err(lie) => over.extend(held.fail(lie.into())),
            }
            held.drain(&mut over);
            if let Some(kick) = held.publish() {
                kick.ring();
            }
            drop(held);
            let idle = over.is_empty();
            self.finish_all(over);
            if done {
                return;
            }
            if idle {
                thread::yield_now();
            }
        }
    }
}
