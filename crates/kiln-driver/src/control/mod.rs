//! The control queue: sessions are created and closed, in one of three ways.
//!
//! | | |
//! |---|---|
//! | `poll` | one lock, held while the used ring is watched: what Linux did before 5.19 |
//! | `wait` | submitted under the lock, which is let go; the thread sleeps until the interrupt wakes it |
//! | `async` | submitted with a function that the interrupt calls; many are in flight |
//!
//! What the device has not answered when it goes is asked again of the one that comes back; sessions that were to be
//! closed are closed by its going.

mod device;
mod interrupt;
mod state;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::batch::{Batch, Waiter};
use crate::completion::Completion;
use crate::error::Error;
use crate::histogram::Histogram;
use crate::port::{Ask, Landed};
use crate::session::{Closer, Entry, Live, Request, Session};
use crate::sleepers::{Sleepers, Woken};

use state::{Held, State};

/// Looks at the used ring between two looks at the clock.
const LOOKS: u32 = 1 << 10;

/// How threads wait for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They spin, holding the lock. No interrupt is asked for.
    Poll,
    /// They sleep, or have a function called.
    Wait,
}

/// What a control queue did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times the device was notified.
    pub kicks: u64,
    /// Times it interrupted.
    pub interrupts: u64,
    /// Times a thread yielded because the lock stayed taken.
    pub yields: u64,
    /// Times a device was found again.
    pub recoveries: u64,
}

/// The control queue of a driver; cheap to clone.
#[derive(Clone)]
pub struct Control(pub(crate) Arc<Shared>);

/// What all handles of the queue share.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) mode: Mode,
    timeout: Option<Duration>,
    /// How long the interrupt's thread looks on before it sleeps.
    linger: Duration,
    /// Attempts before a waiter on the lock yields its core.
    spins: u32,
    /// For pollers, which hold the lock while they watch the ring.
    gone: AtomicBool,
    interrupts: AtomicU64,
    yields: AtomicU64,
    sleepers: Sleepers,
}

impl Control {
    pub(crate) fn new(
        mode: Mode,
        timeout: Option<Duration>,
        linger: Duration,
        spins: u32,
        observe: bool,
    ) -> Control {
        Control(Arc::new(Shared {
            state: Mutex::new(State {
                port: None,
                backlog: VecDeque::new(),
                live: Live::default(),
                failed: None,
                watch: None,
                generation: 0,
                holds: observe.then(Histogram::default),
                kicks: 0,
                recoveries: 0,
            }),
            mode,
            timeout,
            linger,
            spins,
            gone: AtomicBool::new(true),
            interrupts: AtomicU64::new(0),
            yields: AtomicU64::new(0),
            sleepers: Sleepers::new(),
        }))
    }

    /// Creates a session and returns once the device has answered.
    ///
    /// # Errors
    /// The device's refusal; what became of it.
    pub fn create(&self, request: Request) -> Result<Session, Error> {
        let entry = Entry::new(request);
        self.0.ask(Ask::Create(entry.clone()))?;
        Ok(Session::new(entry, self.0.closer()))
    }

    /// Closes a session and returns once the device has answered.
    ///
    /// # Errors
    /// The device's refusal; what became of it. The session is gone in any case.
    pub fn close(&self, session: Session) -> Result<(), Error> {
        self.0.ask(Ask::Destroy(session.into_entry()))
    }

    /// A batch for this queue, to be filled.
    pub fn batch(&self) -> Batch {
        Batch::new(self.0.closer())
    }

    /// Submits a batch and returns at once. Its functions are called by the interrupt's thread, and may fill a further
    /// batch each.
    ///
    /// # Errors
    /// [`Error::Request`] of a queue that is polled: it has no interrupt.
    pub fn submit(&self, mut batch: Batch) -> Result<(), Error> {
        if self.0.mode == Mode::Poll {
            return Err(Error::Request("a queue that is polled calls nobody"));
        }
        self.0.submit(batch.take());
        Ok(())
    }

    /// Sessions that live.
    pub fn sessions(&self) -> usize {
        self.0.lock().live.len()
    }

    pub fn counts(&self) -> Counts {
        let held = self.0.lock();
        Counts {
            kicks: held.kicks,
            interrupts: self.0.interrupts.load(Ordering::Relaxed),
            yields: self.0.yields.load(Ordering::Relaxed),
            recoveries: held.recoveries,
        }
    }

    /// How long the lock was held each time, if that was asked for; and begins anew.
    pub fn take_holds(&self) -> Option<Histogram> {
        let mut held = self.0.lock();
        held.since = None;
        held.holds.as_mut().map(std::mem::take)
    }
}

impl Shared {
    fn measure_hold<'a>(&self, state: MutexGuard<'a, State>) -> Held<'a> {
        let since = state.holds.is_some().then(Instant::now);
        Held { state, since }
    }

    fn lock(&self) -> Held<'_> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.measure_hold(state)
    }

    /// As a spin lock of a paravirtual guest: it spins, and after a while lets others have the core.
    fn spin(&self) -> Held<'_> {
        loop {
            for _ in 0..self.spins {
                match self.state.try_lock() {
                    Ok(state) => return self.measure_hold(state),
                    Err(TryLockError::Poisoned(e)) => return self.measure_hold(e.into_inner()),
                    Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
                }
            }
            self.yields.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.timeout.map(|t| Instant::now() + t)
    }

    fn ask(self: &Arc<Self>, ask: Ask) -> Result<(), Error> {
        let completion = Completion::new(&self.sleepers);
        let deadline = self.deadline();
        match self.mode {
            Mode::Wait => {
                self.submit([(ask, Waiter::Parked(completion.clone()))]);
                completion.wait(&self.sleepers, deadline)
            }
            Mode::Poll => self.poll(ask, &completion, deadline),
        }
    }

    pub(crate) fn submit(self: &Arc<Self>, asks: impl IntoIterator<Item = (Ask, Waiter)>) {
        let mut refused = Vec::new();
        let mut held = self.lock();
        for (ask, waiter) in asks {
            held.accept(ask, waiter, &mut refused);
        }
        let kick = held.publish();
        drop(held);
        if let Some(kick) = kick {
            // A full counter is a notification, too.
            kick.ring();
        }
        self.finish_all(refused);
    }

    /// What closes this queue's sessions.
    fn closer(self: &Arc<Self>) -> Weak<dyn Closer> {
        Arc::<Shared>::downgrade(self)
    }

    /// One lock from submission to answer, the used ring watched in between.
    fn poll(
        self: &Arc<Self>,
        ask: Ask,
        completion: &Arc<Completion>,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let mut over = Vec::new();
        let mut held = self.spin();
        held.accept(ask, Waiter::Parked(completion.clone()), &mut over);
        if let Some(kick) = held.publish() {
            kick.ring();
        }
        let mut looks = 0_u32;
        while over.is_empty() {
            match held.land() {
                // The answer to a request whose waiter gave up.
                Ok(Some(landed)) if !landed.waiter.is_parked_on(completion) => {
                    let (mut batch, mut woken) = (Batch::new(self.closer()), Woken::default());
                    finish(landed, &mut batch, &mut woken);
                    self.sleepers.wake(&woken);
                    for (ask, waiter) in batch.take() {
                        held.accept(ask, waiter, &mut over);
                    }
                    if let Some(kick) = held.publish() {
                        kick.ring();
                    }
                }
                Ok(Some(landed)) => over.push(landed),
                Ok(None) => {
                    std::hint::spin_loop();
                    looks = looks.wrapping_add(1);
                    if looks % LOOKS == 0 && deadline.is_some_and(|d| d <= Instant::now()) {
                        return completion.give_up();
                    }
                    // The monitor submits the request again when it has found the device.
                    if self.gone.load(Ordering::Relaxed) {
                        drop(held);
                        return completion.wait(&self.sleepers, deadline);
                    }
                }
                Err(lie) => over.extend(held.fail(lie.into())),
            }
        }
        drop(held);
        self.finish_all(over);
        completion.wait(&self.sleepers, deadline)
    }

    /// Calls or wakes the waiters, and submits the requests that the calls add.
    fn finish_all(self: &Arc<Self>, landed: Vec<Landed<Waiter>>) {
        if landed.is_empty() {
            return;
        }
        let (mut batch, mut woken) = (Batch::new(self.closer()), Woken::default());
        for one in landed {
            finish(one, &mut batch, &mut woken);
        }
        self.sleepers.wake(&woken);
        let asks = batch.take();
        if !asks.is_empty() {
            self.submit(asks);
        }
    }
}

impl Closer for Shared {
    fn abandon(self: Arc<Self>, entry: Arc<Entry>) {
        match self.mode {
            Mode::Wait => self.submit([(Ask::Destroy(entry), Waiter::Nobody)]),
            Mode::Poll => {
                let _ = self.ask(Ask::Destroy(entry));
            }
        }
    }
}

/// Reports the result to the waiter. A session whose waiter has given up is closed again.
fn finish(landed: Landed<Waiter>, batch: &mut Batch, woken: &mut Woken) {
    let Landed {
        ask,
        waiter,
        result,
    } = landed;
    let made = matches!((&ask, &result), (Ask::Create(_), Ok(_)));
    let told = waiter.tell(batch, woken, result.map(drop));
    if let (Ask::Create(entry), true, false) = (ask, made, told) {
        batch.push(Ask::Destroy(entry), Waiter::Nobody);
    }
}
