//! Interrupts at random instructions by means of `int3`: the cheapest of all sources.
//!
//! One address of a list is patched at a time, chosen at random from the seed. When it is hit, the
//! handler restores the instruction, injects an interrupt before it, and patches another address.

use std::collections::BTreeSet;
use std::io;
use std::marker::PhantomData;

use super::handler::{host, prepare, without_interrupts, Handling};
use super::injection::BreakpointState;
use crate::cpu::Cpu;

/// Breakpoints are set until this is dropped.
pub struct Breakpoints {
    /// Not `Send`: the breakpoints belong to this thread's CPU.
    _here: PhantomData<*mut ()>,
}

impl Breakpoints {
    /// Choose from `addresses`, which are first bytes of instructions of `kernel/`. Only one CPU of a
    /// process may do so at a time, since all of them execute the same text.
    pub fn start(cpu: &mut Cpu, addresses: &BTreeSet<u64>, seed: u64) -> io::Result<Breakpoints> {
        if addresses.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no addresses to break at",
            ));
        }
        prepare(cpu, Handling::Faithful)?;
        for page in addresses.iter().map(|a| a & !4095).collect::<BTreeSet<_>>() {
            // SAFETY: pages of this program's text; they stay executable.
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

    /// Choose another address if the breakpoint was not hit since the last call: code need not
    /// execute every address each time.
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

    /// Breakpoints hit.
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
