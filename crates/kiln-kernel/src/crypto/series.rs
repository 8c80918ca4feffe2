//! Requests to be timed: many messages or one, the loop in `kernel/`.

use std::ptr;

use super::{check, scatterlist, Api, Errno, Skcipher, Transform};
use crate::cipher::{Impl, Kind, Op};
use crate::cpu;
use crate::sys;

/// Messages and where their answers go, as [`crate::calls::Calls`] has them. Each is a request with one piece on
/// either side, made afresh.
pub struct Series<'a> {
    /// A hash ignores it.
    pub op: Op,
    /// What goes in: associated data, then the message, then a tag to open. It is not written.
    pub src: &'a [u8],
    /// What comes out: room for the associated data, then the result, then the tag made. Of a hash the digest.
    pub dst: &'a mut [u8],
    pub ivs: &'a [u8],
    /// As much room as there are IVs: drivers leave others than they found.
    pub work: &'a mut [u8],
    /// Bytes from one message to the next.
    pub src_stride: usize,
    /// From one answer to the next.
    pub dst_stride: usize,
    /// Bytes from one IV to the next.
    pub iv_stride: usize,
    /// What a request says of its lengths.
    pub lens: Lens,
    pub count: usize,
}

/// One request over pieces of memory, put again and again.
pub struct Again<'a> {
    /// A hash ignores it.
    pub op: Op,
    pub src: &'a [(*mut u8, usize)],
    /// What comes out; the same pieces are in place.
    pub dst: &'a [(*mut u8, usize)],
    /// The first call's IV; as the last call left it.
    pub iv: &'a mut [u8],
    /// Where a hash's digest goes.
    pub digest: &'a mut [u8],
    /// What the request says of its lengths.
    pub lens: Lens,
}

/// Bytes of a request's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lens {
    pub assoc: usize,
    /// The message.
    pub text: usize,
    /// A tag, on one side or the other.
    pub tag: usize,
    pub digest: usize,
}

impl Lens {
    fn crypt(&self, op: Op) -> usize {
        self.text + if op == Op::Decrypt { self.tag } else { 0 }
    }

    pub fn src(&self, op: Op) -> usize {
        self.assoc + self.crypt(op)
    }

    pub fn dst(&self, op: Op) -> usize {
        match (self.digest, op) {
            (0, Op::Encrypt) => self.assoc + self.text + self.tag,
            (0, Op::Decrypt) => self.assoc + self.text,
            (digest, _) => digest,
        }
    }
}

/// A transform of one implementation's synchronous driver, with no simd helper before it.
pub struct Driver {
    tfm: Skcipher,
    imp: Impl,
}

/// What is common to both.
fn raw(driver: &Driver, op: Op, lens: Lens, calls: u64) -> sys::ApiCalls {
    sys::ApiCalls {
        tfm: driver.tfm.raw.tfm,
        dst: ptr::null_mut(),
        src: ptr::null_mut(),
        fresh: ptr::null(),
        iv: ptr::null_mut(),
        src_stride: 0,
        dst_stride: 0,
        iv_stride: 0,
        src_len: lens.src(op) as u32,
        dst_len: lens.dst(op) as u32,
        assoclen: lens.assoc as u32,
        cryptlen: lens.crypt(op) as u32,
        count: 1,
        calls,
        decrypt: op == Op::Decrypt,
        from: ptr::null_mut(),
        to: ptr::null_mut(),
        later: 0,
        err: 0,
    }
}

impl Driver {
    /// Of this implementation.
    ///
    /// # Errors
    /// Its tier cannot be used here.
    pub fn open(imp: Impl) -> Result<Driver, Errno> {
        let tfm = Transform::open_impl(Api::get_linked(), imp, false)?.skcipher();
        Ok(Driver { tfm, imp })
    }

    /// Whether its code uses vector registers.
    pub fn opens_sections(&self) -> bool {
        self.imp.tier() != crate::Tier::Generic
    }

    /// Expand a key.
    ///
    /// # Errors
    /// The driver does not take it.
    pub fn set_key(&mut self, key: &[u8]) -> Result<(), Errno> {
        self.tfm.set_key(key)
    }

    /// Make `calls` requests, after the last message the first again; how many were not answered at once.
    ///
    /// # Errors
    /// The first answer that was one.
    ///
    /// # Panics
    /// If the buffers are too short.
    pub fn series(&mut self, series: &mut Series<'_>, calls: u64) -> Result<u64, Errno> {
        let mut raw = self.raw_series(series, calls);
        // SAFETY: the function takes this structure; messages, answers and IVs lie in their buffers, and sources, apart
        // from the answers, are only read.
        unsafe { cpu::gate(sys::kiln_crypto_calls, (&raw mut raw).cast()) };
        check(raw.err)?;
        Ok(raw.later)
    }

    /// The series as `kernel/` has it, seen to lie in its buffers; these are borrowed for as long as it is used.
    pub(crate) fn raw_series(&mut self, series: &mut Series<'_>, calls: u64) -> sys::ApiCalls {
        let (op, lens) = (series.op, series.lens);
        let holds = |bytes: usize, stride: usize, each: usize| {
            (series.count - 1)
                .checked_mul(stride)
                .and_then(|n| n.checked_add(each))
                .is_some_and(|end| end <= bytes)
        };
        assert!(series.count > 0, "there are messages");
        assert!(holds(series.src.len(), series.src_stride, lens.src(op)));
        assert!(holds(series.dst.len(), series.dst_stride, lens.dst(op)));
        self.fits(lens, series.iv_stride);
        let ivs = series.count * series.iv_stride;
        assert!(series.ivs.len() >= ivs && series.work.len() >= ivs);
        sys::ApiCalls {
            dst: series.dst.as_mut_ptr(),
            src: series.src.as_ptr().cast_mut(),
            fresh: series.ivs.as_ptr(),
            iv: series.work.as_mut_ptr(),
            src_stride: series.src_stride,
            dst_stride: series.dst_stride,
            iv_stride: series.iv_stride,
            count: series.count,
            ..raw(self, op, lens, calls)
        }
    }

    /// Put one request `calls` times; how many were not answered at once.
    ///
    /// # Errors
    /// The first answer that was one: [`Errno::INVALID`] if the pieces are too short.
    ///
    /// # Safety
    /// As [`super::Skcipher::request`].
    ///
    /// # Panics
    /// If the digest does not fit in its room.
    pub unsafe fn again(&mut self, again: &mut Again<'_>, calls: u64) -> Result<u64, Errno> {
        let (op, lens) = (again.op, again.lens);
        assert!(again.digest.len() >= lens.digest);
        self.fits(lens, again.iv.len());
        let fresh = again.iv.to_vec();
        let in_place = again.src == again.dst;
        let mut from = scatterlist(again.src);
        // A hash has no other.
        let mut to = scatterlist(if lens.digest > 0 {
            again.src
        } else {
            again.dst
        });
        let mut raw = sys::ApiCalls {
            dst: again.digest.as_mut_ptr(),
            fresh: fresh.as_ptr(),
            iv: again.iv.as_mut_ptr(),
            iv_stride: fresh.len(),
            from: from.as_mut_ptr(),
            to: match in_place {
                true => from.as_mut_ptr(),
                false => to.as_mut_ptr(),
            },
            ..raw(self, op, lens, calls)
        };
        // SAFETY: the caller's promises; the lists end with a marked piece.
        unsafe { cpu::gate(sys::kiln_crypto_calls, (&raw mut raw).cast()) };
        check(raw.err)?;
        Ok(raw.later)
    }

    /// Panics unless all is as long as the implementation has it.
    fn fits(&self, lens: Lens, iv: usize) {
        let imp = self.imp;
        let (tag, digest) = match imp.kind() {
            Kind::Skcipher => (0, 0),
            Kind::Aead => (imp.digest_size(), 0),
            Kind::Hash => (0, imp.digest_size()),
        };
        assert!(iv >= imp.iv_size(), "whole IVs");
        assert_eq!((lens.tag, lens.digest), (tag, digest));
        assert!(lens.assoc == 0 || imp.kind() == Kind::Aead);
        assert!(u32::try_from(lens.assoc + lens.text + lens.tag).is_ok());
    }
}
