//! Selects a crypto API: either the one linked into this program, or one from another build of
//! `kernel/`.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::cpu;
use crate::sys::{self, GateFn};

/// Size in bytes of the memory for transforms and requests. It suffices for scripts of a few
/// thousand requests. Unused memory costs nothing, because the host allocates each page on first
/// access.
const MEMORY: usize = 16 << 20;

/// The functions of a crypto API, as declared by `abi/crypto.h`.
#[derive(Debug)]
pub struct Api {
    pub(super) open: GateFn,
    pub(super) close: GateFn,
    pub(super) setkey: GateFn,
    pub(super) setauthsize: GateFn,
    pub(super) request: GateFn,
    pub(super) digest: GateFn,
}

static LINKED: Api = Api {
    open: sys::kiln_crypto_open,
    close: sys::kiln_crypto_close,
    setkey: sys::kiln_crypto_setkey,
    setauthsize: sys::kiln_crypto_setauthsize,
    request: sys::kiln_crypto_request,
    digest: sys::kiln_crypto_digest,
};

type Give = unsafe extern "C" fn(*mut c_void, usize);
type Init = unsafe extern "C" fn() -> i32;

/// Starts an API with memory that is never freed, and registers the API's algorithms. Returns the
/// memory.
///
/// # Safety
/// The functions must belong to one copy of `kernel/` that has not been started.
///
/// # Panics
/// If registration fails.
unsafe fn start(give: Give, init: Init) -> &'static [AtomicU64] {
    extern "C" fn call_both(arg: *mut c_void) -> u64 {
        // SAFETY: the gate passes a pointer to the tuple below, and the memory is never freed.
        unsafe {
            let (give, init, memory) = *arg.cast::<(Give, Init, &[AtomicU64])>();
            give(memory.as_ptr().cast_mut().cast(), size_of_val(memory));
            init() as u64
        }
    }
    let memory = cpu::leak_pages(MEMORY);
    let mut arg = (give, init, memory);
    // SAFETY: `call_both` takes a pointer to this tuple, and the calling thread is or becomes a
    // CPU.
    let err = unsafe { cpu::gate(call_both, (&raw mut arg).cast()) };
    assert_eq!(err, 0, "the algorithms can be registered");
    memory
}

/// The memory for all transforms and requests, both in use and free. Other threads may access the
/// memory at the same time.
static SLAB: OnceLock<&[AtomicU64]> = OnceLock::new();

pub(crate) fn init() {
    // SAFETY: both functions belong to the `kernel/` that is linked in, and only this code calls
    // them.
    SLAB.get_or_init(|| unsafe { start(sys::kiln_slab_give, sys::kiln_crypto_init) });
}

/// Returns whether the memory of transforms and requests contains these two consecutive words.
/// Tests use this to check that keys are wiped.
pub fn memory_holds(words: [u64; 2]) -> bool {
    let pairs = SLAB.get().into_iter().flat_map(|memory| memory.windows(2));
    let mut pairs = pairs.map(|pair| [0, 1].map(|i| pair[i].load(Ordering::Relaxed)));
    pairs.any(|pair| pair == words)
}

impl Api {
    /// Returns the API linked into this program, with its algorithms registered.
    pub fn get_linked() -> &'static Api {
        init();
        &LINKED
    }

    /// Starts the API of another build, for tests. Gives the API memory that is never freed, and
    /// registers its algorithms.
    ///
    /// # Safety
    /// `symbol` must return the exported functions of a `kernel/` that has the same structures and
    /// stays loaded. This function must be called only once per build.
    ///
    /// # Panics
    /// If registration fails.
    pub unsafe fn foreign(symbol: &dyn Fn(&str) -> *const c_void) -> &'static Api {
        // SAFETY: the caller promises that the symbol is a function of this type.
        let function = |name| unsafe { std::mem::transmute::<*const c_void, GateFn>(symbol(name)) };
        // SAFETY: the caller promises that the symbols are functions of these types.
        unsafe {
            start(
                std::mem::transmute::<*const c_void, Give>(symbol("kiln_slab_give")),
                std::mem::transmute::<*const c_void, Init>(symbol("kiln_crypto_init")),
            )
        };
        Box::leak(Box::new(Api {
            open: function("kiln_crypto_open"),
            close: function("kiln_crypto_close"),
            setkey: function("kiln_crypto_setkey"),
            setauthsize: function("kiln_crypto_setauthsize"),
            request: function("kiln_crypto_request"),
            digest: function("kiln_crypto_digest"),
        }))
    }
}
