//! What a control queue does when its device connects, disappears, and connects again.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::Shared;
use crate::batch::Waiter;
use crate::connection::Watch;
use crate::error::Error;
use crate::port::{Ask, Landed, Port};
use crate::session::Entry;

impl Shared {
    /// Continues on a newly connected device, the first or a later one, which has the open sessions.
    pub(crate) fn go_on(self: &Arc<Self>, port: Port<Waiter>, watch: Watch, again: bool) -> u64 {
        let mut refused = Vec::new();
        let mut held = self.lock();
        held.port = Some(port);
        held.watch = Some(watch);
        held.generation += 1;
        held.recoveries += u64::from(again);
        let generation = held.generation;
        self.gone.store(false, Ordering::Relaxed);
        held.drain(&mut refused);
        let kick = held.publish();
        if let Some(kick) = kick {
            kick.ring_apart();
        }
        drop(held);
        self.finish_all(refused);
        generation
    }

    /// The device has disconnected. Unanswered requests are kept for the next one.
    pub(crate) fn stop(self: &Arc<Self>) {
        // Set this before taking the lock, because a poller may hold it while it watches the ring.
        self.gone.store(true, Ordering::Relaxed);
        let mut closed = Vec::new();
        let mut held = self.lock();
        held.generation += 1;
        if let Some(port) = held.port.take() {
            let wake = port.wake.clone();
            for (ask, waiter) in port.into_flights().into_iter().rev() {
                held.backlog.push_front((ask, waiter));
            }
            let _ = wake.write(1);
        }
        // A device that disconnects closes its sessions.
        let asks = std::mem::take(&mut held.backlog);
        for (ask, waiter) in asks {
            match ask {
                Ask::Destroy(_) => closed.push(Landed {
                    ask,
                    waiter,
                    result: Ok(0),
                }),
                ask => held.backlog.push_back((ask, waiter)),
            }
        }
        drop(held);
        self.finish_all(closed);
    }

    /// Fails all requests, because no further device will connect.
    pub(crate) fn give_up(self: &Arc<Self>, error: Error) {
        self.gone.store(true, Ordering::Relaxed);
        let told = self.lock().fail(error);
        self.finish_all(told);
    }

    /// The error for which a lying device was disconnected, if any.
    pub(crate) fn failed(&self) -> Option<Error> {
        self.lock().failed.clone()
    }

    /// The sessions to create on a new device, and its generation.
    pub(crate) fn live(&self) -> (Vec<Arc<Entry>>, u64) {
        let held = self.lock();
        (held.live.entries(), held.generation + 1)
    }
}
