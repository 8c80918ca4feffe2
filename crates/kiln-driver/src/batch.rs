//! Requests that are submitted together, and who waits for each.

use std::sync::{Arc, Weak};

use crate::completion::Completion;
use crate::control::Shared;
use crate::error::Error;
use crate::port::Ask;
use crate::session::{Entry, Request, Session};
use crate::sleepers::Woken;

type Called = Box<dyn FnOnce(&mut Batch, Result<(), Error>) + Send>;

/// Who waits for a request.
pub(crate) enum Waiter {
    /// A thread that sleeps, or spins.
    Parked(Arc<Completion>),
    /// A function.
    Called(Called),
    /// Nobody.
    Nobody,
}

impl Waiter {
    /// Whether it is this one.
    pub(crate) fn is(&self, completion: &Arc<Completion>) -> bool {
        matches!(self, Waiter::Parked(c) if Arc::ptr_eq(c, completion))
    }

    /// False if nobody waited any more. A thread is among those to be woken.
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

/// Requests to be submitted together: under one lock, with one notification.
pub struct Batch {
    asks: Vec<(Ask, Waiter)>,
    control: Weak<Shared>,
}

impl Batch {
    pub(crate) fn new(control: Weak<Shared>) -> Batch {
        Batch {
            asks: Vec::new(),
            control,
        }
    }

    /// Creates a session. `done` is called with it, and with a batch to which it may add.
    pub fn create(
        &mut self,
        request: Request,
        done: impl FnOnce(&mut Batch, Result<Session, Error>) + Send + 'static,
    ) {
        let entry = Entry::new(request);
        let ask = Ask::Create(entry.clone());
        let call = move |batch: &mut Batch, result: Result<(), Error>| {
            let control = batch.control.clone();
            done(batch, result.map(|()| Session::new(entry, control)));
        };
        self.push(ask, Waiter::Called(Box::new(call)));
    }

    /// Closes a session. `done` is called with what the device said.
    pub fn close(
        &mut self,
        session: Session,
        done: impl FnOnce(&mut Batch, Result<(), Error>) + Send + 'static,
    ) {
        let ask = Ask::Destroy(session.into_entry());
        self.push(ask, Waiter::Called(Box::new(done)));
    }

    /// Requests in it.
    pub fn len(&self) -> usize {
        self.asks.len()
    }

    /// Whether there is none.
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
