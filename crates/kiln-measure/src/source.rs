//! Time sources for the sampler: the TSC or, in tests, a synthetic clock with chosen noise.

use std::cell::Cell;

use crate::clock::{self, CHAIN, IMUL_CYCLES};
use crate::counters::{Counters, Hardware, Software};

/// A clock that the sampler can use.
pub trait TimeSource {
    /// Runs one calibrating chain and returns its duration in ticks.
    fn chain(&mut self) -> u64;

    /// Runs `n` calibrating chains and returns the duration of the shortest in ticks, because
    /// disturbances can only lengthen a chain.
    fn chains(&mut self, n: u32) -> u64 {
        (0..n).map(|_| self.chain()).min().unwrap_or(0)
    }

    /// Returns the number of operations per sample if the source prescribes it, and `None`
    /// otherwise.
    fn fixed_iters(&self) -> Option<u64> {
        None
    }

    /// Selects the subject to time next, by its position in the list of subjects.
    fn select(&mut self, _subject: usize) {}

    /// Returns whether [`TimeSource::time`] itself runs a subject untimed before each sample, so
    /// that the sampler does not have to.
    fn warms_up(&self) -> bool {
        false
    }

    /// Returns whether the last sample may be kept. The answer must not depend on how long the
    /// sample took, because that would bias the results.
    fn is_sound(&self) -> bool {
        true
    }

    /// Returns each thread's ticks for the last sample; empty for a single-threaded source.
    fn shares(&self) -> &[u64] {
        &[]
    }

    /// Calls `f(iters)` once and returns the duration of the call in ticks, minus the cost of
    /// reading the clock.
    fn time(&mut self, f: &mut dyn FnMut(u64), iters: u64) -> u64;

    /// Returns the number of core cycles that one chain takes.
    fn chain_cycles(&self) -> f64;

    /// Returns the number of ticks per second.
    fn hz(&self) -> f64;

    /// Returns how many times the kernel has switched this thread out so far; 0 if the source does
    /// not count switches.
    fn switches(&mut self) -> u64 {
        0
    }

    /// Reads the CPU's counters; `None` if the source does not have them.
    fn hardware(&mut self) -> Option<Hardware> {
        None
    }

    /// Reads the kernel's counters for this thread; `None` if the source does not have them.
    fn software(&mut self) -> Option<Software> {
        None
    }
}

/// The real clock. If `counters` is set, each series also contains counter readings.
#[derive(Default)]
pub(crate) struct Tsc {
    pub counters: Option<Counters>,
}

impl TimeSource for Tsc {
    fn chain(&mut self) -> u64 {
        clock::chain(CHAIN)
    }

    #[inline(never)]
    fn time(&mut self, f: &mut dyn FnMut(u64), iters: u64) -> u64 {
        let cost = clock::read_cost();
        let start = clock::tsc_start();
        f(iters);
        let stop = clock::tsc_stop();
        stop.wrapping_sub(start).saturating_sub(cost)
    }

    fn chain_cycles(&self) -> f64 {
        IMUL_CYCLES * f64::from(CHAIN)
    }

    fn hz(&self) -> f64 {
        clock::tsc_hz()
    }

    fn switches(&mut self) -> u64 {
        switches()
    }

    fn hardware(&mut self) -> Option<Hardware> {
        self.counters.as_ref()?.hardware()
    }

    fn software(&mut self) -> Option<Software> {
        Some(self.counters.as_ref()?.software())
    }
}

/// The clock for subjects that time a single operation themselves and leave its duration in
/// `ticks`.
pub(crate) struct Within<'a> {
    pub ticks: &'a Cell<u64>,
}

impl TimeSource for Within<'_> {
    fn chain(&mut self) -> u64 {
        clock::chain(CHAIN)
    }

    fn fixed_iters(&self) -> Option<u64> {
        Some(1)
    }

    /// Returns true, so that the sampler does not warm up: the subjects themselves determine the
    /// state of the caches.
    fn warms_up(&self) -> bool {
        true
    }

    fn time(&mut self, f: &mut dyn FnMut(u64), iters: u64) -> u64 {
        self.ticks.set(0);
        f(iters);
        self.ticks.get()
    }

    fn is_sound(&self) -> bool {
        self.ticks.get() > 0
    }

    fn chain_cycles(&self) -> f64 {
        IMUL_CYCLES * f64::from(CHAIN)
    }

    fn hz(&self) -> f64 {
        clock::tsc_hz()
    }

    fn switches(&mut self) -> u64 {
        switches()
    }
}

/// Returns the number of times that the kernel has switched out the calling thread so far.
pub(crate) fn switches() -> u64 {
    // SAFETY: rusage consists of integers, so all-zero bytes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid, writable rusage for the call's duration. If the call fails, it
    // stays zero, which means that no switches were seen.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}
