//! What is checked: an implementation of `kernel/`, or an offender that a test of the tests made up.

use kiln_kernel::xts::{Error, Impl, Key, Op, BLOCK};

/// The algorithm that there is so far.
pub const ALG: &str = "xts(aes)";

/// A call: operation, key, IV (16 bytes), source, destination, length. Source and destination are equal
/// or do not overlap; the memory is valid for the call, and the IV's writable, so that a test of the tests
/// may do what none should.
pub type Crypt<'a> =
    dyn Fn(Op, &Key, *const u8, *const u8, *mut u8, usize) -> Result<(), Error> + Sync + 'a;

/// A named implementation of XTS.
pub struct Subject<'a> {
    /// Driver name: what `--impl` takes.
    pub name: String,
    /// How to call it.
    pub crypt: Box<Crypt<'a>>,
}

impl<'a> Subject<'a> {
    /// `imp`, through the safe calls of `kiln-kernel`.
    pub fn of(imp: Impl) -> Subject<'static> {
        let shared = Shared(imp);
        Subject {
            name: imp.driver().to_string(),
            crypt: Box::new(move |op, key, iv, src, dst, len| {
                let imp = shared.get();
                // SAFETY: by the contract of `Crypt` the memory is valid and nobody else uses
                // it during the call; in place, only the exclusive slice is made.
                unsafe {
                    let iv = &*iv.cast::<[u8; BLOCK]>();
                    let out = std::slice::from_raw_parts_mut(dst, len);
                    if std::ptr::eq(src, dst) {
                        imp.crypt_in_place(op, key, iv, out)
                    } else {
                        imp.crypt(op, key, iv, std::slice::from_raw_parts(src, len), out)
                    }
                }
            }),
        }
    }

    /// Something else under a name of its own.
    pub fn new(
        name: &str,
        crypt: impl Fn(Op, &Key, *const u8, *const u8, *mut u8, usize) -> Result<(), Error> + Sync + 'a,
    ) -> Subject<'a> {
        Subject {
            name: name.to_string(),
            crypt: Box::new(crypt),
        }
    }
}

/// An implementation that threads may share.
struct Shared(Impl);

// SAFETY: an `Impl` is a reference to a constant of `kernel/`, which nobody writes.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn get(&self) -> Impl {
        self.0
    }
}

/// The other direction.
pub(crate) fn inverse(op: Op) -> Op {
    match op {
        Op::Encrypt => Op::Decrypt,
        Op::Decrypt => Op::Encrypt,
    }
}
