//! The resources of a thread that serves requests.

use std::io;

use kiln_kernel::cpu::{kiln_tsc_hz, set_kiln_tsc_hz, Config, Cpu};

/// An emulated CPU for the ciphers' FPU sections, and scratch space. Create it on the thread that uses it, before
/// entering a sandbox: creating it maps memory and sets the thread's GS base. Serving requests makes no system calls
/// except to allocate memory and, for RSA and ECDSA, to get random numbers. Dropping it calls `munmap` and
/// `arch_prctl`.
pub struct Worker {
    /// The data that a chain hashes, in one contiguous piece.
    pub(crate) joined: Vec<u8>,
    /// Dropped last, because the fields above may use it until then.
    _cpu: Cpu,
}

impl Worker {
    /// Creates a worker for the calling thread, which must not have another [`Worker`] at the same time.
    pub fn new() -> io::Result<Worker> {
        // Nothing interrupts this CPU and nothing is deferred, so it needs three tasks: the calling thread's, ksoftirqd
        // and the kworker.
        let config = Config {
            tasks: 3,
            ..Config::default()
        };
        let _cpu = Cpu::boot(&config)?;
        Ok(Worker {
            joined: Vec::new(),
            _cpu,
        })
    }

    /// TSC ticks per second, as used by workers. The first worker of a process measures this, which takes 20 ms.
    pub fn clock() -> f64 {
        kiln_tsc_hz()
    }

    /// Uses a value measured by [another process](Worker::clock) on this machine, so that this process need not measure
    /// it.
    pub fn set_clock(hz: f64) {
        set_kiln_tsc_hz(hz);
    }
}
