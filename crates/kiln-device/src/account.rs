//! The sessions and metrics of one guest, shared by its queues and its vhost-user messages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use kiln_virtio::Guest;

use crate::pace::Pace;
use crate::tally::{Count, Counters, Gauge};
use crate::vhost_user::Health;

pub(crate) struct Account {
    pub guest: Arc<Guest>,
    pub counters: Arc<Counters>,
    pub pace: Pace,
    /// The device's health, reported to a front end that negotiated the protocol feature STATUS.
    pub health: Arc<Health>,
    /// Whether the front end creates sessions with vhost-user messages. QEMU's cryptodev does this
    /// because it handles the control queue itself.
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

    /// Serves a request from the control queue and returns the answer's length in bytes.
    pub(crate) fn control(&self, request: &[u8], answer: &mut [u8]) -> usize {
        let used = self.guest.control(request, answer);
        self.show();
        used
    }

    /// Serves a control request that arrived as a vhost-user message, and counts it as a message in
    /// the control queue's metrics.
    pub(crate) fn message(&self, request: &[u8], answer: &mut [u8]) -> usize {
        self.by_message.store(true, Ordering::Relaxed);
        let start = Instant::now();
        let used = self.control(request, answer);
        self.count(Count {
            messages: 1,
            nanos: start.elapsed().as_nanos() as u64,
            ..Count::default()
        });
        used
    }

    /// Charges a front-end message against the guest's rate limits.
    pub(crate) fn charge(&self, bytes: usize) {
        if self.pace.is_limited() && self.pace.take(1, bytes as u64).is_some() {
            self.count(Count {
                held: 1,
                ..Count::default()
            });
        }
    }

    /// Adds `count` to the metrics of the control queue.
    fn count(&self, mut count: Count) {
        if let Some(control) = self.counters.tallies().last() {
            control.add(&mut count);
        }
    }

    /// Returns whether the front end has sent session messages. Such a front end handles the
    /// control queue itself, so that queue cannot show whether the driver was reset.
    pub(crate) fn is_by_message(&self) -> bool {
        self.by_message.load(Ordering::Relaxed)
    }

    /// Removes all sessions and wipes their keys.
    pub(crate) fn reset(&self) {
        self.guest.reset();
        self.show();
    }

    fn show(&self) {
        self.counters
            .set(Gauge::Sessions, self.guest.sessions() as u64);
    }
}
