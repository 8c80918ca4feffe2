//! The tree's self-tests in a child; a driver that crashes it is found, named, and left out of the next.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::irq::{Arrivals, Timer};

use crate::child::{self, Order, Watch};
use crate::event::Event;
use crate::host::Host;
use crate::Error;

/// A child that says nothing for so long hangs: the slowest test takes a tenth of a second.
const SILENCE: Duration = Duration::from_secs(60);

/// After this many crashes the rest is not tried.
const CRASHES: usize = 16;

/// Rounds of a random test, unless told otherwise.
const USUAL_FUZZ: u32 = 100;

/// Self-tests in Linux 6.12, approximately; used for the progress bar only.
pub(crate) const USUAL_TESTS: f64 = 285.0;

/// Interrupts a second while the tree tests itself, at random times.
const RATE: f64 = 4000.0;

/// The child's part of `kiln test --tree`: the tests while interrupts come, then the list.
///
/// # Errors
/// The image cannot be loaded, or has nothing that `--fuzz` could change.
pub fn interrupted(order: &Order, fuzz: Option<u32>) -> Result<(), Error> {
    interrupted_with(order, fuzz, |_| Ok(()))
}

/// The same, and something else before the list, while interrupts still come.
///
/// # Errors
/// As there, and those of `besides`.
pub fn interrupted_with(
    order: &Order,
    fuzz: Option<u32>,
    besides: impl FnOnce(&mut Host) -> Result<(), Error>,
) -> Result<(), Error> {
    let loaded = Host::load(order)?;
    if let Some(n) = fuzz {
        let at = loaded.image.symbol("fuzz_iterations");
        let at = at.ok_or(Error::NoFuzz)?;
        // SAFETY: an int of the image, in `testmgr.c`; nothing of it runs yet.
        unsafe { ptr::write_volatile(at as *mut u32, n) };
    }
    let mut cpu = Cpu::boot(&Config::default()).map_err(Error::Cpu)?;
    let interrupts = Timer::start(&mut cpu, Arrivals::Poisson(RATE, order.seed))
        .map_err(|e| Error::host("a timer for interrupts", e))?;
    let mut host = loaded.start(cpu);
    besides(&mut host)?;
    host.list_with(|host| {
        drop(interrupts);
        let stats = host.cpu.stats();
        format!(
            "{{\"event\":\"interrupts\",\"irqs\":{},\"in_section\":{},\"sections\":{}}}\n",
            stats.irqs, stats.irqs_in_section, stats.sections
        )
    })
}

#[derive(Debug, Default)]
pub struct Seen {
    /// Events of the last run.
    pub events: Vec<Event>,
    /// Faults of drivers' tests in the runs before it: what happened, and where.
    pub faults: HashMap<String, (String, u64)>,
    /// A fault outside any test; nothing was listed.
    pub broken: Option<(String, u64)>,
}

/// Self-tests in children.
pub struct Trial<'a> {
    pub image: &'a Path,
    /// Seed of the tests.
    pub seed: u64,
    /// Whether the tree's own drivers are tested as its initcalls register them.
    pub tests: bool,
    /// How often the tree's random tests are repeated, if not as often as it does.
    pub fuzz: Option<u32>,
    /// Tests that are expected, for the bar only.
    pub usual: f64,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Called with the share that is done and whose test it was.
    pub progress: &'a dyn Fn(f64, &str),
}

impl Trial<'_> {
    /// Runs the self-test in a child with these arguments. After a crash in a driver's test it runs again without that test.
    ///
    /// # Errors
    /// A child cannot be started, or Ctrl-C.
    pub fn run(&self, args: &[OsString]) -> Result<Seen, Error> {
        let fuzz = self.fuzz.unwrap_or(0);
        let silence = SILENCE + Duration::from_millis(200) * fuzz;
        let mut ran = 0;
        let mut seen = Seen::default();
        let mut order = Order::new(self.image, self.seed);
        (order.tests, order.lonely) = (self.tests, true);
        // A test may wait a minute for another driver's; that is for the tree's own number of rounds.
        order.slow = 1 + fuzz / USUAL_FUZZ;
        loop {
            let mut watch = Watch {
                stop: self.stop,
                silence: Some(silence),
                event: &mut |event| {
                    if let Event::Test { driver, .. } = event {
                        ran += 1;
                        (self.progress)(f64::from(ran).min(self.usual) / self.usual, driver);
                    }
                },
            };
            let ended = child::run(&order, args, &mut watch)?;
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            seen.events = ended.events;
            let done = seen.events.iter().any(|e| matches!(e, Event::Done { .. }));
            let (what, address, driver) = match ended.fault {
                Some(fault) if fault.case.is_empty() => (fault.what, fault.address, fault.driver),
                Some(fault) => {
                    let what = format!("{}; {}", fault.what, fault.case);
                    (what, fault.address, fault.driver)
                }
                None if done => return Ok(seen),
                None => (format!("ended early: {}", ended.status), 0, String::new()),
            };
            let skipped = &mut order.skipped;
            if driver.is_empty() || skipped.len() == CRASHES || skipped.contains(&driver) {
                seen.broken = Some((what, address));
                return Ok(seen);
            }
            seen.faults.insert(driver.clone(), (what, address));
            skipped.push(driver);
        }
    }
}
