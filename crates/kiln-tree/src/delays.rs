//! Measures how long softirqs wait while a tree's functions are called (`tree/library/delays.c`).

use std::ptr;

use kiln_kernel::irq::{Arrivals, Timer};

use crate::{raw, Error, Host};

/// Maximum number of delays to record. This is enough for a few seconds at the interrupt rates that
/// callers choose.
const ROOM: usize = 1 << 16;

/// Runs `work` while interrupts arrive at random times, on average `rate` per second. Returns the
/// time from each interrupt to the start of the softirq that it raised, in TSC ticks.
///
/// # Errors
/// Fails if the tree could not compile `delays.c`, or the host provides no timer.
pub fn measure(
    host: &mut Host,
    rate: f64,
    seed: u64,
    work: &mut dyn FnMut(),
) -> Result<Vec<u64>, Error> {
    let mut ticks = vec![0; ROOM];
    let mut delays = raw::LibraryDelays {
        ticks: ticks.as_mut_ptr(),
        room: ticks.len() as u64,
        count: 0,
    };
    let delays: *mut raw::LibraryDelays = &raw mut delays;
    // SAFETY: the arguments have the types that the functions in `delays.c` expect. The structure
    // and its buffer outlive the second call.
    let count = unsafe {
        host.call("kiln_glue_delays_start", delays.cast())?;
        let timer = Timer::start(&mut host.cpu, Arrivals::Poisson(rate, seed | 1));
        if timer.is_ok() {
            work();
        }
        let timer = timer.map(drop);
        host.call("kiln_glue_delays_stop", ptr::null_mut())?;
        timer.map_err(|e| Error::host("a timer for interrupts", e))?;
        (*delays).count as usize
    };
    ticks.truncate(count);
    Ok(ticks)
}
