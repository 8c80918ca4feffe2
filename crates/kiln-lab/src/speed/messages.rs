//! What a candidate is called with: messages, IVs and room for the results, stored as a user stores them.

use kiln_kernel::xts::{Op, BLOCK};
use kiln_measure::SplitMix64;

/// Distinct messages of a set, where they are short.
pub const MESSAGES: usize = 256;
/// Bytes of all messages of a set, where they are long.
const BYTES: usize = 256 << 10;
/// Fewest messages of a set, however long.
const FEWEST: usize = 8;
/// Cache line.
const LINE: usize = 64;
/// Page; also the distance at which processors mistake a store for a load's.
const PAGE: usize = 4096;
/// What the space between results holds, to see whether it was written to.
const CANARY: u8 = 0xa5;

/// Bytes whose first lies at a chosen place in its page.
#[derive(Debug)]
struct Placed {
    memory: Vec<u8>,
    offset: usize,
    len: usize,
}

impl Placed {
    fn new(len: usize, in_page: usize, fill: u8) -> Placed {
        let memory = vec![fill; len + PAGE + in_page];
        let offset = memory.as_ptr().align_offset(PAGE) + in_page;
        Placed {
            memory,
            offset,
            len,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.offset..self.offset + self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.offset..self.offset + self.len]
    }
}

/// Messages of one length with their IVs, and where their results go (out of place).
///
/// Message i is at `i * stride`; the stride is an odd number of cache lines, so that the messages spread over all
/// sets of a cache. Destinations start half a page after sources, modulo a page: a load never lies a multiple of
/// 4 KiB from a recent store, which some processors would take for a dependency. The same for all candidates.
#[derive(Debug)]
pub struct Messages {
    /// What is to be done with them.
    pub op: Op,
    /// Each call's IV is the first block of the last one's result.
    pub chained: bool,
    /// Bytes of a message.
    pub len: usize,
    /// Bytes from one to the next.
    pub stride: usize,
    ivs: Vec<[u8; BLOCK]>,
    src: Placed,
    dst: Placed,
}

/// Where a result is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Which message.
    pub message: usize,
    /// Which byte of it; from `len` on, of the space after it.
    pub byte: usize,
}

impl Messages {
    /// Random ones.
    pub fn random(op: Op, len: usize, chained: bool, rng: &mut SplitMix64) -> Messages {
        let count = (BYTES / len.max(1)).clamp(FEWEST, MESSAGES);
        let stride = (len.div_ceil(LINE) | 1) * LINE;
        let mut ivs = vec![[0; BLOCK]; count];
        ivs.iter_mut().for_each(|iv| rng.fill(iv));
        let mut src = Placed::new(count * stride, 0, 0);
        rng.fill(src.bytes_mut());
        Messages {
            op,
            chained,
            len,
            stride,
            ivs,
            src,
            dst: Placed::new(count * stride, PAGE / 2, CANARY),
        }
    }

    /// The same messages in memory of their own, nothing in the results.
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

    /// How many.
    pub fn count(&self) -> usize {
        self.ivs.len()
    }

    /// IVs, sources, destinations.
    pub fn parts(&mut self) -> (&[[u8; BLOCK]], &[u8], &mut [u8]) {
        (&self.ivs, self.src.bytes(), self.dst.bytes_mut())
    }

    /// Message i, its IV and its result.
    pub fn one(&self, i: usize) -> (&[u8; BLOCK], &[u8], &[u8]) {
        let at = i * self.stride;
        (
            &self.ivs[i],
            &self.src.bytes()[at..at + self.len],
            &self.dst.bytes()[at..at + self.len],
        )
    }

    /// Forgets the results.
    pub fn wipe(&mut self) {
        self.dst.bytes_mut().fill(CANARY);
    }

    /// Whether the first `calls` results are those of `right`, and nothing was written between them.
    pub fn compare(&self, right: &Messages, calls: u64) -> Result<(), Wrong> {
        let calls = usize::try_from(calls).unwrap_or(usize::MAX);
        let (got, want) = (self.dst.bytes(), right.dst.bytes());
        for message in 0..self.count().min(calls) {
            let at = message * self.stride;
            let fault = |byte| Err(Wrong { message, byte });
            if let Some(byte) = (0..self.len).find(|b| got[at + b] != want[at + b]) {
                return fault(byte);
            }
            let between = &got[at + self.len..at + self.stride];
            if let Some(byte) = between.iter().position(|&b| b != CANARY) {
                return fault(self.len + byte);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(len: usize) -> Messages {
        Messages::random(Op::Encrypt, len, false, &mut SplitMix64(1))
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
            assert_eq!((m.count(), m.stride), (count, stride), "{len}");
            assert_eq!(m.stride / LINE % 2, 1, "{len}");
        }
    }

    #[test]
    fn placed_as_promised_and_equal_afresh() {
        let mut m = some(100);
        let again = m.afresh();
        assert_eq!(m.one(7).1, again.one(7).1);
        assert_eq!(m.one(7).0, again.one(7).0);
        assert_ne!(m.one(7).1, m.one(8).1);
        let (ivs, src, dst) = m.parts();
        assert_eq!(src.as_ptr() as usize % PAGE, 0);
        assert_eq!(dst.as_ptr() as usize % PAGE, PAGE / 2);
        assert!(ivs.windows(2).all(|w| w[0] != w[1]));
    }

    #[test]
    fn one_wrong_bit_or_one_byte_beyond_is_found() {
        let mut right = some(100);
        right.parts().2.fill(CANARY);
        let mut m = right.afresh();
        assert_eq!(m.compare(&right, 256), Ok(()));
        let stride = m.stride;
        m.parts().2[3 * stride + 99] ^= 0x10;
        let wrong = |message, byte| Err(Wrong { message, byte });
        assert_eq!(m.compare(&right, 256), wrong(3, 99));
        assert_eq!(m.compare(&right, 3), Ok(()));
        m.wipe();
        m.parts().2[3 * stride + 100] ^= 0x10;
        assert_eq!(m.compare(&right, 256), wrong(3, 100));
    }
}
