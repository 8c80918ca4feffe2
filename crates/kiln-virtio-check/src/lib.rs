//! Checks whether a virtio-crypto device behind a vhost-user socket is correct and safe. Each check
//! opens its own connection, sends well-formed or malformed requests, and reports the result.

#![forbid(unsafe_code)]

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
#[cfg(test)]
mod tests;
mod vectors;

pub use case::{Row, Verdict};
pub use link::{Fault, Offer, Target};
pub use record::RecordRow;

use case::Case;

/// Returns what the device offers, before any check is run.
///
/// # Errors
/// Fails if the device cannot be reached or is not a virtio-crypto device.
pub fn offer(target: &Target) -> Result<Offer, Fault> {
    link::Link::open(target, 0).map(|link| link.offer)
}

/// Returns the names of all checks for a device with this offer, in the order in which they run.
pub fn names(offer: &Offer) -> Vec<String> {
    cases(offer).into_iter().map(|case| case.name).collect()
}

/// Runs all checks and passes each row to `tell` as soon as it is available. A failed check does
/// not end the run. An interrupted check does not produce a row.
pub fn run(target: &Target, offer: &Offer, tell: &mut dyn FnMut(&Row)) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in cases(offer) {
        let row = case.run(target);
        if target.is_stopped() {
            break;
        }
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
    cases.extend(resources::cases(offer));
    cases
}
