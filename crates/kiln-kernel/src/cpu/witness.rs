//! Detects when the host takes the CPU away from this thread, without using a clock.
//!
//! The thread registers a pointer to a restartable sequence (rseq(2)) that it never executes. The
//! host's kernel clears this pointer when it preempts the thread, migrates it, or delivers a signal
//! to it. A pointer that is clear at the end of an FPU section therefore shows that the section was
//! disturbed.

use std::ffi::c_void;

#[derive(Clone, Copy)]
pub(super) struct Witness {
    /// Address of the word that the host clears.
    pub word: *mut u64,
    /// Value to write to the word at the start of an FPU section.
    pub armed: u64,
}

extern "C" {
    static kiln_witness_section: u8;
}

/// Returns the calling thread's witness, or `None` if the C library has not registered the thread
/// for rseq.
pub(super) fn word() -> Option<Witness> {
    const RSEQ_CS: isize = 8;
    // SAFETY: dlsym is called with string literals. In glibc 2.35 and later, the two symbols are a
    // ptrdiff_t and an unsigned int, which do not change after startup.
    let (offset, size) = unsafe {
        let find = |name: &std::ffi::CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        let offset: *mut c_void = find(c"__rseq_offset");
        let size: *mut c_void = find(c"__rseq_size");
        if offset.is_null() || size.is_null() {
            return None;
        }
        (*offset.cast::<isize>(), *size.cast::<u32>())
    };
    if size == 0 {
        return None;
    }
    let fs: isize;
    // SAFETY: the load reads the first word of the thread control block, which always exists on
    // x86-64 and holds the block's own address.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) fs, options(nostack, readonly, preserves_flags))
    };
    Some(Witness {
        word: (fs + offset + RSEQ_CS) as *mut u64,
        armed: &raw const kiln_witness_section as u64,
    })
}
