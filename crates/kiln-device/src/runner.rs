//! A queue's thread. It waits for the first start of its ring ([`crate::crew`]), sleeps while the
//! ring is stopped, and exits when its guest leaves.

use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, SendError, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vm_memory::GuestMemoryMmap;

use crate::account::Account;
use crate::chain::Chain;
use crate::crew::QueueThreads;
use crate::duty::{Control, Data, Duty, HandedControl};
use crate::inflight::Log;
use crate::line::{Halt, Line, Order, Scratch};
use crate::notify::{Call, Kick};
use crate::ring::{Areas, Place, Ring};
use crate::tally::Tally;
use crate::vhost_user::Health;

/// Maximum time that a thread may take to stop. A batch of the most expensive requests takes 0.1 s.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the deadline for a thread that is ordered to stop now.
pub(crate) fn patience() -> Instant {
    Instant::now() + PATIENCE
}

/// The error returned if a queue's thread does not stop in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stuck;

/// Everything that a thread needs to serve a ring. The thread hands this back when it stops.
pub(crate) struct Work {
    /// The ring's location, and the index where processing continues. The thread updates the index
    /// when it stops.
    pub place: Place,
    /// Memory of the guest that owns the ring.
    pub memory: Arc<GuestMemoryMmap>,
    /// The descriptor through which the driver notifies the device.
    pub kick: Option<Kick>,
    /// The descriptor through which the device notifies the driver.
    pub call: Option<Call>,
    /// The descriptor that the device signals if the ring breaks.
    pub err: Option<Call>,
    /// Record of requests in flight, if the front end keeps it.
    pub log: Option<Log>,
}

/// The objects that all queues of a guest share, and the settings of one queue.
#[derive(Clone)]
pub(crate) struct Post {
    /// The guest's sessions and rates.
    pub account: Arc<Account>,
    pub tally: Arc<Tally>,
    /// Maximum size of a request and its answer together, in bytes.
    pub max_request: usize,
    /// How long to poll before sleeping.
    pub poll: Duration,
    pub name: String,
}

/// A handle to a queue's thread.
pub(crate) struct Runner {
    to: Option<Sender<Work>>,
    back: Receiver<Work>,
    halt: Arc<Halt>,
    running: bool,
    thread: Option<JoinHandle<()>>,
    health: Arc<Health>,
}

/// The state that a queue's thread keeps from one start of its ring to the next.
struct Rings {
    work: Receiver<Work>,
    done: Sender<Work>,
    halt: Arc<Halt>,
    post: Post,
}

impl Rings {
    /// Serves each ring that arrives, until the [`Runner`] is dropped.
    fn serve(self, duty: &mut dyn Duty) {
        let mut scratch = Scratch::default();
        let mut chain = Chain::new();
        while let Ok(mut work) = self.work.recv() {
            serve(
                &mut work,
                &self.post,
                &self.halt,
                duty,
                &mut scratch,
                &mut chain,
            );
            if self.done.send(work).is_err() {
                break;
            }
        }
    }
}

impl Runner {
    /// Puts the waiting threads of a queue to work. The thread that serves the queue's ring then
    /// waits for that ring.
    pub(crate) fn new(threads: QueueThreads, halt: Halt, post: Post) -> Runner {
        let (to, work) = channel::<Work>();
        let (done, back) = channel::<Work>();
        let halt = Arc::new(halt);
        let account = post.account.clone();
        let health = account.health.clone();
        let name = post.name.clone();
        let rings = Rings {
            work,
            done,
            halt: halt.clone(),
            post,
        };
        let thread = match threads {
            QueueThreads::Data(hand) => hand.begin(name, move |worker| {
                let guest = account.guest.clone();
                rings.serve(&mut Data { guest, worker });
            }),
            QueueThreads::Control(hand) => {
                hand.begin(name, move |()| rings.serve(&mut Control(account)))
            }
            QueueThreads::HandedControl(hand, second) => {
                let mut duty = HandedControl::new(account, second);
                hand.begin(name, move |()| rings.serve(&mut duty))
            }
        };
        Runner {
            to: Some(to),
            back,
            halt,
            running: false,
            thread: Some(thread),
            health,
        }
    }

    /// Returns whether a ring is being served.
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }

    /// Starts serving a ring. The thread serves it until [`Runner::stop`].
    pub(crate) fn start(&mut self, work: Work) {
        self.halt.set(Order::Run);
        let Some(to) = &self.to else { return };
        self.running = match to.send(work) {
            Ok(()) => true,
            // The thread has panicked, so it cannot take the work.
            Err(SendError(work)) => {
                report_broken(&work, &self.health);
                false
            }
        };
    }

    /// Gives the thread an order, without waiting until it is carried out.
    pub(crate) fn order(&self, order: Order) {
        self.halt.set(order);
    }

    /// Stops serving and returns the [`Work`] passed to [`Runner::start`]. All requests that the
    /// thread took have been answered when this method returns the work.
    ///
    /// # Errors
    /// Fails if the thread does not stop in time because its front end blocks it in a system call.
    /// The thread is then abandoned.
    pub(crate) fn stop(&mut self, until: Instant) -> Result<Option<Work>, Stuck> {
        self.order(Order::Stop);
        let work = self.wait(until);
        if work.is_err() {
            self.running = false;
            // The thread may never end, so it must not be joined.
            self.thread = None;
        }
        work
    }

    /// Waits until the thread has carried out its order.
    ///
    /// # Errors
    /// Fails if the thread does not carry out the order before `until`.
    pub(crate) fn wait(&mut self, until: Instant) -> Result<Option<Work>, Stuck> {
        if !self.running {
            return Ok(None);
        }
        let left = until.saturating_duration_since(Instant::now());
        let work = match self.back.recv_timeout(left) {
            Ok(work) => Some(work),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => return Err(Stuck),
        };
        self.running = false;
        Ok(work)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.stop(patience());
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves a ring until ordered to stop. If the ring breaks, waits for that order without touching
/// the ring.
fn serve(
    work: &mut Work,
    post: &Post,
    halt: &Halt,
    duty: &mut dyn Duty,
    scratch: &mut Scratch,
    chain: &mut Chain,
) {
    let memory = work.memory.clone();
    let areas = Areas::find(&memory, &work.place);
    let ring = areas.as_ref().map_err(|broken| *broken);
    let broken = match ring.and_then(|areas| Ring::new(areas, &work.place)) {
        Err(broken) => broken,
        Ok(mut ring) => {
            if let Some(log) = &mut work.log {
                ring.resume(log);
            }
            let mut line = Line {
                memory: &memory,
                ring,
                kick: work.kick.as_ref(),
                call: work.call.as_ref(),
                duty,
                scratch,
                chain,
                log: work.log.as_mut(),
                pace: &post.account.pace,
                paid: work.place.paid,
                tally: &post.tally,
                max_request: post.max_request,
                poll: post.poll,
            };
            let done = line.run(halt);
            work.place.next_avail = line.ring.next_avail();
            work.place.paid = line.paid;
            match done {
                Ok(()) => return,
                Err(broken) => broken,
            }
        }
    };
    tracing::warn!(queue = post.name, %broken, "the ring is no longer served");
    report_broken(work, &post.account.health);
    halt.wait();
}

/// Reports that a ring is not being served: to the driver through the device status, and to the
/// front end.
fn report_broken(work: &Work, health: &Health) {
    health.set_broken();
    if let Some(err) = &work.err {
        err.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    use rustix::event::{eventfd, EventfdFlags};

    /// A thread that has panicked cannot serve another ring.
    #[test]
    fn a_ring_whose_thread_has_ended_is_reported() {
        let (to, work) = channel();
        let (_done, back) = channel();
        let health = Arc::<Health>::default();
        let mut runner = Runner {
            to: Some(to),
            back,
            halt: Arc::new(Halt::new().unwrap()),
            running: false,
            thread: None,
            health: health.clone(),
        };
        let err = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let ring = || Work {
            place: Place::default(),
            memory: Arc::default(),
            kick: None,
            call: None,
            err: Some(Call::new(File::from(err.as_fd().try_clone_to_owned().unwrap())).unwrap()),
            log: None,
        };
        // Control: a thread that is still running takes the ring.
        runner.start(ring());
        assert!(runner.is_running() && !health.is_broken());
        assert!(rustix::io::read(&err, &mut [0; 8]).is_err());
        drop(work);
        runner.start(ring());
        assert!(!runner.is_running() && health.is_broken());
        assert_eq!(rustix::io::read(&err, &mut [0; 8]), Ok(8));
    }
}
