//! The interface for auditing a hosted tree's code: starts the audit and returns its results.

use std::io;
use std::marker::PhantomData;
use std::ops::Range;

use super::audit::{AuditState, Breach, Visit};
use super::handler::{host, prepare, Handling};
use super::stepper::Stepper;
use crate::cpu::Cpu;
use crate::sys::Audit;

/// An audit, which stays enabled until this value is dropped.
pub struct Auditing {
    /// Prevents `Send`, because the audit belongs to this thread's CPU.
    _here: PhantomData<*mut ()>,
}

impl Auditing {
    /// Audits all code on the calling thread's CPU that runs with the trap flag set. `begin` is the
    /// address of the function that begins a section.
    ///
    /// # Safety
    /// `shared` must outlive the audit.
    pub unsafe fn start(cpu: &mut Cpu, shared: *mut Audit, begin: u64) -> io::Result<Auditing> {
        prepare(cpu, Handling::Faithful)?;
        cpu.host().injection.stepper.add_program()?;
        cpu.host().injection.audit = Some(Box::new(AuditState::new(shared, begin)));
        Ok(Auditing { _here: PhantomData })
    }

    /// Steps `text` by executing copies of its instructions, as [`Auditing::start`] does for this
    /// program's own text. Without this call, `text` is stepped with the trap flag, which is much
    /// slower. A repeated string instruction counts as one step.
    ///
    /// # Safety
    /// `text` must be code that stays readable for as long as the audit lives.
    pub unsafe fn copy_instructions(&mut self, text: Range<u64>) -> io::Result<()> {
        match host() {
            // SAFETY: the caller makes the same promise.
            Some(host) => unsafe { host.injection.stepper.add(text) },
            None => Ok(()),
        }
    }

    /// Sets the addresses of functions with 32-bit arguments. A set bit i in the mask means that
    /// argument i is 32 bits wide. At each call, the upper halves of these arguments' registers are
    /// filled with garbage.
    pub fn narrow(&mut self, functions: Vec<(u64, u8)>) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.set_narrow(functions);
        }
    }

    /// Sets the addresses of functions for which the handler restores the preserved registers on
    /// return. A violation is still recorded, but does not disturb later code.
    pub fn restore(&mut self, functions: Vec<u64>) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.set_restored(functions);
        }
    }

    /// From now on, requires a valid frame pointer at every instruction.
    pub fn expect_frames(&mut self) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.set_frames(true);
        }
    }

    /// Returns the instructions that have been single-stepped so far.
    pub fn visits(&self) -> Vec<Visit> {
        let state = host().and_then(|h| h.injection.audit.as_ref());
        state.map_or(Vec::new(), |s| s.visits())
    }

    /// Returns how many times an instruction was not interrupted because the visit table was full.
    pub fn dropped(&self) -> u64 {
        let state = host().and_then(|h| h.injection.audit.as_ref());
        state.map_or(0, |s| s.dropped())
    }

    /// Discards all visits and violations, to make room for the next jobs.
    pub fn clear(&mut self) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.clear();
        }
    }

    /// Returns the violations found so far.
    pub fn breaches(&self) -> Vec<Breach> {
        let state = host().and_then(|h| h.injection.audit.as_ref());
        state.map_or(Vec::new(), |s| s.breaches().to_vec())
    }
}

impl Drop for Auditing {
    fn drop(&mut self) {
        if let Some(host) = host() {
            host.injection.audit = None;
            host.injection.stepper = Stepper::default();
        }
    }
}
