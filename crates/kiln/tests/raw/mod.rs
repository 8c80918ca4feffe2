//! A front end that can send arbitrary vhost-user messages, including invalid ones.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kiln_virtio::sample::{self, build_request, CBC_KEY};
use kiln_virtio::wire::{data, Create, Features};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

/// Size in bytes of the memory that the front end shares.
pub const SIZE: u64 = 64 << 10;
/// The guest address of the memory. The front end also reports this value as its own virtual
/// address.
const BASE: u64 = 0x1000_0000;
pub const RING: u32 = 64;
const NEED_REPLY: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(20);
/// The feature bits VERSION_1, VHOST_USER_F_PROTOCOL_FEATURES and REVISION_1, and the bit for
/// stateless ciphers.
const FEATURES: u64 = 1 << 32 | 1 << 30 | 1 | 1 << 1;

/// The parameters of an AES-CBC encryption. A stateless request carries them together with the key.
const CBC: Create = Create::Cipher(sample::CBC);

/// Returns the guest address of request number `n`.
fn place(n: u16) -> u64 {
    0x4000 + 0x400 * u64::from(n)
}

/// Builds a vhost-user message: a header, followed by the payload.
pub fn message(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [request, flags | 1, payload.len() as u32]
        .map(u32::to_le_bytes)
        .concat();
    bytes.extend(payload);
    bytes
}

pub fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn pair(a: u32, b: u32) -> Vec<u8> {
    words(&[u64::from(a) | u64::from(b) << 32])
}

pub struct Raw {
    stream: UnixStream,
    memory: Option<MmapRegion>,
    kick: EventFd,
    call: EventFd,
    avail: u16,
    features: u64,
}

impl Raw {
    pub fn connect(path: &Path) -> Raw {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Raw {
            stream,
            memory: None,
            kick: EventFd::new(0).unwrap(),
            call: EventFd::new(0).unwrap(),
            avail: 0,
            features: FEATURES,
        }
    }

    pub fn send_bytes(&mut self, bytes: &[u8], fds: &[i32]) {
        // Ignore errors. If the device has closed the connection, reading the next answer fails.
        let _ = self.stream.send_with_fds(&[bytes], fds);
    }

    /// Returns the payload of the next answer, or `None` if the connection has ended.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut header = [0; 12];
        self.stream.read_exact(&mut header).ok()?;
        let len = u32::from_le_bytes(header[8..].try_into().unwrap());
        let mut payload = vec![0; len as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some(payload)
    }

    fn ask(&mut self, request: u32, payload: &[u8]) -> Option<Vec<u8>> {
        self.send_bytes(&message(request, 0, payload), &[]);
        self.receive()
    }

    /// Sends a message. Returns whether the device reports success.
    fn done(&mut self, request: u32, payload: &[u8], fds: &[i32]) -> bool {
        self.send_bytes(&message(request, NEED_REPLY, payload), fds);
        self.receive() == Some(words(&[0]))
    }

    /// Changes the set of feature bits that this front end accepts: adds `more` and removes
    /// `fewer`.
    pub fn wants(mut self, more: u64, fewer: u64) -> Raw {
        self.features = (self.features | more) & !fewer;
        self
    }

    /// Reconnects, keeping the memory and the rings.
    pub fn reconnect(&mut self, path: &Path) {
        self.stream = UnixStream::connect(path).unwrap();
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    /// Requests in-flight memory. Returns `None` if the device closes the connection.
    pub fn ask_inflight(&mut self, queues: u16, size: u16) -> Option<(Vec<u8>, File)> {
        let asked = words(&[0, 0, u64::from(queues) | u64::from(size) << 16]);
        self.send_bytes(&message(31, 0, &asked), &[]);
        let mut answer = [0; 36];
        let (n, file) = self.stream.recv_with_fd(&mut answer).ok()?;
        (n == 36).then(|| (answer[12..].to_vec(), file.expect("a descriptor")))
    }

    /// Passes in-flight memory to the device. Returns whether the device accepts the memory.
    pub fn give_inflight(&mut self, told: &[u8], file: &File) -> bool {
        self.done(32, told, &[file.as_raw_fd()])
    }

    /// Sets the device status. Returns whether the device accepts the status.
    pub fn set_status(&mut self, status: u64) -> bool {
        self.done(39, &words(&[status]), &[])
    }

    pub fn status(&mut self) -> Option<u64> {
        let bytes = self.ask(40, &[])?;
        Some(u64::from_le_bytes(bytes.try_into().unwrap()))
    }

    /// Negotiates features, including the protocol features `protocol`.
    pub fn hello(&mut self, protocol: u64) {
        assert!(self.try_hello(protocol));
    }

    /// Negotiates features, including the protocol features `protocol`. Returns false if the device
    /// rejects this front end.
    pub fn try_hello(&mut self, protocol: u64) -> bool {
        if protocol & 1 << 7 != 0 {
            // Remove REVISION_1, because QEMU's session messages use the older format.
            self.features &= !0xff;
        }
        self.send_bytes(&message(3, 0, &[]), &[]);
        if self.ask(1, &[]).is_none() || self.ask(15, &[]).is_none() {
            return false;
        }
        let protocol = protocol | 1 | 1 << 3 | 1 << 9 | 1 << 15;
        self.done(16, &words(&[protocol]), &[]) && self.done(2, &words(&[self.features]), &[])
    }

    /// Shares the front end's memory. Returns whether the device accepts the memory.
    pub fn table(&mut self, size: u64, file: &File) -> bool {
        let offset = FileOffset::new(file.try_clone().unwrap(), 0);
        self.memory = MmapRegion::from_file(offset, SIZE as usize).ok();
        let payload = [pair(1, 0), words(&[BASE, size, BASE, 0])].concat();
        self.done(5, &payload, &[file.as_raw_fd()])
    }

    /// Shares an additional memory region. Returns whether the device accepts the region.
    pub fn add(&mut self, at: u64, size: u64, file: &File) -> bool {
        let at = BASE * 16 + at;
        self.done(37, &words(&[0, at, size, at, 0]), &[file.as_raw_fd()])
    }

    /// Starts the first data ring at entry `base`. Returns whether the device accepts the ring.
    pub fn ring(&mut self, base: u16) -> bool {
        let kick = self.kick.as_raw_fd();
        self.start(base, Some(kick))
    }

    /// Like [`Raw::ring`], but with another kick descriptor, or without one if `kick` is `None`.
    pub fn ring_with(&mut self, base: u16, kick: Option<&File>) -> bool {
        self.start(base, kick.map(File::as_raw_fd))
    }

    fn start(&mut self, base: u16, kick: Option<i32>) -> bool {
        // Clear the ring if it starts over, as a driver does after a reset.
        if let (Some(memory), true) = (&self.memory, self.avail > 0 && base == 0) {
            let rings = memory.as_volatile_slice();
            rings.write_slice(&[0; 0x3000], 0).unwrap();
        }
        self.avail = base;
        let at = |offset: u64| BASE + offset;
        let call = [self.call.as_raw_fd()];
        // Bit 8 states that the message carries no descriptor.
        let without = if kick.is_some() { 0 } else { 1 << 8 };
        let kick: Vec<i32> = kick.into_iter().collect();
        self.done(18, &pair(0, 0), &[])
            && self.done(8, &pair(0, RING), &[])
            && self.done(10, &pair(0, u32::from(base)), &[])
            && self.done(9, &words(&[0, at(0), at(0x2000), at(0x1000), 0]), &[])
            && self.done(13, &words(&[0]), &call)
            && self.done(12, &words(&[without]), &kick)
            && self.done(18, &pair(0, 1), &[])
    }

    /// Starts the ring as if `base` requests had already been answered.
    pub fn ring_at(&mut self, base: u16) -> bool {
        self.set_indices(0x1002, 0x2002, base);
        self.avail = base;
        self.goes_on(base)
    }

    /// Starts another data ring at entry `base`, with no requests in it and without a kick
    /// descriptor.
    pub fn idle_ring(&mut self, ring: u32, base: u16) -> bool {
        const AT: u64 = 0xa000;
        self.set_indices(AT + 0x802, AT + 0x1002, base);
        let at = |offset: u64| BASE + AT + offset;
        let number = u64::from(ring);
        self.done(8, &pair(ring, RING), &[])
            && self.done(10, &pair(ring, u32::from(base)), &[])
            && self.done(9, &words(&[number, at(0), at(0x1000), at(0x800), 0]), &[])
            && self.done(12, &words(&[number | 1 << 8]), &[])
            && self.done(18, &pair(ring, 1), &[])
    }

    /// Sets both the available index and the used index to `index`.
    fn set_indices(&self, avail: u64, used: u64, index: u16) {
        let slice = self.memory.as_ref().unwrap().as_volatile_slice();
        for at in [avail, used] {
            slice
                .write_slice(&index.to_le_bytes(), at as usize)
                .unwrap();
        }
    }

    /// Enables the ring although it is already running, which makes the device stop and restart it.
    pub fn enable_again(&mut self) {
        assert!(self.done(18, &pair(0, 1), &[]));
    }

    /// Sets the features again, as a driver does when it reinitialises the device, and as QEMU does
    /// during a pause.
    pub fn features_again(&mut self) {
        assert!(self.done(2, &words(&[self.features]), &[]));
    }

    /// Continues the ring after `used` entries, which is where the previous device stopped. Returns
    /// whether the device accepts the ring.
    pub fn goes_on(&mut self, used: u16) -> bool {
        let avail = self.avail;
        // Prevent `ring` from clearing the ring.
        self.avail = 0;
        let done = self.ring(used);
        self.avail = avail;
        done
    }

    /// Stops the ring. Returns the index of the entry at which it can continue.
    pub fn stop(&mut self, ring: u32) -> u16 {
        let state = self.ask(11, &pair(ring, 0)).unwrap();
        u16::from_le_bytes(state[4..6].try_into().unwrap())
    }

    pub fn kick(&self) {
        self.kick.write(1).unwrap();
    }

    /// Requests 8 bytes of the configuration space, starting at this offset.
    pub fn config(&mut self, offset: u32) {
        let payload = [pair(offset, 8), vec![0; 12]].concat();
        self.ask(24, &payload);
    }

    /// Creates an AES-CBC session with the vhost-user message that QEMU uses. Returns the session's
    /// ID, or -1 on failure.
    pub fn create(&mut self) -> i64 {
        let mut payload = vec![0; 632];
        payload[8..16].copy_from_slice(&pair(3, 16));
        payload[32..36].copy_from_slice(&[1, 1, 0, 0]);
        payload[56..72].fill(7);
        let answer = self.ask(26, &payload).unwrap();
        i64::from_le_bytes(answer[..8].try_into().unwrap())
    }

    pub fn create_and_close(&mut self) {
        let session = self.create();
        self.done(27, &words(&[session as u64]), &[]);
    }

    /// Makes this many stateless requests available. Each request has its own memory, in which its
    /// output overwrites its input. Notifies the device once, after the last request.
    pub fn pile_up_in_place(&mut self, requests: u16) {
        for n in 0..requests {
            let bytes = self.bytes(data::Mode::Stateless {
                create: CBC,
                key: &CBC_KEY,
                auth_key: &[],
            });
            let (at, status) = (place(n), place(n) + 0x200);
            let slice = self.memory.as_ref().unwrap().as_volatile_slice();
            let put = |at: u64, bytes: &[u8]| slice.write_slice(bytes, at as usize).unwrap();
            put(at, &bytes);
            put(status, &[0xee]);
            let len = bytes.len() as u64;
            let first = 3 * u64::from(n);
            for (i, at, len, flags) in [
                (first, at, len, 1u64),
                (first + 1, at + len - 64, 64, 3),
                (first + 2, status, 1, 2),
            ] {
                put(
                    16 * i,
                    &words(&[BASE + at, len | flags << 32 | (i + 1) << 48]),
                );
            }
            put(0x1004 + 2 * u64::from(n), &(first as u16).to_le_bytes());
        }
        self.avail = requests;
        let slice = self.memory.as_ref().unwrap().as_volatile_slice();
        slice.store(requests, 0x1002, Ordering::Release).unwrap();
        self.kick();
    }

    /// Returns the text and the status of one of the requests from [`Raw::pile_up_in_place`]. The
    /// first request is number 0.
    pub fn in_place(&self, n: u16) -> (Vec<u8>, u8) {
        let len = self
            .bytes(data::Mode::Stateless {
                create: CBC,
                key: &CBC_KEY,
                auth_key: &[],
            })
            .len();
        let slice = self.memory.as_ref().unwrap().as_volatile_slice();
        let (mut text, mut status) = (vec![0; 64], [0]);
        let at = place(n) as usize;
        slice.read_slice(&mut text, at + len - 64).unwrap();
        slice.read_slice(&mut status, at + 0x200).unwrap();
        (text, status[0])
    }

    /// Returns the number of requests that the device has returned.
    pub fn used(&self) -> u16 {
        let slice = self.memory.as_ref().unwrap().as_volatile_slice();
        slice.load(0x2002, Ordering::Acquire).unwrap()
    }

    /// Breaks the ring by making available a head index that is outside the descriptor table.
    pub fn break_ring(&mut self) {
        let slice = self.memory.as_ref().unwrap().as_volatile_slice();
        let put = |at: usize, n: u16| slice.write_slice(&n.to_le_bytes(), at).unwrap();
        put(0x1004 + 2 * usize::from(self.avail), 9999);
        self.avail += 1;
        put(0x1002, self.avail);
        self.kick();
    }

    /// Builds an AES-CBC request that encrypts 64 bytes.
    fn bytes(&self, mode: data::Mode) -> Vec<u8> {
        let mut bytes = Vec::new();
        build_request(mode, &[3; 64]).emit(Features::new(self.features), &mut bytes);
        bytes
    }

    /// Returns whether a request in this session succeeds.
    pub fn encrypts(&mut self, session: i64) -> bool {
        self.request(data::Mode::Session(session as u64))
    }

    /// Returns whether a stateless request with this key succeeds.
    pub fn encrypts_with(&mut self, key: &[u8; 16]) -> bool {
        self.request(data::Mode::Stateless {
            create: CBC,
            key,
            auth_key: &[],
        })
    }

    fn request(&mut self, mode: data::Mode) -> bool {
        const ROOM: u64 = 0x4000;
        const ANSWER: u64 = 0x6000;
        let bytes = self.bytes(mode);
        let slice = self.memory.as_ref().unwrap().as_volatile_slice();
        let put = |at: u64, bytes: &[u8]| slice.write_slice(bytes, at as usize).unwrap();
        put(ROOM, &bytes);
        put(ANSWER, &[0xee; 65]);
        for (i, at, len, flags) in [(0u64, ROOM, bytes.len() as u32, 1u32), (1, ANSWER, 65, 2)] {
            put(16 * i, &words(&[BASE + at]));
            put(16 * i + 8, &pair(len, flags | 1 << 16));
        }
        put(0x1004 + 2 * u64::from(self.avail % RING as u16), &[0, 0]);
        self.avail = self.avail.wrapping_add(1);
        put(0x1002, &self.avail.to_le_bytes());
        self.kick();
        let mut used = [0; 2];
        crate::device::until("an answer", || {
            slice.read_slice(&mut used, 0x2002).unwrap();
            u16::from_le_bytes(used) == self.avail
        });
        let mut status = [0];
        slice.read_slice(&mut status, ANSWER as usize + 64).unwrap();
        put(ROOM, &vec![0; bytes.len()]);
        status == [0]
    }

    /// Waits until the device has closed the connection.
    pub fn until_closed(&mut self) {
        while self.receive().is_some() {}
        let mut byte = [0];
        let over = self.stream.read(&mut byte);
        let reset = |e: &std::io::Error| e.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(
            matches!(&over, Ok(0)) || over.as_ref().is_err_and(reset),
            "{over:?}"
        );
    }
}

/// Counts the occurrences of these bytes in the memory of a process, excluding guest memory.
/// Returns `None` if this process is not allowed to read that memory.
pub fn find(pid: u32, what: &[u8]) -> Option<usize> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mut memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut found = 0;
    for line in maps.lines().filter(|line| !line.contains("memfd:guest")) {
        let mut words = line.split_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else {
            continue;
        };
        let (first, end) = range.split_once('-')?;
        let [first, end] = [first, end].map(|n| u64::from_str_radix(n, 16).unwrap_or(0));
        if !rights.starts_with('r') || memory.seek(SeekFrom::Start(first)).is_err() {
            continue;
        }
        let mut bytes = vec![0; (end - first) as usize];
        if memory.read_exact(&mut bytes).is_ok() {
            found += bytes.windows(what.len()).filter(|w| *w == what).count();
        }
    }
    Some(found)
}
