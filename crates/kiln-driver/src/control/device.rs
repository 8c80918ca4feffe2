//! How a control queue reacts when its device connects, disconnects, and reconnects.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::Shared;
use crate::batch::Waiter;
use crate::connection::Watch;
use crate::error::Error;
use crate::port::{Ask, Landed, Port};
use crate::session::Entry;

impl Shared {
    /// Switches to a newly connected device, on which the open sessions already exist, and submits
    /// waiting requests. Returns the device's generation.
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

    /// Handles a disconnect. Unanswered requests are kept for the next device.
    pub(crate) fn stop(self: &Arc<Self>) {
        // Set this before taking the lock, because a polling thread may hold the lock while it
        // watches the used ring.
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
        // Report close requests as done, because a disconnected device closes its sessions.
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

    /// Fails all requests with `error`, because the driver will not reconnect.
    pub(crate) fn give_up(self: &Arc<Self>, error: Error) {
        self.gone.store(true, Ordering::Relaxed);
        let told = self.lock().fail(error);
        self.finish_all(told);
    }

    /// Returns the error that made the queue fail permanently, or `None` if it has not failed.
    pub(crate) fn failed(&self) -> Option<Error> {
        self.lock().failed.clone()
    }

    /// Returns the sessions to recreate on the next device, and that device's generation.
    pub(crate) fn live(&self) -> (Vec<Arc<Entry>>, u64) {
        let held = self.lock();
        (held.live.entries(), held.generation + 1)
    }
}
