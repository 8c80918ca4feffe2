//! Compares every usable implementation with the generic one on random inputs.

use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;

use kiln_kernel::call::Entry;
use kiln_kernel::cipher::Impl;
use kiln_questions::test::run::{self, Job, Part};
use kiln_questions::test::{Family, Suite};

const CASES: u64 = if cfg!(debug_assertions) { 500 } else { 20_000 };

fn seed() -> u64 {
    let seed = std::env::var("KILN_SEED").map_or(1, |s| s.parse().expect("KILN_SEED is a number"));
    println!("seed {seed}");
    seed
}

fn threads() -> usize {
    available_parallelism().map_or(1, |n| n.get())
}

fn usable(alg: &str) -> Vec<Impl> {
    let usable = |i: &Impl| i.tier().usable();
    Impl::find_all(alg).into_iter().filter(usable).collect()
}

fn run(
    subjects: Vec<Impl>,
    suite: Suite,
    seed: u64,
    cases: std::ops::Range<u64>,
    threads: usize,
) -> Vec<Part> {
    let job = Job::new(Family::of(subjects), suite, seed, Some(cases), "");
    run::one(job, threads, &AtomicBool::new(false)).unwrap()
}

#[test]
fn every_implementation_agrees() {
    let seed = seed();
    for alg in Impl::algorithms() {
        for (suite, cases) in [
            (Suite::Random, CASES),
            (Suite::Keys, u64::MAX),
            (Suite::Lengths, u64::MAX),
            (Suite::Splits, u64::MAX),
            (Suite::Forgeries, CASES / 250),
        ] {
            for part in run(usable(alg), suite, seed, 0..cases, threads()) {
                let imp = usable(alg)[part.subject];
                assert_eq!(part.tally.failed, 0, "{imp:?}: {:#?}", part.tally.failures);
                assert!(part.tally.cases > 0);
            }
        }
    }
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    extern "C" fn broken(ctx: u64, dst: *mut u8, src: *const u8, len: usize, iv: *mut u8) {
        type Crypt = extern "C" fn(u64, *mut u8, *const u8, usize, *mut u8);
        let right = usable("ctr(aes)")[0].function(Entry::Encrypt).unwrap();
        // SAFETY: the function belongs to a skcipher, so it has the type `Crypt`.
        let right: Crypt = unsafe { std::mem::transmute(right.address()) };
        right(ctx, dst, src, len, iv);
        if len % 7 == 6 {
            // SAFETY: the destination has `len` bytes, and `len` is at least 6.
            unsafe { *dst.add(5) ^= 0x80 };
        }
    }
    // SAFETY: the function has the signature of the function that it replaces.
    let broken =
        unsafe { usable("ctr(aes)")[0].disguised(c"broken", Entry::Encrypt, broken as *const _) };
    let run = |threads| {
        let parts = run(vec![broken], Suite::Random, 4, 100..3000, threads);
        parts[0].tally.clone()
    };
    let one = run(1);
    assert!(
        one.failed > 150 && !one.failures.is_empty(),
        "{}",
        one.failed
    );
    assert_eq!(one, run(2));
    assert_eq!(one, run(7));
}

#[test]
fn it_stops_when_told() {
    let family = Family::of(usable("ghash"));
    let job = Job::new(family, Suite::Random, 1, Some(0..u64::MAX / 64), "");
    let parts = run::one(job, 2, &AtomicBool::new(true)).unwrap();
    assert_eq!(parts[0].tally.cases, 0);
}
