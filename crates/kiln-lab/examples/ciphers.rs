//! Cycles of every implementation whose algorithm or driver has one of the arguments in its name:
//! independent calls in one FPU section, interleaved. For whoever tunes one; `kiln speed` is for figures.
//!
//!     cargo run --release -p kiln-lab --example ciphers -- 'ctr(aes)' 16,64,4096

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

use kiln_kernel::calls::Calls;
use kiln_kernel::cipher::{Context, Impl, Kind, Op};
use kiln_kernel::messages::Messages;
use kiln_measure::{measure, Plan, SplitMix64, Subject};

const BYTES: usize = 64 << 10;

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let lens = args
        .next()
        .unwrap_or("16,64,256,512,1024,1420,4096,16384".into());
    let lens: Vec<usize> = lens
        .split(',')
        .map(|l| l.parse().expect("a length"))
        .collect();
    let mut rng = SplitMix64(1);
    for op in [Op::Encrypt, Op::Decrypt] {
        for &len in &lens {
            let impls: Vec<Impl> = Impl::all()
                .into_iter()
                .filter(|i| i.tier().usable() && (i.alg() == name || i.driver().contains(&name)))
                .filter(|i| i.kind() != Kind::Hash || op == Op::Encrypt)
                .collect();
            let runs: Vec<_> = impls
                .iter()
                .map(|&imp| RefCell::new(Run::new(imp, op, len, &mut rng)))
                .collect();
            let mut subjects: Vec<Subject> = runs
                .iter()
                .map(|run| Subject::new("", move |n| run.borrow_mut().run(op, n)))
                .collect();
            let plan = Plan {
                rounds: 12,
                samples: 4,
                sample_us: 60.0,
                seed: 1,
                deadline: None,
            };
            let stop = AtomicBool::new(false);
            let series = measure(&mut subjects, &plan, &stop, &mut |_, _| {});
            for (imp, series) in impls.iter().zip(&series) {
                if let Some(e) = series.estimate() {
                    let (driver, per) = (imp.driver(), e.best / len.max(1) as f64);
                    println!("{op:?} {len:6} {driver:32} {:10.1} {per:8.4}", e.best);
                }
            }
        }
    }
}

struct Run {
    imp: Impl,
    ctx: Context,
    len: usize,
    count: usize,
    src: Vec<u8>,
    dst: Vec<u8>,
    ivs: Vec<u8>,
    iv_room: Vec<u8>,
    aad: Vec<u8>,
    tags: Vec<u8>,
}

impl Run {
    fn new(imp: Impl, op: Op, len: usize, rng: &mut SplitMix64) -> Run {
        let len = if imp.kind() == Kind::Skcipher {
            len.next_multiple_of(imp.block_size())
        } else {
            len
        };
        let stride = len.next_multiple_of(64).max(64);
        let count = (BYTES / stride).clamp(4, 256);
        let mut bytes = |n: usize| {
            let mut v = vec![0; n];
            rng.fill(&mut v);
            v
        };
        let sizes = imp.key_sizes();
        let usual = sizes.iter().rev().find(|&&n| n <= 64);
        let key = bytes(usual.or(sizes.first()).copied().unwrap_or(0));
        let aad = if imp.kind() == Kind::Aead { 16 } else { 0 };
        let mut ivs = bytes(imp.iv_size() * count);
        if imp.alg().contains("ccm") {
            ivs.chunks_mut(imp.iv_size()).for_each(|iv| iv[0] = 3);
        }
        let mut run = Run {
            imp,
            ctx: Context::new(imp, &key).expect("its longest key"),
            len,
            count,
            src: bytes(stride * count),
            dst: vec![0; stride * count],
            iv_room: ivs.clone(),
            ivs,
            aad: bytes(aad * count),
            tags: vec![0; 64 * count],
        };
        // What is refused may cost less.
        if imp.kind() == Kind::Aead && op == Op::Decrypt {
            run.run(Op::Encrypt, count as u64);
            std::mem::swap(&mut run.src, &mut run.dst);
        }
        run
    }

    fn run(&mut self, op: Op, n: u64) {
        let stride = self.len.next_multiple_of(64).max(64);
        let aead = self.imp.kind() == Kind::Aead;
        let mut calls = Calls {
            messages: Messages {
                op,
                src: &self.src,
                dst: &mut self.dst,
                ivs: &self.ivs,
                iv_room: &mut self.iv_room,
                src_stride: stride,
                dst_stride: stride,
                iv_stride: self.imp.iv_size(),
                len: self.len,
                prefix: 0,
                tag_size: if aead { self.imp.digest_size() } else { 0 },
                count: self.count,
            },
            aad: Some(&self.aad),
            aad_len: self.aad.len() / self.count,
            tags: aead.then_some(&mut self.tags[..]),
            ..Calls::default()
        };
        let refused = calls.run(self.imp, &self.ctx, n);
        refused.expect("right lengths");
    }
}
