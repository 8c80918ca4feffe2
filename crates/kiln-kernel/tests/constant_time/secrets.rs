//! Calls every implementation with secrets that memcheck tracks.

use std::hint::black_box;

use kiln_kernel::calls::Calls;
use kiln_kernel::cipher::{Context, Impl, Kind, Op};
use kiln_kernel::messages::Messages;
use kiln_kernel::pieces::Pieces;
use kiln_kernel::tier::Tier;

use crate::memcheck::{all_secret, errors, public, secret};

/// Message lengths in bytes: shorter than a block, near the step sizes of loops, and long.
const LENGTHS: [usize; 20] = [
    0, 1, 7, 15, 16, 17, 31, 33, 48, 63, 64, 65, 127, 128, 200, 256, 500, 528, 1100, 4200,
];

/// The number of errors that memcheck found during one call.
#[derive(Debug)]
pub(crate) struct Found {
    pub name: String,
    pub what: String,
    /// Number of jumps and addresses that depended on a secret.
    pub errors: u64,
}

impl Found {
    fn tell(&self) {
        println!("\nfound\t{}\t{}\t{}", self.name, self.what, self.errors);
    }

    /// Parses a line that the process under valgrind printed.
    pub(crate) fn read(line: &str) -> Option<Found> {
        match *line.split('\t').collect::<Vec<_>>() {
            ["found", name, what, errors] => Some(Found {
                name: name.to_owned(),
                what: what.to_owned(),
                errors: errors.parse().ok()?,
            }),
            _ => None,
        }
    }
}

/// Returns the name and the tier of each implementation, and whether it declares itself
/// constant-time.
pub(crate) fn all() -> Vec<(&'static str, Tier, bool)> {
    let all = Impl::all().into_iter();
    all.map(|i| (i.driver(), i.tier(), i.constant_time()))
        .collect()
}

/// Runs `call` and prints how many errors memcheck reported during the call.
fn watch(name: &str, what: &str, call: impl FnOnce()) {
    let before = errors();
    call();
    Found {
        name: name.to_owned(),
        what: what.to_owned(),
        errors: errors() - before,
    }
    .tell();
}

fn bytes(n: usize, from: u8) -> Vec<u8> {
    (0..n).map(|i| (i as u8).wrapping_mul(151) ^ from).collect()
}

pub(crate) fn every_implementation() {
    for imp in Impl::all().into_iter().filter(|i| i.tier().usable()) {
        for &len in &LENGTHS {
            let len = match imp.kind() {
                Kind::Skcipher => len.next_multiple_of(imp.block_size()),
                _ => len,
            };
            if len < imp.shortest() {
                continue;
            }
            for key_len in key_lengths(imp) {
                for &aad_len in aad_lengths(imp) {
                    check_message(imp, key_len, aad_len, len);
                }
            }
        }
    }
    let side_by_side = |i: &Impl| i.tier().usable() && i.lanes().is_some();
    for imp in Impl::all().into_iter().filter(side_by_side) {
        for len in key_lengths(imp) {
            match imp.kind() {
                Kind::Aead => many_sealed(imp, len),
                _ => many(imp, len),
            }
        }
    }
}

/// Returns key lengths to test: all lengths if there are at most three, otherwise the shortest, 32
/// bytes and the longest.
fn key_lengths(imp: Impl) -> Vec<usize> {
    match imp.key_sizes() {
        sizes if sizes.is_empty() => vec![0],
        sizes if sizes.len() <= 3 => sizes,
        // The longest size matters, because HMAC first hashes any key that is longer than a block
        // of its hash.
        sizes => vec![
            sizes[0],
            32.min(sizes[sizes.len() - 1]),
            sizes[sizes.len() - 1],
        ],
    }
}

fn aad_lengths(imp: Impl) -> &'static [usize] {
    match imp.kind() {
        Kind::Aead => &[0, 13, 16, 40],
        _ => &[0],
    }
}

/// Processes a message in both directions, whole and in pieces. The results must equal those
/// computed without memcheck's tracking, and must depend on the secrets.
fn check_message(imp: Impl, key_len: usize, aad_len: usize, len: usize) {
    let mut key = bytes(key_len, 3);
    let mut iv = bytes(imp.iv_size(), 0x5e);
    if imp.alg().contains("ccm") {
        iv[0] = 3;
    }
    let aad = bytes(aad_len, 0x77);
    let text = bytes(len, 0xc1);
    let message = Message { imp, iv, aad };
    let plain = Context::new(imp, &key).expect("a size it takes");
    let sealed = message.call(&plain, Op::Encrypt, &text, &[]);

    let what = format!("{} bytes of key, {aad_len} of aad, {len}", key.len());
    secret(&mut key);
    watch(imp.driver(), &format!("{what}: encrypt"), || {
        let mut text = text.clone();
        // Also mark the text as secret: if the algorithm has no key, the text is the only secret.
        secret(&mut text);
        let ctx = Context::new(imp, &key).expect("a size it takes");
        let got = message.call(&ctx, Op::Encrypt, &text, &[]);
        let pieces = message.pieces(&ctx, Op::Encrypt, &text);
        for got in [got, pieces] {
            got.is(&sealed, imp);
        }
    });
    if imp.kind() == Kind::Hash {
        return;
    }
    watch(imp.driver(), &format!("{what}: decrypt"), || {
        let ctx = Context::new(imp, &key).expect("a size it takes");
        let right = message.call(&ctx, Op::Decrypt, &sealed.text, &sealed.tag);
        let pieces = message.pieces(&ctx, Op::Decrypt, &sealed.text);
        let want = Answer {
            text: text.clone(),
            tag: sealed.tag.clone(),
            refused: 0,
            nothing: false,
        };
        right.is(
            &Answer {
                tag: Vec::new(),
                ..want.clone()
            },
            imp,
        );
        pieces.is(&want, imp);
        if imp.kind() == Kind::Aead {
            let mut tag = sealed.tag.clone();
            tag[7] ^= 4;
            let wrong = message.call(&ctx, Op::Decrypt, &sealed.text, &tag);
            assert_eq!(wrong.refused, 1, "{imp:?}: a wrong tag");
        }
    });
}

/// Checks `encrypt_many` or `finish_many`, which process several messages in parallel.
fn many(imp: Impl, key_len: usize) {
    const COUNT: usize = 21;
    const LEN: usize = 176;
    let result = match imp.kind() {
        Kind::Hash => imp.digest_size(),
        _ => LEN,
    };
    let mut key = bytes(key_len, 3);
    let ivs = bytes(COUNT * imp.iv_size(), 0x5e);
    let mut text = bytes(COUNT * LEN, 0xc1);
    let encrypted = |key: &[u8], text: &[u8], many| {
        let ctx = Context::new(imp, key).expect("a size it takes");
        let (mut dst, mut iv_room) = (vec![0; COUNT * result], vec![0; ivs.len()]);
        let mut calls = Calls {
            many,
            ..Calls::new(Messages {
                op: Op::Encrypt,
                src: text,
                dst: &mut dst,
                ivs: &ivs,
                iv_room: &mut iv_room,
                src_stride: LEN,
                dst_stride: result,
                iv_stride: imp.iv_size(),
                len: LEN,
                count: COUNT,
                ..Messages::default()
            })
        };
        calls.run(imp, &ctx, COUNT as u64).expect("right lengths");
        Answer {
            text: dst,
            tag: Vec::new(),
            refused: 0,
            nothing: false,
        }
    };
    let right = encrypted(&key, &text, false);
    secret(&mut key);
    secret(&mut text);
    let what = format!("{key_len} bytes of key, {COUNT} messages of {LEN}");
    watch(imp.driver(), &what, || {
        encrypted(&key, &text, true).is(&right, imp);
    });
}

/// Checks `seal_many` and `open_many`, including a case with one wrong tag.
fn many_sealed(imp: Impl, key_len: usize) {
    const COUNT: usize = 21;
    const LEN: usize = 183;
    const AAD: usize = 40;
    let tag_size = imp.digest_size();
    let mut key = bytes(key_len, 3);
    let mut ivs = bytes(COUNT * imp.iv_size(), 0x5e);
    if imp.alg().contains("ccm") {
        ivs.chunks_mut(imp.iv_size()).for_each(|iv| iv[0] = 3);
    }
    let aad = bytes(COUNT * AAD, 0x77);
    let call = |key: &[u8], op, text: &[u8], tags: &[u8], many| {
        let ctx = Context::new(imp, key).expect("a size it takes");
        let (mut dst, mut tags) = (vec![0; COUNT * LEN], tags.to_vec());
        let mut calls = Calls {
            messages: Messages {
                op,
                src: text,
                dst: &mut dst,
                ivs: &ivs,
                src_stride: LEN,
                dst_stride: LEN,
                iv_stride: imp.iv_size(),
                len: LEN,
                tag_size,
                count: COUNT,
                ..Messages::default()
            },
            aad: Some(&aad),
            aad_len: AAD,
            tags: Some(&mut tags),
            many,
            ..Calls::default()
        };
        let refused = calls.run(imp, &ctx, COUNT as u64).expect("right lengths");
        Answer {
            text: dst,
            tag: if op == Op::Encrypt { tags } else { Vec::new() },
            refused,
            nothing: false,
        }
    };
    let mut text = bytes(COUNT * LEN, 0xc1);
    let sealed = call(&key, Op::Encrypt, &text, &vec![0; COUNT * tag_size], false);
    let opened = Answer {
        text: text.clone(),
        tag: Vec::new(),
        ..sealed.clone()
    };
    let mut forged = sealed.tag.clone();
    forged[5 * tag_size + 7] ^= 4;
    secret(&mut key);
    secret(&mut text);
    let what = format!("{key_len} bytes of key, {COUNT} messages of {LEN}");
    watch(imp.driver(), &format!("{what}: encrypt"), || {
        let tags = vec![0; COUNT * tag_size];
        call(&key, Op::Encrypt, &text, &tags, true).is(&sealed, imp);
    });
    watch(imp.driver(), &format!("{what}: decrypt"), || {
        call(&key, Op::Decrypt, &sealed.text, &sealed.tag, true).is(&opened, imp);
        let wrong = call(&key, Op::Decrypt, &sealed.text, &forged, true);
        assert_eq!(wrong.refused, 1, "{imp:?}: a wrong tag");
    });
}

struct Message {
    imp: Impl,
    iv: Vec<u8>,
    aad: Vec<u8>,
}

#[derive(Clone)]
struct Answer {
    text: Vec<u8>,
    /// Tag or digest that the implementation computed.
    tag: Vec<u8>,
    refused: u64,
    /// Whether this is the hash of an empty message. Such a hash does not necessarily depend on the
    /// key; for GHASH, it is 0.
    nothing: bool,
}

impl Answer {
    /// Asserts that the answer equals `want`. For keyed algorithms, also asserts that every byte of
    /// the answer depends on a secret, except if it is the hash of an empty message.
    fn is(mut self, want: &Answer, imp: Impl) {
        let (text, tag) = (all_secret(&self.text), all_secret(&self.tag));
        public(&mut self.text);
        public(&mut self.tag);
        assert_eq!(self.refused, want.refused, "{imp:?}");
        assert_eq!(self.text, want.text, "{imp:?}");
        assert_eq!(self.tag, want.tag, "{imp:?}");
        if imp.is_keyed() && !self.nothing {
            assert!(text && tag, "{imp:?}: memcheck lost the secrets on the way");
        }
    }
}

impl Message {
    fn call(&self, ctx: &Context, op: Op, text: &[u8], tag: &[u8]) -> Answer {
        let imp = self.imp;
        let tag_size = match imp.kind() {
            Kind::Skcipher => 0,
            _ => imp.digest_size(),
        };
        let mut tags = vec![0; tag_size];
        let open = op == Op::Decrypt && imp.kind() == Kind::Aead;
        if open {
            tags.copy_from_slice(tag);
        }
        let answer = imp.once(op, ctx, &self.iv, &self.aad, text, &mut tags);
        let dst = answer.expect("right lengths");
        Answer {
            refused: u64::from(dst.is_none()),
            text: dst.unwrap_or_default(),
            tag: if open { Vec::new() } else { tags },
            nothing: text.is_empty() && imp.kind() == Kind::Hash,
        }
    }

    fn pieces(&self, ctx: &Context, op: Op, text: &[u8]) -> Answer {
        let imp = self.imp;
        let tag_size = match imp.kind() {
            Kind::Aead => imp.digest_size(),
            _ => 0,
        };
        let first = text.len() / 3 / 64 * 64;
        let aad_pieces = match imp.kind() {
            Kind::Aead => vec![self.aad.len() / 2, self.aad.len().div_ceil(2)],
            _ => Vec::new(),
        };
        let mut dst = vec![
            0;
            if imp.kind() == Kind::Hash {
                0
            } else {
                text.len()
            }
        ];
        let tag = imp.pieces(
            ctx,
            &mut Pieces {
                op,
                other: None,
                src: text,
                dst: &mut dst,
                iv: &self.iv,
                aad: &self.aad,
                tag_size,
                aad_pieces: &aad_pieces,
                pieces: &[first, text.len() - first],
            },
        );
        let tag_len = match imp.kind() {
            Kind::Skcipher => 0,
            _ => imp.digest_size(),
        };
        Answer {
            text: dst,
            tag: tag[..tag_len].to_vec(),
            refused: 0,
            nothing: text.is_empty() && imp.kind() == Kind::Hash,
        }
    }
}

/// Runs the controls: three operations in which a jump or an address depends on a secret, and one
/// operation in which neither does.
pub(crate) fn every_offender() {
    let mut a = bytes(16, 1);
    let b = bytes(16, 1);
    secret(&mut a);
    watch(
        "early exit",
        "a comparison that stops at the first difference",
        || {
            for (a, b) in a.iter().zip(&b) {
                if black_box(*a) != black_box(*b) {
                    break;
                }
            }
        },
    );
    watch("look-up", "a table at a secret address", || {
        let table = black_box([7u8; 256]);
        black_box(table[usize::from(a[3])]);
    });
    watch("branch", "a multiplication for the ones of a key", || {
        let mut product = black_box(1u64);
        for i in 0..8 {
            if black_box(a[0] >> i) & 1 != 0 {
                product = black_box(product.wrapping_mul(3));
            }
        }
    });
    watch("innocent", "differences gathered", || {
        let differ = a.iter().zip(&b).fold(0, |d, (a, b)| d | (a ^ b));
        black_box(differ);
    });
}
