//! The experiments that grade a machine. Each experiment returns numbers, and `check.rs` assigns
//! the grades.

use std::arch::asm;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::clock::{chain, empty_read, imuls, read_cost, tsc_hz, tsc_start, tsc_stop, CHAIN};
use crate::sample::{measure, Plan, Subject};
use crate::stats::{ratio, Ratio};

/// The cost of reading the clock, and the smallest step by which the clock advances, both in ticks.
pub(crate) struct Reading {
    pub cost: f64,
    pub step: f64,
}

/// Measures the cost of reading the clock, which is subtracted from every timing, and the actual
/// step of the TSC, which is the greatest common divisor of many intervals.
pub(crate) fn reading() -> Reading {
    let gcd = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    Reading {
        cost: read_cost() as f64,
        step: (0..20_000).map(|_| empty_read()).fold(0, gcd) as f64,
    }
}

/// Times `n` calibrating chains. Returns their durations in ticks, sorted in ascending order.
pub(crate) fn chains(n: usize) -> Vec<f64> {
    let mut ticks: Vec<f64> = (0..n).map(|_| chain(CHAIN) as f64).collect();
    ticks.sort_unstable_by(f64::total_cmp);
    ticks
}

/// Returns the time of a chain of double length divided by the time of a chain of normal length,
/// measured in interleaved pairs. The ratio is 2 if the measured time is proportional to the
/// length, with no constant offset.
pub(crate) fn doubled(pairs: usize) -> Option<f64> {
    midmean((0..pairs).map(|_| chain(2 * CHAIN) as f64 / chain(CHAIN) as f64))
}

/// Returns the number of cycles per dependent `crc32` instruction, measured with the `imul` clock.
/// Instruction tables list 3 cycles, so this checks the clock against a second instruction.
/// Returns `None` without SSE4.2.
pub(crate) fn crc32_cycles(pairs: usize) -> Option<f64> {
    if !is_x86_feature_detected!("sse4.2") {
        return None;
    }
    let cost = read_cost();
    let timed = || {
        let start = tsc_start();
        // SAFETY: SSE4.2 support was checked above. The code uses only registers, and the loop
        // counter starts above 0.
        unsafe {
            asm!(
                "2:",
                ".rept 16",
                "crc32 {x}, {y}",
                ".endr",
                "dec {n:e}",
                "jnz 2b",
                x = inout(reg) 1u64 => _,
                y = in(reg) 0x0123_4567_89ab_cdef_u64,
                n = inout(reg) CHAIN / 16 => _,
                options(nomem, nostack),
            )
        };
        tsc_stop().wrapping_sub(start).saturating_sub(cost) as f64
    };
    midmean((0..pairs).map(|_| 3.0 * timed() / chain(CHAIN) as f64))
}

/// Returns the mean of the middle half of the values. It is as robust as the median, but its
/// resolution is not limited by the steps of the TSC.
fn midmean(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.filter(|x| x.is_finite()).collect();
    figures.sort_unstable_by(f64::total_cmp);
    let quarter = figures.len() / 4;
    let middle = &figures[quarter..figures.len() - quarter];
    (!middle.is_empty()).then(|| middle.iter().sum::<f64>() / middle.len() as f64)
}

/// Periods in which this thread did not run, found by reading the clock in a loop.
#[derive(Default)]
pub(crate) struct Gaps {
    pub seconds: f64,
    pub over_1us: u64,
    pub over_10us: u64,
    pub lost_s: f64,
}

/// Reads the TSC in a loop for `seconds`. If two reads are more than 1 us apart, the core did
/// something else in between: an interrupt, another thread, the hypervisor or the firmware.
pub(crate) fn gaps(seconds: f64, stop: &AtomicBool) -> Gaps {
    let hz = tsc_hz();
    let (us, end) = ((hz * 1e-6) as u64, (hz * seconds) as u64);
    let mut gaps = Gaps::default();
    let first = tsc_start();
    let mut last = first;
    while last - first < end && !stop.load(Ordering::Relaxed) {
        let now = tsc_start();
        let gap = now.saturating_sub(last);
        if gap > us {
            gaps.over_1us += 1;
            gaps.over_10us += u64::from(gap > 10 * us);
            gaps.lost_s += gap as f64 / hz;
        }
        last = now;
    }
    gaps.seconds = (last - first) as f64 / hz;
    gaps
}

/// Results of comparisons with known outcomes.
#[derive(Default)]
pub(crate) struct Known {
    /// Comparisons between two identical dependency chains. Only the clock and interrupts can
    /// cause a difference.
    pub same_core: Vec<Ratio>,
    /// Comparisons between two identical subjects that sum a 256 KiB buffer. Here, caches and
    /// other programs can also cause a difference.
    pub same_cache: Vec<Ratio>,
    /// Comparisons between the original chain and one that is 1 % longer.
    pub one: Vec<Ratio>,
    /// Comparisons between the original chain and one that is 3 % longer.
    pub three: Vec<Ratio>,
    /// Estimates for a chain of 1000 multiplications, which takes 3000 cycles.
    pub cycles: Vec<f64>,
    pub kept: u64,
    pub rejected: u64,
    pub switched: u64,
    /// One value per repetition: the shortest of 50 chains run after it, in ticks. The values show
    /// how the core's clock frequency drifts.
    pub clock: Vec<f64>,
    pub seconds: f64,
}

/// Measures subjects with known time ratios, using the quick plan and a new seed each time, until
/// `seconds` have passed.
pub(crate) fn known(seconds: f64, stop: &AtomicBool, tick: &mut dyn FnMut()) -> Known {
    let mut known = Known::default();
    let buffer: Vec<u64> = (0..32 * 1024u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let began = Instant::now();
    for seed in 0.. {
        if stop.load(Ordering::Relaxed) || began.elapsed().as_secs_f64() >= seconds {
            break;
        }
        let mut subjects = Vec::from([1000, 1000, 1010, 1030].map(multiplications));
        subjects.extend([sum(&buffer), sum(&buffer)]);
        let series = measure(&mut subjects, &Plan::quick(seed), stop, &mut |_, _| tick());
        for (list, a, b) in [
            (&mut known.same_core, 1, 0),
            (&mut known.one, 2, 0),
            (&mut known.three, 3, 0),
            (&mut known.same_cache, 5, 4),
        ] {
            list.extend(ratio(&series[a], &series[b]));
        }
        known.cycles.extend(series[0].estimate().map(|e| e.best));
        for series in &series {
            known.kept += series.kept();
            known.rejected += series.rejected;
            known.switched += series.switched;
        }
        known.clock.push(chains(50)[0]);
    }
    known.seconds = began.elapsed().as_secs_f64();
    known
}

/// Creates a subject that performs `n` dependent multiplications per operation. Each operation
/// depends on the previous one.
fn multiplications<'a>(n: u32) -> Subject<'a> {
    Subject::new(format!("{n} imul"), move |iters| {
        let mut x = black_box(1);
        for _ in 0..iters {
            x = imuls(x, n);
        }
        black_box(x);
    })
}

/// Creates a subject that sums a buffer that fits into a second-level cache but not into a
/// first-level cache.
fn sum(buffer: &[u64]) -> Subject<'_> {
    Subject::new("sum of 256 KiB", move |iters| {
        for _ in 0..iters {
            black_box(
                black_box(buffer)
                    .iter()
                    .fold(0u64, |sum, x| sum.wrapping_add(*x)),
            );
        }
    })
}
