//! Checks whether a virtio-crypto device behind a vhost-user socket is correct and safe.
//! Each check opens its own connection, sends well-formed or malformed requests, and reports the
//! result.

#![forbid(unsafe_code)]

mod bits;
mod case;
mod conform;
mod hostile;
mod link;
#[cfg(test)]
mod naive;
mod private;
mod raw;
mod record;
mod resources;
mod rings;
mod rule;
#[cfg(test)]
mod tests;
mod vectors;

use std::thread;
use std::time::{Duration, Instant};

pub use case::{Group, Row, Totals, Verdict};
pub use link::{Fault, Offer, Target};
pub use record::RecordRow;
pub use rule::Rule;

use case::Case;

/// Returns what the device offers, before any check is run.
///
/// # Errors
/// Fails if the device cannot be reached, does not answer in time, or is not a virtio-crypto
/// device.
pub fn offer(target: &Target) -> Result<Offer, Fault> {
    link::Link::open(target, 0).map(|link| link.offer)
}

/// Returns the names of all checks for a device with this offer, in the order in which they run.
pub fn names(offer: &Offer) -> Vec<String> {
    cases(offer).into_iter().map(|case| case.name).collect()
}

/// Returns the group, name and requirement of every check.
pub fn list() -> Vec<(Group, String, Rule)> {
    let all = cases(&Offer::everything()).into_iter();
    all.map(|case| (case.group, case.name, case.rule)).collect()
}

/// How long a device may take to listen again after a failed check. This gives a supervisor time to
/// restart the device.
const RESTART: Duration = Duration::from_secs(2);

/// Runs all checks and passes each row to `tell` as soon as it is available. A failed check does
/// not end the run, but if the device has exited, the remaining checks are skipped. An interrupted
/// check does not produce a row.
pub fn run(target: &Target, offer: &Offer, tell: &mut dyn FnMut(&Row)) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut killer: Option<String> = None;
    for case in cases(offer) {
        let mut row = match &killer {
            Some(name) => Row {
                group: case.group,
                case: case.name,
                rule: case.rule,
                verdict: Verdict::Skip(format!("the device has ended in the check '{name}'")),
            },
            None => case.run(target),
        };
        if target.is_stopped() {
            break;
        }
        if let Verdict::Fail(what) = &mut row.verdict {
            if has_ended(target) {
                what.push_str("; the device has ended: nothing listens on its socket");
                killer = Some(row.case.clone());
            }
        }
        tell(&row);
        rows.push(row);
    }
    rows
}

/// Returns whether the device has exited. Waits up to [`RESTART`] for the device's socket to accept
/// connections again.
fn has_ended(target: &Target) -> bool {
    let start = Instant::now();
    while matches!(link::Link::open(target, 0), Err(Fault::Connect(_))) {
        if target.is_stopped() {
            return false;
        }
        if start.elapsed() > RESTART {
            return true;
        }
        thread::sleep(RESTART / 20);
    }
    false
}

fn cases(offer: &Offer) -> Vec<Case> {
    let mut cases = conform::cases(offer);
    cases.extend(private::cases(offer));
    cases.extend(hostile::cases(offer));
    cases.extend(rings::cases());
    cases.extend(resources::cases(offer));
    cases
}
