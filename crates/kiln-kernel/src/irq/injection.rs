//! The state that the signal handler needs to inject interrupts, with one structure per kind of
//! interrupt source. It contains no reference to the CPU.

use std::collections::BTreeSet;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Arc;

use kiln_measure::SplitMix64;

use super::audit::AuditState;
use super::frame::Frame;
use super::patch::{poke, INT3};
use super::stepper::Stepper;
use crate::sys;

/// What this CPU's signal handler must do, and counts of what it has done.
#[derive(Default)]
pub(crate) struct Injection {
    /// Memory of the alternate stack; `None` until the first source is started.
    pub(super) stack: Option<Box<[u8]>>,
    pub(super) timer: TimerState,
    pub(super) step: StepState,
    pub(super) breakpoints: BreakpointState,
    pub(super) audit: Option<Box<AuditState>>,
    pub(super) stepper: Stepper,
}

impl Injection {
    /// Stops the timer and the breakpoints, and frees the alternate stack. Must be called before
    /// the CPU is dropped.
    pub(crate) fn stop(&mut self) {
        self.timer.stop();
        self.breakpoints.disarm();
        if self.stack.take().is_some() {
            // SAFETY: the call disables the alternate stack before its memory is freed.
            unsafe {
                let mut off: libc::stack_t = std::mem::zeroed();
                off.ss_flags = libc::SS_DISABLE;
                libc::sigaltstack(&off, ptr::null_mut());
            }
        }
    }
}

/// The times at which interrupts arrive.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// Interrupts at regular intervals. The value is the number of interrupts per second.
    Periodic(f64),
    /// Interrupts at independent random times. The values are the mean number of interrupts per
    /// second, and the seed.
    Poisson(f64, u64),
    /// Interrupts at independent random times, at a rate that depends on a flag. At each interrupt,
    /// the flag is read before the handlers run, and determines the rate until the next interrupt.
    TwoRates {
        flag: Arc<AtomicBool>,
        /// Mean number of interrupts per second while the flag is set.
        hz_if_set: f64,
        hz_if_clear: f64,
        seed: u64,
    },
    /// An interrupt after each of these gaps, in nanoseconds. After the last gap, the list repeats.
    Replay(Arc<[u64]>),
}

impl Arrivals {
    fn period(&self) -> Option<u64> {
        match self {
            Arrivals::Periodic(hz) => Some((1e9 / hz) as u64),
            _ => None,
        }
    }

    /// Returns the current mean number of interrupts per second, or `None` if the interrupts do not
    /// arrive at random times.
    fn random_hz(&self) -> Option<f64> {
        match self {
            Arrivals::Poisson(hz, _) => Some(*hz),
            Arrivals::TwoRates {
                flag,
                hz_if_set,
                hz_if_clear,
                ..
            } => Some(if flag.load(Ordering::Relaxed) {
                *hz_if_set
            } else {
                *hz_if_clear
            }),
            _ => None,
        }
    }
}

#[derive(Default)]
pub(super) struct TimerState {
    timer: Option<libc::timer_t>,
    arrivals: Option<Arrivals>,
    random: SplitMix64,
    position: usize,
}

impl TimerState {
    pub(super) fn start(&mut self, timer: libc::timer_t, arrivals: Arrivals) {
        if let Arrivals::Poisson(_, seed) | Arrivals::TwoRates { seed, .. } = arrivals {
            self.random = SplitMix64(seed);
        }
        let period = arrivals.period();
        self.timer = Some(timer);
        self.arrivals = Some(arrivals);
        self.position = 0;
        let first = period.or_else(|| self.next_gap()).unwrap_or(1);
        settime(timer, first, period.unwrap_or(0));
    }

    /// Arms the timer for the next interrupt. Does nothing for periodic interrupts, because their
    /// timer repeats by itself.
    pub(super) fn arm_next(&mut self) {
        if let (Some(timer), Some(gap)) = (self.timer, self.next_gap()) {
            settime(timer, gap, 0);
        }
    }

    fn next_gap(&mut self) -> Option<u64> {
        let arrivals = self.arrivals.as_ref()?;
        if let Arrivals::Replay(gaps) = arrivals {
            let gap = gaps[self.position % gaps.len()];
            self.position += 1;
            return Some(gap.max(1));
        }
        let hz = arrivals.random_hz()?;
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Some((-uniform.ln() * 1e9 / hz) as u64 + 1)
    }

    pub(super) fn stop(&mut self) {
        if let Some(timer) = self.timer.take() {
            // SAFETY: `Timer::start` has created the timer, and it is deleted only here.
            unsafe { libc::timer_delete(timer) };
        }
        self.arrivals = None;
    }
}

fn settime(timer: libc::timer_t, first: u64, period: u64) {
    let spec = |ns: u64| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    let value = libc::itimerspec {
        it_interval: spec(period),
        it_value: spec(first),
    };
    // SAFETY: the timer is a valid timer of this process. The call is async-signal-safe (POSIX,
    // section 2.4.3).
    unsafe { libc::timer_settime(timer, 0, &value, ptr::null_mut()) };
}

/// The addresses at which breakpoints may be set, and the index of the one where a breakpoint is
/// currently set, if any.
#[derive(Default)]
pub(super) struct BreakpointState {
    addresses: Vec<u64>,
    original: Vec<u8>,
    armed: Option<usize>,
    random: SplitMix64,
    pub(super) hits: u64,
    pub(super) hits_before: u64,
}

fn byte(address: u64) -> &'static AtomicU8 {
    // SAFETY: the address is the first byte of an instruction, in text that was made writable and
    // stays mapped until the process exits.
    unsafe { &*(address as *const AtomicU8) }
}

/// The text and the state must change together. Otherwise an interrupt between the two changes
/// could hit a breakpoint that the state does not record. The handler runs with all signals
/// blocked; other code must call these methods inside [`super::handler::without_interrupts`].
impl BreakpointState {
    /// Saves the original byte at each address. Does not set a breakpoint.
    pub(super) fn new(addresses: &BTreeSet<u64>, seed: u64) -> BreakpointState {
        let original = |&a: &u64| byte(a).load(Ordering::SeqCst);
        BreakpointState {
            addresses: addresses.iter().copied().collect(),
            original: addresses.iter().map(original).collect(),
            random: SplitMix64(seed),
            ..BreakpointState::default()
        }
    }

    pub(super) fn arm_next(&mut self) {
        let i = (self.random.next_u64() % self.addresses.len() as u64) as usize;
        poke(self.addresses[i], INT3);
        self.armed = Some(i);
    }

    /// Removes the breakpoint by restoring the original byte.
    pub(super) fn disarm(&mut self) {
        if let Some(i) = self.armed.take() {
            poke(self.addresses[i], self.original[i]);
        }
    }

    /// Handles a trap if the current breakpoint caused it. Returns false for any other trap.
    ///
    /// # Safety
    /// `cpu` must be the CPU of the interrupted thread, and `frame` must hold that thread's
    /// registers.
    pub(super) unsafe fn handle_trap(
        &mut self,
        frame: &mut Frame<'_>,
        cpu: *mut sys::CpuHead,
    ) -> bool {
        let Some(i) = self.armed else { return false };
        let address = self.addresses[i];
        if frame.rip() != address + 1 {
            return false;
        }
        self.disarm();
        self.hits += 1;
        frame.set_rip(address);
        // SAFETY: the caller promises that `cpu` is the CPU of the interrupted thread.
        unsafe { frame.interrupt(cpu) };
        self.arm_next();
        true
    }
}

/// The instructions before which interrupts are injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Do not inject; only count the instructions and record their addresses.
    Trace,
    /// Inject before every instruction.
    Every,
    /// `(first, end)`: inject before each instruction from `first` up to, but excluding, `end`.
    Range(u64, u64),
    /// Inject before the instruction with this number, counting from 0.
    At(u64),
    /// `(k1, k2)`: inject before instruction k1 of the task's section, and before instruction k2 of
    /// the softirq that the first interrupt raises. The load must set `step_softirq`.
    Pair(u64, u64),
    /// `(k1, first, end)`: inject before instruction k1 of the task's section. This interrupt
    /// raises a softirq. Counting instructions from 0 in this softirq and the code after it, also
    /// inject before each one from `first` up to, but excluding, `end`. Stepping stops at `end`.
    Nest(u64, u64, u64),
}

#[derive(Default)]
pub(super) struct StepState {
    pub(super) mode: Option<Step>,
    /// Number of instructions that were stepped outside the softirq. `inner` counts the
    /// instructions in the softirq.
    pub(super) outer: u64,
    pub(super) inner: u64,
    pub(super) in_softirq: bool,
    /// Whether to stop stepping after the last injection.
    pub(super) brief: bool,
    pub(super) injected: u64,
    pub(super) masked: u64,
    pub(super) trace: Vec<u64>,
    pub(super) trace_len: usize,
}

impl StepState {
    pub(super) fn new(mode: Step) -> StepState {
        StepState {
            mode: Some(mode),
            // Allocate the memory now, because the handler must not allocate.
            trace: match mode {
                Step::Trace => vec![0; 1 << 20],
                _ => Vec::new(),
            },
            ..StepState::default()
        }
    }

    /// Handles one step. RIP in the frame is the address of the next instruction.
    ///
    /// # Safety
    /// `cpu` must be the CPU of the interrupted thread, and `frame` must hold that thread's
    /// registers.
    pub(super) unsafe fn handle_step(&mut self, frame: &mut Frame<'_>, cpu: *mut sys::CpuHead) {
        let Some(mode) = self.mode else {
            frame.stop_stepping();
            return;
        };
        let k = if self.in_softirq {
            &mut self.inner
        } else {
            &mut self.outer
        };
        let here = *k;
        *k += 1;
        let inject = match mode {
            Step::Trace => {
                if self.trace_len < self.trace.len() {
                    self.trace[self.trace_len] = frame.rip();
                    self.trace_len += 1;
                }
                false
            }
            Step::Every => true,
            Step::Range(first, end) => (first..end).contains(&here),
            Step::At(k) => here == k,
            Step::Pair(k1, _) | Step::Nest(k1, ..) if !self.in_softirq => here == k1,
            Step::Pair(_, k2) => here == k2,
            Step::Nest(_, first, end) => (first..end).contains(&here),
        };
        if matches!(mode, Step::Nest(.., end) if self.in_softirq && here + 1 >= end) {
            self.mode = None;
        }
        if !inject {
            return;
        }
        self.injected += 1;
        let last = match mode {
            Step::At(_) => true,
            Step::Pair(..) => self.in_softirq,
            _ => false,
        };
        if self.brief && last {
            // The handler clears the trap flag at the next trap, because no mode is set.
            self.mode = None;
        }
        // SAFETY: the caller promises that `cpu` is the CPU of the interrupted thread.
        if unsafe { frame.interrupt(cpu) } {
            if matches!(mode, Step::Pair(..) | Step::Nest(..)) {
                self.in_softirq = true;
            }
        } else {
            self.masked += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(arrivals: Arrivals, seed: u64) -> Vec<Option<u64>> {
        let mut state = TimerState {
            arrivals: Some(arrivals),
            random: SplitMix64(seed),
            ..TimerState::default()
        };
        (0..10_000).map(|_| state.next_gap()).collect()
    }

    #[test]
    fn a_seed_fixes_the_gaps() {
        let draw = |seed| gaps(Arrivals::Poisson(10_000.0, seed), seed);
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(9));
        let mean = draw(7).iter().flatten().sum::<u64>() as f64 / 10_000.0;
        assert!((95_000.0..105_000.0).contains(&mean), "{mean} ns");
    }

    #[test]
    fn a_flag_selects_the_rate() {
        let draw = |is_set| {
            let arrivals = Arrivals::TwoRates {
                flag: Arc::new(AtomicBool::new(is_set)),
                hz_if_set: 10_000.0,
                hz_if_clear: 1_000.0,
                seed: 7,
            };
            gaps(arrivals, 7).into_iter().flatten().sum::<u64>() as f64 / 10_000.0
        };
        let (fast, slow) = (draw(true), draw(false));
        assert!((95_000.0..105_000.0).contains(&fast), "{fast} ns");
        assert!((950_000.0..1_050_000.0).contains(&slow), "{slow} ns");
    }

    #[test]
    fn a_trace_is_replayed_round_and_round() {
        let got = gaps(Arrivals::Replay(Arc::new([5, 0, 9])), 1);
        assert_eq!(got[..4], [Some(5), Some(1), Some(9), Some(5)]);
    }
}
