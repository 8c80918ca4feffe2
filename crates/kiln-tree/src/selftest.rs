//! The tree's self-tests in a child; a driver that crashes it is found, named, and left out of the next.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::child::{self, Order, Watch};
use crate::event::Event;
use crate::{Error, Plan};

/// A child that says nothing for so long hangs: the slowest test takes a tenth of a second.
const SILENCE: Duration = Duration::from_secs(60);

/// After so many crashes the rest is not tried.
const CRASHES: usize = 16;

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
pub fn run_all(image: &Path, plan: &Plan, args: &[OsString]) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let mut order = Order::new(image, plan.seed);
    (order.tests, order.lonely) = (true, true);
    loop {
        let mut watch = Watch {
            stop: plan.stop,
            silence: Some(SILENCE),
            event: &mut |_| (),
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
