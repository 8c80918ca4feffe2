//! Serves the messages of one front end: checks them, passes requests to the device, and builds the
//! answers. This code does not use sockets, so tests and fuzzers can pass arbitrary messages.
//!
//! It also handles two peculiarities of QEMU's `cryptodev-vhost-user`, which sends sessions as
//! messages ([`session`]) and never enables its queue.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use kiln_virtio::wire::Features;

use super::error::Error;
use super::message::{
    feature, feature_of, is_request, max_fds, request, Message, MAX_GET_INFLIGHT, NEED_REPLY,
};
use super::payload::{self, InflightArea, Region, RingAddresses, CONFIG_HEADER_LEN};
use super::session::{self, Sessions};
use super::status::{Health, Status};

/// The feature bit VHOST_USER_F_PROTOCOL_FEATURES. If the front end acknowledges it, rings start
/// disabled and need SET_VRING_ENABLE.
pub(crate) const F_PROTOCOL_FEATURES: u64 = 1 << 30;

/// The bits that contain the ring index in the payload of SET_VRING_KICK, SET_VRING_CALL and
/// SET_VRING_ERR.
const VRING_IDX_MASK: u64 = 0xff;
/// The bit that is set if the message has no descriptor.
const VRING_NOFD_MASK: u64 = 0x100;

/// A request to the device.
#[derive(Debug)]
pub enum Request {
    Reset,
    /// Asks for the feature bits that the device offers.
    GetFeatures,
    /// Sets the feature bits that the front end accepted.
    SetFeatures(u64),
    /// Replaces all of the guest's memory regions.
    SetMemory(Vec<(Region, File)>),
    AddRegion(Region, File),
    RemoveRegion(Region),
    SetRingSize {
        ring: u32,
        size: u32,
    },
    SetRingAddresses {
        ring: u32,
        addresses: RingAddresses,
    },
    /// Sets the index of the next available entry.
    SetRingBase {
        ring: u32,
        base: u32,
    },
    /// Stops a ring and asks for the index of its next available entry.
    GetRingBase(u32),
    /// Starts a ring. Without a file, the device polls the ring.
    SetKick {
        ring: u32,
        file: Option<File>,
    },
    SetCall {
        ring: u32,
        file: Option<File>,
    },
    SetError {
        ring: u32,
        file: Option<File>,
    },
    EnableRing {
        ring: u32,
        enable: bool,
    },
    /// Asks for the number of queues.
    GetQueueNum,
    /// Asks how many memory regions the device accepts.
    GetMaxMemSlots,
    GetConfig {
        offset: u32,
        size: u32,
    },
    /// Requests memory for recording the in-flight requests of `queues` queues.
    GetInflight {
        queues: u16,
        queue_size: u16,
    },
    SetInflight(InflightArea, File),
    /// Passes the back-end channel, on which a device can send requests.
    SetBackendChannel(OwnedFd),
}

/// The device's reply to a [`Request`].
#[derive(Debug)]
pub enum Reply {
    Done,
    Number(u64),
    Config(Vec<u8>),
    Inflight(InflightArea),
}

/// The function with which the device serves a request. An error ends the connection, with one
/// exception: if `GetConfig` fails, the front end receives an answer with size 0.
pub type Serve<'a> = dyn FnMut(Request) -> Result<Reply, Error> + 'a;

/// An answer to the front end.
#[derive(Debug)]
pub enum Answer {
    Message(Message),
    /// The answer to GET_INFLIGHT_FD, which must carry a descriptor for this memory.
    Inflight(InflightArea),
}

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Protocol {
    /// Protocol features that the front end accepted.
    protocol_features: u64,
    /// Virtio feature bits that the front end accepted.
    acked_features: u64,
    status: Status,
    health: Arc<Health>,
    /// Number of times the front end has requested memory for recording in-flight requests.
    inflight_requests: u32,
}

impl Protocol {
    /// Creates the state for a connection to a device that reports its health in `health`.
    pub(crate) fn new(health: Arc<Health>) -> Protocol {
        Protocol {
            health,
            ..Protocol::default()
        }
    }

    /// Serves a message from the front end. Returns the answer, if there is one. Also returns an
    /// error if the connection must be closed after the answer is sent.
    pub fn handle(
        &mut self,
        message: Message,
        device: &mut Serve,
        sessions: &Sessions,
    ) -> (Option<Answer>, Result<(), Error>) {
        let request = message.request;
        let needs_reply = message.flags & NEED_REPLY != 0;
        let done = self.serve(message, device, sessions);
        let acknowledges = needs_reply && self.has(feature::REPLY_ACK) && !has_answer(request);
        let acknowledge = |status: u64| {
            let answer = Message::answer(request, status.to_le_bytes());
            acknowledges.then_some(Answer::Message(answer))
        };
        match done {
            Ok(None) => (acknowledge(0), Ok(())),
            Ok(answer) => (answer, Ok(())),
            Err(error) => (acknowledge(1), Err(error)),
        }
    }

    fn has(&self, feature: u64) -> bool {
        self.protocol_features & feature != 0
    }

    /// Serves a message. Returns the answer if the request has one of its own. For other requests,
    /// [`Protocol::handle`] builds the acknowledgement.
    fn serve(
        &mut self,
        message: Message,
        device: &mut Serve,
        sessions: &Sessions,
    ) -> Result<Option<Answer>, Error> {
        let Message {
            request,
            flags,
            payload,
            fds,
        } = message;
        if fds.len() > max_fds(request) {
            return Err(Error::TooManyFdsFor(request));
        }
        let malformed = || Error::Malformed(request);
        if !is_request(flags) {
            return Err(malformed());
        }
        let needed = feature_of(request);
        if self.protocol_features & needed != needed {
            return Err(Error::NotNegotiated(request));
        }
        let number = || payload::parse_number(&payload).ok_or_else(malformed);
        let ring = || payload::parse_ring(&payload).ok_or_else(malformed);
        let region = || Region::parse_single(&payload).ok_or_else(malformed);
        let mut files = fds.into_iter().map(File::from);
        // The requests listed here must have an empty payload. The payload of GET_STATUS and
        // SET_BACKEND_REQ_FD is ignored.
        let has_no_payload = matches!(
            request,
            request::GET_FEATURES
                | request::SET_OWNER
                | request::RESET_OWNER
                | request::GET_PROTOCOL_FEATURES
                | request::GET_QUEUE_NUM
                | request::RESET_DEVICE
                | request::GET_MAX_MEM_SLOTS
        );
        if has_no_payload && !payload.is_empty() {
            return Err(malformed());
        }
        let to_device = match request {
            request::SET_OWNER => return Ok(None),
            request::GET_PROTOCOL_FEATURES => return number_answer(request, feature::ALL),
            request::SET_PROTOCOL_FEATURES => {
                self.protocol_features = number()?;
                return Ok(None);
            }
            request::GET_STATUS => return number_answer(request, self.status.get(&self.health)),
            request::SET_STATUS => {
                let bits = payload::parse_number(&payload).ok_or(Error::Status)?;
                return match self.status.set(bits, &self.health) {
                    true if flags & NEED_REPLY != 0 => number_answer(request, 0),
                    true => Ok(None),
                    false => Err(Error::Status),
                };
            }
            request::CREATE_CRYPTO_SESSION => {
                let answer =
                    session::create(&payload, Features::new(self.acked_features), sessions);
                return Ok(Some(Answer::Message(Message::answer(request, answer))));
            }
            request::CLOSE_CRYPTO_SESSION => {
                let features = Features::new(self.acked_features);
                let is_closed = payload::parse_number(&payload)
                    .is_some_and(|id| session::close(id, features, sessions));
                // A front end that does not request an answer would not read it, so none is sent.
                return match flags & NEED_REPLY != 0 {
                    true => number_answer(request, u64::from(!is_closed)),
                    false => Ok(None),
                };
            }
            request::RESET_OWNER | request::RESET_DEVICE => Request::Reset,
            request::GET_FEATURES => Request::GetFeatures,
            request::SET_FEATURES => Request::SetFeatures(number()?),
            request::SET_MEM_TABLE => {
                let regions = Region::parse_table(&payload).ok_or_else(malformed)?;
                if regions.len() != files.len() {
                    return Err(malformed());
                }
                Request::SetMemory(regions.into_iter().zip(files).collect())
            }
            request::ADD_MEM_REG => {
                Request::AddRegion(region()?, files.next().ok_or_else(malformed)?)
            }
            request::REM_MEM_REG => Request::RemoveRegion(region()?),
            request::SET_VRING_NUM => {
                let (ring, size) = ring()?;
                Request::SetRingSize { ring, size }
            }
            request::SET_VRING_ADDR => {
                let (ring, addresses) = RingAddresses::parse(&payload).ok_or_else(malformed)?;
                Request::SetRingAddresses { ring, addresses }
            }
            request::SET_VRING_BASE => {
                let (ring, base) = ring()?;
                Request::SetRingBase { ring, base }
            }
            request::GET_VRING_BASE => Request::GetRingBase(ring()?.0),
            request::SET_VRING_KICK | request::SET_VRING_CALL | request::SET_VRING_ERR => {
                let (number, file) = (number()?, files.next());
                if (number & VRING_NOFD_MASK == 0) != file.is_some() {
                    return Err(malformed());
                }
                let ring = (number & VRING_IDX_MASK) as u32;
                match request {
                    request::SET_VRING_KICK => Request::SetKick { ring, file },
                    request::SET_VRING_CALL => Request::SetCall { ring, file },
                    _ => Request::SetError { ring, file },
                }
            }
            request::SET_VRING_ENABLE => {
                if self.acked_features & F_PROTOCOL_FEATURES == 0 {
                    return Err(Error::NotNegotiated(request));
                }
                let (ring, enable) = ring()?;
                if enable > 1 {
                    return Err(malformed());
                }
                let enable = enable == 1;
                Request::EnableRing { ring, enable }
            }
            request::GET_QUEUE_NUM => Request::GetQueueNum,
            request::GET_MAX_MEM_SLOTS => Request::GetMaxMemSlots,
            request::GET_CONFIG => {
                let (offset, size) = payload::parse_config(&payload).ok_or_else(malformed)?;
                let config = device(Request::GetConfig { offset, size });
                let mut answer = payload[..CONFIG_HEADER_LEN].to_vec();
                match config {
                    Ok(Reply::Config(bytes)) if bytes.len() == size as usize => {
                        answer.extend(bytes)
                    }
                    // A size of 0 reports the error, and the connection stays open.
                    refused => {
                        if let Err(error) = refused {
                            tracing::warn!(%error, "GET_CONFIG is refused");
                        }
                        answer[4..8].fill(0)
                    }
                }
                return Ok(Some(Answer::Message(Message::answer(request, answer))));
            }
            request::GET_INFLIGHT_FD => {
                let area = InflightArea::parse(&payload).ok_or_else(malformed)?;
                if self.inflight_requests == MAX_GET_INFLIGHT {
                    return Err(Error::TooManyInflightRequests);
                }
                self.inflight_requests += 1;
                Request::GetInflight {
                    queues: area.queues,
                    queue_size: area.queue_size,
                }
            }
            request::SET_INFLIGHT_FD => {
                let area = InflightArea::parse(&payload).ok_or_else(malformed)?;
                Request::SetInflight(area, files.next().ok_or_else(malformed)?)
            }
            request::SET_BACKEND_REQ_FD => {
                Request::SetBackendChannel(files.next().ok_or_else(malformed)?.into())
            }
            _ => return Err(Error::Unknown(request)),
        };
        let reply = device(to_device)?;
        match request {
            request::SET_FEATURES => {
                self.acked_features = number()?;
                self.status.took_features();
            }
            // QEMU's cryptodev negotiates protocol features, so queues start disabled, but it never
            // sends a message to enable them.
            request::SET_VRING_KICK if self.has(feature::CRYPTO_SESSION) => {
                let ring = (number()? & VRING_IDX_MASK) as u32;
                device(Request::EnableRing { ring, enable: true })?;
            }
            _ => {}
        }
        Ok(match reply {
            Reply::Number(base) if request == request::GET_VRING_BASE => {
                let answer = [ring()?.0, base as u32].map(u32::to_le_bytes).concat();
                Some(Answer::Message(Message::answer(request, answer)))
            }
            Reply::Number(number) => number_answer(request, number)?,
            Reply::Inflight(area) => Some(Answer::Inflight(area)),
            Reply::Done | Reply::Config(_) => None,
        })
    }
}

fn number_answer(request: u32, number: u64) -> Result<Option<Answer>, Error> {
    let answer = Message::answer(request, number.to_le_bytes());
    Ok(Some(Answer::Message(answer)))
}

/// Returns whether [`Protocol::serve`] builds the answer, so that [`Protocol::handle`] must not
/// acknowledge the request. SET_STATUS and CLOSE_CRYPTO_SESSION are acknowledged even if REPLY_ACK
/// was not negotiated, because QEMU waits for that.
fn has_answer(request: u32) -> bool {
    matches!(
        request,
        request::GET_FEATURES
            | request::GET_VRING_BASE
            | request::GET_PROTOCOL_FEATURES
            | request::GET_QUEUE_NUM
            | request::GET_CONFIG
            | request::CREATE_CRYPTO_SESSION
            | request::CLOSE_CRYPTO_SESSION
            | request::GET_INFLIGHT_FD
            | request::GET_MAX_MEM_SLOTS
            | request::GET_STATUS
            | request::SET_STATUS
    )
}

#[cfg(test)]
mod tests {
    use super::super::message::{REPLY, VERSION};
    use super::*;
    use proptest::prelude::*;

    /// A session table that returns session 5 for every request.
    fn five(_: &[u8], answer: &mut [u8]) -> usize {
        answer.fill(0);
        answer[0] = if answer.len() > 1 { 5 } else { 0 };
        answer.len()
    }

    fn number(request: u32, number: u64) -> Message {
        Message::new(request, VERSION, number.to_le_bytes().to_vec())
    }

    fn bare(request: u32) -> Message {
        Message::new(request, VERSION, Vec::new())
    }

    fn with_fds(request: u32, fds: usize) -> Message {
        let mut message = number(request, 0);
        let fd = || File::open("/dev/null").unwrap().into();
        message.fds = (0..fds).map(|_| fd()).collect();
        message
    }

    /// A device that records the requests it receives, and a connection to it.
    #[derive(Default)]
    struct Rig {
        protocol: Protocol,
        requests: Vec<String>,
    }

    type Done = Result<Option<(u32, Vec<u8>)>, Error>;

    impl Rig {
        /// Creates a connection whose front end has accepted these protocol features.
        fn new(features: u64) -> Rig {
            let mut rig = Rig::default();
            let set = rig.handle(number(request::SET_PROTOCOL_FEATURES, features));
            assert!(matches!(set, Ok(None)));
            rig
        }

        /// Handles a message. Returns the answer's request number and payload.
        fn handle(&mut self, message: Message) -> Done {
            self.handle_with_answer(message).1
        }

        /// Handles a message. Also returns whether there was an answer, even if handling failed.
        fn handle_with_answer(&mut self, message: Message) -> (bool, Done) {
            let requests = &mut self.requests;
            let mut device = |request: Request| {
                requests.push(format!("{request:?}"));
                Ok(match request {
                    Request::GetFeatures | Request::GetQueueNum => Reply::Number(1 << 30),
                    Request::GetRingBase(_) => Reply::Number(7),
                    Request::GetMaxMemSlots => Reply::Number(509),
                    Request::GetConfig { offset: 0, size } => Reply::Config(vec![9; size as usize]),
                    Request::GetConfig { .. } | Request::RemoveRegion(_) => {
                        return Err(Error::Refused("as told".into()))
                    }
                    Request::GetInflight { queues, queue_size } => Reply::Inflight(InflightArea {
                        size: 1,
                        offset: 0,
                        queues,
                        queue_size,
                    }),
                    _ => Reply::Done,
                })
            };
            let (answer, done) = self.protocol.handle(message, &mut device, &five);
            let is_answered = answer.is_some();
            let answer = answer.map(|answer| match answer {
                Answer::Message(message) => {
                    assert_eq!(message.flags, VERSION | REPLY);
                    (message.request, message.payload.to_vec())
                }
                Answer::Inflight(area) => (request::GET_INFLIGHT_FD, area.emit().to_vec()),
            });
            (is_answered, done.map(|()| answer))
        }
    }

    fn session() -> Message {
        let mut payload = vec![0; 632];
        payload[32] = 1;
        Message::new(request::CREATE_CRYPTO_SESSION, VERSION, payload)
    }

    #[test]
    fn protocol_features_are_those_of_the_messages_that_are_served() {
        let answer = Rig::default().handle(bare(request::GET_PROTOCOL_FEATURES));
        let features = 0x1_b2a9u64.to_le_bytes().to_vec();
        assert_eq!(answer.unwrap(), Some((15, features)));
        for request in 0..64 {
            let needed = feature_of(request);
            assert_eq!(needed & !feature::ALL, 0);
            let refused = Rig::new(feature::ALL & !needed).handle(number(request, 0));
            let is_refused = matches!(refused, Err(Error::NotNegotiated(n)) if n == request);
            // A message can enable a queue only if the front end accepted the virtio feature bit
            // for protocol features.
            let by_virtio = request == request::SET_VRING_ENABLE;
            assert_eq!(is_refused, needed != 0 || by_virtio, "{request}");
        }
    }

    #[test]
    fn a_kick_enables_the_queue_only_with_crypto_session() {
        for (features, requests) in [(feature::CRYPTO_SESSION, 2), (feature::MQ, 1)] {
            let mut rig = Rig::new(features);
            rig.handle(number(request::SET_VRING_KICK, 0x101)).unwrap();
            assert_eq!(rig.requests[0], "SetKick { ring: 1, file: None }");
            assert_eq!(rig.requests.len(), requests);
            if requests == 2 {
                assert_eq!(rig.requests[1], "EnableRing { ring: 1, enable: true }");
            }
        }
    }

    #[test]
    fn a_request_of_each_kind_reaches_the_device() {
        let mut rig = Rig::new(feature::ALL);
        let mut region = vec![0; 40];
        (region[8], region[16], region[24], region[32]) = (2, 3, 4, 5);
        let mut table = region.clone();
        table[0] = 1;
        let mut area = vec![0; 24];
        (area[16], area[18]) = (2, 16);
        let payload = |request, payload: &[u8]| Message::new(request, VERSION, payload.to_vec());
        let with_file = |mut message: Message| {
            message.fds.push(File::open("/dev/null").unwrap().into());
            message
        };
        let ring = [3, 0, 0, 0, 1, 0, 0, 0];
        let config = [0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for (message, wanted, answer) in [
            (bare(request::GET_FEATURES), "GetFeatures", 8),
            (number(request::SET_FEATURES, 1 << 30), "SetFeatures", 0),
            (with_file(payload(5, &table)), "SetMemory([(Region {", 0),
            (
                payload(request::SET_VRING_NUM, &ring),
                "SetRingSize { ring: 3, size: 1",
                0,
            ),
            (
                payload(request::SET_VRING_ADDR, &[0; 40]),
                "SetRingAddresses { ring: 0",
                0,
            ),
            (
                payload(request::SET_VRING_BASE, &ring),
                "SetRingBase { ring: 3, base: 1",
                0,
            ),
            (payload(request::GET_VRING_BASE, &ring), "GetRingBase(3)", 8),
            (
                with_file(number(request::SET_VRING_KICK, 1)),
                "SetKick { ring: 1, file: Some",
                0,
            ),
            (
                number(request::SET_VRING_CALL, 0x100),
                "SetCall { ring: 0, file: None",
                0,
            ),
            (
                with_file(number(request::SET_VRING_ERR, 2)),
                "SetError { ring: 2, file: Some",
                0,
            ),
            (bare(request::GET_QUEUE_NUM), "GetQueueNum", 8),
            (
                payload(request::SET_VRING_ENABLE, &ring),
                "EnableRing { ring: 3, enable: true",
                0,
            ),
            (
                with_file(number(request::SET_BACKEND_REQ_FD, 0)),
                "SetBackendChannel",
                0,
            ),
            (
                payload(request::GET_CONFIG, &config),
                "GetConfig { offset: 0, size: 2",
                14,
            ),
            (
                payload(31, &area),
                "GetInflight { queues: 2, queue_size: 16",
                24,
            ),
            (
                with_file(payload(32, &area)),
                "SetInflight(InflightArea {",
                0,
            ),
            (bare(request::RESET_DEVICE), "Reset", 0),
            (bare(request::RESET_OWNER), "Reset", 0),
            (
                with_file(payload(37, &region)),
                "AddRegion(Region { guest: 2, size: 3",
                0,
            ),
        ] {
            let before = rig.requests.len();
            let request = message.request;
            let answered = rig.handle(message).unwrap();
            let made = &rig.requests[before];
            assert!(made.starts_with(wanted), "{made}");
            assert_eq!(
                answered.as_ref().map_or(0, |(_, p)| p.len()),
                answer,
                "{wanted}"
            );
            assert!(answered.is_none_or(|(of, _)| of == request));
        }
        let base = rig.handle(payload(request::GET_VRING_BASE, &ring)).unwrap();
        assert_eq!(base.unwrap().1, [3, 0, 0, 0, 7, 0, 0, 0]);
        let slots = rig.handle(bare(request::GET_MAX_MEM_SLOTS)).unwrap();
        assert_eq!(slots.unwrap().1, 509u64.to_le_bytes());
        assert!(matches!(rig.handle(bare(request::SET_OWNER)), Ok(None)));
        // If the requested part of the configuration does not exist, the answer has size 0.
        let mut beyond = config;
        beyond[0] = 1;
        let none = rig.handle(payload(request::GET_CONFIG, &beyond)).unwrap();
        assert_eq!(none.unwrap().1, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_message_that_is_not_as_specified_ends_the_connection_before_the_device_sees_it() {
        let mut rig = Rig::new(feature::ALL);
        rig.handle(number(request::SET_FEATURES, F_PROTOCOL_FEATURES))
            .unwrap();
        rig.requests.clear();
        let flagged = |flags| Message::new(request::GET_FEATURES, flags, Vec::new());
        let two = |request| Message::new(request, VERSION, [3, 0, 0, 0, 2, 0, 0, 0].to_vec());
        let mut table = Message::new(request::SET_MEM_TABLE, VERSION, vec![0; 40]);
        (table.payload[0], table.payload[16]) = (1, 1);
        for message in [
            flagged(0),
            flagged(2),
            flagged(VERSION | REPLY),
            flagged(VERSION | 0x10),
            number(request::GET_FEATURES, 0),
            number(request::RESET_DEVICE, 0),
            bare(request::SET_FEATURES),
            bare(request::SET_VRING_NUM),
            two(request::SET_VRING_ENABLE),
            number(request::SET_VRING_KICK, 0),
            with_fds(request::SET_VRING_CALL, 0),
            number(request::SET_BACKEND_REQ_FD, 0),
            number(request::ADD_MEM_REG, 0),
            number(request::REM_MEM_REG, 0),
            number(request::GET_INFLIGHT_FD, 0),
            table,
        ] {
            let request = message.request;
            let done = rig.handle(message);
            assert!(
                matches!(done, Err(Error::Malformed(n)) if n == request),
                "{done:?}"
            );
        }
        // Pass a descriptor with a message that claims not to have one.
        let mut kick = with_fds(request::SET_VRING_KICK, 1);
        kick.payload[1] = 1;
        assert!(matches!(rig.handle(kick), Err(Error::Malformed(_))));
        for request in [0, 6, 7, 19, 20, 25, 33, 41, 44, u32::MAX] {
            let done = rig.handle(bare(request));
            assert!(
                matches!(done, Err(Error::Unknown(n)) if n == request),
                "{done:?}"
            );
        }
        assert!(rig.requests.is_empty(), "{:?}", rig.requests);
    }

    #[test]
    fn a_request_is_acknowledged_only_if_negotiated_and_requested() {
        let wanted = |mut message: Message| {
            message.flags |= NEED_REPLY;
            message
        };
        let mut rig = Rig::new(feature::ALL);
        let done = rig.handle(wanted(bare(request::SET_OWNER))).unwrap();
        assert_eq!(done, Some((request::SET_OWNER, vec![0; 8])));
        assert_eq!(rig.handle(bare(request::SET_OWNER)).unwrap(), None);
        // A refusal is acknowledged as well, and ends the connection.
        let mut remove = Message::new(request::REM_MEM_REG, VERSION, vec![1; 40]);
        remove.flags |= NEED_REPLY;
        let refused = rig.handle_with_answer(remove);
        assert!(matches!(refused, (true, Err(Error::Refused(_)))));
        let base = wanted(Message::new(request::GET_VRING_BASE, VERSION, vec![0; 7]));
        assert!(matches!(
            rig.handle_with_answer(base),
            (false, Err(Error::Malformed(11)))
        ));
        let mut rig = Rig::new(feature::ALL & !feature::REPLY_ACK);
        assert_eq!(rig.handle(wanted(bare(request::SET_OWNER))).unwrap(), None);
    }

    /// The specification defines how many descriptors a request may have.
    #[test]
    fn a_request_with_too_many_descriptors_is_refused() {
        for request in 0..64 {
            let most = match request {
                5 => 8,
                12..=14 | 21 | 32 | 37 | 38 => 1,
                _ => 0,
            };
            let send = |fds| Rig::new(feature::ALL).handle(with_fds(request, fds));
            assert!(
                !matches!(send(most), Err(Error::TooManyFdsFor(_))),
                "{request}"
            );
            assert!(matches!(send(most + 1), Err(Error::TooManyFdsFor(n)) if n == request));
        }
        // REM_MEM_REG accepts one descriptor and ignores it.
        let mut remove = with_fds(request::REM_MEM_REG, 1);
        remove.payload = vec![1; 40].into();
        let mut rig = Rig::new(feature::ALL);
        assert!(matches!(rig.handle(remove), Err(Error::Refused(_))));
        assert!(rig.requests[0].starts_with("RemoveRegion(Region {"));
    }

    /// The number of answers is limited because a front end may leave them unread, along with the
    /// descriptors that they carry.
    #[test]
    fn get_inflight_fd_is_answered_four_times() {
        let mut rig = Rig::new(feature::ALL);
        let mut area = vec![0; 24];
        (area[16], area[18]) = (2, 16);
        let ask = || Message::new(request::GET_INFLIGHT_FD, VERSION, area.clone());
        for _ in 0..MAX_GET_INFLIGHT {
            assert!(rig.handle(ask()).unwrap().is_some());
        }
        assert!(matches!(
            rig.handle(ask()),
            Err(Error::TooManyInflightRequests)
        ));
    }

    #[test]
    fn a_session_is_created_and_closed_and_the_close_is_answered_only_if_that_is_wanted() {
        let mut rig = Rig::new(feature::CRYPTO_SESSION);
        let (of, answer) = rig.handle(session()).unwrap().unwrap();
        assert_eq!((of, &answer[..8]), (26, &5u64.to_le_bytes()[..]));
        let close = || number(request::CLOSE_CRYPTO_SESSION, 5);
        assert_eq!(rig.handle(close()).unwrap(), None);
        let mut wanted = close();
        wanted.flags |= NEED_REPLY;
        assert_eq!(rig.handle(wanted).unwrap(), Some((27, vec![0; 8])));
        let refused = Rig::default().handle(session());
        assert!(matches!(refused, Err(Error::NotNegotiated(26))));
    }

    #[test]
    fn a_status_is_set_and_read_only_if_the_feature_was_accepted() {
        let get = || bare(request::GET_STATUS);
        for message in [get(), number(request::SET_STATUS, 1)] {
            let wanted = message.request;
            let done = Rig::default().handle(message);
            assert!(matches!(done, Err(Error::NotNegotiated(n)) if n == wanted));
        }
        let mut rig = Rig::new(feature::STATUS);
        let mut set = number(request::SET_STATUS, 3);
        set.flags |= NEED_REPLY;
        for (message, answer) in [
            (number(request::SET_STATUS, 1), None),
            (get(), Some(1u64)),
            (set, Some(0)),
            (get(), Some(3)),
        ] {
            let done = rig.handle(message).unwrap();
            let wanted = answer.map(|n| n.to_le_bytes().to_vec());
            assert_eq!(done.map(|(_, payload)| payload), wanted);
        }
        for wrong in [vec![], vec![0; 4], 256u64.to_le_bytes().to_vec()] {
            let message = Message::new(request::SET_STATUS, VERSION, wrong);
            assert!(matches!(rig.handle(message), Err(Error::Status)));
        }
        assert!(rig.requests.is_empty(), "the device is not asked");
    }

    #[test]
    fn the_form_of_control_requests_is_the_one_that_was_accepted() {
        for (features, len) in [(0, 16 + 56), (1, 16 + 8)] {
            let whole = |request: &[u8], answer: &mut [u8]| {
                answer[0] = u8::from(request.len() != len);
                1
            };
            let mut device = |_: Request| Ok(Reply::Done);
            let mut protocol = Protocol::default();
            let mut close = number(request::CLOSE_CRYPTO_SESSION, 5);
            close.flags |= NEED_REPLY;
            let mut last = None;
            for message in [
                number(request::SET_PROTOCOL_FEATURES, feature::CRYPTO_SESSION),
                number(request::SET_FEATURES, features | F_PROTOCOL_FEATURES),
                close,
            ] {
                let (answer, done) = protocol.handle(message, &mut device, &whole);
                done.unwrap();
                last = answer;
            }
            let Some(Answer::Message(answer)) = last else {
                panic!("{last:?}");
            };
            assert_eq!(answer.payload[..], [0; 8]);
        }
    }

    proptest! {
        #[test]
        fn a_reply_repeats_the_request_number_and_has_a_bounded_length(
            features in any::<u64>(),
            messages in proptest::collection::vec(
                (
                    prop_oneof![0u32..45, any::<u32>()],
                    prop_oneof![Just(VERSION), Just(VERSION | NEED_REPLY), any::<u32>()],
                    prop_oneof![
                        Just(Vec::new()),
                        proptest::collection::vec(any::<u8>(), 8),
                        proptest::collection::vec(any::<u8>(), 0..100),
                        proptest::collection::vec(any::<u8>(), 632),
                    ],
                ),
                0..60,
            )
        ) {
            let mut rig = Rig::new(features);
            for (request, flags, payload) in messages {
                let len = payload.len();
                let answered = rig.handle(Message::new(request, flags, payload));
                if let Ok(Some((of, answer))) = answered {
                    prop_assert_eq!(of, request);
                    prop_assert!(answer.len() <= len.max(24));
                }
            }
        }
    }
}
