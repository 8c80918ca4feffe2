//! Corrects the SET_MEM_TABLE message of user mode Linux, which always sends 72 bytes, enough for
//! two regions, although it has only one. The vhost crate requires the length to match the number
//! of regions, so the excess is removed.

use super::message::word;

/// Bytes before the first region: the region count and padding.
const HEAD: usize = 8;
/// Bytes per region: guest address, size, address in the front end, file offset.
const REGION: usize = 32;

/// Removes all bytes after the last region. A payload that is too short, or that announces more
/// regions than it contains, stays unchanged, and the receiver rejects it.
pub(super) fn trim(payload: &mut Vec<u8>) {
    let Some(regions) = word(payload, 0) else {
        return;
    };
    let wanted = (regions as usize)
        .checked_mul(REGION)
        .and_then(|n| n.checked_add(HEAD));
    if let Some(wanted) = wanted.filter(|_| regions > 0) {
        payload.truncate(wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(regions: u32, len: usize) -> Vec<u8> {
        let mut payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
        payload[..4].copy_from_slice(&regions.to_le_bytes());
        payload
    }

    #[test]
    fn user_mode_linux_has_one_region_in_room_for_two() {
        let mut payload = table(1, 72);
        trim(&mut payload);
        assert_eq!(payload, table(1, 40));
    }

    #[test]
    fn what_fits_stays() {
        for (regions, len) in [(1, 40), (2, 72), (8, 264)] {
            let mut payload = table(regions, len);
            trim(&mut payload);
            assert_eq!(payload, table(regions, len));
        }
    }

    #[test]
    fn what_cannot_be_right_is_left_to_be_refused() {
        for (regions, len) in [(0, 72), (3, 72), (u32::MAX, 72), (1 << 27, 4096), (1, 39)] {
            let mut payload = table(regions, len);
            trim(&mut payload);
            assert_eq!(payload.len(), len, "{regions}");
        }
        let mut short = vec![1, 0, 0];
        trim(&mut short);
        assert_eq!(short, [1, 0, 0]);
    }
}
