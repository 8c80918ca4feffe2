//! One guest: a connection to a front end, from the first message to the last.

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kiln_virtio::{Guest, Services};

use crate::account::Account;
use crate::backend::{Backend, Queues};
use crate::config::Config;
use crate::crew::Crew;
use crate::notify::Bell;
use crate::pace::Pace;
use crate::tally::Counters;
use crate::vhost_user::{FrontEndConnection, SendInflight};
use crate::watch::Watch;

/// How long a connection may take to end after all its queues have been told to stop.
pub(crate) const ENDING: Duration = Duration::from_millis(300);

/// A guest whose front end is connected.
pub(crate) struct Connection {
    stream: UnixStream,
    backend: Arc<Mutex<Backend>>,
    thread: JoinHandle<()>,
    over: Arc<Bell>,
    /// Times the current step of the connection's thread.
    watch: Arc<Watch>,
}

pub(crate) struct Name<'a> {
    pub number: u64,
    /// The socket that the front end connected to.
    pub socket: &'a Path,
}

impl Connection {
    /// Starts serving a newly connected front end with the threads in `crew`. `inflight` consists
    /// of a file from [`Inflight::file`](crate::inflight::Inflight::file) and a function that
    /// arranges for the GET_INFLIGHT_FD reply to be sent.
    pub(crate) fn new(
        stream: UnixStream,
        name: &Name<'_>,
        services: &Services,
        counters: Arc<Counters>,
        (inflight, send): (File, SendInflight),
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
        let front_end = FrontEndConnection::new(stream)?
            .with_account(account.clone())
            .with_inflight(send);
        let backend = Backend::new(account.clone(), queues, crew.queues, inflight);
        let backend = Arc::new(Mutex::new(backend));
        let watch = front_end.watch();
        let thread = crew.connection.begin(format!("kiln-{number}"), {
            let backend = backend.clone();
            let socket = name.socket.to_owned();
            let over = over.clone();
            let watch = watch.clone();
            move |()| {
                tracing::info!(guest = number, socket = %socket.display(), "connected");
                let mut device = |request| lock(&backend).serve(request);
                let sessions =
                    |request: &[u8], answer: &mut [u8]| match lock(&backend).begin_session() {
                        Ok(()) => account.message(request, answer),
                        Err(_) => 0,
                    };
                let done = front_end.run(&mut device, &sessions);
                watch.begin();
                // Stop all queues, so that no thread can use or create a session when the sessions
                // are removed below.
                lock(&backend).stop();
                watch.begin();
                // All queues have been stopped, so the front end may now use its memory for another
                // device.
                let _ = last.shutdown(Shutdown::Both);
                let sessions = account.guest.sessions();
                account.reset();
                match done {
                    Ok(()) => tracing::info!(guest = number, sessions, "disconnected"),
                    Err(error) => {
                        tracing::warn!(guest = number, sessions, %error, "disconnected")
                    }
                }
                watch.end();
                over.ring();
            }
        });
        Ok(Connection {
            stream: kept,
            backend,
            thread,
            over,
            watch,
        })
    }

    /// Returns whether the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns whether the connection's thread has taken too long for its current step.
    pub(crate) fn is_late(&self) -> bool {
        self.watch.is_late()
    }

    /// Returns a bell that becomes readable when the connection has ended.
    pub(crate) fn over(&self) -> &Bell {
        &self.over
    }

    /// Makes all queues of the guest serve the requests that are already available, then stop.
    pub(crate) fn drain(&self) {
        lock(&self.backend).drain();
    }

    /// Waits for the drain to finish, but no later than `until`, and closes the connection. If the
    /// connection's threads still do not end, they are abandoned.
    pub(crate) fn end(self, until: Instant) {
        lock(&self.backend).drained(until);
        // This fails only if the other side closed first.
        let _ = self.stream.shutdown(Shutdown::Both);
        // Limit the wait: a front end may block a queue's thread, and the connection's thread waits
        // for that thread.
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
