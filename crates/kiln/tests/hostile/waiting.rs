//! Tests with front ends that wait to be served, whether or not they have sent data.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::Duration;

use super::{end, holdings, Victim};
use crate::device::Device;

const PLACES: usize = 30;
const CONNECTIONS: usize = 900;
/// Maximum number of descriptors in the main process: on each of two sockets, 64 silent connections
/// and 64 that have sent data, and 10 descriptors per guest.
const DESCRIPTORS: usize = 2 * (64 + 64) + 10 * PLACES;

/// Makes many connections, and sends data on each if `speaks` is set. Returns the highest number of
/// descriptors that the main process had.
fn crowd(device: &Device, speaks: bool, held: &mut Vec<UnixStream>) -> usize {
    let mut most = 0;
    for n in 0..CONNECTIONS {
        let mut stream = UnixStream::connect(device.path("kiln.sock")).unwrap();
        if speaks {
            // Ignore a write error, which means that the connection was rejected.
            let _ = stream.write_all(&[1]);
        }
        held.push(stream);
        // The device accepts 500 connections per second.
        sleep(Duration::from_millis(2));
        if n % 50 == 0 {
            most = most.max(holdings(device)[0]);
        }
    }
    most
}

/// If no process can start, front ends have to wait. Each waiting front end occupies a descriptor
/// of the main process, and all sockets share the limited number of descriptors.
#[test]
fn front_ends_that_wait_take_few_descriptors_of_the_main_process() {
    let places = PLACES.to_string();
    let device = Device::start(&["--socket", "other.sock", "--max-guests", &places]);
    let mut victim = Victim::at(&device, "other.sock");
    let mut held = Vec::new();
    for speaks in [false, true] {
        let server = device.fork_server().unwrap() as i32;
        // SAFETY: kill() does not access memory, and the process is running.
        let signal = |signal| assert_eq!(unsafe { libc::kill(server, signal) }, 0);
        signal(libc::SIGSTOP);
        let most = crowd(&device, speaks, &mut held);
        signal(libc::SIGCONT);
        assert!(most < DESCRIPTORS, "{most} descriptors, {speaks}");
        victim.is_served();
        Victim::at(&device, "other.sock").is_served();
        held.clear();
    }
    end(device, &["too many connections are waiting to be served"]);
}
