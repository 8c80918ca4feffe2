//! Tests that a guest's rate limits also apply to its front end.

use std::time::Instant;

use crate::device::{until, Device};
use crate::guest::memfd;
use crate::raw::{Raw, SIZE};

/// Lets a front end restart its ring and send messages for one second. Returns the number of
/// requests that the device answered, the maximum that the rate allows, and the metrics.
fn answered(ops: Option<u32>) -> (u16, f64, String) {
    const REQUESTS: u16 = 20;
    let rate = ops.map(|ops| ops.to_string());
    let device = match &rate {
        Some(rate) => Device::start(&["--max-ops", rate]),
        None => Device::start(&[]),
    };
    let mut raw = Raw::connect(&device.path("kiln.sock"));
    raw.hello(0);
    assert!(raw.table(SIZE, &memfd(SIZE, 0)));
    let start = Instant::now();
    assert!(raw.ring(0));
    raw.pile_up_in_place(REQUESTS);
    while start.elapsed().as_secs_f64() < 1.0 {
        raw.enable_again();
    }
    if ops.is_none() {
        // Wait for the remaining answers: on a busy machine, one second may not be enough.
        until("all requests are answered", || raw.used() == REQUESTS);
    }
    let used = raw.used();
    let most = start.elapsed().as_secs_f64() * f64::from(ops.unwrap_or(0));
    (used, most, device.metrics())
}

/// The messages that restart the ring count as requests, so only a few of the requests in the ring
/// are answered.
#[test]
fn a_front_end_that_restarts_its_ring_is_held_to_the_rate() {
    let (used, most, text) = answered(Some(10));
    assert!(f64::from(used) < most + 2.0, "{used}, {most}");
    let held = "kiln_held_total{queue=\"control\"} 0\n";
    assert!(!text.contains(held), "its messages are held: {text}");
    // Control: without a rate limit, all requests are answered, and no message is delayed.
    let (used, _, text) = answered(None);
    assert!(used == 20 && text.contains(held), "{used}: {text}");
}
