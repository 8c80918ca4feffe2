//! The driver's side of a split virtqueue (virtio 1.2, section 2.7).
//!
//! Descriptors and rings are in shared memory, which the device can overwrite. The driver therefore
//! keeps a private record of which descriptors are free, where each chain begins, and how many of
//! its bytes are writable. It accepts a used entry only if the entry matches this record.

use std::collections::VecDeque;
use std::sync::atomic::{fence, Ordering};
use std::sync::Arc;

use virtio_bindings::bindings::virtio_ring::{
    VRING_AVAIL_F_NO_INTERRUPT, VRING_DESC_F_INDIRECT, VRING_DESC_F_NEXT, VRING_DESC_F_WRITE,
    VRING_USED_F_NO_NOTIFY,
};

use crate::error::{Error, Lie};
use crate::memory::{Memory, Span};

/// Size of a descriptor in bytes.
pub(crate) const DESCRIPTOR: usize = 16;
/// Offset of the first entry in the available ring, after flags and index. `used_event` follows the
/// entries.
const AVAIL_HEAD: usize = 4;
/// Offset of the first entry in the used ring, after flags and index. `avail_event` follows the
/// entries, which have 8 bytes each.
const USED_HEAD: usize = 4;
/// Returns the number of bytes of shared memory that a ring with this many entries needs.
pub(crate) fn bytes(size: u16) -> usize {
    let n = usize::from(size);
    let round = |len: usize| len.next_multiple_of(64);
    round(n * DESCRIPTOR) + round(AVAIL_HEAD + 2 * n + 2) + round(USED_HEAD + 8 * n + 2)
}

/// Marks the end of a chain or of the free list.
const NONE: u16 = u16::MAX;

/// One buffer of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub span: Span,
    /// Whether the device writes the buffer. If false, the device reads it.
    pub writable: bool,
}

impl Part {
    /// Creates a part for a buffer that the device reads.
    pub(crate) fn readable(span: Span) -> Part {
        Part {
            span,
            writable: false,
        }
    }

    /// Creates a part for a buffer that the device writes.
    pub(crate) fn writable(span: Span) -> Part {
        Part {
            span,
            writable: true,
        }
    }
}

/// A request that the device has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    /// The head that [`Ring::add`] returned.
    pub head: u16,
    /// Number of bytes that the device claims to have written, never more than it was allowed to
    /// write.
    pub len: u32,
}

/// Location of a ring in shared memory, in the form that vhost-user needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Number of entries.
    pub size: u16,
    /// Location of the descriptor table.
    pub descriptors: Span,
    /// Location of the available ring.
    pub avail: Span,
    /// Location of the used ring.
    pub used: Span,
}

/// The driver's record of a chain that the device holds.
#[derive(Clone, Copy)]
struct Chain {
    /// Number of descriptors; 0 if the device holds no chain that starts at this index.
    descriptors: u16,
    /// Number of bytes the device may write.
    writable: u32,
}

/// The driver's side of a split virtqueue.
pub(crate) struct Ring {
    memory: Arc<Memory>,
    layout: Layout,
    event_idx: bool,
    /// For each descriptor, the next descriptor in its chain or in the free list.
    next: Vec<u16>,
    chains: Vec<Chain>,
    free: u16,
    /// The last descriptor of the free list.
    tail: u16,
    free_count: u16,
    held: u16,
    /// Index of the available ring's next entry. Earlier entries may be unpublished.
    avail: u16,
    /// Value of `avail` when the driver last checked whether the device wants to be notified.
    considered: u16,
    /// Index of the used ring's next entry.
    used: u16,
    broken: Option<Lie>,
    /// The heads in flight, in the order in which they were made available; `None` without
    /// VIRTIO_F_IN_ORDER.
    order: Option<VecDeque<u16>>,
    /// A partly processed used entry that covers several requests: the head of the last request,
    /// and the entry's length.
    batch: Option<(u16, u32)>,
}

impl Ring {
    /// Creates a ring of `size` entries in `memory`.
    ///
    /// # Errors
    /// [`Error::Full`] if the memory is exhausted; [`Error::Request`] unless the size is a power of
    /// two up to 32768.
    pub(crate) fn new(memory: &Arc<Memory>, size: u16, event_idx: bool) -> Result<Ring, Error> {
        if !size.is_power_of_two() {
            return Err(Error::Request("a ring's size must be a power of two"));
        }
        let n = usize::from(size);
        let layout = Layout {
            size,
            descriptors: memory.take(n * DESCRIPTOR, 64)?,
            avail: memory.take(AVAIL_HEAD + 2 * n + 2, 64)?,
            used: memory.take(USED_HEAD + 8 * n + 2, 64)?,
        };
        for span in [layout.descriptors, layout.avail, layout.used] {
            memory.write(span, &vec![0; span.len]);
        }
        Ok(Ring {
            memory: memory.clone(),
            layout,
            event_idx,
            next: (1..size).chain([NONE]).collect(),
            chains: vec![
                Chain {
                    descriptors: 0,
                    writable: 0
                };
                n
            ],
            free: 0,
            tail: size - 1,
            free_count: size,
            held: 0,
            avail: 0,
            considered: 0,
            used: 0,
            broken: None,
            order: None,
            batch: None,
        })
    }

    /// Makes the ring use VIRTIO_F_IN_ORDER: descriptors are then used and returned in table order
    /// (2.7.9).
    pub(crate) fn in_order(self) -> Ring {
        Ring {
            order: Some(VecDeque::new()),
            ..self
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the memory that contains the ring.
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Returns the number of requests that have been added but not returned.
    pub(crate) fn in_flight(&self) -> u16 {
        self.held
    }

    /// Returns the number of free descriptors.
    pub(crate) fn room(&self) -> u16 {
        self.free_count
    }

    /// Adds a request, which the device sees after [`Ring::publish`]. Readable parts must come
    /// first. With a `table` (16 bytes per part), the request uses one descriptor of the ring;
    /// otherwise it uses one per part.
    ///
    /// # Errors
    /// [`Error::Full`] if too few descriptors are free; [`Error::Lied`] if the device has violated
    /// the protocol.
    pub(crate) fn add(&mut self, parts: &[Part], table: Option<Span>) -> Result<u16, Error> {
        if let Some(lie) = self.broken {
            return Err(lie.into());
        }
        if parts.is_empty() {
            return Err(Error::Request("a request needs parts"));
        }
        let table = table.filter(|_| parts.len() > 1);
        let wanted = if table.is_some() { 1 } else { parts.len() };
        if wanted > usize::from(self.free_count) {
            return Err(Error::Full);
        }
        let head = self.free;
        match table {
            Some(table) => {
                for (i, part) in parts.iter().enumerate() {
                    let last = i + 1 == parts.len();
                    self.describe(table, i, part, (!last).then_some(i as u16 + 1), 0);
                }
                let part = Part::readable(table.part(0, parts.len() * DESCRIPTOR));
                let at = self.layout.descriptors;
                self.describe(at, head.into(), &part, None, VRING_DESC_F_INDIRECT);
                self.free = self.next[usize::from(head)];
            }
            None => {
                for (i, part) in parts.iter().enumerate() {
                    let this = self.free;
                    self.free = self.next[usize::from(this)];
                    let last = i + 1 == parts.len();
                    let next = (!last).then_some(self.free);
                    self.describe(self.layout.descriptors, this.into(), part, next, 0);
                }
            }
        }
        let writable: usize = parts
            .iter()
            .filter(|p| p.writable)
            .map(|p| p.span.len)
            .sum();
        self.chains[usize::from(head)] = Chain {
            descriptors: wanted as u16,
            writable: u32::try_from(writable).unwrap_or(u32::MAX),
        };
        self.free_count -= wanted as u16;
        self.held += 1;
        if let Some(order) = &mut self.order {
            order.push_back(head);
        }
        let slot = usize::from(self.avail & (self.layout.size - 1));
        let entry = self.layout.avail.offset + AVAIL_HEAD + 2 * slot;
        self.memory.store(entry, head.to_le(), Ordering::Relaxed);
        self.avail = self.avail.wrapping_add(1);
        Ok(head)
    }

    fn describe(&self, table: Span, at: usize, part: &Part, next: Option<u16>, flags: u32) {
        let mut bytes = [0; DESCRIPTOR];
        let mut flags = flags;
        if part.writable {
            flags |= VRING_DESC_F_WRITE;
        }
        if next.is_some() {
            flags |= VRING_DESC_F_NEXT;
        }
        bytes[..8].copy_from_slice(&part.span.guest().to_le_bytes());
        bytes[8..12].copy_from_slice(&(part.span.len as u32).to_le_bytes());
        bytes[12..14].copy_from_slice(&(flags as u16).to_le_bytes());
        bytes[14..].copy_from_slice(&next.unwrap_or(0).to_le_bytes());
        self.memory
            .write(table.part(at * DESCRIPTOR, DESCRIPTOR), &bytes);
    }

    /// Publishes the added requests. Returns whether the device wants to be notified.
    pub(crate) fn publish(&mut self) -> bool {
        if self.considered == self.avail {
            return false;
        }
        let index = self.layout.avail.offset + 2;
        self.memory
            .store(index, self.avail.to_le(), Ordering::Release);
        // Write the index before reading whether the device wants to be notified. The device writes
        // its preference before it reads the index, so at least one side sees the other's write.
        fence(Ordering::SeqCst);
        let (old, new) = (self.considered, self.avail);
        self.considered = new;
        if self.event_idx {
            let end = USED_HEAD + 8 * usize::from(self.layout.size);
            let at: u16 = self.load(self.layout.used.offset + end);
            new.wrapping_sub(at).wrapping_sub(1) < new.wrapping_sub(old)
        } else {
            u32::from(self.load(self.layout.used.offset)) & VRING_USED_F_NO_NOTIFY == 0
        }
    }

    fn load(&self, offset: usize) -> u16 {
        u16::from_le(self.memory.load(offset, Ordering::Relaxed))
    }

    /// Returns whether the used ring has new entries.
    pub(crate) fn has_used(&self) -> bool {
        let index = self.layout.used.offset + 2;
        u16::from_le(self.memory.load(index, Ordering::Acquire)) != self.used
    }

    /// Returns whether the used ring has at least `count` new entries, or, if fewer than `count`
    /// requests are in flight, an entry for each of them.
    pub(crate) fn has_used_of(&self, count: u16) -> bool {
        let index = self.layout.used.offset + 2;
        let there = u16::from_le(self.memory.load(index, Ordering::Acquire));
        there.wrapping_sub(self.used) >= count.clamp(1, self.held.max(1))
    }

    /// Discards the requests in flight, because the device has disconnected.
    pub(crate) fn forget(&mut self) {
        self.held = 0;
        self.batch = None;
        if let Some(order) = &mut self.order {
            order.clear();
        }
        self.chains.fill(Chain {
            descriptors: 0,
            writable: 0,
        });
    }

    /// Returns the next request that the device has finished.
    ///
    /// # Errors
    /// Fails if the device has violated the protocol. From then on, the ring neither accepts nor
    /// returns requests.
    pub(crate) fn pop(&mut self) -> Result<Option<Used>, Lie> {
        if let Some(lie) = self.broken {
            return Err(lie);
        }
        let index = self.layout.used.offset + 2;
        let index = u16::from_le(self.memory.load(index, Ordering::Acquire));
        let claimed = index.wrapping_sub(self.used);
        if claimed == 0 {
            return Ok(None);
        }
        let held = self.held;
        if claimed > held {
            return Err(self.break_off(Lie::Index { claimed, held }));
        }
        if let Some(batch) = self.batch {
            return Ok(self.next_of_batch(batch));
        }
        let slot = usize::from(self.used & (self.layout.size - 1));
        let entry = self.layout.used.offset + USED_HEAD + 8 * slot;
        // Load the entry only once, because the device could change it between a check and its use.
        let both = u64::from_le(self.load_entry(entry));
        let (id, len) = (both as u32, (both >> 32) as u32);
        if let Some(order) = &self.order {
            let at = order.iter().position(|head| u32::from(*head) == id);
            if at.is_none_or(|at| at >= usize::from(claimed)) {
                return Err(self.break_off(Lie::Id(id)));
            }
        }
        let chain = self.chains.get(id as usize).copied();
        let chain = match chain.filter(|c| c.descriptors > 0) {
            Some(chain) => chain,
            None => return Err(self.break_off(Lie::Id(id))),
        };
        if len > chain.writable {
            let allowed = chain.writable;
            let claimed = len;
            return Err(self.break_off(Lie::Length { claimed, allowed }));
        }
        let head = id as u16;
        if self.order.is_some() {
            return Ok(self.next_of_batch((head, len)));
        }
        self.release(head, chain.descriptors);
        self.used = self.used.wrapping_add(1);
        Ok(Some(Used { head, len }))
    }

    /// Returns the next request covered by a used entry. The entry's length applies only to the
    /// last of these requests. For the rest, the result contains the maximum length, because the
    /// device may have written every writable byte.
    fn next_of_batch(&mut self, (last, len): (u16, u32)) -> Option<Used> {
        let head = self.order.as_mut()?.pop_front()?;
        let chain = self.chains[usize::from(head)];
        let is_last = head == last;
        self.batch = (!is_last).then_some((last, len));
        self.release(head, chain.descriptors);
        self.used = self.used.wrapping_add(1);
        let len = if is_last { len } else { chain.writable };
        Some(Used { head, len })
    }

    /// Loads a used entry as two words, because entries start 4 bytes past a cache line and are not
    /// aligned to 8 bytes.
    fn load_entry(&self, entry: usize) -> u64 {
        let id: u32 = self.memory.load(entry, Ordering::Relaxed);
        let len: u32 = self.memory.load(entry + 4, Ordering::Relaxed);
        u64::from(id) | u64::from(len) << 32
    }

    fn release(&mut self, head: u16, descriptors: u16) {
        let mut last = head;
        for _ in 1..descriptors {
            last = self.next[usize::from(last)];
        }
        if self.order.is_none() {
            // Reuse these descriptors first, because they are still in the cache.
            self.next[usize::from(last)] = self.free;
            self.free = head;
        } else {
            match self.free_count {
                0 => self.free = head,
                _ => self.next[usize::from(self.tail)] = head,
            }
            self.next[usize::from(last)] = NONE;
            self.tail = last;
        }
        self.free_count += descriptors;
        self.held -= 1;
        self.chains[usize::from(head)].descriptors = 0;
    }

    fn break_off(&mut self, lie: Lie) -> Lie {
        self.broken = Some(lie);
        lie
    }

    /// Disables interrupts. With EVENT_IDX, this does nothing, because the used index has already
    /// passed `used_event`, the index at which the driver requested an interrupt.
    pub(crate) fn disable_interrupt(&mut self) {
        if !self.event_idx {
            let flags = VRING_AVAIL_F_NO_INTERRUPT as u16;
            let at = self.layout.avail.offset;
            self.memory.store(at, flags.to_le(), Ordering::Relaxed);
        }
    }

    /// Requests an interrupt once `after` more requests have finished. Without EVENT_IDX, `after`
    /// counts as 1. Returns false if that many requests have already finished.
    pub(crate) fn enable_interrupt(&mut self, after: u16) -> bool {
        let after = after.clamp(1, self.held.max(1));
        if self.event_idx {
            let at = self.used.wrapping_add(after - 1);
            let end = AVAIL_HEAD + 2 * usize::from(self.layout.size);
            let event = self.layout.avail.offset + end;
            self.memory.store(event, at.to_le(), Ordering::Relaxed);
        } else {
            let at = self.layout.avail.offset;
            self.memory.store(at, 0_u16, Ordering::Relaxed);
        }
        // Request the interrupt before reading the used index. The device writes the index before
        // it checks for this request, so at least one side sees the other's write.
        fence(Ordering::SeqCst);
        let there = self.load(self.layout.used.offset + 2);
        let after = if self.event_idx { after } else { 1 };
        there.wrapping_sub(self.used) < after
    }
}
