//! A connection to a device, with a control queue and a data queue. Checks can write both valid and
//! invalid descriptors to the memory that holds the queues.

use std::fmt;
use std::fs::File;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::bits::{masks, name_features, name_status};
use kiln_virtio::wire::control::Created;
use kiln_virtio::wire::{config, feature, Config, Control, Features, Request, Status};
use rustix::fs::{fcntl_add_seals, memfd_create, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    connect, recv, socket_with, AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};
use vmm_sys_util::eventfd::EventFd;

/// Size of the shared memory in bytes. It holds two rings, followed by space for requests.
pub(crate) const MEMORY: usize = 4 << 20;
/// Address at which the device sees the start of the memory. It is not 0, so that an address field
/// that was never written is invalid.
pub(crate) const BASE: u64 = 1 << 24;
/// Offset of the area to which requests are written.
pub(crate) const ROOM: usize = 0x10000;
/// Number of ring entries.
pub(crate) const RING: u16 = 64;

const EVENT_IDX: u64 = 1 << 29;
pub(crate) const INDIRECT: u64 = 1 << 28;
const VERSION_1: u64 = 1 << 32;
pub(crate) const IN_ORDER: u64 = 1 << 35;
pub(crate) const RING_RESET: u64 = 1 << 40;

/// Descriptor flags, `VIRTQ_DESC_F_*`.
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const TABLE: u16 = 4;

/// Reasons why a check did not get an answer.
pub(crate) const STOPPED: &str = "the check was interrupted";
pub(crate) const GONE: &str = "the device closed the connection";
pub(crate) const SILENT: &str = "the device did not answer within 5 seconds";

/// How long a device may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How often a waiting function checks whether it has been interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// The device to check, and how to interrupt the checks.
#[derive(Clone, Debug)]
pub struct Target {
    /// Path of the device's socket.
    pub path: PathBuf,
    /// Setting this flag ends all waits.
    pub stop: Arc<AtomicBool>,
}

impl Target {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The features and configuration that a device offers.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// The feature bits that the device offers.
    pub features: u64,
    pub config: Config,
}

impl Offer {
    /// Describes the features, algorithms and limits, one per line.
    pub fn describe(&self) -> Vec<String> {
        let config = &self.config;
        let mut lines = vec![format!("features: {}", name_features(self.features))];
        lines.extend(
            masks(config)
                .iter()
                .map(|mask| format!("{}: {}", mask.field, mask.name())),
        );
        lines.push(format!(
            "limits: {} data queues, {} bytes per request, {} per cipher key, {} per MAC key",
            config.max_dataqueues,
            config.max_size,
            config.max_cipher_key_len,
            config.max_auth_key_len
        ));
        lines
    }

    /// Returns why a check that needs these features is skipped, or `None` if the device offers
    /// them.
    pub(crate) fn lacks(&self, needed: u64) -> Option<String> {
        let lacking = needed & !self.features;
        (lacking != 0).then(|| format!("{} is not offered", name_features(lacking)))
    }

    /// Returns an offer with all bits set, including those that the specification does not define.
    pub(crate) fn everything() -> Offer {
        Offer {
            features: u64::MAX,
            config: Config {
                status: u32::MAX,
                max_dataqueues: 1,
                crypto_services: u32::MAX,
                cipher_algo: u64::MAX,
                hash_algo: u32::MAX,
                mac_algo: u64::MAX,
                aead_algo: u32::MAX,
                max_cipher_key_len: u32::MAX,
                max_auth_key_len: u32::MAX,
                akcipher_algo: u32::MAX,
                max_size: u64::MAX,
            },
        }
    }
}

/// The reason why a device cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing listens on the socket.
    Connect(String),
    /// The device closed the connection before its first answer, for example because the maximum
    /// number of front ends is already connected.
    Refused,
    /// An answer did not arrive within [`PATIENCE`]. The device may be slow, or it may not be a
    /// virtio-crypto device. The text states what the device failed to do, such as "answer
    /// GET_FEATURES".
    Late(&'static str),
    /// Something answers on the socket, but it is not a virtio-crypto device.
    Device(String),
    /// Ctrl-C was pressed before an answer arrived.
    Stopped,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Connect(e) => write!(
                f,
                "cannot connect: {e}: start a device there (kiln serve --socket PATH)"
            ),
            Fault::Refused => {
                f.write_str("the device closed the connection before its first answer")
            }
            Fault::Late(what) => write!(
                f,
                "the device did not {what} within {} seconds: the device is busy, hangs, or serves its \
                 maximum number of front ends, or another program listens there: read the \
                 device's log, then try again",
                PATIENCE.as_secs()
            ),
            Fault::Device(e) => write!(f, "the peer is not a virtio-crypto device: {e}"),
            Fault::Stopped => f.write_str(STOPPED),
        }
    }
}

impl std::error::Error for Fault {}

/// The queues of a [`Link`]. The values are indexes into `Link::rings`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Data = 0,
    Control = 1,
}

/// A descriptor to write to a descriptor table. It need not be valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    pub address: u64,
    pub len: u32,
    pub flags: u16,
    pub next: u16,
}

struct Ring {
    index: usize,
    base: usize,
    kick: Arc<EventFd>,
    call: EventFd,
    avail: u16,
    used: u16,
}

impl Ring {
    /// Starts the queue at entry 0.
    fn start(&self, frontend: &mut Frontend, memory: &MmapRegion) -> vhost::Result<()> {
        let at = |offset| memory.as_ptr() as u64 + offset as u64;
        let addresses = VringConfigData {
            queue_max_size: RING,
            queue_size: RING,
            flags: 0,
            desc_table_addr: at(self.base),
            avail_ring_addr: at(offset_of_avail(self.base)),
            used_ring_addr: at(offset_of_used(self.base)),
            log_addr: None,
        };
        frontend.set_vring_num(self.index, RING)?;
        frontend.set_vring_addr(self.index, &addresses)?;
        frontend.set_vring_base(self.index, 0)?;
        frontend.set_vring_call(self.index, &self.call)?;
        frontend.set_vring_kick(self.index, &self.kick)?;
        frontend.set_vring_enable(self.index, true)
    }
}

/// A handle to the memory shared with the device. Clones refer to the same memory.
#[derive(Clone)]
pub(crate) struct Shared(Arc<MmapRegion>);

impl Shared {
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let slice = self.0.as_volatile_slice();
        slice.write_slice(bytes, offset).expect("inside the memory");
    }
}

/// A connection to a device, with its memory and queues.
pub(crate) struct Link {
    pub offer: Offer,
    pub features: Features,
    rings: [Ring; 2],
    memory: Shared,
    _file: File,
    socket: UnixStream,
    target: Target,
    frontend: Frontend,
}

/// A device's answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Number of bytes that the device claims to have written.
    pub used: u32,
    /// The contents of the whole writable buffer.
    pub bytes: Vec<u8>,
}

/// How the device reacted to the published descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The device returned a used entry with this head and length.
    Used(u32, u32),
    /// The device closed the connection.
    Gone,
    Silence,
    Stopped,
}

impl Came {
    /// Describes what the device did instead of answering a request.
    pub(crate) fn describe(self) -> String {
        match self {
            Came::Used(head, len) => format!(
                "the used ring has descriptor {head} with {len} bytes, which was not made available"
            ),
            Came::Gone => GONE.into(),
            Came::Silence => SILENT.into(),
            Came::Stopped => STOPPED.into(),
        }
    }
}

/// Number of bytes of shared memory per ring.
const RING_BYTES: usize = 0x3000;

fn offset_of_avail(base: usize) -> usize {
    base + 0x1000
}

fn offset_of_used(base: usize) -> usize {
    base + 0x2000
}

/// Closes the connection immediately. Otherwise, the connection would stay open until the thread
/// started by [`hang_up_later`] dropped its copy of the socket, and a device that serves one driver
/// at a time would reject the next driver.
impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Link {
    /// Connects, accepts those `wanted` features that the device offers, and starts both queues.
    ///
    /// # Errors
    /// Fails if the device cannot be reached or negotiation fails.
    pub(crate) fn open(target: &Target, wanted: u64) -> Result<Link, Fault> {
        match Link::shake_hands(target, wanted) {
            Err(_) if target.is_stopped() => Err(Fault::Stopped),
            result => result,
        }
    }

    fn shake_hands(target: &Target, wanted: u64) -> Result<Link, Fault> {
        let of_connect = |e: std::io::Error| Fault::Connect(e.to_string());
        let socket = reach(target).map_err(|e| match e.kind() {
            // A process listens on the socket but does not accept connections.
            std::io::ErrorKind::WouldBlock => Fault::Late("accept the connection"),
            _ if target.path.is_file() => Fault::Connect("a file, not a socket".to_string()),
            _ if target.path.is_dir() => Fault::Connect("a directory, not a socket".to_string()),
            _ => of_connect(e),
        })?;
        let limit = hang_up_later(target, &socket).map_err(of_connect)?;
        let again = socket.try_clone().map_err(of_connect)?;
        let mut frontend = Frontend::from_stream(again, 256);
        let (file, memory) = shared().map_err(of_connect)?;
        let fault = |e: vhost::Error| Fault::Device(e.to_string());
        // When the time limit expires, the thread started by `hang_up_later` closes the connection,
        // and the library reports only a closed connection. Check the limit to tell a late answer
        // from other failures.
        let without = |answer| {
            let limit = &limit;
            move |e: vhost::Error| match limit.is_over() {
                true => Fault::Late(answer),
                false => fault(e),
            }
        };
        let offered = frontend.set_owner().and_then(|()| frontend.get_features());
        let offered = offered.map_err(|e| match !limit.is_over() && hung_up(&socket) {
            true => Fault::Refused,
            false => without("answer GET_FEATURES")(e),
        })?;
        let user = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        if offered & VERSION_1 == 0 || offered & user == 0 {
            return Err(Fault::Device(format!(
                "its features lack {}: {}",
                name_features((VERSION_1 | user) & !offered),
                name_features(offered)
            )));
        }
        // Accept `user`, the feature bit for protocol features. With this bit, each queue starts
        // disabled until a message enables it.
        let ring_bits = VERSION_1 | user | EVENT_IDX | INDIRECT;
        let taken =
            offered & (ring_bits & !EVENT_IDX | wanted & (feature::ALL | IN_ORDER | RING_RESET));
        let wish = VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK;
        let has = frontend
            .get_protocol_features()
            .map_err(without("answer GET_PROTOCOL_FEATURES"))?;
        frontend.set_protocol_features(has & wish).map_err(fault)?;
        frontend.set_features(taken).map_err(fault)?;
        let (_, bytes) = frontend
            .get_config(
                0,
                config::SIZE as u32,
                VhostUserConfigFlags::WRITABLE,
                &[0; config::SIZE],
            )
            .map_err(without("answer GET_CONFIG"))?;
        let config = Config::parse(&bytes).map_err(|e| Fault::Device(e.to_string()))?;
        let control = usize::try_from(config.max_dataqueues).unwrap_or(usize::MAX);
        if !(1..255).contains(&control) {
            return Err(Fault::Device(format!(
                "its configuration has {control} data queues, not from 1 to 254"
            )));
        }
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: BASE,
            memory_size: MEMORY as u64,
            userspace_addr: memory.as_ptr() as u64,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        frontend.set_mem_table(&[region]).map_err(fault)?;
        let ring = |frontend: &mut Frontend, index: usize, base: usize| {
            let ring = Ring {
                index,
                base,
                kick: Arc::new(EventFd::new(libc::EFD_CLOEXEC)?),
                call: EventFd::new(libc::EFD_CLOEXEC)?,
                avail: 0,
                used: 0,
            };
            let started = ring.start(frontend, &memory);
            started.map(|()| ring).map_err(std::io::Error::other)
        };
        let of_io = |e: std::io::Error| Fault::Device(e.to_string());
        let data = ring(&mut frontend, 0, 0).map_err(of_io)?;
        let control = ring(&mut frontend, control, 0x4000).map_err(of_io)?;
        Ok(Link {
            offer: Offer {
                features: offered,
                config,
            },
            features: Features::new(taken),
            rings: [data, control],
            memory: Shared(Arc::new(memory)),
            _file: file,
            socket,
            target: target.clone(),
            frontend,
        })
    }

    /// Stops a queue and restarts it at entry 0, as a driver does to reset the queue (2.6.1).
    pub(crate) fn reset_queue(&mut self, queue: Queue) -> Result<(), String> {
        let limit = hang_up_later(&self.target, &self.socket).map_err(|e| e.to_string())?;
        let ring = &mut self.rings[queue as usize];
        let front_end = &mut self.frontend;
        let stopped = front_end.set_vring_enable(ring.index, false);
        stopped
            .and_then(|()| front_end.get_vring_base(ring.index))
            .map_err(|e| match limit.is_over() {
                true => Fault::Late("answer GET_VRING_BASE").to_string(),
                false => e.to_string(),
            })?;
        (ring.avail, ring.used) = (0, 0);
        self.memory.write(ring.base, &[0; RING_BYTES]);
        ring.start(front_end, &self.memory.0)
            .map_err(|e| e.to_string())
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.memory.write(offset, bytes);
    }

    /// Returns a handle to the memory, for a thread that changes the memory while the device reads
    /// it.
    pub(crate) fn shared(&self) -> Shared {
        self.memory.clone()
    }

    /// Reads `len` bytes from the shared memory at an offset.
    pub(crate) fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let slice = self.memory.0.as_volatile_slice();
        slice
            .read_slice(&mut bytes, offset)
            .expect("inside the memory");
        bytes
    }

    /// Writes a descriptor to the table at offset `table`.
    pub(crate) fn describe(&self, table: usize, index: u16, d: Descriptor) {
        let mut bytes = d.address.to_le_bytes().to_vec();
        bytes.extend(d.len.to_le_bytes());
        bytes.extend(d.flags.to_le_bytes());
        bytes.extend(d.next.to_le_bytes());
        self.write(table + 16 * usize::from(index), &bytes);
    }

    /// Returns the offsets of a queue's descriptor table, available ring and used ring.
    pub(crate) fn layout(&self, queue: Queue) -> [usize; 3] {
        let base = self.rings[queue as usize].base;
        [base, offset_of_avail(base), offset_of_used(base)]
    }

    /// Writes a head to the next slot in the available ring, advances the available index by `by`,
    /// and notifies the device.
    pub(crate) fn publish(&mut self, queue: Queue, head: u16, by: u16) {
        let ring = &self.rings[queue as usize];
        let avail = offset_of_avail(ring.base);
        let slot = usize::from(ring.avail % RING);
        self.write(avail + 4 + 2 * slot, &head.to_le_bytes());
        let index = ring.avail.wrapping_add(by);
        let slice = self.memory.0.as_volatile_slice();
        slice
            .store(index.to_le(), avail + 2, Ordering::Release)
            .expect("inside the memory");
        let ring = &mut self.rings[queue as usize];
        ring.avail = index;
        // Ignore errors, because a device that has disconnected need not be notified. Write in a
        // separate thread that is never joined, because the device can block the write by filling
        // the eventfd.
        let kick = ring.kick.clone();
        thread::spawn(move || kick.write(1));
    }

    /// Waits up to `patience` for the next used entry.
    pub(crate) fn wait(&mut self, queue: Queue, patience: Duration) -> Came {
        let ring = &mut self.rings[queue as usize];
        let used = offset_of_used(ring.base);
        let until = Instant::now() + patience;
        let slice = self.memory.0.as_volatile_slice();
        for turn in 0.. {
            let index: u16 = slice
                .load(used + 2, Ordering::Acquire)
                .expect("the ring is inside the memory");
            if u16::from_le(index) != ring.used {
                let entry = used + 4 + 8 * usize::from(ring.used % RING);
                ring.used = ring.used.wrapping_add(1);
                let mut words = [[0; 4]; 2];
                for (i, word) in words.iter_mut().enumerate() {
                    slice
                        .read_slice(word, entry + 4 * i)
                        .expect("the ring is inside the memory");
                }
                let [id, len] = words.map(u32::from_le_bytes);
                return Came::Used(id, len);
            }
            if turn % 64 == 63 && hung_up(&self.socket) {
                return Came::Gone;
            }
            if self.target.is_stopped() {
                return Came::Stopped;
            }
            if Instant::now() >= until {
                return if hung_up(&self.socket) {
                    Came::Gone
                } else {
                    Came::Silence
                };
            }
            thread::sleep(Duration::from_micros(if turn < 50 { 20 } else { 500 }));
        }
        unreachable!("the loop ends by itself")
    }

    /// Sends a request in one readable and one writable descriptor, and returns the answer.
    ///
    /// # Errors
    /// Fails if the device does not answer.
    pub(crate) fn ask(
        &mut self,
        queue: Queue,
        readable: &[u8],
        room: usize,
    ) -> Result<Answer, String> {
        let (request, answer) = (ROOM, ROOM + readable.len().next_multiple_of(64) + 64);
        self.write(request, readable);
        self.write(answer, &vec![0xa5; room + 64]);
        let table = self.layout(queue)[0];
        let address = |offset: usize| BASE + offset as u64;
        let first = Descriptor {
            address: address(request),
            len: readable.len() as u32,
            flags: NEXT,
            next: 1,
        };
        let second = Descriptor {
            address: address(answer),
            len: room as u32,
            flags: WRITE,
            next: 0,
        };
        self.describe(table, 0, first);
        self.describe(table, 1, second);
        self.publish(queue, 0, 1);
        match self.wait(queue, PATIENCE) {
            Came::Used(0, used) if used as usize <= room => {
                let bytes = self.read(answer, room + 64);
                if bytes[room..].iter().any(|&b| b != 0xa5) {
                    return Err("the device wrote beyond the writable buffer".into());
                }
                Ok(Answer {
                    used,
                    bytes: bytes[..room].to_vec(),
                })
            }
            Came::Used(head, used) => Err(format!(
                "the used ring has descriptor {head} with {used} bytes, but descriptor 0 with at most {room} bytes was made available"
            )),
            came => Err(came.describe()),
        }
    }

    /// Creates or destroys a session.
    ///
    /// # Errors
    /// Fails if the device does not answer.
    pub(crate) fn control(&mut self, control: &Control<'_>) -> Result<Result<u64, Status>, String> {
        let mut bytes = Vec::new();
        control.emit(self.features, &mut bytes);
        let answer = self.ask(Queue::Control, &bytes, control.answer_len())?;
        if answer.used as usize != control.answer_len() {
            return Err(format!(
                "the answer on the control queue has {} bytes, not {}",
                answer.used,
                control.answer_len()
            ));
        }
        match control {
            Control::Create { .. } => {
                let created = Created::parse(&answer.bytes).map_err(|e| e.to_string())?;
                Ok(created.result())
            }
            Control::Destroy { .. } => match answer.bytes[0] {
                0 => Ok(Ok(0)),
                status => Ok(Err(Status::from_raw(status).unwrap_or(Status::Err))),
            },
        }
    }

    /// Sends raw bytes to the data queue, and returns the result or the error status.
    ///
    /// # Errors
    /// Fails if the device does not answer.
    pub(crate) fn raw(
        &mut self,
        bytes: &[u8],
        room: usize,
    ) -> Result<Result<Vec<u8>, Status>, String> {
        let answer = self.ask(Queue::Data, bytes, room)?;
        let (status, dst) = answer
            .bytes
            .split_last()
            .ok_or("the request has no room for a status")?;
        match Status::from_raw(*status) {
            Some(Status::Ok) => {
                let len = (answer.used as usize).saturating_sub(1).min(dst.len());
                Ok(Ok(dst[..len].to_vec()))
            }
            Some(status) => Ok(Err(status)),
            None => Err(format!("status {}", name_status(*status))),
        }
    }

    /// Sends a data request, and returns the result or the error status.
    ///
    /// # Errors
    /// Fails if the device does not answer.
    pub(crate) fn request(
        &mut self,
        request: &Request<'_>,
    ) -> Result<Result<Vec<u8>, Status>, String> {
        let mut bytes = Vec::new();
        request.emit(self.features, &mut bytes);
        self.raw(&bytes, request.answer_len())
    }
}

pub(crate) fn shared() -> std::io::Result<(File, MmapRegion)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("kiln-virtio-check", flags)?);
    file.set_len(MEMORY as u64)?;
    // Seal the file, because if the device shrank the file, this process would be killed with
    // SIGBUS.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let memory = MmapRegionBuilder::new(MEMORY)
        .with_file_offset(FileOffset::new(file.try_clone()?, 0))
        .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
        .with_mmap_flags(libc::MAP_SHARED)
        .build()
        .map_err(std::io::Error::other)?;
    Ok((file, memory))
}

/// Connects without blocking. If the device does not accept connections and the backlog is full, a
/// blocking connect() would wait forever.
pub(crate) fn reach(target: &Target) -> std::io::Result<UnixStream> {
    let address = SocketAddrUnix::new(&target.path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN) if !target.is_stopped() && Instant::now() < until => {
                thread::sleep(LOOK);
            }
            Err(e) => return Err(e.into()),
        }
    }
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// A time limit for the device's answers. Dropping this value lifts the limit.
pub(crate) struct TimeLimit {
    over: Arc<AtomicBool>,
    _done: Sender<()>,
}

impl TimeLimit {
    /// Returns whether the connection was closed because the time was up.
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Starts a thread that closes the connection if the device does not answer in time or the checks
/// are interrupted. The thread is needed because the protocol library waits without a time limit.
pub(crate) fn hang_up_later(target: &Target, socket: &UnixStream) -> std::io::Result<TimeLimit> {
    let (done, waiting) = channel();
    let (target, socket) = (target.clone(), socket.try_clone()?);
    let until = Instant::now() + PATIENCE;
    let over = Arc::new(AtomicBool::new(false));
    let limit = TimeLimit {
        over: over.clone(),
        _done: done,
    };
    thread::spawn(move || {
        while waiting.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let late = Instant::now() > until;
            if target.is_stopped() || late {
                // Set the flag before closing the connection, because the waiting thread reads the
                // flag as soon as the connection closes.
                over.store(late, Ordering::Release);
                let _ = socket.shutdown(Shutdown::Both);
                break;
            }
        }
    });
    Ok(limit)
}

fn hung_up(socket: &UnixStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match recv(socket, &mut [0_u8; 1], flags) {
        Ok((_, n)) => n == 0,
        Err(e) => e != Errno::WOULDBLOCK,
    }
}
