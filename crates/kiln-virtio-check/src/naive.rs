//! A device without defences, which runs in a separate process. It is single-threaded, has no
//! limits and trusts its input. Each check that plays a hostile front end must fail on this device,
//! because the device lacks the defence that the check tests.

use std::collections::VecDeque;
use std::env;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kiln_virtio::{Guest, Limits, Services, Worker};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

use crate::link::{Target, IN_ORDER, NEXT, RING_RESET, WRITE};
use crate::raw;

/// The environment variable that passes the path of the socket to the process.
const VARIABLE: &str = "KILN_NAIVE_DEVICE";

/// The device is considered hung if one step of its thread takes longer than this.
const HANGS: Duration = Duration::from_secs(2);

/// Feature bits: VERSION_1, VHOST_USER_F_PROTOCOL_FEATURES, and the bits that the checks use.
const FEATURES: u64 = 1 << 32 | 1 << 30 | IN_ORDER | RING_RESET;
/// Protocol features: MQ, REPLY_ACK, CRYPTO_SESSION, CONFIG, INFLIGHT_SHMFD, CONFIGURE_MEM_SLOTS,
/// STATUS.
const PROTOCOL: u64 =
    1 | 1 << 3 | raw::CRYPTO_SESSION | 1 << 9 | raw::INFLIGHT | 1 << 15 | raw::STATUS;

/// Size of the in-flight record in bytes.
const NOTES: u64 = 8192;

pub(crate) struct Naive {
    child: Child,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Naive {
    /// Starts another instance of this test program as the naive device, limited to 256
    /// descriptors.
    pub(crate) fn start() -> Naive {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("naive");
        let child = Command::new("sh")
            .args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""])
            .arg(env::current_exe().unwrap())
            .args(["--exact", "naive::serves", "--ignored", "--nocapture"])
            .env(VARIABLE, &path)
            .stdin(Stdio::null())
            // Send the log to a pipe that nothing reads while the device runs, so that the device
            // blocks if it logs too much.
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while !path.exists() {
            assert!(Instant::now() < until, "the device does not start");
            thread::sleep(Duration::from_millis(2));
        }
        Naive {
            child,
            path,
            _dir: dir,
        }
    }

    pub(crate) fn target(&self) -> Target {
        Target {
            path: self.path.clone(),
            stop: Default::default(),
        }
    }

    /// Kills the process. Returns its error output and its exit status.
    pub(crate) fn end(mut self) -> String {
        let _ = self.child.kill();
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        format!("{said} {}", self.child.wait().unwrap())
    }
}

#[test]
#[ignore = "a program that other tests start"]
fn serves() {
    if let Some(path) = env::var_os(VARIABLE) {
        let partial = PathBuf::from(&path).with_extension("partial");
        let listener = UnixListener::bind(&partial).unwrap();
        std::fs::rename(partial, path).unwrap();
        serve(&listener);
    }
}

/// The step that the device's thread is performing, and when this step began.
#[derive(Clone)]
struct Step(Arc<Mutex<(&'static str, Instant)>>);

impl Step {
    fn begin(&self, name: &'static str) {
        *self.0.lock().unwrap() = (name, Instant::now());
    }
}

struct Region {
    guest: u64,
    user: u64,
    size: u64,
    map: MmapRegion,
}

#[derive(Default)]
struct Ring {
    size: u16,
    /// Addresses of the descriptor table, the available ring and the used ring, in the front end's
    /// address space.
    at: [u64; 3],
    next: u16,
    kick: Option<File>,
    call: Option<File>,
    enabled: bool,
}

/// A connected front end and its guest.
struct Client {
    stream: UnixStream,
    guest: Guest,
    regions: Vec<Region>,
    /// The files that back all regions. They are kept open until the connection ends.
    files: Vec<File>,
    rings: [Ring; 2],
    features: u64,
    protocol: u64,
    status: u8,
    notes: Option<MmapRegion>,
}

struct Message {
    request: u32,
    needs_reply: bool,
    payload: Vec<u8>,
    file: Option<File>,
}

fn serve(listener: &UnixListener) {
    let step = Step(Arc::new(Mutex::new(("poll", Instant::now()))));
    let watched = step.clone();
    thread::spawn(move || loop {
        thread::sleep(HANGS / 10);
        let (name, since) = *watched.0.lock().unwrap();
        if name != "poll" && since.elapsed() > HANGS {
            eprintln!("hangs: {name}");
            process::exit(1);
        }
    });
    let services = Services::detect();
    let mut worker = Worker::new().unwrap();
    let mut clients: Vec<Client> = Vec::new();
    loop {
        step.begin("poll");
        let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
        for client in &clients {
            fds.push(PollFd::new(&client.stream, PollFlags::IN));
            for ring in &client.rings {
                let kick = ring.kick.as_ref().filter(|_| ring.enabled);
                // If the ring is disabled or has no kick descriptor, add an entry that waits for no
                // events, so that each client has three entries.
                let flags = kick.map_or(PollFlags::empty(), |_| PollFlags::IN);
                let fd = kick.map_or(client.stream.as_fd(), File::as_fd);
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        }
        poll(&mut fds, None).unwrap();
        let found: Vec<bool> = fds
            .iter()
            .map(|fd| fd.revents().contains(PollFlags::IN))
            .collect();
        drop(fds);
        let mut gone = Vec::new();
        for (n, found) in found[1..].chunks(3).enumerate() {
            for (index, _) in found[1..].iter().enumerate().filter(|(_, found)| **found) {
                clients[n].kicked(index, &mut worker, &step);
            }
            if found[0] {
                step.begin("receive");
                match receive(&clients[n].stream) {
                    Some(message) => {
                        // Serve a ring as soon as it starts, because the front end may not signal
                        // requests that it made available earlier.
                        if let Some(index) = clients[n].answer(message, &step) {
                            clients[n].kicked(index, &mut worker, &step);
                        }
                    }
                    None => gone.push(n),
                }
            }
        }
        for n in gone.into_iter().rev() {
            clients.remove(n);
        }
        if found[0] {
            step.begin("receive");
            let (stream, _) = listener.accept().unwrap();
            let Some(first) = receive(&stream) else {
                // Leak the stream, so that a client that has never sent a message stays connected.
                mem::forget(stream);
                continue;
            };
            let limits = Limits {
                data_queues: 1,
                ..Limits::default()
            };
            let mut client = Client {
                stream,
                guest: Guest::new(limits, &services),
                regions: Vec::new(),
                files: Vec::new(),
                rings: Default::default(),
                features: 0,
                protocol: 0,
                status: 0,
                notes: None,
            };
            client.answer(first, &step);
            clients.push(client);
        }
    }
}

/// Reads a whole message. Returns `None` if the connection has ended.
fn receive(stream: &UnixStream) -> Option<Message> {
    let mut header = [0; 12];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let mut parts = [IoSliceMut::new(&mut header)];
    let got = recvmsg(stream, &mut parts, &mut ancillary, flags).ok()?;
    if got.bytes < 12 {
        return None;
    }
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            files.extend(fds.map(File::from));
        }
    }
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
    let mut buffer = [0; 4096];
    let payload = &mut buffer[..word(8) as usize];
    let mut from = stream;
    from.read_exact(payload).ok()?;
    assert!(files.len() <= 1, "one descriptor at most");
    Some(Message {
        request: word(0),
        needs_reply: word(4) & 8 != 0,
        payload: payload.to_vec(),
        file: files.pop(),
    })
}

fn map(file: &File, offset: u64, size: u64) -> MmapRegion {
    MmapRegionBuilder::new(size as usize)
        .with_file_offset(FileOffset::new(file.try_clone().unwrap(), offset))
        .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
        .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
        .build()
        .unwrap()
}

impl Client {
    fn reply(&self, request: u32, payload: &[u8], file: Option<&File>) {
        let mut bytes = [request, 5, payload.len() as u32]
            .map(u32::to_le_bytes)
            .concat();
        bytes.extend(payload);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<BorrowedFd<'_>> = file.iter().map(|file| file.as_fd()).collect();
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let parts = [IoSlice::new(&bytes)];
        let _ = sendmsg(&self.stream, &parts, &mut ancillary, SendFlags::NOSIGNAL);
    }

    /// Handles a message. If the message started a ring, returns the number of the ring.
    fn answer(&mut self, message: Message, step: &Step) -> Option<usize> {
        let Message {
            request,
            payload,
            file,
            ..
        } = message;
        let word = |n: usize| u64::from_le_bytes(payload[8 * n..8 * n + 8].try_into().unwrap());
        let half = |n: usize| u32::from_le_bytes(payload[4 * n..4 * n + 4].try_into().unwrap());
        let number = |n: u64| n.to_le_bytes().to_vec();
        let mut answer = None;
        let mut notes = None;
        match request {
            1 => answer = Some(number(FEATURES | self.guest.device_features())),
            2 => {
                self.features = word(0);
                self.guest.negotiate(word(0));
            }
            3 => {}
            5 | 37 => {
                let first = 1;
                let [guest, size, user, offset] = [0, 1, 2, 3].map(|n| word(first + n));
                let file = file.expect("a descriptor");
                let len = file.metadata().unwrap().len();
                len.checked_sub(offset + size)
                    .expect("a region inside its file");
                let map = map(&file, offset, size);
                // Touch the first page now, so that it is already present when it is accessed
                // later.
                map.as_volatile_slice()
                    .load::<u8>(0, Ordering::Relaxed)
                    .unwrap();
                self.regions.push(Region {
                    guest,
                    user,
                    size,
                    map,
                });
                self.files.push(file);
            }
            8 => self.rings[half(0) as usize].size = half(1) as u16,
            9 => self.rings[half(0) as usize].at = [word(1), word(3), word(2)],
            10 => self.rings[half(0) as usize].next = half(1) as u16,
            11 => {
                if self.features & RING_RESET != 0 {
                    self.guest.reset();
                }
                let ring = mem::take(&mut self.rings[half(0) as usize]);
                answer = Some(number(u64::from(half(0)) | u64::from(ring.next) << 32));
            }
            12 => self.rings[half(0) as usize & 0xff].kick = Some(file.expect("a kick")),
            13 => self.rings[half(0) as usize].call = file,
            15 => answer = Some(number(PROTOCOL)),
            16 => self.protocol = word(0),
            17 => answer = Some(number(2)),
            18 => {
                self.rings[half(0) as usize].enabled = half(1) != 0;
                if let Some(notes) = &self.notes {
                    let last = notes.as_volatile_slice();
                    last.load::<u8>(NOTES as usize - 1, Ordering::Relaxed)
                        .unwrap();
                }
            }
            24 => {
                let (offset, size) = (half(0) as usize, half(1) as usize);
                let config = self.guest.config();
                match config.get(offset..offset + size) {
                    Some(part) => answer = Some([&payload[..12], part].concat()),
                    None => {
                        step.begin("log");
                        // Log a long line, so that the pipe fills quickly even on a slow machine.
                        let line =
                            format!("{size} bytes of configuration at {offset} were asked for");
                        println!("{line:.<1000}");
                        answer = Some(Vec::new());
                    }
                }
            }
            26 => {
                // Trust the message to contain the key length and the key. A shorter message
                // crashes this device.
                let _ = half(3);
                answer = Some([&payload[56..72], &[0; 8]].concat());
            }
            31 => {
                answer = Some([&NOTES.to_le_bytes(), &payload[8..]].concat());
                notes = Some(raw::memory(NOTES, MemfdFlags::empty()).unwrap());
            }
            32 => self.notes = Some(map(&file.expect("a descriptor"), 0, NOTES)),
            39 => self.status = word(0).try_into().expect("a status of one byte"),
            40 => answer = Some(number(self.status.into())),
            other => unreachable!("message {other}"),
        }
        match answer {
            Some(answer) => self.reply(request, &answer, notes.as_ref()),
            None if message.needs_reply => self.reply(request, &[0; 8], None),
            None => {}
        }
        let started = (request == 18).then(|| half(0) as usize);
        started.filter(|index| self.rings[*index].enabled)
    }

    /// Finds the region that contains a guest address, or a front-end address if `is_user` is set.
    fn find(&self, at: u64, is_user: bool) -> (&MmapRegion, usize) {
        let from = |region: &Region| match is_user {
            true => region.user,
            false => region.guest,
        };
        let inside = |r: &&Region| at >= from(r) && at < from(r) + r.size;
        let region = self.regions.iter().find(inside).expect("an address");
        (&region.map, (at - from(region)) as usize)
    }

    fn load(&self, at: u64) -> u16 {
        let (map, at) = self.find(at, true);
        map.as_volatile_slice().load(at, Ordering::Acquire).unwrap()
    }

    fn put(&self, at: u64, bytes: &[u8], is_user: bool) {
        if !bytes.is_empty() {
            let (map, at) = self.find(at, is_user);
            map.as_volatile_slice().write_slice(bytes, at).unwrap();
        }
    }

    fn get(&self, at: u64, len: usize, is_user: bool) -> Vec<u8> {
        let mut bytes = vec![0; len];
        if len > 0 {
            let (map, at) = self.find(at, is_user);
            map.as_volatile_slice().read_slice(&mut bytes, at).unwrap();
        }
        bytes
    }

    /// Serves all requests that are available in a ring.
    fn kicked(&mut self, index: usize, worker: &mut Worker, step: &Step) {
        let readable = |file: &File, time: Duration| {
            let mut fds = [PollFd::new(file, PollFlags::IN)];
            let limit = Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(time.subsec_nanos()),
            };
            poll(&mut fds, Some(&limit)).unwrap() > 0
        };
        let in_order = self.features & IN_ORDER != 0;
        let more = match in_order {
            true => Duration::from_millis(100),
            false => Duration::ZERO,
        };
        step.begin("kick");
        let kick = self.rings[index].kick.as_ref().unwrap();
        while readable(kick, more) {
            let mut from: &File = kick;
            from.read_exact(&mut [0; 8]).unwrap();
        }
        step.begin("serve");
        let Ring { size, at, next, .. } = self.rings[index];
        let [descriptors, avail, used] = at;
        let until = self.load(avail + 2);
        let heads: VecDeque<u16> = (0..until.wrapping_sub(next))
            .map(|n| next.wrapping_add(n) % size)
            .map(|slot| self.load(avail + 4 + 2 * u64::from(slot)))
            .collect();
        let mut order: Vec<u16> = heads.into();
        if in_order {
            order.reverse();
        }
        if order.is_empty() {
            return;
        }
        let mut slot = self.load(used + 2);
        for head in order {
            let written = self.serve(index, descriptors, head, worker);
            let entry = [u32::from(head), written as u32].map(u32::to_le_bytes);
            self.put(used + 4 + 8 * u64::from(slot % size), &entry.concat(), true);
            slot = slot.wrapping_add(1);
        }
        if self.protocol & raw::INFLIGHT != 0 {
            // The requests have been served, but the used index has not been advanced yet. Give the
            // front end time to disconnect at this point.
            let mut fds = [PollFd::new(&self.stream, PollFlags::RDHUP)];
            let limit = Timespec {
                tv_sec: 0,
                tv_nsec: 200_000_000,
            };
            if poll(&mut fds, Some(&limit)).unwrap() > 0 {
                return;
            }
        }
        self.rings[index].next = until;
        let (map, at) = self.find(used + 2, true);
        map.as_volatile_slice()
            .store(slot, at, Ordering::Release)
            .unwrap();
        if let Some(mut call) = self.rings[index].call.as_ref() {
            step.begin("call");
            let _: io::Result<usize> = call.write(&1_u64.to_ne_bytes());
        }
    }

    /// Serves one request, and returns the number of bytes written.
    fn serve(&self, index: usize, descriptors: u64, head: u16, worker: &mut Worker) -> usize {
        let (mut request, mut parts) = (Vec::new(), Vec::new());
        let mut n = head;
        loop {
            let bytes = self.get(descriptors + 16 * u64::from(n), 16, true);
            let at = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let len = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
            let flags = u16::from_le_bytes([bytes[12], bytes[13]]);
            match flags & WRITE != 0 {
                true => parts.push((at, len)),
                false => request.extend(self.get(at, len, false)),
            }
            if flags & NEXT == 0 {
                break;
            }
            n = u16::from_le_bytes([bytes[14], bytes[15]]);
        }
        let mut answer = vec![0; parts.iter().map(|part| part.1).sum()];
        let written = match index {
            0 => self.guest.data(worker, &mut request, &mut answer),
            _ => self.guest.control(&request, &mut answer),
        };
        let mut rest = &answer[..];
        for (at, len) in parts {
            let (part, behind) = rest.split_at(len);
            self.put(at, part, false);
            rest = behind;
        }
        written
    }
}
