//! Decides for each message whether to forward, correct or answer it. This code does not use
//! sockets, so tests and fuzzers can pass arbitrary bytes.

use std::sync::Arc;

use kiln_virtio::wire::Features;

use super::error::Error;
use super::memory;
use super::message::{
    most_fds, request, Message, ANSWERS, CRYPTO_SESSION, MOST_FDS, NEED_REPLY, STATUS, VERSION,
};
use super::session::{self, Sessions};
use super::status::{Health, Status};

/// Bits of the SET_VRING_KICK payload that hold the queue number. If the next higher bit is set,
/// the message carries no descriptor.
const QUEUE: u64 = 0xff;

/// Protocol features that the adapter itself implements.
const OWN: u64 = CRYPTO_SESSION | STATUS;

/// Maximum number of descriptors in flight (sent but not yet received) on one connection: those of
/// one front-end message, and of the answers.
///
/// The kernel counts descriptors in flight per user, across all processes. A process cannot send
/// any while the count exceeds its RLIMIT_NOFILE.
pub(crate) const IN_FLIGHT: u64 = MOST_FDS as u64 + ANSWERS as u64;

/// A message's destination.
#[derive(Debug)]
pub enum To {
    Device(Message),
    FrontEnd(Message),
}

/// One connection's state.
#[derive(Debug, Default)]
pub struct Conversation {
    /// Whether the front end negotiated session messages, which only QEMU's cryptodev does.
    sessions: bool,
    /// Whether the front end negotiated the messages about the device status.
    has_status: bool,
    status: Status,
    health: Arc<Health>,
    /// Feature bits the front end accepted.
    features: u64,
    /// Set while the device may not have processed everything sent to it.
    unseen: bool,
    /// Number of GET_FEATURES requests from the front end that the device has not answered yet.
    asked: u32,
    /// Set while descriptors sent to the device may not have been received yet, or a request for a
    /// descriptor may be unanswered.
    carried: bool,
    /// Number of times the front end has requested memory for recording in-flight requests.
    answers: u32,
    /// A message held back until the device has processed everything before it.
    held: Option<Message>,
}

impl Conversation {
    /// Creates the state for a connection to a device that reports its health in `health`.
    pub(crate) fn new(health: Arc<Health>) -> Conversation {
        Conversation {
            health,
            ..Conversation::default()
        }
    }

    /// Returns whether a message is being held back. If so, the caller must not read from the front
    /// end.
    pub fn waits(&self) -> bool {
        self.held.is_some()
    }

    /// Handles a message from the front end.
    ///
    /// # Errors
    /// Fails if the front end did not negotiate the feature that the message belongs to, if the
    /// message sets an invalid device status, or if it has more descriptors than its request may
    /// have.
    pub fn handle_front_end(
        &mut self,
        message: Message,
        sessions: &Sessions,
    ) -> Result<Vec<To>, Error> {
        if message.fds.len() > most_fds(message.request) {
            return Err(Error::Fds(message.request));
        }
        match message.request {
            request::CREATE_CRYPTO_SESSION | request::CLOSE_CRYPTO_SESSION => {
                return self.about_session(message, sessions);
            }
            request::GET_STATUS | request::SET_STATUS => return self.about_status(&message),
            request::GET_INFLIGHT_FD if self.answers == ANSWERS => {
                return Err(Error::TooManyAnswers);
            }
            request::GET_INFLIGHT_FD => self.answers += 1,
            _ => {}
        }
        // At most one message with descriptors is on its way to the device.
        if carries(&message) && self.carried {
            return Ok(self.hold(message));
        }
        Ok(self.forward(message))
    }

    /// Returns the message to the device, and what has to follow it.
    fn forward(&mut self, mut message: Message) -> Vec<To> {
        let mut more = None;
        self.carried |= carries(&message);
        match message.request {
            request::REM_MEM_REG => message.fds.clear(),
            request::SET_MEM_TABLE => memory::trim(&mut message.payload),
            request::GET_FEATURES => self.asked = self.asked.saturating_add(1),
            request::SET_FEATURES => {
                self.features = message.number().unwrap_or(self.features);
                self.status.took_features();
            }
            request::SET_PROTOCOL_FEATURES => {
                if let Some(features) = message.number() {
                    self.sessions = features & CRYPTO_SESSION != 0;
                    self.has_status = features & STATUS != 0;
                    message = message.with_number(features & !OWN);
                }
            }
            // QEMU's cryptodev negotiates protocol features, which makes queues start disabled, but
            // never sends a message to enable them.
            request::SET_VRING_KICK if self.sessions => {
                more = message.number().map(|n| enable(n & QUEUE));
            }
            _ => {}
        }
        self.unseen = true;
        let more = more.map(To::Device);
        [To::Device(message)].into_iter().chain(more).collect()
    }

    /// Holds a message back, and asks the device whether it has processed all earlier ones.
    fn hold(&mut self, message: Message) -> Vec<To> {
        self.held = Some(message);
        let question = Message::new(request::GET_FEATURES, VERSION, Vec::new());
        vec![To::Device(question)]
    }

    pub fn handle_device(&mut self, message: Message, sessions: &Sessions) -> Vec<To> {
        match (message.request, message.number()) {
            (request::GET_PROTOCOL_FEATURES, Some(features)) => {
                vec![To::FrontEnd(message.with_number(features | OWN))]
            }
            (request::GET_FEATURES, _) if self.asked > 0 => {
                self.asked -= 1;
                vec![To::FrontEnd(message)]
            }
            // This is the answer to the adapter's own request, so the device has processed all
            // earlier messages.
            (request::GET_FEATURES, _) if self.waits() => {
                (self.unseen, self.carried) = (false, false);
                let Some(held) = self.held.take() else {
                    return Vec::new();
                };
                if carries(&held) {
                    return self.forward(held);
                }
                let answer = self.serve(held, sessions);
                answer.into_iter().map(To::FrontEnd).collect()
            }
            _ => vec![To::FrontEnd(message)],
        }
    }

    /// Handles a message that creates or closes a session. If the device has yet to process a
    /// reset, the reset would remove a session created now. The message is therefore held back
    /// until the device has answered a query.
    fn about_session(&mut self, message: Message, sessions: &Sessions) -> Result<Vec<To>, Error> {
        if !self.sessions {
            return Err(Error::NotAgreed(message.request));
        }
        if self.unseen {
            return Ok(self.hold(message));
        }
        let answer = self.serve(message, sessions);
        Ok(answer.into_iter().map(To::FrontEnd).collect())
    }

    fn about_status(&mut self, message: &Message) -> Result<Vec<To>, Error> {
        if !self.has_status {
            return Err(Error::NotAgreed(message.request));
        }
        let answer = |number: u64| {
            let answer = Message::answer(message.request, number.to_le_bytes().to_vec());
            vec![To::FrontEnd(answer)]
        };
        if message.request == request::GET_STATUS {
            return Ok(answer(self.status.get(&self.health)));
        }
        let bits = message.number().ok_or(Error::Status)?;
        match self.status.set(bits, &self.health) {
            true if message.flags & NEED_REPLY != 0 => Ok(answer(0)),
            true => Ok(Vec::new()),
            false => Err(Error::Status),
        }
    }

    fn serve(&self, message: Message, sessions: &Sessions) -> Option<Message> {
        let features = Features::new(self.features);
        if message.request == request::CREATE_CRYPTO_SESSION {
            let answer = session::create(&message.payload, features, sessions);
            return Some(Message::answer(message.request, answer));
        }
        let closed = message
            .number()
            .is_some_and(|id| session::close(id, features, sessions));
        // Send the acknowledgement only if the front end requested one.
        let wanted = message.flags & NEED_REPLY != 0;
        let answer = Message::answer(message.request, u64::from(!closed).to_le_bytes().to_vec());
        wanted.then_some(answer)
    }
}

/// Returns whether the message, or its answer, has descriptors. The device processes messages in
/// order, so it has received all descriptors once it has answered a later question.
fn carries(message: &Message) -> bool {
    !message.fds.is_empty() || message.request == request::GET_INFLIGHT_FD
}

/// Builds a message that enables a queue. NEED_REPLY is not set, so the device does not answer.
fn enable(queue: u64) -> Message {
    let payload = [(queue as u32).to_le_bytes(), 1u32.to_le_bytes()].concat();
    Message::new(request::SET_VRING_ENABLE, VERSION, payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::message::{word, REPLY};
    use proptest::prelude::*;

    fn number(request: u32, number: u64) -> Message {
        Message::new(request, VERSION, number.to_le_bytes().to_vec())
    }

    fn reply(request: u32, number: u64) -> Message {
        Message::answer(request, number.to_le_bytes().to_vec())
    }

    /// Serves as a session table that returns session 5 for every request.
    fn five(_: &[u8], answer: &mut [u8]) -> usize {
        answer.fill(0);
        answer[0] = if answer.len() > 1 { 5 } else { 0 };
        answer.len()
    }

    /// Returns the request codes in the order they are sent. Codes of messages to the front end are
    /// negated.
    fn codes(to: &[To]) -> Vec<i64> {
        let code = |to: &To| match to {
            To::Device(m) => i64::from(m.request),
            To::FrontEnd(m) => -i64::from(m.request),
        };
        to.iter().map(code).collect()
    }

    fn qemu() -> Conversation {
        let mut conversation = Conversation::default();
        let taken = number(request::SET_PROTOCOL_FEATURES, CRYPTO_SESSION | 9);
        let to = conversation.handle_front_end(taken, &five).unwrap();
        let To::Device(message) = &to[0] else {
            panic!("{to:?}");
        };
        assert_eq!(message.number(), Some(9), "the device has no such feature");
        conversation
    }

    fn session() -> Message {
        let mut payload = vec![0; 632];
        payload[32] = 1;
        Message::new(request::CREATE_CRYPTO_SESSION, VERSION, payload)
    }

    #[test]
    fn the_feature_is_offered_with_those_of_the_device() {
        let offered = reply(request::GET_PROTOCOL_FEATURES, 0x229);
        let to = Conversation::default().handle_device(offered, &five);
        let [To::FrontEnd(message)] = &to[..] else {
            panic!("{to:?}");
        };
        assert_eq!(message.number(), Some(0x1_02a9));
        assert_eq!(message.flags, VERSION | REPLY);
    }

    #[test]
    fn qemus_queue_is_switched_on_behind_its_kick_and_nobody_elses() {
        let kick = || number(request::SET_VRING_KICK, 0x101);
        let to = qemu().handle_front_end(kick(), &five).unwrap();
        assert_eq!(codes(&to), [12, 18]);
        let To::Device(enable) = &to[1] else {
            panic!("{to:?}");
        };
        assert_eq!(enable.payload[..], [1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(enable.flags, VERSION, "no answer comes back");
        let to = Conversation::default()
            .handle_front_end(kick(), &five)
            .unwrap();
        assert_eq!(codes(&to), [12]);
    }

    #[test]
    fn a_session_waits_until_the_device_has_seen_what_came_before() {
        let mut conversation = qemu();
        let to = conversation.handle_front_end(session(), &five).unwrap();
        assert_eq!(codes(&to), [1]);
        assert!(conversation.waits());
        // The device acknowledges an earlier message.
        let to = conversation.handle_device(reply(request::SET_MEM_TABLE, 0), &five);
        assert_eq!(codes(&to), [-5]);
        assert!(conversation.waits());
        let to = conversation.handle_device(reply(request::GET_FEATURES, 1), &five);
        assert_eq!(codes(&to), [-26]);
        let To::FrontEnd(answer) = &to[0] else {
            panic!("{to:?}");
        };
        assert_eq!(answer.payload[..8], 5u64.to_le_bytes());
        // Nothing was sent to the device since its answer, so the session is created immediately.
        let to = conversation.handle_front_end(session(), &five).unwrap();
        assert_eq!(codes(&to), [-26]);
    }

    #[test]
    fn the_front_ends_own_question_is_answered_first() {
        let mut conversation = qemu();
        let question = Message::new(request::GET_FEATURES, VERSION, vec![]);
        conversation.handle_front_end(question, &five).unwrap();
        conversation.handle_front_end(session(), &five).unwrap();
        let to = conversation.handle_device(reply(request::GET_FEATURES, 1), &five);
        assert_eq!(codes(&to), [-1]);
        assert!(conversation.waits());
        let to = conversation.handle_device(reply(request::GET_FEATURES, 1), &five);
        assert_eq!(codes(&to), [-26]);
    }

    fn with_fds(request: u32, fds: usize) -> Message {
        let mut message = number(request, 0);
        let fd = || std::fs::File::open("/dev/null").unwrap().into();
        message.fds = (0..fds).map(|_| fd()).collect();
        message
    }

    /// A request may have the descriptors that the specification gives it, and no more.
    #[test]
    fn a_request_has_no_more_descriptors_than_it_may_have() {
        for request in 0..64 {
            let most = match request {
                5 => 8,
                12..=14 | 21 | 32 | 37 | 38 => 1,
                _ => 0,
            };
            let send =
                |fds| Conversation::default().handle_front_end(with_fds(request, fds), &five);
            assert!(!matches!(send(most), Err(Error::Fds(_))), "{request}");
            assert!(matches!(send(most + 1), Err(Error::Fds(n)) if n == request));
        }
        let to = Conversation::default().handle_front_end(with_fds(38, 1), &five);
        let [To::Device(passed)] = &to.unwrap()[..] else {
            panic!("one message");
        };
        assert!(passed.fds.is_empty(), "it is closed");
    }

    /// Descriptors in flight to the device use up a limit that all guests of the device's user
    /// share.
    #[test]
    fn one_message_with_descriptors_at_a_time_is_on_its_way_to_the_device() {
        let mut conversation = Conversation::default();
        let to = conversation
            .handle_front_end(with_fds(13, 1), &five)
            .unwrap();
        assert_eq!(codes(&to), [13]);
        // Messages without descriptors do not wait.
        let to = conversation
            .handle_front_end(with_fds(13, 0), &five)
            .unwrap();
        assert_eq!(codes(&to), [13]);
        for next in [14, 5, 31, 13] {
            let fds = usize::from(next != 31);
            let to = conversation.handle_front_end(with_fds(next, fds), &five);
            assert_eq!(codes(&to.unwrap()), [1], "the device is asked");
            assert!(conversation.waits());
            let to = conversation.handle_device(reply(request::GET_FEATURES, 1), &five);
            assert_eq!(codes(&to), [i64::from(next)]);
            let [To::Device(passed)] = &to[..] else {
                panic!("{to:?}");
            };
            assert!(passed.fds.len() == fds && !conversation.waits());
        }
    }

    /// A front end may leave the answers and their descriptors unread.
    #[test]
    fn answers_with_descriptors_are_few() {
        let mut conversation = Conversation::default();
        for _ in 0..ANSWERS {
            let to = conversation.handle_front_end(with_fds(31, 0), &five);
            to.unwrap();
            conversation.handle_device(reply(request::GET_FEATURES, 1), &five);
        }
        let to = conversation.handle_front_end(with_fds(31, 0), &five);
        assert!(matches!(to, Err(Error::TooManyAnswers)));
    }

    #[test]
    fn a_close_is_answered_only_if_that_is_wanted() {
        let mut conversation = qemu();
        conversation.unseen = false;
        let mut close = number(request::CLOSE_CRYPTO_SESSION, 5);
        assert!(conversation
            .handle_front_end(close, &five)
            .unwrap()
            .is_empty());
        close = number(request::CLOSE_CRYPTO_SESSION, 5);
        close.flags |= NEED_REPLY;
        let to = conversation.handle_front_end(close, &five).unwrap();
        let [To::FrontEnd(answer)] = &to[..] else {
            panic!("{to:?}");
        };
        assert_eq!(answer.number(), Some(0));
    }

    #[test]
    fn who_did_not_agree_has_no_sessions() {
        let to = Conversation::default().handle_front_end(session(), &five);
        assert!(matches!(to, Err(Error::NotAgreed(26))));
    }

    #[test]
    fn a_status_is_set_and_read_only_by_who_agreed_on_it() {
        let get = || Message::new(request::GET_STATUS, VERSION, vec![]);
        let mut conversation = Conversation::default();
        for message in [get(), number(request::SET_STATUS, 1)] {
            let wanted = message.request;
            let to = conversation.handle_front_end(message, &five);
            assert!(matches!(to, Err(Error::NotAgreed(n)) if n == wanted));
        }
        let agreed = number(request::SET_PROTOCOL_FEATURES, STATUS | 9);
        let to = conversation.handle_front_end(agreed, &five).unwrap();
        let [To::Device(passed)] = &to[..] else {
            panic!("{to:?}");
        };
        assert_eq!(passed.number(), Some(9), "the device has no such feature");
        let mut set = number(request::SET_STATUS, 3);
        set.flags |= NEED_REPLY;
        for (message, answer) in [
            (number(request::SET_STATUS, 1), None),
            (get(), Some(1)),
            (set, Some(0)),
            (get(), Some(3)),
        ] {
            let to = conversation.handle_front_end(message, &five).unwrap();
            let got = to.first().map(|to| match to {
                To::FrontEnd(message) => message.number().unwrap(),
                To::Device(_) => panic!("the device is not asked"),
            });
            assert_eq!((to.len(), got), (usize::from(answer.is_some()), answer));
        }
        for wrong in [vec![], vec![0; 4], 256u64.to_le_bytes().to_vec()] {
            let message = Message::new(request::SET_STATUS, VERSION, wrong);
            let to = conversation.handle_front_end(message, &five);
            assert!(matches!(to, Err(Error::Status)));
        }
    }

    #[test]
    fn the_form_of_control_requests_is_the_one_that_was_taken() {
        for (features, len) in [(0, 16 + 56), (1, 16 + 8)] {
            let whole = |request: &[u8], answer: &mut [u8]| {
                answer[0] = u8::from(request.len() != len);
                1
            };
            let mut conversation = qemu();
            let taken = number(request::SET_FEATURES, features | 1 << 30);
            conversation.handle_front_end(taken, &whole).unwrap();
            conversation.unseen = false;
            let mut close = number(request::CLOSE_CRYPTO_SESSION, 5);
            close.flags |= NEED_REPLY;
            let to = conversation.handle_front_end(close, &whole).unwrap();
            let [To::FrontEnd(answer)] = &to[..] else {
                panic!("{to:?}");
            };
            assert_eq!(answer.number(), Some(0));
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_from_either_side_the_conversation_goes_on(
            messages in proptest::collection::vec(
                (
                    any::<bool>(),
                    prop_oneof![0u32..45, any::<u32>()],
                    any::<u32>(),
                    prop_oneof![
                        proptest::collection::vec(any::<u8>(), 8),
                        proptest::collection::vec(any::<u8>(), 0..100),
                        proptest::collection::vec(any::<u8>(), 632),
                    ],
                ),
                0..60,
            )
        ) {
            let mut conversation = Conversation::default();
            for (from_device, request, flags, payload) in messages {
                let len = payload.len();
                let message = Message::new(request, flags, payload);
                let to = match from_device {
                    true => conversation.handle_device(message, &five),
                    false if conversation.waits() => continue,
                    false => match conversation.handle_front_end(message, &five) {
                        Ok(to) => to,
                        Err(Error::NotAgreed(26 | 27)) => {
                            prop_assert!(!conversation.sessions);
                            continue;
                        }
                        Err(Error::NotAgreed(39 | 40)) => {
                            prop_assert!(!conversation.has_status);
                            continue;
                        }
                        Err(Error::TooManyAnswers) => {
                            prop_assert!(request == 31 && conversation.answers == ANSWERS);
                            continue;
                        }
                        Err(e) => {
                            prop_assert!(request == 39 && matches!(e, Error::Status));
                            continue;
                        }
                    },
                };
                prop_assert!(to.len() <= 2);
                for to in &to {
                    let (To::Device(m) | To::FrontEnd(m)) = to;
                    prop_assert!(m.payload.len() <= len.max(632));
                    prop_assert!(word(&m.header(), 8) == Some(m.payload.len() as u32));
                }
            }
        }
    }
}
