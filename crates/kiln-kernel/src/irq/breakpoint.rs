//! Injects interrupts at random instructions with `int3`, which costs less than single-stepping.
//!
//! At any time, only one address is patched. It is drawn from a list by a seeded pseudo-random
//! generator. When the breakpoint is hit, the handler restores the instruction, injects an
//! interrupt before it, and patches another address.

use std::collections::BTreeSet;
use std::io;
use std::marker::PhantomData;

use super::handler::{host, prepare, without_interrupts, Handling};
use super::injection::BreakpointState;
use crate::cpu::Cpu;

/// Breakpoints, which stay set until this value is dropped.
pub struct Breakpoints {
    /// Prevents `Send`, because the breakpoints belong to this thread's CPU.
    _here: PhantomData<*mut ()>,
}

impl Breakpoints {
    /// Sets breakpoints at randomly chosen members of `addresses`, one at a time. Each address must
    /// be that of the first byte of an instruction of `kernel/`. Only one CPU of a process may have
    /// breakpoints at any time, because all CPUs execute the same text.
    pub fn start(cpu: &mut Cpu, addresses: &BTreeSet<u64>, seed: u64) -> io::Result<Breakpoints> {
        if addresses.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no addresses for breakpoints",
            ));
        }
        prepare(cpu, Handling::Faithful)?;
        for page in addresses.iter().map(|a| a & !4095).collect::<BTreeSet<_>>() {
            // SAFETY: the call makes pages of this program's text writable. The pages stay
            // readable and executable.
            let ret = unsafe {
                libc::mprotect(
                    page as *mut libc::c_void,
                    4096,
                    libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                )
            };
            if ret != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let new = BreakpointState::new(addresses, seed);
        let state = &mut cpu.host().injection.breakpoints;
        without_interrupts(|| {
            *state = new;
            state.arm_next();
        });
        Ok(Breakpoints { _here: PhantomData })
    }

    /// Moves the breakpoint to another address if it has not been hit since the last call. This is
    /// needed because the code may never execute the current address.
    pub fn redraw(&mut self) {
        let Some(host) = host() else { return };
        without_interrupts(|| {
            let state = &mut host.injection.breakpoints;
            if state.hits == state.hits_before {
                state.disarm();
                state.arm_next();
            }
            state.hits_before = state.hits;
        });
    }

    /// Returns how many times a breakpoint was hit.
    pub fn hits(&mut self) -> u64 {
        host().map_or(0, |h| h.injection.breakpoints.hits)
    }
}

impl Drop for Breakpoints {
    fn drop(&mut self) {
        if let Some(host) = host() {
            without_interrupts(|| host.injection.breakpoints.disarm());
        }
    }
}
