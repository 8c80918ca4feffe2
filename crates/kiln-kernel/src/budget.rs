//! How messages are divided into FPU sections, the rates that are measured for this at start, and
//! how long the sections last.

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

/// A chunking strategy for long messages: `enum kiln_way`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Way {
    /// One section for the whole message.
    Unbounded,
    /// 4 KiB per section.
    Page,
    /// The limits posted in 2022, `kernel/crypto/posted.def`; 4 KiB where no limit was posted.
    Fixed,
    /// 16, 256 or 512 KiB per section, depending on the speed of the algorithm.
    Class,
    /// As many bytes as fit in the target at the rates measured at start.
    Calibrated,
    /// TSC readings between calls decide where a section ends.
    Clocked,
    /// Continue until a softirq is pending or a reschedule is requested.
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

    /// Makes this the strategy of the whole process, for sections of `target` TSC ticks.
    pub fn set(self, target: u64) {
        init();
        // SAFETY: `self` is a valid strategy number. Requests in progress keep the strategy that
        // they began with.
        unsafe { sys::kiln_cut_set(self as u32, target) }
    }

    /// The current strategy, and its target in TSC ticks.
    pub fn current() -> (Way, u64) {
        init();
        let mut target = 0;
        // SAFETY: the function only writes one word, through a valid pointer.
        let way = unsafe { sys::kiln_cut_get(&mut target) };
        (Way::ALL[way as usize], target)
    }
}

parse_names!(Way, "way", Way::ALL);

/// For tests: sets the bytes per section, or per step between two checks. `None` restores the
/// defaults.
#[doc(hidden)]
pub fn force(bytes: Option<u32>) {
    init();
    // SAFETY: the function accepts any number.
    unsafe { sys::kiln_cut_force(bytes.unwrap_or(0)) }
}

/// The budget and the measured rates of an implementation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Maximum bytes per call under the current strategy, for encryption and decryption.
    pub most: [u32; 2],
    /// TSC ticks that every call takes regardless of length, including its FPU section; for encryption and decryption.
    pub start: [u32; 2],
    /// TSC ticks per byte with the data in the caches; 0 if not measured.
    pub rate: [f64; 2],
    /// Additional TSC ticks per byte when the data are in memory.
    pub miss_rate: f64,
    /// Budgets are multiples of this many bytes.
    pub granule: u32,
    /// Additional TSC ticks per byte if the data is in memory instead of the caches.
    pub posted: Option<u32>,
    /// Scalar code is faster for messages shorter than this many bytes.
    pub min_bytes: u32,
    /// Whether this implementation was measured as the fastest of its algorithm.
    pub fastest: bool,
}

impl Impl {
    /// The implementation's budget under the current strategy.
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

    /// Bytes that fit in a section of `ticks` TSC ticks with the usual margins. `None` if that is less than one
    /// granule, or if nothing was measured.
    pub fn bytes_in(self, op: Op, ticks: u64) -> Option<u32> {
        // SAFETY: the descriptor is valid, and the function accepts any numbers.
        let n = unsafe { sys::kiln_budget_bytes(self.0, op == Op::Decrypt, ticks) };
        (n > 0).then_some(n)
    }
}

/// The cost of one calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibrated {
    /// Duration in TSC ticks.
    pub ticks: u64,
    pub runs: u32,
}

/// Must equal `KILN_CALIBRATION_BYTES`.
const MEMORY: usize = 512 * 1024;

/// Memory for calibrations. The lock allows one calibration at a time, because the results are
/// global. The memory is never freed: the clock speed may change at any time and require another
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

/// Measures all usable implementations, which takes some ten milliseconds.
pub fn calibrate() -> Calibrated {
    gate(sys::kiln_calibrate, None).1
}

/// Calibrates if the clock speed has changed since the last calibration or if there was none.
/// Otherwise returns `None`.
pub fn calibrate_again() -> Option<Calibrated> {
    let (changed, calibrated) = gate(sys::kiln_calibrate_again, None);
    (changed != 0).then_some(calibrated)
}

/// Simulated times for tests, instead of measured ones.
#[doc(hidden)]
pub struct Planted<'a> {
    /// TSC ticks per 65536 bytes, for each implementation.
    pub rates: &'a [u64],
    /// TSC ticks added to successive runs, repeating after the last value.
    pub stalls: &'a [u64],
    /// TSC ticks that the chain of multiplications takes.
    pub chain: u64,
}

/// Like [`calibrate`], or with `again` like [`calibrate_again`], but with simulated times and without running a cipher.
#[doc(hidden)]
pub fn calibrate_planted(planted: &Planted<'_>, again: bool) -> Option<Calibrated> {
    let function = match again {
        true => sys::kiln_calibrate_again,
        false => sys::kiln_calibrate,
    };
    let (answer, calibrated) = gate(function, Some(planted));
    (!again || answer != 0).then_some(calibrated)
}

/// Measures `n` dependent multiplications, in TSC ticks.
pub fn chain(n: u64) -> u64 {
    // SAFETY: the function computes on its argument only.
    unsafe { sys::kiln_budget_chain(n) }
}

/// Parameters of a measurement of long messages and of the delays that their sections cause.
pub struct Run {
    /// Number of multiplications in a section without data.
    pub null_chain: u64,
    /// Sections that take more TSC ticks than this count as long.
    pub long_ticks: u64,
    /// Minimum duration in TSC ticks.
    pub ticks: u64,
    /// Minimum number of operations of each part.
    pub min_ops: u64,
    /// Flush the data from all caches before each operation.
    pub cold: bool,
    /// Run only the current strategy, not the other two workloads.
    pub alone: bool,
}

/// One of the three workloads that a run alternates between.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Lengths of the FPU sections in TSC ticks.
    pub section: Histogram,
    /// Delay from the interrupt that raises a softirq to the softirq's handler.
    pub softirq: Histogram,
    /// Delay from the interrupt that wakes a kthread to its first action.
    pub wake: Histogram,
    pub ops: u64,
    /// FPU sections opened by these operations.
    pub sections: u64,
    /// Timed sections that were interrupted.
    pub interrupted: u64,
    /// Timed sections that were not interrupted but during which the host took the CPU away.
    pub stolen: u64,
    /// Stalls that the watchdog detected.
    pub stalls: u64,
    /// Timed sections longer than [`Run::long_ticks`].
    pub long_sections: u64,
    /// Long sections that were interrupted or stolen.
    pub long_witnessed: u64,
    /// TSC ticks of the first operations.
    pub op_ticks: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Requests divided by the current chunking strategy.
    pub judged: Part,
    /// Requests processed in one section each.
    pub unbounded: Part,
    /// Sections of pure arithmetic, without requests.
    pub null: Part,
}

/// Maximum number of operations per part whose times are recorded.
const OPS: usize = 4096;

impl Run {
    /// Runs requests for `messages`, one per operation, on this CPU.
    ///
    /// # Errors
    /// Returns the first error of a request. Fails if memory for a kthread is insufficient, or if
    /// the messages exceed their buffers.
    ///
    /// # Panics
    /// If the driver's implementation does not open FPU sections.
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
