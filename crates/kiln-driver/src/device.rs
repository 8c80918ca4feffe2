//! The currently connected device, shared by the driver and its data queues.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kiln_virtio::wire::Config;
use vmm_sys_util::eventfd::EventFd;

use crate::connection::Queue;
use crate::control::Control;
use crate::error::Error;
use crate::memory::Memory;

/// The currently connected device.
pub(crate) struct Device {
    pub(crate) control: Control,
    /// Changes when a device connects or disconnects. A queue with an older generation belongs to a
    /// device that has disconnected.
    generation: AtomicU64,
    parts: Mutex<Parts>,
}

/// The parts of the connected device that data queues use.
#[derive(Default)]
pub(crate) struct Parts {
    /// The device's queues. An element is `None` once a data queue has taken it.
    pub(crate) queues: Vec<Option<Queue>>,
    /// The eventfds that wake sleeping threads, one per queue.
    pub(crate) wakes: Vec<Arc<EventFd>>,
    pub(crate) memory: Option<Arc<Memory>>,
    pub(crate) indirect: bool,
    pub(crate) config: Option<Config>,
    /// For each queue, whether the program has taken its handle. A handle stays valid when the
    /// device is replaced.
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

    /// Makes all existing queues stale. `_parts` proves that the caller holds the lock.
    pub(crate) fn advance(&self, _parts: &mut Parts) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes one of the device's queues. Also returns the device's generation and whether the
    /// device accepts indirect descriptors.
    pub(crate) fn take_queue(&self, index: usize) -> Result<(Queue, u64, bool), Error> {
        let mut parts = self.lock();
        let queue = parts.queues.get_mut(index).and_then(Option::take);
        Ok((queue.ok_or(Error::Lost)?, self.generation(), parts.indirect))
    }
}
