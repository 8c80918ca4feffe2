//! The driver's record of its sessions, used to recreate each session on a reconnected device.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use kiln_virtio::wire::{Control, Create, Features, Service};
use zeroize::Zeroizing;

use crate::error::Error;

/// The ID of a session that does not exist on any device.
const NONE: u64 = u64::MAX;
/// Index of an entry that is not in [`Live`].
const NOWHERE: usize = usize::MAX;

/// A request to create a session: its kind, and its keys in wire format.
#[derive(Clone)]
pub struct Request {
    pub(crate) service: Service,
    pub(crate) bytes: Zeroizing<Vec<u8>>,
}

impl Request {
    /// Creates a request with `key`, whose length replaces the key length in `create`.
    pub fn new(create: Create, key: &[u8]) -> Request {
        Request::chained(create, key, &[])
    }

    /// Returns the service that will provide the session.
    pub fn service(&self) -> Service {
        self.service
    }

    /// Like [`Request::new`], but with a second key, for a session that chains a cipher and a MAC.
    pub fn chained(create: Create, key: &[u8], auth_key: &[u8]) -> Request {
        // Allocate the full size now, because a growing buffer would leave copies of keys in freed
        // memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(72 + key.len() + auth_key.len()));
        let control = Control::Create {
            create,
            key,
            auth_key,
        };
        control.emit(Features::default(), &mut bytes);
        Request {
            service: create.service(),
            bytes,
        }
    }
}

/// The driver's record of a session.
pub(crate) struct Entry {
    pub(crate) request: Request,
    id: AtomicU64,
    /// Generation of the device that has the session.
    generation: AtomicU64,
    /// Index of this entry in [`Live`].
    place: AtomicUsize,
}

impl Entry {
    pub(crate) fn new(request: Request) -> Arc<Entry> {
        Arc::new(Entry {
            request,
            id: AtomicU64::new(NONE),
            generation: AtomicU64::new(0),
            place: AtomicUsize::new(NOWHERE),
        })
    }

    /// Returns the device's ID for the session, or `None` if the session does not exist on any
    /// device.
    pub(crate) fn id(&self) -> Option<u64> {
        Some(self.id.load(Ordering::Acquire)).filter(|&id| id != NONE)
    }

    pub(crate) fn set_id(&self, id: Option<u64>, generation: u64) {
        let generation = if id.is_some() { generation } else { 0 };
        self.generation.store(generation, Ordering::Relaxed);
        self.id.store(id.unwrap_or(NONE), Ordering::Release);
    }

    /// Returns whether the session exists on the device of generation `generation`. Another device
    /// may use the same ID for a different session.
    pub(crate) fn is_on(&self, generation: u64) -> bool {
        self.generation.load(Ordering::Relaxed) == generation
    }
}

/// The part of the control queue that a session needs to close itself.
pub(crate) trait Closer: Send + Sync {
    /// Closes the session without waiting for the result, unless the queue is polled.
    fn abandon(self: Arc<Self>, entry: Arc<Entry>);
}

/// An open session. Dropping this handle closes the session on the device;
/// [`crate::Control::close`] also reports whether closing succeeded.
pub struct Session {
    entry: Arc<Entry>,
    closer: Weak<dyn Closer>,
    open: bool,
}

impl Session {
    pub(crate) fn new(entry: Arc<Entry>, closer: Weak<dyn Closer>) -> Session {
        Session {
            entry,
            closer,
            open: true,
        }
    }

    /// Returns the device's ID for the session, which changes when the device is reconnected.
    ///
    /// # Errors
    /// [`Error::Lost`] if the reconnected device refused to create the session.
    pub fn id(&self) -> Result<u64, Error> {
        self.entry.id().ok_or(Error::Lost)
    }

    /// Returns the service that provides the session.
    pub fn service(&self) -> Service {
        self.entry.request.service
    }

    /// Returns the entry and disarms the drop handler, so that the session stays open.
    pub(crate) fn into_entry(mut self) -> Arc<Entry> {
        self.open = false;
        self.entry.clone()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        if let Some(closer) = self.closer.upgrade() {
            closer.abandon(self.entry.clone());
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("service", &self.service())
            .field("id", &self.entry.id())
            .finish_non_exhaustive()
    }
}

/// The open sessions, which must be recreated on a reconnected device.
#[derive(Default)]
pub(crate) struct Live {
    entries: Vec<Option<Arc<Entry>>>,
    free: Vec<usize>,
}

impl Live {
    pub(crate) fn insert(&mut self, entry: Arc<Entry>) {
        let place = self.free.pop().unwrap_or(self.entries.len());
        entry.place.store(place, Ordering::Relaxed);
        match self.entries.get_mut(place) {
            Some(slot) => *slot = Some(entry),
            None => self.entries.push(Some(entry)),
        }
    }

    pub(crate) fn remove(&mut self, entry: &Entry) {
        let place = entry.place.swap(NOWHERE, Ordering::Relaxed);
        if let Some(slot) = self.entries.get_mut(place) {
            *slot = None;
            self.free.push(place);
        }
    }

    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.entries.iter().flatten().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
