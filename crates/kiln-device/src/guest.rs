//! One guest: a connection to a front end, from the first message to the last.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use kiln_virtio::Guest;
use vhost::vhost_user::{BackendReqHandler, Error};

use crate::adapter::Adapter;
use crate::backend::{Backend, Queues};

/// A guest that is connected.
pub(crate) struct Connection {
    stream: UnixStream,
    backend: Arc<Mutex<Backend>>,
    thread: JoinHandle<()>,
}

impl Connection {
    /// Serves a front end that has just connected, on a thread of its own.
    pub(crate) fn new(
        stream: UnixStream,
        socket: &Path,
        guest: Arc<Guest>,
        queues: Queues,
    ) -> io::Result<Connection> {
        let number = queues.number;
        let kept = stream.try_clone()?;
        let (adapter, stream) = Adapter::new(stream)?;
        let backend = Arc::new(Mutex::new(Backend::new(guest.clone(), queues)));
        let adapter = thread::Builder::new()
            .name(format!("kiln-{number}-adapt"))
            .spawn({
                let guest = guest.clone();
                move || {
                    adapter.run(&|request: &[u8], answer: &mut [u8]| guest.control(request, answer))
                }
            })?;
        let thread = thread::Builder::new()
            .name(format!("kiln-{number}"))
            .spawn({
                let backend = backend.clone();
                let socket = socket.to_owned();
                move || {
                    tracing::info!(guest = number, socket = %socket.display(), "connected");
                    let why = serve(stream, &backend);
                    // Sessions are dropped once no thread can use or create one.
                    lock(&backend).stop();
                    let adapter = adapter.join();
                    let sessions = guest.sessions();
                    guest.reset();
                    match (adapter, why) {
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
                }
            })?;
        Ok(Connection {
            stream: kept,
            backend,
            thread,
        })
    }

    /// Whether it is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// The device's side.
    pub(crate) fn backend(&self) -> MutexGuard<'_, Backend> {
        lock(&self.backend)
    }

    pub(crate) fn end(self) {
        // An error means that the other side was faster.
        let _ = self.stream.shutdown(Shutdown::Both);
        let _ = self.thread.join();
    }
}

/// A thread that panicked has left nothing half done that the next would trip over: it is about to stop all queues.
fn lock(backend: &Mutex<Backend>) -> MutexGuard<'_, Backend> {
    backend.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves messages until the connection ends; returns why it did.
fn serve(stream: UnixStream, backend: &Arc<Mutex<Backend>>) -> Error {
    let mut handler = BackendReqHandler::from_stream(stream, backend.clone());
    loop {
        if let Err(error) = handler.handle_request() {
            return error;
        }
    }
}
