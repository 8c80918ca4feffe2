//! The scheduler versions that a CPU can emulate, with their time parameters.

use std::fmt;

/// Timer ticks per second: the default of `kernel/Kconfig.hz` in Linux 6.1 to 7.3.
pub const HZ: u64 = 250;

/// A scheduler that `kernel/cpu/sched.c` emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// CFS as in Linux 6.1.
    Cfs61,
    /// EEVDF as in Linux 6.12.
    Eevdf612,
    /// EEVDF as in Linux 7.3.
    Eevdf73,
}

impl Scheduler {
    /// All schedulers, in the order of `enum kiln_scheduler`.
    pub const ALL: [Scheduler; 3] = [Scheduler::Cfs61, Scheduler::Eevdf612, Scheduler::Eevdf73];

    /// Returns the name used in flags and records.
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::Cfs61 => "cfs-6.1",
            Scheduler::Eevdf612 => "eevdf-6.12",
            Scheduler::Eevdf73 => "eevdf-7.3",
        }
    }

    /// Returns the scheduler's default times on a machine with `cpus` CPUs, in microseconds. For
    /// CFS, these are the minimum granularity, the latency and the wakeup granularity. For EEVDF,
    /// they are the base slice and two zeros. Linux multiplies these values by 1 + log2 of the
    /// number of CPUs, but counts at most eight CPUs.
    pub(crate) fn times_us(self, cpus: u32) -> [u64; 3] {
        let factor = u64::from(1 + cpus.clamp(1, 8).ilog2());
        let times = match self {
            Scheduler::Cfs61 => [750, 6000, 1000],
            Scheduler::Eevdf612 | Scheduler::Eevdf73 => [700, 0, 0],
        };
        times.map(|us| us * factor)
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_scaled_with_cpus_as_linux_does() {
        assert_eq!(Scheduler::Cfs61.times_us(1), [750, 6000, 1000]);
        assert_eq!(Scheduler::Cfs61.times_us(2), [1500, 12_000, 2000]);
        assert_eq!(Scheduler::Eevdf612.times_us(4)[0], 2100);
        assert_eq!(Scheduler::Eevdf73.times_us(8)[0], 2800);
        assert_eq!(Scheduler::Eevdf73.times_us(96)[0], 2800);
        for (i, s) in Scheduler::ALL.into_iter().enumerate() {
            assert_eq!(s as usize, i);
        }
    }
}
