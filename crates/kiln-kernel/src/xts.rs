//! AES-XTS.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::fmt;
use std::ptr::NonNull;

use zeroize::Zeroize;

use crate::cpu;
use crate::sys;
use crate::tier::{static_str, Tier};

/// Bytes of an IV, and of the shortest message.
pub const BLOCK: usize = 16;

/// Encrypt or decrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Plaintext in, ciphertext out.
    Encrypt,
    /// The inverse.
    Decrypt,
}

/// What `kernel/` refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// XTS keys have 32, 48 or 64 bytes.
    KeyLength(usize),
    /// A message has at least 16 bytes.
    TooShort(usize),
    /// Source and destination must be equally long.
    Lengths {
        /// Bytes of the source.
        src: usize,
        /// Bytes of the destination.
        dst: usize,
    },
    /// The CPU lacks, or the mask forbids, the implementation's tier.
    Unusable(Tier),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::KeyLength(n) => {
                write!(f, "a key of {n} bytes: xts(aes) takes 32, 48 or 64")
            }
            Error::TooShort(n) => write!(f, "a message of {n} bytes: XTS takes at least 16"),
            Error::Lengths { src, dst } => {
                write!(
                    f,
                    "source of {src} bytes, destination of {dst}: they must be equal"
                )
            }
            Error::Unusable(t) => write!(f, "tier {t} cannot be used here"),
        }
    }
}

impl std::error::Error for Error {}

/// One implementation, as `kernel/` lists it.
#[derive(Clone, Copy)]
pub struct Impl(pub(crate) &'static sys::XtsImpl);

// SAFETY: a descriptor is constant, static data.
unsafe impl Send for Impl {}
// SAFETY: as above.
unsafe impl Sync for Impl {}

impl Impl {
    /// All of them, usable here or not, in order of priority.
    pub fn all() -> Vec<Impl> {
        // SAFETY: no arguments; the index stays below the count, so each pointer
        // is to a static descriptor.
        let mut all: Vec<Impl> = unsafe {
            (0..sys::kiln_xts_impls())
                .map(|i| Impl(&*sys::kiln_xts_impl(i)))
                .collect()
        };
        all.sort_by_key(|i| i.priority());
        all
    }

    /// The one of this driver name.
    pub fn find(driver: &str) -> Option<Impl> {
        Impl::all().into_iter().find(|i| i.driver() == driver)
    }

    /// The one a caller gets who asks for `xts(aes)`: usable, highest priority.
    pub fn best() -> Impl {
        Impl::all()
            .into_iter()
            .rfind(|i| i.tier().usable())
            .expect("the generic tier is always usable")
    }

    /// Driver name, such as `xts-aes-vaes-avx512`.
    pub fn driver(self) -> &'static str {
        // SAFETY: the descriptor's name is a string literal.
        unsafe { static_str(self.0.driver) }.unwrap_or("?")
    }

    /// The tier it is written for.
    pub fn tier(self) -> Tier {
        Tier::from_raw(self.0.tier)
    }

    /// Higher is preferred.
    pub fn priority(self) -> u32 {
        self.0.priority
    }

    /// Whether its time is independent of keys and data.
    pub fn constant_time(self) -> bool {
        self.0.constant_time
    }

    /// En- or decrypt `src` into `dst`.
    pub fn crypt(
        self,
        op: Op,
        key: &Key,
        iv: &[u8; BLOCK],
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), Error> {
        if src.len() != dst.len() {
            return Err(Error::Lengths {
                src: src.len(),
                dst: dst.len(),
            });
        }
        // SAFETY: source and destination have `len` bytes and, being a shared and
        // an exclusive borrow, do not overlap.
        unsafe { self.crypt_raw(op, key, iv, src.as_ptr(), dst.as_mut_ptr(), src.len()) }
    }

    /// En- or decrypt `data` where it lies.
    pub fn crypt_in_place(
        self,
        op: Op,
        key: &Key,
        iv: &[u8; BLOCK],
        data: &mut [u8],
    ) -> Result<(), Error> {
        let p = data.as_mut_ptr();
        // SAFETY: the same bytes as source and destination is what in place means.
        unsafe { self.crypt_raw(op, key, iv, p, p, data.len()) }
    }

    /// # Safety
    /// `src` is readable and `dst` writable for `len` bytes; they are equal or do
    /// not overlap.
    unsafe fn crypt_raw(
        self,
        op: Op,
        key: &Key,
        iv: &[u8; BLOCK],
        src: *const u8,
        dst: *mut u8,
        len: usize,
    ) -> Result<(), Error> {
        if !self.tier().usable() {
            return Err(Error::Unusable(self.tier()));
        }
        let mut call = sys::XtsCall {
            imp: self.0,
            key: key.0.as_ptr(),
            dst,
            src,
            iv: iv.as_ptr(),
            len,
            decrypt: op == Op::Decrypt,
        };
        // SAFETY: the tier was checked, the key is expanded, the buffers are the
        // caller's promise.
        let ret = unsafe { cpu::gate(sys::kiln_xts_crypt, (&raw mut call).cast()) };
        if ret == 0 {
            Ok(())
        } else {
            Err(Error::TooShort(len))
        }
    }

    /// Make `calls` calls back to back in one FPU section: see [`Series`].
    pub fn run(self, series: &mut Series<'_>, calls: u64) -> Result<(), Error> {
        if !self.tier().usable() {
            return Err(Error::Unusable(self.tier()));
        }
        let mut raw = sys::XtsSeries {
            imp: self.0,
            key: series.key.0.as_ptr(),
            dst: series.dst.as_mut_ptr(),
            src: series.src.as_ptr(),
            iv: series.ivs.as_ptr().cast(),
            len: series.len,
            stride: series.stride,
            count: series.count,
            calls,
            decrypt: series.op == Op::Decrypt,
            chained: series.chained,
            sections: series.sections as u32,
        };
        // SAFETY: `Series::new` checked that `count` messages of `len` bytes at
        // `stride` lie in both buffers and that there are as many IVs.
        unsafe { cpu::gate(sys::kiln_xts_run, (&raw mut raw).cast()) };
        Ok(())
    }
}

impl fmt::Debug for Impl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.driver())
    }
}

/// An expanded key; wiped when dropped.
pub struct Key(pub(crate) NonNull<sys::XtsKey>);

// SAFETY: after `new` the memory is only read until it is dropped.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

impl Key {
    fn layout() -> Layout {
        // SAFETY: no arguments, returns a constant.
        let size = unsafe { sys::kiln_xts_key_size() };
        Layout::from_size_align(size, 64).expect("a small power of two")
    }

    /// Expand Key1 then Key2, 32, 48 or 64 bytes together.
    pub fn new(raw: &[u8]) -> Result<Key, Error> {
        let layout = Key::layout();
        // SAFETY: the layout's size is not zero.
        let p = unsafe { alloc_zeroed(layout) };
        let Some(p) = NonNull::new(p) else {
            handle_alloc_error(layout)
        };
        let key = Key(p.cast());
        // SAFETY: the memory has the size and alignment of `struct xts_key`; `raw`
        // has the length given with it.
        match unsafe { sys::kiln_xts_setkey(key.0.as_ptr(), raw.as_ptr(), raw.len()) } {
            0 => Ok(key),
            _ => Err(Error::KeyLength(raw.len())),
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let layout = Key::layout();
        let p = self.0.as_ptr().cast::<u8>();
        // SAFETY: allocated in `new` with this layout, initialised throughout,
        // borrowed by nobody any more.
        unsafe {
            std::slice::from_raw_parts_mut(p, layout.size()).zeroize();
            dealloc(p, layout);
        }
    }
}

/// FPU sections of a [`Series`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sections {
    /// One around all calls.
    One,
    /// One for each call.
    Each,
    /// The same without the section clock, to measure what that costs.
    EachUntimed,
}

/// A list of messages to call a primitive with, as a caller with many messages
/// does: message i is at `i * stride`, with IV i, and after the last comes the first.
pub struct Series<'a> {
    key: &'a Key,
    op: Op,
    src: &'a [u8],
    dst: &'a mut [u8],
    ivs: &'a [[u8; BLOCK]],
    len: usize,
    stride: usize,
    count: usize,
    chained: bool,
    sections: Sections,
}

impl<'a> Series<'a> {
    /// `ivs.len()` messages of `len` bytes, `stride` apart in `src` and in `dst`.
    /// With `chained` each call's IV is the first block of the last one's output.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        key: &'a Key,
        op: Op,
        src: &'a [u8],
        dst: &'a mut [u8],
        ivs: &'a [[u8; BLOCK]],
        len: usize,
        stride: usize,
        chained: bool,
    ) -> Result<Series<'a>, Error> {
        if len < BLOCK {
            return Err(Error::TooShort(len));
        }
        let count = ivs.len();
        assert!(
            count > 0 && stride >= len,
            "a series has messages, and they do not overlap"
        );
        let end = (count - 1)
            .checked_mul(stride)
            .and_then(|n| n.checked_add(len));
        if end.is_none_or(|end| end > src.len() || end > dst.len()) {
            return Err(Error::Lengths {
                src: src.len(),
                dst: dst.len(),
            });
        }
        Ok(Series {
            key,
            op,
            src,
            dst,
            ivs,
            len,
            stride,
            count,
            chained,
            sections: Sections::One,
        })
    }

    /// Choose the sections the calls are made in; one around them all otherwise.
    pub fn sections(mut self, sections: Sections) -> Series<'a> {
        self.sections = sections;
        self
    }

    /// What the calls wrote.
    pub fn dst(&self) -> &[u8] {
        self.dst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IEEE 1619-2018, annex B, vector 2, in every usable implementation.
    #[test]
    fn vector_2_of_ieee_1619() {
        let mut raw = [0x11; 32];
        raw[16..].fill(0x22);
        let key = Key::new(&raw).unwrap();
        let mut iv = [0; BLOCK];
        iv[..5].fill(0x33);
        let plain = [0x44; 32];
        let want = [
            0xc4, 0x54, 0x18, 0x5e, 0x6a, 0x16, 0x93, 0x6e, 0x39, 0x33, 0x40, 0x38, 0xac, 0xef,
            0x83, 0x8b, 0xfb, 0x18, 0x6f, 0xff, 0x74, 0x80, 0xad, 0xc4, 0x28, 0x93, 0x82, 0xec,
            0xd6, 0xd3, 0x94, 0xf0,
        ];
        for imp in Impl::all().into_iter().filter(|i| i.tier().usable()) {
            let mut got = [0; 32];
            imp.crypt(Op::Encrypt, &key, &iv, &plain, &mut got).unwrap();
            assert_eq!(got, want, "{imp:?}");
            imp.crypt_in_place(Op::Decrypt, &key, &iv, &mut got)
                .unwrap();
            assert_eq!(got, plain, "{imp:?}");
        }
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        assert_eq!(Key::new(&[0; 33]).err(), Some(Error::KeyLength(33)));
        let key = Key::new(&[1; 64]).unwrap();
        let imp = Impl::best();
        let mut out = [7; 15];
        let err = imp.crypt(Op::Encrypt, &key, &[0; 16], &[0; 15], &mut out);
        assert_eq!(err, Err(Error::TooShort(15)));
        assert_eq!(out, [7; 15]);
    }
}
