//! One guest's sessions as its queues and its messages use them, with what the metrics show of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kiln_virtio::Guest;

use crate::adapter::Health;
use crate::pace::Pace;
use crate::tally::{Count, Counters, Gauge};

/// The longest wait for a single message of a guest that is ahead of its rate, so that its connection can still end.
const LONGEST_HOLD: Duration = Duration::from_millis(200);

pub(crate) struct Account {
    pub guest: Arc<Guest>,
    pub counters: Arc<Counters>,
    pub pace: Pace,
    /// What a front end with the protocol feature STATUS is told.
    pub health: Arc<Health>,
    /// Sessions are made by messages of the front end: QEMU's cryptodev has the control queue.
    by_message: AtomicBool,
}

impl Account {
    pub(crate) fn new(guest: Guest, counters: Arc<Counters>, pace: Pace) -> Account {
        Account {
            guest: Arc::new(guest),
            counters,
            pace,
            health: Arc::default(),
            by_message: AtomicBool::new(false),
        }
    }

    /// Serves a control request.
    pub(crate) fn control(&self, request: &[u8], answer: &mut [u8]) -> usize {
        let used = self.guest.control(request, answer);
        self.show();
        used
    }

    /// Serves a control request that came as a message. It counts as one of the control queue, and a guest that is
    /// ahead of its rate waits here.
    pub(crate) fn message(&self, request: &[u8], answer: &mut [u8]) -> usize {
        self.by_message.store(true, Ordering::Relaxed);
        let start = Instant::now();
        let used = self.control(request, answer);
        let mut count = Count {
            messages: 1,
            nanos: start.elapsed().as_nanos() as u64,
            ..Count::default()
        };
        if let Some(hold) = self.pace.take(request.len() as u64) {
            count.held = 1;
            thread::sleep(hold.min(LONGEST_HOLD));
        }
        if let Some(control) = self.counters.tallies().last() {
            control.add(&mut count);
        }
        used
    }

    /// Whether sessions come as messages, so that no control queue shows when the driver was reset.
    pub(crate) fn is_by_message(&self) -> bool {
        self.by_message.load(Ordering::Relaxed)
    }

    /// All sessions are gone and their keys wiped.
    pub(crate) fn reset(&self) {
        self.guest.reset();
        self.show();
    }

    fn show(&self) {
        self.counters
            .set(Gauge::Sessions, self.guest.sessions() as u64);
    }
}
