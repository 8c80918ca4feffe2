//! A data queue: submits operations on sessions. Many operations can be in flight, and they can be
//! published together.
//!
//! A data queue has a single owner and uses no locks or threads: the submitter also collects the
//! results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_virtio::wire::data::{HEADER, LEGACY};
use kiln_virtio::wire::{data, Action, Features, Operation, Request, Status};

use crate::bell::Bell;
use crate::buffer::Buffer;
use crate::connection::Queue;
use crate::device::Device;
use crate::error::{Error, Lie};
use crate::memory::{Memory, Span};
use crate::ring::{Part, DESCRIPTOR};
use crate::session::Session;

/// Maximum number of buffers in a request: header, source, associated data, destination and status.
const MOST_PARTS: usize = 5;
const TABLE: usize = 0;
/// Offset of the status. The device writes the status, so it has a cache line of its own.
const STATUS: usize = 128;
const HEAD: usize = 192;
/// Bytes of shared memory per request. The space after the header is for the IV and associated
/// data.
const SLOT: usize = 512;

/// Returns the number of bytes of shared memory that a data queue needs.
pub(crate) fn bytes(requests: u16) -> usize {
    usize::from(requests) * SLOT
}

/// An operation to perform, and the session in which to perform it.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub action: Action,
    /// The operation's parameters, including all lengths.
    pub op: Operation,
    pub session: &'a Session,
    /// The IV; empty if the algorithm does not use one.
    pub iv: &'a [u8],
    /// The associated data. If the operation verifies a signature, this is the signed data.
    pub aad: &'a [u8],
}

/// A job's data buffers. Without a destination, the result overwrites the source.
#[derive(Debug)]
pub struct Data {
    /// The buffer that the device reads.
    pub source: Buffer,
    /// The buffer that the device writes.
    pub destination: Option<Buffer>,
}

/// A finished job.
#[derive(Debug)]
pub struct Done {
    /// The tag passed to [`DataQueue::submit`].
    pub tag: u64,
    /// The job's buffers, which the queue returns to the program.
    pub data: Data,
    /// Number of bytes that the device claims to have written, or the error.
    pub result: Result<usize, Error>,
}

/// The error and the buffers of a job that was not submitted.
#[derive(Debug)]
pub struct Refused {
    pub error: Error,
    pub data: Data,
}

struct Flight {
    tag: u64,
    data: Data,
    slot: Span,
}

/// The connected device's queue, and the requests in flight on it.
struct Lane {
    queue: Queue,
    memory: Arc<Memory>,
    free: Vec<Span>,
    flights: Vec<Option<Flight>>,
    indirect: bool,
    generation: u64,
    bell: Bell,
}

pub struct DataQueue {
    device: Arc<Device>,
    index: usize,
    lane: Option<Lane>,
    scratch: Vec<u8>,
    /// How long [`DataQueue::wait`] polls before it sleeps.
    linger: Duration,
}

impl DataQueue {
    pub(crate) fn new(device: Arc<Device>, index: usize, linger: Duration) -> DataQueue {
        DataQueue {
            device,
            index,
            lane: None,
            scratch: Vec::new(),
            linger,
        }
    }

    /// Returns the number of jobs in flight.
    pub fn in_flight(&self) -> usize {
        self.lane
            .as_ref()
            .map_or(0, |l| l.queue.ring.in_flight().into())
    }

    /// Returns the lane of the connected device. After a reconnection, this is a new lane, because
    /// the device has new queues.
    fn lane(&mut self) -> Result<&mut Lane, Error> {
        let current = self.device.generation();
        let stale = |lane: &Lane| lane.generation != current;
        if self.lane.as_ref().is_none_or(stale) {
            if self.in_flight() > 0 {
                // The caller must first reap the jobs lost with the old device.
                return Err(Error::Lost);
            }
            self.lane = None;
            if let Some(error) = self.device.control.0.failed() {
                return Err(error);
            }
            let (queue, generation, indirect) = self.device.take_queue(self.index)?;
            self.lane = Some(Lane::new(queue, generation, indirect)?);
        }
        Ok(self.lane.as_mut().expect("made above"))
    }

    /// Adds a job to the ring. The device sees the job after [`DataQueue::flush`]. The queue owns
    /// the buffers until [`DataQueue::reap`] returns the job.
    ///
    /// # Errors
    /// [`Error::Full`] if jobs must be reaped first. [`Error::Request`] if the buffers, the IV or
    /// the associated data do not fit the operation. [`Error::Lost`] if no device is connected.
    pub fn submit(&mut self, job: &Job<'_>, data: Data, tag: u64) -> Result<(), Box<Refused>> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let submitted = match self.lane() {
            Ok(lane) => lane.submit(job, data, tag, &mut scratch),
            Err(error) => Err(Box::new(Refused { error, data })),
        };
        self.scratch = scratch;
        submitted
    }

    /// Publishes submitted jobs, and notifies the device if it wants to be notified.
    pub fn flush(&mut self) {
        if let Some(lane) = &mut self.lane {
            if lane.queue.ring.publish() {
                lane.queue.kick.ring();
            }
        }
    }

    /// Collects finished jobs and returns their number. If the device has disconnected, all jobs
    /// still in flight are returned as lost.
    pub fn reap(&mut self, done: &mut Vec<Done>) -> usize {
        let before = done.len();
        let current = self.device.generation();
        let Some(lane) = &mut self.lane else {
            return 0;
        };
        let lied = loop {
            match lane.land() {
                Ok(Some(one)) => done.push(one),
                Ok(None) => break None,
                Err(lie) => break Some(lie),
            }
        };
        if let Some(lie) = lied {
            self.device.control.0.give_up(lie.into());
            lane.lose(&lie.into(), done);
        } else if lane.generation != current {
            lane.lose(&Error::Lost, done);
        }
        done.len() - before
    }

    /// Sleeps until `count` jobs can be reaped, the device has disconnected, or `timeout` has
    /// passed. Returns whether at least one job can be reaped.
    ///
    /// # Errors
    /// [`Error::Resource`] if the host cannot wait.
    pub fn wait(&mut self, count: u16, timeout: Duration) -> Result<bool, Error> {
        self.flush();
        let linger = self.linger;
        let start = Instant::now();
        loop {
            let current = self.device.generation();
            let Some(lane) = &mut self.lane else {
                return Ok(false);
            };
            if lane.generation != current {
                return Ok(true);
            }
            let elapsed = start.elapsed();
            if elapsed < linger {
                if lane.queue.ring.has_used_of(count) {
                    return Ok(true);
                }
                std::hint::spin_loop();
                continue;
            }
            if !lane.queue.ring.enable_interrupt(count) {
                lane.queue.ring.disable_interrupt();
                return Ok(true);
            }
            let Some(left) = timeout.checked_sub(elapsed).filter(|l| !l.is_zero()) else {
                return Ok(lane.queue.ring.has_used());
            };
            lane.bell
                .wait(Some(left))
                .map_err(Error::resource("to wait for the device"))?;
            lane.queue.ring.disable_interrupt();
            if lane.queue.ring.has_used_of(count) {
                return Ok(true);
            }
        }
    }
}

impl Lane {
    fn new(queue: Queue, generation: u64, indirect: bool) -> Result<Lane, Error> {
        let memory = queue.ring.memory().clone();
        let size = usize::from(queue.ring.layout().size);
        let mut free = Vec::new();
        for _ in 0..size {
            free.push(memory.take(SLOT, 64)?);
        }
        Ok(Lane {
            bell: Bell::new(&queue.call, &queue.wake)
                .map_err(Error::resource("an epoll instance"))?,
            queue,
            memory,
            free,
            flights: (0..size).map(|_| None).collect(),
            indirect,
            generation,
        })
    }

    fn submit(
        &mut self,
        job: &Job<'_>,
        mut data: Data,
        tag: u64,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Box<Refused>> {
        match self.add(job, &mut data, scratch) {
            Ok((head, slot)) => {
                self.flights[usize::from(head)] = Some(Flight { tag, data, slot });
                Ok(())
            }
            Err(error) => Err(Box::new(Refused { error, data })),
        }
    }

    fn add(
        &mut self,
        job: &Job<'_>,
        data: &mut Data,
        scratch: &mut Vec<u8>,
    ) -> Result<(u16, Span), Error> {
        let (source_len, room) = lengths(job)?;
        let destination = data.destination.as_ref().unwrap_or(&data.source);
        if source_len > data.source.len() || room > destination.len() {
            return Err(Error::Request(
                "the buffers are shorter than the operation's lengths",
            ));
        }
        if HEADER + LEGACY + job.iv.len() + job.aad.len() > SLOT - HEAD {
            return Err(Error::Request("IV and associated data are too long"));
        }
        let session = job.session.id()?;
        data.source.move_to(&self.memory)?;
        if let Some(destination) = &mut data.destination {
            destination.move_to(&self.memory)?;
        }
        let &slot = self.free.last().ok_or(Error::Full)?;
        scratch.clear();
        let request = Request {
            action: job.action,
            mode: data::Mode::Session(session),
            op: job.op,
            iv: job.iv,
            src: &[],
            aad: &[],
        };
        request.emit(Features::default(), scratch);
        let head_len = scratch.len();
        scratch.extend_from_slice(job.aad);
        self.memory.write(slot.part(HEAD, scratch.len()), scratch);
        // Preset an error status, so that a request counts as rejected if the device does not write
        // a status.
        let status = slot.part(STATUS, 1);
        self.memory.write(status, &[Status::Err as u8]);
        let destination = data.destination.as_ref().unwrap_or(&data.source);
        let all = [
            Part::readable(slot.part(HEAD, head_len)),
            Part::readable(data.source.span().part(0, source_len)),
            Part::readable(slot.part(HEAD + head_len, job.aad.len())),
            Part::writable(destination.span().part(0, room)),
            Part::writable(status),
        ];
        let mut parts = [all[0]; MOST_PARTS];
        let mut n = 0;
        for part in all.into_iter().filter(|p| p.span.len > 0) {
            parts[n] = part;
            n += 1;
        }
        let table = self.indirect.then(|| slot.part(TABLE, n * DESCRIPTOR));
        let head = self.queue.ring.add(&parts[..n], table)?;
        self.free.pop();
        Ok((head, slot))
    }

    fn land(&mut self) -> Result<Option<Done>, Lie> {
        let Some(used) = self.queue.ring.pop()? else {
            return Ok(None);
        };
        let flight = self.flights[usize::from(used.head)].take();
        let Flight { tag, data, slot } = flight.expect("the ring accepts only heads in flight");
        let mut status = [0];
        self.memory.read(slot.part(STATUS, 1), &mut status);
        self.free.push(slot);
        let result = match status {
            [0] => Ok((used.len as usize).saturating_sub(1)),
            [status] => Err(Error::Status(status.into())),
        };
        Ok(Some(Done { tag, data, result }))
    }

    /// Reports this error for all jobs in flight, because the device will not return them.
    fn lose(&mut self, error: &Error, done: &mut Vec<Done>) {
        self.queue.ring.forget();
        for flight in self.flights.iter_mut().filter_map(Option::take) {
            done.push(Done {
                tag: flight.tag,
                data: flight.data,
                result: Err(error.clone()),
            });
        }
    }
}

/// Returns the length of the source and the space needed for the result, in bytes.
fn lengths(job: &Job<'_>) -> Result<(usize, usize), Error> {
    let (source, iv, aad) = match job.op {
        Operation::Cipher(c) => (c.src_len, c.iv_len, 0),
        Operation::Chain(c) => (c.src_len, c.iv_len, c.aad_len),
        Operation::Hash(d) | Operation::Mac(d) => (d.src_len, 0, 0),
        Operation::Aead(a) => (a.src_len, a.iv_len, a.aad_len),
        Operation::Akcipher(a) if job.action == Action::Verify => (a.src_len, 0, a.dst_len),
        Operation::Akcipher(a) => (a.src_len, 0, 0),
    };
    if iv as usize != job.iv.len() || aad as usize != job.aad.len() {
        return Err(Error::Request(
            "the length of the IV or of the associated data differs from the operation's",
        ));
    }
    if job.action.opcode(job.op.service()).is_none() {
        return Err(Error::Request(
            "the session's service does not support this action",
        ));
    }
    let room = usize::try_from(job.op.room(job.action));
    Ok((
        source as usize,
        room.map_err(|_| Error::Request("the result is too long"))?,
    ))
}
