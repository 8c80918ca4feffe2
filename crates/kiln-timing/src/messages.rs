//! The memory that calls use: messages, IVs and space for the results, laid out as a typical caller
//! would lay them out.

use kiln_kernel::cipher;
use kiln_measure::SplitMix64;

use super::shape::{Op, Shape};

/// Number of distinct messages in a set of short messages.
pub(super) const MESSAGES: usize = 256;
/// Total size of the messages in a set of long messages, in bytes.
const BYTES: usize = 256 << 10;
/// Minimum number of messages in a set, regardless of their length.
const FEWEST: usize = 8;
/// Size of a cache line in bytes.
const LINE: usize = 64;
/// Size of a page in bytes. If the addresses of a load and a recent store differ by a multiple of
/// this size, some processors treat the load as dependent on the store.
pub(super) const PAGE: usize = 4096;
/// Value of every byte between the results. If one of these bytes has changed, something was
/// written outside the results.
const CANARY: u8 = 0xa5;
/// IVs are stored in units of this many bytes.
pub const IV_UNIT: usize = 16;

/// Memory that begins at a chosen offset within a page.
#[derive(Debug)]
pub(super) struct Placed {
    memory: Vec<u8>,
    offset: usize,
    len: usize,
}

impl Placed {
    pub(super) fn new(len: usize, in_page: usize, fill: u8) -> Placed {
        let memory = vec![fill; len + PAGE + in_page];
        let offset = memory.as_ptr().align_offset(PAGE) + in_page;
        Placed {
            memory,
            offset,
            len,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.offset..self.offset + self.len]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.offset..self.offset + self.len]
    }
}

/// Messages of the same shape with their IVs, and separate buffers for their results.
///
/// Message i is at `i * src_stride`, and its result is at `i * dst_stride`. Strides are odd numbers
/// of cache lines, so that the messages are spread over all sets of a cache. Modulo the page size,
/// the destinations start half a page after the sources. A load is therefore never a multiple of 4
/// KiB away from a recent store, which some processors would treat as a dependency. The layout is
/// the same for all candidates.
#[derive(Debug)]
pub struct Messages {
    /// The shape and operation of each message.
    pub shape: Shape,
    /// Whether each call's IV is the beginning of the result of the previous call.
    pub chained: bool,
    /// Distance between the starts of two consecutive sources, in bytes.
    pub src_stride: usize,
    /// Distance between the starts of two consecutive destinations, in bytes.
    pub dst_stride: usize,
    count: usize,
    ivs: Vec<[u8; IV_UNIT]>,
    src: Placed,
    dst: Placed,
}

/// The position of a wrong byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The message's index in the set.
    pub message: usize,
    /// Index of the byte within the message's result. An index beyond the end of the result refers
    /// to the space after the result.
    pub byte: usize,
}

fn stride(len: usize) -> usize {
    (len.div_ceil(LINE) | 1) * LINE
}

/// Returns the number of units that an IV of `iv` bytes occupies. It is at least 1, so that every
/// message has an entry even if the algorithm has no IV.
fn iv_units(iv: usize) -> usize {
    iv.div_ceil(IV_UNIT).max(1)
}

impl Messages {
    /// Creates random messages. The number of messages depends on their length.
    pub fn random(shape: Shape, chained: bool, rng: &mut SplitMix64) -> Messages {
        let count = (BYTES / shape.len.max(1)).clamp(FEWEST, MESSAGES);
        Messages::so_many(count, shape, chained, rng)
    }

    /// Creates `count` random messages.
    pub fn so_many(count: usize, shape: Shape, chained: bool, rng: &mut SplitMix64) -> Messages {
        let mut ivs = vec![[0; IV_UNIT]; count * iv_units(shape.iv)];
        ivs.iter_mut().for_each(|iv| rng.fill(iv));
        let (src_stride, dst_stride) = (stride(shape.src()), stride(shape.dst()));
        let mut src = Placed::new(count * src_stride, 0, 0);
        rng.fill(src.bytes_mut());
        Messages {
            shape,
            chained,
            src_stride,
            dst_stride,
            count,
            ivs,
            src,
            dst: Placed::new(count * dst_stride, PAGE / 2, CANARY),
        }
    }

    /// Copies the messages, but not their results, into newly allocated memory.
    pub fn afresh(&self) -> Messages {
        let mut src = Placed::new(self.src.len, 0, 0);
        src.bytes_mut().copy_from_slice(self.src.bytes());
        Messages {
            ivs: self.ivs.clone(),
            src,
            dst: Placed::new(self.dst.len, PAGE / 2, CANARY),
            ..*self
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the distance between consecutive IVs, in units of [`IV_UNIT`] bytes.
    pub(crate) fn iv_units(&self) -> usize {
        iv_units(self.shape.iv)
    }

    /// Returns all IVs, all sources and all destinations.
    pub fn parts(&mut self) -> (&[[u8; IV_UNIT]], &[u8], &mut [u8]) {
        (&self.ivs, self.src.bytes(), self.dst.bytes_mut())
    }

    /// Returns mutable IVs, so that the caller can set the values that some algorithms require.
    pub fn ivs_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (units, len) = (self.iv_units(), self.shape.iv);
        self.ivs
            .chunks_mut(units)
            .map(move |iv| &mut iv.as_flattened_mut()[..len])
    }

    /// Returns the IV and the mutable source of message `i`.
    pub fn one_mut(&mut self, i: usize) -> (&[u8], &mut [u8]) {
        let units = self.iv_units();
        let at = i * self.src_stride;
        (
            &self.ivs[i * units..][..units].as_flattened()[..self.shape.iv],
            &mut self.src.bytes_mut()[at..at + self.shape.src()],
        )
    }

    /// Returns the source of message `i`, including the bytes that precede the text.
    pub fn source(&self, i: usize) -> &[u8] {
        &self.src.bytes()[i * self.src_stride..][..self.shape.src()]
    }

    /// Returns the whole result of message `i`.
    pub fn result(&self, i: usize) -> &[u8] {
        let at = i * self.dst_stride;
        &self.dst.bytes()[at..at + self.shape.dst()]
    }

    /// Overwrites all results, so that a later check sees only new results.
    pub fn wipe(&mut self) {
        self.dst.bytes_mut().fill(CANARY);
    }

    /// Checks that the results of the first `calls` calls equal those in `right`, and that nothing
    /// was written between results.
    pub fn compare(&self, right: &Messages, calls: u64) -> Result<(), Wrong> {
        let calls = usize::try_from(calls).unwrap_or(usize::MAX);
        let (got, want) = (self.dst.bytes(), right.dst.bytes());
        let (first, len) = (self.shape.unsaid(), self.shape.dst());
        for message in 0..self.count().min(calls) {
            let at = message * self.dst_stride;
            let fault = |byte| Err(Wrong { message, byte });
            if let Some(byte) = (first..len).find(|b| got[at + b] != want[at + b]) {
                return fault(byte);
            }
            let between = &got[at + len..at + self.dst_stride];
            if let Some(byte) = between.iter().position(|&b| b != CANARY) {
                return fault(len + byte);
            }
        }
        Ok(())
    }
}

/// Converts an operation to the type that `kernel/` uses.
pub(super) fn cipher_op(op: Op) -> cipher::Op {
    match op {
        Op::Decrypt => cipher::Op::Decrypt,
        _ => cipher::Op::Encrypt,
    }
}

/// Converts the messages to the form that `kernel/` accepts. Resizes `iv_room` so that it can hold
/// working copies of the IVs.
pub(super) fn cipher_messages<'a>(
    op: Op,
    iv_room: &'a mut Vec<u8>,
    messages: &'a mut Messages,
) -> kiln_kernel::messages::Messages<'a> {
    let (shape, count) = (messages.shape, messages.count());
    let (src_stride, dst_stride) = (messages.src_stride, messages.dst_stride);
    let iv_stride = match shape.iv {
        0 => 0,
        _ => messages.iv_units() * IV_UNIT,
    };
    iv_room.resize(count * iv_stride, 0);
    let (ivs, src, dst) = messages.parts();
    kiln_kernel::messages::Messages {
        op: cipher_op(op),
        src,
        dst,
        ivs: ivs.as_flattened(),
        iv_room,
        src_stride,
        dst_stride,
        iv_stride,
        len: shape.len,
        prefix: shape.prefix,
        tag_size: shape.tag,
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::Kind;
    use super::*;

    fn some(len: usize) -> Messages {
        let shape = Shape::skcipher(Op::Encrypt, len, 16);
        Messages::random(shape, false, &mut SplitMix64(1))
    }

    #[test]
    fn as_many_as_there_should_be_and_apart() {
        for (len, count, stride) in [
            (16, 256, 64),
            (64, 256, 64),
            (65, 256, 192),
            (128, 256, 192),
            (1024, 256, 1088),
            (1420, 184, 1472),
            (16384, 16, 16448),
            (1 << 20, 8, (1 << 20) + 64),
        ] {
            let m = some(len);
            assert_eq!((m.count(), m.src_stride), (count, stride), "{len}");
            assert_eq!(m.src_stride, m.dst_stride);
            assert_eq!(m.src_stride / LINE % 2, 1, "{len}");
        }
    }

    #[test]
    fn placed_as_promised_and_equal_afresh() {
        let mut m = some(100);
        let mut again = m.afresh();
        assert_eq!(m.one_mut(7), again.one_mut(7));
        let other = again.one_mut(8).1.to_vec();
        assert_ne!(m.one_mut(7).1, other);
        let (ivs, src, dst) = m.parts();
        assert_eq!(src.as_ptr() as usize % PAGE, 0);
        assert_eq!(dst.as_ptr() as usize % PAGE, PAGE / 2);
        assert!(ivs.windows(2).all(|w| w[0] != w[1]));
    }

    #[test]
    fn ivs_have_their_length() {
        for (iv, units) in [(0, 1), (8, 1), (16, 1), (24, 2), (32, 2)] {
            let shape = Shape::skcipher(Op::Encrypt, 64, iv);
            let mut m = Messages::random(shape, false, &mut SplitMix64(1));
            assert_eq!(m.iv_units(), units);
            assert_eq!(m.parts().0.len(), 256 * units);
            assert!(m.ivs_mut().all(|x| x.len() == iv));
            assert_eq!(m.one_mut(255).0.len(), iv);
        }
    }

    #[test]
    fn one_wrong_bit_or_one_byte_beyond_is_found() {
        let mut right = some(100);
        right.parts().2.fill(CANARY);
        let mut m = right.afresh();
        assert_eq!(m.compare(&right, 256), Ok(()));
        let stride = m.dst_stride;
        m.parts().2[3 * stride + 99] ^= 0x10;
        let wrong = |message, byte| Err(Wrong { message, byte });
        assert_eq!(m.compare(&right, 256), wrong(3, 99));
        assert_eq!(m.compare(&right, 3), Ok(()));
        m.wipe();
        m.parts().2[3 * stride + 100] ^= 0x10;
        assert_eq!(m.compare(&right, 256), wrong(3, 100));
    }

    #[test]
    fn room_for_associated_data_need_not_be_written() {
        let shape = Shape {
            kind: Kind::Aead,
            prefix: 16,
            tag: 16,
            ..Shape::skcipher(Op::Encrypt, 64, 12)
        };
        let right = Messages::random(shape, false, &mut SplitMix64(1));
        let mut m = right.afresh();
        m.parts().2[15] ^= 1;
        assert_eq!(m.compare(&right, 256), Ok(()));
        m.parts().2[16] ^= 1;
        assert!(m.compare(&right, 256).is_err());
        m.wipe();
        m.parts().2[16 + 64 + 15] ^= 1;
        assert_eq!(m.compare(&right, 1).unwrap_err().byte, 95);
    }
}
