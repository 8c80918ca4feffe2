//! An in-process front end for fuzzing. It can send any message with real descriptors, change
//! memory while the device serves rings in that memory, and make a guest's requests.
//!
//! It never truncates shared memory, because doing so is expected to kill the process that serves
//! the guest.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kiln_virtio::sample::{create, encrypt};
use kiln_virtio::wire::algo::OP_ENCRYPT;
use kiln_virtio::wire::control::Created;
use kiln_virtio::{Guest, Limits, Services};
use rustix::fs::{memfd_create, MemfdFlags};
use vmm_sys_util::eventfd::{EventFd, EFD_CLOEXEC, EFD_NONBLOCK};

use crate::account::Account;
use crate::backend::{Backend, Queues};
use crate::config::{Config, ControlBy};
use crate::crew::create_queues;
use crate::inflight::Inflight;
use crate::memory::MAX_REGIONS;
use crate::pace::{Pace, Rates};
use crate::tally::Counters;
use crate::vhost_user::{
    Error, InflightArea, Region, Reply, Request, RingAddresses, F_PROTOCOL_FEATURES,
};

/// Size of the guest's memory in bytes, and its start address.
const MEMORY: u64 = 1 << 20;
const BASE: u64 = 1 << 24;
/// Start of the guest's memory in the front end's address space, as reported by the front end.
const USER: u64 = 1 << 40;
const RING: u16 = 16;
/// Layout of a ring's memory, which starts with the descriptors: the offset of the driver area, the
/// offset of the device area, and the total size.
const AVAIL: u64 = 0x1000;
const USED: u64 = 0x1800;
const EACH: u64 = 0x2000;
const REQUEST: u64 = 0x8000;
const ANSWER: u64 = 0xa000;

/// Maximum time to wait for an answer, with a margin for busy machines.
const PATIENCE: Duration = Duration::from_secs(30);

/// Number of the control queue, which follows the only data queue.
const CONTROL: u32 = 1;

/// The fuzzer's input, read as if it were followed by zeros.
struct Input<'a, 'b>(&'a mut &'b [u8]);

impl Input<'_, '_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let n = N.min(self.0.len());
        bytes[..n].copy_from_slice(&self.0[..n]);
        *self.0 = &self.0[n..];
        bytes
    }

    fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// Derives a number from the input, usually a small one or one near a limit.
    fn number(&mut self) -> u64 {
        let [kind, a, b] = self.take();
        let near = u64::from(u16::from_le_bytes([a, b]));
        match kind % 8 {
            0 => u64::from_le_bytes(self.take()),
            1 => u64::MAX - near,
            2 => BASE + near,
            3 => USER + near,
            4 => MEMORY - near % 64,
            5 => near << 12,
            _ => near % 64,
        }
    }
}

/// A file, a position in it, and the two words to alternate at that position.
type Flipped = Arc<Mutex<Option<(File, u64, [u32; 2])>>>;

/// A thread that keeps overwriting a four-byte word in a file, alternating between two values. It
/// is idle while its [`Flipped`] is `None`.
struct Flipper(Flipped);

impl Flipper {
    fn new() -> Flipper {
        let what = Flipped::default();
        let seen = Arc::downgrade(&what);
        thread::spawn(move || {
            while let Some(what) = seen.upgrade() {
                let is_idle = match &*what.lock().expect("no thread panics") {
                    Some((file, at, words)) => {
                        for word in words {
                            let _ = file.write_at(&word.to_le_bytes(), *at);
                        }
                        false
                    }
                    None => true,
                };
                thread::sleep(Duration::from_micros(if is_idle { 2000 } else { 20 }));
            }
        });
        Flipper(what)
    }

    fn set(&self, what: Option<(File, u64, [u32; 2])>) {
        *self.0.lock().expect("no thread panics") = what;
    }
}

/// A front end, its guest, and the device that serves them.
pub struct Front {
    backend: Backend,
    account: Arc<Account>,
    memory: File,
    /// The file for in-flight requests that the device hands out.
    spare: File,
    flipper: Flipper,
    kick: EventFd,
    call: EventFd,
    /// The session of the well-behaved driver, if [`Front::behave`] has started one.
    session: Option<u64>,
    max_sessions: usize,
}

fn memfd(size: u64) -> File {
    let file = memfd_create("kiln-rig", MemfdFlags::CLOEXEC).expect("a memfd can be created");
    let file = File::from(file);
    file.set_len(size).expect("the file can grow");
    file
}

fn event() -> EventFd {
    EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).expect("an eventfd")
}

fn copy(event: &EventFd) -> File {
    // SAFETY: the descriptor is open, and only the returned value owns the duplicate.
    unsafe {
        let fd = libc::fcntl(event.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0);
        assert!(fd >= 0, "a descriptor");
        File::from(OwnedFd::from_raw_fd(fd))
    }
}

impl Front {
    /// Creates a connection for a guest with these limits.
    pub fn new(limits: Limits) -> Front {
        // The front end may pass a pipe as an eventfd, and writing to a pipe without readers raises
        // SIGPIPE. Rust's runtime ignores SIGPIPE, but a fuzzer's main function is not in Rust, so
        // ignore it here.
        // SAFETY: the call only sets a signal's disposition.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        let config = Config {
            limits: Limits {
                data_queues: 1,
                ..limits
            },
            ..Config::default()
        };
        let counters = Counters::new(1).expect("shared memory");
        let guest = Guest::new(config.limits.clone(), &Services::symmetric());
        let account = Arc::new(Account::new(guest, counters, Pace::new(&Rates::default())));
        let queues = Queues {
            max_request: config.max_chain(),
            poll: Duration::ZERO,
            number: 1,
            max_memory: 1 << 30,
        };
        let threads = create_queues(1, ControlBy::Inline).expect("two threads");
        let spare = Inflight::file(2).expect("a memfd can be created");
        let copy = spare.try_clone().expect("a descriptor");
        Front {
            backend: Backend::new(account.clone(), queues, threads, copy),
            account,
            memory: memfd(MEMORY),
            spare,
            flipper: Flipper::new(),
            kick: event(),
            call: event(),
            session: None,
            max_sessions: config.limits.max_sessions,
        }
    }

    /// Returns the number of sessions that the guest has open.
    fn sessions(&self) -> usize {
        self.account.guest.sessions()
    }

    /// Returns a file that may or may not be suitable for the message that it accompanies.
    fn file(&self, input: &mut Input<'_, '_>) -> File {
        match input.byte() % 8 {
            0 => memfd(input.number() % (MEMORY + 1)),
            1 => File::open("/dev/null").expect("every Linux system has /dev/null"),
            2 => File::options()
                .read(true)
                .write(true)
                .open("/dev/zero")
                .expect("every Linux system has /dev/zero"),
            3 => copy(&self.kick),
            4 => copy(&self.call),
            5 => File::from(OwnedFd::from(UnixStream::pair().expect("a socket").0)),
            _ => self.memory.try_clone().expect("a descriptor"),
        }
    }

    fn maybe(&self, input: &mut Input<'_, '_>) -> Option<File> {
        let there = input.byte() % 4 != 0;
        there.then(|| self.file(input))
    }

    fn region(input: &mut Input<'_, '_>) -> Region {
        let [guest, size, user, offset] = [0; 4].map(|_| input.number());
        Region {
            guest,
            size,
            user,
            offset,
        }
    }

    /// Builds a request of the given kind from the input. A front end can send such a request, but
    /// the device may refuse it.
    fn request(&self, kind: u8, ring: u32, input: &mut Input<'_, '_>) -> Request {
        match kind {
            0 => {
                let n = input.byte() % 4;
                let regions: Vec<_> = (0..n).map(|_| Front::region(input)).collect();
                let with_file = |region| (region, self.file(input));
                Request::SetMemory(regions.into_iter().map(with_file).collect())
            }
            1 => Request::AddRegion(Front::region(input), self.file(input)),
            2 => Request::RemoveRegion(Front::region(input)),
            3 => Request::SetRingSize {
                ring,
                size: input.number() as u32,
            },
            4 => {
                let [descriptors, used, available] = [0; 3].map(|_| input.number());
                let addresses = RingAddresses {
                    descriptors,
                    used,
                    available,
                };
                Request::SetRingAddresses { ring, addresses }
            }
            5 => Request::SetRingBase {
                ring,
                base: input.number() as u32,
            },
            6 => Request::SetKick {
                ring,
                file: self.maybe(input),
            },
            7 => Request::SetCall {
                ring,
                file: self.maybe(input),
            },
            8 => Request::SetError {
                ring,
                file: self.maybe(input),
            },
            9 => Request::EnableRing {
                ring,
                enable: input.byte() % 4 != 0,
            },
            10 => Request::GetRingBase(ring),
            11 => Request::SetFeatures(input.number()),
            12 => {
                let [offset, size] = [0; 2].map(|_| input.number() as u32);
                Request::GetConfig { offset, size }
            }
            13 => {
                let [queues, queue_size] = [0; 2].map(|_| input.number() as u16);
                Request::GetInflight { queues, queue_size }
            }
            14 => {
                let [size, offset, queues, queue_size] = [0; 4].map(|_| input.number());
                let area = InflightArea {
                    size,
                    offset,
                    queues: queues as u16,
                    queue_size: queue_size as u16,
                };
                Request::SetInflight(area, self.file(input))
            }
            _ => Request::Reset,
        }
    }

    /// Performs one action of a front end or its guest. The device must survive every action.
    /// Returns whether the action was a message that the device accepted.
    pub fn act(&mut self, bytes: &mut &[u8]) -> bool {
        let mut input = Input(bytes);
        let input = &mut input;
        let [what, index] = input.take();
        let index = u32::from(index % 4);
        let is_message = what % 24 < 16;
        let done = match what % 24 {
            kind @ 0..16 => {
                let request = self.request(kind, index, input);
                self.backend.serve(request).map(drop)
            }
            16 | 17 => {
                self.begin(index % 2 == 0);
                Ok(())
            }
            18 => {
                let at = input.number() % MEMORY;
                let words = [0; 2].map(|_| u32::from_le_bytes(input.take()));
                let file = self.memory.try_clone().expect("a descriptor");
                self.flipper.set(Some((file, at, words)));
                Ok(())
            }
            19 => {
                self.flipper.set(None);
                Ok(())
            }
            20 | 21 => {
                let at = input.number() % MEMORY;
                let len = usize::from(input.byte()).min(input.0.len());
                let (bytes, rest) = input.0.split_at(len);
                let bytes = &bytes[..len.min((MEMORY - at) as usize)];
                *input.0 = rest;
                self.put(at, bytes);
                Ok(())
            }
            22 => {
                let request = create(OP_ENCRYPT);
                self.offer(CONTROL, &request, 16, u64::from(input.byte()));
                Ok(())
            }
            _ => {
                let _ = self.kick.write(1);
                Ok(())
            }
        };
        assert!(self.sessions() <= self.max_sessions);
        let (regions, bytes) = self.backend.memory_size();
        assert!(regions <= MAX_REGIONS as u64 && bytes <= 1 << 30);
        is_message && done.is_ok()
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let done = self.memory.write_all_at(bytes, at);
        done.expect("in memory");
    }

    fn get<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        let done = self.memory.read_exact_at(&mut bytes, at);
        done.expect("in memory");
        bytes
    }

    /// Starts a driver: sets up memory, and starts both rings at entry 0. If `notes` is set, the
    /// rings have an in-flight record.
    fn begin(&mut self, notes: bool) {
        self.put(0, &[0; 2 * EACH as usize]);
        let region = Region {
            guest: BASE,
            size: MEMORY,
            user: USER,
            offset: 0,
        };
        let clone = |file: &File| file.try_clone().expect("a descriptor");
        let memory = clone(&self.memory);
        let backend = &mut self.backend;
        let begin = || {
            backend.serve(Request::Reset)?;
            backend.serve(Request::SetFeatures(F_PROTOCOL_FEATURES | 1 << 32))?;
            backend.serve(Request::SetMemory(vec![(region, memory)]))?;
            if notes {
                let asked = Request::GetInflight {
                    queues: 2,
                    queue_size: RING,
                };
                let Reply::Inflight(area) = backend.serve(asked)? else {
                    panic!("an area");
                };
                backend.serve(Request::SetInflight(area, clone(&self.spare)))?;
            }
            for ring in [0, CONTROL] {
                let at = USER + u64::from(ring) * EACH;
                let addresses = RingAddresses {
                    descriptors: at,
                    used: at + USED,
                    available: at + AVAIL,
                };
                let size = RING.into();
                let (kick, call) = (Some(copy(&self.kick)), Some(copy(&self.call)));
                backend.serve(Request::SetRingSize { ring, size })?;
                backend.serve(Request::SetRingAddresses { ring, addresses })?;
                backend.serve(Request::SetRingBase { ring, base: 0 })?;
                backend.serve(Request::SetCall { ring, file: call })?;
                backend.serve(Request::SetKick { ring, file: kick })?;
                backend.serve(Request::EnableRing { ring, enable: true })?;
            }
            Ok::<(), Error>(())
        };
        begin().expect("a well-behaved driver is accepted");
        self.session = None;
    }

    /// Makes a request available and notifies the device.
    fn offer(&mut self, ring: u32, request: &[u8], room: u32, slot: u64) {
        let at = u64::from(ring) * EACH;
        let (from, to) = (REQUEST + 0x100 * (slot % 8), ANSWER + 0x100 * (slot % 8));
        self.put(from, request);
        self.put(to, &vec![0xee; room as usize]);
        for (i, addr, len, flags) in [(0, from, request.len() as u32, 1u32), (1, to, room, 2)] {
            let tail = (u64::from(len) | u64::from(flags | 1 << 16) << 32).to_le_bytes();
            self.put(at + 16 * i, &(BASE + addr).to_le_bytes());
            self.put(at + 16 * i + 8, &tail);
        }
        let avail = u16::from_le_bytes(self.get(at + AVAIL + 2));
        self.put(at + AVAIL + 4 + 2 * u64::from(avail % RING), &[0, 0]);
        self.put(at + AVAIL + 2, &avail.wrapping_add(1).to_le_bytes());
        let _ = self.kick.write(1);
    }

    /// Makes a request as a well-behaved driver does, and returns the answer.
    fn ask<const N: usize>(&mut self, ring: u32, request: &[u8]) -> [u8; N] {
        let at = u64::from(ring) * EACH;
        let before: [u8; 2] = self.get(at + USED + 2);
        self.offer(ring, request, N as u32, 0);
        let until = Instant::now() + PATIENCE;
        while self.get::<2>(at + USED + 2) == before {
            assert!(Instant::now() < until, "ring {ring} is not served");
            // Both rings share one kick descriptor, so the other ring's thread may have consumed
            // the notification.
            let _ = self.kick.write(1);
            thread::sleep(Duration::from_micros(20));
        }
        self.get(ANSWER)
    }

    /// Starts a well-behaved driver on this connection and opens a session for it.
    pub fn behave(&mut self) {
        self.flipper.set(None);
        self.begin(true);
        let created =
            Created::parse(&self.ask::<16>(CONTROL, &create(OP_ENCRYPT))).expect("16 bytes");
        self.session = created.result().ok();
        assert!(self.session.is_some());
        self.is_served();
    }

    /// Checks that the driver started by [`Front::behave`] still has its session and gets correct
    /// answers.
    pub fn is_served(&mut self) {
        let session = self.session.expect("it has begun");
        let answer: [u8; 65] = self.ask(0, &encrypt(session, &[3; 64]));
        assert_eq!(answer[64], 0);
        assert_eq!(answer[..16], RESULT, "AES-128-CBC of a known text");
    }
}

/// The first ciphertext block of [`encrypt`]'s request, computed by OpenSSL.
const RESULT: [u8; 16] = [
    0x50, 0xe5, 0xc6, 0xfd, 0x9a, 0x2d, 0xcd, 0xd8, 0xb1, 0x15, 0xab, 0xc6, 0xfe, 0xef, 0x57, 0xc0,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_a_front_end_does_another_guest_is_served_and_so_is_its_next_driver(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let limits = Limits { max_sessions: 8, max_request: 4096, ..Limits::default() };
            let (mut hostile, mut other) = (Front::new(limits.clone()), Front::new(limits));
            other.behave();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                hostile.act(&mut rest);
            }
            other.is_served();
            hostile.behave();
        }
    }
}
