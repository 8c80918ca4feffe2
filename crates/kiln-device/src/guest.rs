//! One guest: a connection to a front end, from the first message to the last.

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kiln_virtio::{Guest, Services};
use rustix::event::{poll, PollFd, PollFlags};
use vhost::vhost_user::{BackendReqHandler, Error};

use crate::account::Account;
use crate::adapter::Adapter;
use crate::backend::{Backend, Queues};
use crate::config::Config;
use crate::crew::Crew;
use crate::notify::Bell;
use crate::pace::Pace;
use crate::tally::Counters;
use crate::watch::Watch;

/// How long a connection may take to end once all its queues were told to stop.
pub(crate) const ENDING: Duration = Duration::from_millis(300);

/// A guest whose front end is connected.
pub(crate) struct Connection {
    stream: UnixStream,
    backend: Arc<Mutex<Backend>>,
    thread: JoinHandle<()>,
    over: Arc<Bell>,
    /// Timers for the current steps of the adapter's and the device's threads.
    watches: [Arc<Watch>; 2],
}

pub(crate) struct Name<'a> {
    pub number: u64,
    /// The socket that the front end connected to.
    pub socket: &'a Path,
}

impl Connection {
    /// Starts serving a newly connected front end with the threads in `crew`. `inflight` comes from
    /// [`Inflight::file`].
    pub(crate) fn new(
        stream: UnixStream,
        name: &Name<'_>,
        services: &Services,
        counters: Arc<Counters>,
        inflight: File,
        config: &Config,
        crew: Crew,
    ) -> io::Result<Connection> {
        let number = name.number;
        let mut limits = config.limits.clone();
        limits.data_queues = config.queues;
        let account = Arc::new(Account::new(
            Guest::new(limits, services),
            counters,
            Pace::new(&config.rates),
        ));
        let queues = Queues {
            max_request: config.max_chain(),
            poll: config.poll,
            number,
            max_memory: config.max_memory,
        };
        let (kept, last) = (stream.try_clone()?, stream.try_clone()?);
        let over = Arc::new(Bell::new()?);
        let (adapter, stream) = Adapter::new(stream)?;
        let adapter = adapter.with_account(account.clone());
        let backend = Backend::new(account.clone(), queues, crew.queues, inflight);
        let backend = Arc::new(Mutex::new(backend));
        let watches = [adapter.watch(), Arc::new(Watch::default())];
        let (done, adapted) = channel();
        crew.adapter.begin(format!("kiln-{number}-adapt"), {
            let (account, backend) = (account.clone(), backend.clone());
            move |()| {
                let result = adapter.run(&|request: &[u8], answer: &mut [u8]| match lock(&backend)
                    .begin_session()
                {
                    Ok(()) => account.message(request, answer),
                    Err(_) => 0,
                });
                let _ = done.send(result);
            }
        });
        let thread = crew.connection.begin(format!("kiln-{number}"), {
            let backend = backend.clone();
            let socket = name.socket.to_owned();
            let over = over.clone();
            let watch = watches[1].clone();
            move |()| {
                tracing::info!(guest = number, socket = %socket.display(), "connected");
                let why = serve(stream, &backend, &watch);
                watch.begin();
                // Stop all queues, so that no thread can use or create a session when the sessions
                // are removed below.
                lock(&backend).stop();
                watch.begin();
                // This fails if the adapter has panicked.
                let adapted = adapted.recv();
                watch.begin();
                // All messages have been forwarded and all queues have been stopped, so the front
                // end may now use its memory for another device.
                let _ = last.shutdown(Shutdown::Both);
                let sessions = account.guest.sessions();
                account.reset();
                match (adapted, why) {
                    (Ok(Err(error)), _) => {
                        tracing::warn!(guest = number, sessions, %error, "disconnected")
                    }
                    (Ok(Ok(())), Error::Disconnected) => {
                        tracing::info!(guest = number, sessions, "disconnected")
                    }
                    (_, error) => {
                        tracing::warn!(guest = number, sessions, %error, "disconnected")
                    }
                }
                over.ring();
            }
        });
        Ok(Connection {
            stream: kept,
            backend,
            thread,
            over,
            watches,
        })
    }

    /// Returns whether the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns whether one of the threads has taken too long for its current step.
    pub(crate) fn is_late(&self) -> bool {
        self.watches.iter().any(|watch| watch.is_late())
    }

    /// Returns a bell that becomes readable when the connection has ended.
    pub(crate) fn over(&self) -> &Bell {
        &self.over
    }

    /// Makes all queues of the guest serve the requests that are already available, then stop.
    pub(crate) fn drain(&self) {
        lock(&self.backend).drain();
    }

    /// Waits for the drain to finish, but no later than `until`, and closes the connection. Its
    /// threads are abandoned if they do not end then.
    pub(crate) fn end(self, until: Instant) {
        lock(&self.backend).drained(until);
        // This fails only if the other side closed first.
        let _ = self.stream.shutdown(Shutdown::Both);
        // A front end may block a queue's thread, for which the connection's thread then waits.
        let last = Instant::now() + ENDING;
        while !self.thread.is_finished() && Instant::now() < last {
            thread::sleep(Duration::from_millis(2));
        }
        if self.thread.is_finished() {
            let _ = self.thread.join();
        }
    }
}

/// Locks the backend even if the mutex is poisoned. An inconsistent backend does no harm, because
/// the only remaining step is to stop all queues.
fn lock(backend: &Mutex<Backend>) -> MutexGuard<'_, Backend> {
    backend.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves messages until the connection ends, and returns why it ended.
fn serve(stream: UnixStream, backend: &Arc<Mutex<Backend>>, watch: &Watch) -> Error {
    let waits = match stream.try_clone() {
        Ok(waits) => waits,
        Err(error) => return Error::SocketError(error),
    };
    let mut handler = BackendReqHandler::from_stream(stream, backend.clone());
    loop {
        watch.end();
        // Wait here, so that only the time for serving the message is measured. If poll() fails,
        // receiving the message fails as well.
        let _ = poll(&mut [PollFd::new(&waits, PollFlags::IN)], None);
        watch.begin();
        if let Err(error) = handler.handle_request() {
            return error;
        }
    }
}
