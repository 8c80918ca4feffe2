//! Detects, independently of any clock, that the host took the CPU away from its thread.
//!
//! With restartable sequences (rseq(2)), the host's kernel clears a pointer in the thread's memory
//! when it preempts or migrates the thread, or delivers a signal to it, while the thread is outside
//! the critical section that the pointer designates. If an FPU section finds the pointer cleared at
//! its end, it was disturbed.

use std::ffi::c_void;

#[derive(Clone, Copy)]
pub(super) struct Witness {
    /// Address of the word that the host clears.
    pub word: *mut u64,
    /// Value to write to the word beforehand.
    pub armed: u64,
}

extern "C" {
    static kiln_witness_section: u8;
}

/// Returns the calling thread's witness, if the C library has registered the thread for rseq.
pub(super) fn word() -> Option<Witness> {
    const RSEQ_CS: isize = 8;
    // SAFETY: dlsym is called with string literals. Both symbols are glibc's (2.35 and later), a
    // ptrdiff_t and an unsigned int, and do not change after startup.
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
    // SAFETY: the first word of the thread control block is its own address.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) fs, options(nostack, readonly, preserves_flags))
    };
    Some(Witness {
        word: (fs + offset + RSEQ_CS) as *mut u64,
        armed: &raw const kiln_witness_section as u64,
    })
}
