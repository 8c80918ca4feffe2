//! Tests with front ends that wait to be served, whether or not they have sent data.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::Duration;

use super::{end, holdings, Victim};
use crate::device::{until, Device};

const PLACES: usize = 30;
const CONNECTIONS: usize = 900;
/// Upper bound on the main process's descriptors: 10 per guest, plus 64 silent connections and 64
/// connections that have sent data on each of two sockets.
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
        // Make at most 500 connections per second, because the device accepts no more than that.
        sleep(Duration::from_millis(2));
        if n % 50 == 0 {
            most = most.max(holdings(device)[0]);
        }
    }
    most
}

/// Like [`crowd`], but with a stopped fork server. Returns `None` if the main process replaced the
/// fork server meanwhile, which it does after waiting 5 s for an answer.
fn stopped_crowd(device: &Device, speaks: bool, held: &mut Vec<UnixStream>) -> Option<usize> {
    let mut server = None;
    until("there is a fork server", || {
        server = device.fork_server();
        server.is_some()
    });
    let signal = |signal| {
        // SAFETY: kill() does not access memory.
        let done = unsafe { libc::kill(server.unwrap() as i32, signal) };
        let error = io::Error::last_os_error();
        assert!(
            done == 0 || error.raw_os_error() == Some(libc::ESRCH),
            "{error}"
        );
        done == 0
    };
    if !signal(libc::SIGSTOP) {
        return None;
    }
    let most = crowd(device, speaks, held);
    let is_there = device.fork_server() == server && signal(libc::SIGCONT);
    is_there.then_some(most)
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
        // On a busy machine, the connections can take so long that the fork server is replaced, so
        // try again.
        let most = (0..5).find_map(|_| {
            held.clear();
            stopped_crowd(&device, speaks, &mut held)
        });
        let most = most.expect("one of five rounds without a new fork server");
        assert!(most < DESCRIPTORS, "{most} descriptors, {speaks}");
        victim.is_served();
        Victim::at(&device, "other.sock").is_served();
        held.clear();
    }
    end(device, &["too many connections are waiting to be served"]);
}
