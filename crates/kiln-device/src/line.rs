//! The work loop of one queue: takes requests that the driver made available, serves them, returns
//! them, and sleeps while the ring is empty.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use vm_memory::GuestMemoryMmap;
use zeroize::Zeroize;

use crate::chain::{Chain, Malformed};
use crate::duty::{Duty, STATUS_ERR};
use crate::inflight::{Log, Stage};
use crate::notify::{wait, Bell, Call, Kick};
use crate::pace::Pace;
use crate::ring::{Broken, Paid, Ring};
use crate::tally::{Count, Tally};

/// Results are published after at most this many requests, even if more are available.
const BATCH: u16 = 16;

/// Initial and maximum interval at which a ring without a kick descriptor is checked. The interval
/// doubles after every check that finds no request.
const WITHOUT_KICK: Duration = Duration::from_micros(100);
const LONGEST_WITHOUT_KICK: Duration = Duration::from_millis(10);

/// While the rate limit delays a guest, its ring is checked for errors at least this often.
const LONGEST_WITHOUT_LOOK: Duration = Duration::from_millis(100);

/// After this many consecutive wake-ups without a request, the thread pauses before each further
/// wait for the kick descriptor.
const FUTILE: u32 = 8;

/// What a queue's thread should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Order {
    Run = 0,
    /// Finish the batch, then stop.
    Stop = 1,
    /// Finish everything available, then stop.
    Drain = 2,
}

/// The current order to a thread, and the bell that wakes the thread when the order changes.
pub(crate) struct Halt {
    order: AtomicU8,
    bell: Bell,
}

impl Halt {
    /// Creates a halt whose current order is [`Order::Run`].
    pub(crate) fn new() -> std::io::Result<Halt> {
        Ok(Halt {
            order: AtomicU8::new(Order::Run as u8),
            bell: Bell::new()?,
        })
    }

    /// Sets the order. [`Order::Stop`] and [`Order::Drain`] also wake the thread.
    pub(crate) fn set(&self, order: Order) {
        self.order.store(order as u8, Ordering::Release);
        match order {
            Order::Run => self.bell.clear(),
            Order::Stop | Order::Drain => self.bell.ring(),
        }
    }

    /// Sleeps while the order is [`Order::Run`].
    pub(crate) fn wait(&self) {
        while self.order() == Order::Run {
            wait(None, &self.bell, None);
        }
    }

    fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            0 => Order::Run,
            1 => Order::Stop,
            _ => Order::Drain,
        }
    }
}

/// Buffers for a request and its answer. They grow as needed and never shrink.
#[derive(Default)]
pub(crate) struct Scratch {
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Scratch {
    /// Returns space for a request and an answer.
    fn reserve(&mut self, request: usize, answer: usize) -> (&mut [u8], &mut [u8]) {
        if self.request.len() < request {
            // Wipe the old bytes first, because a vector that grows leaves them behind in freed
            // memory.
            self.request.zeroize();
            self.request.resize(request, 0);
        }
        if self.answer.len() < answer {
            self.answer.zeroize();
            self.answer.resize(answer, 0);
        }
        (&mut self.request[..request], &mut self.answer[..answer])
    }

    /// Returns the total capacity of both buffers in bytes.
    #[cfg(any(test, feature = "rig"))]
    pub(crate) fn allocated(&self) -> usize {
        self.request.capacity() + self.answer.capacity()
    }

    /// Returns whether the copy of a request contains these bytes.
    #[cfg(test)]
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        self.request.windows(bytes.len()).any(|w| w == bytes)
    }

    /// Wipes both buffers, which may contain keys and plaintext.
    pub(crate) fn wipe(&mut self) {
        self.request.zeroize();
        self.answer.zeroize();
    }
}

/// Everything that a queue's work loop uses.
pub(crate) struct Line<'a> {
    /// Memory of the guest that owns the ring.
    pub memory: &'a GuestMemoryMmap,
    pub ring: Ring<'a>,
    /// The descriptor through which the driver notifies the device.
    pub kick: Option<&'a Kick>,
    /// The descriptor through which the device notifies the driver.
    pub call: Option<&'a Call>,
    /// Serves the requests of this ring.
    pub duty: &'a mut dyn Duty,
    /// Buffers for copies of a request and its answer.
    pub scratch: &'a mut Scratch,
    /// Storage for a request's descriptors.
    pub chain: &'a mut Chain,
    /// In-flight record for the next process, if the front end keeps one.
    pub log: Option<&'a mut Log>,
    /// The guest's rate limits.
    pub pace: &'a Pace,
    /// The request that has been charged against the rate limits but not yet served, if any.
    pub paid: Option<Paid>,
    pub tally: &'a Tally,
    /// Maximum size of a request and its answer together, in bytes.
    pub max_request: usize,
    /// How long to poll before sleeping.
    pub poll: Duration,
}

impl Line<'_> {
    /// Serves requests until ordered to stop or until the ring breaks.
    pub(crate) fn run(&mut self, halt: &Halt) -> Result<(), Broken> {
        let mut count = Count::default();
        let done = self.until(halt, &mut count);
        self.hand_back(&mut count);
        self.tally.add(&mut count);
        self.scratch.wipe();
        done
    }

    fn until(&mut self, halt: &Halt, count: &mut Count) -> Result<(), Broken> {
        // Polling pays off if the next request arrives within the polling time. Predict that from
        // the last attempt: if polling found no request, do not poll again until a sleep turns out
        // to be no longer than the polling time.
        let mut look = true;
        // Number of consecutive wake-ups without a request. A kick descriptor may be a file that is
        // always readable, so the thread pauses once this number reaches [`FUTILE`].
        let mut futile: u32 = 0;
        loop {
            self.ring.silence();
            let before = self.ring.next_avail();
            // Check the rate limit even before the first request, because a front end can cut a
            // delay short by restarting the ring. A drain is not delayed, because the process exits
            // after it.
            let hold = match halt.order() {
                Order::Drain => self.drain(halt, count)?,
                Order::Run | Order::Stop => match self.pace.hold() {
                    None => self.drain(halt, count)?,
                    hold => hold,
                },
            };
            if self.ring.next_avail() != before {
                futile = 0;
            }
            match halt.order() {
                Order::Run => {}
                Order::Stop | Order::Drain => return Ok(()),
            }
            if let Some(hold) = hold {
                count.held += 1;
                self.hand_back(count);
                self.tally.add(count);
                self.hold(halt, Instant::now() + hold)?;
                continue;
            }
            look = look && !self.poll.is_zero() && self.more_soon(halt)?;
            if look || self.ring.listen()? {
                continue;
            }
            count.sleeps += 1;
            self.tally.add(count);
            let pause = (WITHOUT_KICK * (1 << futile.min(10))).min(LONGEST_WITHOUT_KICK);
            let limit = self.kick.is_none().then_some(pause);
            let asleep = Instant::now();
            if self.kick.is_some() && futile >= FUTILE {
                wait(None, &halt.bell, Some(pause));
            }
            let woken = wait(self.kick, &halt.bell, limit);
            look = asleep.elapsed() <= self.poll;
            futile = futile.saturating_add(1);
            if woken.kick && !self.kick.is_some_and(Kick::clear) {
                // The descriptor cannot deliver notifications, so check the ring periodically.
                self.kick = None;
            }
        }
    }

    /// Waits until the guest conforms to its rate, or until the order changes. If the ring breaks
    /// in the meantime, stops waiting and returns the error.
    fn hold(&self, halt: &Halt, until: Instant) -> Result<(), Broken> {
        loop {
            self.ring.available()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || halt.order() != Order::Run {
                return Ok(());
            }
            wait(None, &halt.bell, Some(left.min(LONGEST_WITHOUT_LOOK)));
        }
    }

    /// Serves all available requests, in batches. If the guest exceeds its rate, returns how long
    /// it must wait.
    pub(crate) fn drain(
        &mut self,
        halt: &Halt,
        count: &mut Count,
    ) -> Result<Option<Duration>, Broken> {
        // A drain serves at most as many requests as the ring has entries, so it ends even if the
        // driver keeps adding requests.
        let mut left = u32::from(self.ring.size());
        loop {
            let available = self.ring.available()?;
            count.depth = u64::from(available);
            let batch = available.min(BATCH);
            if batch == 0 {
                return Ok(None);
            }
            let before = self.ring.next_avail();
            let hold = self.batch(batch, count)?;
            self.hand_back(count);
            // Count only the requests that were served: a batch ends early if the guest exceeds its
            // rate.
            let served = self.ring.next_avail().wrapping_sub(before);
            left = left.saturating_sub(u32::from(served));
            match halt.order() {
                Order::Run if hold.is_some() => return Ok(hold),
                Order::Run => {}
                Order::Drain if left > 0 => {}
                Order::Stop | Order::Drain => return Ok(None),
            }
        }
    }

    fn batch(&mut self, requests: u16, count: &mut Count) -> Result<Option<Duration>, Broken> {
        let mut start = Instant::now();
        for _ in 0..requests {
            let hold = self.charge()?;
            if hold.is_some() {
                return Ok(hold);
            }
            let paid = self.paid.take();
            let head = self.ring.take()?;
            let before = match self.log.as_mut() {
                Some(log) => log.take(head),
                None => Stage::Taken,
            };
            let (written, status) = match before {
                _ if self.duty.is_lost_with_process() => self.request(head, count),
                Stage::Taken => self.request(head, count),
                Stage::Answering => self.fail(head),
                Stage::Answered(written) => (written, 0),
            };
            self.ring.give(head, written);
            if let Some(log) = self.log.as_mut() {
                log.give(head);
            }
            let end = Instant::now();
            count.answered(status, (end - start).as_nanos() as u64);
            start = end;
            if let Some(paid) = paid {
                // The driver may have lengthened the request after it was charged.
                let more = self.bytes().saturating_sub(paid.bytes);
                let hold = self.pace.take(0, more);
                if hold.is_some() {
                    return Ok(hold);
                }
            }
        }
        Ok(None)
    }

    /// Charges the next request against the guest's rate limits, unless it was already charged.
    /// Returns how long to wait before serving it. The wait comes before the request is served,
    /// because a front end that reconnects gets another process, which does not know how far the
    /// guest has exceeded its rate.
    fn charge(&mut self) -> Result<Option<Duration>, Broken> {
        let entry = self.ring.next_avail();
        if !self.pace.is_limited() || self.paid.is_some_and(|paid| paid.entry == entry) {
            return Ok(None);
        }
        let head = self.ring.peek()?;
        // A chain that cannot be followed is reported when it is served.
        let _ = self.chain.walk(self.memory, &self.ring, head);
        let bytes = self.bytes();
        self.paid = Some(Paid { entry, bytes });
        Ok(self.pace.take(1, bytes))
    }

    /// Returns the length in bytes of the current chain, up to the maximum size that is served.
    fn bytes(&self) -> u64 {
        let bytes = self.chain.readable().saturating_add(self.chain.writable());
        bytes.min(self.max_request as u64)
    }

    /// Serves one request, and returns the number of bytes written and the status.
    fn request(&mut self, head: u16, count: &mut Count) -> (u32, u32) {
        match self.try_request(head, count) {
            Ok(done) => done,
            Err(fault) => {
                count.malformed += 1;
                tracing::debug!(%fault, "malformed request");
                match fault {
                    Malformed::Length => self.write_error(),
                    _ => (0, u32::from(STATUS_ERR)),
                }
            }
        }
    }

    /// Answers a request with an error, because the previous process ended while it was writing the
    /// answer.
    fn fail(&mut self, head: u16) -> (u32, u32) {
        match self.chain.walk(self.memory, &self.ring, head) {
            Ok(()) => self.write_error(),
            Err(_) => (0, u32::from(STATUS_ERR)),
        }
    }

    /// Writes an error to the status byte of the current chain. Returns the number of bytes
    /// written, which becomes the used length (2.7.8), and the status.
    fn write_error(&self) -> (u32, u32) {
        let done = self.chain.write_last(self.memory, STATUS_ERR);
        (u32::from(done.is_ok()), u32::from(STATUS_ERR))
    }

    fn try_request(&mut self, head: u16, count: &mut Count) -> Result<(u32, u32), Malformed> {
        self.chain.walk(self.memory, &self.ring, head)?;
        let (readable, writable) = (self.chain.readable(), self.chain.writable());
        // Check the limit before allocating buffers.
        if readable.saturating_add(writable) > self.max_request as u64 {
            return Err(Malformed::Length);
        }
        let (request, answer) = self.scratch.reserve(readable as usize, writable as usize);
        if let Err(fault) = self.chain.read(self.memory, request) {
            // The copied bytes may contain part of a key.
            request.zeroize();
            return Err(fault);
        }
        let used = self.duty.serve(request, answer).min(answer.len());
        let status = self.duty.status(answer, used);
        if self.duty.is_secret() {
            request.zeroize();
        }
        let apart = used < answer.len() && self.duty.ends_with_status();
        if let Some(log) = &self.log {
            log.set(head, Stage::Answering);
        }
        match used.checked_sub(1).filter(|_| apart) {
            // Do not touch the bytes between the result and the status. Linux's driver lists the
            // later parts of a message among the writable buffers as well as the readable ones, so
            // these bytes can be part of the message.
            Some(result) => {
                self.chain.write(self.memory, &answer[..result])?;
                self.chain
                    .write_last(self.memory, answer[answer.len() - 1])?;
            }
            None => self.chain.write(self.memory, &answer[..used])?,
        }
        if let Some(log) = &self.log {
            log.set(head, Stage::Answered(used as u32));
        }
        count.bytes_in += readable;
        count.bytes_out += used as u64;
        Ok((used as u32, status))
    }

    /// Publishes the used index, and notifies the driver if it requested a notification.
    pub(crate) fn hand_back(&mut self, count: &mut Count) {
        self.ring.publish();
        let used = self.ring.next_used();
        if let Some(log) = self.log.as_mut() {
            log.publish(used);
        }
        if self.ring.wants_interrupt() {
            if let Some(call) = self.call {
                count.interrupts += 1;
                call.tell();
            }
        }
    }

    /// Polls briefly for more requests, to save a wake-up if the driver responds immediately.
    fn more_soon(&self, halt: &Halt) -> Result<bool, Broken> {
        let end = Instant::now() + self.poll;
        loop {
            for _ in 0..32 {
                if self.ring.available()? != 0 {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            // The driver may need this core to make its next request.
            std::thread::yield_now();
            if halt.order() != Order::Run || Instant::now() >= end {
                return Ok(false);
            }
        }
    }
}
