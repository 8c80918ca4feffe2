//! Request loops for benchmarks. A loop processes many messages, or one message repeatedly. The
//! loops are implemented in `kernel/bench/requests.c`.

use std::ffi::c_void;

use super::{check, scatterlist, Api, Errno, Skcipher, Transform};
use crate::cipher::{Impl, Kind, Op};
use crate::cpu;
use crate::messages::{IvRoom, Lens, Messages, Needs};
use crate::sys;

/// The work that the loop repeats: whole requests, or one part of the simd helper's overhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Part {
    Whole = sys::KILN_REQUEST,
    /// Checking whether SIMD is usable and whether requests are queued.
    Checks = sys::KILN_REQUEST_CHECKS,
    /// Copying the request to the sub-request.
    Copy = sys::KILN_REQUEST_COPY,
    /// An indirect call to a function that returns immediately.
    Call = sys::KILN_REQUEST_CALL,
    /// Setting up the request, which every caller has to do.
    Setup = sys::KILN_REQUEST_SETUP,
}

/// A request that is made repeatedly. Its source and destination are lists of memory pieces.
pub struct Repeat<'a> {
    /// Direction; ignored by hashes.
    pub op: Op,
    /// Source: associated data, text and, for decryption, the tag.
    pub src: &'a [(*mut u8, usize)],
    /// Destination pieces. For an in-place request, they are the same as `src`.
    pub dst: &'a [(*mut u8, usize)],
    /// IV of the first request. Each request updates it in place for the next one.
    pub iv: &'a mut [u8],
    /// Buffer for a hash's digest.
    pub digest: &'a mut [u8],
    /// Sizes in bytes of the message's parts.
    pub lens: Lens,
}

/// A transform of one implementation's synchronous driver, without the simd helper.
pub struct Driver {
    tfm: Transform,
    imp: Impl,
}

fn raw_requests(tfm: *mut c_void, m: sys::Messages, part: Part) -> sys::Requests {
    sys::Requests {
        tfm,
        m,
        part: part as u32,
        ..Default::default()
    }
}

/// Runs the timed loop in `kernel/bench/requests.c`.
///
/// # Safety
/// The memory that the structure points to must be valid.
unsafe fn run_raw(mut raw: sys::Requests) -> Result<u64, Errno> {
    // SAFETY: `kiln_requests_run` takes a pointer to this structure, and the caller promises that
    // the memory is valid.
    unsafe { cpu::gate(sys::kiln_requests_run, (&raw mut raw).cast()) };
    check(raw.err)?;
    Ok(raw.later)
}

impl Skcipher {
    /// Makes `calls` requests, or executes only `part` of each request. Returns how many requests
    /// completed asynchronously.
    ///
    /// # Errors
    /// Fails with the error of the first request that fails, or with [`Errno::INVALID`] if the
    /// messages exceed their buffers.
    pub fn run(
        &mut self,
        messages: &mut Messages<'_>,
        part: Part,
        calls: u64,
    ) -> Result<u64, Errno> {
        let needs = Needs {
            kind: Kind::Skcipher,
            iv: self.raw.ivsize as usize,
            digest: 0,
            tags_apart: false,
            copies_ivs: true,
        };
        let plain = messages.prefix == 0 && messages.tag_size == 0;
        if !plain || u32::try_from(messages.len).is_err() {
            return Err(Errno::INVALID);
        }
        let mut single = IvRoom::default();
        let m = messages.raw(&needs, &mut single, calls);
        let m = m.map_err(|_| Errno::INVALID)?;
        // SAFETY: the messages are within their buffers. A source that is not also a destination is
        // only read.
        unsafe { run_raw(raw_requests(self.raw.tfm, m, part)) }
    }
}

impl Driver {
    /// Opens this implementation's driver.
    ///
    /// # Errors
    /// Fails if the implementation's tier cannot be used here.
    pub fn open(imp: Impl) -> Result<Driver, Errno> {
        let tfm = Transform::open_impl(Api::get_linked(), imp, false)?;
        Ok(Driver { tfm, imp })
    }

    /// Returns whether the driver opens FPU sections, that is, whether it uses vector registers.
    pub(crate) fn opens_sections(&self) -> bool {
        self.imp.tier() != crate::Tier::Generic
    }

    /// Sets the key for all later requests.
    ///
    /// # Errors
    /// Fails if the driver rejects the key.
    pub fn set_key(&mut self, key: &[u8]) -> Result<(), Errno> {
        self.tfm.set_key(key)
    }

    /// Makes `calls` requests, cycling through the messages. Returns how many requests completed
    /// asynchronously.
    ///
    /// # Errors
    /// Fails with the error of the first request that fails, or with [`Errno::INVALID`] if the
    /// messages exceed their buffers.
    pub fn run(&mut self, messages: &mut Messages<'_>, calls: u64) -> Result<u64, Errno> {
        let mut single = IvRoom::default();
        let raw = self.raw_requests(messages, &mut single, calls)?;
        // SAFETY: the messages are within their buffers. A source that is not also a destination is
        // only read.
        unsafe { run_raw(raw) }
    }

    /// Converts the requests to the C structure. The result points into the messages and `single`.
    pub(crate) fn raw_requests(
        &mut self,
        messages: &mut Messages<'_>,
        single: &mut IvRoom,
        calls: u64,
    ) -> Result<sys::Requests, Errno> {
        self.check_sizes(messages.len, messages.prefix, messages.tag_size)?;
        let m = messages.raw(&self.needs(), single, calls);
        let m = m.map_err(|_| Errno::INVALID)?;
        Ok(raw_requests(self.tfm.raw.tfm, m, Part::Whole))
    }

    /// Makes the same request `calls` times. Returns how many calls completed asynchronously.
    ///
    /// # Errors
    /// Fails with the error of the first request that fails, or with [`Errno::INVALID`] if the
    /// pieces are too short.
    ///
    /// # Safety
    /// The requirements of [`super::Skcipher::request`] apply.
    pub unsafe fn repeat(&mut self, repeat: &mut Repeat<'_>, calls: u64) -> Result<u64, Errno> {
        let lens = repeat.lens;
        self.check_sizes(lens.text, lens.assoc, lens.tag)?;
        let needs = self.needs();
        if repeat.digest.len() < needs.digest || repeat.iv.len() < needs.iv {
            return Err(Errno::INVALID);
        }
        let hash = needs.kind == Kind::Hash;
        let fresh = repeat.iv.to_vec();
        let in_place = hash || repeat.src == repeat.dst;
        let mut from = scatterlist(repeat.src);
        // A hash has no destination, but `scatterlist` does not accept an empty list. Pass the
        // source instead.
        let mut to = scatterlist(if in_place { repeat.src } else { repeat.dst });
        let m = sys::Messages {
            dst: repeat.digest.as_mut_ptr(),
            iv: fresh.as_ptr(),
            iv_room: repeat.iv.as_mut_ptr(),
            iv_stride: fresh.len() as u64,
            len: lens.text as u64,
            prefix: lens.assoc as u64,
            tag: lens.tag as u64,
            count: 1,
            calls,
            decrypt: repeat.op == Op::Decrypt && !hash,
            ..Default::default()
        };
        let raw = sys::Requests {
            from: from.as_mut_ptr(),
            to: match in_place {
                true => from.as_mut_ptr(),
                false => to.as_mut_ptr(),
            },
            ..raw_requests(self.tfm.raw.tfm, m, Part::Whole)
        };
        // SAFETY: the caller promises that the pieces are valid. The lists end with an entry marked
        // as the last.
        unsafe { run_raw(raw) }
    }

    fn needs(&self) -> Needs {
        Needs {
            kind: self.imp.kind(),
            iv: self.imp.iv_size(),
            digest: match self.imp.kind() {
                Kind::Hash => self.imp.digest_size(),
                _ => 0,
            },
            tags_apart: false,
            copies_ivs: true,
        }
    }

    /// Checks that the tag has its maximum size, that only an AEAD has a prefix, and that the total
    /// length fits in 32 bits.
    fn check_sizes(&self, len: usize, prefix: usize, tag_size: usize) -> Result<(), Errno> {
        let aead = self.imp.kind() == Kind::Aead;
        let tag = if aead { self.imp.digest_size() } else { 0 };
        let total = len.checked_add(prefix).and_then(|n| n.checked_add(tag));
        let short = total.is_some_and(|n| u32::try_from(n).is_ok());
        match tag_size == tag && (prefix == 0 || aead) && short {
            true => Ok(()),
            false => Err(Errno::INVALID),
        }
    }
}
