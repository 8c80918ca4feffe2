//! Interrupts at random instructions by means of `int3`: the cheapest of all sources.
//!
//! One address of a list is patched at a time, chosen at random from the seed. When it is hit, the
//! handler restores the instruction, injects an interrupt before it, and patches another address.

use std::arch::asm;
use std::collections::BTreeSet;
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering};

use kiln_measure::SplitMix64;

use super::{host, prepare, without_interrupts, Frame, Handling};
use crate::cpu::{Cpu, Host};

const INT3: u8 = 0xcc;

#[derive(Default)]
pub(crate) struct State {
    addresses: Vec<u64>,
    original: Vec<u8>,
    armed: Option<usize>,
    random: SplitMix64,
    hits: u64,
    hits_before: u64,
}

fn byte(address: u64) -> &'static AtomicU8 {
    // SAFETY: an instruction's first byte in text that was made writable and stays mapped
    // for as long as the process lives.
    unsafe { &*(address as *const AtomicU8) }
}

/// Inline assembly instead of a function of the core library: in an unoptimised build, code with a
/// breakpoint in it may share that function, and the handler would trap on its own breakpoint.
#[inline(always)]
fn poke(address: u64, value: u8) {
    // SAFETY: as in `byte`; XCHG is atomic and a full barrier.
    unsafe {
        asm!("xchg [{}], {}", in(reg) address, inout(reg_byte) value => _, options(nostack));
    }
}

/// The text and the state must change together: an interrupt between the two changes could execute
/// the address and hit a breakpoint that the state does not record. The handler runs with all signals
/// blocked; elsewhere, these methods must be called inside [`without_interrupts`].
impl State {
    fn arm_next(&mut self) {
        let i = (self.random.next_u64() % self.addresses.len() as u64) as usize;
        poke(self.addresses[i], INT3);
        self.armed = Some(i);
    }

    /// Put the instruction back.
    pub fn disarm(&mut self) {
        if let Some(i) = self.armed.take() {
            poke(self.addresses[i], self.original[i]);
        }
    }
}

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
        let addresses: Vec<u64> = addresses.iter().copied().collect();
        let original = addresses
            .iter()
            .map(|&a| byte(a).load(Ordering::SeqCst))
            .collect();
        let host = cpu.host();
        without_interrupts(|| {
            let state = &mut host.injection.breakpoints;
            *state = State {
                addresses,
                original,
                armed: None,
                random: SplitMix64(seed),
                hits: 0,
                hits_before: 0,
            };
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

/// Handles the trap if it comes from the current breakpoint; returns false for any other trap.
///
/// # Safety
/// Called from the signal handler with the thread's host, or null.
pub(super) unsafe fn hit(host: *mut Host, frame: &mut Frame<'_>) -> bool {
    if host.is_null() {
        return false;
    }
    // SAFETY: as promised; the interrupted code holds no reference to the state.
    let host = unsafe { &mut *host };
    let state = &mut host.injection.breakpoints;
    let Some(i) = state.armed else { return false };
    let address = state.addresses[i];
    if frame.rip() != address + 1 {
        return false;
    }
    state.disarm();
    state.hits += 1;
    frame.set_rip(address);
    // SAFETY: the thread is this CPU, stopped before an instruction of `kernel/`.
    unsafe { frame.interrupt(host.cpu.as_ptr()) };
    state.arm_next();
    true
}
