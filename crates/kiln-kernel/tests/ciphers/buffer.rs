//! Memory around which nothing may be touched, and random numbers.

use kiln_kernel::calls::Calls;
use kiln_kernel::cipher::{Context, Impl, Kind, Op, Sections};
use kiln_kernel::messages::Messages;

const POISON: u8 = 0xa5;
const AROUND: usize = 64;

/// Random bytes from a seed (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

/// `len` bytes at any alignment with poison on both sides.
pub struct Guarded {
    bytes: Vec<u8>,
    at: usize,
    len: usize,
}

impl Guarded {
    pub fn new(len: usize, at: usize) -> Guarded {
        Guarded {
            bytes: vec![POISON; len + 2 * AROUND + at],
            at: AROUND + at,
            len,
        }
    }

    pub fn inside(&mut self) -> &mut [u8] {
        &mut self.bytes[self.at..self.at + self.len]
    }

    #[track_caller]
    pub fn untouched(&self, what: &str) {
        let (before, rest) = self.bytes.split_at(self.at);
        let clean = |b: &[u8]| b.iter().all(|&b| b == POISON);
        assert!(clean(before), "{what}: written before the buffer");
        assert!(
            clean(&rest[self.len..]),
            "{what}: written behind the buffer"
        );
    }
}

/// One message.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub key: Vec<u8>,
    pub iv: Vec<u8>,
    pub aad: Vec<u8>,
    pub text: Vec<u8>,
    pub tag_size: usize,
}

/// What came of it: the text, the tag or digest, whether it was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub text: Vec<u8>,
    pub tag: Vec<u8>,
    pub accepted: bool,
}

/// One call, in place or from another buffer, each buffer guarded, at any alignment.
pub fn call(
    imp: Impl,
    ctx: &Context,
    op: Op,
    message: &Message,
    tag: &[u8],
    in_place: bool,
    at: usize,
) -> Answer {
    let what = format!(
        "{imp:?}, {op:?}, {} bytes, in place {in_place}",
        message.text.len()
    );
    let len = message.text.len();
    let tag_len = match imp.kind() {
        Kind::Skcipher => 0,
        Kind::Aead => message.tag_size,
        Kind::Hash => imp.digest_size(),
    };
    let mut src = Guarded::new(len, at % 17);
    src.inside().copy_from_slice(&message.text);
    let mut dst = Guarded::new(len, at % 31);
    let mut out = Guarded::new(tag_len, at % 7);
    if op == Op::Decrypt && imp.kind() == Kind::Aead {
        out.inside().copy_from_slice(tag);
    }
    let refused = {
        // What is written in place is read there as well.
        let (from, to) = match in_place {
            true => {
                let p = src.inside().as_mut_ptr();
                // SAFETY: the same bytes as source and destination is what in place means;
                // `kernel/` is given both as pointers.
                unsafe {
                    (
                        std::slice::from_raw_parts(p, len),
                        std::slice::from_raw_parts_mut(p, len),
                    )
                }
            }
            false => {
                let p = src.inside().as_ptr();
                // SAFETY: the buffer lives on and is only read.
                (unsafe { std::slice::from_raw_parts(p, len) }, dst.inside())
            }
        };
        let (dst, tags) = match imp.kind() {
            Kind::Hash => (out.inside(), None),
            Kind::Aead => (to, Some(out.inside())),
            Kind::Skcipher => (to, None),
        };
        let mut calls = Calls {
            messages: Messages {
                tag_size: if tags.is_some() { tag_len } else { 0 },
                ..Messages::single(op, from, dst, &message.iv)
            },
            aad: Some(&message.aad),
            aad_len: message.aad.len(),
            tags,
            sections: Sections::Each,
            ..Calls::default()
        };
        calls.run(imp, ctx, 1).expect("right lengths")
    };
    src.untouched(&what);
    dst.untouched(&what);
    out.untouched(&what);
    if !in_place {
        assert_eq!(src.inside(), message.text, "{what}: the source was written");
    }
    let text = match (imp.kind(), in_place) {
        (Kind::Hash, _) => Vec::new(),
        (_, true) => src.inside().to_vec(),
        (_, false) => dst.inside().to_vec(),
    };
    Answer {
        text,
        tag: out.inside().to_vec(),
        accepted: refused == 0,
    }
}
