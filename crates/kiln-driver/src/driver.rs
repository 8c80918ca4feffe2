//! A driver for one device. The driver reconnects if the connection is lost.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kiln_virtio::wire::config::HW_READY;
use kiln_virtio::wire::Config;

use crate::batch::Waiter;
use crate::bell::Bell;
use crate::buffer::Buffer;
use crate::connection::{Connection, Queue, Watch, Wishes};
use crate::control::{Control, Mode};
use crate::data::{self, DataQueue};
use crate::device::Device;
use crate::error::Error;
use crate::memory::Memory;
use crate::port::{self, Ask, Port};
use crate::ring::{self, Ring};

/// Maximum number of data queues that the driver supports.
const MOST_DATA_QUEUES: u32 = 255;
/// Interval between attempts to reconnect.
const RETRY: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub struct Options {
    /// How threads wait for answers on the control queue.
    pub mode: Mode,
    /// Ring features to use, and time limits for set-up.
    pub wishes: Wishes,
    /// Number of entries per ring; must be a power of two.
    pub queue_size: u16,
    /// Number of data queues to use. If the device has fewer, all of them are used.
    pub data_queues: usize,
    /// Bytes of shared memory available for [`Buffer`]s.
    pub heap: usize,
    /// Maximum key length in bytes.
    pub max_key: usize,
    /// Time limit for an answer on the control queue. With `None`, threads wait as long as a device
    /// is connected.
    pub timeout: Option<Duration>,
    /// How long to try to reconnect before all requests fail.
    pub reconnect: Duration,
    /// How long the control queue's interrupt thread polls before it sleeps.
    pub linger: Duration,
    /// Number of failed attempts to lock a polled queue before a waiter yields its core.
    pub spins: u32,
    /// How long [`DataQueue::wait`] polls before it sleeps.
    pub data_linger: Duration,
    /// Whether to record a histogram of how long the control queue's lock is held.
    pub observe: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::Wait,
            wishes: Wishes::default(),
            queue_size: 256,
            data_queues: 1,
            heap: 4 << 20,
            max_key: 4096,
            timeout: None,
            reconnect: Duration::from_secs(5),
            linger: Duration::ZERO,
            spins: 256,
            data_linger: Duration::ZERO,
            observe: false,
        }
    }
}

/// State shared with the thread that watches the connection.
struct Inner {
    path: PathBuf,
    options: Options,
    device: Arc<Device>,
    closing: AtomicBool,
}

pub struct Driver {
    inner: Arc<Inner>,
    monitor: Option<thread::JoinHandle<()>>,
    watch: Arc<Mutex<Option<Watch>>>,
}

/// A device after set-up, with everything needed to use it.
struct Up {
    connection: Connection,
    port: Port<Waiter>,
    queues: Vec<Queue>,
    memory: Arc<Memory>,
    config: Config,
}

impl Driver {
    /// Connects to the device at `path`.
    ///
    /// # Errors
    /// [`Error::Connect`] if nothing listens at `path`, [`Error::Protocol`] if the device cannot be
    /// used, [`Error::Timeout`] if it does not answer in time, [`Error::Resource`] if the host
    /// lacks memory, threads or descriptors, and [`Error::Stopped`] if [`Wishes::stop`] is set.
    pub fn connect(path: &Path, options: Options) -> Result<Driver, Error> {
        let control = Control::new(
            options.mode,
            options.timeout,
            options.linger,
            options.spins,
            options.observe,
        );
        let up = bring_up(path, &options)?;
        let inner = Arc::new(Inner {
            path: path.to_path_buf(),
            options,
            device: Arc::new(Device::new(control)),
            closing: AtomicBool::new(false),
        });
        let watch = Arc::new(Mutex::new(None));
        let mut connection = inner.go_on(up, &watch, false)?;
        let monitored = inner.clone();
        let watching = watch.clone();
        let monitor = thread::Builder::new()
            .name("virtio-monitor".into())
            .spawn(move || loop {
                let gone = connection.watch();
                if let Ok(watch) = gone {
                    watch.until_gone(connection.kicks());
                }
                match monitored.find_again(&watching) {
                    Some(next) => connection = next,
                    None => return,
                }
            })
            .map_err(Error::resource("a thread"))?;
        Ok(Driver {
            inner,
            monitor: Some(monitor),
            watch,
        })
    }

    pub fn control(&self) -> &Control {
        &self.inner.device.control
    }

    /// Returns the device's configuration, as read when it connected.
    pub fn config(&self) -> Config {
        let parts = self.inner.device.lock();
        parts.config.expect("set when the device was found")
    }

    /// Takes a data queue. Each queue can be taken only once.
    ///
    /// # Errors
    /// [`Error::Request`] if the queue does not exist or has been taken.
    pub fn data_queue(&self, index: usize) -> Result<DataQueue, Error> {
        let mut parts = self.inner.device.lock();
        match parts.taken.get_mut(index) {
            Some(taken) if !*taken => *taken = true,
            _ => {
                return Err(Error::Request(
                    "the data queue does not exist or has been taken",
                ))
            }
        }
        let linger = self.inner.options.data_linger;
        Ok(DataQueue::new(self.inner.device.clone(), index, linger))
    }

    /// Allocates memory that the device can access.
    ///
    /// # Errors
    /// [`Error::Full`] if [`Options::heap`] is exhausted; [`Error::Lost`] if no device is
    /// connected.
    pub fn buffer(&self, len: usize) -> Result<Buffer, Error> {
        let memory = self.inner.device.lock().memory.clone();
        Buffer::new(&memory.ok_or(Error::Lost)?, len)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.inner.closing.store(true, Ordering::Release);
        if let Some(watch) = &*lock(&self.watch) {
            watch.hang_up();
        }
        if let Some(monitor) = self.monitor.take() {
            let _ = monitor.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// Switches to the queues of a newly connected device.
    fn go_on(
        self: &Arc<Self>,
        up: Up,
        watch: &Mutex<Option<Watch>>,
        again: bool,
    ) -> Result<Connection, Error> {
        let (call, wake) = (up.port.call.clone(), up.port.wake.clone());
        *lock(watch) = Some(up.connection.watch()?);
        let hang_up = up.connection.watch()?;
        {
            let mut parts = self.device.lock();
            parts.wakes = up.queues.iter().map(|q| q.wake.clone()).collect();
            parts.taken.resize(up.queues.len(), false);
            parts.queues = up.queues.into_iter().map(Some).collect();
            parts.memory = Some(up.memory);
            parts.indirect = up.connection.indirect();
            parts.config = Some(up.config);
            self.device.advance(&mut parts);
        }
        let shared = self.device.control.0.clone();
        let generation = shared.go_on(up.port, hang_up, again);
        let bell = Bell::new(&call, &wake).map_err(Error::resource("an epoll instance"))?;
        let helper = thread::Builder::new().name("virtio-irq".into());
        let started = match self.options.mode {
            Mode::Wait => helper.spawn(move || {
                // Check the ring before the first wait, because requests may have completed without
                // an interrupt before this thread started.
                while shared.interrupt(generation) {
                    if bell.wait(None).is_err() {
                        return;
                    }
                }
            }),
            Mode::Poll => helper.spawn(move || shared.catch_up(generation)),
        };
        started.map_err(Error::resource("a thread"))?;
        Ok(up.connection)
    }

    /// Reconnects after the device has disconnected. Returns `None` if reconnecting fails or the
    /// driver is being dropped.
    fn find_again(self: &Arc<Self>, watch: &Mutex<Option<Watch>>) -> Option<Connection> {
        {
            let mut parts = self.device.lock();
            parts.queues.clear();
            parts.memory = None;
            self.device.advance(&mut parts);
            for wake in parts.wakes.drain(..) {
                let _ = wake.write(1);
            }
        }
        self.device.control.0.stop();
        let until = Instant::now() + self.options.reconnect;
        while self.device.control.0.failed().is_none() && !self.closing.load(Ordering::Acquire) {
            if self.options.wishes.is_stopped() {
                break;
            }
            let found = bring_up(&self.path, &self.options).and_then(|mut up| {
                self.create_again(&mut up)?;
                self.go_on(up, watch, true)
            });
            match found {
                Ok(connection) => return Some(connection),
                Err(Error::Lied(lie)) => self.device.control.0.give_up(lie.into()),
                Err(_) if Instant::now() >= until => break,
                Err(_) => thread::sleep(RETRY),
            }
        }
        let why = match self.options.wishes.is_stopped() {
            true => Error::Stopped,
            false => Error::Lost,
        };
        self.device.control.0.give_up(why);
        None
    }

    /// Recreates the open sessions on a newly connected device.
    fn create_again(&self, up: &mut Up) -> Result<(), Error> {
        let watch = up.connection.watch()?;
        let port = &mut up.port;
        let (mut live, generation) = self.device.control.0.live();
        for entry in &live {
            entry.set_id(None, 0);
        }
        let until = Instant::now() + self.options.wishes.patience;
        while !live.is_empty() || port.is_busy() {
            while port.has_room() {
                let Some(entry) = live.pop() else { break };
                port.add(Ask::Create(entry), Waiter::Nobody)
                    .map_err(|(_, e)| e)?;
            }
            if port.ring.publish() {
                port.kick.ring_apart();
            }
            match port.land()? {
                Some(landed) => {
                    let Ask::Create(entry) = landed.ask else {
                        continue;
                    };
                    // If the device refuses to create a session, the session remains without an ID.
                    entry.set_id(landed.result.ok(), generation);
                }
                None if watch.is_gone() => return Err(Error::Lost),
                None if watch.is_stopped() => return Err(Error::Stopped),
                None if Instant::now() >= until => return Err(Error::Timeout),
                None => thread::yield_now(),
            }
        }
        Ok(())
    }
}

fn bring_up(path: &Path, options: &Options) -> Result<Up, Error> {
    let mut connection = Connection::open(path, &options.wishes)?;
    let config = Config::parse(connection.config())
        .map_err(|e| Error::Protocol(format!("its configuration space: {e}")))?;
    if config.status & HW_READY == 0 {
        return Err(Error::Protocol("its hardware is not ready".into()));
    }
    let has = config.max_dataqueues;
    if has == 0 || has > MOST_DATA_QUEUES || u64::from(has) >= connection.queues() {
        let queues = connection.queues();
        return Err(Error::Protocol(format!(
            "its configuration space announces {has} data queues, but it has {queues} queues in \
             total, and 1 to {MOST_DATA_QUEUES} of them can be data queues"
        )));
    }
    let data_queues = options.data_queues.clamp(1, has as usize);
    let size = options.queue_size;
    let rings = (data_queues + 1) * ring::bytes(size);
    let slots = port::bytes(size, options.max_key) + data_queues * data::bytes(size);
    let memory = Memory::new(rings + slots + options.heap)?;
    let mut wanted = Vec::new();
    for index in (0..data_queues).chain([has as usize]) {
        let ring = Ring::new(&memory, size, connection.event_idx())?;
        let ring = match connection.in_order() {
            true => ring.in_order(),
            false => ring,
        };
        wanted.push((index, ring));
    }
    let mut queues = connection.start(&memory, wanted)?;
    let control = queues.pop().expect("one queue for each ring");
    let port = Port::new(control, connection.indirect(), options.max_key)?;
    Ok(Up {
        connection,
        port,
        queues,
        memory,
        config,
    })
}
