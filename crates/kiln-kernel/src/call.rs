//! One function of an implementation, called in a given context.

use std::ffi::c_void;

use crate::cipher::{Impl, Kind};
use crate::cpu;
use crate::fpu::Context;
use crate::sys::{self, KeyFn};
use crate::tier::Tier;

/// Makes the call and records the registers before and after it.
pub type Through =
    unsafe extern "C" fn(registers: *mut c_void, function: *const c_void, args: *const u64) -> u64;

/// Which of an implementation's functions: see `kernel/include/kiln/cipher.h` for what each takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Expands a key to a context.
    SetKey,
    /// A whole message, or a piece where there is no other function for pieces.
    Encrypt,
    Decrypt,
    /// Makes the IV that pieces start from.
    First,
    EncryptPiece,
    DecryptPiece,
    /// Several whole messages side by side.
    EncryptMany,
    /// A whole message with its tag.
    Seal,
    /// Checks the tag and rejects the message if it is wrong.
    Open,
    /// Begins an authenticated message in pieces; the next four continue it.
    Begin,
    Aad,
    SealPiece,
    OpenPiece,
    End,
    /// Begins a hash; the next two continue it.
    Init,
    Update,
    Final,
    /// A whole hash.
    Digest,
}

/// The address of a function, and whether it must be called in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    address: *const c_void,
    section: bool,
}

impl Function {
    /// Any function, for tests of the tests.
    ///
    /// # Safety
    /// The function at `address` has the signature of the function that it replaces.
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
    /// The function, if the implementation has it.
    pub fn function(self, entry: Entry) -> Option<Function> {
        // The address of a function of this kind, if there is one.
        macro_rules! at {
            ($kind:expr, $ops:ident, $function:ident) => {
                match self.kind() {
                    // SAFETY: this member of the union is the one of this kind.
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
            Entry::Begin => at!(Kind::Aead, aead, begin),
            Entry::Aad => at!(Kind::Aead, aead, aad),
            Entry::SealPiece => at!(Kind::Aead, aead, encrypt),
            Entry::OpenPiece => at!(Kind::Aead, aead, decrypt),
            Entry::End => at!(Kind::Aead, aead, end),
            Entry::Init => at!(Kind::Hash, hash, init),
            Entry::Update => at!(Kind::Hash, hash, update),
            Entry::Final => at!(Kind::Hash, hash, final_),
            Entry::Digest => at!(Kind::Hash, hash, digest),
        };
        address.map(|address| Function {
            address,
            section: entry != Entry::SetKey && self.tier() != Tier::Generic,
        })
    }

    /// The same implementation under another name with one function replaced, for tests of the tests.
    ///
    /// # Panics
    /// If it has no such function.
    ///
    /// # Safety
    /// `function` is called as the one it replaces.
    #[doc(hidden)]
    pub unsafe fn disguised(
        self,
        driver: &'static std::ffi::CStr,
        entry: Entry,
        function: *const c_void,
    ) -> Impl {
        let replaced = self.function(entry).expect("a function it has").address();
        let mut copy = *self.0;
        copy.driver = driver.as_ptr();
        if entry == Entry::SetKey {
            // SAFETY: the caller's promise: it is called as one.
            copy.setkey = Some(unsafe { std::mem::transmute::<*const c_void, KeyFn>(function) });
        }
        let ops = (&raw mut copy.__bindgen_anon_1).cast::<*const c_void>();
        for i in 0..size_of::<sys::ImplAny>() / size_of::<usize>() {
            // SAFETY: within the union, which is initialised throughout: whole words, functions but for a number of
            // lanes.
            let op = unsafe { &mut *ops.add(i) };
            if *op == replaced {
                *op = function;
            }
        }
        // Descriptors live forever, as those of `kernel/` do.
        Impl(Box::leak(Box::new(copy)))
    }
}

pub struct Call {
    pub function: Function,
    /// Called instead where no section may be opened.
    pub scalar: Option<Function>,
    /// The arguments: pointers and lengths.
    pub args: [u64; 9],
    pub context: Context,
    /// The function that makes the call, and its memory.
    pub through: Option<(Through, *mut c_void)>,
    /// Single-step the section.
    pub step: bool,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The function's return value, if it has one.
    pub result: u64,
    /// Whether the scalar function was called.
    pub fell_back: bool,
    pub preempt_count: u32,
}

impl Call {
    /// Makes the call on the calling thread's CPU. Returns `None` if no function may be called in that context.
    ///
    /// # Safety
    /// The arguments are what the functions take, and the CPU has their tier.
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
        // SAFETY: the function takes this structure; what it points to is the caller's promise.
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
                // SAFETY: it is called as what it is.
                function: unsafe { Function::new(last as *const c_void, false) },
                scalar: None,
                args: [0, 1, 2, 3, 4, 5, 6, 7, 8],
                context,
                through: None,
                step: false,
            };
            // SAFETY: numbers.
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
