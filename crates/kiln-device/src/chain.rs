//! One request's buffers. Each descriptor is copied from guest memory once and then validated.

use std::fmt;

use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, VolatileSlice};

use crate::ring::Ring;

/// Maximum chain length. An indirect table may be longer than the ring: the virtio specification
/// forbids this (2.7.5.3.1), but drivers do it. A valid request has only a few buffers.
pub(crate) const MAX_DESCRIPTORS: usize = 1024;

/// Size of `struct virtq_desc` in bytes.
const DESCRIPTOR: usize = 16;

/// Why a chain is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Malformed {
    /// `next` is beyond the table.
    Next,
    /// The chain has more descriptors than its table, so it loops (CVE-2026-86847), or it is longer
    /// than [`MAX_DESCRIPTORS`].
    Loop,
    /// An indirect table is invalid: its size is not a multiple of the descriptor size, it is
    /// nested, it is outside memory, or another descriptor follows the indirect one.
    Indirect,
    /// A device-readable buffer follows a device-writable one (2.7.4.2).
    Order,
    /// A buffer is outside the guest's memory.
    Outside,
    /// The total length of all buffers exceeds the limit.
    Length,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Next => "a descriptor's next is beyond the table",
            Malformed::Loop => "a chain with more descriptors than its table",
            Malformed::Indirect => "an invalid indirect table",
            Malformed::Order => "a readable buffer after a writable one",
            Malformed::Outside => "a buffer outside the guest's memory",
            Malformed::Length => "buffers longer than a request may be",
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    addr: GuestAddress,
    len: u32,
}

/// The buffers of a chain. The list of buffers is allocated once per queue and reused for each
/// request.
#[derive(Default)]
pub(crate) struct Chain {
    spans: Vec<Span>,
    /// Index of the first span that the device may write. The device reads the spans before it.
    first_writable: usize,
    readable: u64,
    writable: u64,
}

/// The descriptor table of a chain: either the ring's table or an indirect table.
enum Table<'a> {
    Ring,
    Indirect(VolatileSlice<'a>),
}

impl Chain {
    /// Creates an empty chain with capacity for [`MAX_DESCRIPTORS`].
    pub(crate) fn new() -> Chain {
        Chain {
            spans: Vec::with_capacity(MAX_DESCRIPTORS),
            ..Chain::default()
        }
    }

    /// Returns the total length in bytes of the buffers that the device reads.
    pub(crate) fn readable(&self) -> u64 {
        self.readable
    }

    /// Returns the total length in bytes of the buffers that the device may write.
    pub(crate) fn writable(&self) -> u64 {
        self.writable
    }

    /// Follows the chain from `head`. If the chain is malformed, the buffers found so far are kept,
    /// because the caller needs them to return an error to the driver.
    pub(crate) fn walk(
        &mut self,
        memory: &GuestMemoryMmap,
        ring: &Ring<'_>,
        head: u16,
    ) -> Result<(), Malformed> {
        self.spans.clear();
        (self.first_writable, self.readable, self.writable) = (0, 0, 0);
        let mut table = Table::Ring;
        let mut entries = usize::from(ring.size());
        let mut left = entries.min(MAX_DESCRIPTORS);
        let mut index = head;
        loop {
            if left == 0 {
                return Err(Malformed::Loop);
            }
            left -= 1;
            if usize::from(index) >= entries {
                return Err(Malformed::Next);
            }
            let desc = match &table {
                Table::Ring => ring.descriptor(index),
                Table::Indirect(table) => table
                    .read_obj(DESCRIPTOR * usize::from(index))
                    .map_err(|_| Malformed::Indirect)?,
            };
            if desc.refers_to_indirect_table() {
                if matches!(table, Table::Indirect(_)) || desc.has_next() {
                    return Err(Malformed::Indirect);
                }
                let inner = indirect(memory, &desc).ok_or(Malformed::Indirect)?;
                entries = inner.len() / DESCRIPTOR;
                left = entries.min(MAX_DESCRIPTORS);
                table = Table::Indirect(inner);
                index = 0;
                continue;
            }
            self.add(&desc)?;
            if !desc.has_next() {
                return Ok(());
            }
            index = desc.next();
        }
    }

    fn add(&mut self, desc: &Descriptor) -> Result<(), Malformed> {
        let span = Span {
            addr: desc.addr(),
            len: desc.len(),
        };
        if desc.is_write_only() {
            self.writable += u64::from(span.len);
        } else if self.first_writable < self.spans.len() {
            return Err(Malformed::Order);
        } else {
            self.first_writable += 1;
            self.readable += u64::from(span.len);
        }
        self.spans.push(span);
        Ok(())
    }

    /// Copies the readable buffers into `to`, which may be shorter than their total length.
    pub(crate) fn read(&self, memory: &GuestMemoryMmap, to: &mut [u8]) -> Result<(), Malformed> {
        let mut rest = to;
        for span in &self.spans[..self.first_writable] {
            let len = rest.len().min(span.len as usize);
            let (part, after) = rest.split_at_mut(len);
            memory
                .read_slice(part, span.addr)
                .map_err(|_| Malformed::Outside)?;
            rest = after;
        }
        Ok(())
    }

    /// Copies `from` to the start of the writable buffers.
    pub(crate) fn write(&self, memory: &GuestMemoryMmap, from: &[u8]) -> Result<(), Malformed> {
        let mut rest = from;
        for span in &self.spans[self.first_writable..] {
            if rest.is_empty() {
                break;
            }
            let (part, after) = rest.split_at(rest.len().min(span.len as usize));
            memory
                .write_slice(part, span.addr)
                .map_err(|_| Malformed::Outside)?;
            rest = after;
        }
        Ok(())
    }

    /// Writes the last writable byte, which holds a data request's status.
    pub(crate) fn write_last(&self, memory: &GuestMemoryMmap, byte: u8) -> Result<(), Malformed> {
        let last = self.spans[self.first_writable..]
            .iter()
            .rev()
            .find(|span| span.len > 0)
            .ok_or(Malformed::Length)?;
        let at = last
            .addr
            .0
            .checked_add(u64::from(last.len) - 1)
            .ok_or(Malformed::Outside)?;
        memory
            .write_slice(&[byte], GuestAddress(at))
            .map_err(|_| Malformed::Outside)
    }
}

/// Locates the table that an indirect descriptor points to.
fn indirect<'a>(memory: &'a GuestMemoryMmap, desc: &Descriptor) -> Option<VolatileSlice<'a>> {
    let len = desc.len() as usize;
    if len == 0 || len % DESCRIPTOR != 0 {
        return None;
    }
    memory.get_slice(desc.addr(), len).ok()
}
