//! Switches an audit on and reads what it found.

use std::io;
use std::marker::PhantomData;

use super::audit::{AuditState, Breach, Visit};
use super::handler::{host, prepare, Handling};
use crate::cpu::Cpu;
use crate::sys::Audit;

/// An audit is on until it is dropped.
pub struct Auditing {
    /// Not `Send`: the audit belongs to this thread's CPU.
    _here: PhantomData<*mut ()>,
}

impl Auditing {
    /// Audits the calling thread's CPU wherever its code sets the trap flag. `begin` is the address of the function that
    /// begins a section.
    ///
    /// # Safety
    /// `shared` outlives the audit.
    pub unsafe fn start(cpu: &mut Cpu, shared: *mut Audit, begin: u64) -> io::Result<Auditing> {
        prepare(cpu, Handling::Faithful)?;
        cpu.host().injection.audit = Some(Box::new(AuditState::new(shared, begin)));
        Ok(Auditing { _here: PhantomData })
    }

    /// Functions, by address, whose arguments of 32 bits (a bit for each) get garbage above them at each call.
    pub fn narrow(&mut self, functions: Vec<(u64, u8)>) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.set_narrow(functions);
        }
    }

    /// Functions, by address, that return with the registers that they must preserve as they were, whatever they did to them: the
    /// breach is kept, and what comes next is not disturbed by it.
    pub fn restore(&mut self, functions: Vec<u64>) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.set_restored(functions);
        }
    }

    /// The code keeps frame pointers: each instruction has one from now on.
    pub fn expect_frames(&mut self) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.set_frames(true);
        }
    }

    /// The instructions that were stepped so far.
    pub fn visits(&self) -> Vec<Visit> {
        let state = host().and_then(|h| h.injection.audit.as_ref());
        state.map_or(Vec::new(), |s| s.visits())
    }

    /// How often an instruction was stepped for which the table of visits had no room. It was not interrupted then.
    pub fn dropped(&self) -> u64 {
        let state = host().and_then(|h| h.injection.audit.as_ref());
        state.map_or(0, |s| s.dropped())
    }

    /// Forgets instructions and broken rules, so that the next jobs have all the room.
    pub fn clear(&mut self) {
        if let Some(state) = host().and_then(|h| h.injection.audit.as_mut()) {
            state.clear();
        }
    }

    /// The rules that were broken so far.
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
