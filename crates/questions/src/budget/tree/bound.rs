//! From which message length on the FPU sections of a function do not grow.

use super::row::Row;

/// Bounds that are looked for: powers of two from this one ...
const LEAST: usize = 16;
/// ... to this one.
const MOST: usize = 64 << 10;
/// Lengths are compared from here on: shorter messages may go another way.
const FROM: usize = 8 << 10;
/// Bytes by which the lengths differ in total, at least.
const SPAN: usize = 12 << 10;
/// Steps at least.
const STEPS: usize = 4;

/// The message length after which a function begins anew: the smallest step by which a longer message always has the same
/// number of additional sections. `sections` counts those of a call. Nothing if they do not become more, or do so without such a
/// step.
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

/// `None` if the function does not take one of the lengths.
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

/// Whether the longest section grows with the message: between the two greatest lengths by more than half as many octaves
/// as the length. Nothing if there is one length only.
pub(super) fn grows(rows: &[Row]) -> Option<bool> {
    let [.., shorter, longer] = rows else {
        return None;
    };
    let lengths = longer.bytes as f64 / shorter.bytes as f64;
    Some(longer.section_us / shorter.section_us > lengths.sqrt())
}

/// The bound of a function, of which these are the rows in ascending order of length. `step` is that of [`find_step`], `most`
/// the longest message that the function takes.
pub(super) fn find_bound(rows: &[Row], step: Option<usize>, most: usize) -> Option<u64> {
    let last = rows.last()?;
    if last.bytes >= most as u64 {
        return Some(most as u64);
    }
    match (grows(rows), step) {
        (Some(true), _) => None,
        (_, Some(step)) => Some(step as u64),
        (None, None) => None,
        // Sections that end at changing places, or whose number depends on the length in another way.
        (Some(false), None) => rows
            .iter()
            .find(|row| last.section_us < 1.5 * row.section_us)
            .map(|row| row.bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_of(sections: impl Fn(usize) -> u64) -> Option<usize> {
        find_step(&mut |len| Some(sections(len)))
    }

    fn rows(lengths: &[(u64, f64)]) -> Vec<Row> {
        lengths
            .iter()
            .map(|&(bytes, section_us)| Row {
                bytes,
                section_us,
                ..Row::default()
            })
            .collect()
    }

    #[test]
    fn the_number_of_sections_shows_where_a_function_begins_anew() {
        // ChaCha; with Poly1305 over the same bytes; a key's section besides.
        assert_eq!(step_of(|n| n.div_ceil(4096) as u64), Some(4096));
        assert_eq!(step_of(|n| 2 + 2 * n.div_ceil(4096) as u64), Some(4096));
        // One for each block, and with a hash of 4 KiB each.
        assert_eq!(step_of(|n| n.div_ceil(16) as u64), Some(16));
        let gcm = |n: usize| n.div_ceil(16) + n.div_ceil(4096);
        assert_eq!(step_of(|n| gcm(n) as u64), Some(4096));
        // A message in two halves.
        assert_eq!(step_of(|n| 2 * (n / 2).div_ceil(4096) as u64), Some(8192));
        assert_eq!(step_of(|n| n.div_ceil(65536) as u64), Some(65536));
        // Controls: as many however long the message is; a number that follows no rule.
        assert_eq!(step_of(|_| 1), None);
        assert_eq!(step_of(|n| (n as f64).sqrt() as u64), None);
        assert_eq!(step_of(|n| if n > 70_000 { 1 } else { 2 }), None);
        assert_eq!(find_step(&mut |_| None), None);
    }

    #[test]
    fn sections_that_grow_have_no_bound() {
        let sha = rows(&[
            (4096, 2.0),
            (65536, 30.0),
            (1 << 20, 480.0),
            (10 << 20, 4800.0),
        ]);
        assert_eq!(find_bound(&sha, None, usize::MAX), None);
        // A bounded part does not bound the others.
        assert_eq!(find_bound(&sha, Some(16), usize::MAX), None);
        // The last is disturbed, or its data are not in the cache: it has not grown tenfold.
        let chacha = rows(&[(4096, 1.0), (65536, 1.0), (1 << 20, 1.1), (10 << 20, 2.9)]);
        assert_eq!(find_bound(&chacha, Some(4096), usize::MAX), Some(4096));
        assert_eq!(find_bound(&chacha[..1], Some(4096), usize::MAX), Some(4096));
        assert_eq!(find_bound(&chacha[..1], None, usize::MAX), None);
        let odd = rows(&[(4096, 1.0), (65536, 4.0), (1 << 20, 4.1)]);
        assert_eq!(find_bound(&odd, None, usize::MAX), Some(65536));
    }

    #[test]
    fn a_longest_message_is_a_bound() {
        let nh = rows(&[(512, 0.1), (1024, 0.2)]);
        assert_eq!(find_bound(&nh, None, 1024), Some(1024));
        assert_eq!(find_bound(&nh, None, 2048), None);
        assert_eq!(find_bound(&[], None, 2048), None);
    }
}
