//! Guests: what interrupts do while something else is tested.

use std::ffi::c_void;

use crate::call::Entry;
use crate::cipher::{Context, Impl, Kind};
use crate::cpu::{self, Cpu};
use crate::sys;

/// A whole message with its answer, in memory of its own.
pub struct Guest {
    raw: sys::Guest,
    _memory: Memory,
}

struct Memory {
    _ctx: Context,
    _src: Box<[u8]>,
    _iv: Box<[u8]>,
    _iv_of: Box<[u8]>,
    _aad: Box<[u8]>,
    _got: Box<[u8]>,
    _want: Box<[u8]>,
}

/// What a guest is given.
pub struct Message<'a> {
    /// The key.
    pub key: &'a [u8],
    pub iv: &'a [u8],
    pub aad: &'a [u8],
    /// The text.
    pub text: &'a [u8],
    /// Ciphertext, or ciphertext and tag, or digest.
    pub want: &'a [u8],
}

impl Guest {
    /// `imp` encrypts or digests `message`; `scalar`, of the same algorithm, where no section may be opened.
    ///
    /// # Panics
    /// If the two cannot, or the answer has not the length of one.
    pub fn new(imp: Impl, scalar: Impl, message: &Message<'_>) -> Guest {
        assert!(imp.tier().usable() && imp.alg() == scalar.alg());
        let entry = match imp.kind() {
            Kind::Skcipher => Entry::Encrypt,
            Kind::Aead => Entry::Seal,
            Kind::Hash => Entry::Digest,
        };
        let (function, section) = imp.function(entry).expect("of its kind").raw();
        let (scalar, of_scalar) = scalar.function(entry).expect("of its kind").raw();
        assert!(!of_scalar, "scalar code needs no section");
        let ctx = Context::new(imp, message.key).expect("a key it takes");
        let boxed = |bytes: &[u8]| bytes.to_vec().into_boxed_slice();
        let (src, aad) = (boxed(message.text), boxed(message.aad));
        let (mut iv, iv_of, want) = (boxed(message.iv), boxed(message.iv), boxed(message.want));
        let mut got = vec![0; want.len()].into_boxed_slice();
        let pointer = |bytes: &[u8]| bytes.as_ptr() as u64;
        let (len, aad_len) = (src.len(), aad.len());
        let (context, dst) = (ctx.bytes().as_ptr() as u64, got.as_mut_ptr() as u64);
        let args = match imp.kind() {
            Kind::Skcipher => {
                assert_eq!(want.len(), len);
                [
                    context,
                    dst,
                    pointer(&src),
                    len as u64,
                    iv.as_mut_ptr() as u64,
                    0,
                    0,
                    0,
                    0,
                ]
            }
            Kind::Aead => {
                let tag_size = want.len() - len;
                assert!(imp.tag_sizes().contains(&tag_size));
                [
                    context,
                    dst,
                    pointer(&src),
                    len as u64,
                    pointer(&aad),
                    aad_len as u64,
                    iv.as_mut_ptr() as u64,
                    dst + len as u64,
                    tag_size as u64,
                ]
            }
            Kind::Hash => {
                assert_eq!(want.len(), imp.digest_size());
                [context, pointer(&src), len as u64, dst, 0, 0, 0, 0, 0]
            }
        };
        assert_eq!(iv.len(), imp.iv_size());
        Guest {
            raw: sys::Guest {
                fn_: function as *const c_void,
                scalar: scalar as *const c_void,
                arg: args,
                section,
                iv: iv.as_mut_ptr(),
                iv_of: iv_of.as_ptr(),
                ivsize: iv.len() as u32,
                got: got.as_mut_ptr(),
                want: want.as_ptr(),
                len: want.len() as u32,
            },
            _memory: Memory {
                _ctx: ctx,
                _src: src,
                _iv: iv,
                _iv_of: iv_of,
                _aad: aad,
                _got: got,
                _want: want,
            },
        }
    }
}

/// Counts of guests' results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Interrupts that came.
    pub interrupts: u64,
    /// Those of them that interrupted a section.
    pub into_sections: u64,
    pub served: u64,
    /// Those of them in a section.
    pub sections: u64,
    /// Those of them by scalar code, as no section could be opened.
    pub scalar_fallbacks: u64,
    /// Those of them with a wrong answer.
    pub corrupted: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.interrupts += other.interrupts;
        self.into_sections += other.into_sections;
        self.served += other.served;
        self.sections += other.sections;
        self.scalar_fallbacks += other.scalar_fallbacks;
        self.corrupted += other.corrupted;
    }
}

/// Guests on the calling thread's CPU, until dropped.
pub struct Guests {
    /// Boxed: `kernel/` keeps its address.
    raw: Box<sys::Guests>,
    _raw_guests: Vec<sys::Guest>,
    _guests: Vec<Guest>,
}

impl Guests {
    /// From now on each interrupt has one of `softirqs` served in a softirq, and one of `hardirqs` at once.
    pub fn attach(_cpu: &mut Cpu, softirqs: Vec<Guest>, hardirqs: Vec<Guest>) -> Guests {
        assert!(!softirqs.is_empty(), "a softirq has something to do");
        let counts = (softirqs.len() as u32, hardirqs.len() as u32);
        let guests: Vec<Guest> = softirqs.into_iter().chain(hardirqs).collect();
        let mut raw_guests: Vec<sys::Guest> = guests
            .iter()
            // SAFETY: plain data; what it points to is kept beside it.
            .map(|g| unsafe { std::ptr::read(&g.raw) })
            .collect();
        let mut raw = Box::new(sys::Guests {
            guest: raw_guests.as_mut_ptr(),
            softirqs: counts.0,
            hardirqs: counts.1,
            next: 0,
            next_hardirq: 0,
            interrupts: 0,
            into_sections: 0,
            served: 0,
            sections: 0,
            scalar_fallbacks: 0,
            corrupted: 0,
        });
        // SAFETY: the structure and what it points to live until `drop` has detached it.
        unsafe { cpu::gate(sys::kiln_guests_attach, (&raw mut *raw).cast()) };
        Guests {
            raw,
            _raw_guests: raw_guests,
            _guests: guests,
        }
    }

    /// So far.
    pub fn counts(&self) -> Counts {
        // SAFETY: this thread's own; volatile, since interrupts write it at any moment.
        let raw = unsafe { std::ptr::read_volatile(&*self.raw) };
        Counts {
            interrupts: raw.interrupts,
            into_sections: raw.into_sections,
            served: raw.served,
            sections: raw.sections,
            scalar_fallbacks: raw.scalar_fallbacks,
            corrupted: raw.corrupted,
        }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        // SAFETY: the function takes this structure.
        unsafe { cpu::gate(sys::kiln_guests_detach, (&raw mut *self.raw).cast()) };
    }
}
