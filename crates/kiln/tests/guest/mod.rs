//! A guest of `kiln serve`: a front end with a data queue and a control queue, and the guest's
//! driver.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use kiln_virtio::sample::{create, encrypt};
use kiln_virtio::wire::algo::OP_ENCRYPT;
use kiln_virtio::wire::control::Created;
use vhost::vhost_user::message::VhostUserProtocolFeatures as Protocol;
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestRegionMmap,
};
use vmm_sys_util::eventfd::EventFd;

const MEMORY: usize = 1 << 20;
const RING: u16 = 64;
const PATIENCE: Duration = Duration::from_secs(20);
/// Feature bits: VIRTIO_F_VERSION_1 and VHOST_USER_F_PROTOCOL_FEATURES.
const FEATURES: u64 = 1 << 32 | 1 << 30;

/// Initial value of every byte in an answer buffer. If the device writes only a status, all other
/// bytes must keep this value.
pub const LEFT: u8 = 0xee;

/// A queue. Its memory starts at guest address `at` and contains the descriptors, the driver area,
/// the device area, and one slot per request with space for the request and its answer.
struct Ring {
    at: u64,
    kick: EventFd,
    call: EventFd,
    avail: u16,
}

/// A connected guest, with its memory and queues.
pub struct Guest {
    /// The vhost-user connection to the device.
    pub front_end: Frontend,
    memory: GuestMemoryMmap,
    file: File,
    data: Ring,
    control: Ring,
    /// Number of data queues, which is also the control queue's index.
    queues: usize,
}

impl Ring {
    fn slot(&self, n: u16) -> (u64, u64) {
        let at = self.at + 0x4000 + u64::from(n % 32) * 0x400;
        (at, at + 0x200)
    }
}

impl Guest {
    /// Connects to a device that has this many data queues. The guest uses only the first of these
    /// queues.
    pub fn connect(socket: &Path, queues: u16) -> Guest {
        Guest::on(UnixStream::connect(socket).unwrap(), queues)
    }

    /// Creates a guest on a stream that is already connected.
    pub fn on(stream: UnixStream, queues: u16) -> Guest {
        Guest::with(stream, queues, 0)
    }

    /// Creates a guest on a stream that is already connected. In addition to the usual feature
    /// bits, the guest accepts the bits in `more`.
    pub fn with(stream: UnixStream, queues: u16, more: u64) -> Guest {
        let features = FEATURES | more;
        let mut front_end = Frontend::from_stream(stream, u64::from(queues) + 1);
        front_end.set_owner().unwrap();
        let offered = front_end.get_features().unwrap();
        assert_eq!(offered & features, features);
        front_end.set_features(features).unwrap();
        let protocol = front_end.get_protocol_features().unwrap();
        let wanted = Protocol::MQ | Protocol::REPLY_ACK | Protocol::CONFIG;
        assert!(protocol.contains(wanted));
        front_end.set_protocol_features(wanted).unwrap();
        assert_eq!(front_end.get_queue_num().unwrap(), u64::from(queues) + 1);
        let file = memfd(MEMORY as u64, 0);
        let memory = shared(&file);
        let ring = |at| Ring {
            at,
            kick: EventFd::new(0).unwrap(),
            call: EventFd::new(libc::EFD_NONBLOCK).unwrap(),
            avail: 0,
        };
        let mut guest = Guest {
            queues: usize::from(queues),
            data: ring(0),
            control: ring(0x2_0000),
            memory,
            file,
            front_end,
        };
        let region = guest.memory.iter().next().unwrap();
        guest
            .front_end
            .set_mem_table(&[VhostUserMemoryRegionInfo {
                mmap_handle: guest.file.as_raw_fd(),
                ..VhostUserMemoryRegionInfo::from_guest_region(region).unwrap()
            }])
            .unwrap();
        guest.start(true);
        guest.start(false);
        guest
    }

    fn ring(&mut self, data: bool) -> &mut Ring {
        match data {
            true => &mut self.data,
            false => &mut self.control,
        }
    }

    /// Starts the data queue if `data` is set, and the control queue otherwise. The queue starts at
    /// its first entry.
    fn start(&mut self, data: bool) {
        self.start_at(data, 0);
    }

    /// Starts a queue at entry `entry`.
    pub fn start_at(&mut self, data: bool, entry: u16) {
        let base = self.memory.iter().next().unwrap().as_ptr() as u64;
        let index = if data { 0 } else { self.queues };
        let ring = if data { &self.data } else { &self.control };
        let front_end = &mut self.front_end;
        front_end.set_vring_num(index, RING).unwrap();
        front_end.set_vring_base(index, entry).unwrap();
        let addresses = VringConfigData {
            queue_max_size: RING,
            queue_size: RING,
            flags: 0,
            desc_table_addr: base + ring.at,
            avail_ring_addr: base + ring.at + 0x1000,
            used_ring_addr: base + ring.at + 0x2000,
            log_addr: None,
        };
        front_end.set_vring_addr(index, &addresses).unwrap();
        front_end.set_vring_call(index, &ring.call).unwrap();
        front_end.set_vring_kick(index, &ring.kick).unwrap();
        front_end.set_vring_enable(index, true).unwrap();
    }

    /// Stops a queue and starts it again, as a driver does to reset the queue.
    pub fn reset_queue(&mut self, data: bool) {
        self.stop(data);
        self.clear(data);
        self.start(data);
        // Wait for the answer to another message. The device does not answer messages that start a
        // ring, but it processes all messages in order.
        self.front_end.get_features().unwrap();
    }

    /// Stops a queue. Returns the entry at which the queue will continue.
    pub fn stop(&mut self, data: bool) -> u16 {
        let index = if data { 0 } else { self.queues };
        self.front_end.set_vring_enable(index, false).unwrap();
        self.front_end.get_vring_base(index).unwrap() as u16
    }

    /// Clears a stopped queue, as a driver does before it starts the queue at its first entry.
    pub fn clear(&mut self, data: bool) {
        let ring = self.ring(data);
        ring.avail = 0;
        let at = ring.at;
        self.memory
            .write_slice(&[0; 0x3000], GuestAddress(at))
            .unwrap();
    }

    /// Sets the features again, as a driver does when it reinitialises the device.
    pub fn features_again(&mut self, more: u64) {
        self.front_end.set_features(FEATURES | more).unwrap();
    }

    /// Makes a request available to the device. Returns the number of the request and the address
    /// of the answer.
    fn submit(&mut self, data: bool, request: &[u8], room: u32, kick: bool) -> (u16, u64) {
        let ring = match data {
            true => &mut self.data,
            false => &mut self.control,
        };
        let n = ring.avail;
        let (from, to) = ring.slot(n);
        let put = |at: u64, bytes: &[u8]| self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
        put(from, request);
        put(to, &vec![LEFT; room as usize]);
        let head = n * 2 % RING;
        for (i, addr, len, flags) in [
            (head, from, request.len() as u32, 1u16),
            (head + 1, to, room, 2),
        ] {
            let at = ring.at + 16 * u64::from(i);
            put(at, &addr.to_le_bytes());
            put(at + 8, &len.to_le_bytes());
            put(at + 12, &flags.to_le_bytes());
            put(at + 14, &(head + 1).to_le_bytes());
        }
        put(
            ring.at + 0x1004 + 2 * u64::from(n % RING),
            &head.to_le_bytes(),
        );
        ring.avail = n.wrapping_add(1);
        self.memory
            .store(
                ring.avail,
                GuestAddress(ring.at + 0x1002),
                Ordering::Release,
            )
            .unwrap();
        if kick {
            ring.kick.write(1).unwrap();
        }
        (n, to)
    }

    /// Returns the number of requests that the device has returned.
    pub fn used(&self, data: bool) -> u16 {
        let at = if data { self.data.at } else { self.control.at };
        self.memory
            .load(GuestAddress(at + 0x2002), Ordering::Acquire)
            .unwrap()
    }

    /// Sends one request. Returns the answer, or `None` if the device does not answer.
    pub fn ask(&mut self, data: bool, request: &[u8], room: u32) -> Option<Vec<u8>> {
        let (n, to) = self.submit(data, request, room, true);
        let end = Instant::now() + PATIENCE;
        while self.used(data) == n {
            if Instant::now() > end {
                return None;
            }
            sleep(Duration::from_micros(200));
        }
        let mut answer = vec![0; room as usize];
        self.memory
            .read_slice(&mut answer, GuestAddress(to))
            .unwrap();
        Some(answer)
    }

    /// Encrypts 64 bytes and polls for the answer. Returns the status.
    pub fn encrypt_at_once(&mut self, session: u64) -> u8 {
        let (n, to) = self.submit(true, &encrypt(session, &[3; 64]), 65, true);
        while self.used(true) == n {
            std::thread::yield_now();
        }
        self.memory.read_obj(GuestAddress(to + 64)).unwrap()
    }

    /// Creates an AES-CBC session and returns its ID.
    pub fn create(&mut self) -> u64 {
        let answer = self.ask(false, &create(OP_ENCRYPT), 16).expect("an answer");
        Created::parse(&answer).unwrap().result().unwrap()
    }

    /// Encrypts 64 bytes. Returns the result and the status.
    pub fn encrypt(&mut self, session: u64) -> (Vec<u8>, u8) {
        let mut answer = self
            .ask(true, &encrypt(session, &[3; 64]), 65)
            .expect("an answer");
        let status = answer.pop().unwrap();
        (answer, status)
    }

    /// Makes `n` requests available, but notifies the device only after the last one.
    pub fn pile_up(&mut self, session: u64, n: u16) {
        for i in 0..n {
            self.submit(true, &encrypt(session, &[3; 64]), 65, i + 1 == n);
        }
    }

    /// Breaks the data queue by making available a head index that is outside the descriptor table.
    pub fn break_ring(&mut self) {
        let at = self.data.at;
        let put = |at: u64, n: u16| {
            self.memory
                .write_slice(&n.to_le_bytes(), GuestAddress(at))
                .unwrap()
        };
        put(at + 0x1004 + 2 * u64::from(self.data.avail % RING), 9999);
        put(at + 0x1002, self.data.avail.wrapping_add(1));
        self.data.kick.write(1).unwrap();
    }

    /// Makes the device block when it writes to the control queue's call eventfd. Any front end can
    /// do this at any time, because the eventfd's flags are shared.
    pub fn block_calls(&self) {
        let call = self.control.call.as_raw_fd();
        let _ = self.control.call.read();
        self.control.call.write(u64::MAX - 1).unwrap();
        // SAFETY: neither fcntl() command takes a pointer.
        let done = unsafe {
            let flags = libc::fcntl(call, libc::F_GETFL);
            libc::fcntl(call, libc::F_SETFL, flags & !libc::O_NONBLOCK)
        };
        assert_eq!(done, 0);
    }

    /// Makes a request available on the control queue, without waiting for an answer.
    pub fn ask_in_vain(&mut self) {
        self.submit(false, &create(OP_ENCRYPT), 16, true);
    }

    /// Truncates the shared memory to a length of 0 and notifies the device. No requests can be
    /// sent afterwards.
    pub fn shrink(&mut self) {
        self.file.set_len(0).unwrap();
        self.data.kick.write(1).unwrap();
        self.control.kick.write(1).unwrap();
    }

    /// Returns whether the device has signalled an answer on the control queue.
    pub fn was_called(&self) -> bool {
        self.control.call.read().is_ok()
    }
}

/// Creates a memfd of this length. Front ends use such files to share guest memory.
pub fn memfd(len: u64, flags: u32) -> File {
    // SAFETY: the name is NUL-terminated, and only the returned value owns the new descriptor.
    let file = unsafe {
        let fd = libc::memfd_create(c"guest".as_ptr(), libc::MFD_CLOEXEC | flags);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        File::from_raw_fd(fd)
    };
    file.set_len(len).unwrap();
    file
}

fn shared(file: &File) -> GuestMemoryMmap {
    let offset = FileOffset::new(file.try_clone().unwrap(), 0);
    let region = vm_memory::MmapRegion::from_file(offset, MEMORY).unwrap();
    let region = GuestRegionMmap::new(region, GuestAddress(0)).unwrap();
    GuestMemoryMmap::from_regions(vec![region]).unwrap()
}
