//! What a thread that serves requests owns.

use std::io;

use kiln_kernel::cpu::{kiln_tsc_hz, set_kiln_tsc_hz, Config, Cpu};

/// An emulated CPU, which the FPU sections of the ciphers are opened on, and room to work in. Made on the thread that
/// uses it, before a sandbox closes: making it maps memory and sets the thread's GS base. Serving needs no system
/// call but what memory and, for RSA and ECDSA, random numbers take; dropping it makes `munmap` and `arch_prctl`.
pub struct Worker {
    /// What a chain hashes, in one piece.
    pub(crate) joined: Vec<u8>,
    /// Dropped last: what is above may be in use until then.
    _cpu: Cpu,
}

impl Worker {
    /// Of the calling thread, which must not be an emulated CPU by another [`Worker`] that is still there.
    pub fn new() -> io::Result<Worker> {
        // Nothing interrupts this CPU and nothing is deferred: who enters, ksoftirqd and the kworker are all its tasks.
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

    /// Ticks per second of the clock that workers run by. The first worker of a process measures it, which takes 20 ms.
    pub fn clock() -> f64 {
        kiln_tsc_hz()
    }

    /// Spares this process the measurement: another one on this machine has [made it](Worker::clock).
    pub fn set_clock(hz: f64) {
        set_kiln_tsc_hz(hz);
    }
}
