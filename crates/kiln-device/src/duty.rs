//! Serves the requests of one queue. Requests on the control queue create and close the sessions
//! that requests on data queues use.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;

use kiln_virtio::{Guest, Worker};
use zeroize::Zeroize;

use crate::account::Account;
use crate::crew::WaitingThread;

/// `VIRTIO_CRYPTO_ERR` (5.9.7).
pub(crate) const STATUS_ERR: u8 = 1;

/// How the requests of one kind of queue are served.
pub(crate) trait Duty {
    /// Serves a request, writes the result to the start of `answer`, and returns the result's
    /// length in bytes.
    fn serve(&mut self, request: &mut [u8], answer: &mut [u8]) -> usize;

    /// Returns the status contained in an answer of `used` bytes from [`Duty::serve`].
    fn status(&self, answer: &[u8], used: usize) -> u32;

    /// Returns whether the status is the last byte of the request's whole writable area. If false,
    /// the status is inside the used part of the answer.
    fn ends_with_status(&self) -> bool;

    /// Returns whether requests contain keys. If so, copies of the requests must be wiped.
    fn is_secret(&self) -> bool;

    /// Returns whether a request's effects are lost when the process exits, so that the next
    /// process must serve the request a second time.
    fn is_lost_with_process(&self) -> bool;
}

pub(crate) struct Data {
    /// The guest that owns the sessions used by the requests.
    pub guest: Arc<Guest>,
    /// The emulated CPU and scratch space of this thread.
    pub worker: Worker,
}

impl Duty for Data {
    fn serve(&mut self, request: &mut [u8], answer: &mut [u8]) -> usize {
        self.guest.data(&mut self.worker, request, answer)
    }

    fn status(&self, answer: &[u8], used: usize) -> u32 {
        let last = answer.last().filter(|_| used > 0);
        last.map_or(u32::from(STATUS_ERR), |&status| u32::from(status))
    }

    fn ends_with_status(&self) -> bool {
        true
    }

    fn is_secret(&self) -> bool {
        self.guest.carries_keys()
    }

    fn is_lost_with_process(&self) -> bool {
        false
    }
}

/// Reads the status from the answer to a control request. If the answer contains a session number,
/// the status follows that number. Otherwise, the status is the first byte.
fn control_status(answer: &[u8]) -> u32 {
    match (answer.get(8..12), answer.first()) {
        (Some(word), _) => u32::from_le_bytes([word[0], word[1], word[2], word[3]]),
        (None, Some(&byte)) => u32::from(byte),
        (None, None) => u32::from(STATUS_ERR),
    }
}

/// The [`Duty`] of a control queue served by the queue's own thread.
pub(crate) struct Control(pub Arc<Account>);

impl Duty for Control {
    fn serve(&mut self, request: &mut [u8], answer: &mut [u8]) -> usize {
        self.0.control(request, answer)
    }

    fn status(&self, answer: &[u8], used: usize) -> u32 {
        control_status(&answer[..used])
    }

    fn ends_with_status(&self) -> bool {
        false
    }

    fn is_secret(&self) -> bool {
        true
    }

    fn is_lost_with_process(&self) -> bool {
        true
    }
}

/// A control request handed to the second thread, and handed back with its answer.
#[derive(Default)]
struct Slip {
    request: Vec<u8>,
    answer: Vec<u8>,
    used: usize,
}

/// The [`Duty`] of a control queue served by a second thread. The queue's own thread hands over
/// each request and waits for the answer. QEMU 6.2 served its control queue this way (Linux commit
/// 977231e8d4).
pub(crate) struct HandedControl {
    to: Option<SyncSender<Slip>>,
    from: Receiver<Slip>,
    slip: Slip,
    thread: Option<JoinHandle<()>>,
}

impl HandedControl {
    /// Starts serving the requests in the thread `second`.
    pub(crate) fn new(account: Arc<Account>, second: WaitingThread<()>) -> HandedControl {
        let (to, requests) = sync_channel::<Slip>(1);
        let (answers, from) = sync_channel(1);
        let thread = second.begin("kiln-ctrl".into(), move |()| {
            while let Ok(mut slip) = requests.recv() {
                slip.used = account.control(&slip.request, &mut slip.answer);
                if answers.send(slip).is_err() {
                    break;
                }
            }
        });
        HandedControl {
            to: Some(to),
            from,
            slip: Slip::default(),
            thread: Some(thread),
        }
    }
}

impl Duty for HandedControl {
    fn serve(&mut self, request: &mut [u8], answer: &mut [u8]) -> usize {
        let mut slip = std::mem::take(&mut self.slip);
        slip.request.clear();
        slip.request.extend_from_slice(request);
        slip.answer.clear();
        slip.answer.resize(answer.len(), 0);
        let back = match &self.to {
            Some(to) if to.send(slip).is_ok() => self.from.recv().ok(),
            _ => None,
        };
        let Some(mut slip) = back else {
            answer.fill(0);
            return 0;
        };
        answer.copy_from_slice(&slip.answer);
        slip.request.zeroize();
        self.slip = slip;
        self.slip.used
    }

    fn status(&self, answer: &[u8], used: usize) -> u32 {
        control_status(&answer[..used])
    }

    fn ends_with_status(&self) -> bool {
        false
    }

    fn is_secret(&self) -> bool {
        true
    }

    fn is_lost_with_process(&self) -> bool {
        true
    }
}

impl Drop for HandedControl {
    fn drop(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
