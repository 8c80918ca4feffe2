//! One implementation with its messages: a request of 1 MiB, and its right answer.

use kiln_kernel::budget::{Parts, Run};
use kiln_kernel::cipher::{Impl, Kind};
use kiln_kernel::cpu::Cpu;
use kiln_kernel::crypto::{Driver, Errno, Lens, Series};
use kiln_kernel::xts::Op;
use kiln_measure::SplitMix64;

use crate::{Algorithm, Error};

/// Bytes of associated data: what ESP has, with the IV behind them.
const ASSOC: usize = 16;
/// The longest key of an algorithm that takes any length.
const LONGEST_KEY: usize = 64;

/// An implementation that is asked for long messages.
pub struct Bench {
    imp: Impl,
    op: Op,
    driver: Driver,
    lens: Lens,
    src: Vec<u8>,
    dst: Vec<u8>,
    want: Vec<u8>,
    ivs: Vec<u8>,
    work: Vec<u8>,
}

fn fault(imp: Impl, what: &str, e: Errno) -> Error {
    Error::Failed(format!("{}: {what}: {e}", imp.driver()))
}

fn key_of(imp: Impl, rng: &mut SplitMix64) -> Vec<u8> {
    let sizes = imp.key_sizes();
    let longest = sizes.iter().rev().find(|&&n| n <= LONGEST_KEY);
    let mut key = vec![0; longest.or(sizes.last()).copied().unwrap_or(0)];
    rng.fill(&mut key);
    key
}

fn open(imp: Impl, key: &[u8]) -> Result<Driver, Error> {
    let mut driver = Driver::open(imp).map_err(|e| fault(imp, "the crypto API has none", e))?;
    if !key.is_empty() {
        driver
            .set_key(key)
            .map_err(|e| fault(imp, "a key is refused", e))?;
    }
    Ok(driver)
}

impl Bench {
    /// With a random message of `len` bytes, whose answer generic code knows.
    pub fn new(imp: Impl, op: Op, len: usize, seed: u64) -> Result<Bench, Error> {
        let mut rng = SplitMix64(seed);
        let key = key_of(imp, &mut rng);
        let (kind, tag) = (imp.kind(), imp.digest_size());
        let lens = Lens {
            assoc: if kind == Kind::Aead { ASSOC } else { 0 },
            text: len,
            tag: if kind == Kind::Aead { tag } else { 0 },
            digest: if kind == Kind::Hash { tag } else { 0 },
        };
        let mut src = vec![0; lens.src(Op::Encrypt)];
        rng.fill(&mut src);
        let mut ivs = vec![0; imp.iv_size()];
        rng.fill(&mut ivs);
        if imp.alg() == "ccm(aes)" {
            // Its IVs begin with the width of the length.
            ivs[0] = 3;
        }
        let mut bench = Bench {
            imp,
            op: Op::Encrypt,
            driver: open(imp, &key)?,
            lens,
            dst: vec![0; lens.dst(Op::Encrypt)],
            want: Vec::new(),
            work: ivs.clone(),
            src,
            ivs,
        };
        let alg = Algorithm::named(imp.alg());
        let judge = alg.expect("an implementation is of an algorithm").any();
        let own = std::mem::replace(&mut bench.driver, open(judge, &key)?);
        bench.ask()?;
        if op == Op::Decrypt && kind != Kind::Hash {
            // What came out goes in, behind the associated data that nobody writes.
            let plain = std::mem::take(&mut bench.src);
            bench.src = bench.dst.clone();
            bench.src[..lens.assoc].copy_from_slice(&plain[..lens.assoc]);
            bench.op = op;
            bench.dst = vec![0; lens.dst(op)];
            bench.ask()?;
        }
        bench.driver = own;
        bench.want = bench.dst.clone();
        Ok(bench)
    }

    fn series(&mut self) -> (&mut Driver, Series<'_>) {
        let iv_stride = self.ivs.len();
        let series = Series {
            op: self.op,
            src: &self.src,
            dst: &mut self.dst,
            ivs: &self.ivs,
            work: &mut self.work,
            src_stride: 0,
            dst_stride: 0,
            iv_stride,
            lens: self.lens,
            count: 1,
        };
        (&mut self.driver, series)
    }

    fn ask(&mut self) -> Result<(), Error> {
        let imp = self.imp;
        let (driver, mut series) = self.series();
        let asked = driver.series(&mut series, 1);
        asked
            .map(drop)
            .map_err(|e| fault(imp, "a request fails", e))
    }

    /// Run it, under the way in force.
    pub fn run(&mut self, cpu: &mut Cpu, run: &Run) -> Result<Parts, Error> {
        let imp = self.imp;
        self.dst.fill(0);
        let (driver, mut series) = self.series();
        let parts = run.run(cpu, driver, &mut series);
        parts.map_err(|e| fault(imp, "a request fails", e))
    }

    /// Whether the last answer is right.
    pub fn is_right(&self) -> bool {
        self.dst[self.lens.assoc * usize::from(self.lens.digest == 0)..]
            == self.want[self.lens.assoc * usize::from(self.lens.digest == 0)..]
    }
}
