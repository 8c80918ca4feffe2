//! Requests to the crypto API agree with the primitive, however they are divided, wherever
//! they are made, whatever interrupts them.

use kiln_kernel::cipher::{Context as KeyContext, Op, BLOCK};
use kiln_kernel::crypto::{self, Errno, Model, Skcipher, ASYNC, INTERNAL};
use kiln_kernel::fpu::Context;
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::load::{all_impls, best_impl, Load, TaskWork};

use crate::corruption::config;
use crate::machine::{alone, assert_clean, boot, correct, judge, messages, plan, random};

/// Requests of all policies together, in a test that runs alone.
const REQUESTS: u64 = 1_000_000;

pub struct Draw<'a>(pub &'a mut dyn FnMut(&mut [u8]));

impl Draw<'_> {
    pub fn below(&mut self, n: usize) -> usize {
        let mut bytes = [0; 8];
        (self.0)(&mut bytes);
        (u64::from_le_bytes(bytes) % n as u64) as usize
    }

    /// Mostly short, now and then some pages.
    pub fn len(&mut self) -> usize {
        BLOCK
            + match self.below(8) {
                0 => self.below(9_000),
                1 | 2 => self.below(600),
                _ => self.below(80),
            }
    }

    /// `len` bytes in pieces that lie anywhere in a buffer: offset and length of each, at
    /// most as many as a scatterlist of a network packet has.
    pub fn pieces(&mut self, len: usize, room: usize) -> Vec<(usize, usize)> {
        let n = match self.below(4) {
            0 => 1,
            1 => 2,
            _ => 1 + self.below(17),
        };
        let mut cuts: Vec<usize> = (1..n).map(|_| self.below(len + 1)).collect();
        cuts.extend([0, len]);
        cuts.sort_unstable();
        let mut at = self.below(64);
        cuts.windows(2)
            .map(|w| {
                let piece = (at, w[1] - w[0]);
                at += piece.1 + self.below(40);
                assert!(at < room);
                piece
            })
            .collect()
    }
}

pub const ROOM: usize = 16 << 10;

/// Where the bytes around the pieces are to stay as they are.
pub const POISON: u8 = 0xa5;

/// One request, held against the primitive; what is wrong with it.
#[allow(clippy::too_many_arguments)]
fn check_request(
    draw: &mut Draw<'_>,
    tfm: &mut Skcipher,
    key: &KeyContext,
    data: &[u8],
    src: &mut [u8],
    dst: &mut [u8],
    want: &mut [u8],
    later: &mut u64,
) -> Result<(), String> {
    let len = draw.len();
    let op = [Op::Encrypt, Op::Decrypt][draw.below(2)];
    let context = [Context::Task, Context::TaskBhOff, Context::Softirq][draw.below(3)];
    let in_place = draw.below(3) == 0;
    let data = &data[draw.below(data.len() - len)..][..len];
    let mut iv = [0; BLOCK];
    (draw.0)(&mut iv);

    let from = draw.pieces(len, ROOM);
    let to = if in_place {
        from.clone()
    } else {
        draw.pieces(len, ROOM)
    };
    let mut rest = data;
    for &(at, n) in &from {
        src[at..at + n].copy_from_slice(&rest[..n]);
        rest = &rest[n..];
    }
    let end = to.last().map_or(0, |&(at, n)| at + n) + 64;
    if !in_place {
        dst[..end].fill(POISON);
    }
    let list = |base: *mut u8, pieces: &[(usize, usize)]| -> Vec<(*mut u8, usize)> {
        pieces
            .iter()
            .map(|&(at, n)| (base.wrapping_add(at), n))
            .collect()
    };
    let src_list = list(src.as_mut_ptr(), &from);
    let dst_list = match in_place {
        true => src_list.clone(),
        false => list(dst.as_mut_ptr(), &to),
    };
    let before = iv;
    // SAFETY: the pieces lie in the buffers, apart from each other.
    let (submitted, result) =
        unsafe { tfm.request(op, &mut iv, len, &src_list, &dst_list, context) };
    let what = || {
        format!(
            "{}, {op:?} of {len} bytes in {context:?}, in place {in_place}, from {from:?} to {to:?}",
            tfm.driver()
        )
    };
    if submitted == Errno::IN_PROGRESS {
        *later += 1;
    } else if submitted != result {
        return Err(format!("{}: {submitted}, then {result}", what()));
    }
    if result != Errno(0) {
        return Err(format!("{}: {result}", what()));
    }
    best_impl().crypt(op, key, &before, data, &mut want[..len]);
    let got = if in_place { &*src } else { &*dst };
    let mut rest = &want[..len];
    let mut behind = 0;
    for &(at, n) in &to {
        if got[at..at + n] != rest[..n] {
            return Err(format!("{}: wrong bytes", what()));
        }
        if !in_place && got[behind..at].iter().any(|&b| b != POISON) {
            return Err(format!("{}: written between the pieces", what()));
        }
        behind = at + n;
        rest = &rest[n..];
    }
    if !in_place && got[behind..end].iter().any(|&b| b != POISON) {
        return Err(format!("{}: written behind the pieces", what()));
    }
    Ok(())
}

/// Every driver of a model, internal ones included.
fn drivers(model: Model) -> Vec<Skcipher> {
    model.set();
    let open = |name: String, kind| Skcipher::open(&name, kind, INTERNAL).ok();
    all_impls()
        .into_iter()
        .flat_map(|i| {
            [
                open(i.driver().into(), 0),
                open(format!("__{}", i.driver()), INTERNAL),
                open(format!("cryptd(__{})", i.driver()), INTERNAL),
            ]
        })
        .flatten()
        .collect()
}

#[test]
fn a_million_requests_agree_with_the_primitive() {
    alone(
        "requests::a_million_requests_agree_with_the_primitive",
        |seed| {
            let mut cpu = boot();
            let policies = correct();
            let each = REQUESTS / (2 * policies.len() as u64);
            for p in policies {
                p.set(&mut cpu);
                for full in [false, true] {
                    cpu.configure(&config(full));
                    cpu.reset_stats();
                    let model = match (p.name(), full) {
                        ("legacy", _) | (_, true) => Model::Helper,
                        _ => Model::Direct,
                    };
                    model.set();
                    let before = crypto::memory_in_use();
                    let mut tfms = drivers(model);
                    let mut next = random(seed ^ each);
                    let mut raw = [0; 64];
                    next(&mut raw);
                    let key = KeyContext::new(best_impl(), &raw).expect("64 bytes");
                    for tfm in &mut tfms {
                        tfm.set_key(&raw).expect("64 bytes");
                    }
                    let mut data = vec![0; ROOM];
                    next(&mut data);
                    let (mut src, mut dst) = (vec![0; ROOM], vec![0; ROOM]);
                    let mut want = vec![0; ROOM];
                    // What interrupts do meanwhile; the task's own work is never run.
                    let mut plan = plan(
                        TaskWork::Crypt(judge(), messages(seed, Op::Encrypt, 64, 4)),
                        seed,
                    );
                    plan.hardirq_fpu = true;
                    let mut load = Load::attach(&mut cpu, plan).expect("tiers are there");
                    let timer = Timer::start(load.cpu(), Arrivals::Poisson(15_000.0, seed))
                        .expect("a timer");
                    let count = tfms.len();
                    let mut later = 0;
                    for i in 0..each {
                        let tfm = &mut tfms[i as usize % count];
                        let done = check_request(
                            &mut Draw(&mut next),
                            tfm,
                            &key,
                            &data,
                            &mut src,
                            &mut dst,
                            &mut want,
                            &mut later,
                        );
                        if let Err(what) = done {
                            panic!("{p}, full preemption {full}, request {i}: {what}");
                        }
                    }
                    drop(timer);
                    assert_clean(&format!("{p}, full {full}"), &load.counts());
                    drop(load);
                    let stats = cpu.stats();
                    println!(
                        "{p}, {model:?}: {each} requests, {later} answered later, \
                         {} interrupts, {} in sections",
                        stats.irqs, stats.irqs_in_section
                    );
                    assert!(stats.irqs_in_section > 0);
                    drop(tfms);
                    assert_eq!(crypto::memory_in_use(), before, "all is given back");
                }
            }
        },
    );
}

/// The names, the flags and the priorities of Linux, and what a caller who excludes
/// asynchronous algorithms gets.
#[test]
fn algorithms_are_found_as_linux_has_them() {
    alone("requests::algorithms_are_found_as_linux_has_them", |_| {
        let _cpu = boot();
        let best = best_impl();
        if best.tier() == kiln_kernel::Tier::Generic {
            return println!("SKIPPED: no SIMD tier here");
        }
        Model::Helper.set();
        let any = Skcipher::open("xts(aes)", 0, 0).unwrap();
        assert_eq!(any.driver(), best.driver());
        assert!(any.is_async() && !any.is_internal());
        assert_eq!(any.priority(), best.priority() as i32);
        let sync = Skcipher::open("xts(aes)", 0, ASYNC).unwrap();
        assert_eq!(sync.driver(), "xts-aes-fixed-time");
        let inner = format!("__{}", best.driver());
        assert_eq!(
            Skcipher::open(&inner, 0, 0).err(),
            Some(Errno::NOT_THERE),
            "internal ones must be asked for"
        );
        let open_inner = |name: &str| Skcipher::open(name, INTERNAL, INTERNAL).unwrap();
        assert!(!open_inner(&inner).is_async());
        // Through the helper's transform there is an instance of cryptd already.
        let cryptd = open_inner(&format!("cryptd({inner})"));
        assert_eq!(cryptd.driver(), format!("cryptd({inner})"));
        assert!(cryptd.is_async() && cryptd.is_internal());
        assert_eq!(cryptd.priority(), best.priority() as i32 + 50);
        for (name, kind, mask) in [
            (format!("cryptd({})", best.driver()), 0, 0),
            ("cryptd(cryptd(xts-aes-generic))".into(), 0, 0),
            ("cryptd(nothing)".into(), 0, 0),
            ("cryptd()".into(), 0, 0),
            ("cryptd(xts-aes-generic".into(), 0, 0),
            ("cryptd(xts-aes-generic)".into(), 0, ASYNC),
            ("gcm(aes)".into(), 0, 0),
            ("sha256".into(), 0, 0),
            ("x".repeat(300), 0, 0),
            (String::new(), 0, 0),
        ] {
            assert_eq!(
                Skcipher::open(&name, kind, mask).err(),
                Some(Errno::NOT_THERE),
                "{name}"
            );
        }
        Model::Direct.set();
        let direct = Skcipher::open("xts(aes)", 0, ASYNC).unwrap();
        assert_eq!(direct.driver(), best.driver());
        assert!(!direct.is_async());
    });
}

#[test]
fn bad_requests_are_refused() {
    alone("requests::bad_requests_are_refused", |_| {
        let cpu = boot();
        for model in [Model::Helper, Model::Direct] {
            for mut tfm in drivers(model) {
                let mut bytes = [0u8; 64];
                let base = bytes.as_mut_ptr();
                let ask = |tfm: &mut Skcipher, len, have, context| {
                    let mut iv = [0; BLOCK];
                    let list = [(base, have)];
                    // SAFETY: the piece is the array, or less.
                    unsafe { tfm.request(Op::Encrypt, &mut iv, len, &list, &list, context) }.1
                };
                let what = tfm.driver().to_string();
                assert_eq!(
                    ask(&mut tfm, 16, 64, Context::Task),
                    Errno::NO_KEY,
                    "{what}"
                );
                for len in [0, 16, 31, 33, 65] {
                    assert_eq!(tfm.set_key(&vec![1; len]), Err(Errno::INVALID), "{what}");
                }
                tfm.set_key(&[7; 64]).unwrap();
                assert_eq!(ask(&mut tfm, 16, 64, Context::Task), Errno(0), "{what}");
                assert_eq!(
                    ask(&mut tfm, 15, 64, Context::Task),
                    Errno::INVALID,
                    "{what}"
                );
                assert_eq!(
                    ask(&mut tfm, 0, 64, Context::Task),
                    Errno::INVALID,
                    "{what}"
                );
                assert_eq!(
                    ask(&mut tfm, 64, 63, Context::Task),
                    Errno::INVALID,
                    "{what}"
                );
                assert_eq!(tfm.set_key(&[7; 63]), Err(Errno::INVALID));
                assert_eq!(
                    ask(&mut tfm, 16, 64, Context::Task),
                    Errno::NO_KEY,
                    "{what}: a key that was refused leaves none"
                );
                tfm.set_key(&[7; 64]).unwrap();
                for context in [
                    Context::Hardirq,
                    Context::HardirqOverBhOff,
                    Context::HardirqOverSoftirq,
                    Context::Nmi,
                ] {
                    let before = cpu.stats().warnings;
                    assert_eq!(ask(&mut tfm, 16, 64, context), Errno::DEADLOCK, "{what}");
                    assert_eq!(cpu.stats().warnings, before + 1, "{what}: it is a bug");
                }
            }
        }
    });
}
