//! The memory of a request: pieces anywhere between two guard pages, in any order, with poison
//! between them.

use kiln_measure::SplitMix64;

use std::io;
use std::ops::Range;

use super::arena::LONGEST;
use super::guard::{find_stray, Guarded, Place, Span, PAGE};

/// Maximum number of pieces in a list.
const MOST: usize = 8;
/// Number of poison bytes that are checked before and after the pieces.
const AROUND: usize = 256;

/// The address of a piece, and its length in bytes.
pub(crate) type Piece = (*mut u8, usize);

/// The memory that one list describes.
pub(crate) struct Scattered {
    buffer: Guarded,
    /// The pieces, in the order in which they form the message.
    pieces: Vec<Range<usize>>,
    /// The range from the start of the lowest piece to the end of the highest.
    used: Range<usize>,
}

/// Divides `len` bytes into one to eight pieces. No piece is empty unless `len` is 0.
pub(crate) fn divide(len: usize, rng: &mut SplitMix64) -> Vec<usize> {
    let mut pieces = Vec::new();
    let mut left = len;
    if !rng.one_in(4) {
        while left > 1 && pieces.len() < MOST - 1 {
            let most = [4, 40, 300, 5000][rng.below(4)];
            let n = 1 + rng.below(most.min(left));
            pieces.push(n);
            left -= n;
        }
    }
    if left > 0 || pieces.is_empty() {
        pieces.push(left);
    }
    pieces
}

impl Scattered {
    pub(super) fn new() -> io::Result<Scattered> {
        Ok(Scattered {
            buffer: Guarded::new(LONGEST + 2 * PAGE)?,
            pieces: Vec::new(),
            used: 0..0,
        })
    }

    pub(super) fn buffer(&self) -> &Guarded {
        &self.buffer
    }

    /// Places pieces with the lengths `lens` at random positions, and copies `data` into them.
    pub(super) fn lay(&mut self, lens: &[usize], data: &[u8], rng: &mut SplitMix64) {
        self.clear();
        let mut order: Vec<usize> = (0..lens.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
        // On average, one gap in three is empty, so that some pieces are directly adjacent.
        let gap = |rng: &mut SplitMix64| match rng.below(3) {
            0 => 0,
            _ => 1 + rng.below(70),
        };
        let gaps: Vec<usize> = order.iter().map(|_| gap(rng)).collect();
        // Skip the first gap, because it is not between two pieces.
        let all = lens.iter().sum::<usize>() + gaps[1..].iter().sum::<usize>();
        let (low, high) = self.buffer.range();
        let room = high - low - all;
        let start = match rng.below(4) {
            0 => 0,
            1 | 2 => room,
            _ => rng.below(room.min(2 * PAGE) + 1),
        };
        self.pieces = vec![0..0; lens.len()];
        let mut at = start;
        for (i, &piece) in order.iter().enumerate() {
            at += if i > 0 { gaps[i] } else { 0 };
            self.pieces[piece] = at..at + lens[piece];
            at += lens[piece];
        }
        self.used = start..at;
        self.write(data);
    }

    fn span(&self, range: &Range<usize>) -> Span {
        self.buffer.place(range.len(), Place::At(range.start))
    }

    fn write(&mut self, mut data: &[u8]) {
        for piece in self.pieces.clone() {
            let (here, rest) = data.split_at(piece.len());
            let span = self.span(&piece);
            self.buffer.write(span, here);
            data = rest;
        }
        debug_assert!(data.is_empty());
    }

    /// Returns the content of all pieces, in the order in which they form the message.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let pieces = self.pieces.iter();
        let all: Vec<&[u8]> = pieces.map(|p| self.buffer.bytes(self.span(p))).collect();
        all.concat()
    }

    pub(super) fn list(&self) -> Vec<Piece> {
        let piece = |p: &Range<usize>| (self.buffer.ptr(self.span(p)), p.len());
        self.pieces.iter().map(piece).collect()
    }

    /// Returns a list that divides the same memory into more pieces.
    pub(super) fn finer(&self, rng: &mut SplitMix64) -> Vec<Piece> {
        let mut list = Vec::new();
        for (at, len) in self.list() {
            let first = if len > 1 { 1 + rng.below(len - 1) } else { len };
            list.push((at, first));
            if first < len {
                list.push((at.wrapping_add(first), len - first));
            }
        }
        list
    }

    /// Checks that the poison outside the pieces is intact.
    pub(super) fn check(&self) -> Result<(), String> {
        let (low, high) = self.buffer.range();
        let from = self.used.start.saturating_sub(AROUND);
        let to = (self.used.end + AROUND).min(high - low);
        let mut pieces = self.pieces.clone();
        // Sort by end, too: if two pieces begin at the same position, the first one is empty.
        pieces.sort_by_key(|p| (p.start, p.end));
        let mut at = from;
        for next in pieces.iter().map(Some).chain([None]) {
            let end = next.map_or(to, |p| p.start);
            let between = self.buffer.bytes(self.span(&(at..end)));
            if let Some(i) = find_stray(between) {
                return Err(format!(
                    "byte {} of its memory, which is no piece's",
                    at + i - from
                ));
            }
            at = next.map_or(to, |p| p.end);
        }
        Ok(())
    }

    /// Fills the pieces and the checked bytes around them with poison, and removes the pieces.
    pub(super) fn clear(&mut self) {
        let (low, high) = self.buffer.range();
        let from = self.used.start.saturating_sub(AROUND);
        let to = (self.used.end + AROUND).min(high - low);
        let span = self.span(&(from..to));
        self.buffer.wipe(span);
        self.pieces.clear();
        self.used = 0..0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_all_of_it_and_apart() {
        let mut scattered = Scattered::new().unwrap();
        let mut many = 0;
        for n in 0..500 {
            let mut rng = SplitMix64::stream(1, n);
            let len = rng.below(9000);
            let lens = divide(len, &mut rng);
            assert_eq!(lens.iter().sum::<usize>(), len);
            assert!(lens.len() <= MOST && (len == 0 || lens.iter().all(|l| *l > 0)));
            many += usize::from(lens.len() > 3);
            let mut data = vec![0; len];
            rng.fill(&mut data);
            scattered.lay(&lens, &data, &mut rng);
            assert_eq!(scattered.bytes(), data);
            assert_eq!(scattered.check(), Ok(()));
            let finer = scattered.finer(&mut rng);
            assert_eq!(finer.iter().map(|p| p.1).sum::<usize>(), len);
        }
        assert!(many > 100, "{many}");
    }

    #[test]
    fn a_byte_between_or_beside_them_is_found() {
        let mut scattered = Scattered::new().unwrap();
        let mut found = 0;
        for n in 0..200 {
            let mut rng = SplitMix64::stream(2, n);
            scattered.lay(&[100, 30, 7], &[1; 137], &mut rng);
            let at = match n % 2 {
                0 => scattered.used.end,
                _ => scattered.pieces.iter().map(|p| p.end).min().unwrap(),
            };
            let (low, high) = scattered.buffer.range();
            let taken = |p: &Range<usize>| p.contains(&at);
            if at == high - low || scattered.pieces.iter().any(taken) {
                continue;
            }
            let span = scattered.span(&(at..at + 1));
            scattered.buffer.write(span, &[0]);
            assert!(scattered.check().is_err());
            found += 1;
            scattered.clear();
            scattered.lay(&[5], &[1; 5], &mut rng);
            assert_eq!(scattered.check(), Ok(()));
        }
        assert!(found > 50, "{found}");
    }
}
