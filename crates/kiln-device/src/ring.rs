//! A split virtqueue from the device's side (virtio 1.2, 2.7).
//!
//! The three areas are located once, when the ring starts. After that, each access is a load or a
//! store that cannot fail. No data is read from guest memory twice.

use std::sync::atomic::{fence, AtomicU16, Ordering};

use virtio_bindings::virtio_ring::{VRING_AVAIL_F_NO_INTERRUPT, VRING_USED_F_NO_NOTIFY};
use virtio_queue::desc::split::Descriptor;
use vm_memory::volatile_memory::{VolatileArrayRef, VolatileMemory, VolatileSlice};
use vm_memory::{ByteValued, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use crate::inflight::Log;

/// Location of a ring in guest memory, and the index where processing continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// This type is public so that the rig can expose it to fuzzers.
#[cfg_attr(not(feature = "rig"), allow(unreachable_pub))]
pub struct Place {
    /// Number of descriptors, a power of two.
    pub size: u16,
    /// Guest address of the descriptor table.
    pub desc: u64,
    /// Guest address of the driver area.
    pub avail: u64,
    /// Guest address of the device area.
    pub used: u64,
    /// Index of the next driver area entry to take.
    pub next_avail: u16,
    /// Whether `VIRTIO_F_EVENT_IDX` was negotiated.
    pub event_idx: bool,
    /// The request that has been charged against the guest's rate limits but not yet served, if
    /// any.
    pub paid: Option<Paid>,
}

/// A request that has been charged against its guest's rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "rig"), allow(unreachable_pub))]
pub struct Paid {
    /// Index of the request's entry in the driver area.
    pub entry: u16,
    pub bytes: u64,
}

/// Why a ring cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// This type is public so that the rig can expose it to fuzzers.
#[cfg_attr(not(feature = "rig"), allow(unreachable_pub))]
pub enum Broken {
    /// The specification does not allow this ring size.
    Size(u16),
    /// An area is misaligned.
    Alignment(&'static str),
    /// An area is outside the guest's memory.
    Outside(&'static str),
    /// The driver made more entries available than the ring has (CVE-2026-86846).
    AvailIndex(u16),
    /// A head is beyond the descriptor table.
    Head(u16),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Size(n) => write!(
                f,
                "a ring of {n} descriptors: a power of two up to 32768 is allowed"
            ),
            Broken::Alignment(area) => write!(f, "the {area} is not aligned"),
            Broken::Outside(area) => write!(f, "the {area} is not in the guest's memory"),
            Broken::AvailIndex(n) => write!(
                f,
                "the available index is {n} ahead of the device, more than the ring size"
            ),
            Broken::Head(n) => write!(f, "head {n} is beyond the descriptor table"),
        }
    }
}

/// A ring's areas, after their addresses in guest memory have been resolved.
pub(crate) struct Areas<'a> {
    desc: VolatileSlice<'a>,
    avail: VolatileSlice<'a>,
    used: VolatileSlice<'a>,
}

impl<'a> Areas<'a> {
    /// Locates the three areas in guest memory, and checks their sizes and alignment.
    pub(crate) fn find(memory: &'a GuestMemoryMmap, place: &Place) -> Result<Areas<'a>, Broken> {
        let size = place.size;
        if !size.is_power_of_two() || size > 32768 {
            return Err(Broken::Size(size));
        }
        let n = usize::from(size);
        Ok(Areas {
            desc: area(memory, DESC, place.desc, 16 * n, 16)?,
            avail: area(memory, AVAIL, place.avail, 4 + 2 * n + 2, 2)?,
            used: area(memory, USED, place.used, 4 + 8 * n + 2, 4)?,
        })
    }
}

/// A running ring: the device's private indices, and references to the ring's words in memory.
pub(crate) struct Ring<'a> {
    size: u16,
    event_idx: bool,
    next_avail: u16,
    next_used: u16,
    /// The used index when the device last checked whether the driver wants an interrupt.
    told: u16,
    desc: VolatileArrayRef<'a, Descriptor>,
    avail_flags: &'a AtomicU16,
    avail_idx: &'a AtomicU16,
    avail: VolatileArrayRef<'a, u16>,
    used_event: &'a AtomicU16,
    used_flags: &'a AtomicU16,
    used_idx: &'a AtomicU16,
    used: VolatileArrayRef<'a, u64>,
    avail_event: &'a AtomicU16,
}

const DESC: &str = "descriptor table";
const AVAIL: &str = "driver area";
const USED: &str = "device area";

/// Locates `len` bytes at a guest address. Both the guest address and the corresponding address in
/// this process must be aligned.
fn area<'a>(
    memory: &'a GuestMemoryMmap,
    name: &'static str,
    at: u64,
    len: usize,
    align: usize,
) -> Result<VolatileSlice<'a>, Broken> {
    let slice = memory
        .get_slice(GuestAddress(at), len)
        .map_err(|_| Broken::Outside(name))?;
    if at % align as u64 != 0 || slice.ptr_guard().as_ptr().align_offset(align) != 0 {
        return Err(Broken::Alignment(name));
    }
    Ok(slice)
}

/// Locates a 16-bit word that the driver and the device share.
fn word<'a>(
    area: &'a VolatileSlice<'_>,
    at: usize,
    name: &'static str,
) -> Result<&'a AtomicU16, Broken> {
    area.get_atomic_ref(at).map_err(|_| Broken::Alignment(name))
}

/// Locates an array that one side, the driver or the device, writes and the other side reads.
fn array<'a, T: ByteValued>(
    area: &'a VolatileSlice<'_>,
    at: usize,
    n: usize,
    name: &'static str,
) -> Result<VolatileArrayRef<'a, T>, Broken> {
    area.get_array_ref(at, n).map_err(|_| Broken::Outside(name))
}

impl<'a> Ring<'a> {
    /// Resumes a ring at `place`, using the areas located for it.
    pub(crate) fn new(areas: &'a Areas<'_>, place: &Place) -> Result<Ring<'a>, Broken> {
        let n = usize::from(place.size);
        let [desc, avail, used] = [
            (&areas.desc, 16 * n, DESC),
            (&areas.avail, 6 + 2 * n, AVAIL),
            (&areas.used, 6 + 8 * n, USED),
        ]
        .map(|(area, len, name)| match area.len() == len {
            true => Ok(area),
            false => Err(Broken::Outside(name)),
        });
        let (desc, avail, used) = (desc?, avail?, used?);
        let used_idx = word(used, 2, USED)?;
        let next_used = u16::from_le(used_idx.load(Ordering::Acquire));
        Ok(Ring {
            size: place.size,
            event_idx: place.event_idx,
            next_avail: place.next_avail,
            next_used,
            told: next_used,
            desc: array(desc, 0, n, DESC)?,
            avail_flags: word(avail, 0, AVAIL)?,
            avail_idx: word(avail, 2, AVAIL)?,
            avail: array(avail, 4, n, AVAIL)?,
            used_event: word(avail, 4 + 2 * n, AVAIL)?,
            used_flags: word(used, 0, USED)?,
            used_idx,
            used: array(used, 4, n, USED)?,
            avail_event: word(used, 4 + 8 * n, USED)?,
        })
    }

    /// Resumes where another process stopped, according to that process's record of requests in
    /// flight. In the driver area, these requests must directly follow the requests already
    /// returned. Otherwise, the record belongs to a different ring and is cleared.
    pub(crate) fn resume(&mut self, log: &mut Log) {
        let taken = log.recover(self.next_used);
        let behind = |n: usize| self.next_used.wrapping_add(n as u16);
        let available = u16::from_le(self.avail_idx.load(Ordering::Acquire));
        let room = available.wrapping_sub(self.next_used);
        let head = |at: u16| u16::from_le(self.avail.load(usize::from(at & (self.size - 1))));
        let fits = taken.len() <= usize::from(room.min(self.size))
            && taken
                .iter()
                .enumerate()
                .all(|(n, taken)| head(behind(n)) == *taken);
        if !fits {
            log.forget();
        } else if !taken.is_empty() {
            self.next_avail = self.next_used;
        }
    }

    /// Returns the used index that the next publication will write.
    pub(crate) fn next_used(&self) -> u16 {
        self.next_used
    }

    /// Returns the number of descriptors in the table.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// Returns the index of the next entry to take, as reported by `GET_VRING_BASE`.
    pub(crate) fn next_avail(&self) -> u16 {
        self.next_avail
    }

    /// Returns the number of heads that the driver has made available and the device has not taken.
    pub(crate) fn available(&self) -> Result<u16, Broken> {
        let ahead =
            u16::from_le(self.avail_idx.load(Ordering::Acquire)).wrapping_sub(self.next_avail);
        if ahead > self.size {
            return Err(Broken::AvailIndex(ahead));
        }
        Ok(ahead)
    }

    /// Takes the next head. Call this only for entries counted by [`Ring::available`].
    pub(crate) fn take(&mut self) -> Result<u16, Broken> {
        let head = self.peek()?;
        self.next_avail = self.next_avail.wrapping_add(1);
        Ok(head)
    }

    /// Returns the next head without taking it. The driver may still change it.
    pub(crate) fn peek(&self) -> Result<u16, Broken> {
        let slot = usize::from(self.next_avail & (self.size - 1));
        let head = u16::from_le(self.avail.load(slot));
        if head >= self.size {
            return Err(Broken::Head(head));
        }
        Ok(head)
    }

    /// Copies a descriptor from the table. `index` must be less than the ring's size.
    pub(crate) fn descriptor(&self, index: u16) -> Descriptor {
        self.desc.load(usize::from(index & (self.size - 1)))
    }

    /// Returns a chain to the driver, which sees it after [`Ring::publish`].
    pub(crate) fn give(&mut self, head: u16, written: u32) {
        let slot = usize::from(self.next_used & (self.size - 1));
        // struct virtq_used_elem: id, then len.
        let elem = u64::from(head) | u64::from(written) << 32;
        self.used.store(slot, elem.to_le());
        self.next_used = self.next_used.wrapping_add(1);
    }

    /// Makes the returned chains visible to the driver.
    pub(crate) fn publish(&self) {
        self.used_idx
            .store(self.next_used.to_le(), Ordering::Release);
    }

    /// Returns whether the driver wants an interrupt for the chains published since the last check
    /// (2.7.7, 2.7.10).
    pub(crate) fn wants_interrupt(&mut self) -> bool {
        if self.told == self.next_used {
            return false;
        }
        // The published index must be visible before the device checks whether the driver wants an
        // interrupt.
        fence(Ordering::SeqCst);
        let old = std::mem::replace(&mut self.told, self.next_used);
        if self.event_idx {
            let event = u16::from_le(self.used_event.load(Ordering::Relaxed));
            let new = self.next_used;
            new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
        } else {
            let flags = u16::from_le(self.avail_flags.load(Ordering::Relaxed));
            u32::from(flags) & VRING_AVAIL_F_NO_INTERRUPT == 0
        }
    }

    /// Suppresses notifications from the driver while the device polls.
    pub(crate) fn silence(&self) {
        // With event indices, the driver notifies only for the index that the device requested, so
        // nothing needs to be suppressed.
        if !self.event_idx {
            self.used_flags
                .store((VRING_USED_F_NO_NOTIFY as u16).to_le(), Ordering::Relaxed);
        }
    }

    /// Requests a notification for the next head. Returns true if that head is already available,
    /// in which case the driver does not notify the device.
    pub(crate) fn listen(&self) -> Result<bool, Broken> {
        // Write the word even if event indices were not negotiated: QEMU's cryptodev negotiates
        // them with its guest without informing the device. Every ring has this word, and other
        // drivers ignore it.
        self.avail_event
            .store(self.next_avail.to_le(), Ordering::Relaxed);
        if !self.event_idx {
            self.used_flags.store(0, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        Ok(self.available()? != 0)
    }
}
