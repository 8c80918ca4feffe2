//! The strategies that divide messages into FPU sections, the calibration that measures the rates
//! used by these strategies, and measurements of how long the sections last.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::cipher::{Impl, Op};
use crate::cpu::{self, Cpu, Histogram};
use crate::crypto::{init, Driver, Errno};
use crate::derive::parse_names;
use crate::messages::{IvRoom, Messages};
use crate::sys;
use crate::tier::static_str;

/// A strategy for dividing long messages into FPU sections. Mirrors `enum kiln_way`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Way {
    /// One section for the whole message.
    Unbounded,
    /// Sections of 4 KiB.
    Page,
    /// The section sizes proposed in a Linux patch series in 2022, as listed in
    /// `kernel/crypto/posted.def`; 4 KiB for implementations that the list omits.
    Fixed,
    /// Sections of 16, 256 or 512 KiB, depending on the algorithm's speed.
    Class,
    /// As many bytes per section as fit in the target duration at the measured rates.
    Calibrated,
    /// Sections that end when the target duration is reached. The TSC is read between calls.
    Clocked,
    /// Sections that stay open until a softirq is pending or a reschedule is requested.
    OnDemand,
}

impl Way {
    pub const ALL: [Way; 7] = [
        Way::Unbounded,
        Way::Page,
        Way::Fixed,
        Way::Class,
        Way::Calibrated,
        Way::Clocked,
        Way::OnDemand,
    ];

    pub fn name(self) -> &'static str {
        // SAFETY: the function accepts any number, and returns null or a string literal.
        unsafe { static_str(sys::kiln_cut_way(self as u32)) }.unwrap_or("?")
    }

    /// Makes `self` the strategy for the whole process, with a target of `target` TSC ticks per
    /// section.
    pub fn set(self, target: u64) {
        init();
        // SAFETY: `self` is a valid strategy number. Requests in progress keep the strategy that
        // they began with.
        unsafe { sys::kiln_cut_set(self as u32, target) }
    }

    /// Returns the current strategy and its target in TSC ticks per section.
    pub fn current() -> (Way, u64) {
        init();
        let mut target = 0;
        // SAFETY: the function writes one word, through a pointer to a live local variable.
        let way = unsafe { sys::kiln_cut_get(&mut target) };
        (Way::ALL[way as usize], target)
    }
}

parse_names!(Way, "way", Way::ALL);

/// For tests: overrides the number of bytes per section. For strategies that check a condition to
/// decide when a section ends, overrides the number of bytes between two checks instead. `None`
/// restores the defaults.
#[doc(hidden)]
pub fn force(bytes: Option<u32>) {
    init();
    // SAFETY: the function accepts any number.
    unsafe { sys::kiln_cut_force(bytes.unwrap_or(0)) }
}

/// An implementation's limits and measured rates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Maximum number of bytes per call under the current strategy, for encryption and decryption
    /// respectively.
    pub most: [u32; 2],
    /// Fixed cost in TSC ticks of a call and its FPU section, for encryption and decryption
    /// respectively.
    pub start: [u32; 2],
    /// TSC ticks per byte if the data is in the caches, for encryption and decryption respectively.
    /// 0 if not measured.
    pub rate: [f64; 2],
    /// Additional TSC ticks per byte if the data is in memory instead of the caches.
    pub miss_rate: f64,
    /// Granularity in bytes: `most` is a multiple of this number.
    pub granule: u32,
    /// Bytes per section under [`Way::Fixed`]; `None` if no limit was posted for the algorithm.
    pub posted: Option<u32>,
    /// Message length in bytes below which scalar code is faster.
    pub min_bytes: u32,
    /// Whether this implementation was the fastest one measured for its algorithm.
    pub fastest: bool,
}

impl Impl {
    /// Returns the implementation's budget under the current strategy.
    pub fn budget(self) -> Budget {
        let mut raw = sys::Budget::default();
        // SAFETY: the first argument is a valid descriptor, and the function only writes `raw`.
        unsafe { sys::kiln_budget_get(self.0, &mut raw) };
        Budget {
            most: raw.most,
            start: raw.start,
            rate: raw.rate.map(|r| r as f64 / 65536.0),
            miss_rate: raw.miss_rate as f64 / 65536.0,
            granule: raw.granule,
            posted: (raw.posted > 0).then_some(raw.posted),
            min_bytes: raw.min_bytes,
            fastest: raw.fastest,
        }
    }

    /// Returns how many bytes fit in a section of `ticks` TSC ticks with the usual safety margins.
    /// Returns `None` if the result is less than one granule, or if the implementation was not
    /// measured.
    pub fn bytes_in(self, op: Op, ticks: u64) -> Option<u32> {
        // SAFETY: the descriptor is valid, and the function accepts any numbers.
        let n = unsafe { sys::kiln_budget_bytes(self.0, op == Op::Decrypt, ticks) };
        (n > 0).then_some(n)
    }
}

/// Cost of one calibration: its duration and its number of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibrated {
    /// Duration in TSC ticks.
    pub ticks: u64,
    pub runs: u32,
}

/// Size in bytes of the memory for calibrations. Must equal `KILN_CALIBRATION_BYTES`.
const MEMORY: usize = 512 * 1024;

/// Memory for calibrations. The lock allows one calibration at a time, because the results are
/// global. The memory is never freed, because a later change of the clock speed requires another
/// calibration.
static ROOM: LazyLock<Mutex<&[AtomicU64]>> = LazyLock::new(|| Mutex::new(cpu::leak_pages(MEMORY)));

fn gate(function: cpu::GateFn, planted: Option<&Planted<'_>>) -> (u64, Calibrated) {
    init();
    let room = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(planted) = planted {
        assert!(
            planted.rates.len() >= Impl::all().len(),
            "a rate for each implementation"
        );
    }
    let mut raw = sys::Calibration {
        memory: room.as_ptr().cast_mut().cast(),
        rates: planted.map_or(ptr::null(), |p| p.rates.as_ptr()),
        stalls: planted.map_or(ptr::null(), |p| p.stalls.as_ptr()),
        nr_stalls: planted.map_or(0, |p| p.stalls.len() as u32),
        chain: planted.map_or(0, |p| p.chain),
        ..Default::default()
    };
    // SAFETY: `function` takes a pointer to this structure. The memory has the required size, and
    // the lock prevents other calibrations from using it.
    let answer = unsafe { cpu::gate(function, (&raw mut raw).cast::<c_void>()) };
    let calibrated = Calibrated {
        ticks: raw.ticks,
        runs: raw.runs,
    };
    (answer, calibrated)
}

/// Measures all usable implementations. This takes about ten milliseconds.
pub fn calibrate() -> Calibrated {
    gate(sys::kiln_calibrate, None).1
}

/// Calibrates if this process has never calibrated, or if the clock speed has changed since the
/// last calibration. Otherwise returns `None`.
pub fn calibrate_again() -> Option<Calibrated> {
    let (changed, calibrated) = gate(sys::kiln_calibrate_again, None);
    (changed != 0).then_some(calibrated)
}

/// Simulated times, which tests use instead of measured times.
#[doc(hidden)]
pub struct Planted<'a> {
    /// TSC ticks per 65536 bytes, one value per implementation.
    pub rates: &'a [u64],
    /// TSC ticks added to run 0, run 1, run 2 and so on. The list repeats after its last value.
    pub stalls: &'a [u64],
    /// TSC ticks that [`chain`] appears to take. The calibration derives the clock speed from this
    /// value.
    pub chain: u64,
}

/// Calibrates with simulated times and without running a cipher. Behaves like [`calibrate_again`]
/// if `again` is set, and like [`calibrate`] otherwise.
#[doc(hidden)]
pub fn calibrate_planted(planted: &Planted<'_>, again: bool) -> Option<Calibrated> {
    let function = match again {
        true => sys::kiln_calibrate_again,
        false => sys::kiln_calibrate,
    };
    let (answer, calibrated) = gate(function, Some(planted));
    (!again || answer != 0).then_some(calibrated)
}

/// Runs `n` multiplications, each of which depends on the previous one. Returns how many TSC ticks
/// they take.
pub fn chain(n: u64) -> u64 {
    // SAFETY: the function only computes with its argument and accesses no memory.
    unsafe { sys::kiln_budget_chain(n) }
}

/// Parameters for measuring long messages and the delays that their sections cause.
pub struct Run {
    /// Number of dependent multiplications in each section of [`Parts::null`], the workload that
    /// makes no requests.
    pub null_chain: u64,
    /// Sections that take more TSC ticks than this count as long.
    pub long_ticks: u64,
    /// Minimum duration of the run in TSC ticks.
    pub ticks: u64,
    /// Minimum number of operations per workload.
    pub min_ops: u64,
    /// Whether to flush the data from all caches before each operation.
    pub cold: bool,
    /// Whether to run only the workload of the current strategy, not the other two.
    pub alone: bool,
}

/// Results for one of the three workloads that a run executes in turn.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Lengths of the FPU sections in TSC ticks.
    pub section: Histogram,
    /// Delay in TSC ticks from the interrupt that raises a softirq to the softirq's handler.
    pub softirq: Histogram,
    /// Delay in TSC ticks from the interrupt that wakes a kthread to the kthread's first
    /// instruction.
    pub wake: Histogram,
    pub ops: u64,
    /// Number of FPU sections opened during the operations.
    pub sections: u64,
    /// Number of timed sections that were interrupted.
    pub interrupted: u64,
    /// Number of timed sections that were not interrupted but during which the host took the CPU
    /// away.
    pub stolen: u64,
    /// Number of stalls that the watchdog detected.
    pub stalls: u64,
    /// Number of timed sections that were longer than [`Run::long_ticks`].
    pub long_sections: u64,
    /// Number of long sections that were interrupted, or during which the host took the CPU away.
    pub long_witnessed: u64,
    /// Durations in TSC ticks of the operations, or of the first 4096 if there are more.
    pub op_ticks: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Requests that the current chunking strategy splits into sections.
    pub judged: Part,
    /// Requests processed in one section each.
    pub unbounded: Part,
    /// Sections of pure arithmetic, without requests.
    pub null: Part,
}

/// Maximum number of durations recorded per part.
const OPS: usize = 4096;

impl Run {
    /// Runs the workloads in turn on this CPU. In the first two workloads, each operation makes a
    /// request for one of `messages`.
    ///
    /// # Errors
    /// Fails if a request fails, if no kthread can be created, or if the messages exceed their
    /// buffers.
    ///
    /// # Panics
    /// Panics if the driver's implementation does not open FPU sections.
    pub fn run(
        &self,
        _cpu: &mut Cpu,
        driver: &mut Driver,
        messages: &mut Messages<'_>,
    ) -> Result<Parts, Errno> {
        assert!(driver.opens_sections(), "an implementation that uses SIMD");
        let mut single = IvRoom::default();
        let mut requests = driver.raw_requests(messages, &mut single, 1)?;
        let mut ticks = vec![0u64; 3 * OPS];
        let mut parts: Vec<sys::BudgetPart> = (0..3)
            .map(|i| sys::BudgetPart {
                op_ticks: ticks[i * OPS..].as_mut_ptr(),
                ..Default::default()
            })
            .collect();
        let mut raw = sys::BudgetRun {
            requests: &mut requests,
            part: parts.as_mut_ptr(),
            null_chain: self.null_chain,
            long_ticks: self.long_ticks,
            max_ops: OPS as u32,
            ticks: self.ticks,
            min_ops: self.min_ops,
            cold: self.cold,
            quiet: self.alone,
            ..Default::default()
        };
        // SAFETY: `kiln_budget_run` takes a pointer to this structure. The messages are within
        // their buffers, and each part has the capacity that it states.
        let refused = unsafe { cpu::gate(sys::kiln_budget_run, (&raw mut raw).cast()) };
        if refused != 0 {
            return Err(Errno(-12));
        }
        if raw.err != 0 {
            return Err(Errno(raw.err));
        }
        let mut taken = parts.into_iter().enumerate().map(|(i, p)| Part {
            op_ticks: ticks[i * OPS..][..OPS.min(p.ops as usize)].to_vec(),
            section: Histogram::from(&p.section),
            softirq: Histogram::from(&p.softirq),
            wake: Histogram::from(&p.wake),
            ops: p.ops,
            sections: p.sections,
            interrupted: p.interrupted,
            stolen: p.stolen,
            stalls: p.stalls,
            long_sections: p.long_sections,
            long_witnessed: p.long_witnessed,
        });
        let mut next = || taken.next().expect("three parts");
        Ok(Parts {
            judged: next(),
            unbounded: next(),
            null: next(),
        })
    }
}
