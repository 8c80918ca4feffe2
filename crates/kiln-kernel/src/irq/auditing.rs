//! Enables an audit and returns its results.

use std::io;
use std::marker::PhantomData;

use super::audit::{AuditState, Breach, Visit};
use super::handler::{host, prepare, Handling};
use crate::cpu::Cpu;
use crate::sys::Audit;

/// Keeps an audit enabled until dropped.
pub struct Auditing {
    /// Not `Send`: the audit belongs to this thread's CPU.
    _here: PhantomData<*mut ()>,
}

impl Auditing {
    /// Audits the calling thread's CPU wherever its code sets the trap flag. `begin` is the address of the function
    /// that begins a section.
    ///
    /// # Safety
    /// `shared` must outlive the audit.
    pub unsafe fn start(cpu: &mut Cpu, shared: *mut Audit, begin: u64) -> io::Result<Auditing> {
        prepare(cpu, Handling::Faithful)?;
        cpu.host().injection.audit = Some(Box::new(AuditState::new(shared, begin)));
        Ok(Auditing { _here: PhantomData })
    }

    /// Sets the functions, by address, whose 32-bit arguments (a bit mask) get garbage in their upper halves at each
    /// call.
    pub fn narrow(&mut self, functions: Vec<(u64, u8)>) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.set_narrow(functions);
        }
    }

    /// Sets the functions, by address, after which the registers they must preserve are restored. A breach is still
    /// recorded, but does not disturb later code.
    pub fn restore(&mut self, functions: Vec<u64>) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.set_restored(functions);
        }
    }

    /// Expects a valid frame pointer at every instruction from now on.
    pub fn expect_frames(&mut self) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.set_frames(true);
        }
    }

    /// The instructions stepped so far.
    pub fn visits(&self) -> Vec<Visit> {
        let state = host().and_then(|h| h.injection.audit.as_ref());
        state.map_or(Vec::new(), |s| s.visits())
    }

    /// Number of times that an instruction was not interrupted, because the table of visits was full.
    pub fn dropped(&self) -> u64 {
        let state = host().and_then(|h| h.injection.audit.as_ref());
        state.map_or(0, |s| s.dropped())
    }

    /// Clears instructions and breaches, to make space for the next jobs.
    pub fn clear(&mut self) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.clear();
        }
    }

    /// The breaches so far.
    pub fn breaches(&self) -> Vec<Breach> {
        let state = host().and_then(|h| h.injection.audit.as_ref());
        state.map_or(Vec::new(), |s| s.breaches().to_vec())
    }
}

impl Drop for Auditing {
    fn drop(&mut self) {
        if let Some(host) = host() {
            host.injection.audit = None;
        }
    }
}
