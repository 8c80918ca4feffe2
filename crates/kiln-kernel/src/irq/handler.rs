//! The signal handlers, and the setup that all interrupt sources share.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;

use super::frame::Frame;
use crate::cpu::{Cpu, Host};

/// Returns the calling thread's CPU. Interrupt sources call this, because they do not borrow the
/// CPU. Returns `None` once the CPU has been dropped.
pub(super) fn host() -> Option<&'static mut Host> {
    // SAFETY: the pointer is null or points to this thread's own `Host`. Sources are not Send, and
    // their methods do not keep the reference.
    unsafe { Host::current().as_mut() }
}

/// Returns the signal that acts as an interrupt. Timers and other cores send it.
pub(super) fn irq_signal() -> i32 {
    libc::SIGRTMIN()
}

/// Runs `f` while interrupts to this thread are blocked.
pub(super) fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
    let before = block_irq_signal();
    let result = f();
    // SAFETY: the call restores this thread's own signal mask from a valid structure.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    result
}

/// Blocks interrupts to this thread and returns its previous signal mask.
pub(super) fn block_irq_signal() -> libc::sigset_t {
    // SAFETY: the calls only fill local structures and change this thread's own mask.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, irq_signal());
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
        before
    }
}

/// The stack on which the signal handlers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handling {
    /// An alternate stack, where the emulated interrupt frame cannot overwrite the host's signal
    /// frame.
    #[default]
    Faithful,
    /// The interrupted stack, which tests select as a planted fault. The emulated interrupt frame
    /// then overwrites the end of the host's signal frame, and with it part of the vector state.
    OnInterruptedStack,
}

/// Installs the signal handlers once per process, and an alternate stack for this thread.
pub(super) fn prepare(cpu: &mut Cpu, handling: Handling) -> io::Result<()> {
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
            // SAFETY: the handlers are async-signal-safe: they access only this thread's `Host`,
            // its CPU and the signal frame, and call only timer_settime.
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
        // The size must exceed the signal frame, which takes 3.5 KiB with AVX-512 state and 11 KiB
        // with AMX state.
        let mut stack = vec![0u8; 128 * 1024].into_boxed_slice();
        let mut alt = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: the injection state owns the stack's memory until `stop` disables the alternate
        // stack.
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

extern "C" fn on_irq(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let host = Host::current();
    if host.is_null() {
        return;
    }
    // SAFETY: the host structure belongs to this thread and outlives its sources. The interrupted
    // code holds no reference to the injection state: `kernel/` cannot access it, and Rust borrows
    // it only while the source is stopped.
    unsafe {
        let mut frame = Frame::new(context);
        let injection = &mut (*host).injection;
        injection.timer.arm_next();
        injection.stepper.restore(&mut frame);
        frame.interrupt((*host).cpu.as_ptr());
    }
}

extern "C" fn on_trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the host structure belongs to this thread and outlives its sources. The thread was
    // stopped at an instruction of `kernel/`, which holds no reference to the injection state.
    unsafe {
        let mut frame = Frame::new(context);
        let Some(host) = Host::current().as_mut() else {
            frame.stop_stepping();
            return;
        };
        let cpu = host.cpu.as_ptr();
        if host.injection.breakpoints.handle_trap(&mut frame, cpu) {
            return;
        }
        let injection = &mut host.injection;
        let mut is_step = injection.stepper.finish_step(&mut frame);
        loop {
            if is_step {
                match &mut injection.audit {
                    Some(audit) => audit.handle_step(&mut frame, cpu),
                    None => injection.step.handle_step(&mut frame, cpu),
                }
            }
            is_step = injection.stepper.prepare_step(&mut frame);
            if !is_step {
                return;
            }
        }
    }
}

/// If the thread was stopped in a copy of an instruction, moves it to the original. Handlers of
/// other signals call this first, so that they find the address of the code that caused the signal.
///
/// # Safety
/// `context` must be the argument that the kernel passed to a signal handler, and must not be
/// borrowed.
pub unsafe fn restore_original(context: *mut libc::c_void) {
    if let Some(host) = host() {
        // SAFETY: the caller makes the same promise.
        let mut frame = unsafe { Frame::new(context) };
        host.injection.stepper.restore(&mut frame);
    }
}
