//! Front ends that have sent something and wait until they are served.

use std::io::Write;
use std::os::unix::net::UnixStream;

use super::{end, holdings, Victim};
use crate::device::Device;

const PLACES: usize = 30;
const CONNECTIONS: usize = 900;
/// What the main process may have: both kinds of waiting connections of two sockets, and what each guest takes.
const DESCRIPTORS: usize = 2 * (64 + 64) + 10 * PLACES;

/// Connects many times, and says something or nothing. Returns how many descriptors the main process had at most.
fn crowd(device: &Device, speaks: bool, held: &mut Vec<UnixStream>) -> usize {
    let mut most = 0;
    for n in 0..CONNECTIONS {
        let mut stream = UnixStream::connect(device.path("kiln.sock")).unwrap();
        if speaks {
            // One that was turned away is not waited for.
            let _ = stream.write_all(&[1]);
        }
        held.push(stream);
        if n % 50 == 0 {
            most = most.max(holdings(device)[0]);
        }
    }
    most
}

/// A process that serves a guest takes some 20 ms to start. Front ends that connect faster than that wait meanwhile, and
/// each of them is a descriptor of the main process, which has a limited number of them for all sockets.
#[test]
fn front_ends_that_wait_take_few_descriptors_of_the_main_process() {
    let places = PLACES.to_string();
    let device = Device::start(&["--socket", "other.sock", "--max-guests", &places]);
    let mut victim = Victim::at(&device, "other.sock");
    let mut held = Vec::new();
    for speaks in [false, true] {
        let most = crowd(&device, speaks, &mut held);
        assert!(most < DESCRIPTORS, "{most} descriptors, {speaks}");
        victim.is_served();
        Victim::at(&device, "other.sock").is_served();
        held.clear();
    }
    end(device, &["too many wait to be served"]);
}
