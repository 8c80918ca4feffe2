//! The list of all implementations, their properties, and expanded keys.

use std::ffi::c_void;
use std::fmt;

use zeroize::Zeroize;

use crate::sys;
use crate::tier::{static_str, Tier};

/// Size in bytes of an AES block, and of an IV of `xts(aes)`.
pub const BLOCK: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Op {
    #[default]
    Encrypt,
    Decrypt,
}

/// How FPU sections are placed around calls to implementations that use vector registers. Mirrors
/// `enum kiln_sections`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Sections {
    /// One section around all calls.
    #[default]
    One = sys::KILN_ONE_SECTION,
    /// One section per call.
    Each = sys::KILN_SECTION_EACH,
    /// One section per call, but without the section timer. A comparison with [`Sections::Each`]
    /// shows the cost of the timer.
    EachUntimed = sys::KILN_SECTION_EACH_UNTIMED,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Skcipher,
    Aead,
    /// Hashes, keyed or unkeyed.
    Hash,
}

/// An implementation of an algorithm: one of the descriptors in the table that `kernel/` contains.
#[derive(Clone, Copy)]
pub struct Impl(pub(crate) &'static sys::Impl);

// SAFETY: a descriptor is constant, static data, so any thread may use it.
unsafe impl Send for Impl {}
// SAFETY: a descriptor is constant, static data, so threads may share it.
unsafe impl Sync for Impl {}

impl fmt::Debug for Impl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.driver())
    }
}

impl PartialEq for Impl {
    fn eq(&self, other: &Impl) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Impl {
    /// Returns all implementations, whether usable here or not.
    pub fn all() -> Vec<Impl> {
        // SAFETY: the index is less than the count, so each pointer points to a static descriptor.
        unsafe {
            (0..sys::kiln_impls())
                .map(|i| Impl(&*sys::kiln_impl(i)))
                .collect()
        }
    }

    /// Returns all implementations of an algorithm, in ascending order of priority.
    pub fn find_all(alg: &str) -> Vec<Impl> {
        let mut all: Vec<Impl> = Impl::all().into_iter().filter(|i| i.alg() == alg).collect();
        all.sort_by_key(|i| i.0.priority);
        all
    }

    /// Returns the implementation with this driver name.
    pub fn find(driver: &str) -> Option<Impl> {
        Impl::all().into_iter().find(|i| i.driver() == driver)
    }

    /// Returns the names of all algorithms.
    pub fn algorithms() -> Vec<&'static str> {
        let mut names: Vec<&str> = Vec::new();
        for imp in Impl::all() {
            if !names.contains(&imp.alg()) {
                names.push(imp.alg());
            }
        }
        names
    }

    /// Returns the algorithm's name in the kernel's crypto API, such as `ctr(aes)`.
    pub fn alg(self) -> &'static str {
        // SAFETY: the names in a descriptor are string literals.
        unsafe { static_str(self.0.alg) }.unwrap_or("?")
    }

    /// Returns the driver name, such as `ctr-aes-vaes-avx512`.
    pub fn driver(self) -> &'static str {
        // SAFETY: the names in a descriptor are string literals.
        unsafe { static_str(self.0.driver) }.unwrap_or("?")
    }

    /// Returns the folder in `kernel/ciphers` that defines this implementation, or `None` if the
    /// implementation comes from another build.
    pub fn folder(self) -> Option<&'static str> {
        // SAFETY: the function only compares the pointer, and returns null or a string literal.
        unsafe { static_str(sys::kiln_impl_folder(self.0)) }
    }

    pub fn kind(self) -> Kind {
        match self.0.kind {
            sys::KILN_SKCIPHER => Kind::Skcipher,
            sys::KILN_AEAD => Kind::Aead,
            _ => Kind::Hash,
        }
    }

    pub fn tier(self) -> Tier {
        Tier::from_raw(self.0.tier)
    }

    /// Returns the priority. Callers get the usable implementation with the highest priority.
    pub fn priority(self) -> u32 {
        self.0.priority
    }

    /// Returns whether the running time is independent of keys and data.
    pub fn constant_time(self) -> bool {
        self.0.constant_time
    }

    /// Returns the accepted key sizes in bytes. The list is empty if the algorithm takes no key. If
    /// the algorithm accepts any size, the list contains all sizes up to [`LONGEST_LISTED_KEY`].
    pub fn key_sizes(self) -> Vec<usize> {
        if !self.is_keyed() {
            return Vec::new();
        }
        let max = match self.0.key_max {
            sys::KILN_ANY_KEY => LONGEST_LISTED_KEY,
            max => max as usize,
        };
        (self.0.key_min as usize..=max)
            .step_by(self.0.key_step.max(1) as usize)
            .collect()
    }

    /// Returns whether a key of this length in bytes is accepted.
    pub fn takes_key(self, len: usize) -> bool {
        self.0.key_max == sys::KILN_ANY_KEY || self.key_sizes().contains(&len)
    }

    /// Returns the IV size in bytes.
    pub fn iv_size(self) -> usize {
        self.0.ivsize as usize
    }

    /// Returns how many messages the functions for several messages (`encrypt_many`, `finish_many`,
    /// `seal_many` and `open_many`) process in parallel, or `None` if the implementation lacks
    /// these functions.
    pub fn lanes(self) -> Option<usize> {
        let union = &self.0.__bindgen_anon_1;
        // SAFETY: the kind determines which member of the union is initialised.
        let lanes = unsafe {
            match self.kind() {
                Kind::Skcipher => union.cipher.encrypt_many.map(|_| union.cipher.lanes),
                Kind::Hash => union.hash.finish_many.map(|_| union.hash.lanes),
                Kind::Aead => union.aead.seal_many.map(|_| union.aead.lanes),
            }
        };
        lanes.map(|n| n as usize)
    }

    /// Returns the block size in bytes. Message lengths are multiples of the block size, except for
    /// hashes, which accept any length and process it in blocks.
    pub fn block_size(self) -> usize {
        self.0.blocksize as usize
    }

    /// Returns the minimum message length in bytes.
    pub fn shortest(self) -> usize {
        self.0.shortest as usize
    }

    /// Returns the maximum length in bytes of an AEAD's text. `usize::MAX` means unlimited.
    pub fn longest(self) -> usize {
        match self.0.longest {
            0 => usize::MAX,
            most => most as usize,
        }
    }

    /// Returns the size in bytes of a hash's digest, or of the longest tag of an AEAD.
    pub fn digest_size(self) -> usize {
        self.0.digestsize as usize
    }

    /// Returns the accepted tag sizes in bytes.
    pub fn tag_sizes(self) -> Vec<usize> {
        let (min, max) = (self.0.tag_min as usize, self.0.digestsize as usize);
        match self.0.tag_step {
            0 => vec![max],
            step => (min..=max).step_by(step as usize).collect(),
        }
    }

    /// Returns the size in bytes of an expanded key.
    pub fn context_size(self) -> usize {
        self.0.ctxsize as usize
    }

    /// Returns the size in bytes of the state that is kept between the pieces of a message.
    pub fn state_size(self) -> usize {
        self.0.statesize as usize
    }

    /// Returns the algorithm's usable implementation with the highest priority, or `None` if the
    /// algorithm has no usable implementation.
    pub fn best(alg: &str) -> Option<Impl> {
        Impl::find_all(alg).into_iter().rfind(|i| i.tier().usable())
    }

    /// Wraps an implementation from another build of `kernel/`.
    ///
    /// # Safety
    /// `descriptor` must point to a `struct kiln_impl` with the same layout. The descriptor and its
    /// functions must stay valid until the process ends, and must behave as `kiln/cipher.h`
    /// describes.
    pub unsafe fn foreign(descriptor: *const std::ffi::c_void) -> Impl {
        // SAFETY: the caller promises that the descriptor is valid until the process exits.
        Impl(unsafe { &*descriptor.cast::<sys::Impl>() })
    }

    pub fn is_keyed(self) -> bool {
        self.0.key_max > 0
    }
}

/// Maximum length in bytes of the keys that [`Impl::key_sizes`] lists for implementations that
/// accept any length.
pub(crate) const LONGEST_LISTED_KEY: usize = 256;

/// The error for a key that an implementation does not accept. Contains the key's length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLength(pub usize);

/// A cache line. Contexts are aligned to cache lines.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

/// A key expanded by an algorithm's `setkey`, in the same format for all tiers. Wiped on drop.
pub struct Context {
    memory: Box<[Line]>,
    imp: Impl,
}

impl Context {
    /// Expands `key`, which must be empty if the algorithm takes no key.
    pub fn new(imp: Impl, key: &[u8]) -> Result<Context, KeyLength> {
        let lines = imp.context_size().div_ceil(64).max(1);
        let mut ctx = Context {
            memory: vec![Line([0; 8]); lines].into(),
            imp,
        };
        let set = match imp.0.setkey {
            None => key.is_empty(),
            Some(setkey) => {
                let memory = ctx.memory.as_mut_ptr();
                // SAFETY: the memory has the size and the alignment of a context, and `key` is a
                // valid slice.
                unsafe { setkey(memory.cast(), key.as_ptr(), key.len()) == 0 }
            }
        };
        set.then_some(ctx).ok_or(KeyLength(key.len()))
    }

    /// Replaces the key with the key of another context of the same algorithm.
    ///
    /// # Panics
    /// If the other context belongs to another algorithm.
    pub fn copy_from(&mut self, other: &Context) {
        assert_eq!(self.imp.alg(), other.imp.alg());
        self.memory.copy_from_slice(&other.memory);
    }

    pub(crate) fn as_ptr(&self) -> *const c_void {
        self.memory.as_ptr().cast()
    }

    /// Returns the name of the algorithm that the key belongs to.
    pub fn alg(&self) -> &'static str {
        self.imp.alg()
    }

    /// Returns the bytes of the expanded key, so that tests can compare the key expansions of two
    /// tiers.
    pub fn bytes(&self) -> &[u8] {
        let (lines, bytes) = (self.memory.as_ptr(), size_of_val(&*self.memory));
        // SAFETY: the slice covers memory that the context owns, which is initialised and has no
        // padding.
        unsafe { std::slice::from_raw_parts(lines.cast(), bytes) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.memory.iter_mut().for_each(|line| line.0.zeroize());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_length_is_refused() {
        let imp = Impl::best("xts(aes)").unwrap();
        assert_eq!(Context::new(imp, &[0; 33]).err(), Some(KeyLength(33)));
        let unkeyed = Impl::best("sha1").unwrap();
        assert_eq!(Context::new(unkeyed, &[0; 1]).err(), Some(KeyLength(1)));
    }

    /// `kernel/crypto/skcipher.c` uses a mask to detect partial blocks, so block sizes must be
    /// powers of two.
    #[test]
    fn block_sizes_of_skciphers_are_powers_of_two() {
        let all = Impl::all().into_iter();
        for imp in all.filter(|i| i.kind() == Kind::Skcipher) {
            assert!(imp.block_size().is_power_of_two(), "{imp:?}");
        }
    }
}
