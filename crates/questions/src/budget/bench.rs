//! An implementation, together with a long message and the expected result, ready to be measured on
//! an emulated CPU.

use kiln_kernel::budget::{Part, Parts, Run};
use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::cpu::Cpu;
use kiln_kernel::crypto::{Driver, Errno};
use kiln_kernel::messages::{Lens, Messages};
use kiln_measure::SplitMix64;
use kiln_question::{Algorithm, Error};

/// Length of the associated data in bytes. The associated data includes the IV, as in ESP.
const ASSOC: usize = 16;
/// Maximum key length in bytes for algorithms that accept several key lengths.
const LONGEST_KEY: usize = 64;
/// Number of memory locations that are used in turn for the message and its result. Other addresses
/// change the time of a pass over 1 MiB by several per cent, and the amount depends on the chunking
/// strategy. With a single location, this effect would be mistaken for a property of the strategy.
const PLACES: u64 = 8;
/// Size in bytes of the range from which the start of a location is drawn. Every start is a
/// multiple of the cache line size.
const SPREAD: usize = 64 << 10;
const LINE: usize = 64;

/// An implementation, together with a long message to process.
pub(super) struct Bench {
    imp: Impl,
    op: Op,
    driver: Driver,
    lens: Lens,
    message: Vec<u8>,
    src: Placed,
    dst: Placed,
    want: Vec<u8>,
    ivs: Vec<u8>,
    places: SplitMix64,
    right: bool,
}

/// A byte range that can be moved within a buffer. The buffer is [`SPREAD`] bytes larger than the
/// range.
struct Placed {
    room: Vec<u8>,
    at: usize,
    len: usize,
}

impl Placed {
    fn new(len: usize) -> Placed {
        Placed {
            room: vec![0; len + SPREAD],
            at: 0,
            len,
        }
    }

    fn move_to(&mut self, at: usize) -> &mut [u8] {
        self.at = at;
        &mut self.room[at..at + self.len]
    }

    fn bytes(&self) -> &[u8] {
        &self.room[self.at..self.at + self.len]
    }
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
    /// Creates a random message of `len` bytes, and computes the expected result with generic code.
    pub(super) fn new(imp: Impl, op: Op, len: usize, seed: u64) -> Result<Bench, Error> {
        let mut rng = SplitMix64(seed);
        let key = key_of(imp, &mut rng);
        let lens = imp.lens(ASSOC, len);
        let mut src = vec![0; lens.src(Op::Encrypt)];
        rng.fill(&mut src);
        let mut ivs = vec![0; imp.iv_size()];
        rng.fill(&mut ivs);
        if imp.alg() == "ccm(aes)" {
            // A CCM IV begins with the size in bytes of the length field, minus one.
            ivs[0] = 3;
        }
        let mut bench = Bench {
            imp,
            op: Op::Encrypt,
            driver: open(imp, &key)?,
            lens,
            src: Placed::new(src.len()),
            dst: Placed::new(lens.dst(Op::Encrypt)),
            want: Vec::new(),
            message: src,
            ivs,
            places: rng,
            right: true,
        };
        bench.place();
        let alg = Algorithm::named(imp.alg());
        let judge = alg.expect("an implementation is of an algorithm").any();
        let own = std::mem::replace(&mut bench.driver, open(judge, &key)?);
        bench.ask()?;
        if op == Op::Decrypt && imp.kind() != Kind::Hash {
            // To decrypt, use the output of encryption as the input. Put the associated data in
            // front of it, because encryption does not write the associated data.
            let mut sealed = bench.dst.bytes().to_vec();
            sealed[..lens.assoc].copy_from_slice(&bench.message[..lens.assoc]);
            bench.op = op;
            bench.src = Placed::new(sealed.len());
            bench.dst = Placed::new(lens.dst(op));
            bench.message = sealed;
            bench.place();
            bench.ask()?;
        }
        bench.driver = own;
        bench.want = bench.dst.bytes().to_vec();
        Ok(bench)
    }

    /// Moves the message and its result buffer to new locations.
    fn place(&mut self) {
        let mut somewhere = || self.places.next_u64() as usize % SPREAD / LINE * LINE;
        let (from, to) = (somewhere(), somewhere());
        self.src.move_to(from).copy_from_slice(&self.message);
        self.dst.move_to(to).fill(0);
    }

    fn message(&mut self) -> (&mut Driver, Messages<'_>) {
        let dst = &mut self.dst.room[self.dst.at..][..self.dst.len];
        let message = Messages::single(self.op, self.src.bytes(), dst, &self.ivs);
        (&mut self.driver, message.with_lens(self.lens))
    }

    fn ask(&mut self) -> Result<(), Error> {
        let imp = self.imp;
        let (driver, mut message) = self.message();
        let asked = driver.run(&mut message, 1);
        asked
            .map(drop)
            .map_err(|e| fault(imp, "a request fails", e))
    }

    /// Processes messages under the current chunking strategy, and measures the sections.
    pub(super) fn run(&mut self, cpu: &mut Cpu, run: &Run) -> Result<Parts, Error> {
        let (imp, unwritten) = (self.imp, self.lens.assoc);
        let each = Run {
            ticks: run.ticks / PLACES,
            min_ops: run.min_ops.div_ceil(PLACES),
            ..*run
        };
        let mut all = Parts::default();
        for _ in 0..PLACES {
            self.place();
            let (driver, mut message) = self.message();
            let parts = each.run(cpu, driver, &mut message);
            let parts = parts.map_err(|e| fault(imp, "a request fails", e))?;
            add(&mut all.judged, parts.judged);
            add(&mut all.unbounded, parts.unbounded);
            add(&mut all.null, parts.null);
            self.right &= self.dst.bytes()[unwritten..] == self.want[unwritten..];
        }
        Ok(all)
    }

    /// Returns whether every result so far matched the expected result.
    pub(super) fn is_right(&self) -> bool {
        self.right
    }
}

fn add(all: &mut Part, one: Part) {
    all.section.merge(&one.section);
    all.softirq.merge(&one.softirq);
    all.wake.merge(&one.wake);
    all.ops += one.ops;
    all.sections += one.sections;
    all.interrupted += one.interrupted;
    all.stolen += one.stolen;
    all.stalls += one.stalls;
    all.long_sections += one.long_sections;
    all.long_witnessed += one.long_witnessed;
    all.op_ticks.extend(one.op_ticks);
}
