//! Copies of instructions, each followed by a breakpoint.
//!
//! A thread that executes a copy instead of the original traps right after the copy. The original
//! does not change, so other threads can execute it at the same time. Linux's uprobes use such
//! copies, too. The trap handler emulates some instructions instead: jumps, calls and returns would
//! leave the copy without reaching the breakpoint, and PUSHF and POPF would access the trap flag,
//! which is clear while a copy is executed.

use std::io;
use std::ops::Range;
use std::ptr;
use std::slice;

use iced_x86::{Code, ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, Register};

use super::patch::INT3;

/// Maximum length in bytes of an x86 instruction.
const LONGEST: usize = 15;
/// Distance between two copies in bytes. When a breakpoint is hit, RIP is the address after it,
/// which must still belong to the same copy ([`Copies::original`]).
const DISTANCE: u64 = 32;
/// Number of copies; a power of two.
const ROOM: usize = 1 << 12;
/// Maximum distance in bytes between the copies and the text. RIP-relative operands reach 2 GiB, so
/// copies can access memory up to 1 GiB from the text.
const NEAR: u64 = 1 << 30;
/// Distance in bytes between successive addresses at which [`map_near`] tries to map the copies.
const STRIDE: u64 = 1 << 20;

/// The address of an operand in memory: `base + index * scale + displacement`. Registers are given
/// by their index in a signal frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub base: Option<i32>,
    pub index: Option<i32>,
    pub scale: u64,
    pub displacement: u64,
}

/// Where an indirect jump or call gets its target from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Register(i32),
    Memory(Operand),
}

/// How a thread, or the trap handler on its behalf, executes an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// Execute the copy at this address.
    Copy(u64),
    /// Jump to this address.
    Jump(u64),
    /// Jump to this address if the flags meet the condition.
    JumpIf(ConditionCode, u64),
    JumpIndirect(Source),
    Call(u64),
    CallIndirect(Source),
    /// Return, and remove this many bytes of arguments from the stack.
    Return(u64),
    PushFlags,
    PopFlags,
    /// Execute the original with the trap flag set.
    TrapFlag,
}

/// A decoded instruction, and the bytes from which it was decoded.
#[derive(Clone, Copy)]
struct Entry {
    address: u64,
    bytes: [u8; LONGEST],
    len: u8,
    how: How,
}

const FREE: Entry = Entry {
    address: 0,
    bytes: [0; LONGEST],
    len: 0,
    how: How::TrapFlag,
};

/// Copies of the instructions of one text. If two instructions map to the same entry, the later one
/// replaces the earlier one.
pub(super) struct Copies {
    text: Range<u64>,
    /// Address of the first copy.
    area: u64,
    entries: Box<[Entry]>,
}

impl Copies {
    /// # Safety
    /// `text` must be code that stays mapped and readable for as long as the copies are used.
    pub(super) unsafe fn new(text: Range<u64>) -> io::Result<Copies> {
        // Decode once outside the handler, because the decoder allocates its tables at first use.
        let _ = Decoder::new(64, &[0x90], DecoderOptions::NONE).decode();
        Ok(Copies {
            area: map_near(&text)?,
            text,
            entries: vec![FREE; ROOM].into_boxed_slice(),
        })
    }

    pub(super) fn text(&self) -> &Range<u64> {
        &self.text
    }

    /// If `rip` is in a copy, returns the corresponding address in the text: the address of the
    /// original or, if the copy has been executed, of the instruction after it.
    pub(super) fn original(&self, rip: u64) -> Option<u64> {
        let offset = rip.wrapping_sub(self.area);
        let entry = self.entries.get((offset / DISTANCE) as usize)?;
        Some(match offset % DISTANCE {
            0 => entry.address,
            _ => entry.address + u64::from(entry.len),
        })
    }

    /// Returns how to execute the instruction at `rip`, which must be in the text, and the address
    /// after that instruction.
    pub(super) fn find(&mut self, rip: u64) -> (How, u64) {
        let len = LONGEST.min((self.text.end - rip) as usize);
        // SAFETY: the text is readable up to its end.
        let bytes = unsafe { slice::from_raw_parts(rip as *const u8, len) };
        let slot = (rip ^ rip >> 12) as usize % ROOM;
        let known = &self.entries[slot];
        let known_len = usize::from(known.len);
        if known.address != rip || bytes.get(..known_len) != Some(&known.bytes[..known_len]) {
            let to = self.area + slot as u64 * DISTANCE;
            self.entries[slot] = decode(rip, bytes, to);
        }
        let entry = &self.entries[slot];
        (entry.how, rip + u64::from(entry.len))
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // SAFETY: `map_near` has created this mapping. Only this thread executes these copies, and it
        // is executing this function.
        unsafe { libc::munmap(self.area as *mut libc::c_void, ROOM * DISTANCE as usize) };
    }
}

/// Maps memory for the copies near the text and returns its address.
fn map_near(text: &Range<u64>) -> io::Result<u64> {
    let above = (1..NEAR / STRIDE).map(|i| text.end.next_multiple_of(STRIDE) + i * STRIDE);
    let below = (1..NEAR / STRIDE).map_while(|i| {
        (text.start & !(STRIDE - 1))
            .checked_sub(i * STRIDE)
            .filter(|&at| at > 0)
    });
    let mut error = io::Error::from_raw_os_error(libc::ENOMEM);
    for at in above.zip(below).flat_map(|(a, b)| [a, b]) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: the call creates a new mapping and does not replace an existing one.
        let got = unsafe {
            libc::mmap(
                at as *mut libc::c_void,
                ROOM * DISTANCE as usize,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                flags,
                -1,
                0,
            )
        };
        if got == at as *mut libc::c_void {
            return Ok(at);
        }
        error = io::Error::last_os_error();
    }
    Err(error)
}

/// Decodes an instruction. If it can be executed as a copy, writes the copy to `to`.
fn decode(rip: u64, bytes: &[u8], to: u64) -> Entry {
    let mut decoder = Decoder::with_ip(64, bytes, rip, DecoderOptions::NONE);
    let next = decoder.decode();
    let mut entry = Entry {
        address: rip,
        len: next.len() as u8,
        ..FREE
    };
    entry.bytes[..next.len()].copy_from_slice(&bytes[..next.len()]);
    entry.how = match next.flow_control() {
        FlowControl::Next => match next.code() {
            Code::Pushfq => How::PushFlags,
            Code::Popfq => How::PopFlags,
            _ => copy(&decoder, &next, &entry.bytes[..next.len()], to),
        },
        FlowControl::UnconditionalBranch if next.is_jmp_short_or_near() => {
            How::Jump(next.near_branch_target())
        }
        FlowControl::ConditionalBranch if next.condition_code() != ConditionCode::None => {
            How::JumpIf(next.condition_code(), next.near_branch_target())
        }
        FlowControl::Call if next.is_call_near() => How::Call(next.near_branch_target()),
        FlowControl::IndirectBranch if next.code() == Code::Jmp_rm64 => {
            source(&next).map_or(How::TrapFlag, How::JumpIndirect)
        }
        FlowControl::IndirectCall if next.code() == Code::Call_rm64 => {
            source(&next).map_or(How::TrapFlag, How::CallIndirect)
        }
        FlowControl::Return if next.code() == Code::Retnq => How::Return(0),
        FlowControl::Return if next.code() == Code::Retnq_imm16 => {
            How::Return(u64::from(next.immediate16()))
        }
        _ => How::TrapFlag,
    };
    entry
}

/// Writes a copy of an instruction, followed by a breakpoint. If an operand is RIP-relative,
/// adjusts its displacement so that the copy accesses the same memory.
fn copy(decoder: &Decoder<'_>, next: &Instruction, bytes: &[u8], to: u64) -> How {
    let len = bytes.len();
    let mut text = [INT3; LONGEST + 1];
    text[..len].copy_from_slice(bytes);
    if next.is_ip_rel_memory_operand() {
        let places = decoder.get_constant_offsets(next);
        let at = places.displacement_offset();
        let moved = next.ip_rel_memory_address().wrapping_sub(to + len as u64) as i64;
        match (i32::try_from(moved), next.memory_base()) {
            (Ok(moved), Register::RIP) if places.displacement_size() == 4 => {
                text[at..at + 4].copy_from_slice(&moved.to_le_bytes());
            }
            _ => return How::TrapFlag,
        }
    }
    // SAFETY: the copies' memory is writable, belongs to this thread, and has room for one copy at
    // each of these addresses.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr(), to as *mut u8, text.len()) };
    How::Copy(to)
}

/// Returns the operand of an indirect jump or call, or `None` if the operand is addressed through
/// FS or GS.
fn source(next: &Instruction) -> Option<Source> {
    if next.op0_kind() == iced_x86::OpKind::Register {
        return Some(Source::Register(frame_index(next.op0_register())?));
    }
    let flat = [Register::DS, Register::SS, Register::ES, Register::CS];
    if !flat.contains(&next.memory_segment()) {
        return None;
    }
    // A RIP-relative operand needs no base, because iced has already added RIP to the displacement.
    let base = match next.memory_base() {
        Register::None | Register::RIP => None,
        register => Some(frame_index(register)?),
    };
    let index = match next.memory_index() {
        Register::None => None,
        register => Some(frame_index(register)?),
    };
    Some(Source::Memory(Operand {
        base,
        index,
        scale: u64::from(next.memory_index_scale()),
        displacement: next.memory_displacement64(),
    }))
}

/// Returns the index of a 64-bit register in a signal frame.
fn frame_index(register: Register) -> Option<i32> {
    Some(match register {
        Register::RAX => libc::REG_RAX,
        Register::RBX => libc::REG_RBX,
        Register::RCX => libc::REG_RCX,
        Register::RDX => libc::REG_RDX,
        Register::RSI => libc::REG_RSI,
        Register::RDI => libc::REG_RDI,
        Register::RBP => libc::REG_RBP,
        Register::RSP => libc::REG_RSP,
        Register::R8 => libc::REG_R8,
        Register::R9 => libc::REG_R9,
        Register::R10 => libc::REG_R10,
        Register::R11 => libc::REG_R11,
        Register::R12 => libc::REG_R12,
        Register::R13 => libc::REG_R13,
        Register::R14 => libc::REG_R14,
        Register::R15 => libc::REG_R15,
        _ => return None,
    })
}
