//! Guests: crypto calls that run in interrupts to disturb the code under test.

use crate::call::Entry;
use crate::cipher::{Context, Impl, Kind};
use crate::cpu::{self, Cpu};
use crate::derive::counts;
use crate::sys;

/// A crypto call on one whole message, together with the expected result. Owns all its buffers.
pub struct Guest {
    raw: sys::Guest,
    _ctx: Context,
    _bytes: [Vec<u8>; 6],
}

/// The input and the expected result of a guest.
pub struct Message<'a> {
    pub key: &'a [u8],
    pub iv: &'a [u8],
    pub aad: &'a [u8],
    pub text: &'a [u8],
    /// Expected result. For a hash, this is the digest; for an AEAD, the ciphertext followed by the
    /// tag; otherwise, the ciphertext.
    pub want: &'a [u8],
}

impl Guest {
    /// Creates a guest that encrypts or digests `message` with `imp`. If a section is not allowed,
    /// the guest uses `scalar`, another implementation of the same algorithm.
    ///
    /// # Panics
    /// If an implementation is unsuitable, or the expected result has the wrong length.
    pub fn new(imp: Impl, scalar: Impl, message: &Message<'_>) -> Guest {
        assert!(imp.tier().usable() && imp.alg() == scalar.alg());
        let entry = match imp.kind() {
            Kind::Skcipher => Entry::Encrypt,
            Kind::Aead => Entry::Seal,
            Kind::Hash => Entry::Digest,
        };
        let function = imp.function(entry).expect("a function of its kind");
        let scalar = scalar.function(entry).expect("a function of its kind");
        assert!(!scalar.needs_section(), "scalar code needs no section");
        let ctx = Context::new(imp, message.key).expect("a key it accepts");
        let &Message {
            text,
            aad,
            iv,
            want,
            ..
        } = message;
        let [src, aad, mut iv, iv_of, want] = [text, aad, iv, iv, want].map(<[u8]>::to_vec);
        let mut got = vec![0; want.len()];
        let pointer = |bytes: &[u8]| bytes.as_ptr() as u64;
        let (len, aad_len) = (src.len(), aad.len() as u64);
        let (context, dst) = (pointer(ctx.bytes()), got.as_mut_ptr() as u64);
        let (from, iv_at) = (pointer(&src), iv.as_mut_ptr() as u64);
        let n = len as u64;
        let args = match imp.kind() {
            Kind::Skcipher => {
                assert_eq!(want.len(), len);
                [context, dst, from, n, iv_at, 0, 0, 0, 0]
            }
            Kind::Aead => {
                let (tag_size, tag) = (want.len() - len, dst + n);
                assert!(imp.tag_sizes().contains(&tag_size));
                let aad = pointer(&aad);
                let tag_size = tag_size as u64;
                [context, dst, from, n, aad, aad_len, iv_at, tag, tag_size]
            }
            Kind::Hash => {
                assert_eq!(want.len(), imp.digest_size());
                [context, from, n, dst, 0, 0, 0, 0, 0]
            }
        };
        assert_eq!(iv.len(), imp.iv_size());
        Guest {
            raw: sys::Guest {
                fn_: function.address(),
                scalar: scalar.address(),
                arg: args,
                section: function.needs_section(),
                iv: iv.as_mut_ptr(),
                iv_of: iv_of.as_ptr(),
                ivsize: iv.len() as u32,
                got: got.as_mut_ptr(),
                want: want.as_ptr(),
                len: want.len() as u32,
            },
            _ctx: ctx,
            _bytes: [src, aad, iv, iv_of, want, got],
        }
    }
}

counts! {
    /// Counts of interrupts, and of the messages that guests processed.
    pub struct Counts {
        interrupts,
        /// Interrupts that arrived inside a section.
        into_sections,
        served,
        /// Messages for which a section was opened.
        sections,
        /// Messages processed by scalar code because no section could be opened.
        scalar_fallbacks,
        /// Messages with a wrong result.
        corrupted,
    }
}

/// The guests of the calling thread's CPU. Interrupts call them until this value is dropped.
pub struct Guests {
    /// Boxed, because `kernel/` stores the structure's address.
    raw: Box<sys::Guests>,
    _raw_guests: Vec<sys::Guest>,
    _guests: Vec<Guest>,
}

impl Guests {
    /// Attaches guests to the CPU. From now on, each interrupt calls one of `hardirqs` immediately,
    /// and raises a softirq that calls one of `softirqs`.
    pub fn attach(_cpu: &mut Cpu, softirqs: Vec<Guest>, hardirqs: Vec<Guest>) -> Guests {
        assert!(!softirqs.is_empty(), "at least one guest for softirqs");
        let counts = (softirqs.len() as u32, hardirqs.len() as u32);
        let guests: Vec<Guest> = softirqs.into_iter().chain(hardirqs).collect();
        let mut raw_guests: Vec<sys::Guest> = guests.iter().map(|g| g.raw).collect();
        let mut raw = Box::new(sys::Guests {
            guest: raw_guests.as_mut_ptr(),
            softirqs: counts.0,
            hardirqs: counts.1,
            ..Default::default()
        });
        // SAFETY: the structure and everything it points to live until `drop` has detached it.
        unsafe { cpu::gate(sys::kiln_guests_attach, (&raw mut *raw).cast()) };
        Guests {
            raw,
            _raw_guests: raw_guests,
            _guests: guests,
        }
    }

    pub fn counts(&self) -> Counts {
        // SAFETY: the structure belongs to this thread. The read is volatile, because interrupts
        // may write the structure at any time.
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
        // SAFETY: `kiln_guests_detach` takes a pointer to this structure, which is attached.
        unsafe { cpu::gate(sys::kiln_guests_detach, (&raw mut *self.raw).cast()) };
    }
}
