//! The crypto API of `kernel/`: requests, and transforms that are opened by name.

mod api;
mod kinds;
mod requests;

pub(crate) use api::init;
pub use api::{memory_holds, Api};
pub use kinds::{Aead, Shash, Skcipher, Transform};
pub use requests::{Driver, Part, Repeat};

use std::fmt;
use std::ptr;

use crate::cpu;
use crate::load::Operation;
use crate::sys;

/// Flag of an algorithm whose requests may complete asynchronously. Callers can exclude such
/// algorithms.
pub const ASYNC: u32 = 0x80;
/// Flag of an internal algorithm. By default, lookups skip these algorithms.
pub const INTERNAL: u32 = 0x2000;
/// Flag of a request that may wait for space in a full queue.
pub(crate) const MAY_BACKLOG: u32 = 0x400;

/// A result of a kernel function: 0 for success, or a negative errno value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// The request is queued; the callback will receive the result.
    pub const IN_PROGRESS: Errno = Errno(-115);
    pub const NO_SPACE: Errno = Errno(-28);
    /// The queue is full; the request waits in the backlog.
    pub const BUSY: Errno = Errno(-16);
    /// The algorithm does not exist.
    pub const NOT_THERE: Errno = Errno(-2);
    /// The algorithm does not accept these arguments.
    pub const INVALID: Errno = Errno(-22);
    /// Requests are not allowed in this context.
    pub const DEADLOCK: Errno = Errno(-35);
    pub const BAD_MESSAGE: Errno = Errno(-74);
    pub const NO_KEY: Errno = Errno(-126);
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "0",
            -2 => "-ENOENT",
            -12 => "-ENOMEM",
            -16 => "-EBUSY",
            -17 => "-EEXIST",
            -22 => "-EINVAL",
            -28 => "-ENOSPC",
            -35 => "-EDEADLK",
            -36 => "-ENAMETOOLONG",
            -38 => "-ENOSYS",
            -74 => "-EBADMSG",
            -115 => "-EINPROGRESS",
            -126 => "-ENOKEY",
            n => return write!(f, "{n}"),
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

fn check(err: i32) -> Result<(), Errno> {
    match err {
        0 => Ok(()),
        n => Err(Errno(n)),
    }
}

/// Which variant of each SIMD algorithm a lookup by name finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Model {
    /// SIMD algorithms wrapped in the simd helper, which makes them asynchronous. Policies under
    /// which a softirq may find the FPU in use need this variant.
    Helper = 1,
    /// SIMD algorithms that are not wrapped in the helper, and are therefore synchronous.
    Direct = 2,
}

impl Model {
    /// Selects this model for all transforms that the process opens from now on.
    pub fn set(self) {
        init();
        // SAFETY: `self` is a valid value of `enum crypto_model`.
        unsafe { sys::kiln_crypto_model(self as u32) }
    }
}

/// Returns the number of memory blocks that transforms and requests currently use.
pub fn memory_in_use() -> usize {
    // SAFETY: the function only reads a counter.
    unsafe { sys::kiln_slab_in_use() }
}

/// Sets the seed for the salts of all `seqiv` transforms that are opened from now on.
pub fn seed(seed: u64) {
    init();
    // SAFETY: the function accepts any number.
    unsafe { sys::kiln_crypto_seed(seed) }
}

/// Builds an `authenc` key from a hash key and a cipher key.
pub fn authenc_key(auth: &[u8], enc: &[u8]) -> Vec<u8> {
    let mut key = vec![8, 0, 1, 0];
    key.extend((enc.len() as u32).to_be_bytes());
    key.extend(auth);
    key.extend(enc);
    key
}

fn scatterlist(pieces: &[(*mut u8, usize)]) -> Vec<sys::Scatterlist> {
    assert!(!pieces.is_empty(), "a list has at least one piece");
    let last = pieces.len() - 1;
    pieces
        .iter()
        .enumerate()
        .map(|(i, &(addr, len))| sys::Scatterlist {
            addr,
            length: len as u32,
            last: i == last,
            chain: false,
        })
        .collect()
}

/// A transform with preallocated requests, which a load can use to encrypt its messages. Each of
/// the load's slots has its own request, so that all slots can be in flight at the same time.
pub struct Asked {
    raw: Box<sys::CryptoOp>,
    _tfm: Skcipher,
}

impl Asked {
    /// Allocates one request per slot. The key of `tfm` must already be set.
    pub fn new(tfm: Skcipher, slots: u32) -> Result<Asked, Errno> {
        let mut raw = Box::new(sys::CryptoOp {
            tfm: tfm.raw.tfm,
            slots,
            request: ptr::null_mut(),
        });
        // SAFETY: `kiln_crypto_op_open` takes a pointer to this structure, which outlives the call.
        match unsafe { cpu::gate(sys::kiln_crypto_op_open, (&raw mut *raw).cast()) } {
            0 => Ok(Asked { raw, _tfm: tfm }),
            _ => Err(Errno(-12)),
        }
    }

    /// Returns an operation to pass to a load. The load must be dropped before `self`, because
    /// dropping `self` frees the requests, and none of them may still be in flight.
    pub fn operation(&mut self) -> Operation {
        let ctx = (&raw mut *self.raw).cast();
        // SAFETY: `ctx` points to the structure that the function expects, and a load waits for its
        // in-flight requests before it is dropped.
        unsafe { Operation::new(sys::kiln_crypto_op_crypt, ctx, self.raw.slots) }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // SAFETY: `kiln_crypto_op_close` takes a pointer to this structure, which is not used
        // again.
        unsafe { cpu::gate(sys::kiln_crypto_op_close, (&raw mut *self.raw).cast()) };
    }
}

/// Faults that tests plant in cryptd to check that violations of its rules are detected.
#[doc(hidden)]
pub mod broken {
    /// Queues are unlimited.
    pub const NO_LIMIT: u32 = 1;
    pub const NO_BACKLOG: u32 = 2;
    /// Queued requests do not hold a reference to their transform.
    pub const UNCOUNTED: u32 = 4;
    /// The most recently queued request is served first.
    pub const LATE_FIRST: u32 = 8;

    /// Plants the faults whose bits are set in `rules`, and removes all others. This affects the
    /// whole process.
    pub fn set(rules: u32) {
        // SAFETY: the function accepts any number.
        unsafe { super::sys::kiln_cryptd_break(rules) }
    }
}
