//! Whose crypto API: the one linked in, or another build of `kernel/`.

use std::alloc::{alloc_zeroed, handle_alloc_error, Layout};
use std::ffi::c_void;

use super::{init, MEMORY};
use crate::cpu;
use crate::sys::{self, GateFn};

/// Its functions, as `abi/crypto.h` declares them.
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

/// What starts one.
struct Start {
    give: unsafe extern "C" fn(*mut c_void, usize),
    init: unsafe extern "C" fn() -> i32,
    memory: *mut c_void,
}

extern "C" fn start(arg: *mut c_void) -> u64 {
    // SAFETY: called through the gate with what `foreign` made.
    unsafe {
        let start = &*arg.cast::<Start>();
        (start.give)(start.memory, MEMORY);
        (start.init)() as u64
    }
}

impl Api {
    /// The API linked into this program, with its algorithms registered.
    pub fn get_linked() -> &'static Api {
        init();
        &LINKED
    }

    /// The API of another build, which gets memory that is never freed and registers its algorithms. For tests.
    ///
    /// # Safety
    /// `symbol` finds the exported functions of a `kernel/` with this one's structures, which stays loaded; it is
    /// asked for once for each.
    ///
    /// # Panics
    /// If it does not start.
    pub unsafe fn foreign(symbol: &dyn Fn(&str) -> *const c_void) -> &'static Api {
        let layout = Layout::from_size_align(MEMORY, 64).expect("a small power of two");
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the caller's promise.
        let function = |name| unsafe { std::mem::transmute::<*const c_void, GateFn>(symbol(name)) };
        // SAFETY: likewise.
        let mut starter = unsafe {
            Start {
                give: std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void, usize)>(
                    symbol("kiln_slab_give"),
                ),
                init: std::mem::transmute::<*const c_void, unsafe extern "C" fn() -> i32>(symbol(
                    "kiln_crypto_init",
                )),
                memory: memory.cast(),
            }
        };
        // SAFETY: the function takes this structure.
        let err = unsafe { cpu::gate(start, (&raw mut starter).cast()) };
        assert_eq!(err, 0, "the algorithms are registered");
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
