//! Runs the tree's self-tests in a child. If a driver's test crashes the child, the crash is
//! reported, and the next child skips this driver.

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

/// Time without events after which a child is considered hung. The slowest test takes 0.1 s.
const SILENCE: Duration = Duration::from_secs(60);

/// Maximum number of crashing drivers to skip. If another driver crashes, no further child is
/// started.
const CRASHES: usize = 16;

/// The tree's default number of iterations for each random test.
const USUAL_FUZZ: u32 = 100;

/// Approximate number of self-tests in Linux 6.12. Used for the progress bar only.
pub(crate) const USUAL_TESTS: f64 = 285.0;

/// Average number of interrupts per second during the self-tests. The interrupts arrive at random
/// times.
const RATE: f64 = 4000.0;

/// Runs the self-tests while interrupts arrive, then lists the algorithms. Called in the child
/// processes of `kiln test --tree`.
///
/// # Errors
/// Fails if the image cannot be loaded, or lacks the setting that `--fuzz` changes.
pub fn interrupted(order: &Order, fuzz: Option<u32>) -> Result<(), Error> {
    interrupted_with(order, fuzz, |_| Ok(()))
}

/// Like [`interrupted`], but calls `besides` before the algorithms are listed. Interrupts still
/// arrive during this call.
///
/// # Errors
/// The same errors as [`interrupted`], and those that `besides` returns.
pub fn interrupted_with(
    order: &Order,
    fuzz: Option<u32>,
    besides: impl FnOnce(&mut Host) -> Result<(), Error>,
) -> Result<(), Error> {
    let loaded = Host::load(order)?;
    if let Some(n) = fuzz {
        let at = loaded.image.symbol("fuzz_iterations");
        let at = at.ok_or(Error::NoFuzz)?;
        // SAFETY: `at` is the address of an int in `testmgr.c`, and none of the tree's code is
        // running yet.
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
    /// The events that the last child sent.
    pub events: Vec<Event>,
    /// Crashes of earlier children; the key is the driver under test. Each entry holds a
    /// description and the instruction's address.
    pub faults: HashMap<String, (String, u64)>,
    /// A crash that occurred outside any driver's test and prevented the child from listing the
    /// algorithms.
    pub broken: Option<(String, u64)>,
}

/// Options for a series of children that run self-tests. After each crash, another child is
/// started.
pub struct Trial<'a> {
    pub image: &'a Path,
    /// Seed for the random numbers that the tests use.
    pub seed: u64,
    /// Whether the tree tests its own drivers when initcalls register them.
    pub tests: bool,
    /// Number of iterations per random test; `None` selects the tree's default.
    pub fuzz: Option<u32>,
    /// Expected number of tests. Used for the progress bar only.
    pub usual: f64,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Callback that receives the fraction completed and the driver that was just tested.
    pub progress: &'a dyn Fn(f64, &str),
}

impl Trial<'_> {
    /// Runs the self-tests in a child with these arguments. If a driver's test crashes, starts
    /// another child that skips this test.
    ///
    /// # Errors
    /// Fails if a child cannot be started, or if Ctrl-C was pressed.
    pub fn run(&self, args: &[OsString]) -> Result<Seen, Error> {
        let fuzz = self.fuzz.unwrap_or(0);
        let silence = SILENCE + Duration::from_millis(200) * fuzz;
        let mut ran = 0;
        let mut seen = Seen::default();
        let mut order = Order::new(self.image, self.seed);
        (order.tests, order.lonely) = (self.tests, true);
        // A test waits at most one minute for another driver's test to finish. One minute is enough
        // for the tree's default number of iterations. For more iterations, slow down the tree's
        // clock in proportion.
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
