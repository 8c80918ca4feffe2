//! Interrupts: host signals, delivered to `kernel/` as a CPU would deliver interrupts to ring 0.
//!
//! The signal handler runs on an alternate stack with all signals blocked. Below the red zone of the
//! interrupted stack it pushes the frame that a CPU would push, and it diverts the thread to
//! `kiln_irq_trampoline`. The host restores every vector register when it returns from the signal, so
//! the trampoline runs with the interrupted code's values in them, as a kernel's interrupt handler
//! does. Only the FPU policy determines whether these values survive.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;

use crate::cpu::{Cpu, Host};
use crate::sys;

mod breakpoint;
mod source;
mod step;

pub use breakpoint::Breakpoints;
pub use source::{Arrivals, CrossCore, Timer};
pub use step::{Step, Stepping};

/// The trap flag (EFLAGS bit 8).
const TF: i64 = 1 << 8;

/// What the handler is to do on this CPU, and what it has done.
#[derive(Default)]
pub(crate) struct Injection {
    /// Memory of the alternate stack; none before the first source.
    stack: Option<Box<[u8]>>,
    pub timer: source::State,
    pub step: step::State,
    pub breakpoints: breakpoint::State,
}

impl Injection {
    /// Stop the timer and the breakpoints and release the stack, before the CPU is dropped.
    pub fn stop(&mut self) {
        self.timer.stop();
        self.breakpoints.disarm();
        if self.stack.take().is_some() {
            // SAFETY: disables the alternate stack before its memory goes.
            unsafe {
                let mut off: libc::stack_t = std::mem::zeroed();
                off.ss_flags = libc::SS_DISABLE;
                libc::sigaltstack(&off, ptr::null_mut());
            }
        }
    }
}

/// The calling thread's CPU, for methods of interrupt sources; `None` once the CPU is gone.
fn host() -> Option<&'static mut Host> {
    // SAFETY: null or this thread's own; sources are not Send, and none of their methods
    // keeps the reference.
    unsafe { Host::current().as_mut() }
}

/// The signal that timers and other cores send.
pub(crate) fn irq_signal() -> i32 {
    libc::SIGRTMIN()
}

/// Run `f` while interrupts to this thread are blocked.
fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
    let before = block_irq_signal();
    let result = f();
    // SAFETY: this thread's own mask, put back as it was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    result
}

/// Blocks interrupts to this thread and returns its previous signal mask.
fn block_irq_signal() -> libc::sigset_t {
    // SAFETY: plain data filled by the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, irq_signal());
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
        before
    }
}

/// Which stack signals are handled on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handling {
    /// On an alternate stack.
    #[default]
    Faithful,
    /// On the interrupted stack, where the pushed frame overwrites the end of the host's
    /// signal frame and with it part of the vector state: a control for tests.
    OnInterruptedStack,
}

/// Install the handlers, once per process, and this thread's alternate stack.
pub(crate) fn prepare(cpu: &mut Cpu, handling: Handling) -> io::Result<()> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let flags = libc::SA_SIGINFO
            | libc::SA_RESTART
            | match handling {
                Handling::Faithful => libc::SA_ONSTACK,
                Handling::OnInterruptedStack => 0,
            };
        for (signal, handler) in [
            (irq_signal(), on_irq as *const () as usize),
            (libc::SIGTRAP, on_trap as *const () as usize),
        ] {
            // SAFETY: the handlers are async-signal-safe: they touch this thread's Host,
            // its CPU and the signal frame, and call nothing but timer_settime.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler;
                action.sa_flags = flags;
                libc::sigfillset(&mut action.sa_mask);
                libc::sigaction(signal, &action, ptr::null_mut());
            }
        }
    });
    if cpu.host().injection.stack.is_none() {
        // The frame alone takes 3.5 KiB with AVX-512 state, 11 KiB with AMX.
        let mut stack = vec![0u8; 128 * 1024].into_boxed_slice();
        let mut alt = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: the memory is kept in the injection state until `stop` disables it.
        let ret = unsafe {
            let alt = alt.assume_init_mut();
            alt.ss_sp = stack.as_mut_ptr().cast();
            alt.ss_size = stack.len();
            libc::sigaltstack(alt, ptr::null_mut())
        };
        if ret != 0 {
            return Err(io::Error::last_os_error());
        }
        cpu.host().injection.stack = Some(stack);
    }
    Ok(())
}

/// The registers of the interrupted thread.
pub(crate) struct Frame<'a>(&'a mut [i64; 23]);

impl Frame<'_> {
    /// # Safety
    /// `context` is what the kernel gave a signal handler.
    unsafe fn new<'a>(context: *mut libc::c_void) -> Frame<'a> {
        // SAFETY: the caller's promise; nobody else holds the frame.
        Frame(unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs })
    }

    fn rip(&self) -> u64 {
        self.0[libc::REG_RIP as usize] as u64
    }

    fn set_rip(&mut self, rip: u64) {
        self.0[libc::REG_RIP as usize] = rip as i64;
    }

    fn stop_stepping(&mut self) {
        self.0[libc::REG_EFL as usize] &= !TF;
    }

    /// Divert the thread to the trampoline and return true. If interrupts are off, leave this one pending instead.
    ///
    /// # Safety
    /// The interrupted thread is the CPU `head` and its stack has room below the red zone.
    unsafe fn interrupt(&mut self, head: *mut sys::CpuHead) -> bool {
        // SAFETY: the CPU is this thread's own; volatile, since the code that was
        // interrupted reads and writes the same words.
        unsafe {
            if ptr::read_volatile(&raw const (*head).irqs_off) != 0 {
                ptr::write_volatile(&raw mut (*head).irq_pending, 1);
                return false;
            }
            ptr::write_volatile(&raw mut (*head).irqs_off, 1);
            let rsp = self.0[libc::REG_RSP as usize];
            let frame = ((rsp as u64 - RED_ZONE) & !15) as *mut [i64; 5];
            let frame = frame.sub(1);
            frame.write([
                self.rip() as i64,
                USER_CS,
                self.0[libc::REG_EFL as usize],
                rsp,
                USER_SS,
            ]);
            self.0[libc::REG_RSP as usize] = frame as i64;
            self.set_rip(&raw const sys::kiln_irq_trampoline as u64);
            self.stop_stepping();
        }
        true
    }
}

/// Linux's selectors of 64-bit user mode.
const USER_CS: i64 = 0x33;
const USER_SS: i64 = 0x2b;

/// Bytes below the stack pointer that code may use (System V ABI, 3.2.2).
const RED_ZONE: u64 = 128;

extern "C" fn on_irq(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let host = Host::current();
    if host.is_null() {
        return;
    }
    // SAFETY: the host structure is this thread's and outlives its sources. The interrupted
    // code holds no reference to the injection state: `kernel/` has no access to it, and Rust
    // borrows it only while the source is stopped.
    unsafe {
        let mut frame = Frame::new(context);
        (*host).injection.timer.arrived();
        frame.interrupt((*host).cpu.as_ptr());
    }
}

extern "C" fn on_trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let host = Host::current();
    // SAFETY: as in `on_irq`.
    unsafe {
        let mut frame = Frame::new(context);
        if breakpoint::hit(host, &mut frame) {
            return;
        }
        if host.is_null() {
            frame.stop_stepping();
            return;
        }
        step::trapped(&mut *host, &mut frame);
    }
}
