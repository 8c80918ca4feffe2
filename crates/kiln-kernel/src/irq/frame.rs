//! The frame of a signal handler, which holds the interrupted thread's registers. By changing the
//! frame, the handler can divert the thread to the trampoline.

use std::ptr;

use crate::sys;

/// The trap flag in EFLAGS, bit 8.
const TF: i64 = 1 << 8;

/// Linux's segment selectors for 64-bit user mode.
const USER_CS: i64 = 0x33;
const USER_SS: i64 = 0x2b;

/// Number of bytes below the stack pointer that code may use (System V ABI, section 3.2.2).
const RED_ZONE: u64 = 128;

/// The interrupted thread's registers.
pub(super) struct Frame<'a>(&'a mut [i64; 23]);

impl Frame<'_> {
    /// Borrows the interrupted thread's registers.
    ///
    /// # Safety
    /// `context` must be the argument that the kernel passed to a signal handler.
    pub(super) unsafe fn new<'a>(context: *mut libc::c_void) -> Frame<'a> {
        // SAFETY: the caller promises a valid context, and this is the only reference to the
        // registers.
        Frame(unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs })
    }

    pub(super) fn rip(&self) -> u64 {
        self.0[libc::REG_RIP as usize] as u64
    }

    /// Returns a register's value. `place` is the register's index in the frame, such as
    /// `libc::REG_RBX`.
    pub(super) fn register(&self, place: i32) -> i64 {
        self.0[place as usize]
    }

    pub(super) fn set_register(&mut self, place: i32, value: i64) {
        self.0[place as usize] = value;
    }

    pub(super) fn set_rip(&mut self, rip: u64) {
        self.0[libc::REG_RIP as usize] = rip as i64;
    }

    pub(super) fn flags(&self) -> i64 {
        self.0[libc::REG_EFL as usize]
    }

    pub(super) fn set_flags(&mut self, flags: i64) {
        self.0[libc::REG_EFL as usize] = flags;
    }

    pub(super) fn is_stepping(&self) -> bool {
        self.flags() & TF != 0
    }

    pub(super) fn start_stepping(&mut self) {
        self.0[libc::REG_EFL as usize] |= TF;
    }

    pub(super) fn stop_stepping(&mut self) {
        self.0[libc::REG_EFL as usize] &= !TF;
    }

    /// Diverts the thread to the trampoline and returns true. If interrupts are disabled, marks the
    /// interrupt as pending and returns false.
    ///
    /// # Safety
    /// `head` must be the CPU of the interrupted thread, and the thread's stack must have space
    /// below the red zone.
    pub(super) unsafe fn interrupt(&mut self, head: *mut sys::CpuHead) -> bool {
        // SAFETY: the CPU belongs to this thread. Accesses are volatile, because the interrupted
        // code uses the same words.
        unsafe {
            if ptr::read_volatile(&raw const (*head).irqs_off) != 0 {
                ptr::write_volatile(&raw mut (*head).irq_pending, 1);
                return false;
            }
            ptr::write_volatile(&raw mut (*head).irqs_off, 1);
            let rsp = self.0[libc::REG_RSP as usize];
            let frame = ((rsp as u64 - RED_ZONE) & !15) as *mut [i64; 5];
            let frame = frame.sub(1);
            frame.write([self.rip() as i64, USER_CS, self.flags(), rsp, USER_SS]);
            self.0[libc::REG_RSP as usize] = frame as i64;
            self.set_rip(&raw const sys::kiln_irq_trampoline as u64);
            self.stop_stepping();
        }
        true
    }

    /// Emulates IRETQ: sets RIP, the flags and the stack pointer from the interrupt frame on the
    /// stack.
    ///
    /// # Safety
    /// The stack pointer must point to a frame that [`Frame::interrupt`] has written.
    pub(super) unsafe fn return_from_interrupt(&mut self) {
        // SAFETY: the caller promises that the frame is there.
        let [rip, _, flags, rsp, _] =
            unsafe { (self.0[libc::REG_RSP as usize] as *const [i64; 5]).read() };
        self.set_rip(rip as u64);
        self.set_flags(flags);
        self.0[libc::REG_RSP as usize] = rsp;
    }
}
