//! An in-process device that either behaves honestly or violates the protocol.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kiln_virtio::{Guest, Limits, Services, Worker};
use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost::vhost_user::Listener;
use vhost_user_backend::{ShutdownHandle, VhostUserBackend, VhostUserDaemon, VringMutex, VringT};
use virtio_queue::{QueueOwnedT, QueueT};
use vm_memory::{
    Address, Bytes, GuestAddress, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap,
};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{
    new_event_consumer_and_notifier, EventConsumer, EventFlag, EventNotifier,
};

/// How the device behaves: honestly, or in violation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    Honest,
    /// Returns a used entry with this descriptor index instead of the request's head.
    Id(u32),
    /// Claims to have written this many bytes.
    Length(u32),
    /// Advances the used index by this number instead of 1.
    Index(u16),
    /// Returns the same entry twice.
    Twice,
    /// Leaves the answer unwritten.
    Empty,
    /// Answers with this status.
    Status(u8),
    /// Accepts requests and never answers.
    Silent,
    /// Overwrites descriptors and the available ring before it answers.
    Scribble,
    /// Disconnects after this many requests, without answering the last one.
    Dies(usize),
}

thread_local! {
    /// Each thread's worker. A worker must stay on the thread that created it.
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

struct Backend {
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
    guest: Guest,
    conduct: Conduct,
    /// Whether to misbehave only on data queues.
    data_only: bool,
    config: Vec<u8>,
    seen: AtomicUsize,
    lies: Arc<AtomicU32>,
    hang_up: Mutex<Option<ShutdownHandle>>,
    exit: Mutex<Option<(EventConsumer, EventNotifier)>>,
    /// Control queue index.
    control: u16,
}

impl Backend {
    /// Serves the chains available on one queue.
    fn serve(&self, index: u16, vring: &VringMutex) {
        let memory = self.memory.memory();
        let chains: Vec<_> = {
            let mut state = vring.get_mut();
            let queue = state.get_queue_mut();
            match queue.iter(memory.clone()) {
                Ok(chains) => chains.collect(),
                Err(_) => return,
            }
        };
        for chain in chains {
            let seen = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
            if matches!(self.conduct, Conduct::Dies(n) if seen >= n) {
                if let Some(handle) = self.hang_up.lock().unwrap().take() {
                    handle.shutdown();
                }
                return;
            }
            let head = chain.head_index();
            let (mut request, mut writable) = (Vec::new(), Vec::new());
            for part in chain {
                if part.is_write_only() {
                    writable.push((part.addr(), part.len() as usize));
                } else {
                    let at = request.len();
                    request.resize(at + part.len() as usize, 0);
                    memory.read_slice(&mut request[at..], part.addr()).unwrap();
                }
            }
            let mut answer = vec![0; writable.iter().map(|w| w.1).sum()];
            let used = match index == self.control {
                true => self.guest.control(&request, &mut answer),
                false => WORKER.with_borrow_mut(|worker| {
                    let worker = worker.get_or_insert_with(|| Worker::new().unwrap());
                    self.guest.data(worker, &mut request, &mut answer)
                }),
            };
            let conduct = match self.data_only && index == self.control {
                true => Conduct::Honest,
                false => self.conduct,
            };
            self.answer(conduct, vring, head, used as u32, &answer, &writable);
        }
        if self.conduct != Conduct::Silent {
            let _ = vring.signal_used_queue();
        }
    }

    fn answer(
        &self,
        conduct: Conduct,
        vring: &VringMutex,
        head: u16,
        used: u32,
        answer: &[u8],
        writable: &[(GuestAddress, usize)],
    ) {
        let memory = self.memory.memory();
        let write = |bytes: &[u8]| {
            let mut left = bytes;
            for &(addr, len) in writable {
                let (now, rest) = left.split_at(len.min(left.len()));
                memory.write_slice(now, addr).unwrap();
                left = rest;
            }
        };
        let lie = |id: u32, len: u32, by: u16| {
            self.lies.fetch_add(1, Ordering::SeqCst);
            let state = vring.get_ref();
            let queue = state.get_queue();
            let at = GuestAddress(queue.used_ring());
            let index: u16 = memory.read_obj(at.unchecked_add(2)).unwrap();
            let entry = at.unchecked_add(4 + 8 * u64::from(index % queue.size()));
            memory.write_obj(id, entry).unwrap();
            memory.write_obj(len, entry.unchecked_add(4)).unwrap();
            memory
                .write_obj(index.wrapping_add(by), at.unchecked_add(2))
                .unwrap();
        };
        match conduct {
            Conduct::Silent => {}
            Conduct::Id(id) => lie(id, used, 1),
            Conduct::Length(len) => lie(head.into(), len, 1),
            Conduct::Index(by) => lie(head.into(), used, by),
            Conduct::Empty => vring.add_used(head, 0).unwrap(),
            Conduct::Status(status) => {
                let mut answer = answer.to_vec();
                // In the answer to a create request, the status follows the session ID.
                let at = if answer.len() == 16 {
                    8
                } else {
                    answer.len() - 1
                };
                answer[at] = status;
                write(&answer);
                vring.add_used(head, used).unwrap();
            }
            Conduct::Scribble => {
                self.lies.fetch_add(1, Ordering::SeqCst);
                let (table, avail) = {
                    let state = vring.get_ref();
                    (
                        state.get_queue().desc_table(),
                        state.get_queue().avail_ring(),
                    )
                };
                write(answer);
                memory
                    .write_slice(&[0xff; 256 * 16], GuestAddress(table))
                    .unwrap();
                memory
                    .write_slice(&[0xff; 4], GuestAddress(avail + 4))
                    .unwrap();
                vring.add_used(head, used).unwrap();
            }
            Conduct::Twice => {
                write(answer);
                vring.add_used(head, used).unwrap();
                self.lies.fetch_add(1, Ordering::SeqCst);
                vring.add_used(head, used).unwrap();
            }
            Conduct::Honest | Conduct::Dies(_) => {
                write(answer);
                vring.add_used(head, used).unwrap();
            }
        }
    }
}

impl VhostUserBackend for Backend {
    type Bitmap = ();
    type Vring = VringMutex;

    fn num_queues(&self) -> usize {
        usize::from(self.control) + 1
    }

    fn max_queue_size(&self) -> usize {
        256
    }

    fn features(&self) -> u64 {
        1 << 32 | 1 << 30 | 1 << 29 | 1 << 28
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIG
    }

    fn set_event_idx(&self, _enabled: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let from = offset as usize;
        self.config[from..from + size as usize].to_vec()
    }

    fn update_memory(&self, _memory: GuestMemoryAtomic<GuestMemoryMmap>) -> std::io::Result<()> {
        Ok(())
    }

    fn exit_event(&self, _thread: usize) -> Option<(EventConsumer, EventNotifier)> {
        self.exit.lock().unwrap().take()
    }

    fn handle_event(
        &self,
        event: u16,
        _set: EventSet,
        vrings: &[VringMutex],
        _thread: usize,
    ) -> std::io::Result<()> {
        let vring = &vrings[usize::from(event)];
        loop {
            let _ = vring.disable_notification();
            self.serve(event, vring);
            if !vring.enable_notification().unwrap_or(false) {
                return Ok(());
            }
        }
    }
}

/// A device that serves one connection after another. For each connection, it takes the next
/// [`Conduct`] from a list.
pub(crate) struct Device {
    path: PathBuf,
    pub lies: Arc<AtomicU32>,
    current: Arc<Mutex<Option<ShutdownHandle>>>,
    guests: Arc<Mutex<Vec<Arc<Backend>>>>,
    thread: Option<JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

impl Device {
    pub(crate) fn start(conducts: &[Conduct]) -> Device {
        Device::with(conducts, false, |_| {})
    }

    /// Starts a device that behaves honestly on the control queue and misbehaves on data queues.
    pub(crate) fn lying_about_data(conduct: Conduct) -> Device {
        Device::with(&[conduct], true, |_| {})
    }

    /// Starts an honest device with a modified configuration space.
    pub(crate) fn with_config(tamper: fn(&mut Vec<u8>)) -> Device {
        Device::with(&[Conduct::Honest], false, tamper)
    }

    fn with(conducts: &[Conduct], data_only: bool, tamper: fn(&mut Vec<u8>)) -> Device {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device.sock");
        let mut listener = Listener::new(&path, true).unwrap();
        let lies = Arc::new(AtomicU32::new(0));
        let current = Arc::new(Mutex::new(None));
        let guests = Arc::new(Mutex::new(Vec::new()));
        let (counted, handle, all) = (lies.clone(), current.clone(), guests.clone());
        let conducts = conducts.to_vec();
        let thread = thread::spawn(move || {
            for conduct in conducts {
                let backend = Arc::new(backend(conduct, data_only, counted.clone(), tamper));
                all.lock().unwrap().push(backend.clone());
                let mut daemon =
                    VhostUserDaemon::new("device".into(), backend.clone(), backend.memory.clone())
                        .unwrap();
                // The backend may need the handle as soon as the daemon has started, so hold the
                // lock until the handle is stored.
                let mut hang_up = backend.hang_up.lock().unwrap();
                daemon.start(&mut listener).unwrap();
                *hang_up = daemon.shutdown_handle();
                drop(hang_up);
                *handle.lock().unwrap() = daemon.shutdown_handle();
                let _ = daemon.wait();
            }
        });
        Device {
            path,
            lies,
            current,
            guests,
            thread: Some(thread),
            _dir: dir,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Disconnects the current driver.
    pub(crate) fn kill(&self) {
        // The device begins to serve a driver before it stores the handle, so retry until there is
        // a handle.
        let limit = Instant::now() + Duration::from_secs(20);
        while !self.hang_up() {
            assert!(Instant::now() < limit, "no driver to disconnect");
            thread::yield_now();
        }
    }

    /// Disconnects the current driver. Returns false if no driver has connected yet.
    fn hang_up(&self) -> bool {
        let current = self.current.lock().unwrap();
        if let Some(handle) = &*current {
            handle.shutdown();
        }
        current.is_some()
    }

    /// Returns the number of sessions on connection number `turn`.
    pub(crate) fn sessions(&self, turn: usize) -> usize {
        self.guests.lock().unwrap()[turn].guest.sessions()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.hang_up();
        // If the device is still waiting for another driver, leave its thread running until the
        // process exits.
        let thread = self.thread.take();
        if thread.as_ref().is_some_and(JoinHandle::is_finished) {
            thread.unwrap().join().unwrap();
        }
    }
}

fn backend(
    conduct: Conduct,
    data_only: bool,
    lies: Arc<AtomicU32>,
    tamper: fn(&mut Vec<u8>),
) -> Backend {
    let guest = Guest::new(Limits::default(), &Services::detect());
    let mut config = guest.config().to_vec();
    tamper(&mut config);
    let exit = new_event_consumer_and_notifier(EventFlag::NONBLOCK).unwrap();
    let control = u16::from(guest.config()[4]);
    Backend {
        memory: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
        guest,
        conduct,
        data_only,
        config,
        seen: AtomicUsize::new(0),
        lies,
        hang_up: Mutex::new(None),
        exit: Mutex::new(Some(exit)),
        control,
    }
}
