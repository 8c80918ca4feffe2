//! The control queue, which creates and closes sessions, in one of three modes:
//!
//! | mode | behaviour |
//! |---|---|
//! | `poll` | holds the lock while it watches the used ring, as Linux did before 5.19 |
//! | `wait` | submits under the lock, releases it, and sleeps until an interrupt wakes the thread |
//! | `async` | submits many requests at once, with callbacks that the interrupt thread calls |
//!
//! Requests that are unanswered when the device disconnects are submitted to the next device,
//! except requests to close sessions: the disconnect closes all sessions.

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

/// Number of checks of the used ring per check of the clock.
const LOOKS: u32 = 1 << 10;

/// How threads wait for the device's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Threads spin while holding the lock. Interrupts are disabled.
    Poll,
    /// Threads either sleep until an interrupt wakes them, or submit requests with callbacks that
    /// the interrupt thread calls.
    Wait,
}

/// Counters of the control queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of times the driver notified the device.
    pub kicks: u64,
    /// Number of times that the interrupt handler ran.
    pub interrupts: u64,
    /// Number of times that a thread yielded its core because another thread held the lock for too
    /// long.
    pub yields: u64,
    /// Number of times that the driver reconnected to a device.
    pub recoveries: u64,
}

/// A handle to a driver's control queue. Cloning the handle is cheap.
#[derive(Clone)]
pub struct Control(pub(crate) Arc<Shared>);

/// State shared by all handles of the queue.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) mode: Mode,
    timeout: Option<Duration>,
    /// How long the interrupt thread polls before it sleeps.
    linger: Duration,
    /// Number of failed attempts to take the lock before a thread yields its core.
    spins: u32,
    /// Set when the device disconnects. A polling thread holds the lock while it watches the ring,
    /// so it learns of the disconnect from this flag.
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

    /// Creates a session and waits for the device's answer.
    ///
    /// # Errors
    /// Fails if the device refuses the session or does not answer.
    pub fn create(&self, request: Request) -> Result<Session, Error> {
        let entry = Entry::new(request);
        self.0.ask(Ask::Create(entry.clone()))?;
        Ok(Session::new(entry, self.0.closer()))
    }

    /// Closes a session and waits for the device's answer.
    ///
    /// # Errors
    /// Fails if the device refuses to close the session or does not answer. Even then, the session
    /// cannot be used afterwards.
    pub fn close(&self, session: Session) -> Result<(), Error> {
        self.0.ask(Ask::Destroy(session.into_entry()))
    }

    /// Creates an empty batch for this queue.
    pub fn batch(&self) -> Batch {
        Batch::new(self.0.closer())
    }

    /// Submits a batch and returns immediately. The interrupt thread calls the batch's callbacks,
    /// each of which may fill another batch.
    ///
    /// # Errors
    /// [`Error::Request`] if the queue is polled, because a polled queue has no interrupt thread.
    pub fn submit(&self, mut batch: Batch) -> Result<(), Error> {
        if self.0.mode == Mode::Poll {
            return Err(Error::Request("a polled queue cannot call back"));
        }
        self.0.submit(batch.take());
        Ok(())
    }

    /// Returns the number of open sessions.
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

    /// Returns a histogram of how long the lock was held, and restarts the recording. Returns
    /// `None` if hold times are not recorded.
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

    /// Takes the lock as a paravirtual guest takes a spin lock: spins for a while, then yields the
    /// core, and repeats.
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
            kick.ring();
        }
        self.finish_all(refused);
    }

    /// Returns a handle that lets sessions close themselves on this queue.
    fn closer(self: &Arc<Self>) -> Weak<dyn Closer> {
        Arc::<Shared>::downgrade(self)
    }

    /// Submits a request and watches the used ring until the answer arrives, holding the lock
    /// throughout.
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
                // The answer belongs to an earlier request, such as one whose thread has timed out.
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
                    // The thread that watches the connection resubmits the request after
                    // reconnecting.
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

    /// Delivers the results to the waiters, and submits the requests that their callbacks add.
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

/// Delivers a result. If the waiter has given up on creating a session, adds a request to close it.
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
