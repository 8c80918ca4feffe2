//! Tests with front ends that make messages pile up unread in the connection, along with the
//! descriptors that the messages carry. Some of these descriptors refer to the front end's own end
//! of the connection.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use vhost::VhostBackend;
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

use super::{end, Victim};
use crate::device::{until, Device};
use crate::guest::{memfd, Guest};
use crate::raw::{message, words};

const GET_FEATURES: u32 = 1;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_BASE: u32 = 10;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
const SET_VRING_ERR: u32 = 14;
/// Index of the control queue.
const CONTROL: u64 = 2;

/// Connects a guest and makes the thread of its control queue block in write(). Returns the guest
/// and its connection.
pub(super) fn asleep(device: &Device) -> (Guest, UnixStream) {
    let stream = UnixStream::connect(device.path("kiln.sock")).unwrap();
    let raw = stream.try_clone().unwrap();
    let mut guest = Guest::on(stream, 2);
    guest.create();
    guest.block_calls();
    guest.ask_in_vain();
    until("two requests are answered", || guest.used(false) == 2);
    (guest, raw)
}

/// The kernel counts descriptors in flight per user, and all processes of the device run as the
/// same user. The descriptors of root are not counted.
#[test]
fn descriptors_that_are_left_unread_keep_no_other_guest_from_sending_some() {
    // SAFETY: the call takes no pointer.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIPPED: the front end and the device need different users");
        return;
    }
    let device = Device::start(&["--socket", "other.sock"]);
    let mut victim = Victim::at(&device, "other.sock");
    let file = memfd(4096, 0);
    for (request, fds, len) in [(SET_MEM_TABLE, 8, 8 + 8 * 32), (24, 32, 12)] {
        let (_guest, raw) = asleep(&device);
        raw.set_nonblocking(true).unwrap();
        // Make the device wait for the queue to stop. Until then, it processes no further messages.
        let stop = message(SET_VRING_BASE, 0, &words(&[CONTROL]));
        (&raw).write_all(&stop).unwrap();
        sleep(Duration::from_millis(100));
        // Keep sending messages, which the device does not read, until a send fails.
        let table = message(request, 0, &vec![0; len]);
        let fds = vec![file.as_raw_fd(); fds];
        let sent = (0..120).take_while(|_| raw.send_with_fds(&[&table[..]], &fds).is_ok());
        sent.count();
        sleep(Duration::from_millis(100));
        let call = EventFd::new(0).unwrap();
        victim.0.front_end.set_vring_call(0, &call).unwrap();
        victim.0.front_end.get_features().unwrap();
        victim.is_served();
        Victim::at(&device, "other.sock").is_served();
    }
    end(device, &[]);
}

/// Returns how many bytes the other side has not yet received.
fn unread(stream: &UnixStream) -> i32 {
    let mut bytes = 0;
    // SAFETY: the command writes one number, which outlives the call.
    let done = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    assert_eq!(done, 0);
    bytes
}

/// After the front end has exited, its end of the connection is kept open only by a message that
/// the device has not received.
#[test]
fn a_front_end_that_reads_nothing_and_sends_its_own_end_loses_its_place() {
    let device = Device::start(&["--max-guests", "1"]);
    let stream = UnixStream::connect(device.path("kiln.sock")).unwrap();
    let question = message(GET_FEATURES, 0, &[]);
    // Wait for the first answer, because all messages remain unread until the device has a process
    // for the front end.
    (&stream).write_all(&question).unwrap();
    until("a question is answered", || received(&stream) == 20);
    loop {
        for _ in 0..50 {
            (&stream).write_all(&question).unwrap();
        }
        sleep(Duration::from_millis(50));
        if unread(&stream) > 0 {
            sleep(Duration::from_millis(500));
            if unread(&stream) > 0 {
                break;
            }
        }
    }
    stream
        .send_with_fd(&question[..], stream.as_raw_fd())
        .unwrap();
    drop(stream);
    until("its process is gone", || device.threads().is_empty());
    Victim::new(&device).is_served();
    end(device, &["the vhost-user socket failed"]);
}

/// While the thread of the control queue is blocked in write(), the front end sends a message with
/// a descriptor of its own end of the connection. The device cannot process this message until the
/// thread continues.
#[test]
fn a_process_whose_front_end_holds_it_for_ever_ends_by_itself() {
    let device = Device::start(&["--max-guests", "1"]);
    let (guest, raw) = asleep(&device);
    let call = EventFd::new(0).unwrap();
    call.write(u64::MAX - 1).unwrap();
    // SAFETY: neither fcntl() command takes a pointer.
    let flags = || unsafe { libc::fcntl(call.as_raw_fd(), libc::F_GETFL) };
    let set = message(SET_VRING_CALL, 0, &words(&[CONTROL]));
    raw.send_with_fd(&set[..], call.as_raw_fd()).unwrap();
    until("the device has the call", || {
        flags() & libc::O_NONBLOCK != 0
    });
    // SAFETY: as above.
    let done = unsafe { libc::fcntl(call.as_raw_fd(), libc::F_SETFL, flags() & !libc::O_NONBLOCK) };
    assert_eq!(done, 0);
    // The queue stops, and the device notifies the driver through the new call eventfd, whose
    // counter is full.
    assert!(guest.was_called());
    let hide = message(SET_MEM_TABLE, 0, &[0; 8 + 32]);
    raw.send_with_fd(&hide[..], raw.as_raw_fd()).unwrap();
    drop((guest, raw));
    let limit = Instant::now() + Duration::from_secs(60);
    while !device.threads().is_empty() {
        assert!(Instant::now() < limit, "its process stays");
        sleep(Duration::from_millis(100));
    }
    Victim::new(&device).is_served();
    end(device, &["a step of its connection does not end"]);
}

/// The device keeps the descriptors that it receives for signalling, such as call eventfds, until
/// the connection ends. If such a descriptor were the front end's own end of the connection, or a
/// socket with an unread message that carries this end, the connection would never hang up.
#[test]
fn a_front_end_that_hides_its_own_end_in_a_signal_loses_its_place() {
    const SET_BACKEND_REQ_FD: u32 = 21;
    let device = Device::start(&["--max-guests", "1"]);
    let first = words(&[0]);
    let mut connected = 0;
    for (request, payload) in [
        (SET_VRING_KICK, &first[..]),
        (SET_VRING_CALL, &first),
        (SET_VRING_ERR, &first),
        (SET_BACKEND_REQ_FD, &[]),
    ] {
        for nested in [false, true] {
            let stream = UnixStream::connect(device.path("kiln.sock")).unwrap();
            let (signal, theirs) = UnixStream::pair().unwrap();
            let hidden = match nested {
                false => stream.as_raw_fd(),
                true => {
                    let own = stream.as_raw_fd();
                    theirs.send_with_fd(&[0u8][..], own).unwrap();
                    signal.as_raw_fd()
                }
            };
            let set = message(request, 0, payload);
            stream.send_with_fd(&set[..], hidden).unwrap();
            drop((stream, signal, theirs));
            let mut is_gone = || {
                connected += 1;
                let count = format!("kiln_connections_total {connected}\n");
                // As long as a guest is being served, the metrics contain lines about it.
                until("it is gone", || {
                    let text = device.metrics();
                    text.contains(&count) && !text.contains("{guest=")
                });
            };
            is_gone();
            Victim::new(&device).is_served();
            is_gone();
        }
    }
    end(device, &["is not an eventfd, a pipe"]);
}

/// If a front end does not read the answers, the descriptors in them stay in flight even after the
/// process that served the front end has exited. They count towards the limit on descriptors in
/// flight for the device's user.
#[test]
fn a_front_end_that_leaves_answers_unread_keeps_its_place_and_no_other() {
    const SET_PROTOCOL_FEATURES: u32 = 16;
    const GET_INFLIGHT_FD: u32 = 31;
    const SET_OWNER: u32 = 3;
    const GET_PROTOCOL_FEATURES: u32 = 15;
    const INFLIGHT: u64 = 1 << 12;
    let device = Device::start(&["--max-guests", "1", "--socket", "other.sock"]);
    let stream = UnixStream::connect(device.path("kiln.sock")).unwrap();
    let know = [SET_OWNER, GET_FEATURES, GET_PROTOCOL_FEATURES];
    let know = know.map(|request| message(request, 0, &[])).concat();
    let agree = message(SET_PROTOCOL_FEATURES, 0, &words(&[INFLIGHT]));
    (&stream).write_all(&[know, agree].concat()).unwrap();
    until("the features are answered", || received(&stream) == 2 * 20);
    let ask = message(GET_INFLIGHT_FD, 0, &words(&[0, 0, 2 | 64 << 16]));
    (&stream).write_all(&ask).unwrap();
    until("it is answered", || received(&stream) > 2 * 20);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    until("its process is gone", || device.threads().is_empty());
    // The front end still takes up a place, but only on its own socket.
    let metrics = || device.metrics();
    let late = UnixStream::connect(device.path("kiln.sock")).unwrap();
    (&late).write_all(&message(GET_FEATURES, 0, &[])).unwrap();
    until("it is rejected", || {
        metrics().contains("kiln_refused_total 1")
    });
    Victim::at(&device, "other.sock").is_served();
    drop((stream, late));
    // Connect repeatedly, because the device rejects connections until the place is free.
    let served = || {
        let stream = UnixStream::connect(device.path("kiln.sock")).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let asked = (&stream).write_all(&message(GET_FEATURES, 0, &[]));
        asked.is_ok() && (&stream).read(&mut [0; 20]).is_ok_and(|n| n > 0)
    };
    until("its place is free", served);
    end(device, &["has not read all answers"]);
}

/// Returns how many bytes have arrived and are still unread.
fn received(stream: &UnixStream) -> i32 {
    let mut bytes = 0;
    // SAFETY: the command writes one number, which outlives the call.
    let done = unsafe { libc::ioctl(stream.as_raw_fd(), libc::FIONREAD, &mut bytes) };
    assert_eq!(done, 0);
    bytes
}
