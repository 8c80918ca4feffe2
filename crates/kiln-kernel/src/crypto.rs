//! The crypto API of `kernel/`: transforms by name, requests to them.

mod api;
mod kinds;
mod requests;

pub use api::Api;
pub use kinds::{Aead, Shash, Transform};
pub use requests::{Driver, Part, Repeat};

use std::alloc::{alloc_zeroed, handle_alloc_error, Layout};
use std::ffi::{c_void, CString};
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::Once;

use crate::cipher::{Op, BLOCK};
use crate::cpu;
use crate::fpu::Context;
use crate::load::Operation;
use crate::sys;
use crate::tier::static_str;

/// Flag of an algorithm that may answer later; callers can exclude it.
pub const ASYNC: u32 = 0x80;
/// Flag of an algorithm for use by others, returned only if asked for explicitly.
pub const INTERNAL: u32 = 0x2000;
/// The callback may sleep.
pub const MAY_SLEEP: u32 = 0x200;
/// A request may wait for its place in a queue that is full.
pub const MAY_BACKLOG: u32 = 0x400;

/// A negative errno value, as a kernel returns it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// The request is queued; the callback gets its result.
    pub const IN_PROGRESS: Errno = Errno(-115);
    pub const NO_SPACE: Errno = Errno(-28);
    /// The queue is full, and the request waits for a place in it.
    pub const BUSY: Errno = Errno(-16);
    /// No such algorithm.
    pub const NOT_THERE: Errno = Errno(-2);
    /// The algorithm does not take these arguments.
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

/// Which algorithms are registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Model {
    /// SIMD algorithms behind the simd helper, asynchronous: where softirqs may find the FPU
    /// taken.
    Helper = 1,
    /// SIMD algorithms as they are, synchronous.
    Direct = 2,
}

impl Model {
    /// Applies to all transforms opened from now on, in the whole process.
    pub fn set(self) {
        init();
        // SAFETY: takes one of these numbers.
        unsafe { sys::kiln_crypto_model(self as u32) }
    }
}

/// Bytes for transforms and requests, enough for scripts of a few thousand requests.
const MEMORY: usize = 16 << 20;

pub(crate) fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let layout = Layout::from_size_align(MEMORY, 64).expect("a small power of two");
        // SAFETY: the size is not zero. The memory is `kernel/`'s for as long as the process
        // lives; it is touched only as far as it is used.
        unsafe {
            let memory = alloc_zeroed(layout);
            if memory.is_null() {
                handle_alloc_error(layout);
            }
            GIVEN.store(memory, Ordering::Release);
        }
        // SAFETY: the calling thread is or becomes a CPU, in kernel mode.
        let err = unsafe { cpu::gate(start, ptr::null_mut()) };
        assert_eq!(err, 0, "the algorithms are registered");
    });
}

extern "C" fn start(_: *mut c_void) -> u64 {
    // SAFETY: called through the gate, once; the memory is there for good.
    unsafe {
        sys::kiln_slab_give(GIVEN.load(Ordering::Acquire).cast(), MEMORY);
        sys::kiln_crypto_init() as u64
    }
}

static GIVEN: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Whether the memory of transforms and requests, in use or free, holds these two words one after the other: to see
/// that keys are wiped. Other threads may use it meanwhile.
pub fn memory_holds(words: [u64; 2]) -> bool {
    let memory = GIVEN.load(Ordering::Acquire).cast::<AtomicU64>();
    if memory.is_null() {
        return false;
    }
    let word = |i: usize| {
        // SAFETY: below the end of the memory that `init` gave away for good, zeroed and aligned to 64.
        unsafe { &*memory.add(i) }.load(Ordering::Relaxed)
    };
    (0..MEMORY / 8 - 1).any(|i| word(i) == words[0] && word(i + 1) == words[1])
}

/// Pieces of memory handed out to transforms and requests and not yet returned.
pub fn memory_in_use() -> usize {
    // SAFETY: reads a counter.
    unsafe { sys::kiln_slab_in_use() }
}

/// Types of algorithms.
const TYPE_AEAD: u32 = 0x3;
const TYPE_SKCIPHER: u32 = 0x5;
const TYPE_SHASH: u32 = 0xe;
const TYPE_MASK: u32 = 0xf;

/// A transform of a skcipher. It answers on the CPU of the calling thread.
pub struct Skcipher {
    pub(crate) raw: sys::Tfm,
    api: &'static Api,
    _here: PhantomData<*mut ()>,
}

impl Skcipher {
    /// The algorithm of this driver name or, by priority, of this name, whose flags in `mask`
    /// are those in `kind`.
    pub fn open(name: &str, kind: u32, mask: u32) -> Result<Skcipher, Errno> {
        Skcipher::open_as(TYPE_SKCIPHER, name, kind, mask)
    }

    fn open_as(what: u32, name: &str, kind: u32, mask: u32) -> Result<Skcipher, Errno> {
        Skcipher::open_in(Api::get_linked(), what, name, kind, mask)
    }

    fn open_in(
        api: &'static Api,
        what: u32,
        name: &str,
        kind: u32,
        mask: u32,
    ) -> Result<Skcipher, Errno> {
        let (kind, mask) = (kind | what, mask | TYPE_MASK);
        let name = CString::new(name).map_err(|_| Errno::NOT_THERE)?;
        let mut raw = sys::Tfm {
            name: name.as_ptr(),
            type_: kind,
            mask,
            ..Default::default()
        };
        // SAFETY: the function takes this structure; the name outlives the call.
        unsafe { cpu::gate(api.open, (&raw mut raw).cast()) };
        raw.name = ptr::null();
        check(raw.err)?;
        Ok(Skcipher {
            raw,
            api,
            _here: PhantomData,
        })
    }

    /// The driver that was chosen.
    pub fn driver(&self) -> &str {
        // SAFETY: the algorithm stays registered while it has transforms.
        unsafe { static_str(self.raw.driver) }.unwrap_or("?")
    }

    /// Whether it may answer later.
    pub fn is_async(&self) -> bool {
        self.raw.flags & ASYNC != 0
    }

    /// Whether it is for other algorithms only.
    pub fn is_internal(&self) -> bool {
        self.raw.flags & INTERNAL != 0
    }

    /// Higher is preferred.
    pub fn priority(&self) -> i32 {
        self.raw.priority
    }

    pub fn set_key(&mut self, key: &[u8]) -> Result<(), Errno> {
        let mut raw = sys::Setkey {
            tfm: self.raw.tfm,
            key: key.as_ptr(),
            len: key.len() as u32,
            err: 0,
        };
        // SAFETY: the function takes this structure.
        unsafe { cpu::gate(self.api.setkey, (&raw mut raw).cast()) };
        check(raw.err)
    }

    /// One request over pieces, made in `context`, and its answer: what the call returned, and
    /// what the request came to.
    ///
    /// # Safety
    /// The pieces of `src` are readable and those of `dst` writable; those of one list do not
    /// overlap each other; the two lists are over the same bytes in the same order, or over
    /// bytes apart.
    pub unsafe fn request(
        &mut self,
        op: Op,
        iv: &mut [u8; BLOCK],
        len: usize,
        src: &[(*mut u8, usize)],
        dst: &[(*mut u8, usize)],
        context: Context,
    ) -> (Errno, Errno) {
        // SAFETY: the caller's promises.
        unsafe { self.request_with(op, iv, 0, len, src, dst, context) }
    }

    #[allow(clippy::too_many_arguments)]
    unsafe fn request_with(
        &mut self,
        op: Op,
        iv: &mut [u8; BLOCK],
        assoclen: usize,
        len: usize,
        src: &[(*mut u8, usize)],
        dst: &[(*mut u8, usize)],
        context: Context,
    ) -> (Errno, Errno) {
        // As its users say it: the same list is in place.
        let in_place = src == dst;
        let mut src = scatterlist(src);
        let mut dst = scatterlist(dst);
        let mut raw = sys::Request {
            tfm: self.raw.tfm,
            src: src.as_mut_ptr(),
            dst: match in_place {
                true => src.as_mut_ptr(),
                false => dst.as_mut_ptr(),
            },
            iv: iv.as_mut_ptr(),
            assoclen: assoclen as u32,
            len: len as u32,
            decrypt: op == Op::Decrypt,
            context: context as u32,
            ..Default::default()
        };
        // SAFETY: the function takes this structure; the lists end with a marked piece. It
        // returns when the request is answered.
        unsafe { cpu::gate(self.api.request, (&raw mut raw).cast()) };
        (Errno(raw.submitted), Errno(raw.result))
    }
}

impl Drop for Skcipher {
    fn drop(&mut self) {
        if !self.raw.tfm.is_null() {
            // SAFETY: opened once, closed once.
            unsafe { cpu::gate(self.api.close, (&raw mut self.raw).cast()) };
        }
    }
}

/// Where the salts of `seqiv` transforms opened from now on come from.
pub fn seed(seed: u64) {
    init();
    // SAFETY: takes any number.
    unsafe { sys::kiln_crypto_seed(seed) }
}

/// The key of `authenc`, from the keys of hash and cipher.
pub fn authenc_key(auth: &[u8], enc: &[u8]) -> Vec<u8> {
    let mut key = vec![8, 0, 1, 0];
    key.extend((enc.len() as u32).to_be_bytes());
    key.extend(auth);
    key.extend(enc);
    key
}

fn scatterlist(pieces: &[(*mut u8, usize)]) -> Vec<sys::Scatterlist> {
    assert!(!pieces.is_empty(), "a list has a piece");
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

/// A transform as an operation of a load, with one request for each that may be in flight.
pub struct Asked {
    raw: Box<sys::CryptoOp>,
    _tfm: Skcipher,
}

impl Asked {
    /// `tfm` has its key.
    pub fn new(tfm: Skcipher, slots: u32) -> Result<Asked, Errno> {
        let mut raw = Box::new(sys::CryptoOp {
            tfm: tfm.raw.tfm,
            slots,
            request: ptr::null_mut(),
        });
        // SAFETY: the function takes this structure.
        match unsafe { cpu::gate(sys::kiln_crypto_op_open, (&raw mut *raw).cast()) } {
            0 => Ok(Asked { raw, _tfm: tfm }),
            _ => Err(Errno(-12)),
        }
    }

    /// For a load that is gone before this is: nothing is in flight then.
    pub fn operation(&mut self) -> Operation {
        let ctx = (&raw mut *self.raw).cast();
        // SAFETY: the function and what it takes; a load waits for what it has in flight.
        unsafe { Operation::new(sys::kiln_crypto_op_crypt, ctx, self.raw.slots) }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // SAFETY: the function takes this structure.
        unsafe { cpu::gate(sys::kiln_crypto_op_close, (&raw mut *self.raw).cast()) };
    }
}

/// Rules of cryptd that can be broken on purpose: controls for tests.
#[doc(hidden)]
pub mod broken {
    /// Queues without end.
    pub const NO_LIMIT: u32 = 1;
    /// There is no backlog.
    pub const NO_BACKLOG: u32 = 2;
    /// Waiting requests do not count as users of their transform.
    pub const UNCOUNTED: u32 = 4;
    /// The last request is served first.
    pub const LATE_FIRST: u32 = 8;

    /// From now on, in the whole process.
    pub fn set(rules: u32) {
        // SAFETY: takes any number.
        unsafe { super::sys::kiln_cryptd_break(rules) }
    }
}
