//! Is a virtio-crypto device right, and safe? Requests of every kind to any vhost-user socket, well made and ill made,
//! each on a connection of its own, and their results.

#![forbid(unsafe_code)]

mod case;
mod conform;
mod hostile;
mod link;
mod private;
mod record;
mod rings;
#[cfg(test)]
mod tests;
mod vectors;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub use case::{Row, Verdict};
pub use link::{Fault, Offer};
pub use record::RecordRow;

use case::Case;

/// What the device says it has, before any check.
///
/// # Errors
/// It cannot be reached, or is not a virtio-crypto device.
pub fn offer(path: &Path) -> Result<Offer, Fault> {
    link::Link::open(path, 0).map(|link| link.offer)
}

/// All checks of a device that offers this, by name, in the order they run in.
pub fn names(offer: &Offer) -> Vec<String> {
    cases(offer).into_iter().map(|case| case.name).collect()
}

/// Runs all checks and reports each row as it comes. A check that fails does not end the run.
pub fn run(path: &Path, offer: &Offer, stop: &AtomicBool, tell: &mut dyn FnMut(&Row)) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in cases(offer) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let row = case.run(path);
        tell(&row);
        rows.push(row);
    }
    rows
}

fn cases(offer: &Offer) -> Vec<Case> {
    let mut cases = conform::cases(offer);
    cases.extend(private::cases(offer));
    cases.extend(hostile::cases(offer));
    cases.extend(rings::cases());
    cases
}
