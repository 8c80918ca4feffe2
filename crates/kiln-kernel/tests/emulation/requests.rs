//! Requests to the crypto API must give the same results as direct calls, regardless of how their
//! memory is divided, in which context they are made, and what interrupts them.

use kiln_kernel::cipher::{Context as KeyContext, Impl, Op, BLOCK};
use kiln_kernel::crypto::{self, Errno, Model, Skcipher, ASYNC, INTERNAL};
use kiln_kernel::fpu::Context;
use kiln_kernel::irq::Arrivals;
use kiln_kernel::load::{all_impls, best_impl, Plan, TaskWork};
use kiln_measure::SplitMix64;

use crate::machine::{
    assert_clean, boot, config, correct_policies, interrupted, judge, messages, plan, repeat_until,
    run_alone,
};

/// Total number of requests for all policies together if the test runs alone.
const REQUESTS: u64 = 1_000_000;

const ROOM: usize = 16 << 10;

/// Value of the bytes around the pieces. Requests must not change these bytes.
const POISON: u8 = 0xa5;

/// A source of reproducible random choices.
pub(crate) struct Draw(SplitMix64);

impl Draw {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.fill(&mut bytes);
        bytes
    }

    pub(crate) fn iv(&mut self) -> [u8; BLOCK] {
        self.bytes(BLOCK).try_into().expect("a block")
    }

    /// Draws a length in bytes. Most lengths are short, but some span several pages.
    pub(crate) fn len(&mut self) -> usize {
        BLOCK
            + match self.below(8) {
                0 => self.below(9_000),
                1 | 2 => self.below(600),
                _ => self.below(80),
            }
    }

    /// Divides `len` bytes into up to 17 pieces at random positions in a buffer, like the
    /// scatterlist of a network packet. Returns the offset and length of each piece.
    fn pieces(&mut self, len: usize) -> Vec<(usize, usize)> {
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
                assert!(at < ROOM);
                piece
            })
            .collect()
    }
}

/// The source and destination buffers of a request.
pub(crate) struct Memory([Vec<u8>; 2]);

type List = Vec<(*mut u8, usize)>;

impl Memory {
    /// Makes a request over random pieces, with `input` as the source. Checks that the bytes around
    /// the pieces are unchanged. Returns the result, `output` bytes of the destination, and whether
    /// the request completed asynchronously.
    pub(crate) fn pass(
        &mut self,
        draw: &mut Draw,
        input: &[u8],
        output: usize,
        mut request: impl FnMut(&List, &List, Context) -> (Errno, Errno),
    ) -> Result<(Vec<u8>, Errno, bool), String> {
        let context = draw.pick(&[Context::Task, Context::TaskBhOff, Context::Softirq]);
        let in_place = draw.below(2) == 0;
        let from = match in_place {
            true => draw.pieces(input.len().max(output)),
            false => draw.pieces(input.len()),
        };
        let to = match in_place {
            true => from.clone(),
            false => draw.pieces(output),
        };
        let fault =
            |why| format!("{why}, in {context:?}, in place {in_place}, from {from:?} to {to:?}");
        let end = |pieces: &[(usize, usize)]| pieces.last().map_or(0, |&(at, n)| at + n) + 64;
        let [src, dst] = &mut self.0;
        src[..end(&from)].fill(POISON);
        dst[..end(&to)].fill(POISON);
        let mut rest = input;
        for &(at, n) in &from {
            let n = n.min(rest.len());
            src[at..at + n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
        }
        let list = |buffer: &mut [u8], pieces: &[(usize, usize)]| -> List {
            let base = buffer.as_mut_ptr();
            let pieces = pieces.iter();
            pieces.map(|&(at, n)| (base.wrapping_add(at), n)).collect()
        };
        let src_list = list(src, &from);
        let dst_list = match in_place {
            true => src_list.clone(),
            false => list(dst, &to),
        };
        let (submitted, result) = request(&src_list, &dst_list, context);
        let later = submitted == Errno::IN_PROGRESS;
        if !later && submitted != result {
            return Err(fault(format!("{submitted}, then {result}")));
        }
        let got = if in_place { src } else { dst };
        let (mut all, mut behind) = (Vec::new(), 0);
        for (at, n) in to.iter().copied().chain([(end(&to), 0)]) {
            if got[behind..at].iter().any(|&b| b != POISON) {
                return Err(fault(format!(
                    "byte {behind} to {at}: written around the pieces"
                )));
            }
            all.extend(&got[at..at + n]);
            behind = at + n;
        }
        all.truncate(output);
        Ok((all, result, later))
    }
}

/// Makes one request to an skcipher and compares the output with the output of `judge`. Returns
/// whether the request completed asynchronously.
pub(crate) fn check_cipher(
    draw: &mut Draw,
    memory: &mut Memory,
    tfm: &mut Skcipher,
    judge: Impl,
    key: &KeyContext,
) -> Result<bool, String> {
    let len = draw.len().next_multiple_of(judge.block_size());
    let op = draw.pick(&[Op::Encrypt, Op::Decrypt]);
    let (text, mut iv, mut want) = (draw.bytes(len), draw.iv(), vec![0; len]);
    judge.crypt(op, key, &iv, &text, &mut want);
    let (got, result, later) = memory.pass(draw, &text, len, |src, dst, context| {
        // SAFETY: the pieces are inside the buffers and do not overlap.
        unsafe { tfm.request(op, &mut iv, len, src, dst, context) }
    })?;
    match (result, got == want) {
        (Errno(0), true) => Ok(later),
        (e, _) => Err(format!("{op:?} of {len} bytes: {e}, or wrong bytes")),
    }
}

/// Makes `total` requests to the transforms that `open` returns, under every policy and preemption
/// model, while interrupts also encrypt. `ask` makes one request and returns whether the request
/// completed asynchronously.
pub(crate) fn ask_under_every_policy<T>(
    seed: u64,
    total: u64,
    open: impl Fn(Model, &mut Draw) -> Vec<T>,
    ask: impl Fn(&mut T, &mut Draw, &mut Memory) -> Result<bool, String>,
) {
    let mut cpu = boot();
    crypto::seed(seed);
    let each = total / (2 * correct_policies().len() as u64);
    let mut memory = Memory([vec![0; ROOM], vec![0; ROOM]]);
    for p in correct_policies() {
        p.set(&mut cpu);
        for full in [false, true] {
            cpu.configure(&config(full, 100));
            cpu.reset_stats();
            let model = match (p.name(), full) {
                ("legacy", _) | (_, true) => Model::Helper,
                _ => Model::Direct,
            };
            model.set();
            let before = crypto::memory_in_use();
            // The load's own task never runs, so its work does not matter.
            let task = TaskWork::Crypt(judge(), messages(seed, Op::Encrypt, 64, 4));
            let plan = Plan {
                hardirq_fpu: true,
                ..plan(task, seed)
            };
            let what = format!("{p}, full preemption {full}");
            let (mut drivers, mut later) = (0, 0);
            let counts = interrupted(&mut cpu, plan, Arrivals::Poisson(15_000.0, seed), |load| {
                let inside = crypto::memory_in_use();
                let mut draw = Draw(SplitMix64(seed ^ each));
                let mut all = open(model, &mut draw);
                drivers = all.len();
                for i in 0..each {
                    match ask(&mut all[i as usize % drivers], &mut draw, &mut memory) {
                        Ok(came_later) => later += u64::from(came_later),
                        Err(why) => panic!("{what}, request {i}: {why}"),
                    }
                }
                drop(all);
                // Wait for the kworker, which may still hold a transform after completing the
                // transform's last request.
                repeat_until("all transforms are freed", || {
                    load.run(1);
                    crypto::memory_in_use() <= inside
                });
            });
            assert_clean(&what, &counts);
            let stats = cpu.stats();
            println!(
                "{what}, {model:?}: {each} requests to {drivers} drivers, {later} answered later, {} interrupts, {} in \
                 sections",
                stats.irqs, stats.irqs_in_section
            );
            assert!(stats.irqs_in_section > 0);
            assert_eq!(crypto::memory_in_use(), before, "all memory was freed");
        }
    }
}

/// Opens all drivers that a model provides, including the internal ones.
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
    run_alone(|seed| {
        let raw = Draw(SplitMix64(!seed)).bytes(64);
        let key = KeyContext::new(best_impl(), &raw).expect("64 bytes");
        let open = |model, _: &mut Draw| {
            let mut tfms = drivers(model);
            for tfm in &mut tfms {
                tfm.set_key(&raw).expect("64 bytes");
            }
            tfms
        };
        ask_under_every_policy(seed, REQUESTS, open, |tfm, draw, memory| {
            check_cipher(draw, memory, tfm, best_impl(), &key)
                .map_err(|why| format!("{}: {why}", tfm.driver()))
        });
    });
}

/// A lookup must find a driver with the same name, flags and priority as in Linux. This includes
/// lookups by callers that exclude asynchronous algorithms.
#[test]
fn algorithms_are_found_as_linux_has_them() {
    run_alone(|_| {
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
        let open_inner = |name: &str| Skcipher::open(name, INTERNAL, INTERNAL).unwrap();
        assert!(!open_inner(&inner).is_async());
        // A cryptd instance already exists, because the helper's transform has created it.
        let cryptd = open_inner(&format!("cryptd({inner})"));
        assert_eq!(cryptd.driver(), format!("cryptd({inner})"));
        assert!(cryptd.is_async() && cryptd.is_internal());
        assert_eq!(cryptd.priority(), best.priority() as i32 + 50);
        for (name, mask) in [
            // A caller must request internal algorithms explicitly.
            (&*inner, 0),
            (&format!("cryptd({best:?})"), 0),
            ("cryptd(cryptd(xts-aes-generic))", 0),
            ("cryptd(nothing)", 0),
            ("cryptd()", 0),
            ("cryptd(xts-aes-generic", 0),
            ("cryptd(xts-aes-generic)", ASYNC),
            ("gcm(aes)", 0),
            ("sha256", 0),
            (&"x".repeat(300), 0),
            ("", 0),
        ] {
            let got = Skcipher::open(name, 0, mask).err();
            assert_eq!(got, Some(Errno::NOT_THERE), "{name}");
        }
        Model::Direct.set();
        let direct = Skcipher::open("xts(aes)", 0, ASYNC).unwrap();
        assert_eq!(direct.driver(), best.driver());
        assert!(!direct.is_async());
    });
}

#[test]
fn bad_requests_are_refused() {
    run_alone(|_| {
        let cpu = boot();
        for mut tfm in [Model::Helper, Model::Direct].into_iter().flat_map(drivers) {
            let what = tfm.driver().to_string();
            let ask = |tfm: &mut Skcipher, len, have, context| {
                let mut bytes = [0u8; 64];
                let list = [(bytes.as_mut_ptr(), have)];
                // SAFETY: the piece is inside the array.
                unsafe { tfm.request(Op::Encrypt, &mut [0; BLOCK], len, &list, &list, context) }.1
            };
            let task = Context::Task;
            assert_eq!(ask(&mut tfm, 16, 64, task), Errno::NO_KEY, "{what}");
            for len in [0, 16, 31, 33, 65] {
                assert_eq!(tfm.set_key(&vec![1; len]), Err(Errno::INVALID), "{what}");
            }
            tfm.set_key(&[7; 64]).unwrap();
            assert_eq!(ask(&mut tfm, 16, 64, task), Errno(0), "{what}");
            for (len, have) in [(15, 64), (0, 64), (64, 63)] {
                assert_eq!(ask(&mut tfm, len, have, task), Errno::INVALID, "{what}");
            }
            assert_eq!(tfm.set_key(&[7; 63]), Err(Errno::INVALID));
            // A rejected key must leave the transform without a key.
            assert_eq!(ask(&mut tfm, 16, 64, task), Errno::NO_KEY, "{what}");
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
    });
}
