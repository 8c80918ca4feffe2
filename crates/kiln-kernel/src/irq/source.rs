//! Interrupts at given times, sent by a timer of this CPU or by a thread on another core.

use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::handler::{block_irq_signal, host, irq_signal, prepare, Handling};
use super::injection::Arrivals;
use crate::cpu::Cpu;

/// A timer that interrupts the CPU until it is dropped.
pub struct Timer {
    /// Prevents `Send`, because the timer interrupts this thread's CPU.
    _here: PhantomData<*mut ()>,
}

impl Timer {
    /// Starts a timer that interrupts the calling thread's CPU at the times that `arrivals`
    /// specifies.
    pub fn start(cpu: &mut Cpu, arrivals: Arrivals) -> io::Result<Timer> {
        Timer::start_with(cpu, arrivals, Handling::Faithful)
    }

    /// Starts a timer like [`Timer::start`], but with a choice of signal stack. The first interrupt
    /// source in a process determines the signal stack for the whole process.
    #[doc(hidden)]
    pub fn start_with(cpu: &mut Cpu, arrivals: Arrivals, handling: Handling) -> io::Result<Timer> {
        prepare(cpu, handling)?;
        let mut timer = ptr::null_mut();
        // SAFETY: an all-zero sigevent is valid, and the thread ID belongs to the calling thread.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = irq_signal();
            event.sigev_notify_thread_id = libc::gettid();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        cpu.host().injection.timer.start(timer, arrivals);
        Ok(Timer { _here: PhantomData })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(host) = host() {
            host.injection.timer.stop();
        }
    }
}

/// A thread on another core that interrupts this CPU at a given rate, or at a lower rate if the
/// thread cannot keep up.
pub struct CrossCore {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    sender: Option<JoinHandle<()>>,
}

impl CrossCore {
    /// Starts the thread that sends the interrupts, pinned to `core` if given.
    pub fn start(cpu: &mut Cpu, hz: f64, core: Option<usize>) -> io::Result<CrossCore> {
        prepare(cpu, Handling::Faithful)?;
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        // SAFETY: the calls take no arguments and only return numbers.
        let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
        let (stop2, sent2) = (stop.clone(), sent.clone());
        let sender = std::thread::Builder::new()
            .name("kiln-irq".into())
            .spawn(move || {
                // Block the signal in this thread, because only CPUs handle interrupts.
                block_irq_signal();
                if let Some(core) = core {
                    pin_to(core);
                }
                let gap = Duration::from_secs_f64(1.0 / hz);
                let mut due = Instant::now();
                while !stop2.load(Ordering::Relaxed) {
                    while Instant::now() < due {
                        std::hint::spin_loop();
                    }
                    // If the thread was delayed, skip the missed interrupts.
                    due = (due + gap).max(Instant::now());
                    // SAFETY: the signal is sent to a thread of this process that lives until
                    // `drop` has joined the sending thread.
                    unsafe {
                        libc::syscall(libc::SYS_tgkill, process, thread, irq_signal());
                    }
                    sent2.fetch_add(1, Ordering::Relaxed);
                }
            })?;
        Ok(CrossCore {
            stop,
            sent,
            sender: Some(sender),
        })
    }

    /// Returns the number of signals sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for CrossCore {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
    }
}

fn pin_to(core: usize) {
    // SAFETY: the call sets this thread's own affinity from a valid structure. If the core does not
    // exist, the call fails and the affinity is unchanged.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}
