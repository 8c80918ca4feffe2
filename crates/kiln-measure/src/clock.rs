//! Measures core cycles without a performance counter.
//!
//! The TSC ticks at a fixed rate, but the core's clock frequency varies. In a chain of dependent
//! 64-bit `imul` instructions, each link takes 3 core cycles on every x86-64 core since Nehalem and
//! Zen, regardless of the current frequency. Timing a chain therefore shows how many ticks a cycle
//! takes. Additions are unsuitable, because newer cores eliminate additions of small constants
//! during register renaming.

use std::arch::asm;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

/// Core cycles per link of [`chain`].
pub(crate) const IMUL_CYCLES: f64 = 3.0;

/// Number of links in a calibrating chain. The chain is long enough (36864 cycles, about 9 us) to
/// be timed to 0.1 % even with a TSC that advances in steps of 26 ticks, as on Zen 5, and short
/// enough that most chains run without an interrupt.
pub const CHAIN: u32 = 12288;

/// Reads the TSC before the timed code. The read takes place after all earlier instructions have
/// finished and before any later instruction begins.
#[inline(always)]
pub fn tsc_start() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: rdtsc and lfence exist on every x86-64 CPU and do not access memory. If the process
    // has set PR_TSC_SIGSEGV, Linux has set CR4.TSD and rdtsc raises a signal, which is not
    // undefined behaviour. Because `nomem` is not given, the compiler does not move memory accesses
    // across the read.
    unsafe {
        asm!("lfence", "rdtsc", "lfence", out("eax") low, out("edx") high, options(nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// Reads the TSC after the timed code. The read takes place after all earlier instructions have
/// finished and before any later instruction begins.
#[inline(always)]
pub fn tsc_stop() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: this is sound for the reasons given in `tsc_start`. rdtscp exists on every core since
    // Nehalem and K8 revision F; a core without it raises #UD, which is a signal. rdtscp also
    // writes ecx, which is declared.
    unsafe {
        asm!("rdtscp", "lfence", out("eax") low, out("edx") high, out("ecx") _, options(nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// Multiplies `x` by a constant in a chain of `n` dependent `imul` instructions. The loop counter
/// does not depend on the product, so branches resolve far ahead of the chain and a mispredicted
/// exit costs nothing.
#[inline(always)]
pub(crate) fn imuls(x: u64, n: u32) -> u64 {
    let mut x = x;
    // SAFETY: the code uses only registers. Each loop is skipped unless its counter is at least 1.
    // All registers written are operands, and flags are clobbered by default.
    unsafe {
        asm!(
            "test {tens:e}, {tens:e}",
            "jz 3f",
            "2:",
            ".rept 10",
            "imul {x}, {y}",
            ".endr",
            "dec {tens:e}",
            "jnz 2b",
            "3:",
            "test {ones:e}, {ones:e}",
            "jz 5f",
            "4:",
            "imul {x}, {y}",
            "dec {ones:e}",
            "jnz 4b",
            "5:",
            x = inout(reg) x,
            y = in(reg) 0x9e37_79b9_7f4a_7c15_u64,
            tens = inout(reg) n / 10 => _,
            ones = inout(reg) n % 10 => _,
            options(nomem, nostack),
        )
    };
    x
}

/// Runs a chain of `n` dependent 64-bit `imul` instructions, which take 3 core cycles each. Returns
/// the chain's duration in TSC ticks, without the cost of reading the TSC.
pub fn chain(n: u32) -> u64 {
    let cost = read_cost();
    let x = black_box(0x0123_4567_89ab_cdef);
    let start = tsc_start();
    let x = imuls(x, n);
    let stop = tsc_stop();
    black_box(x);
    stop.wrapping_sub(start).saturating_sub(cost)
}

/// Returns the number of TSC ticks between a [`tsc_start`] and the [`tsc_stop`] that directly
/// follows it. The value is cached.
///
/// The value is the mean of the shortest nine tenths of 10000 such intervals; the rest may contain
/// interrupts. If the TSC advances in steps, an interval of one and a half steps is read as either
/// one step or two, so only the mean is accurate.
pub(crate) fn read_cost() -> u64 {
    static COST: OnceLock<u64> = OnceLock::new();
    *COST.get_or_init(|| {
        let mut reads: Vec<u64> = (0..10_000).map(|_| empty_read()).collect();
        reads.sort_unstable();
        let lower = &reads[..9_000];
        (lower.iter().sum::<u64>() as f64 / lower.len() as f64).round() as u64
    })
}

/// Returns the number of TSC ticks between one [`tsc_start`] and the [`tsc_stop`] that directly
/// follows it.
#[inline(always)]
pub(crate) fn empty_read() -> u64 {
    let start = tsc_start();
    tsc_stop().wrapping_sub(start)
}

/// Returns the number of TSC ticks per second, measured over 50 ms against `CLOCK_MONOTONIC_RAW`
/// (which NTP does not slew). The value is cached.
pub fn tsc_hz() -> f64 {
    static HZ: OnceLock<f64> = OnceLock::new();
    *HZ.get_or_init(|| {
        let (ticks0, ns0) = simultaneous();
        std::thread::sleep(Duration::from_millis(50));
        let (ticks1, ns1) = simultaneous();
        (ticks1 - ticks0) as f64 * 1e9 / (ns1 - ns0) as f64
    })
}

/// Returns a TSC value and the raw monotonic time in nanoseconds at the same moment. Makes 50
/// attempts and uses the one whose two TSC reads, before and after the clock read, are closest
/// together. The result is accurate to about 20 ns.
fn simultaneous() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..50 {
        let start = tsc_start();
        let ns = raw_ns();
        let stop = tsc_stop();
        let width = stop.wrapping_sub(start);
        if width < best.0 {
            best = (width, start.wrapping_add(width / 2), ns);
        }
    }
    (best.1, best.2)
}

fn raw_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec for the call's duration. The clock was added in
    // Linux 2.6.28; if the call failed, `time` would stay zero.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The core's clock relative to the TSC at the time of calibration. It is used only for
/// machine facts and reports. Samples are converted with the chains measured just before and after
/// them.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ticks_per_cycle: f64,
    core_hz: f64,
    spread: f64,
}

impl Clock {
    /// Calibrates the clock. This takes about 80 ms the first time (including 50 ms to measure the
    /// TSC's rate) and 30 ms after that.
    pub fn calibrate() -> Clock {
        let hz = tsc_hz();
        // Load the core first: an idle core may need milliseconds to reach its steady frequency.
        let warm = tsc_start() + (hz * 0.020) as u64;
        while tsc_start() < warm {
            chain(CHAIN);
        }
        let mut chains: Vec<u64> = (0..1000).map(|_| chain(CHAIN)).collect();
        chains.sort_unstable();
        // Use the median rather than the minimum: it reflects the usual frequency instead of a
        // momentary extreme.
        let usual = chains[chains.len() / 2].max(1) as f64;
        let ticks_per_cycle = usual / (IMUL_CYCLES * f64::from(CHAIN));
        let spread = usual / chains[0].max(1) as f64;
        Clock {
            ticks_per_cycle,
            core_hz: hz / ticks_per_cycle,
            spread,
        }
    }

    /// Returns the number of TSC ticks per core cycle.
    pub fn ticks_per_cycle(&self) -> f64 {
        self.ticks_per_cycle
    }

    /// Returns the number of core cycles per second.
    pub fn core_hz(&self) -> f64 {
        self.core_hz
    }

    /// Returns the median duration of the calibrating chains divided by the shortest duration. On a
    /// quiet machine with a steady clock, this is 1.000.
    pub fn spread(&self) -> f64 {
        self.spread
    }

    /// Converts TSC ticks to core cycles at this clock frequency.
    pub fn cycles(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_cycle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imuls_multiplies_exactly_n_times() {
        for n in [0, 1, 9, 10, 11, 25, 1000, 1009] {
            let want = (0..n).fold(3u64, |x, _| x.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            assert_eq!(imuls(3, n), want, "n = {n}");
        }
    }

    #[test]
    fn the_clock_moves_forward() {
        let start = tsc_start();
        assert!(tsc_stop() > start);
        assert!(tsc_hz() > 1e8);
    }
}
