//! Resources that each thread needs to serve requests.

use std::io;

use kiln_kernel::cpu::{kiln_tsc_hz, set_kiln_tsc_hz, Config, Cpu};

/// An emulated CPU for the ciphers' FPU sections, and scratch space.
///
/// A worker must be created on the thread that will use it, because creation sets the thread's GS
/// base. If the thread enters a sandbox, create the worker first, because creation also maps
/// memory. Serving requests makes no system calls except to allocate memory and, for RSA and ECDSA,
/// to get random numbers. Dropping the worker calls `munmap` and `arch_prctl`.
pub struct Worker {
    /// A buffer for concatenating a chain's associated data and hashed region, because the hash
    /// needs contiguous input.
    pub(crate) joined: Vec<u8>,
    /// This must be the last field, because fields are dropped in order and the other fields may
    /// still use the emulated CPU.
    _cpu: Cpu,
}

impl Worker {
    /// Creates a worker for the calling thread, which must not have another [`Worker`] at the same
    /// time.
    pub fn new() -> io::Result<Worker> {
        // No interrupts occur on this emulated CPU and no work is deferred, so it needs only three
        // tasks: the calling thread's task, ksoftirqd and the kworker.
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

    /// Returns the TSC rate in Hz that workers use. The first call to this function or to
    /// [`Worker::new`] in a process measures the rate, which takes 20 ms.
    pub fn clock() -> f64 {
        kiln_tsc_hz()
    }

    /// Sets the TSC rate in Hz to a value that another process on this machine got from
    /// [`Worker::clock`], so that this process does not need to measure it.
    pub fn set_clock(hz: f64) {
        set_kiln_tsc_hz(hz);
    }
}
