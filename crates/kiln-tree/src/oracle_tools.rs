//! What some oracles need in a child besides the tree: single steps, another CPU, short queues.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use kiln_kernel::cpu::{self, Config, Cpu, GateFn};
use kiln_kernel::irq::Audit;

use crate::host::Host;
use crate::image::Image;
use crate::stepped::{is_judged, Stepped};
use crate::{raw, Error};

/// The number of the other CPU.
const PEER: u32 = 1;

/// Makes cryptd's queues so short that some requests fill them. Nothing of the tree runs yet.
pub(crate) fn shorten_queues(image: &Image) {
    if let Some(at) = image.symbol("cryptd_max_cpu_qlen") {
        // SAFETY: an unsigned int of the image, in `cryptd.c`.
        unsafe { ptr::write_volatile(at as *mut u32, raw::KILN_QUEUE_LENGTH) };
    }
}

/// What the oracle of this number needs.
pub(crate) struct Tools {
    pub(crate) number: u32,
    stepped: Option<Stepped>,
    peer: Option<Peer>,
}

impl Tools {
    /// # Errors
    /// The image is of another version; there is no room for a CPU.
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

    /// For the next driver.
    pub(crate) fn audit(&mut self) -> *mut Audit {
        self.stepped.as_mut().map_or(ptr::null_mut(), |stepped| {
            stepped.clear();
            stepped.raw()
        })
    }

    /// What was stepped, if the oracle is about that.
    pub(crate) fn judged(&mut self) -> Option<&mut Stepped> {
        let number = self.number;
        self.stepped.as_mut().filter(|_| is_judged(number))
    }

    pub(crate) fn peer(&mut self) -> *mut raw::Peer {
        let raw = self.peer.as_ref().map(|peer| peer.raw);
        raw.map_or(ptr::null_mut(), |raw| ptr::from_ref(raw).cast_mut().cast())
    }
}

/// `struct kiln_peer`, which both threads write.
#[derive(Default)]
#[repr(C)]
struct Shared {
    asked: AtomicU32,
    done: AtomicU32,
    ends: AtomicU32,
}

const _: () = assert!(size_of::<Shared>() == size_of::<raw::Peer>());

/// Another CPU: a thread in `kiln_glue_peer()`.
struct Peer {
    raw: &'static Shared,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    fn start(host: &Host) -> Result<Peer, Error> {
        // SAFETY: the function has this type in `sharing.c`.
        let run: GateFn = unsafe { host.image.function("kiln_glue_peer")? };
        let raw: &'static Shared = Box::leak(Box::default());
        let thread = std::thread::spawn(move || {
            let config = Config {
                number: PEER,
                ..Config::default()
            };
            // Without it nothing is done, and what is asked for is waited for in vain: the parent sees no sign of life.
            let Ok(_cpu) = Cpu::boot(&config) else { return };
            // SAFETY: made for the gate; it takes this structure, which is never freed.
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
