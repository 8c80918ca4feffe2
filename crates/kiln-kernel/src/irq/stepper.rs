//! Makes stepped code trap before its next instruction.
//!
//! The trap flag causes a trap before every instruction, but this trap is slow: the host reads a
//! debug register, and a hypervisor intercepts that access. Instead, the thread executes a copy of
//! the instruction that is followed by a breakpoint, or the handler emulates the instruction
//! ([`super::copies`]). The trap flag is used only for instructions outside the texts, and for the
//! few that can be neither copied nor emulated.

use std::io;
use std::ops::Range;

use iced_x86::ConditionCode;

use super::copies::{Copies, How, Operand, Source};
use super::frame::Frame;
use crate::sys;

const CARRY: i64 = 1 << 0;
const PARITY: i64 = 1 << 2;
const ZERO: i64 = 1 << 6;
const SIGN: i64 = 1 << 7;
const OVERFLOW: i64 = 1 << 11;
/// The resume flag, which PUSHF does not push.
const RESUME: i64 = 1 << 16;
/// The flags that POPF changes in user mode: the arithmetic flags, TF, DF, NT, AC and ID.
const POPPED: i64 = 0x24_4dd5;

const PAGE: u64 = 4096;

extern "C" {
    static __executable_start: u8;
    static etext: u8;
}

/// Steps one thread. The trap flag is clear while the thread executes a copy. Between
/// [`Stepper::finish_step`] and [`Stepper::prepare_step`], however, the flag in the frame indicates
/// whether stepping continues, even if the trap was caused by a copy's breakpoint.
#[derive(Default)]
pub(super) struct Stepper {
    texts: Vec<Copies>,
}

impl Stepper {
    /// From now on, steps this program, which includes `kernel/`, by copying its instructions.
    pub(super) fn add_program(&mut self) -> io::Result<()> {
        // SAFETY: the linker defines both symbols, and only their addresses are used. Instructions
        // are read only at addresses that the program executes, and the program is never unloaded.
        unsafe {
            let (start, end) = (&raw const __executable_start, &raw const etext);
            self.add(start as u64..end as u64)
        }
    }

    /// From now on, steps `text` by copying its instructions.
    ///
    /// # Safety
    /// `text` must be code that stays readable.
    pub(super) unsafe fn add(&mut self, text: Range<u64>) -> io::Result<()> {
        if self.texts.iter().all(|known| *known.text() != text) {
            // SAFETY: the caller makes the same promise.
            self.texts.push(unsafe { Copies::new(text) }?);
        }
        Ok(())
    }

    /// Handles the beginning of a trap. Makes the frame look as it would after a single-step trap.
    /// For the trap at the end of the interrupt trampoline, emulates IRET instead. Returns whether
    /// the trap ends a step.
    ///
    /// # Safety
    /// `frame` must hold the registers of the interrupted thread.
    pub(super) unsafe fn finish_step(&self, frame: &mut Frame<'_>) -> bool {
        if frame.rip() == &raw const sys::kiln_irq_return_trap as u64 {
            // SAFETY: only the trampoline traps there, with an interrupt's frame on its stack.
            unsafe { frame.return_from_interrupt() };
            return false;
        }
        self.restore(frame);
        true
    }

    /// If the thread is at a copy, sets the trap flag and moves the thread to the original or, if
    /// the copy has been executed, to the instruction after the original. Signal handlers other
    /// than the trap handler must do this before they use the frame.
    pub(super) fn restore(&self, frame: &mut Frame<'_>) {
        let original = self.texts.iter().find_map(|t| t.original(frame.rip()));
        if let Some(original) = original {
            frame.set_rip(original);
            frame.start_stepping();
        }
    }

    /// Handles the end of a trap. If stepping continues, either prepares the thread to trap after
    /// the next instruction, or emulates that instruction. Returns true if it was emulated. The
    /// caller must then handle the next step immediately.
    pub(super) fn prepare_step(&mut self, frame: &mut Frame<'_>) -> bool {
        let rip = frame.rip();
        if !frame.is_stepping() {
            return false;
        }
        let Some(copies) = self.texts.iter_mut().find(|t| t.text().contains(&rip)) else {
            return false;
        };
        match copies.find(rip) {
            (How::Copy(copy), _) => {
                frame.set_rip(copy);
                frame.stop_stepping();
                false
            }
            (how, next) => execute(how, next, frame).is_some(),
        }
    }
}

/// Emulates an instruction. `next` is the address of the instruction after it. Returns `None`, and
/// changes nothing, if the thread must execute the instruction itself.
fn execute(how: How, next: u64, frame: &mut Frame<'_>) -> Option<()> {
    let to = match how {
        How::Copy(_) | How::TrapFlag => return None,
        How::Jump(to) => to,
        How::JumpIf(condition, to) if is_met(condition, frame.flags())? => to,
        How::JumpIf(..) => next,
        How::JumpIndirect(source) => target(source, frame)?,
        How::Call(to) => {
            push(frame, next as i64)?;
            to
        }
        How::CallIndirect(source) => {
            let to = target(source, frame)?;
            push(frame, next as i64)?;
            to
        }
        How::Return(arguments) => {
            let to = pop(frame);
            let rsp = frame.register(libc::REG_RSP);
            frame.set_register(libc::REG_RSP, rsp + arguments as i64);
            to as u64
        }
        How::PushFlags => {
            push(frame, frame.flags() & !RESUME)?;
            next
        }
        How::PopFlags => {
            let popped = pop(frame);
            frame.set_flags(frame.flags() & !POPPED | popped & POPPED);
            next
        }
    };
    frame.set_rip(to);
    Some(())
}

/// Pushes a word. Returns `None` if the word would extend into the page below, because that write
/// could fault, and the fault must occur in the thread, not in this handler.
fn push(frame: &mut Frame<'_>, word: i64) -> Option<()> {
    let rsp = frame.register(libc::REG_RSP) as u64;
    if rsp % PAGE < 8 {
        return None;
    }
    // SAFETY: the thread is about to write this word itself.
    unsafe { ((rsp - 8) as *mut i64).write_unaligned(word) };
    frame.set_register(libc::REG_RSP, rsp as i64 - 8);
    Some(())
}

fn pop(frame: &mut Frame<'_>) -> i64 {
    let rsp = frame.register(libc::REG_RSP);
    frame.set_register(libc::REG_RSP, rsp + 8);
    // SAFETY: the thread is about to read this word itself: a return address, or flags that it has
    // pushed.
    unsafe { (rsp as *const i64).read_unaligned() }
}

/// Returns the target of an indirect jump or call, or `None` if the target cannot be read.
fn target(source: Source, frame: &Frame<'_>) -> Option<u64> {
    let operand = match source {
        Source::Register(place) => return Some(frame.register(place) as u64),
        Source::Memory(operand) => operand,
    };
    let Operand {
        base,
        index,
        scale,
        displacement,
    } = operand;
    let value = |place: Option<i32>| place.map_or(0, |p| frame.register(p) as u64);
    let address = value(base)
        .wrapping_add(value(index).wrapping_mul(scale))
        .wrapping_add(displacement);
    let mut to = 0u64;
    let (local, remote) = (
        libc::iovec {
            iov_base: (&raw mut to).cast(),
            iov_len: 8,
        },
        libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: 8,
        },
    );
    // SAFETY: the call writes only `to`. For unmapped memory, it returns an error.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (read == 8).then_some(to)
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
