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

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::batch::{Batch, Waiter};
use crate::completion::Completion;
use crate::connection::Watch;
use crate::error::{Error, Lie};
use crate::histogram::Histogram;
use crate::port::{Ask, Landed, Port};
use crate::session::{Entry, Live, Request, Session};
use crate::sleepers::{Sleepers, Woken};

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

/// What all who use the queue share.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) mode: Mode,
    timeout: Option<Duration>,
    /// How long the interrupt's thread looks on before it sleeps.
    linger: Duration,
    /// Attempts before a waiter on the lock yields its core.
    spins: u32,
    /// For those who watch the ring and hold the lock.
    gone: AtomicBool,
    interrupts: AtomicU64,
    yields: AtomicU64,
    sleepers: Sleepers,
}

/// What the lock protects.
pub(crate) struct State {
    port: Option<Port<Waiter>>,
    /// No room, or no device, so far.
    backlog: VecDeque<(Ask, Waiter)>,
    live: Live,
    failed: Option<Error>,
    watch: Option<Watch>,
    /// Which device this is: the first, the second ...
    generation: u64,
    holds: Option<Histogram>,
    kicks: u64,
    recoveries: u64,
}

/// The lock, held; how long is noted if somebody wants to know.
struct Held<'a> {
    state: MutexGuard<'a, State>,
    since: Option<Instant>,
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
        Ok(Session::new(entry, Arc::downgrade(&self.0)))
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
        Batch::new(Arc::downgrade(&self.0))
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

    /// What was counted.
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

impl State {
    /// Hands over what has room. What needs no device, or finds none, is `over`.
    fn accept(&mut self, ask: Ask, waiter: Waiter, over: &mut Vec<Landed<Waiter>>) {
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

    /// There is a device, and room.
    fn hand_over(&mut self, ask: Ask, waiter: Waiter, over: &mut Vec<Landed<Waiter>>) {
        let port = self.port.as_mut().expect("there is a device");
        let here = |entry: &Entry| entry.is_on(self.generation);
        let result = match &ask {
            // It went with the device that had it.
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

    /// Hands over what had no room.
    fn drain(&mut self, over: &mut Vec<Landed<Waiter>>) {
        while self.port.as_ref().is_some_and(Port::has_room) {
            let Some((ask, waiter)) = self.backlog.pop_front() else {
                return;
            };
            self.hand_over(ask, waiter, over);
        }
    }

    /// Publishes what was handed over; what to write to if the device wants to know.
    fn publish(&mut self) -> Option<Arc<vmm_sys_util::eventfd::EventFd>> {
        let port = self.port.as_mut()?;
        if !port.ring.publish() {
            return None;
        }
        self.kicks += 1;
        Some(port.kick.clone())
    }

    /// Takes one answer.
    fn land(&mut self) -> Result<Option<Landed<Waiter>>, Lie> {
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

    /// For good: whatever waits is told so, and whoever comes.
    fn fail(&mut self, error: Error) -> Vec<Landed<Waiter>> {
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

impl Shared {
    fn held<'a>(&self, state: MutexGuard<'a, State>) -> Held<'a> {
        let since = state.holds.is_some().then(Instant::now);
        Held { state, since }
    }

    fn lock(&self) -> Held<'_> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.held(state)
    }

    /// As a spin lock of a paravirtual guest: it spins, and after a while lets others have the core.
    fn spin(&self) -> Held<'_> {
        loop {
            for _ in 0..self.spins {
                match self.state.try_lock() {
                    Ok(state) => return self.held(state),
                    Err(TryLockError::Poisoned(e)) => return self.held(e.into_inner()),
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
            let _ = kick.write(1);
        }
        self.finish_all(refused);
    }

    /// Nobody wants to know how it goes.
    pub(crate) fn abandon(self: &Arc<Self>, entry: Arc<Entry>) {
        match self.mode {
            Mode::Wait => self.submit([(Ask::Destroy(entry), Waiter::Nobody)]),
            Mode::Poll => {
                let _ = self.ask(Ask::Destroy(entry));
            }
        }
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
            let _ = kick.write(1);
        }
        let mut looks = 0_u32;
        while over.is_empty() {
            match held.land() {
                // Of somebody who gave up: it is no longer this thread's business alone.
                Ok(Some(landed)) if !landed.waiter.is(completion) => {
                    let (mut batch, mut woken) = (Batch::new(Weak::new()), Woken::default());
                    finish(landed, &mut batch, &mut woken);
                    self.sleepers.wake(&woken);
                    for (ask, waiter) in batch.take() {
                        held.accept(ask, waiter, &mut over);
                    }
                    let _ = held.publish().map(|kick| kick.write(1));
                }
                Ok(Some(landed)) => over.push(landed),
                Ok(None) => {
                    std::hint::spin_loop();
                    looks = looks.wrapping_add(1);
                    if looks % LOOKS == 0 && deadline.is_some_and(|d| d <= Instant::now()) {
                        return completion.give_up();
                    }
                    // Whoever finds it again will ask again.
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

    /// Calls or wakes whoever waits, and submits what that brings.
    fn finish_all(self: &Arc<Self>, landed: Vec<Landed<Waiter>>) {
        if landed.is_empty() {
            return;
        }
        let (mut batch, mut woken) = (Batch::new(Arc::downgrade(self)), Woken::default());
        for one in landed {
            finish(one, &mut batch, &mut woken);
        }
        self.sleepers.wake(&woken);
        let asks = batch.take();
        if !asks.is_empty() {
            self.submit(asks);
        }
    }

    /// What the interrupt does. False once the device of that generation is gone.
    pub(crate) fn interrupt(self: &Arc<Self>, generation: u64) -> bool {
        self.interrupts.fetch_add(1, Ordering::Relaxed);
        let mut batch = Batch::new(Arc::downgrade(self));
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
                let _ = kick.write(1);
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

    /// Whether the next interrupt was asked for in time.
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

    /// A device is there, the first or a further one, with the sessions that live.
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
            let _ = kick.write(1);
        }
        drop(held);
        self.finish_all(refused);
        generation
    }

    /// Those who were polling when the device went do not watch the ring any more: this does it for them.
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
            let _ = held.publish().map(|kick| kick.write(1));
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

    /// The device is gone; another may come. Unanswered requests are kept for it.
    pub(crate) fn stop(self: &Arc<Self>) {
        // First of all: somebody may hold the lock and watch.
        self.gone.store(true, Ordering::Relaxed);
        let mut closed = Vec::new();
        let mut held = self.lock();
        held.generation += 1;
        if let Some(port) = held.port.take() {
            let call = port.call.clone();
            for (ask, waiter) in port.into_flights().into_iter().rev() {
                held.backlog.push_front((ask, waiter));
            }
            let _ = call.write(1);
        }
        // By its going.
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

    /// No device will come any more.
    pub(crate) fn give_up(self: &Arc<Self>, error: Error) {
        self.gone.store(true, Ordering::Relaxed);
        let told = self.lock().fail(error);
        self.finish_all(told);
    }

    /// Whether a device that lied was sent away.
    pub(crate) fn failed(&self) -> Option<Error> {
        self.lock().failed.clone()
    }

    /// The sessions that a new device has to have, and the number that it will have.
    pub(crate) fn live(&self) -> (Vec<Arc<Entry>>, u64) {
        let held = self.lock();
        (held.live.all(), held.generation + 1)
    }
}

/// Tells whoever waits. A session that nobody waits for any more is closed again.
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
