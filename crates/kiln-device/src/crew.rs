//! The threads that serve one guest. A guest process creates all of them before it is given a
//! guest, and they then wait for work. Without isolation, they are created for each connection.
//!
//! Because a guest process creates all its threads early, it can disable thread creation before it
//! is given a guest. An attacker who takes over the process can then create no threads. If a limit
//! on threads or memory is reached, new guest processes do not become ready. Guests that are
//! already being served are not affected, because all their threads exist.

use std::ffi::CString;
use std::io;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::{Builder, JoinHandle};

use kiln_virtio::Worker;

use crate::config::{Config, ControlBy};

type Task<T> = Box<dyn FnOnce(T) + Send>;

/// A thread that waits for work. If this value is dropped without a call to
/// [`WaitingThread::begin`], the thread ends. The thread prepares a value of type `T` and passes it
/// to its task. `T` need not be `Send`, because the value never leaves the thread.
pub(crate) struct WaitingThread<T> {
    to: Sender<(String, Task<T>)>,
    prepared: Receiver<io::Result<()>>,
    thread: JoinHandle<()>,
}

impl<T: 'static> WaitingThread<T> {
    /// Creates the thread, which calls `prepare` immediately.
    fn create(role: &str, prepare: fn() -> io::Result<T>) -> io::Result<WaitingThread<T>> {
        let (to, tasks) = channel::<(String, Task<T>)>();
        let (report, prepared) = channel();
        let name = format!("kiln-{role}");
        let thread = Builder::new().name(name).spawn(move || {
            let own = match prepare() {
                Ok(own) => own,
                Err(error) => {
                    let _ = report.send(Err(error));
                    return;
                }
            };
            let _ = report.send(Ok(()));
            if let Ok((name, task)) = tasks.recv() {
                rename_thread(name);
                task(own);
            }
        })?;
        Ok(WaitingThread {
            to,
            prepared,
            thread,
        })
    }

    /// Waits until the thread has prepared everything that it needs. Call this once.
    fn wait(&self) -> io::Result<()> {
        let failed = |_| io::Error::other("a thread failed before it had work");
        self.prepared.recv().map_err(failed)?
    }

    /// Names the thread and gives it its work. The thread ends when the work is done.
    pub(crate) fn begin(
        self,
        name: String,
        task: impl FnOnce(T) + Send + 'static,
    ) -> JoinHandle<()> {
        // The thread waits for this message, so sending it cannot fail.
        let _ = self.to.send((name, Box::new(task)));
        self.thread
    }
}

/// Names the calling thread. The kernel shortens the name to 15 bytes.
fn rename_thread(name: String) {
    // An error is harmless: the thread then keeps its old name.
    if let Ok(name) = CString::new(name) {
        let _ = rustix::thread::set_name(&name);
    }
}

/// The threads of one queue.
pub(crate) enum QueueThreads {
    /// A data queue's thread. The thread has its own emulated CPU.
    Data(WaitingThread<Worker>),
    Control(WaitingThread<()>),
    /// With [`ControlBy::Thread`]: the control queue's own thread, and the second thread, which
    /// serves the requests.
    HandedControl(WaitingThread<()>, WaitingThread<()>),
}

impl QueueThreads {
    fn wait(&self) -> io::Result<()> {
        match self {
            QueueThreads::Data(hand) => hand.wait(),
            QueueThreads::Control(hand) => hand.wait(),
            QueueThreads::HandedControl(hand, second) => hand.wait().and(second.wait()),
        }
    }
}

/// All threads that serve one guest.
pub(crate) struct Crew {
    /// The thread that serves the front end's messages.
    pub connection: WaitingThread<()>,
    /// The threads of each queue. Those of the control queue come last.
    pub queues: Vec<QueueThreads>,
}

/// Returns the number of threads in a crew.
pub(crate) fn threads_per_guest(config: &Config) -> u64 {
    let second = u64::from(config.control == ControlBy::Thread);
    // The control queue and the connection each have one thread.
    u64::from(config.queues) + 2 + second
}

impl Crew {
    /// Creates all threads, and waits until each of them is ready for its work.
    ///
    /// # Errors
    /// Fails if a limit on threads or memory is reached. The threads created so far then end.
    pub(crate) fn create(config: &Config) -> io::Result<Crew> {
        let crew = Crew {
            connection: WaitingThread::create("messages", || Ok(()))?,
            queues: create_queues(config.queues, config.control)?,
        };
        crew.connection.wait()?;
        Ok(crew)
    }
}

/// Creates the threads of `data` data queues and one control queue, and waits until each of them is
/// ready for its work.
pub(crate) fn create_queues(data: u16, control: ControlBy) -> io::Result<Vec<QueueThreads>> {
    let mut queues = Vec::new();
    for index in 0..data {
        let hand = WaitingThread::create(&format!("data{index}"), Worker::new)?;
        queues.push(QueueThreads::Data(hand));
    }
    let hand = WaitingThread::create("control", || Ok(()))?;
    queues.push(match control {
        ControlBy::Inline => QueueThreads::Control(hand),
        ControlBy::Thread => {
            QueueThreads::HandedControl(hand, WaitingThread::create("ctrl", || Ok(()))?)
        }
    });
    // Wait only now, so that all threads have prepared in parallel.
    queues.iter().try_for_each(QueueThreads::wait)?;
    Ok(queues)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_waits_for_its_work_and_then_has_its_name() {
        let hand = WaitingThread::create("waits", || Ok(7)).unwrap();
        hand.wait().unwrap();
        let (done, result) = mpsc::channel();
        let thread = hand.begin("kiln-1-works".into(), move |own| {
            let name = rustix::thread::name().unwrap();
            done.send((own, name.into_string().unwrap())).unwrap();
        });
        assert_eq!(result.recv(), Ok((7, "kiln-1-works".into())));
        thread.join().unwrap();
    }

    #[test]
    fn a_thread_without_work_ends() {
        let hand = WaitingThread::create("idle", || Ok(())).unwrap();
        hand.wait().unwrap();
        let WaitingThread { to, thread, .. } = hand;
        drop(to);
        thread.join().unwrap();
    }

    /// If a thread fails to prepare, the error must be reported, so that the process does not
    /// become ready for a guest.
    #[test]
    fn a_thread_that_cannot_prepare_is_reported() {
        let refused =
            WaitingThread::<()>::create("refused", || Err(io::ErrorKind::OutOfMemory.into()));
        let error = refused.unwrap().wait().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        let failed = WaitingThread::<()>::create("failed", || panic!("planted")).unwrap();
        assert_eq!(failed.wait().unwrap_err().kind(), io::ErrorKind::Other);
    }

    #[test]
    fn each_queue_has_its_threads() {
        for (control, threads) in [(ControlBy::Inline, 5), (ControlBy::Thread, 6)] {
            let config = Config {
                queues: 3,
                control,
                ..Config::default()
            };
            let crew = Crew::create(&config).unwrap();
            assert_eq!(crew.queues.len(), 4);
            assert_eq!(threads_per_guest(&config), threads);
            let is_data = |queue: &QueueThreads| matches!(queue, QueueThreads::Data(_));
            assert!(crew.queues[..3].iter().all(is_data) && !is_data(&crew.queues[3]));
        }
    }
}
