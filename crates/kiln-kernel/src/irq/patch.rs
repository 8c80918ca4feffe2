//! Writes breakpoints into program text.

use std::arch::asm;

/// The one-byte instruction INT3, which serves as a breakpoint.
pub(super) const INT3: u8 = 0xcc;

/// Writes a byte of program text. Uses inline assembly, because an unoptimised build would call a
/// library function. That function could itself contain a breakpoint, which would trap in the
/// handler.
#[inline(always)]
pub(super) fn poke(address: u64, value: u8) {
    // SAFETY: the address is in text that was made writable; XCHG is atomic and a full barrier.
    unsafe {
        asm!("xchg [{}], {}", in(reg) address, inout(reg_byte) value => _, options(nostack));
    }
}
