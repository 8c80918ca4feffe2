//! The control queue of a connected device: its ring, and a block of shared memory per request in
//! flight.

use std::sync::Arc;

use kiln_virtio::wire::{control, Control, Features, Status};
use vmm_sys_util::eventfd::EventFd;

use crate::connection::Queue;
use crate::error::{Error, Lie};
use crate::kick::Kick;
use crate::memory::{Memory, Span};
use crate::ring::{Part, Ring, DESCRIPTOR};
use crate::session::Entry;

/// Offset of a request's indirect table within the request's block. The other parts follow the
/// table.
const TABLE: usize = 0;
/// Offset of the answer. The answer has a cache line of its own, because the device writes it while
/// the request may still be in the driver's cache.
const ANSWER: usize = 64;
const REQUEST: usize = 128;
/// Size of a control request in bytes, without keys.
const FIXED: usize = control::HEADER + control::LEGACY;

/// A control request to send to the device.
#[derive(Clone)]
pub(crate) enum Ask {
    /// A request to create the entry's session.
    Create(Arc<Entry>),
    /// A request to close the entry's session.
    Destroy(Arc<Entry>),
}

/// A request in flight, with the waiter for its result.
pub(crate) struct Flight<W> {
    pub(crate) ask: Ask,
    pub(crate) waiter: W,
    slot: Span,
    request_len: usize,
    answer_len: usize,
}

pub(crate) struct Landed<W> {
    pub(crate) ask: Ask,
    pub(crate) waiter: W,
    /// The device's ID for the created session, or the error. If a close request succeeded, the ID
    /// has no meaning.
    pub(crate) result: Result<u64, Error>,
}

/// A connected device's control queue.
pub(crate) struct Port<W> {
    pub(crate) ring: Ring,
    pub(crate) kick: Arc<Kick>,
    pub(crate) call: Arc<EventFd>,
    pub(crate) wake: Arc<EventFd>,
    memory: Arc<Memory>,
    free: Vec<Span>,
    flights: Vec<Option<Flight<W>>>,
    indirect: bool,
    scratch: Vec<u8>,
}

/// Returns the number of bytes of shared memory that a port for this many requests needs.
pub(crate) fn bytes(requests: u16, max_key: usize) -> usize {
    usize::from(requests) * (REQUEST + FIXED + max_key).next_multiple_of(64)
}

impl<W> Port<W> {
    /// Creates a port for keys of up to `max_key` bytes.
    pub(crate) fn new(queue: Queue, indirect: bool, max_key: usize) -> Result<Port<W>, Error> {
        let memory = queue.ring.memory().clone();
        let size = usize::from(queue.ring.layout().size);
        let mut free = Vec::new();
        for _ in 0..size {
            free.push(memory.take(REQUEST + FIXED + max_key, 64)?);
        }
        Ok(Port {
            ring: queue.ring,
            kick: queue.kick,
            call: queue.call,
            wake: queue.wake,
            memory,
            free,
            flights: (0..size).map(|_| None).collect(),
            indirect,
            scratch: Vec::new(),
        })
    }

    /// Returns whether the ring has space for another request.
    pub(crate) fn has_room(&self) -> bool {
        self.ring.room() >= 2
    }

    /// Adds a request to the ring without publishing it, and returns its head.
    pub(crate) fn add(&mut self, ask: Ask, waiter: W) -> Result<u16, (W, Error)> {
        let (request_len, answer_len) = match &ask {
            Ask::Create(entry) => (entry.request.bytes.len(), control::CREATED),
            Ask::Destroy(_) => (FIXED, control::DESTROYED),
        };
        let Some(&slot) = self.free.last() else {
            return Err((waiter, Error::Full));
        };
        if request_len > slot.len - REQUEST {
            return Err((waiter, Error::Request("the keys are too long")));
        }
        let request = slot.part(REQUEST, request_len);
        let answer = slot.part(ANSWER, answer_len);
        match &ask {
            Ask::Create(entry) => self.memory.write(request, &entry.request.bytes),
            Ask::Destroy(entry) => {
                let destroy = Control::Destroy {
                    service: entry.request.service,
                    session: entry.id().unwrap_or(u64::MAX),
                };
                self.scratch.clear();
                destroy.emit(Features::default(), &mut self.scratch);
                self.memory.write(request, &self.scratch);
            }
        }
        // Preset an error, so that a request counts as rejected if the device does not write an
        // answer.
        let refused = control::Created {
            session: u64::MAX,
            status: Status::Err as u32,
        };
        match answer_len {
            control::CREATED => self.memory.write(answer, &refused.emit()),
            _ => self.memory.write(answer, &[Status::Err as u8]),
        }
        let table = self.indirect.then(|| slot.part(TABLE, 2 * DESCRIPTOR));
        let parts = [Part::readable(request), Part::writable(answer)];
        match self.ring.add(&parts, table) {
            Ok(head) => {
                self.free.pop();
                self.flights[usize::from(head)] = Some(Flight {
                    ask,
                    waiter,
                    slot,
                    request_len,
                    answer_len,
                });
                Ok(head)
            }
            Err(e) => Err((waiter, e)),
        }
    }

    /// Returns the next request that the device has finished.
    pub(crate) fn land(&mut self) -> Result<Option<Landed<W>>, Lie> {
        let Some(used) = self.ring.pop()? else {
            return Ok(None);
        };
        let flight = self.flights[usize::from(used.head)].take();
        let flight = flight.expect("the ring accepts only heads in flight");
        let mut answer = [0; control::CREATED];
        let answer = &mut answer[..flight.answer_len];
        self.memory
            .read(flight.slot.part(ANSWER, flight.answer_len), answer);
        let result = match &flight.ask {
            Ask::Create(_) => {
                self.wipe(&flight);
                let created = control::Created::parse(answer).expect("an answer of fixed length");
                match created.result() {
                    Ok(id) if id != u64::MAX => Ok(id),
                    Ok(_) => Err(Error::Status(Status::Err as u32)),
                    Err(_) => Err(Error::Status(created.status.max(1))),
                }
            }
            Ask::Destroy(_) => match answer[0] {
                0 => Ok(0),
                status => Err(Error::Status(status.into())),
            },
        };
        self.free.push(flight.slot);
        Ok(Some(Landed {
            ask: flight.ask,
            waiter: flight.waiter,
            result,
        }))
    }

    /// Wipes a request's keys from shared memory.
    fn wipe(&self, flight: &Flight<W>) {
        const ZEROS: [u8; 256] = [0; 256];
        let mut at = FIXED;
        while at < flight.request_len {
            let len = (flight.request_len - at).min(ZEROS.len());
            self.memory
                .write(flight.slot.part(REQUEST + at, len), &ZEROS[..len]);
            at += len;
        }
    }

    /// Returns all requests that were in flight when the device disconnected.
    pub(crate) fn into_flights(mut self) -> Vec<(Ask, W)> {
        let mut flights = Vec::new();
        for slot in std::mem::take(&mut self.flights) {
            let Some(flight) = slot else { continue };
            if matches!(flight.ask, Ask::Create(_)) {
                self.wipe(&flight);
            }
            flights.push((flight.ask, flight.waiter));
        }
        flights
    }

    /// Returns whether requests are in flight, in which case polling must continue.
    pub(crate) fn is_busy(&self) -> bool {
        self.ring.in_flight() > 0
    }
}
