//! The connected device, shared by the driver and its data queues.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kiln_virtio::wire::Config;
use vmm_sys_util::eventfd::EventFd;

use crate::connection::Queue;
use crate::control::Control;
use crate::error::Error;
use crate::memory::Memory;

/// The connected device, and its generation.
pub(crate) struct Device {
    pub(crate) control: Control,
    /// Number of devices so far. A queue of another generation belongs to a device that has disconnected.
    generation: AtomicU64,
    parts: Mutex<Parts>,
}

/// Parts of the connected device used by data queues.
#[derive(Default)]
pub(crate) struct Parts {
    /// `None` once a data queue has taken it.
    pub(crate) queues: Vec<Option<Queue>>,
    /// For each queue, the event that wakes its sleeping thread.
    pub(crate) wakes: Vec<Arc<EventFd>>,
    pub(crate) memory: Option<Arc<Memory>>,
    pub(crate) indirect: bool,
    pub(crate) config: Option<Config>,
    /// Whether the program has taken a queue's handle, which stays valid across devices.
    pub(crate) taken: Vec<bool>,
}

impl Device {
    pub(crate) fn new(control: Control) -> Device {
        Device {
            control,
            generation: AtomicU64::new(0),
            parts: Mutex::default(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes the queues of all devices so far stale. `_parts` proves that the lock is held.
    pub(crate) fn advance(&self, _parts: &mut Parts) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes a queue of the device; also returns its generation and whether it accepts indirect descriptors.
    pub(crate) fn take_queue(&self, index: usize) -> Result<(Queue, u64, bool), Error> {
        let mut parts = self.lock();
        let queue = parts.queues.get_mut(index).and_then(Option::take);
        Ok((queue.ok_or(Error::Lost)?, self.generation(), parts.indirect))
    }
}
