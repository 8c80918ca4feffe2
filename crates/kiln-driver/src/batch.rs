//! Batches of requests that are submitted together. Each request has a waiter.

use std::sync::{Arc, Weak};

use crate::completion::Completion;
use crate::error::Error;
use crate::port::Ask;
use crate::session::{Closer, Entry, Request, Session};
use crate::sleepers::Woken;

type Called = Box<dyn FnOnce(&mut Batch, Result<(), Error>) + Send>;

/// How the result of a request is delivered.
pub(crate) enum Waiter {
    /// A thread sleeps or spins until the completion is done.
    Parked(Arc<Completion>),
    Called(Called),
    Nobody,
}

impl Waiter {
    /// Returns whether the waiter is a thread that waits on `completion`.
    pub(crate) fn is_parked_on(&self, completion: &Arc<Completion>) -> bool {
        matches!(self, Waiter::Parked(c) if Arc::ptr_eq(c, completion))
    }

    /// Delivers the result. If the waiter is a thread that must be woken, adds it to `woken`.
    /// Returns false if the waiter has given up.
    pub(crate) fn tell(
        self,
        batch: &mut Batch,
        woken: &mut Woken,
        result: Result<(), Error>,
    ) -> bool {
        match self {
            Waiter::Parked(completion) => completion.finish(result, woken),
            Waiter::Called(call) => {
                call(batch, result);
                true
            }
            Waiter::Nobody => false,
        }
    }
}

/// Requests that are submitted under one lock and with one notification.
pub struct Batch {
    asks: Vec<(Ask, Waiter)>,
    closer: Weak<dyn Closer>,
}

impl Batch {
    /// Creates an empty batch. Sessions created by the batch close themselves through `closer`.
    pub(crate) fn new(closer: Weak<dyn Closer>) -> Batch {
        Batch {
            asks: Vec::new(),
            closer,
        }
    }

    /// Adds a request to create a session. `done` is called with two arguments: the session or an
    /// error, and a batch to which `done` may add further requests.
    pub fn create(
        &mut self,
        request: Request,
        done: impl FnOnce(&mut Batch, Result<Session, Error>) + Send + 'static,
    ) {
        let entry = Entry::new(request);
        let ask = Ask::Create(entry.clone());
        let call = move |batch: &mut Batch, result: Result<(), Error>| {
            let closer = batch.closer.clone();
            done(batch, result.map(|()| Session::new(entry, closer)));
        };
        self.push(ask, Waiter::Called(Box::new(call)));
    }

    /// Adds a request to close a session. `done` is called with the device's answer and with a
    /// batch, as for [`Batch::create`].
    pub fn close(
        &mut self,
        session: Session,
        done: impl FnOnce(&mut Batch, Result<(), Error>) + Send + 'static,
    ) {
        let ask = Ask::Destroy(session.into_entry());
        self.push(ask, Waiter::Called(Box::new(done)));
    }

    /// Returns the number of requests in the batch.
    pub fn len(&self) -> usize {
        self.asks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.asks.is_empty()
    }

    pub(crate) fn push(&mut self, ask: Ask, waiter: Waiter) {
        self.asks.push((ask, waiter));
    }

    pub(crate) fn take(&mut self) -> Vec<(Ask, Waiter)> {
        std::mem::take(&mut self.asks)
    }
}
