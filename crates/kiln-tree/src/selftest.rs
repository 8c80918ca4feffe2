//! The tree's self-tests in a child; a driver that crashes it is found, named, and left out of the next.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::irq::{Arrivals, Timer};

use crate::child::{self, Order, Watch};
use crate::event::Event;
use crate::host::Host;
use crate::{Error, Plan};

/// A child that says nothing for so long hangs: the slowest test takes a tenth of a second.
const SILENCE: Duration = Duration::from_secs(60);

/// After so many crashes the rest is not tried.
const CRASHES: usize = 16;

/// Rounds of a random test, unless told otherwise.
const USUAL_FUZZ: u32 = 100;

/// Tests of a 6.12, for the bar only.
const USUAL_TESTS: f64 = 285.0;

/// Interrupts a second while the tree tests itself, at random times.
const RATE: f64 = 4000.0;

/// The child's part of `kiln test --tree`: the tests while interrupts come, then the list.
pub fn interrupted(order: &Order, fuzz: Option<u32>) -> Result<(), Error> {
    let loaded = Host::load(order)?;
    if let Some(n) = fuzz {
        let at = loaded.image.symbol("fuzz_iterations").ok_or_else(|| {
            Error::Input("--fuzz: this tree's testmgr has no fuzz_iterations".into())
        })?;
        // SAFETY: an int of the image, in `testmgr.c`; nothing of it runs yet.
        unsafe { ptr::write_volatile(at as *mut u32, n) };
    }
    let mut cpu = Cpu::boot(&Config::default()).map_err(|e| Error::Lacks(e.to_string()))?;
    let interrupts = Timer::start(&mut cpu, Arrivals::Poisson(RATE, order.seed))
        .map_err(|e| Error::Lacks(format!("a timer for interrupts: {e}")))?;
    let mut host = loaded.start(cpu);
    host.list_with(|host| {
        drop(interrupts);
        let stats = host.cpu.stats();
        format!(
            "{{\"event\":\"interrupts\",\"irqs\":{},\"in_section\":{},\"sections\":{}}}\n",
            stats.irqs, stats.irqs_in_section, stats.sections
        )
    })
}

/// All that was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Events of the last run.
    pub events: Vec<Event>,
    /// Faults of drivers' tests in the runs before it: what happened, and where.
    pub faults: HashMap<String, (String, u64)>,
    /// A fault outside any test; nothing was listed.
    pub broken: Option<(String, u64)>,
}

/// Runs it; after a crash in a driver's test again without that test.
/// With `fuzz` the tree's random tests are repeated so often instead of as often as it does.
pub fn run_all(
    image: &Path,
    plan: &Plan,
    args: &[OsString],
    fuzz: Option<u32>,
) -> Result<Seen, Error> {
    let silence = SILENCE + Duration::from_millis(200) * fuzz.unwrap_or(0);
    let mut ran = 0;
    let mut seen = Seen::default();
    let mut order = Order::new(image, plan.seed);
    (order.tests, order.lonely) = (true, true);
    // A test may wait a minute for another driver's; that is for the tree's own number of rounds.
    order.slow = 1 + fuzz.unwrap_or(0) / USUAL_FUZZ;
    loop {
        let mut watch = Watch {
            stop: plan.stop,
            silence: Some(silence),
            event: &mut |event| {
                if let Event::Test { driver, .. } = event {
                    ran += 1;
                    (plan.progress)(f64::from(ran).min(USUAL_TESTS) / USUAL_TESTS, driver);
                }
            },
        };
        let ended = child::run(&order, args, &mut watch)?;
        if plan.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        seen.events = ended.events;
        let done = seen.events.iter().any(|e| matches!(e, Event::Done { .. }));
        let (what, address, driver) = match ended.fault {
            Some(fault) => (fault.what, fault.address, fault.driver),
            None if done => return Ok(seen),
            None => (format!("ended early: {}", ended.status), 0, String::new()),
        };
        if driver.is_empty() || order.skipped.len() == CRASHES || order.skipped.contains(&driver) {
            seen.broken = Some((what, address));
            return Ok(seen);
        }
        seen.faults.insert(driver.clone(), (what, address));
        order.skipped.push(driver);
    }
}
