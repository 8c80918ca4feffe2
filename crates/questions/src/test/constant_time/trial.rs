//! Measures one implementation, or one control, with fixed and with random inputs.

use std::hint::black_box;

use kiln_kernel::calls::Calls;
use kiln_kernel::cipher::{Context, Impl, Kind, Op, Sections};
use kiln_kernel::messages::Messages;
use kiln_measure::clock::{tsc_start, tsc_stop};
use kiln_measure::SplitMix64;

/// Size of a message in bytes: some whole blocks and a partial one.
pub(super) const LEN: usize = 100;
const AAD: usize = 20;
/// Number of inputs prepared in advance and then measured in one loop.
const BATCH: usize = 256;

/// A measured implementation or control.
#[derive(Clone, Copy)]
pub(super) enum Subject {
    /// An implementation and the direction in which it is measured.
    Cipher(Impl, Op),
    /// A control: its name, its function, and whether it leaks.
    Control(&'static str, fn(&[u8; 32]), bool),
}

impl Subject {
    /// The controls. Whether each of them leaks is known in advance.
    pub(super) const CONTROLS: [Subject; 3] = [
        Subject::Control("early exit", early_exit, true),
        Subject::Control("a jump for each bit", jump_for_each_bit, true),
        Subject::Control("differences gathered", gather, false),
    ];
}

/// Compares the secret with zeros and stops at the first difference.
fn early_exit(secret: &[u8; 32]) {
    for &byte in secret {
        if black_box(byte) != 0 {
            return;
        }
    }
}

/// Squares a number once for each of 64 bits of the secret, and also multiplies it by a constant if
/// the bit is set, like a naive modular exponentiation. The first published timing attacks targeted
/// such code.
fn jump_for_each_bit(secret: &[u8; 32]) {
    let mut x = black_box(3u64);
    for i in 0..64 {
        x = x.wrapping_mul(x);
        if black_box(secret[i / 8] >> (i % 8)) & 1 != 0 {
            x = black_box(x.wrapping_mul(5));
        }
    }
    black_box(x);
}

/// Compares the secret with zeros in constant time.
fn gather(secret: &[u8; 32]) {
    let differ = secret.iter().fold(0, |d, &byte| d | black_box(byte));
    black_box(differ);
}

/// Returns the measured ticks, first for fixed and then for random inputs. The fixed key and text
/// are derived from the seed `fixed`. For controls, the fixed input is all zeros.
pub(super) fn measure(
    subject: Subject,
    samples: usize,
    fixed: u64,
    rng: &mut SplitMix64,
) -> [Vec<u32>; 2] {
    let mut ticks = [Vec::new(), Vec::new()];
    match subject {
        Subject::Cipher(imp, op) => cipher(imp, op, samples, fixed, rng, &mut ticks),
        Subject::Control(_, run, _) => control(run, samples, rng, &mut ticks),
    }
    ticks
}

fn timed(work: impl FnOnce()) -> u32 {
    let start = tsc_start();
    work();
    let ticks = tsc_stop().wrapping_sub(start);
    ticks.min(u64::from(u32::MAX)) as u32
}

fn control(run: fn(&[u8; 32]), samples: usize, rng: &mut SplitMix64, ticks: &mut [Vec<u32>; 2]) {
    // Copy each input to the same buffer, so that the same work precedes the measurements of both
    // classes.
    let mut working = [0; 32];
    for _ in 0..samples.div_ceil(BATCH) {
        let inputs: Vec<(usize, [u8; 32])> = (0..BATCH)
            .map(|_| {
                let class = (rng.next_u64() >> 63) as usize;
                let mut input = [0; 32];
                rng.fill(&mut input);
                if class == 0 {
                    input.fill(0);
                }
                (class, input)
            })
            .collect();
        for (class, input) in &inputs {
            working.copy_from_slice(black_box(input));
            ticks[*class].push(timed(|| run(black_box(&working))));
        }
    }
}

/// The key and the message of one measurement.
struct Input {
    class: usize,
    ctx: Context,
    text: Vec<u8>,
    iv: Vec<u8>,
    aad: Vec<u8>,
    tag: Vec<u8>,
}

/// The sizes in bytes of an implementation's inputs.
#[derive(Clone, Copy)]
struct Sizes {
    key: usize,
    text: usize,
    aad: usize,
    tag: usize,
}

impl Sizes {
    fn of(imp: Impl) -> Sizes {
        let keys = imp.key_sizes();
        let usual = keys.iter().rev().find(|&&n| n <= 64);
        Sizes {
            key: usual.or(keys.first()).copied().unwrap_or(0),
            text: match imp.kind() {
                Kind::Skcipher => LEN.next_multiple_of(imp.block_size()),
                _ => LEN.max(imp.shortest()),
            },
            aad: if imp.kind() == Kind::Aead { AAD } else { 0 },
            tag: match imp.kind() {
                Kind::Skcipher => 0,
                _ => imp.digest_size(),
            },
        }
    }
}

/// Returns the size in bytes of the key used for measurements.
pub(super) fn key_bytes(imp: Impl) -> usize {
    Sizes::of(imp).key
}

fn cipher(
    imp: Impl,
    op: Op,
    samples: usize,
    fixed: u64,
    rng: &mut SplitMix64,
    ticks: &mut [Vec<u32>; 2],
) {
    let sizes = Sizes::of(imp);
    let mut fixed = SplitMix64(fixed);
    let fixed = (
        random(&mut fixed, sizes.key),
        random(&mut fixed, sizes.text),
    );
    let mut working = input(imp, op, sizes, 0, &fixed, rng);
    let mut dst = vec![0; sizes.text];
    // Warm up the code and the data that it uses, because the first runs are slow for either class.
    for _ in 0..8 {
        call(imp, op, &mut working, &mut dst);
    }
    for _ in 0..samples.div_ceil(BATCH) {
        let inputs: Vec<Input> = (0..BATCH)
            .map(|_| {
                let class = (rng.next_u64() >> 63) as usize;
                let random = (random(rng, sizes.key), random(rng, sizes.text));
                input(
                    imp,
                    op,
                    sizes,
                    class,
                    if class == 0 { &fixed } else { &random },
                    rng,
                )
            })
            .collect();
        for one in &inputs {
            working.ctx.copy_from(&one.ctx);
            working.text.copy_from_slice(&one.text);
            working.iv.copy_from_slice(&one.iv);
            working.aad.copy_from_slice(&one.aad);
            working.tag.copy_from_slice(&one.tag);
            let time = timed(|| call(imp, op, &mut working, &mut dst));
            ticks[one.class].push(time);
        }
    }
}

fn random(rng: &mut SplitMix64, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    rng.fill(&mut bytes);
    bytes
}

/// Creates an input. The IV and the associated data are public, so they are random in both classes.
/// For decryption, the given text is first encrypted, which also computes the tag.
fn input(
    imp: Impl,
    op: Op,
    sizes: Sizes,
    class: usize,
    (key, text): &(Vec<u8>, Vec<u8>),
    rng: &mut SplitMix64,
) -> Input {
    let mut iv = random(rng, imp.iv_size());
    if imp.alg().contains("ccm") {
        // RFC 3610: the first byte is the size of the length field in bytes, minus 1.
        iv[0] = 3;
    }
    let mut input = Input {
        class,
        ctx: Context::new(imp, key).expect("a size it takes"),
        text: text.clone(),
        iv,
        aad: random(rng, sizes.aad),
        tag: vec![0; sizes.tag],
    };
    if op == Op::Decrypt {
        let mut sealed = vec![0; sizes.text];
        call(imp, Op::Encrypt, &mut input, &mut sealed);
        input.text = sealed;
    }
    input
}

fn call(imp: Impl, op: Op, input: &mut Input, dst: &mut [u8]) {
    let (dst, tags) = match imp.kind() {
        Kind::Hash => (&mut input.tag[..], None),
        Kind::Aead => (dst, Some(&mut input.tag[..])),
        Kind::Skcipher => (dst, None),
    };
    let mut calls = Calls {
        messages: Messages {
            tag_size: tags.as_ref().map_or(0, |t| t.len()),
            ..Messages::single(op, &input.text, dst, &input.iv)
        },
        aad: Some(&input.aad),
        aad_len: input.aad.len(),
        tags,
        sections: Sections::Each,
        ..Calls::default()
    };
    let refused = calls.run(imp, &input.ctx, 1).expect("right lengths");
    assert_eq!(refused, 0, "{imp:?} opens what it sealed");
}
