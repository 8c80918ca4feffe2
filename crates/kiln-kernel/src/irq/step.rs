//! Injects interrupts at exact instructions.
//!
//! `kernel/load` sets the trap flag around an FPU section. Each instruction is then one step
//! ([`super::stepper`]), and the handler may inject an interrupt before the next instruction. When
//! the interrupt returns, the interrupted instruction is executed before another interrupt is
//! injected, so stepping always makes progress.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::marker::PhantomData;

use super::handler::{host, prepare, Handling};
use super::injection::{Step, StepState};
use super::stepper::Stepper;
use crate::cpu::Cpu;

/// Single-stepping, which stays enabled until this value is dropped.
pub struct Stepping {
    /// Prevents `Send`, because only this thread's CPU is single-stepped.
    _here: PhantomData<*mut ()>,
}

impl Stepping {
    /// Single-steps all code on the calling thread's CPU that runs with the trap flag set.
    pub fn start(cpu: &mut Cpu, mode: Step) -> io::Result<Stepping> {
        prepare(cpu, Handling::Faithful)?;
        cpu.host().injection.stepper.add_program()?;
        cpu.host().injection.step = StepState::new(mode);
        Ok(Stepping { _here: PhantomData })
    }

    fn state(&mut self) -> &mut StepState {
        &mut host()
            .expect("the CPU outlives its stepping")
            .injection
            .step
    }

    /// Sets whether [`Step::At`] and [`Step::Pair`] stop stepping after their last injection. If
    /// they do, later instructions are neither counted nor slowed down.
    pub fn set_brief(&mut self, brief: bool) {
        self.state().brief = brief;
    }

    /// Sets the mode and restarts the count of instructions at 0.
    pub fn restart(&mut self, mode: Step) {
        let state = self.state();
        state.mode = Some(mode);
        (state.outer, state.inner) = (0, 0);
        state.in_softirq = false;
        state.trace_len = 0;
    }

    /// Returns how many instructions have been stepped since the last restart, as two counts:
    /// outside the softirq and inside it.
    pub fn instructions(&mut self) -> (u64, u64) {
        let state = self.state();
        (state.outer, state.inner)
    }

    /// Returns how many interrupts have been injected since [`Stepping::start`], and how many of
    /// them were delayed because interrupts were disabled.
    pub fn injected(&mut self) -> (u64, u64) {
        let state = self.state();
        (state.injected, state.masked)
    }

    /// Returns the addresses executed at least `times` times during a [`Step::Trace`].
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
            host.injection.stepper = Stepper::default();
        }
    }
}
