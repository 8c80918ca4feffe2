//! Parses the subset of DER that is used to encode keys: lengths of up to four bytes, and
//! non-negative integers.

use crate::wire::Status;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
/// Tag of the public key in an `ECPrivateKey`.
const CONTEXT_1: u8 = 0xa1;

/// The unread bytes of a DER value.
pub(super) struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Reads a sequence that must span all of `bytes`.
    pub(super) fn sequence(bytes: &'a [u8]) -> Result<Der<'a>, Status> {
        let mut outer = Der(bytes);
        let inner = outer.expect(SEQUENCE)?;
        match outer.0 {
            [] => Ok(Der(inner)),
            _ => Err(Status::Err),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn read_value(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, len], rest) = self.0.split_first_chunk()?;
        let (len, rest) = match len {
            0..=0x7f => (usize::from(len), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(len & 0xf))?;
                let len = bytes.iter().fold(0, |n, &b| n << 8 | usize::from(b));
                (len, rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, value))
    }

    fn expect(&mut self, wanted: u8) -> Result<&'a [u8], Status> {
        match self.read_value() {
            Some((tag, value)) if tag == wanted => Ok(value),
            _ => Err(Status::Err),
        }
    }

    /// Reads an integer in a key, and returns it as big-endian bytes without leading zeros.
    /// Integers in keys are never negative, so if the highest bit is set, the zero byte before it
    /// is optional. Some encoders omit that byte, and so does a test in Linux.
    pub(super) fn number(&mut self) -> Result<&'a [u8], Status> {
        let value = self.expect(INTEGER)?;
        if value.is_empty() {
            return Err(Status::Err);
        }
        let zeros = value.iter().take_while(|&&b| b == 0).count();
        Ok(&value[zeros..])
    }

    pub(super) fn octets(&mut self) -> Result<&'a [u8], Status> {
        self.expect(OCTET_STRING)
    }

    /// Reads the bit string in the field with the tag `[1]`. Returns `None` if the rest of the
    /// value has no such field.
    pub(super) fn tagged_bits(&mut self) -> Result<Option<&'a [u8]>, Status> {
        while !self.0.is_empty() {
            let (tag, value) = self.read_value().ok_or(Status::Err)?;
            if tag == CONTEXT_1 {
                let bits = Der(value).expect(BIT_STRING)?;
                // The bit string must consist of whole bytes.
                let bytes = bits.strip_prefix(&[0]).ok_or(Status::Err)?;
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let bytes = [2, 1, 5, 2, 0x81, 2, 0, 0x80, 2, 1, 0, 2, 1, 0x80, 2, 0];
        let whole = [&[0x30, 16][..], &bytes].concat();
        let more = [&whole[..], &[0]].concat();
        assert!(Der::sequence(&more).is_err(), "a byte behind it");
        let Ok(mut der) = Der::sequence(&whole) else {
            panic!("it is a sequence");
        };
        assert_eq!(der.number(), Ok(&[5][..]));
        assert_eq!(der.number(), Ok(&[0x80][..]));
        assert_eq!(der.number(), Ok(&[][..]));
        assert_eq!(der.number(), Ok(&[0x80][..]), "without a zero before it");
        assert_eq!(der.number(), Err(Status::Err), "no byte at all");
    }

    #[test]
    fn lengths_that_lie() {
        for bytes in [
            &[0x30][..],
            &[0x30, 0x80],
            &[0x30, 0x01],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0],
            &[0x30, 0x85, 0, 0, 0, 0, 0],
            &[0x31, 0],
        ] {
            assert!(Der::sequence(bytes).is_err(), "{bytes:x?}");
        }
    }
}
