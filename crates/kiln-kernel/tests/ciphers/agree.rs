//! All tiers of an algorithm agree with its first, whole and in pieces, alone and taking turns.

use kiln_kernel::cipher::{Context, Impl, Kind, Op, Pieces};

use crate::buffer::{call, Answer, Message, Random};

/// Messages an implementation, unless `KILN_CASES` says otherwise.
fn cases() -> u64 {
    std::env::var("KILN_CASES").map_or(1500, |n| n.parse().expect("KILN_CASES is a number"))
}

fn seed() -> u64 {
    std::env::var("KILN_SEED").map_or(1, |n| n.parse().expect("KILN_SEED is a number"))
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len())]
}

/// Short ones mostly, and each length up to some vectors' worth sooner or later.
fn length(imp: Impl, random: &mut Random) -> usize {
    let len = match random.below(10) {
        0 => random.below(9000),
        1..=3 => random.below(1100),
        _ => random.below(300),
    };
    let len = len.max(imp.shortest());
    match imp.kind() {
        Kind::Skcipher => len.next_multiple_of(imp.block_size()),
        _ => len,
    }
}

pub fn message(imp: Impl, random: &mut Random) -> Message {
    let key = match imp.key_sizes() {
        sizes if sizes.is_empty() => Vec::new(),
        sizes => {
            let n = pick(random, &sizes);
            random.bytes(n)
        }
    };
    let aad = match (imp.kind(), random.below(6)) {
        (Kind::Aead, 0) => 0,
        (Kind::Aead, 1) => random.below(700),
        (Kind::Aead, _) => random.below(40),
        _ => 0,
    };
    let len = length(imp, random);
    let mut iv = random.bytes(imp.iv_size());
    // Counters that carry, now and then.
    if random.below(4) == 0 {
        let from = random.below(imp.iv_size() + 1);
        iv[from..].fill(0xff);
        // At once, or within a few hundred blocks.
        if let Some(last) = iv.last_mut().filter(|_| random.below(2) == 0) {
            *last = random.below(256) as u8;
        }
    }
    // ChaCha20's is the first four bytes, little-endian, and wraps within the message.
    if imp.alg() == "chacha20" && random.below(4) == 0 {
        iv[1..4].fill(0xff);
    }
    if imp.alg().starts_with("ccm") || imp.alg().ends_with("ccm(aes))") {
        // RFC 3610: the first byte says how long the length is.
        iv[0] = 1 + random.below(7) as u8;
        if len > 255 && iv[0] == 1 {
            iv[0] = 3;
        }
    }
    Message {
        key,
        iv,
        aad: random.bytes(aad),
        text: random.bytes(len),
        tag_size: match imp.kind() {
            Kind::Aead => pick(random, &imp.tag_sizes()),
            _ => 0,
        },
    }
}

/// `len` cut into pieces of whole blocks of `block` but the last, which has at least `last`.
fn cut(len: usize, block: usize, last: usize, random: &mut Random) -> Vec<usize> {
    let mut pieces = Vec::new();
    let mut left = len;
    while left > 0 {
        let most = match random.below(3) {
            0 => 40,
            1 => 300,
            _ => 2000,
        };
        let n = (random.below(most) / block * block).min(left);
        // A piece of nothing is a piece.
        // XTS: the last piece has a block at least, as a message has.
        let n = if n < left && left - n < last { left } else { n };
        pieces.push(n);
        left -= n;
        if left > 0 && (left < block || random.below(8) == 0) {
            pieces.push(left);
            left = 0;
        }
    }
    pieces
}

/// What a piece of an algorithm's text has at least, but for the last.
fn unit(imp: Impl) -> usize {
    match imp.kind() {
        Kind::Hash => 1,
        Kind::Aead => 64,
        // A counter mode's IV counts whole blocks.
        Kind::Skcipher => imp.block_size().max(64),
    }
}

#[test]
fn tiers_agree() {
    for alg in Impl::algorithms() {
        let impls: Vec<Impl> = Impl::find_all(alg)
            .into_iter()
            .filter(|i| i.tier().usable())
            .collect();
        let judge = impls[0];
        let mut random = Random(seed());
        for i in 0..cases() {
            let m = message(judge, &mut random);
            let op = pick(&mut random, &[Op::Encrypt, Op::Decrypt]);
            let ctx = Context::new(judge, &m.key).expect("a size it says it takes");
            // To decrypt there must be something that was encrypted.
            let sealed = call(judge, &ctx, Op::Encrypt, &m, &[], false, 0);
            let (m, want) = match (op, judge.kind()) {
                (Op::Decrypt, Kind::Skcipher | Kind::Aead) => {
                    let want = Answer {
                        text: m.text.clone(),
                        tag: sealed.tag.clone(),
                        accepted: true,
                    };
                    let m = Message {
                        text: sealed.text,
                        ..m
                    };
                    (m, want)
                }
                _ => (m, sealed),
            };
            for &imp in &impls {
                let what = format!("{imp:?}, KILN_SEED={}, case {i}, {op:?}", seed());
                let own = Context::new(imp, &m.key).expect("a size all tiers take");
                assert_eq!(own.bytes(), ctx.bytes(), "{what}: another context");
                let (in_place, at) = (random.below(2) == 0, random.below(64));
                let got = call(imp, &own, op, &m, &want.tag, in_place, at);
                assert_eq!(got, want, "{what}: {} bytes", m.text.len());

                let block = unit(imp);
                let aad_pieces = cut(m.aad.len(), 1, 0, &mut random);
                let pieces = cut(m.text.len(), block, imp.shortest(), &mut random);
                let other = (random.below(2) == 0).then(|| pick(&mut random, &impls));
                let mut dst = vec![0; m.text.len()];
                let tag = imp.pieces(
                    &own,
                    &mut Pieces {
                        op,
                        other,
                        src: &m.text,
                        dst: &mut dst,
                        iv: &m.iv,
                        aad: &m.aad,
                        tag_size: m.tag_size,
                        aad_pieces: &aad_pieces,
                        pieces: &pieces,
                    },
                );
                let what = format!("{what}: in turn with {other:?}, {aad_pieces:?} {pieces:?}");
                if imp.kind() != Kind::Hash {
                    assert_eq!(dst, want.text, "{what}");
                }
                if imp.kind() != Kind::Skcipher {
                    assert_eq!(tag[..want.tag.len()], want.tag, "{what}");
                }
            }
        }
        println!("{alg}: {} messages, {impls:?}", cases());
    }
}
