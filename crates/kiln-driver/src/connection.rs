//! A vhost-user connection to a device: negotiates features, and sets up memory and rings.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{connect, socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::bindings::virtio_config::{VIRTIO_F_IN_ORDER, VIRTIO_F_VERSION_1};
use virtio_bindings::bindings::virtio_ring::{
    VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC,
};
use vmm_sys_util::eventfd::EventFd;

use crate::error::Error;
use crate::kick::Kick;
use crate::memory::{Memory, GUEST_BASE};
use crate::ring::Ring;

/// Bit number of `VHOST_USER_F_PROTOCOL_FEATURES`, a feature bit defined by vhost-user.
const PROTOCOL_FEATURES: u32 = 30;
/// Size of the configuration space in bytes.
pub(crate) const CONFIG_LEN: usize = 56;
/// Maximum number of queues that vhost-user allows.
const MOST_QUEUES: u64 = 256;

/// Settings for a connection.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Whether to use EVENT_IDX if the device offers it.
    pub event_idx: bool,
    /// Whether to use indirect descriptors if the device offers them.
    pub indirect: bool,
    /// Whether to use IN_ORDER if the device offers it.
    pub in_order: bool,
    /// Maximum time to wait for each of the device's answers during set-up.
    pub patience: Duration,
    /// A flag that the program sets to stop the driver. Every wait for the device then ends with
    /// [`Error::Stopped`] within 0.2 s.
    pub stop: Arc<AtomicBool>,
}

impl Wishes {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes {
            event_idx: true,
            indirect: true,
            in_order: true,
            patience: Duration::from_secs(8),
            stop: Arc::default(),
        }
    }
}

/// A queue shared with the device: its ring, two eventfds with which the driver and the device
/// notify each other, and a third eventfd that the device cannot access.
pub(crate) struct Queue {
    pub ring: Ring,
    /// The eventfd that the driver writes to notify the device.
    pub kick: Arc<Kick>,
    /// The eventfd that the device writes to interrupt the driver.
    pub call: Arc<EventFd>,
    /// The eventfd that the driver writes to wake a thread that sleeps on `call`. The driver cannot
    /// write to `call` for this purpose, because the device could fill that eventfd's counter and
    /// make the write block.
    pub wake: Arc<EventFd>,
}

/// A connected device. Dropping the connection closes the socket, after which the device discards
/// the driver's state.
pub(crate) struct Connection {
    frontend: Frontend,
    socket: UnixStream,
    features: u64,
    config: [u8; CONFIG_LEN],
    queues: u64,
    wishes: Wishes,
    /// The eventfds that notify the device, one per queue.
    kicks: Vec<Arc<Kick>>,
}

impl Connection {
    /// Connects to the device at `path` and negotiates features.
    ///
    /// # Errors
    /// [`Error::Connect`] if the socket cannot be reached; [`Error::Protocol`] if the other end is
    /// not a virtio-crypto device that supports virtio 1.
    pub(crate) fn open(path: &Path, wishes: &Wishes) -> Result<Connection, Error> {
        Connection::open_on(reach(path, wishes)?, wishes)
    }

    /// Like [`Connection::open`], but on a socket that is already connected.
    pub(crate) fn open_on(socket: UnixStream, wishes: &Wishes) -> Result<Connection, Error> {
        let again = socket.try_clone().map_err(Error::connect)?;
        let frontend = Frontend::from_stream(again, MOST_QUEUES);
        let guard = Guard::start(&socket, wishes)?;
        let agreed = agree(frontend, wishes);
        let (frontend, features, config, queues) = guard.end(agreed)?;
        Ok(Connection {
            frontend,
            socket,
            features,
            config,
            queues,
            wishes: wishes.clone(),
            kicks: Vec::new(),
        })
    }

    pub(crate) fn config(&self) -> &[u8; CONFIG_LEN] {
        &self.config
    }

    /// Returns the number of queues that the device has, including the control queue.
    pub(crate) fn queues(&self) -> u64 {
        self.queues
    }

    /// Returns whether EVENT_IDX was negotiated.
    pub(crate) fn event_idx(&self) -> bool {
        self.features & 1 << VIRTIO_RING_F_EVENT_IDX != 0
    }

    /// Returns whether IN_ORDER was negotiated.
    pub(crate) fn in_order(&self) -> bool {
        self.features & 1 << VIRTIO_F_IN_ORDER != 0
    }

    /// Returns whether indirect descriptors were negotiated.
    pub(crate) fn indirect(&self) -> bool {
        self.features & 1 << VIRTIO_RING_F_INDIRECT_DESC != 0
    }

    /// Passes memory and rings to the device, which then starts to serve the rings.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the device rejects a message; [`Error::Resource`] if the host lacks
    /// descriptors.
    pub(crate) fn start(
        &mut self,
        memory: &Memory,
        rings: Vec<(usize, Ring)>,
    ) -> Result<Vec<Queue>, Error> {
        let guard = Guard::start(&self.socket, &self.wishes)?;
        let started = self.hand_over(memory, rings);
        guard.end(started)
    }

    fn hand_over(
        &mut self,
        memory: &Memory,
        rings: Vec<(usize, Ring)>,
    ) -> Result<Vec<Queue>, Error> {
        self.frontend.set_mem_table(&[VhostUserMemoryRegionInfo {
            guest_phys_addr: GUEST_BASE,
            memory_size: memory.size() as u64,
            userspace_addr: memory.host_base(),
            mmap_offset: 0,
            mmap_handle: memory.fd(),
        }])?;
        let mut queues = Vec::new();
        for (index, ring) in rings {
            let layout = ring.layout();
            let kick = Arc::new(Kick::new().map_err(Error::resource("an eventfd"))?);
            let call = EventFd::new(libc::EFD_CLOEXEC).map_err(Error::resource("an eventfd"))?;
            self.frontend.set_vring_num(index, layout.size)?;
            self.frontend.set_vring_addr(
                index,
                &VringConfigData {
                    queue_max_size: layout.size,
                    queue_size: layout.size,
                    flags: 0,
                    desc_table_addr: memory.host(layout.descriptors),
                    used_ring_addr: memory.host(layout.used),
                    avail_ring_addr: memory.host(layout.avail),
                    log_addr: None,
                },
            )?;
            self.frontend.set_vring_base(index, 0)?;
            self.frontend.set_vring_call(index, &call)?;
            self.frontend.set_vring_kick(index, kick.event())?;
            self.frontend.set_vring_enable(index, true)?;
            self.kicks.push(kick.clone());
            queues.push(Queue {
                ring,
                kick,
                call: Arc::new(call),
                wake: Arc::new(
                    EventFd::new(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)
                        .map_err(Error::resource("an eventfd"))?,
                ),
            });
        }
        // Some devices do not acknowledge messages. Once the device answers this query, it has
        // processed all earlier messages.
        self.frontend.get_features()?;
        Ok(queues)
    }

    /// Returns the eventfds that notify the device, one per queue.
    pub(crate) fn kicks(&self) -> &[Arc<Kick>] {
        &self.kicks
    }

    /// Returns a second handle to the socket, which detects when the device disconnects.
    ///
    /// # Errors
    /// [`Error::Resource`] if the host lacks descriptors.
    pub(crate) fn watch(&self) -> Result<Watch, Error> {
        let socket = self
            .socket
            .try_clone()
            .map_err(Error::resource("a copy of the socket"))?;
        Ok(Watch {
            socket,
            stop: self.wishes.stop.clone(),
        })
    }
}

/// How often a waiting thread checks whether the driver must stop.
const LOOK: Duration = Duration::from_millis(100);

/// How often to check for writes that the device is blocking, as a number of `LOOK` intervals.
const HELD: u32 = 4;

/// A handle with which a thread can detect that the device has disconnected.
pub(crate) struct Watch {
    socket: UnixStream,
    stop: Arc<AtomicBool>,
}

impl Watch {
    /// Sleeps until the device has disconnected, the driver must stop, or [`Watch::hang_up`] is
    /// called on another handle. A device that blocks writes to `kicks` counts as disconnected. On
    /// return, no write to `kicks` is blocked.
    pub(crate) fn until_gone(&self, kicks: &[Arc<Kick>]) {
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(LOOK.subsec_nanos()),
        };
        for n in 1_u32.. {
            let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
            match poll(&mut fds, Some(&look)) {
                // Check every kick instead of stopping at the first blocked one, because `release`
                // must be called on each of them.
                Ok(0) => {
                    let look = n % HELD == 0;
                    let held = look && kicks.iter().filter(|kick| kick.release()).count() > 0;
                    if held || self.is_stopped() {
                        self.hang_up();
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                _ => break,
            }
        }
        kicks.iter().for_each(|kick| kick.retire());
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n| n > 0)
    }

    /// Closes the connection from the driver's side.
    pub(crate) fn hang_up(&self) {
        // An error means that the other end has already closed the connection.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

type Agreed = (Frontend, u64, [u8; CONFIG_LEN], u64);

fn agree(mut frontend: Frontend, wishes: &Wishes) -> Result<Agreed, Error> {
    let protocol = |what: &str| Error::Protocol(what.to_string());
    frontend.set_owner()?;
    let offered = frontend.get_features()?;
    if offered & 1 << VIRTIO_F_VERSION_1 == 0 {
        return Err(protocol("it offers no VIRTIO_F_VERSION_1"));
    }
    if offered & 1 << PROTOCOL_FEATURES == 0 {
        return Err(protocol("it offers no vhost-user protocol features"));
    }
    let able = frontend.get_protocol_features()?;
    if !able.contains(VhostUserProtocolFeatures::CONFIG) {
        return Err(protocol("it does not offer the configuration space"));
    }
    let wanted = VhostUserProtocolFeatures::MQ
        | VhostUserProtocolFeatures::REPLY_ACK
        | VhostUserProtocolFeatures::CONFIG;
    let able = able & wanted;
    frontend.set_protocol_features(able)?;
    if able.contains(VhostUserProtocolFeatures::REPLY_ACK) {
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    }
    let queues = match able.contains(VhostUserProtocolFeatures::MQ) {
        true => frontend.get_queue_num()?,
        false => 2,
    };
    let mut wanted = 1 << VIRTIO_F_VERSION_1 | 1 << PROTOCOL_FEATURES;
    if wishes.event_idx {
        wanted |= 1 << VIRTIO_RING_F_EVENT_IDX;
    }
    if wishes.indirect {
        wanted |= 1 << VIRTIO_RING_F_INDIRECT_DESC;
    }
    if wishes.in_order {
        wanted |= 1 << VIRTIO_F_IN_ORDER;
    }
    let features = offered & wanted;
    frontend.set_features(features)?;
    let (_, bytes) = frontend.get_config(
        0,
        CONFIG_LEN as u32,
        VhostUserConfigFlags::empty(),
        &[0; CONFIG_LEN],
    )?;
    let config = bytes
        .try_into()
        .map_err(|_| protocol("its configuration space is too short"))?;
    Ok((frontend, features, config, queues))
}

/// Connects without blocking. A blocking connect() would wait forever if the device does not accept
/// connections and its backlog is full.
fn reach(path: &Path, wishes: &Wishes) -> Result<UnixStream, Error> {
    let address = SocketAddrUnix::new(path).map_err(Error::connect)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = UnixStream::from(socket.map_err(Error::resource("a socket"))?);
    let until = Instant::now() + wishes.patience;
    loop {
        match connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN) if wishes.is_stopped() => return Err(Error::Stopped),
            Err(Errno::AGAIN) if Instant::now() > until => return Err(Error::Timeout),
            Err(Errno::AGAIN) => thread::sleep(LOOK / 10),
            Err(e) => return Err(Error::connect(e)),
        }
    }
    socket
        .set_nonblocking(false)
        .map_err(Error::resource("blocking mode for the socket"))?;
    Ok(socket)
}

/// A thread that closes the connection if the device does not answer in time or the driver must
/// stop. This thread is needed because the protocol library waits without a time limit.
struct Guard {
    done: std::sync::mpsc::Sender<()>,
    thread: thread::JoinHandle<Option<Error>>,
}

impl Guard {
    fn start(socket: &UnixStream, wishes: &Wishes) -> Result<Guard, Error> {
        let socket = socket
            .try_clone()
            .map_err(Error::resource("a copy of the socket"))?;
        let (done, waiting) = channel();
        let wishes = wishes.clone();
        let until = Instant::now() + wishes.patience;
        let thread = thread::Builder::new()
            .name("vhost-guard".into())
            .spawn(move || loop {
                let left = until.saturating_duration_since(Instant::now());
                if waiting.recv_timeout(left.min(LOOK)) != Err(RecvTimeoutError::Timeout) {
                    return None;
                }
                let why = match wishes.is_stopped() {
                    true => Error::Stopped,
                    false if Instant::now() < until => continue,
                    false => Error::Timeout,
                };
                let _ = socket.shutdown(Shutdown::Both);
                return Some(why);
            })
            .map_err(Error::resource("a thread"))?;
        Ok(Guard { done, thread })
    }

    /// Stops the guard. Returns `result`, or the reason why the guard closed the connection.
    fn end<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        let _ = self.done.send(());
        let hung_up = self.thread.join().unwrap_or(None);
        result.map_err(|error| hung_up.unwrap_or(error))
    }
}
