//! Timed interrupts, from a timer of this CPU or by signals from another core.

use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiln_measure::SplitMix64;

use super::{block_irq_signal, host, irq_signal, prepare, Handling};
use crate::cpu::Cpu;

/// When interrupts arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Interrupts per second, evenly spaced.
    Periodic(f64),
    /// Interrupts per second on average, independent of each other, and the seed.
    Poisson(f64, u64),
    /// After these gaps in nanoseconds, which repeat after the last one.
    Replay(Arc<[u64]>),
}

impl Arrivals {
    fn period(&self) -> Option<u64> {
        match self {
            Arrivals::Periodic(hz) => Some((1e9 / hz) as u64),
            _ => None,
        }
    }
}

/// What the handler keeps for the timer.
#[derive(Default)]
pub(crate) struct State {
    timer: Option<libc::timer_t>,
    arrivals: Option<Arrivals>,
    random: SplitMix64,
    position: usize,
    count: u64,
}

impl State {
    /// Count an interrupt that has arrived and, unless the timer is periodic, arm it for the next one.
    pub fn arrived(&mut self) {
        self.count += 1;
        if let (Some(timer), Some(gap)) = (self.timer, self.next_gap()) {
            settime(timer, gap, 0);
        }
    }

    fn next_gap(&mut self) -> Option<u64> {
        match self.arrivals.as_ref()? {
            Arrivals::Periodic(_) => None,
            Arrivals::Poisson(hz, _) => {
                let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                Some((-uniform.ln() * 1e9 / hz) as u64 + 1)
            }
            Arrivals::Replay(gaps) => {
                let gap = gaps[self.position % gaps.len()];
                self.position += 1;
                Some(gap.max(1))
            }
        }
    }

    pub fn stop(&mut self) {
        if let Some(timer) = self.timer.take() {
            // SAFETY: made by `Timer::start` and deleted once.
            unsafe { libc::timer_delete(timer) };
        }
        self.arrivals = None;
    }
}

fn settime(timer: libc::timer_t, first: u64, period: u64) {
    let spec = |ns: u64| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    let value = libc::itimerspec {
        it_interval: spec(period),
        it_value: spec(first),
    };
    // SAFETY: a live timer of this process; async-signal-safe (POSIX 2.4.3).
    unsafe { libc::timer_settime(timer, 0, &value, ptr::null_mut()) };
}

/// A timer that interrupts the CPU until it is dropped.
pub struct Timer {
    /// Not `Send`: the timer interrupts this thread's CPU.
    _here: PhantomData<*mut ()>,
}

impl Timer {
    /// Start one on the calling thread's CPU.
    pub fn start(cpu: &mut Cpu, arrivals: Arrivals) -> io::Result<Timer> {
        Timer::start_with(cpu, arrivals, Handling::Faithful)
    }

    /// As [`Timer::start`], with a choice of handling, which the first source in a process fixes for all.
    #[doc(hidden)]
    pub fn start_with(cpu: &mut Cpu, arrivals: Arrivals, handling: Handling) -> io::Result<Timer> {
        prepare(cpu, handling)?;
        let mut timer = ptr::null_mut();
        // SAFETY: a zeroed sigevent is a valid one; the thread id is the caller's.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = irq_signal();
            event.sigev_notify_thread_id = libc::gettid();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let state = &mut cpu.host().injection.timer;
        state.timer = Some(timer);
        state.count = 0;
        state.position = 0;
        if let Arrivals::Poisson(_, seed) = arrivals {
            state.random = SplitMix64(seed);
        }
        let period = arrivals.period();
        state.arrivals = Some(arrivals);
        let first = period.or_else(|| state.next_gap()).unwrap_or(1);
        settime(timer, first, period.unwrap_or(0));
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

/// A thread on another core that interrupts this CPU at a given rate, or as fast as it can if that is slower.
pub struct CrossCore {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    sender: Option<JoinHandle<()>>,
}

impl CrossCore {
    /// Start a sender, on `core` if given.
    pub fn start(cpu: &mut Cpu, hz: f64, core: Option<usize>) -> io::Result<CrossCore> {
        prepare(cpu, Handling::Faithful)?;
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        // SAFETY: no arguments.
        let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
        let (stop2, sent2) = (stop.clone(), sent.clone());
        let sender = std::thread::Builder::new()
            .name("kiln-irq".into())
            .spawn(move || {
                // Threads that are not CPUs take no interrupts.
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
                    // After a delay, do not make up for what was missed.
                    due = (due + gap).max(Instant::now());
                    // SAFETY: a signal to a thread of this process that lives until
                    // `drop` has joined this one.
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

    /// Signals sent so far.
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
    // SAFETY: sets this thread's own affinity; a core that does not exist is refused and
    // the thread stays where it is.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(arrivals: Arrivals, seed: u64) -> Vec<Option<u64>> {
        let mut state = State {
            arrivals: Some(arrivals),
            random: SplitMix64(seed),
            ..State::default()
        };
        (0..10_000).map(|_| state.next_gap()).collect()
    }

    #[test]
    fn a_seed_fixes_the_gaps() {
        let draw = |seed| gaps(Arrivals::Poisson(10_000.0, seed), seed);
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(9));
        let mean = draw(7).iter().flatten().sum::<u64>() as f64 / 10_000.0;
        assert!((95_000.0..105_000.0).contains(&mean), "{mean} ns");
    }

    #[test]
    fn a_trace_is_replayed_round_and_round() {
        let got = gaps(Arrivals::Replay(Arc::new([5, 0, 9])), 1);
        assert_eq!(got[..4], [Some(5), Some(1), Some(9), Some(5)]);
    }
}
