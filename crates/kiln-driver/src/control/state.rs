//! The state that a control queue's lock protects: requests, their waiters, and the device.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use crate::batch::Waiter;
use crate::connection::Watch;
use crate::error::{Error, Lie};
use crate::histogram::Histogram;
use crate::kick::Kick;
use crate::port::{Ask, Landed, Port};
use crate::session::{Entry, Live};

/// State of a control queue, protected by its lock.
pub(super) struct State {
    pub(super) port: Option<Port<Waiter>>,
    /// Requests that wait because the ring is full or no device is connected.
    pub(super) backlog: VecDeque<(Ask, Waiter)>,
    pub(super) live: Live,
    pub(super) failed: Option<Error>,
    pub(super) watch: Option<Watch>,
    /// The current generation, which is incremented when a device connects and when it disconnects.
    pub(super) generation: u64,
    pub(super) holds: Option<Histogram>,
    pub(super) kicks: u64,
    pub(super) recoveries: u64,
}

/// A guard for the locked state. With `Options::observe`, it records how long the lock was held.
pub(super) struct Held<'a> {
    pub(super) state: MutexGuard<'a, State>,
    pub(super) since: Option<Instant>,
}

impl Deref for Held<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let (Some(since), Some(holds)) = (self.since, &mut self.state.holds) {
            holds.add(since.elapsed().as_nanos() as u64);
        }
    }
}

impl State {
    /// Submits a request, or queues it if the ring has no room for it. A request that fails, or
    /// that does not need the device, is added to `over`.
    pub(super) fn accept(&mut self, ask: Ask, waiter: Waiter, over: &mut Vec<Landed<Waiter>>) {
        if let Some(error) = &self.failed {
            let result = Err(error.clone());
            over.push(Landed {
                ask,
                waiter,
                result,
            });
            return;
        }
        if let Ask::Destroy(entry) = &ask {
            self.live.remove(entry);
        }
        match &self.port {
            Some(port) if self.backlog.is_empty() && port.has_room() => {
                self.hand_over(ask, waiter, over);
            }
            _ => self.backlog.push_back((ask, waiter)),
        }
    }

    /// Puts a request into the current device's ring, which has space for it.
    fn hand_over(&mut self, ask: Ask, waiter: Waiter, over: &mut Vec<Landed<Waiter>>) {
        let port = self.port.as_mut().expect("a device is connected");
        let here = |entry: &Entry| entry.is_on(self.generation);
        let result = match &ask {
            // The session was closed when its device disconnected.
            Ask::Destroy(entry) if !here(entry) => Err((waiter, Ok(0))),
            _ => match port.add(ask.clone(), waiter) {
                Ok(_) => Ok(()),
                Err((waiter, error)) => Err((waiter, Err(error))),
            },
        };
        if let Err((waiter, result)) = result {
            over.push(Landed {
                ask,
                waiter,
                result,
            });
        }
    }

    /// Moves waiting requests into the ring as long as the ring has space.
    pub(super) fn drain(&mut self, over: &mut Vec<Landed<Waiter>>) {
        while self.port.as_ref().is_some_and(Port::has_room) {
            let Some((ask, waiter)) = self.backlog.pop_front() else {
                return;
            };
            self.hand_over(ask, waiter, over);
        }
    }

    /// Publishes the requests in the ring. If the device wants to be notified, returns the
    /// [`Kick`] that the caller must ring.
    pub(super) fn publish(&mut self) -> Option<Arc<Kick>> {
        let port = self.port.as_mut()?;
        if !port.ring.publish() {
            return None;
        }
        self.kicks += 1;
        Some(port.kick.clone())
    }

    /// Takes one answer from the ring.
    pub(super) fn land(&mut self) -> Result<Option<Landed<Waiter>>, Lie> {
        let Some(port) = &mut self.port else {
            return Ok(None);
        };
        let landed = port.land()?;
        if let Some(Landed {
            ask: Ask::Create(entry),
            result: Ok(id),
            ..
        }) = &landed
        {
            entry.set_id(Some(*id), self.generation);
            self.live.insert(entry.clone());
        }
        Ok(landed)
    }

    /// Puts the queue into a permanent error state. Returns all unanswered requests with this
    /// error. Later requests fail with the error from the first call.
    pub(super) fn fail(&mut self, error: Error) -> Vec<Landed<Waiter>> {
        let flights = self.port.take().map(Port::into_flights).unwrap_or_default();
        let waiting = flights.into_iter().chain(self.backlog.drain(..));
        let told = waiting.map(|(ask, waiter)| Landed {
            ask,
            waiter,
            result: Err(error.clone()),
        });
        let told = told.collect();
        self.failed.get_or_insert(error);
        self.generation += 1;
        if let Some(watch) = &self.watch {
            watch.hang_up();
        }
        told
    }
}
