//! The socket adapter between a front end and the vhost crate, for two front ends that the crate
//! does not support. The adapter reads whole messages with their descriptors and forwards them with
//! these corrections:
//!
//! - user mode Linux's SET_MEM_TABLE (`memory`);
//! - QEMU's `cryptodev-vhost-user`, which sends sessions as messages (`session`) and never enables
//!   its queue (`conversation`).
//!
//! The adapter itself answers the messages about the device status (`status`), which the crate does
//! not implement.
//!
//! Whatever a front end sends, the worst outcome is the end of its own connection. The adapter
//! buffers at most one message.

mod conversation;
mod error;
mod memory;
mod message;
mod session;
mod signals;
mod socket;
mod status;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::Errno;

pub(crate) use conversation::IN_FLIGHT;
pub use conversation::{Conversation, To};
pub use error::Error;
pub use message::{Message, HEADER, LONGEST};
pub use session::Sessions;
pub use status::Health;

pub(crate) use socket::Socket;

use crate::account::Account;
use crate::notify::timespec;
use crate::watch::Watch;

/// How long sending to the front end, or within the process, may wait. A front end that does not
/// read its answers would otherwise block the adapter forever.
const SENDING: Duration = Duration::from_secs(5);
const SENDING_INSIDE: Duration = Duration::from_secs(8);

/// The adapter for the connection of one front end. It forwards messages between the front end and
/// the vhost crate, and translates or answers those that the crate does not support.
pub struct Adapter {
    front_end: Socket,
    device: Socket,
    /// The guest's rate limits and health.
    account: Option<Arc<Account>>,
    /// Measures how long the adapter works between two waits for messages.
    watch: Arc<Watch>,
}

impl Adapter {
    /// Creates an adapter for a connected front end. Also returns the stream that the vhost crate
    /// uses instead of the front end's stream.
    ///
    /// # Errors
    /// Fails if the process cannot open another file descriptor.
    pub fn new(front_end: UnixStream) -> io::Result<(Adapter, UnixStream)> {
        let (ours, device) = UnixStream::pair()?;
        front_end.set_write_timeout(Some(SENDING))?;
        for inside in [&ours, &device] {
            inside.set_write_timeout(Some(SENDING_INSIDE))?;
        }
        let adapter = Adapter {
            front_end: Socket::new(front_end),
            device: Socket::new(ours),
            account: None,
            watch: Arc::default(),
        };
        Ok((adapter, device))
    }

    /// Sets the guest whose rate limits the front end's messages are charged against, and whose
    /// health is reported.
    pub(crate) fn with_account(self, account: Arc<Account>) -> Adapter {
        let account = Some(account);
        Adapter { account, ..self }
    }

    /// Returns the timer for the adapter's current step.
    pub(crate) fn watch(&self) -> Arc<Watch> {
        self.watch.clone()
    }

    /// Forwards messages until one side closes, then ends the device's connection as well.
    ///
    /// # Errors
    /// Fails if a socket fails or the front end violates the protocol.
    pub fn run(self, sessions: &Sessions) -> Result<(), Error> {
        let done = self.pass(sessions);
        // The caller closes the front end's socket later, after the device has stopped using the
        // front end's memory.
        self.device.shut();
        self.watch.end();
        done
    }

    fn pass(&self, sessions: &Sessions) -> Result<(), Error> {
        let account = self.account.as_deref();
        let health = account.map_or_else(Arc::default, |account| account.health.clone());
        let mut conversation = Conversation::new(health);
        // A message already charged against the rate limits. It is handled once the guest is within
        // them.
        let mut paid = None;
        loop {
            let hold = account.and_then(|account| account.pace.hold());
            if let Some(message) = paid.take_if(|_| hold.is_none()) {
                self.watch.begin();
                self.send(conversation.handle_front_end(message, sessions)?)?;
                continue;
            }
            let wanted = !conversation.waits() && hold.is_none();
            self.watch.end();
            let Some((front_end, device)) = self.wait(wanted, hold)? else {
                return Ok(());
            };
            self.watch.begin();
            if device {
                let Some(message) = self.device.receive()? else {
                    return Ok(());
                };
                self.send(conversation.handle_device(message, sessions))?;
            }
            if front_end && !conversation.waits() {
                let Some(message) = self.front_end.receive()? else {
                    return Ok(());
                };
                signals::check(&message)?;
                if let Some(account) = account {
                    account.charge(HEADER + message.payload.len());
                }
                paid = Some(message);
            }
        }
    }

    /// Waits until at least one side is readable, or for `limit` at most. Returns whether the front
    /// end is readable, and whether the device is; or `None` if the front end has hung up while it
    /// exceeds its rate or one of its messages is held back, so that its further messages are not
    /// served.
    fn wait(
        &self,
        front_end_too: bool,
        limit: Option<Duration>,
    ) -> Result<Option<(bool, bool)>, Error> {
        let wanted = |is| {
            if is {
                PollFlags::IN
            } else {
                PollFlags::empty()
            }
        };
        let limit = limit.map(timespec);
        loop {
            let mut fds = [
                PollFd::new(&self.device, wanted(true)),
                PollFd::new(&self.front_end, wanted(front_end_too)),
            ];
            match poll(&mut fds, limit.as_ref()) {
                Ok(0) => return Ok(Some((false, false))),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(e) => return Err(Error::Io(e.into())),
            }
            let [device, front_end] = [0, 1].map(|i| fds[i].revents());
            // poll() reports a hang-up even if no event was requested.
            if !front_end_too && !front_end.is_empty() {
                return Ok(None);
            }
            if !device.is_empty() || !front_end.is_empty() {
                return Ok(Some((!front_end.is_empty(), !device.is_empty())));
            }
        }
    }

    fn send(&self, messages: Vec<To>) -> Result<(), Error> {
        for message in messages {
            match message {
                To::Device(message) => self.device.send(&message)?,
                To::FrontEnd(message) => self.front_end.send(&message)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::message::{request, CRYPTO_SESSION, MOST_FDS, VERSION};
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::thread::{self, JoinHandle};

    fn none(_: &[u8], _: &mut [u8]) -> usize {
        0
    }

    /// Starts an adapter, and returns the front end's and the device's socket. Both sockets have
    /// timeouts, so a failing test ends instead of hanging.
    fn running() -> (Socket, Socket, JoinHandle<Result<(), Error>>) {
        let (front_end, theirs) = UnixStream::pair().unwrap();
        let (adapter, device) = Adapter::new(theirs).unwrap();
        for stream in [&front_end, &device] {
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
        }
        let thread = thread::spawn(move || adapter.run(&none));
        (Socket::new(front_end), Socket::new(device), thread)
    }

    /// Creates a pipe, and returns the end to send in a message and the other end.
    fn pipe() -> (OwnedFd, File) {
        let (read, write) = std::io::pipe().unwrap();
        (write.into(), File::from(OwnedFd::from(read)))
    }

    #[test]
    fn descriptors_arrive_with_their_message_in_both_directions() {
        let (front_end, device, thread) = running();
        for (from, to) in [(&front_end, &device), (&device, &front_end)] {
            let ((a, mut of_a), (b, mut of_b)) = (pipe(), pipe());
            let mut with = Message::new(request::SET_MEM_TABLE, VERSION, vec![2; 72]);
            with.fds = vec![a, b];
            let next = Message::new(36, VERSION, vec![]);
            from.send(&with).unwrap();
            from.send(&next).unwrap();
            let got = to.receive().unwrap().unwrap();
            assert_eq!((got.request, got.payload), (5, with.payload));
            assert_eq!(got.fds.len(), 2);
            for (fd, word) in got.fds.into_iter().zip([b"a", b"b"]) {
                File::from(fd).write_all(word).unwrap();
            }
            drop(with.fds);
            let mut said = String::new();
            of_a.read_to_string(&mut said).unwrap();
            of_b.read_to_string(&mut said).unwrap();
            assert_eq!(said, "ab");
            let got = to.receive().unwrap().unwrap();
            assert_eq!((got.request, got.fds.len()), (36, 0));
        }
        drop(front_end);
        thread.join().unwrap().unwrap();
        assert!(device.receive().unwrap().is_none());
    }

    #[test]
    fn a_message_may_come_byte_by_byte() {
        let (front_end, device, thread) = running();
        let message = Message::new(request::SET_VRING_KICK, VERSION, vec![1; 8]);
        let mut stream = front_end.try_clone().unwrap();
        for byte in [&message.header()[..], &message.payload].concat() {
            stream.write_all(&[byte]).unwrap();
        }
        let got = device.receive().unwrap().unwrap();
        assert_eq!(got.payload, message.payload);
        drop(device);
        thread.join().unwrap().unwrap();
        assert!(front_end.receive().unwrap().is_none());
    }

    #[test]
    fn what_no_front_end_sends_ends_its_connection() {
        let ends = |bytes: &[u8]| {
            let (front_end, device, thread) = running();
            let mut stream = front_end.try_clone().unwrap();
            stream.write_all(bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let done = thread.join().unwrap();
            // The device must not receive the beginning of a message that was cut off.
            while device.receive().unwrap().is_some() {}
            done
        };
        let header = |request: u32, len: u32| {
            let words = [request, VERSION, len];
            words.map(u32::to_le_bytes).concat()
        };
        let too_long = ends(&header(5, 4097));
        assert!(matches!(
            too_long,
            Err(Error::TooLong {
                request: 5,
                len: 4097
            })
        ));
        assert!(matches!(
            ends(&header(5, u32::MAX)),
            Err(Error::TooLong { .. })
        ));
        assert!(matches!(ends(&header(5, 40)), Err(Error::CutShort)));
        assert!(matches!(ends(&[0; 11]), Err(Error::CutShort)));
        assert!(matches!(ends(&header(26, 0)), Err(Error::NotAgreed(26))));
        assert!(ends(&header(3, 0)).is_ok());
        assert!(ends(&[]).is_ok());
    }

    #[test]
    fn more_descriptors_than_a_message_has_end_the_connection() {
        let (front_end, device, thread) = running();
        let mut stream = front_end.try_clone().unwrap();
        let fd = || OwnedFd::from(File::open("/dev/null").unwrap());
        let mut message = Message::new(request::SET_MEM_TABLE, VERSION, vec![0; 8]);
        message.fds = (0..MOST_FDS).map(|_| fd()).collect();
        front_end.send(&message).unwrap();
        let whole = device.receive().unwrap().unwrap();
        assert_eq!(whole.fds.len(), MOST_FDS);
        // Send as many descriptors as allowed with the header, and one more with the payload.
        message.payload.clear();
        let mut torn = Message::new(request::SET_MEM_TABLE, VERSION, vec![]);
        torn.fds = message.fds;
        front_end.send(&torn).unwrap();
        // It waits until the device has received the previous message's descriptors.
        let question = device.receive().unwrap().unwrap();
        assert_eq!(question.request, request::GET_FEATURES);
        let answer = Message::answer(request::GET_FEATURES, vec![0; 8]);
        device.send(&answer).unwrap();
        assert_eq!(
            device.receive().unwrap().unwrap().fds.len(),
            MOST_FDS,
            "without a payload it is whole"
        );
        stream
            .write_all(&[5, 0, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0])
            .unwrap();
        torn.fds.push(fd());
        let (first, rest) = torn.fds.split_at(MOST_FDS);
        for fds in [first, rest] {
            send_bytes(&front_end, &[0; 6], fds);
        }
        let done = thread.join().unwrap();
        assert!(matches!(done, Err(Error::TooManyFds)), "{done:?}");
    }

    fn send_bytes(socket: &Socket, bytes: &[u8], fds: &[OwnedFd]) {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
        use std::os::fd::AsFd;
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let parts = [io::IoSlice::new(bytes)];
        rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    }

    #[test]
    fn an_adapter_is_stopped_whatever_it_waits_for() {
        // The adapter waits for a message in case 0, for the rest of a message in case 1, for the
        // device in case 2, and for a side that does not read in case 3.
        for wait in 0..4 {
            let (front_end, theirs) = UnixStream::pair().unwrap();
            let (adapter, device) = Adapter::new(theirs).unwrap();
            let sockets = [&adapter.front_end, &adapter.device].map(|s| s.try_clone().unwrap());
            let thread = thread::spawn(move || adapter.run(&none));
            let (front_end, device) = (Socket::new(front_end), Socket::new(device));
            match wait {
                1 => front_end.try_clone().unwrap().write_all(&[1; 5]).unwrap(),
                2 => {
                    let taken = CRYPTO_SESSION.to_le_bytes().to_vec();
                    let taken = Message::new(request::SET_PROTOCOL_FEATURES, VERSION, taken);
                    front_end.send(&taken).unwrap();
                    let close = Message::new(request::CLOSE_CRYPTO_SESSION, VERSION, vec![0; 8]);
                    front_end.send(&close).unwrap();
                    for wanted in [request::SET_PROTOCOL_FEATURES, request::GET_FEATURES] {
                        let got = device.receive().unwrap().unwrap();
                        assert_eq!(got.request, wanted);
                    }
                }
                3 => {
                    let full = device.try_clone().unwrap();
                    full.set_nonblocking(true).unwrap();
                    let message = Message::new(99, VERSION, vec![0; LONGEST]);
                    let mut full = &full;
                    // Fill both buffers so that the adapter blocks in a send.
                    for _ in 0..10_000 {
                        let bytes = [&message.header()[..], &message.payload].concat();
                        if full.write_all(&bytes).is_err() {
                            break;
                        }
                    }
                }
                _ => {}
            }
            for socket in sockets {
                let _ = socket.shutdown(std::net::Shutdown::Both);
            }
            let _ = thread.join().unwrap();
        }
    }
}
