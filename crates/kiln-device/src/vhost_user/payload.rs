//! The payloads of vhost-user messages (QEMU's `docs/interop/vhost-user.rst`). The numbers in them
//! are in host byte order. They are decoded as little-endian, because the device runs only on x86.

use super::message::{request, word, Message};

/// Size in bytes of a region in SET_MEM_TABLE.
const REGION: usize = 32;
/// Size in bytes of the fields that precede the regions: the number of regions, and padding.
const TABLE_HEADER_LEN: usize = 8;

/// A part of the guest's memory that the front end shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The region's address in the guest.
    pub guest: u64,
    /// Size in bytes.
    pub size: u64,
    /// The region's address in the front end's address space. Ring addresses refer to the same
    /// address space.
    pub user: u64,
    /// Offset of the region within its file, in bytes.
    pub offset: u64,
}

/// The memory in which a device records requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InflightArea {
    /// Size in bytes.
    pub size: u64,
    /// Offset of the memory within its file, in bytes.
    pub offset: u64,
    pub queues: u16,
    /// Number of descriptors in each queue.
    pub queue_size: u16,
}

/// The addresses of a ring in the front end's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingAddresses {
    pub descriptors: u64,
    pub used: u64,
    pub available: u64,
}

/// Size in bytes of an [`InflightArea`] in a message, including the padding at its end.
pub(crate) const INFLIGHT_LEN: usize = 24;

/// Size in bytes of the header that precedes the contents in GET_CONFIG: offset, size and flags.
pub(super) const CONFIG_HEADER_LEN: usize = 12;

fn long(payload: &[u8], at: usize) -> Option<u64> {
    let bytes = payload.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

impl Region {
    fn parse(payload: &[u8], at: usize) -> Option<Region> {
        let field = |n: usize| long(payload, at + 8 * n);
        let region = Region {
            guest: field(0)?,
            size: field(1)?,
            user: field(2)?,
            offset: field(3)?,
        };
        let bases = [region.guest, region.user, region.offset];
        let fits = |base: u64| base.checked_add(region.size).is_some();
        (region.size != 0 && bases.into_iter().all(fits)).then_some(region)
    }

    /// Parses the payload of ADD_MEM_REG and REM_MEM_REG, which starts with padding.
    pub(super) fn parse_single(payload: &[u8]) -> Option<Region> {
        let fits = payload.len() == TABLE_HEADER_LEN + REGION;
        fits.then(|| Region::parse(payload, TABLE_HEADER_LEN))
            .flatten()
    }

    /// Parses the payload of SET_MEM_TABLE. User mode Linux always sends 72 bytes, enough for two
    /// regions, although it has only one region, so bytes after the last region are ignored.
    pub(super) fn parse_table(payload: &[u8]) -> Option<Vec<Region>> {
        let (regions, padding) = (word(payload, 0)?, word(payload, 4)?);
        if regions == 0 || padding != 0 || regions as usize > payload.len() / REGION {
            return None;
        }
        let regions = 0..regions as usize;
        regions
            .map(|n| Region::parse(payload, TABLE_HEADER_LEN + REGION * n))
            .collect()
    }
}

impl InflightArea {
    pub(crate) fn parse(payload: &[u8]) -> Option<InflightArea> {
        let half = |at: usize| {
            Some(u16::from_le_bytes(
                payload.get(at..at + 2)?.try_into().ok()?,
            ))
        };
        let area = InflightArea {
            size: long(payload, 0)?,
            offset: long(payload, 8)?,
            queues: half(16)?,
            queue_size: half(18)?,
        };
        let is_whole = payload.len() == INFLIGHT_LEN && area.queues != 0 && area.queue_size != 0;
        is_whole.then_some(area)
    }

    /// Builds the answer to GET_INFLIGHT_FD. The sender must add a descriptor for the memory.
    pub(crate) fn to_message(self) -> Message {
        Message::answer(request::GET_INFLIGHT_FD, self.emit())
    }

    pub(crate) fn emit(&self) -> [u8; INFLIGHT_LEN] {
        let mut bytes = [0; INFLIGHT_LEN];
        bytes[..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.queues.to_le_bytes());
        bytes[18..20].copy_from_slice(&self.queue_size.to_le_bytes());
        bytes
    }
}

impl RingAddresses {
    /// Parses the payload of SET_VRING_ADDR. Returns the ring's number and addresses.
    pub(super) fn parse(payload: &[u8]) -> Option<(u32, RingAddresses)> {
        const SIZE: usize = 40;
        /// VHOST_VRING_F_LOG, which is ignored: the device does not log dirty pages.
        const LOG: u32 = 1;
        let (ring, flags) = (word(payload, 0)?, word(payload, 4)?);
        let addresses = RingAddresses {
            descriptors: long(payload, 8)?,
            used: long(payload, 16)?,
            available: long(payload, 24)?,
        };
        // Alignment of the three parts (virtio 1.3, section 2.7).
        let is_aligned = addresses.descriptors % 16 == 0
            && addresses.used % 4 == 0
            && addresses.available % 2 == 0;
        let is_whole = payload.len() == SIZE && flags & !LOG == 0 && is_aligned;
        is_whole.then_some((ring, addresses))
    }
}

/// Parses a payload of one 64-bit number.
pub(super) fn parse_number(payload: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(payload.try_into().ok()?))
}

/// Parses a payload of two 32-bit numbers: a ring and a value.
pub(super) fn parse_ring(payload: &[u8]) -> Option<(u32, u32)> {
    let (ring, value) = (word(payload, 0)?, word(payload, 4)?);
    (payload.len() == 8).then_some((ring, value))
}

/// Parses the payload of GET_CONFIG. Returns the offset and size of the requested part of the
/// configuration space.
pub(super) fn parse_config(payload: &[u8]) -> Option<(u32, u32)> {
    /// Maximum size of a configuration space in bytes.
    const LARGEST: u32 = 0x1000;
    /// All defined flags.
    const FLAGS: u32 = 3;
    let (offset, size, flags) = (word(payload, 0)?, word(payload, 4)?, word(payload, 8)?);
    let is_whole = payload.len().checked_sub(CONFIG_HEADER_LEN)? == size as usize;
    let is_possible = size != 0 && offset.checked_add(size)? <= LARGEST;
    (is_whole && is_possible && flags & !FLAGS == 0).then_some((offset, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a memory table of `len` bytes that claims to contain `regions` regions.
    fn table(regions: u32, len: usize) -> Vec<u8> {
        let mut payload = vec![0; len];
        payload[..4].copy_from_slice(&regions.to_le_bytes());
        for at in (TABLE_HEADER_LEN..len).step_by(8) {
            payload[at] = 1 + (at / 8) as u8;
        }
        payload
    }

    const FIRST: Region = Region {
        guest: 2,
        size: 3,
        user: 4,
        offset: 5,
    };

    #[test]
    fn a_memory_table_has_the_regions_that_it_announces() {
        for (regions, len) in [(1, 40), (2, 72), (8, 264)] {
            let parsed = Region::parse_table(&table(regions, len)).unwrap();
            assert_eq!((parsed.len(), parsed[0]), (regions as usize, FIRST));
        }
        // User mode Linux sends one region in a table that has room for two.
        assert_eq!(Region::parse_table(&table(1, 72)), Some(vec![FIRST]));
        for (regions, len) in [(0, 72), (3, 72), (u32::MAX, 72), (1 << 27, 4096), (1, 39)] {
            assert_eq!(Region::parse_table(&table(regions, len)), None, "{regions}");
        }
        assert_eq!(Region::parse_table(&[1, 0, 0]), None);
        let mut padded = table(1, 40);
        padded[4] = 1;
        assert_eq!(Region::parse_table(&padded), None);
    }

    #[test]
    fn a_region_that_is_empty_or_wraps_around_is_refused() {
        let single = |fields: [u64; 4]| {
            let payload = [&[0][..], &fields].concat();
            let payload: Vec<u8> = payload.iter().flat_map(|n| n.to_le_bytes()).collect();
            Region::parse_single(&payload)
        };
        assert_eq!(single([2, 3, 4, 5]), Some(FIRST));
        assert_eq!(single([2, 0, 4, 5]), None);
        for wrapping in 0..3 {
            let mut fields = [2, 3, 4, 5];
            fields[[0, 2, 3][wrapping]] = u64::MAX - 2;
            assert_eq!(single(fields), None);
            fields[[0, 2, 3][wrapping]] -= 1;
            assert!(single(fields).is_some());
        }
        assert_eq!(Region::parse_single(&[0; 39]), None);
        assert_eq!(Region::parse_single(&table(0, 48)), None);
    }

    #[test]
    fn an_inflight_area_round_trips() {
        let area = InflightArea {
            size: 1 << 40,
            offset: 77,
            queues: 5,
            queue_size: 1024,
        };
        assert_eq!(InflightArea::parse(&area.emit()), Some(area));
        assert_eq!(InflightArea::parse(&area.emit()[..20]), None);
        let none = InflightArea { queues: 0, ..area };
        assert_eq!(InflightArea::parse(&none.emit()), None);
    }

    #[test]
    fn ring_addresses_must_be_aligned() {
        let payload = |flags: u32, addresses: [u64; 4]| {
            let mut payload = [3u32.to_le_bytes(), flags.to_le_bytes()].concat();
            payload.extend(addresses.iter().flat_map(|n| n.to_le_bytes()));
            payload
        };
        let wanted = RingAddresses {
            descriptors: 16,
            used: 4,
            available: 2,
        };
        let good = payload(1, [16, 4, 2, 0]);
        assert_eq!(RingAddresses::parse(&good), Some((3, wanted)));
        for bad in [
            payload(2, [16, 4, 2, 0]),
            payload(0, [8, 4, 2, 0]),
            payload(0, [16, 2, 2, 0]),
            payload(0, [16, 4, 1, 0]),
            good[..39].to_vec(),
        ] {
            assert_eq!(RingAddresses::parse(&bad), None);
        }
    }

    #[test]
    fn the_size_of_a_configuration_must_match_the_payload() {
        let payload = |offset: u32, size: u32, flags: u32, len: usize| {
            let mut payload = [offset, size, flags].map(u32::to_le_bytes).concat();
            payload.resize(CONFIG_HEADER_LEN + len, 0);
            payload
        };
        assert_eq!(parse_config(&payload(4, 8, 3, 8)), Some((4, 8)));
        assert_eq!(parse_config(&payload(0xff8, 8, 0, 8)), Some((0xff8, 8)));
        for bad in [
            payload(4, 8, 4, 8),
            payload(4, 8, 0, 7),
            payload(4, 0, 0, 0),
            payload(0xff9, 8, 0, 8),
            payload(u32::MAX, 8, 0, 8),
            vec![0; 11],
        ] {
            assert_eq!(parse_config(&bad), None);
        }
    }
}
