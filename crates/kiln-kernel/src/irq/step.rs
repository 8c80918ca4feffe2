//! Interrupts at exact instructions, by the trap flag.
//!
//! `kernel/load` sets the flag around an FPU section. The thread then traps after each instruction,
//! and the handler may inject an interrupt before the next one. The IRET at the end of the interrupt
//! restores the trap flag, so that the next trap comes after the interrupted instruction.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::marker::PhantomData;

use super::{host, prepare, Frame, Handling};
use crate::cpu::{Cpu, Host};

/// Where to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nowhere: count the instructions, and note their addresses.
    Trace,
    /// Before every instruction.
    Every,
    /// Before each instruction from the first number up to, but not including, the second.
    Range(u64, u64),
    /// Before instruction k (from 0) of those stepped over.
    At(u64),
    /// Before instruction k1 of the task's section, and before instruction k2 of the softirq that
    /// this interrupt raises; the load must set `step_softirq`.
    Pair(u64, u64),
    /// `(k1, first, end)`: before instruction k1 of the task's section; then, in the softirq that this
    /// interrupt raises and in the code after it, before each instruction from `first` up to, but not
    /// including, `end`. Stepping stops at `end`.
    Nest(u64, u64, u64),
}

#[derive(Default)]
pub(crate) struct State {
    mode: Option<Step>,
    /// Instructions seen, of the outer code and of the softirq.
    outer: u64,
    inner: u64,
    in_softirq: bool,
    /// Step no further than the last injection.
    brief: bool,
    injected: u64,
    masked: u64,
    trace: Vec<u64>,
    trace_len: usize,
}

/// Stepping is on until it is dropped.
pub struct Stepping {
    /// Not `Send`: the stepping belongs to this thread's CPU.
    _here: PhantomData<*mut ()>,
}

impl Stepping {
    /// Step the calling thread's CPU wherever the load sets the trap flag.
    pub fn start(cpu: &mut Cpu, mode: Step) -> io::Result<Stepping> {
        prepare(cpu, Handling::Faithful)?;
        cpu.host().injection.step = State {
            mode: Some(mode),
            // The handler must not allocate.
            trace: if mode == Step::Trace {
                vec![0; 1 << 20]
            } else {
                Vec::new()
            },
            ..State::default()
        };
        Ok(Stepping { _here: PhantomData })
    }

    fn state(&mut self) -> &mut State {
        &mut host()
            .expect("the CPU outlives its stepping")
            .injection
            .step
    }

    /// With `brief`, [`Step::At`] and [`Step::Pair`] stop stepping after their last injection, so that
    /// later instructions are neither counted nor slowed down.
    pub fn set_brief(&mut self, brief: bool) {
        self.state().brief = brief;
    }

    /// Start counting instructions from 0 again.
    pub fn restart(&mut self, mode: Step) {
        let state = self.state();
        state.mode = Some(mode);
        (state.outer, state.inner) = (0, 0);
        state.in_softirq = false;
        state.trace_len = 0;
    }

    /// Instructions stepped over since the last restart: the task's, the softirq's.
    pub fn instructions(&mut self) -> (u64, u64) {
        let state = self.state();
        (state.outer, state.inner)
    }

    /// Interrupts injected since the start, and how many of them came while interrupts were off and
    /// were delayed until they were enabled.
    pub fn injected(&mut self) -> (u64, u64) {
        let state = self.state();
        (state.injected, state.masked)
    }

    /// The addresses that were executed at least `times` times during a [`Step::Trace`].
    pub fn addresses(&mut self, times: usize) -> BTreeSet<u64> {
        let state = self.state();
        let mut seen = BTreeMap::new();
        for &address in &state.trace[..state.trace_len] {
            *seen.entry(address).or_insert(0) += 1;
        }
        seen.retain(|_, n| *n >= times);
        seen.into_keys().collect()
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        if let Some(host) = host() {
            host.injection.step.mode = None;
        }
    }
}

/// Handles a single-step trap, which comes before the instruction at the frame's RIP.
///
/// # Safety
/// Called from the signal handler of the thread whose CPU `host` is.
pub(super) unsafe fn trapped(host: &mut Host, frame: &mut Frame<'_>) {
    let state = &mut host.injection.step;
    let Some(mode) = state.mode else {
        frame.stop_stepping();
        return;
    };
    let k = if state.in_softirq {
        &mut state.inner
    } else {
        &mut state.outer
    };
    let here = *k;
    *k += 1;
    let inject = match mode {
        Step::Trace => {
            if state.trace_len < state.trace.len() {
                state.trace[state.trace_len] = frame.rip();
                state.trace_len += 1;
            }
            false
        }
        Step::Every => true,
        Step::Range(first, end) => (first..end).contains(&here),
        Step::At(k) => here == k,
        Step::Pair(k1, _) | Step::Nest(k1, ..) if !state.in_softirq => here == k1,
        Step::Pair(_, k2) => here == k2,
        Step::Nest(_, first, end) => (first..end).contains(&here),
    };
    if matches!(mode, Step::Nest(.., end) if state.in_softirq && here + 1 >= end) {
        state.mode = None;
    }
    if !inject {
        return;
    }
    state.injected += 1;
    let last = match mode {
        Step::At(_) => true,
        Step::Pair(..) => state.in_softirq,
        _ => false,
    };
    if state.brief && last {
        // The next trap takes the flag away.
        state.mode = None;
    }
    // SAFETY: the thread is this CPU, stopped at an instruction of `kernel/`.
    if unsafe { frame.interrupt(host.cpu.as_ptr()) } {
        if matches!(mode, Step::Pair(..) | Step::Nest(..)) {
            state.in_softirq = true;
        }
    } else {
        state.masked += 1;
    }
}
