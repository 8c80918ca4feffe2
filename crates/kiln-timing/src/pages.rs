//! The memory for a message in the layout of Linux's tcrypt, where each page is one piece of a
//! request.

use std::ops::Range;

use super::messages::{Messages, Placed, PAGE};
use super::shape::{Kind, Shape};

/// Memory for the message of one request and for its result.
///
/// A cipher's text follows the key in the first page and is encrypted in place. A text of 4096
/// bytes therefore spans two pages. An AEAD's associated data is a separate piece in both source
/// and destination; the text and the result each begin at a page boundary. A hash's message begins
/// at a page boundary and is divided into pages.
pub(super) struct Pages {
    shape: Shape,
    memory: Placed,
    src: Vec<Range<usize>>,
    dst: Vec<Range<usize>>,
}

impl Pages {
    /// Allocates memory for a message of the given shape and a key of `key` bytes.
    pub(super) fn new(shape: Shape, key: usize) -> Pages {
        let assoc = match shape.kind {
            Kind::Aead => shape.prefix,
            _ => 0,
        };
        let room = |len: usize| len.div_ceil(PAGE) * PAGE + PAGE;
        let (src, dst, end) = match shape.kind {
            Kind::Skcipher => {
                let text = in_pages(key % PAGE, shape.len);
                (text.clone(), text, room(key % PAGE + shape.len))
            }
            Kind::Aead => {
                let answer = PAGE + room(shape.src());
                let list = |at: usize, len: usize| {
                    let mut pieces = in_pages(0, assoc);
                    pieces.extend(in_pages(at, len));
                    pieces
                };
                (
                    list(PAGE, shape.src() - assoc),
                    list(answer, shape.dst() - assoc),
                    answer + room(shape.dst()),
                )
            }
            Kind::Hash | Kind::Kpp | Kind::Parity => {
                (in_pages(0, shape.src()), Vec::new(), room(shape.src()))
            }
        };
        Pages {
            shape,
            memory: Placed::new(end, 0, 0),
            src,
            dst,
        }
    }

    /// Returns the message shape that the memory was allocated for.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns whether the result overwrites the message in memory.
    pub(super) fn in_place(&self) -> bool {
        self.src == self.dst
    }

    /// Returns the pieces of the request's source and of its destination.
    pub(super) fn pieces(&mut self) -> (Vec<Piece>, Vec<Piece>) {
        let first = self.memory.bytes_mut().as_mut_ptr();
        let all = |ranges: &[Range<usize>]| {
            // SAFETY: `first` points to `memory`, and every range in `src` and `dst` is within this
            // memory.
            let piece = |r: &Range<usize>| (unsafe { first.add(r.start) }, r.len());
            ranges.iter().map(piece).collect()
        };
        (all(&self.src), all(&self.dst))
    }

    /// Copies the first message into the pages.
    pub(super) fn fill(&mut self, messages: &Messages) {
        let mut from = messages.source(0);
        for piece in &self.src {
            let (here, rest) = from.split_at(piece.len());
            self.memory.bytes_mut()[piece.clone()].copy_from_slice(here);
            from = rest;
        }
    }

    /// Copies the result from the pages to the first message's destination.
    pub(super) fn answer(&self, messages: &mut Messages) {
        let mut at = 0;
        let to = messages.parts().2;
        for piece in &self.dst {
            to[at..at + piece.len()].copy_from_slice(&self.memory.bytes()[piece.clone()]);
            at += piece.len();
        }
    }
}

/// Address of a piece, and its length in bytes.
pub(super) type Piece = (*mut u8, usize);

/// Divides the `len` bytes that start at `at` into ranges that do not cross pages. The result
/// contains at least one range.
fn in_pages(at: usize, len: usize) -> Vec<Range<usize>> {
    let (mut at, end) = (at, at + len);
    let mut pieces = Vec::new();
    while at < end || pieces.is_empty() {
        let next = end.min((at / PAGE + 1) * PAGE);
        pieces.push(at..next);
        at = next;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use kiln_measure::SplitMix64;

    use super::super::shape::Op;
    use super::*;

    fn lens(pieces: &[Piece]) -> Vec<usize> {
        pieces.iter().map(|p| p.1).collect()
    }

    #[test]
    fn as_tcrypt_has_them() {
        let cipher = Shape::skcipher(Op::Encrypt, 4096, 16);
        let mut pages = Pages::new(cipher, 64);
        let (src, dst) = pages.pieces();
        assert!(pages.in_place() && src == dst);
        assert_eq!(lens(&src), [4032, 64]);
        assert_eq!(src[0].0 as usize % PAGE, 64);
        assert_eq!(src[1].0 as usize % PAGE, 0);
        let aead = Shape {
            kind: Kind::Aead,
            prefix: 16,
            tag: 16,
            ..cipher
        };
        let mut pages = Pages::new(aead, 32);
        let (src, dst) = pages.pieces();
        assert_eq!(lens(&src), [16, 4096]);
        assert_eq!(lens(&dst), [16, 4096, 16]);
        assert_eq!(src[0], dst[0]);
        assert!(src[1].0 != dst[1].0 && !pages.in_place());
        let hash = Shape {
            kind: Kind::Hash,
            digest: 32,
            ..Shape::skcipher(Op::Digest, 8200, 0)
        };
        let (src, dst) = Pages::new(hash, 0).pieces();
        assert_eq!(lens(&src), [4096, 4096, 8]);
        assert!(dst.is_empty());
        assert_eq!(
            lens(&Pages::new(Shape { len: 0, ..hash }, 0).pieces().0),
            [0]
        );
    }

    #[test]
    fn what_goes_in_comes_out_in_place() {
        let shape = Shape::skcipher(Op::Encrypt, 9000, 16);
        let mut messages = Messages::so_many(1, shape, false, &mut SplitMix64(1));
        let mut pages = Pages::new(shape, 64);
        pages.fill(&messages);
        pages.answer(&mut messages);
        assert_eq!(messages.result(0), messages.source(0));
    }
}
