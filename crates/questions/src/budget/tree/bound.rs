//! Determines the message length beyond which a function's FPU sections no longer grow.

use super::row::Row;

/// Smallest step to try, in bytes. Each further step is twice as large as the one before.
const LEAST: usize = 16;
/// Largest step to try, in bytes.
const MOST: usize = 64 << 10;
/// Shortest message length to compare, in bytes. Shorter messages may take another code path.
const FROM: usize = 8 << 10;
/// Minimum difference in bytes between the shortest and the longest length that are compared.
const SPAN: usize = 12 << 10;
/// Minimum number of steps between the shortest and the longest length that are compared.
const STEPS: usize = 4;

/// Returns the number of bytes after which a function opens a new section: the smallest step that
/// always adds the same number of sections to a call. `sections` returns the number of sections in
/// a call of the given length. Returns `None` if no step has this property, or if the number of
/// sections does not increase.
pub(super) fn find_step(sections: &mut dyn FnMut(usize) -> Option<u64>) -> Option<usize> {
    let mut step = LEAST;
    while step <= MOST {
        if is_step(step, sections)? {
            return Some(step);
        }
        step *= 2;
    }
    None
}

/// Returns whether every additional `step` bytes add the same number of sections. Returns `None` if
/// the function does not accept one of the lengths.
fn is_step(step: usize, sections: &mut dyn FnMut(usize) -> Option<u64>) -> Option<bool> {
    let first = sections(FROM)?;
    let more = sections(FROM + step)?.checked_sub(first);
    let Some(more @ 1..) = more else {
        return Some(false);
    };
    let mut last = first + more;
    for k in 2..=STEPS.max(SPAN / step) {
        let next = sections(FROM + k * step)?;
        if next != last + more {
            return Some(false);
        }
        last = next;
    }
    Some(true)
}

/// Corrects a step that [`find_step`] has underestimated. This happens when a message has two kinds
/// of sections whose ends alternate, because the number of sections then rises at the end of each
/// section of either kind. The step is doubled for as long as the longest section of a 32-step
/// message is nearly twice as long as that of a one-step message. `longest` returns the length of
/// the longest section of a call, in any unit.
pub(super) fn settle(mut step: usize, longest: &mut dyn FnMut(usize) -> Option<u64>) -> usize {
    while step < MOST {
        let (Some(short), Some(long)) = (longest(step), longest(32 * step)) else {
            break;
        };
        if long as f64 <= 1.8 * short as f64 {
            break;
        }
        step *= 2;
    }
    step
}

/// Returns whether the longest section grows with the message. This is the case if the longest
/// message has as many sections as the second longest. Otherwise the times decide: the time of the
/// longest section must grow at least as fast as the 0.75th power of the length, both from the
/// shortest to the longest message and between the two longest messages. Returns `None` if there is
/// only one length.
pub(super) fn grows(rows: &[Row]) -> Option<bool> {
    let [.., before, last] = rows else {
        return None;
    };
    let from = |row: &Row| {
        let lengths = last.bytes as f64 / row.bytes as f64;
        last.section_us / row.section_us > lengths.powf(0.75)
    };
    let as_many = last.sections_per_call == before.sections_per_call;
    Some(as_many || from(before) && from(&rows[0]))
}

/// Returns the bound of a function, computed from its rows in ascending order of length. `step` is
/// the result of [`find_step`], and `most` is the length of the longest message that the function
/// accepts.
pub(super) fn find_bound(rows: &[Row], step: Option<usize>, most: usize) -> Option<u64> {
    let last = rows.last()?;
    if last.bytes >= most as u64 {
        return Some(most as u64);
    }
    if grows(rows) == Some(true) {
        return None;
    }
    // Shorter messages may take another code path with longer sections.
    let longer = rows.iter().filter(|r| r.section_us > 3.0 * last.section_us);
    let other_way = longer.map(|row| row.bytes).max();
    let step = step.map(|step| step as u64);
    // If no step was found, use the times: the bound is the shortest length from which the longest
    // section takes a nearly constant time.
    let settled = |row: &&Row| last.section_us < 1.5 * row.section_us && rows.len() > 1;
    let end = step.or_else(|| rows.iter().find(settled).map(|row| row.bytes));
    end.map(|end| other_way.map_or(end, |other| other.max(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_of(sections: impl Fn(usize) -> u64) -> Option<usize> {
        find_step(&mut |len| Some(sections(len)))
    }

    /// Creates rows with the given lengths and times, and with one section per `piece` bytes.
    fn rows(piece: u64, lengths: &[(u64, f64)]) -> Vec<Row> {
        let row = |&(bytes, section_us): &(u64, f64)| Row {
            bytes,
            section_us,
            sections_per_call: bytes.div_ceil(piece),
            ..Row::default()
        };
        lengths.iter().map(row).collect()
    }

    #[test]
    fn the_number_of_sections_shows_where_a_function_begins_anew() {
        // First ChaCha alone. Then ChaCha together with Poly1305 over the same bytes, plus two
        // sections for the key.
        assert_eq!(step_of(|n| n.div_ceil(4096) as u64), Some(4096));
        assert_eq!(step_of(|n| 2 + 2 * n.div_ceil(4096) as u64), Some(4096));
        // First a cipher alone, with one section per block. Then the cipher together with a hash
        // that has one section per 4 KiB.
        assert_eq!(step_of(|n| n.div_ceil(16) as u64), Some(16));
        let gcm = |n: usize| n.div_ceil(16) + n.div_ceil(4096);
        assert_eq!(step_of(|n| gcm(n) as u64), Some(4096));
        // A function that processes a message in two halves.
        assert_eq!(step_of(|n| 2 * (n / 2).div_ceil(4096) as u64), Some(8192));
        assert_eq!(step_of(|n| n.div_ceil(65536) as u64), Some(65536));
        // Controls: a constant number of sections, and numbers that do not increase in equal steps.
        assert_eq!(step_of(|_| 1), None);
        assert_eq!(step_of(|n| (n as f64).sqrt() as u64), None);
        assert_eq!(step_of(|n| if n > 70_000 { 1 } else { 2 }), None);
        assert_eq!(find_step(&mut |_| None), None);
    }

    #[test]
    fn parts_that_end_by_turns_do_not_halve_the_bound() {
        // Two ciphers work in chunks of 4 KiB. The chunks of one cipher begin in the middle of the
        // other's chunks.
        let sections = |n: usize| (n.div_ceil(4096) + (n + 2048).div_ceil(4096)) as u64;
        assert_eq!(step_of(sections), Some(2048));
        let mut longest = |n: usize| Some(50 + n.min(4096) as u64);
        assert_eq!(settle(2048, &mut longest), 4096);
        assert_eq!(settle(4096, &mut longest), 4096);
        // Controls: a section that keeps growing, and a function that does not accept the lengths.
        assert_eq!(settle(16, &mut |n| Some(n as u64)), MOST);
        assert_eq!(settle(16, &mut |_| None), 16);
    }

    #[test]
    fn sections_that_grow_have_no_bound() {
        let one_section = u64::MAX;
        let sha = [
            (4096, 2.0),
            (65536, 30.0),
            (1 << 20, 480.0),
            (10 << 20, 4800.0),
        ];
        assert_eq!(find_bound(&rows(one_section, &sha), None, usize::MAX), None);
        // A bound for some sections does not help if other sections of the function grow.
        assert_eq!(find_bound(&rows(16, &sha), Some(16), usize::MAX), None);
        // Doubling the bytes does not change the number of sections, so the sections grow although
        // the times are nearly equal.
        let crc = rows(one_section, &[(512, 0.06), (1024, 0.07)]);
        assert_eq!(find_bound(&crc, None, usize::MAX), None);
    }

    #[test]
    fn sections_that_do_not_grow_have_a_bound() {
        // The last time may be longer because of a disturbance, or because the data does not fit in
        // the cache.
        for last in [1.0, 2.9, 74.0] {
            let times = [(4096, 1.0), (65536, 1.0), (1 << 20, 1.1), (10 << 20, last)];
            let chacha = rows(4096, &times);
            assert_eq!(find_bound(&chacha, Some(4096), usize::MAX), Some(4096));
        }
        let one = rows(4096, &[(65536, 1.0)]);
        assert_eq!(find_bound(&one, Some(4096), usize::MAX), Some(4096));
        assert_eq!(find_bound(&one, None, usize::MAX), None);
        let another_way = rows(4096, &[(4096, 3.1), (65536, 48.0), (1 << 20, 2.1)]);
        assert_eq!(
            find_bound(&another_way, Some(4096), usize::MAX),
            Some(65536)
        );
        let odd = rows(5000, &[(4096, 1.0), (65536, 4.0), (1 << 20, 4.1)]);
        assert_eq!(find_bound(&odd, None, usize::MAX), Some(65536));
    }

    #[test]
    fn a_longest_message_is_a_bound() {
        let nh = rows(u64::MAX, &[(512, 0.1), (1024, 0.2)]);
        assert_eq!(find_bound(&nh, None, 1024), Some(1024));
        assert_eq!(find_bound(&nh, None, 2048), None);
        assert_eq!(find_bound(&[], None, 2048), None);
    }
}
