//! Calls one function of an implementation in a given context.

use std::ffi::c_void;

use crate::cipher::{Impl, Kind};
use crate::cpu;
use crate::fpu::Context;
use crate::sys::{self, KeyFn};
use crate::tier::Tier;

pub use crate::sys::AeadMessage;

/// A C function that calls another function, and records the registers before and after that call.
pub type Through =
    unsafe extern "C" fn(registers: *mut c_void, function: *const c_void, args: *const u64) -> u64;

/// A function of an implementation. `kernel/include/kiln/cipher.h` documents the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Expands a key into a context.
    SetKey,
    /// Processes a whole message. Also processes pieces if the implementation has no separate
    /// function for them.
    Encrypt,
    Decrypt,
    /// Computes the IV for the first piece of a message.
    First,
    EncryptPiece,
    DecryptPiece,
    /// Encrypts several whole messages in parallel.
    EncryptMany,
    /// Encrypts a whole message and writes its tag.
    Seal,
    /// Decrypts a whole message, or rejects it if its tag is wrong.
    Open,
    /// Encrypts several whole messages in parallel and writes their tags.
    SealMany,
    /// Decrypts several whole messages in parallel, and rejects those whose tags are wrong.
    OpenMany,
    /// Begins an authenticated message that is processed in pieces. The next four functions
    /// continue and finish the message.
    Begin,
    Aad,
    SealPiece,
    OpenPiece,
    End,
    /// Begins a hash. The next two functions continue and finish the hash.
    Init,
    Update,
    Final,
    /// Hashes a whole message.
    Digest,
    /// Finishes the hashes of several messages in parallel.
    FinishMany,
}

/// The address of a function, and whether the function must be called in an FPU section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    address: *const c_void,
    section: bool,
}

impl Function {
    /// Creates a function from its address. Tests use this to replace a real function with a faulty
    /// one.
    ///
    /// # Safety
    /// The function at `address` must have the signature of the function that it replaces.
    pub unsafe fn new(address: *const c_void, section: bool) -> Function {
        Function { address, section }
    }

    pub fn address(self) -> *const c_void {
        self.address
    }

    pub fn needs_section(self) -> bool {
        self.section
    }
}

impl Impl {
    /// Returns the function for `entry`, or `None` if the implementation lacks this function.
    pub fn function(self, entry: Entry) -> Option<Function> {
        // Returns a function's address, or `None` if the implementation is of another kind or lacks
        // the function.
        macro_rules! at {
            ($kind:expr, $ops:ident, $function:ident) => {
                match self.kind() {
                    // SAFETY: `kind` determines which member of the union is initialised.
                    kind if kind == $kind => unsafe { self.0.__bindgen_anon_1.$ops.$function }
                        .map(|f| f as *const c_void),
                    _ => None,
                }
            };
        }
        let address = match entry {
            Entry::SetKey => self.0.setkey.map(|f| f as *const c_void),
            Entry::Encrypt => at!(Kind::Skcipher, cipher, encrypt),
            Entry::Decrypt => at!(Kind::Skcipher, cipher, decrypt),
            Entry::First => at!(Kind::Skcipher, cipher, first),
            Entry::EncryptPiece => at!(Kind::Skcipher, cipher, encrypt_piece),
            Entry::DecryptPiece => at!(Kind::Skcipher, cipher, decrypt_piece),
            Entry::EncryptMany => at!(Kind::Skcipher, cipher, encrypt_many),
            Entry::Seal => at!(Kind::Aead, aead, seal),
            Entry::Open => at!(Kind::Aead, aead, open),
            Entry::SealMany => at!(Kind::Aead, aead, seal_many),
            Entry::OpenMany => at!(Kind::Aead, aead, open_many),
            Entry::Begin => at!(Kind::Aead, aead, begin),
            Entry::Aad => at!(Kind::Aead, aead, aad),
            Entry::SealPiece => at!(Kind::Aead, aead, encrypt),
            Entry::OpenPiece => at!(Kind::Aead, aead, decrypt),
            Entry::End => at!(Kind::Aead, aead, end),
            Entry::Init => at!(Kind::Hash, hash, init),
            Entry::Update => at!(Kind::Hash, hash, update),
            Entry::Final => at!(Kind::Hash, hash, final_),
            Entry::Digest => at!(Kind::Hash, hash, digest),
            Entry::FinishMany => at!(Kind::Hash, hash, finish_many),
        };
        address.map(|address| Function {
            address,
            section: entry != Entry::SetKey && self.tier() != Tier::Generic,
        })
    }

    /// Returns a copy of the implementation with a different driver name and one function replaced.
    /// Tests use this to plant a fault.
    ///
    /// # Panics
    /// If the implementation does not have the function `entry`.
    ///
    /// # Safety
    /// `function` must have the signature of the function that it replaces.
    #[doc(hidden)]
    pub unsafe fn disguised(
        self,
        driver: &'static std::ffi::CStr,
        entry: Entry,
        function: *const c_void,
    ) -> Impl {
        let replaced = self
            .function(entry)
            .expect("the implementation has the function")
            .address();
        let mut copy = *self.0;
        copy.driver = driver.as_ptr();
        if entry == Entry::SetKey {
            // SAFETY: function pointers and data pointers have the same size, and the caller
            // promises that `function` has the signature of `setkey`.
            copy.setkey = Some(unsafe { std::mem::transmute::<*const c_void, KeyFn>(function) });
        }
        let ops = (&raw mut copy.__bindgen_anon_1).cast::<*const c_void>();
        for i in 0..size_of::<sys::ImplAny>() / size_of::<usize>() {
            // SAFETY: the index is inside the union. The union is fully initialised and consists
            // only of words: function pointers and, in each member, a lane count.
            let op = unsafe { &mut *ops.add(i) };
            if *op == replaced {
                *op = function;
            }
        }
        // Leak the copy, because a descriptor must stay valid until the process exits.
        Impl(Box::leak(Box::new(copy)))
    }
}

pub struct Call {
    pub function: Function,
    /// Called instead of `function` if the context does not allow an FPU section.
    pub scalar: Option<Function>,
    /// The function's arguments: pointers and lengths.
    pub args: [u64; 9],
    pub context: Context,
    /// The function through which the call is made, and the memory in which that function records
    /// the registers.
    pub through: Option<(Through, *mut c_void)>,
    /// Whether the FPU section is single-stepped.
    pub step: bool,
}

/// Result of [`Call::make`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The function's return value, if it has one.
    pub result: u64,
    /// Whether the scalar function was called.
    pub fell_back: bool,
    pub preempt_count: u32,
}

impl Call {
    /// Makes the call on the calling thread's CPU. Returns `None` if the context allows neither
    /// `function` nor `scalar`.
    ///
    /// # Safety
    /// The arguments must be valid for both functions, and the CPU must support the functions'
    /// tiers.
    pub unsafe fn make(&self) -> Option<Returned> {
        let mut raw = sys::Call {
            fn_: self.function.address(),
            scalar: self.scalar.map_or(std::ptr::null(), |f| f.address()),
            arg: self.args,
            through: self.through.map(|t| t.0),
            registers: self.through.map_or(std::ptr::null_mut(), |t| t.1),
            context: self.context as u32,
            section: self.function.section,
            step: self.step,
            ..Default::default()
        };
        // SAFETY: `kiln_call` takes a pointer to this structure, and the caller promises that the
        // pointers in the structure are valid.
        unsafe { cpu::gate(sys::kiln_call, (&raw mut raw).cast()) };
        raw.done.then_some(Returned {
            result: raw.result,
            fell_back: raw.fell_back,
            preempt_count: raw.preempt_count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn last(
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        ninth: u64,
    ) -> u64 {
        ninth
    }

    #[test]
    fn nine_arguments_arrive_in_every_context() {
        for context in Context::ALL {
            let call = Call {
                // SAFETY: `last` takes nine words and returns a word, so its signature matches the
                // call below.
                function: unsafe { Function::new(last as *const c_void, false) },
                scalar: None,
                args: [0, 1, 2, 3, 4, 5, 6, 7, 8],
                context,
                through: None,
                step: false,
            };
            // SAFETY: `last` accepts any numbers as arguments, and needs no CPU feature.
            let returned = unsafe { call.make() }.expect("a function that needs no section");
            assert_eq!(returned.result, 8, "{context:?}");
            assert!(!returned.fell_back);
            assert_eq!(returned.preempt_count == 0, context == Context::Task);
        }
    }

    #[test]
    fn functions_are_those_of_the_kind() {
        for imp in Impl::all() {
            let has = |entry| imp.function(entry).is_some();
            assert_eq!(has(Entry::SetKey), imp.is_keyed(), "{imp:?}");
            assert_eq!(has(Entry::Encrypt), imp.kind() == Kind::Skcipher, "{imp:?}");
            assert_eq!(has(Entry::Seal), imp.kind() == Kind::Aead, "{imp:?}");
            assert_eq!(has(Entry::Digest), imp.kind() == Kind::Hash, "{imp:?}");
            assert_eq!(has(Entry::First), imp.alg() == "xts(aes)", "{imp:?}");
        }
    }
}
