//! The vhost-user protocol (QEMU's `docs/interop/vhost-user.rst`): receives the messages of one
//! front end, has the device serve them, and sends the answers.
//!
//! The `vhost` crate is not suitable: it sends replies with sendmsg(), which seccomp forbids in a
//! guest process, rejects messages that QEMU and user mode Linux send, and handles neither the
//! messages about the device status ([`status`]) nor those that create sessions ([`session`]).
//!
//! Whatever a front end sends, it can at worst end its own connection. At most one message per
//! connection is buffered.

mod error;
mod message;
mod payload;
mod protocol;
mod session;
mod signals;
mod socket;
mod status;

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::Errno;

pub use error::Error;
pub use message::{Message, MAX_PAYLOAD};
pub use payload::{InflightArea, Region, RingAddresses};
pub use protocol::{Answer, Protocol, Reply, Request, Serve};
pub use session::Sessions;
pub use status::Health;

pub(crate) use message::{request, HEADER_LEN, MAX_GET_INFLIGHT};
pub(crate) use payload::INFLIGHT_LEN;
pub(crate) use protocol::F_PROTOCOL_FEATURES;
pub(crate) use socket::{send_nonblocking, Socket};

use crate::account::Account;
use crate::notify::timespec;
use crate::watch::Watch;

/// How long a send to the front end may block. A front end that does not read its answers would
/// otherwise block the thread forever.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// A function that sends the reply to GET_INFLIGHT_FD, the only reply with a descriptor.
pub(crate) type SendInflight = Box<dyn FnMut(&Socket, InflightArea) -> Result<(), Error> + Send>;

/// Returns a function that sends the reply to GET_INFLIGHT_FD along with a descriptor for `file`.
/// This is only for `--no-isolation`: in a guest process, seccomp forbids sending descriptors.
pub(crate) fn send_inflight_of(file: File) -> SendInflight {
    Box::new(move |socket, area| {
        let mut message = area.to_message();
        message.fds = vec![file.try_clone().map_err(Error::Inflight)?.into()];
        socket.send(&message)
    })
}

/// A connection to a front end.
pub struct FrontEndConnection {
    socket: Socket,
    send_inflight: Option<SendInflight>,
    /// Provides the guest's rate limits and health.
    account: Option<Arc<Account>>,
    /// Measures how long the thread works between two waits for messages.
    watch: Arc<Watch>,
}

impl FrontEndConnection {
    /// Takes over the connection to a front end. By default, the connection has no rate limits, and
    /// memory for in-flight requests cannot be requested; `with_account` and `with_inflight` change
    /// these defaults.
    ///
    /// # Errors
    /// Fails if the socket cannot be set up.
    pub fn new(stream: UnixStream) -> io::Result<FrontEndConnection> {
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(FrontEndConnection {
            socket: Socket::new(stream),
            send_inflight: None,
            account: None,
            watch: Arc::default(),
        })
    }

    /// Sets the account that provides the rate limits for messages and the health to report.
    pub(crate) fn with_account(self, account: Arc<Account>) -> FrontEndConnection {
        let account = Some(account);
        FrontEndConnection { account, ..self }
    }

    pub(crate) fn with_inflight(self, send: SendInflight) -> FrontEndConnection {
        let send_inflight = Some(send);
        FrontEndConnection {
            send_inflight,
            ..self
        }
    }

    /// Returns the timer for the current step.
    pub(crate) fn watch(&self) -> Arc<Watch> {
        self.watch.clone()
    }

    /// Serves messages until the front end disconnects. If the connection must stay open until the
    /// device has released guest memory, the caller must keep a duplicate of the socket.
    ///
    /// # Errors
    /// Fails if the socket fails, the front end violates the protocol, or the device refuses a
    /// request.
    pub fn run(mut self, device: &mut Serve, sessions: &Sessions) -> Result<(), Error> {
        let account = self.account.clone();
        let account = account.as_deref();
        let health = account.map_or_else(Arc::default, |account| account.health.clone());
        let mut protocol = Protocol::new(health);
        // A message that has been received and charged against the rate limits. It is served as
        // soon as the limits permit.
        let mut charged = None;
        loop {
            let hold = account.and_then(|account| account.pace.hold());
            if let Some(message) = charged.take_if(|_| hold.is_none()) {
                self.watch.begin();
                let (answer, done) = protocol.handle(message, device, sessions);
                let sent = answer.map_or(Ok(()), |answer| self.send(answer));
                done.and(sent)?;
                continue;
            }
            self.watch.end();
            if !self.wait(hold)? {
                return Ok(());
            }
            self.watch.begin();
            if charged.is_some() {
                continue;
            }
            let Some(message) = self.socket.receive()? else {
                return Ok(());
            };
            signals::check(&message)?;
            if let Some(account) = account {
                account.charge(HEADER_LEN + message.payload.len());
            }
            charged = Some(message);
        }
    }

    /// If `hold` is set, waits that long and ignores input. If the front end hangs up during this
    /// time, returns false, and the charged message must not be served. If `hold` is `None`, waits
    /// for input or a hang-up and returns true.
    fn wait(&self, hold: Option<Duration>) -> Result<bool, Error> {
        let flags = match hold {
            Some(_) => PollFlags::empty(),
            None => PollFlags::IN,
        };
        let limit = hold.map(timespec);
        loop {
            match poll(&mut [PollFd::new(&self.socket, flags)], limit.as_ref()) {
                Ok(0) => return Ok(true),
                // poll() reports a hang-up even if no event was requested.
                Ok(_) => return Ok(hold.is_none()),
                Err(Errno::INTR) => {}
                Err(e) => return Err(Error::Io(e.into())),
            }
        }
    }

    fn send(&mut self, answer: Answer) -> Result<(), Error> {
        match (answer, &mut self.send_inflight) {
            (Answer::Message(message), _) => self.socket.send(&message),
            (Answer::Inflight(area), Some(send)) => send(&self.socket, area),
            (Answer::Inflight(_), None) => Err(Error::Unknown(request::GET_INFLIGHT_FD)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::message::{feature, MAX_FDS, NEED_REPLY, VERSION};
    use super::*;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::sync::mpsc::{self, Receiver};
    use std::thread::{self, JoinHandle};

    fn none(_: &[u8], _: &mut [u8]) -> usize {
        0
    }

    /// Starts serving a front end with a device that accepts everything. Returns the front end's
    /// socket, and the requests that the device receives. The socket has a timeout, so a failing
    /// test ends instead of hanging.
    fn running() -> (Socket, Receiver<Request>, JoinHandle<Result<(), Error>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let front_end = FrontEndConnection::new(theirs).unwrap();
        let (got, requests) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut device = |request| {
                let _ = got.send(request);
                Ok(Reply::Done)
            };
            front_end.run(&mut device, &none)
        });
        (Socket::new(ours), requests, thread)
    }

    /// Returns a SET_MEM_TABLE message with this many regions and the given descriptors.
    fn table(regions: usize, fds: Vec<OwnedFd>) -> Message {
        let mut payload = vec![0; 8 + 32 * regions];
        payload[0] = regions as u8;
        (0..regions).for_each(|n| payload[8 + 32 * n + 8] = 1);
        let mut message = Message::new(request::SET_MEM_TABLE, VERSION, payload);
        message.fds = fds;
        message
    }

    #[test]
    fn descriptors_arrive_with_their_message() {
        let (front_end, requests, thread) = running();
        let (mut readers, mut writers) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (reader, writer) = std::io::pipe().unwrap();
            readers.push(reader);
            writers.push(writer.into());
        }
        front_end.send(&table(2, writers)).unwrap();
        front_end
            .send(&Message::new(request::RESET_OWNER, VERSION, vec![]))
            .unwrap();
        let Request::SetMemory(regions) = requests.recv().unwrap() else {
            panic!("the first message");
        };
        for ((_, mut file), mut reader) in regions.into_iter().zip(readers) {
            file.write_all(b"a").unwrap();
            drop(file);
            assert_eq!(std::io::read_to_string(&mut reader).unwrap(), "a");
        }
        assert!(matches!(requests.recv().unwrap(), Request::Reset));
        drop(front_end);
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn a_message_may_come_byte_by_byte_and_is_answered() {
        let (front_end, requests, thread) = running();
        let features = Message::new(16, VERSION, feature::REPLY_ACK.to_le_bytes().to_vec());
        let flags = VERSION | NEED_REPLY;
        let kick = Message::new(request::SET_VRING_KICK, flags, vec![1; 8]);
        let mut stream = front_end.try_clone().unwrap();
        for byte in [&features.to_bytes()[..], &kick.to_bytes()].concat() {
            stream.write_all(&[byte]).unwrap();
        }
        let answer = front_end.receive().unwrap().unwrap();
        assert_eq!((answer.request, &answer.payload[..]), (12, &[0; 8][..]));
        assert!(matches!(
            requests.recv().unwrap(),
            Request::SetKick {
                ring: 1,
                file: None
            }
        ));
        drop((front_end, stream));
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn truncated_or_oversized_messages_end_the_connection_with_an_error() {
        let ends = |bytes: &[u8]| {
            let (front_end, _requests, thread) = running();
            let mut stream = front_end.try_clone().unwrap();
            stream.write_all(bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            thread.join().unwrap()
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
        assert!(matches!(
            ends(&header(26, 0)),
            Err(Error::NotNegotiated(26))
        ));
        assert!(ends(&header(3, 0)).is_ok());
        assert!(ends(&[]).is_ok());
    }

    #[test]
    fn descriptors_are_counted_over_all_parts_of_a_message() {
        let fds = |n: usize| -> Vec<OwnedFd> {
            let fd = || OwnedFd::from(File::open("/dev/null").unwrap());
            (0..n).map(|_| fd()).collect()
        };
        let (front_end, requests, thread) = running();
        front_end.send(&table(MAX_FDS, fds(MAX_FDS))).unwrap();
        let Request::SetMemory(regions) = requests.recv().unwrap() else {
            panic!("a table");
        };
        assert_eq!(regions.len(), MAX_FDS);
        // Send as many descriptors as allowed with the header, and one more with the payload.
        let whole = table(MAX_FDS, Vec::new()).to_bytes();
        for (bytes, n) in [(&whole[..12], MAX_FDS), (&whole[12..], 1)] {
            send_bytes(&front_end, bytes, &fds(n));
        }
        let done = thread.join().unwrap();
        assert!(matches!(done, Err(Error::TooManyFds)), "{done:?}");
    }

    fn send_bytes(socket: &Socket, bytes: &[u8], fds: &[OwnedFd]) {
        use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
        use std::os::fd::AsFd;
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let parts = [io::IoSlice::new(bytes)];
        sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    }

    /// Shutting the connection down ends the thread, whether it is waiting for a message, for the
    /// rest of a message, or for the front end to read its answers.
    #[test]
    fn a_connection_is_stopped_whatever_its_thread_waits_for() {
        for wait in 0..3 {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let last = theirs.try_clone().unwrap();
            let front_end = FrontEndConnection::new(theirs).unwrap();
            let thread = thread::spawn(move || front_end.run(&mut |_| Ok(Reply::Number(0)), &none));
            let mut stream = ours.try_clone().unwrap();
            match wait {
                1 => stream.write_all(&[1; 5]).unwrap(),
                2 => {
                    stream.set_nonblocking(true).unwrap();
                    let question = Message::new(request::GET_FEATURES, VERSION, vec![]).to_bytes();
                    let mut refusals = 0;
                    while refusals < 20 {
                        match stream.write(&question) {
                            Ok(n) if n == question.len() => refusals = 0,
                            Ok(_) => refusals = 20,
                            Err(_) => {
                                refusals += 1;
                                thread::sleep(Duration::from_millis(10));
                            }
                        }
                    }
                }
                _ => {}
            }
            last.shutdown(std::net::Shutdown::Both).unwrap();
            let _ = thread.join().unwrap();
        }
    }
}
