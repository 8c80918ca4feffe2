//! Runs the socket adapter between a front end and a device that both send arbitrary bytes. The
//! adapter must not panic, must forward only whole messages, and must create sessions only from
//! negotiated messages.

use kiln_device::adapter::{Conversation, Message, To, LONGEST};
use kiln_virtio::{Guest, Limits, Services};

/// Payload sizes of some vhost-user messages. Inputs may use other sizes, too.
const SIZES: [usize; 8] = [0, 8, 12, 40, 72, 632, 1072, 4096];

/// Runs one input. Returns whether at least four of its messages are passed on or
/// answered.
pub(crate) fn run(data: &[u8]) -> bool {
    let limits = Limits {
        max_sessions: 8,
        ..Limits::default()
    };
    let guest = Guest::new(limits, &Services::symmetric());
    let control = |request: &[u8], answer: &mut [u8]| guest.control(request, answer);
    let mut conversation = Conversation::default();
    let mut rest = data;
    let mut passed = 0;
    while let [kind, request, flags, size, more @ ..] = rest {
        let size = match size & 0x80 {
            0 => SIZES[usize::from(*size) % SIZES.len()],
            _ => usize::from(size & 0x7f),
        };
        let (given, after) = more.split_at(more.len().min(size));
        rest = after;
        let mut payload = given.to_vec();
        payload.resize(size, 0);
        let message = Message::new(u32::from(request % 45), u32::from(*flags), payload);
        let to = if kind & 1 == 1 {
            conversation.handle_device(message, &control)
        } else if conversation.waits() {
            continue;
        } else {
            match conversation.handle_front_end(message, &control) {
                Ok(to) => to,
                Err(_) => return passed >= 4,
            }
        };
        for to in &to {
            let (To::Device(message) | To::FrontEnd(message)) = to;
            assert!(message.payload.len() <= LONGEST);
            assert_eq!(
                message.header()[8..],
                (message.payload.len() as u32).to_le_bytes()
            );
        }
        assert!(guest.sessions() <= 8);
        passed += usize::from(!to.is_empty());
    }
    passed >= 4
}
