//! Reads and writes little-endian numbers.

use super::Fault;

/// Reads numbers and slices sequentially. The field holds the bytes that remain to be read.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], Fault> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Fault::Short)?;
        self.0 = tail;
        Ok(head)
    }

    /// Like [`Reader::take`], but for a `u32` length that was read from the request.
    pub(super) fn field(&mut self, n: u32) -> Result<&'a [u8], Fault> {
        self.take(usize::try_from(n).map_err(|_| Fault::Short)?)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        let (head, tail) = self.0.split_first_chunk().ok_or(Fault::Short)?;
        self.0 = tail;
        Ok(u32::from_le_bytes(*head))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        let (head, tail) = self.0.split_first_chunk().ok_or(Fault::Short)?;
        self.0 = tail;
        Ok(u64::from_le_bytes(*head))
    }

    /// Reads the next `N` 32-bit numbers.
    pub(super) fn words<const N: usize>(&mut self) -> Result<[u32; N], Fault> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.u32()?;
        }
        Ok(words)
    }
}

/// A buffer that numbers can be appended to.
pub(super) trait Put {
    fn words(&mut self, words: &[u32]);
    fn u64(&mut self, n: u64);
    /// Appends zeros until the part of the buffer that begins at `start` is `len` bytes long.
    fn pad(&mut self, start: usize, len: usize);
}

impl Put for Vec<u8> {
    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn u64(&mut self, n: u64) {
        self.extend_from_slice(&n.to_le_bytes());
    }

    fn pad(&mut self, start: usize, len: usize) {
        self.resize(start + len, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_no_further_than_there_is() {
        let mut r = Reader(&[1, 0, 0, 0, 2, 0, 0]);
        assert_eq!(r.u32(), Ok(1));
        assert_eq!(r.u32(), Err(Fault::Short));
        assert_eq!(r.field(u32::MAX), Err(Fault::Short));
        assert_eq!(r.take(3), Ok(&[2, 0, 0][..]));
        assert_eq!(r.u64(), Err(Fault::Short));
    }
}
