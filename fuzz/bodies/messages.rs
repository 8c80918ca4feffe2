//! Sends arbitrary vhost-user messages, with file descriptors, to a device that accepts every
//! request. The protocol code must not panic. It must pass on only memory tables with 1 to 8
//! regions, and keep the sizes of answers and the number of sessions within their limits.

use std::fs::File;
use std::os::fd::OwnedFd;

use kiln_device::vhost_user::{Answer, Error, Message, Protocol, Reply, Request, MAX_PAYLOAD};
use kiln_virtio::{Guest, Limits, Services};

/// Payload sizes of some vhost-user messages. Inputs may use other sizes, too.
const SIZES: [usize; 8] = [0, 8, 12, 40, 72, 632, 1072, 4096];

/// Returns a file descriptor for `/dev/null`. No request expects this file.
fn descriptor() -> OwnedFd {
    thread_local! {
        static NULL: File = File::open("/dev/null").expect("every Linux system has /dev/null");
    }
    NULL.with(|null| null.try_clone().expect("a descriptor").into())
}

/// Replies to a request as a device would.
fn reply(request: Request) -> Result<Reply, Error> {
    Ok(match request {
        Request::SetMemory(regions) => {
            assert!(!regions.is_empty() && regions.len() <= 8);
            Reply::Done
        }
        Request::GetFeatures
        | Request::GetQueueNum
        | Request::GetMaxMemSlots
        | Request::GetRingBase(_) => Reply::Number(1),
        Request::GetConfig { size, .. } => Reply::Config(vec![0; size as usize]),
        _ => Reply::Done,
    })
}

/// Runs one input. Returns whether at least four of the input's messages reach the device or are
/// answered.
pub(crate) fn run(data: &[u8]) -> bool {
    let limits = Limits {
        max_sessions: 8,
        ..Limits::default()
    };
    let guest = Guest::new(limits, &Services::symmetric());
    let control = |request: &[u8], answer: &mut [u8]| guest.control(request, answer);
    let mut protocol = Protocol::default();
    let mut rest = data;
    let mut served = 0;
    while let [kind, request, flags, size, more @ ..] = rest {
        let size = match size & 0x80 {
            0 => SIZES[usize::from(*size) % SIZES.len()],
            _ => usize::from(size & 0x7f),
        };
        let (given, after) = more.split_at(more.len().min(size));
        rest = after;
        let mut payload = given.to_vec();
        payload.resize(size, 0);
        // Use valid flags unless bit 4 is set, so that most inputs get past the check of flags.
        let flags = match flags & 0x10 {
            0 => 1 | u32::from(flags & 8),
            _ => u32::from(*flags),
        };
        let mut message = Message::new(u32::from(request % 45), flags, payload);
        message.fds = (0..kind >> 4).map(|_| descriptor()).collect();
        let mut reached = false;
        let mut device = |request| {
            reached = true;
            reply(request)
        };
        let (answer, done) = protocol.handle(message, &mut device, &control);
        if let Some(Answer::Message(answer)) = &answer {
            assert!(answer.payload.len() <= MAX_PAYLOAD);
        }
        assert!(guest.sessions() <= 8);
        served += usize::from(reached || answer.is_some());
        if done.is_err() {
            break;
        }
    }
    served >= 4
}
