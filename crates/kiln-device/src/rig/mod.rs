//! A guest in this process, for tests and fuzzing: memory, a control queue and a data queue, all of
//! which a test can fill as a hostile driver would.

mod front;

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use kiln_virtio::{Guest, Limits, Services, Worker};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::account::Account;
use crate::chain::Chain;
use crate::duty::{Control, Data, Duty};
use crate::inflight::Inflight;
use crate::line::{Halt, Line, Order, Scratch};
use crate::notify::Kick;
use crate::pace::{Pace, Rates};
use crate::ring::{Areas, Broken, Place, Ring};
use crate::tally::{Count, Counters, Tally};

pub use front::Front;

/// Size of the guest's memory in bytes. It starts at address 0.
pub const MEMORY: usize = 1 << 20;
/// Descriptors per ring.
pub const RING: u16 = 16;
/// Address of the first byte after the rings, where buffers may start.
pub const BUFFERS: u64 = 0x4000;

/// Number of bytes that a new driver clears: those of the rings and the first buffers.
const RESET: usize = 0x1_0000;

/// `VIRTQ_DESC_F_NEXT`.
pub const NEXT: u16 = 1;
/// `VIRTQ_DESC_F_WRITE`.
pub const WRITE: u16 = 2;
/// `VIRTQ_DESC_F_INDIRECT`.
pub const INDIRECT: u16 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Control,
    Data,
}

/// A guest and the device that serves it, without a front end.
pub struct Rig {
    pub memory: Arc<GuestMemoryMmap>,
    pub guest: Arc<Guest>,
    rings: [(Place, Box<dyn Duty>); 2],
    scratch: Scratch,
    chain: Chain,
    account: Arc<Account>,
    tally: Arc<Tally>,
    halt: Halt,
    max_chain: usize,
    pub(crate) inflight: Option<Arc<Inflight>>,
}

impl Rig {
    /// Creates a guest with these limits.
    pub fn new(limits: Limits) -> Rig {
        Rig::with_rates(limits, &Rates::default())
    }

    /// Creates a guest with these limits and these maximum rates.
    pub(crate) fn with_rates(limits: Limits, rates: &Rates) -> Rig {
        let max_chain = crate::Config {
            limits: limits.clone(),
            ..crate::Config::default()
        }
        .max_chain();
        let counters = Counters::new(1).expect("shared memory");
        let tally = counters.tallies().remove(0);
        let guest = Guest::new(limits, &Services::detect());
        let account = Arc::new(Account::new(guest, counters, Pace::new(rates)));
        let guest = account.guest.clone();
        guest.negotiate(0);
        let worker = Worker::new().expect("an emulated CPU");
        let place = |at| Place {
            size: RING,
            desc: at,
            avail: at + 0x1000,
            used: at + 0x1800,
            ..Place::default()
        };
        let halt = Halt::new().expect("an eventfd");
        // With this order, the device stops as soon as it has served all available requests.
        halt.set(Order::Drain);
        Rig {
            memory: Arc::new(
                GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).expect("memory"),
            ),
            rings: [
                (place(0), Box::new(Control(account.clone()))),
                (
                    place(0x2000),
                    Box::new(Data {
                        guest: guest.clone(),
                        worker,
                    }),
                ),
            ],
            guest,
            scratch: Scratch::default(),
            chain: Chain::new(),
            account,
            tally,
            halt,
            max_chain,
            inflight: None,
        }
    }

    /// Simulates a driver restart: clears the rings and the first buffers, and closes all sessions.
    pub fn reset(&mut self) {
        self.put(0, &[0; RESET]);
        for (place, _) in &mut self.rings {
            place.next_avail = 0;
        }
        self.guest.reset();
    }

    /// Returns the location of a ring, which a test may change.
    pub fn place(&mut self, which: Which) -> &mut Place {
        &mut self.rings[which as usize].0
    }

    /// Writes guest memory. If the range does not fit, nothing is written.
    pub fn put(&self, at: u64, bytes: &[u8]) {
        let _ = self.memory.write_slice(bytes, GuestAddress(at));
    }

    /// Reads guest memory. Panics if the range does not fit.
    pub fn get(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory
            .read_slice(&mut bytes, GuestAddress(at))
            .expect("in memory");
        bytes
    }

    /// Writes a descriptor into a table.
    pub fn describe(&self, table: u64, index: u16, (addr, len): (u64, u32), flags: u16, next: u16) {
        let at = table + 16 * u64::from(index);
        self.put(at, &addr.to_le_bytes());
        self.put(at + 8, &len.to_le_bytes());
        self.put(at + 12, &flags.to_le_bytes());
        self.put(at + 14, &next.to_le_bytes());
    }

    /// Makes the chains that start at these heads available to the device.
    pub fn offer(&mut self, which: Which, heads: &[u16]) {
        let avail = self.place(which).avail;
        let mut idx = u16::from_le_bytes(self.get(avail + 2, 2).try_into().expect("two bytes"));
        for head in heads {
            let slot = avail + 4 + 2 * u64::from(idx % RING);
            self.put(slot, &head.to_le_bytes());
            idx = idx.wrapping_add(1);
        }
        self.set_avail_idx(which, idx);
    }

    /// Sets the available index to any value.
    pub fn set_avail_idx(&mut self, which: Which, idx: u16) {
        let at = GuestAddress(self.place(which).avail + 2);
        let _ = self.memory.store(idx.to_le(), at, Ordering::Release);
    }

    /// Serves the requests that are available on the ring, and returns the device's counts.
    pub fn serve(&mut self, which: Which) -> Result<Count, Broken> {
        self.with_line(which, None, |line, halt| {
            let mut count = Count::default();
            let done = line.drain(halt, &mut count);
            line.hand_back(&mut count);
            done.map(|_| count)
        })?
    }

    /// Lets the device serve the data queue's ring with this kick descriptor for the given time,
    /// and returns the device's counts.
    #[cfg(test)]
    pub(crate) fn serve_for(&mut self, kick: &Kick, time: Duration) -> Count {
        let tally = self.tally.clone();
        let before = tally.read().sleeps;
        let run = |line: &mut Line<'_>, halt: &Halt| {
            halt.set(Order::Run);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(time);
                    halt.set(Order::Stop);
                });
                line.run(halt)
            })
        };
        self.with_line(Which::Data, Some(kick), run)
            .and_then(|done| done)
            .expect("a ring that is in order");
        let mut count = tally.read();
        count.sleeps -= before;
        count
    }

    /// Lets the device serve the ring while `meanwhile` runs in another thread. Stops the device
    /// after `limit` at the latest.
    #[cfg(test)]
    pub(crate) fn serve_while(
        &mut self,
        which: Which,
        limit: Duration,
        meanwhile: impl FnOnce(&GuestMemoryMmap) + Send,
    ) -> Result<(), Broken> {
        let memory = self.memory.clone();
        self.with_line(which, None, |line, halt| {
            halt.set(Order::Run);
            let (ended, wait) = std::sync::mpsc::channel::<()>();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    meanwhile(&memory);
                    // Wait for at most `limit`. If the device stops earlier, `ended` is dropped,
                    // which ends the wait.
                    let _ = wait.recv_timeout(limit);
                    halt.set(Order::Stop);
                });
                let done = line.run(halt);
                drop(ended);
                done
            })
        })?
    }

    /// Starts the ring and stops it immediately. Returns how many requests have been answered so
    /// far.
    #[cfg(test)]
    pub(crate) fn restart(&mut self, which: Which) -> usize {
        self.with_line(which, None, |line, halt| {
            halt.set(Order::Stop);
            line.run(halt)
        })
        .and_then(|done| done)
        .expect("a ring that is in order");
        self.used(which).len()
    }

    fn with_line<R>(
        &mut self,
        which: Which,
        kick: Option<&Kick>,
        run: impl FnOnce(&mut Line<'_>, &Halt) -> R,
    ) -> Result<R, Broken> {
        let (place, duty) = &mut self.rings[which as usize];
        let memory = self.memory.clone();
        let areas = Areas::find(&memory, place)?;
        let mut ring = Ring::new(&areas, place)?;
        let mut log = self
            .inflight
            .as_ref()
            .and_then(|inflight| inflight.log(which as usize, RING));
        if let Some(log) = &mut log {
            ring.resume(log);
        }
        let mut line = Line {
            memory: &memory,
            ring,
            kick,
            call: None,
            duty: duty.as_mut(),
            scratch: &mut self.scratch,
            chain: &mut self.chain,
            log: log.as_mut(),
            pace: &self.account.pace,
            paid: place.paid,
            tally: &self.tally,
            max_request: self.max_chain,
            poll: Duration::ZERO,
        };
        let done = run(&mut line, &self.halt);
        place.next_avail = line.ring.next_avail();
        place.paid = line.paid;
        Ok(done)
    }

    /// Returns the heads and lengths that the device has returned since the rig was created or
    /// reset.
    pub fn used(&mut self, which: Which) -> Vec<(u32, u32)> {
        let used = self.place(which).used;
        let word = |at, n| self.get(at, n);
        let idx = u16::from_le_bytes(word(used + 2, 2).try_into().expect("two bytes"));
        let long = |at| u32::from_le_bytes(word(at, 4).try_into().expect("four bytes"));
        (0..idx)
            .map(|i| used + 4 + 8 * u64::from(i % RING))
            .map(|at| (long(at), long(at + 4)))
            .collect()
    }

    /// Returns whether the device's copy of a request contains these bytes.
    #[cfg(test)]
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        self.scratch.holds(bytes)
    }

    /// Returns the number of bytes that the device has allocated for copies of requests and
    /// answers.
    pub fn allocated(&self) -> usize {
        self.scratch.allocated()
    }
}
