//! Makes audited code trap before its next instruction.
//!
//! The trap flag causes a trap before every instruction, but this trap is slow: the host reads a
//! debug register, and a hypervisor intercepts that access. A breakpoint on the next instruction
//! traps in about a quarter of the time. It is used for instructions whose successor is known
//! before they execute.

use std::ops::Range;
use std::slice;

use iced_x86::{ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use super::frame::Frame;
use super::patch::{poke, INT3};

/// Maximum length in bytes of an x86 instruction.
const LONGEST: u64 = 15;

const CARRY: i64 = 1 << 0;
const PARITY: i64 = 1 << 2;
const ZERO: i64 = 1 << 6;
const SIGN: i64 = 1 << 7;
const OVERFLOW: i64 = 1 << 11;

/// The breakpoint, if one is set. Between a trap and the next call to [`Stepper::leave`], the trap
/// flag in the frame records whether stepping continues, no matter what caused the trap.
#[derive(Default)]
pub(super) struct Stepper {
    /// Writable code that only this thread executes. Outside this code, the trap flag is used.
    text: Range<u64>,
    /// Address of the breakpoint, and the byte that it replaces.
    set: Option<(u64, u8)>,
}

impl Stepper {
    /// From now on, uses breakpoints in `text`.
    pub(super) fn patch(&mut self, text: Range<u64>) {
        // Decode once outside the handler, because the decoder allocates its tables at first use.
        let _ = Decoder::new(64, &[0x90], DecoderOptions::NONE).decode();
        self.text = text;
    }

    /// Handles the beginning of a trap: removes the breakpoint. If the breakpoint caused the trap,
    /// changes the frame to what it would be after a single-step trap.
    pub(super) fn arrive(&mut self, frame: &mut Frame<'_>) {
        if let Some(address) = self.remove() {
            if frame.rip() == address + 1 {
                frame.set_rip(address);
                frame.start_stepping();
            }
        }
    }

    /// Handles an interrupt: if a breakpoint is set, the trap flag replaces it, because the
    /// interrupt's handler could execute the same code.
    pub(super) fn interrupt(&mut self, frame: &mut Frame<'_>) {
        if self.remove().is_some() {
            frame.start_stepping();
        }
    }

    /// Handles the end of a trap: if stepping continues and the next instruction's successor is
    /// known and may be patched, a breakpoint replaces the trap flag.
    pub(super) fn leave(&mut self, frame: &mut Frame<'_>) {
        if !frame.is_stepping() || !self.text.contains(&frame.rip()) {
            return;
        }
        let next = successor(frame, self.text.end);
        let Some(next) = next.filter(|n| self.text.contains(n) && *n != frame.rip()) else {
            return;
        };
        // SAFETY: the address is in the text, which is readable.
        let byte = unsafe { (next as *const u8).read() };
        if byte != INT3 {
            poke(next, INT3);
            self.set = Some((next, byte));
            frame.stop_stepping();
        }
    }

    /// Removes the breakpoint and returns its address.
    pub(super) fn remove(&mut self) -> Option<u64> {
        let (address, byte) = self.set.take()?;
        poke(address, byte);
        Some(address)
    }
}

/// Returns the address of the instruction that will execute after the one at RIP. Returns `None` if
/// it depends on memory other than a return address, or if the instruction accesses the trap flag.
fn successor(frame: &Frame<'_>, end: u64) -> Option<u64> {
    let rip = frame.rip();
    // SAFETY: the caller has checked that RIP is in the text, which is readable up to `end`.
    let bytes = unsafe { slice::from_raw_parts(rip as *const u8, LONGEST.min(end - rip) as usize) };
    let next = Decoder::with_ip(64, bytes, rip, DecoderOptions::NONE).decode();
    let target = next.near_branch_target();
    match next.flow_control() {
        FlowControl::Next if !accesses_trap_flag(&next) => Some(next.next_ip()),
        FlowControl::UnconditionalBranch if next.is_jmp_short_or_near() => Some(target),
        FlowControl::ConditionalBranch => {
            let taken = is_met(next.condition_code(), frame.flags())?;
            Some(if taken { target } else { next.next_ip() })
        }
        FlowControl::Call if next.is_call_near() => Some(target),
        FlowControl::Return if next.mnemonic() == Mnemonic::Ret => {
            let to = frame.register(libc::REG_RSP) as *const u64;
            // SAFETY: the instruction is about to read this word itself.
            Some(unsafe { to.read() })
        }
        _ => None,
    }
}

fn accesses_trap_flag(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Pushfq | Mnemonic::Popfq)
}

/// Returns whether the flags meet a condition, or `None` for instructions that test no flags, such
/// as JRCXZ.
fn is_met(condition: ConditionCode, flags: i64) -> Option<bool> {
    let has = |flag: i64| flags & flag != 0;
    let less = has(SIGN) != has(OVERFLOW);
    Some(match condition {
        ConditionCode::None => return None,
        ConditionCode::o => has(OVERFLOW),
        ConditionCode::no => !has(OVERFLOW),
        ConditionCode::b => has(CARRY),
        ConditionCode::ae => !has(CARRY),
        ConditionCode::e => has(ZERO),
        ConditionCode::ne => !has(ZERO),
        ConditionCode::be => has(CARRY | ZERO),
        ConditionCode::a => !has(CARRY | ZERO),
        ConditionCode::s => has(SIGN),
        ConditionCode::ns => !has(SIGN),
        ConditionCode::p => has(PARITY),
        ConditionCode::np => !has(PARITY),
        ConditionCode::l => less,
        ConditionCode::ge => !less,
        ConditionCode::le => less || has(ZERO),
        ConditionCode::g => !less && !has(ZERO),
    })
}
