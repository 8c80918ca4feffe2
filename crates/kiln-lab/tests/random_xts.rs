//! Random comparisons of every usable implementation with the generic one: a million each in release builds.

use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;
use std::time::Instant;

use kiln_kernel::xts::Impl;
use kiln_lab::check::{random, Subject};

const CASES: u64 = if cfg!(debug_assertions) {
    20_000
} else {
    1_000_000
};

fn seed() -> u64 {
    let seed = std::env::var("KILN_SEED").map_or(1, |s| s.parse().expect("KILN_SEED is a number"));
    println!("seed {seed}");
    seed
}

fn threads() -> usize {
    available_parallelism().map_or(1, |n| n.get())
}

fn usable() -> Vec<Impl> {
    let usable = |i: &Impl| i.tier().usable();
    Impl::all().into_iter().filter(usable).collect()
}

#[test]
fn a_million_comparisons() {
    let impls = usable();
    let subjects: Vec<Subject<'_>> = impls.iter().map(|i| Subject::of(*i)).collect();
    let start = Instant::now();
    let stop = AtomicBool::new(false);
    let tallies = random::run(&subjects, seed(), 0..CASES, threads(), &stop, &|_| ()).unwrap();
    for (subject, tally) in subjects.iter().zip(&tallies) {
        println!(
            "{}: {} cases, {} failed",
            subject.name, tally.cases, tally.failed
        );
        assert_eq!(tally.failed, 0, "{}: {:#?}", subject.name, tally.failures);
        assert_eq!(tally.cases, CASES);
    }
    println!(
        "{:.1} s on {} threads",
        start.elapsed().as_secs_f64(),
        threads()
    );
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let broken = Subject::new("broken", |op, key, iv, src, dst, len| {
        (Subject::of(Impl::best()).crypt)(op, key, iv, src, dst, len)?;
        if len % 7 == 0 {
            // SAFETY: the destination has `len` bytes, at least 16.
            unsafe { *dst.add(5) ^= 0x80 };
        }
        Ok(())
    });
    let subjects = [broken];
    let run = |threads| {
        let stop = AtomicBool::new(false);
        random::run(&subjects, 4, 100..3000, threads, &stop, &|_| ()).unwrap()
    };
    let one = run(1);
    assert!(one[0].failed > 300 && !one[0].failures.is_empty());
    assert_eq!(one, run(2));
    assert_eq!(one, run(7));
}

#[test]
fn it_stops_when_told() {
    let subjects = [Subject::of(Impl::best())];
    let stop = AtomicBool::new(true);
    let tallies = random::run(&subjects, 1, 0..u64::MAX, 2, &stop, &|_| ()).unwrap();
    assert_eq!(tallies[0].cases, 0);
}
