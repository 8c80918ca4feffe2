//! Tools that oracles use in a child: single-stepping, a second CPU, and short cryptd queues.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use kiln_kernel::cpu::{self, Config, Cpu, GateFn};
use kiln_kernel::irq::Audit;

use crate::host::Host;
use crate::image::Image;
use crate::stepped::{is_judged, Stepped};
use crate::{raw, Error};

/// Number of the second CPU.
const PEER: u32 = 1;

/// Shortens cryptd's queues, so that a few requests fill them. Must be called before any of the
/// tree's code runs.
pub(crate) fn shorten_queues(image: &Image) {
    if let Some(at) = image.symbol("cryptd_max_cpu_qlen") {
        // SAFETY: the address is that of an unsigned int in `cryptd.c`, and none of the tree's code
        // is running yet.
        unsafe { ptr::write_volatile(at as *mut u32, raw::KILN_QUEUE_LENGTH) };
    }
}

/// The tools that one oracle needs.
pub(crate) struct Tools {
    pub(crate) number: u32,
    stepped: Option<Stepped>,
    peer: Option<Peer>,
}

impl Tools {
    /// Starts the tools that the oracle with this number needs.
    ///
    /// # Errors
    /// Fails if the image is from another version of Kiln, or memory for a CPU is insufficient.
    pub(crate) fn get(host: &mut Host, number: u32) -> Result<Tools, Error> {
        let steps = [raw::KILN_ORACLE_CONTEXT, raw::KILN_ORACLE_SHARING].contains(&number);
        let peer = number == raw::KILN_ORACLE_SHARING;
        let steps = steps || is_judged(number);
        Ok(Tools {
            number,
            stepped: steps.then(|| Stepped::start(host, number)).transpose()?,
            peer: peer.then(|| Peer::start(host)).transpose()?,
        })
    }

    /// Clears the audit and returns it, so that it can be used with the next driver. Returns null
    /// if the oracle does not single-step.
    pub(crate) fn audit(&mut self) -> *mut Audit {
        self.stepped.as_mut().map_or(ptr::null_mut(), |stepped| {
            stepped.clear();
            stepped.raw()
        })
    }

    /// Returns the audit if `stepped.rs` checks the recorded steps for this oracle.
    pub(crate) fn judged(&mut self) -> Option<&mut Stepped> {
        let number = self.number;
        self.stepped.as_mut().filter(|_| is_judged(number))
    }

    pub(crate) fn peer(&mut self) -> *mut raw::Peer {
        let raw = self.peer.as_ref().map(|peer| peer.raw);
        raw.map_or(ptr::null_mut(), |raw| ptr::from_ref(raw).cast_mut().cast())
    }
}

/// Has the same layout as `struct kiln_peer`. The fields are atomic, because both threads access
/// them.
#[derive(Default)]
#[repr(C)]
struct Shared {
    asked: AtomicU32,
    done: AtomicU32,
    ends: AtomicU32,
}

const _: () = assert!(size_of::<Shared>() == size_of::<raw::Peer>());

/// A second CPU: a thread that runs `kiln_glue_peer()`.
struct Peer {
    raw: &'static Shared,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    fn start(host: &Host) -> Result<Peer, Error> {
        // SAFETY: `sharing.c` defines the function with this type.
        let run: GateFn = unsafe { host.image.function("kiln_glue_peer")? };
        let raw: &'static Shared = Box::leak(Box::default());
        let thread = std::thread::spawn(move || {
            let config = Config {
                number: PEER,
                ..Config::default()
            };
            // If the CPU cannot be booted, the oracle waits for the CPU until the parent kills the
            // child.
            let Ok(_cpu) = Cpu::boot(&config) else { return };
            // SAFETY: the call goes through the gate, as `run` requires, and the structure is never
            // freed.
            unsafe { cpu::gate(run, ptr::from_ref(raw).cast_mut().cast()) };
        });
        Ok(Peer {
            raw,
            thread: Some(thread),
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.raw.ends.store(1, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
