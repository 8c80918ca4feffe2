//! Checks with front ends that exhaust shared resources: descriptors, memory, threads and time.
//! Whatever a front end does, the device must keep serving a driver that is connected through
//! another front end, and must then serve the next driver.

use std::any::Any;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use kiln_virtio::wire::{feature, Features, Service};
use rustix::fs::{fcntl_getfl, fcntl_setfl, MemfdFlags, OFlags};

use crate::bits::{name_device_status, name_status};
use crate::case::{Case, Group, Verdict};
use crate::conform::{create, describe, has_cbc, in_session, open, usable, FREED};
use crate::hostile::next_driver;
use crate::link::{Link, Offer, Queue, Target, IN_ORDER, PATIENCE, RING_RESET, ROOM, WRITE};
use crate::raw::{self, event, memory, message, words, Raw, SIZE};
use crate::rule::{self, Rule};
use crate::vectors::Vector;

const PLAIN: MemfdFlags = MemfdFlags::empty();
const HUGE: u64 = 2 << 20;
/// Maximum size of the in-flight record for one queue. A device needs only a few KiB.
const MOST_NOTES: u64 = 4 << 20;

/// Connections and descriptors that a front end keeps open until another driver has been served.
type Held = Box<dyn Any>;

/// What a hostile front end does. If it returns an error, the host has failed, not the device.
type Act = fn(&Target) -> std::io::Result<Held>;

const ACTS: [(&str, Rule, Act); 19] = [
    ("calls that block", rule::SET_VRING_CALL, |target| {
        let mut held = Vec::new();
        // Connect more front ends than a device is likely to serve at once.
        for _ in 0..20 {
            let (kick, call, file) = (event()?, event()?, memory(SIZE, PLAIN)?);
            let Some(mut raw) = agreed(target)? else {
                continue;
            };
            // Fill the counter now, before the device can block this write.
            rustix::io::write(&call, &(u64::MAX - 1).to_ne_bytes())?;
            if raw.table(SIZE, &file) && raw.ring(0, 0, Some(kick.as_fd()), call.as_fd()) {
                // Make the eventfd blocking, so that the device's next write blocks.
                fcntl_setfl(&call, fcntl_getfl(&call)? - OFlags::NONBLOCK)?;
                // Make an empty descriptor available. The device then returns it and writes to the
                // call eventfd.
                file.write_all_at(&1_u16.to_le_bytes(), raw::AVAIL + 2)?;
                raw::ring(&kick)?;
                sleep(Duration::from_millis(20));
            }
            // Keep only the last ten connections open.
            held.push(raw);
            if held.len() > 10 {
                held.remove(0);
            }
        }
        Ok(Box::new(held))
    }),
    (
        "huge pages that are not there",
        rule::SET_MEM_TABLE,
        |target| {
            // Do nothing if the host has no huge pages.
            match memory(HUGE, MemfdFlags::HUGETLB) {
                Ok(file) => started(target, HUGE, &file).map(hold),
                Err(_) => Ok(Box::new(())),
            }
        },
    ),
    (
        "a part of a huge page",
        rule::SET_MEM_TABLE,
        |target| match memory(HUGE, MemfdFlags::HUGETLB) {
            Ok(file) => started(target, SIZE, &file).map(hold),
            Err(_) => Ok(Box::new(())),
        },
    ),
    (
        "memory behind the end of its file",
        rule::SET_MEM_TABLE,
        |target| started(target, 1 << 20, &memory(4096, PLAIN)?).map(hold),
    ),
    ("memory that is cut off", rule::SET_MEM_TABLE, |target| {
        let file = memory(SIZE, PLAIN)?;
        let started = started(target, SIZE, &file)?;
        if let Some((_, kick)) = &started {
            file.set_len(0)?;
            raw::ring(kick)?;
            sleep(Duration::from_millis(100));
        }
        Ok(Box::new(started))
    }),
    ("memory of a device", rule::SET_MEM_TABLE, |target| {
        let zero = File::options().read(true).write(true).open("/dev/zero")?;
        started(target, SIZE, &zero).map(hold)
    }),
    (
        "memory of a file of a file system",
        rule::SET_MEM_TABLE,
        |target| {
            let program = File::open("/proc/self/exe")?;
            started(target, 4096, &program).map(hold)
        },
    ),
    ("an address space of memory", rule::ADD_MEM_REG, |target| {
        let file = memory(1 << 46, PLAIN)?;
        let mut held = agreed(target)?;
        if let Some(raw) = &mut held {
            let mut size = 1 << 46;
            for n in 0..64 {
                if !raw.add(n << 47, size, &file) {
                    // Try a smaller region, because the device may have run out of address space.
                    // If the device has disconnected instead, all further attempts fail.
                    size = (size / 2).max(4096);
                }
            }
        }
        Ok(Box::new(held))
    }),
    (
        "as many regions as there may be",
        rule::ADD_MEM_REG,
        |target| {
            let file = memory(4096, PLAIN)?;
            let mut held = Vec::new();
            for _ in 0..4 {
                if let Some(mut raw) = agreed(target)? {
                    let all = (0..509).take_while(|n| raw.add(n * 4096, 4096, &file));
                    all.for_each(drop);
                    held.push(raw);
                }
            }
            Ok(Box::new(held))
        },
    ),
    (
        "descriptors with a message that does not end",
        rule::SET_MEM_TABLE,
        |target| {
            let file = memory(4096, PLAIN)?;
            let mut held = Vec::new();
            for _ in 0..8 {
                if let Some(raw) = agreed(target)? {
                    let header = &message(raw::SET_MEM_TABLE, 0, &[0; 40])[..12];
                    raw.send_bytes(header, &[file.as_fd(); 32]);
                    held.push(raw);
                }
            }
            Ok(Box::new(held))
        },
    ),
    ("silent connections", rule::CONNECTION, |target| {
        // The device may reject these connections.
        let held: Vec<_> = (0..100).map(|_| Raw::connect(target)).collect();
        Ok(Box::new(held))
    }),
    ("connections in a loop", rule::CONNECTION, |target| {
        for _ in 0..1000 {
            drop(Raw::connect(target));
        }
        Ok(Box::new(()))
    }),
    ("a ring without a kick", rule::SET_VRING_KICK, |target| {
        kicked_by(target, None).map(hold)
    }),
    (
        "a kick that is always readable",
        rule::SET_VRING_KICK,
        |target| {
            let zero = File::options().read(true).write(true).open("/dev/zero")?;
            kicked_by(target, Some(zero.as_fd())).map(hold)
        },
    ),
    ("a flood of refused messages", rule::GET_CONFIG, |target| {
        let mut held = agreed(target)?;
        if let Some(raw) = &mut held {
            // Read at an offset beyond the end of the configuration space.
            let payload = [words(&[4000 | 8 << 32]), vec![0; 12]].concat();
            for _ in 0..2000 {
                if raw.ask(raw::GET_CONFIG, &payload).is_none() {
                    break;
                }
            }
        }
        Ok(Box::new(held))
    }),
    ("unknown messages", rule::HEADER, |target| {
        for request in [0, 25, 28, 41, 63, 0xffff, u32::MAX] {
            if let Some(mut raw) = agreed(target)? {
                raw.send(request, &[0; 8], &[]);
                raw.done(raw::SET_MEM_TABLE, &[], &[]);
            }
        }
        Ok(Box::new(()))
    }),
    ("wrong lengths", rule::HEADER, |target| {
        let mut held = Vec::new();
        for len in [4097_u32, 1 << 20, u32::MAX] {
            if let Some(raw) = agreed(target)? {
                let header = [raw::SET_MEM_TABLE, 1, len].map(u32::to_le_bytes).concat();
                raw.send_bytes(&header, &[]);
                raw.send_bytes(&[0xff; 4096], &[]);
                held.push(raw);
            }
        }
        Ok(Box::new(held))
    }),
    (
        "descriptors where none belong",
        rule::GET_FEATURES,
        |target| {
            let file = memory(4096, PLAIN)?;
            for request in [raw::GET_FEATURES, raw::GET_VRING_BASE, raw::GET_CONFIG] {
                if let Some(mut raw) = agreed(target)? {
                    raw.send(request, &[0; 8], &[file.as_fd(); 8]);
                    raw.until_over();
                }
            }
            Ok(Box::new(()))
        },
    ),
    (
        "sessions by message, with and without agreement",
        rule::CREATE_CRYPTO_SESSION,
        |target| {
            for protocol in [0, raw::CRYPTO_SESSION] {
                let Ok(mut raw) = Raw::connect(target) else {
                    continue;
                };
                if !raw.hello(protocol) {
                    continue;
                }
                for len in [0, 8, 632, 1072, 4096] {
                    for _ in 0..100 {
                        if raw
                            .ask(raw::CREATE_CRYPTO_SESSION, &vec![0xff; len])
                            .is_none()
                        {
                            break;
                        }
                    }
                }
            }
            Ok(Box::new(()))
        },
    ),
];

fn hold(what: impl Any) -> Held {
    Box::new(what)
}

/// A check of an optional feature. It is skipped if the device does not offer the feature.
type Check = fn(&Target, &Vector) -> Result<Verdict, String>;

pub(crate) fn cases(offer: &Offer) -> Vec<Case> {
    let acts = ACTS.into_iter();
    let mut cases: Vec<Case> = acts
        .map(|(name, rule, act)| hostile(name, rule, act))
        .collect();
    let vector = usable(offer).filter(|_| has_cbc(offer));
    let stateless = feature::REVISION_1 | feature::CIPHER_STATELESS << Service::Cipher as u32;
    let checks: [(&str, Rule, u64, Check); 6] = [
        (
            "VIRTIO_F_IN_ORDER: buffers are returned in order",
            rule::IN_ORDER,
            IN_ORDER,
            in_order,
        ),
        (
            "VIRTIO_F_RING_RESET: a data queue is reset alone",
            rule::QUEUE_RESET,
            RING_RESET,
            |target, vector| reset_alone(target, vector, Queue::Data),
        ),
        (
            "VIRTIO_F_RING_RESET: the control queue is reset alone",
            rule::QUEUE_RESET,
            RING_RESET,
            |target, vector| reset_alone(target, vector, Queue::Control),
        ),
        (
            "INFLIGHT_SHMFD: the next connection continues",
            rule::INFLIGHT,
            stateless,
            goes_on,
        ),
        (
            "INFLIGHT_SHMFD: a corrupted record",
            rule::INFLIGHT,
            0,
            notes,
        ),
        ("STATUS: what is set is read", rule::GET_STATUS, 0, status),
    ];
    for (name, rule, needed, check) in checks {
        let kind = (Group::Features, rule);
        cases.push(match (&vector, offer.lacks(needed)) {
            (Some(vector), None) => {
                let vector = vector.clone();
                Case::new_skippable(kind, name, move |target| check(target, &vector))
            }
            (Some(_), Some(why)) => Case::skip(kind, name, why),
            (None, _) => Case::skip(
                kind,
                name,
                "AES_CBC, of which requests are made, is not offered",
            ),
        });
    }
    cases
}

/// Returns the name of the check that performs a hostile action.
pub(crate) fn hostile_name(act: &str) -> String {
    format!("a front end with {act}")
}

fn hostile(name: &'static str, rule: Rule, act: Act) -> Case {
    Case::new(
        (Group::FrontEnds, rule),
        hostile_name(name),
        move |target| beside(target, act),
    )
}

/// Returns the verdict for a device that does not offer a protocol feature.
fn not_offered(feature: &str) -> Verdict {
    Verdict::Skip(format!("{feature} is not offered"))
}

/// Checks that another driver is served before a hostile action, and again while the hostile front
/// end still holds its resources. After both front ends have disconnected, the next driver must be
/// served.
pub(crate) fn beside(target: &Target, act: Act) -> Result<(), String> {
    let mut other = open(target, 0)?;
    let vector = usable(&other.offer).ok_or("no known algorithm")?;
    in_session(&mut other, &vector)?;
    let held = act(target).map_err(|e| format!("the check itself: {e}"))?;
    in_session(&mut other, &vector).map_err(|e| format!("another driver meanwhile: {e}"))?;
    drop((held, other));
    soon(target, &vector)
}

/// Checks that the next driver is served. Allows for the time that a device takes to notice that
/// front ends have disconnected.
fn soon(target: &Target, vector: &Vector) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    loop {
        match next_driver(target, vector) {
            Err(_) if !target.is_stopped() && Instant::now() < until => {
                sleep(Duration::from_millis(50));
            }
            done => return done,
        }
    }
}

/// Connects a front end and negotiates features. Returns `None` if the device disconnected.
fn agreed(target: &Target) -> std::io::Result<Option<Raw>> {
    // Ignore a rejected connection, because later checks show whether other drivers are still
    // served.
    let Ok(mut raw) = Raw::connect(target) else {
        return Ok(None);
    };
    Ok(raw.hello(0).then_some(raw))
}

/// Starts a front end that shares `file` as its memory, and starts a ring in that memory. Returns
/// the front end and the ring's kick eventfd, or `None` if the device rejected the front end.
fn started(
    target: &Target,
    size: u64,
    file: &File,
) -> std::io::Result<Option<(Raw, std::os::fd::OwnedFd)>> {
    let (kick, call) = (event()?, event()?);
    let Some(mut raw) = agreed(target)? else {
        return Ok(None);
    };
    let well = raw.table(size, file) && raw.ring(0, 0, Some(kick.as_fd()), call.as_fd());
    Ok(well.then_some((raw, kick)))
}

/// Starts a front end whose ring has this kick descriptor, and lets the ring run for a while.
fn kicked_by(target: &Target, kick: Option<BorrowedFd<'_>>) -> std::io::Result<Option<Raw>> {
    let (call, file) = (event()?, memory(SIZE, PLAIN)?);
    let mut raw = agreed(target)?;
    if let Some(raw) = &mut raw {
        let _ = raw.table(SIZE, &file) && raw.ring(0, 0, kick, call.as_fd());
        sleep(Duration::from_millis(100));
    }
    Ok(raw)
}

fn in_order(target: &Target, vector: &Vector) -> Result<Verdict, String> {
    const REQUESTS: u16 = 8;
    let mut link = open(target, IN_ORDER)?;
    let session = create(&mut link, vector)?;
    let mut bytes = Vec::new();
    let request = vector.request(kiln_virtio::wire::data::Mode::Session(session));
    request.emit(link.features, &mut bytes);
    link.write(ROOM, &bytes);
    let table = link.layout(Queue::Data)[0];
    // With IN_ORDER, the virtio specification (2.7.9) requires drivers to use descriptors in table
    // order.
    let mut pieces = Vec::new();
    for n in 0..usize::from(REQUESTS) {
        let answer = (ROOM + 0x4000 + 0x400 * n, request.answer_len(), WRITE);
        pieces.extend([(ROOM, bytes.len(), 0), answer]);
    }
    for (n, chain) in pieces.chunks(2).enumerate() {
        describe(&link, table + 32 * n, chain);
        // Overwrite `next`, because `describe` counts from the start of the chain, but `next` must
        // be an index into the whole table.
        let next = 2 * n as u16 + 1;
        link.write(table + 32 * n + 14, &next.to_le_bytes());
    }
    let used = link.layout(Queue::Data)[2];
    // Fill the used ring, so that entries that the device does not write can be recognised.
    link.write(used + 4, &[0xff; 8 * REQUESTS as usize]);
    for n in 0..REQUESTS {
        link.publish(Queue::Data, 2 * n, 1);
    }
    let until = Instant::now() + PATIENCE;
    let short = |link: &Link, at: usize| {
        let bytes = link.read(at, 2);
        u16::from_le_bytes([bytes[0], bytes[1]])
    };
    while short(&link, used + 2) != REQUESTS {
        if Instant::now() > until || target.is_stopped() {
            return Err(format!(
                "{} of {REQUESTS} requests were returned",
                short(&link, used + 2)
            ));
        }
        sleep(Duration::from_millis(1));
    }
    // One used entry may cover several requests. It contains the head of the last request, and the
    // device must not write entries for the rest.
    let mut at = 0;
    while at < REQUESTS {
        let id = |at: u16| short(&link, used + 4 + 8 * usize::from(at));
        let last = id(at) / 2;
        if id(at) % 2 != 0 || last < at || last >= REQUESTS {
            return Err(format!("request {at} was returned with head {}", id(at)));
        }
        if let Some(n) = (at + 1..=last).find(|n| id(*n) != u16::MAX) {
            return Err(format!(
                "request {n} was returned with head {}, although head {} covers it",
                id(n),
                id(at)
            ));
        }
        at = last + 1;
    }
    Ok(Verdict::Pass)
}

/// Checks that resetting one queue does not affect the sessions or the other queue, and that the
/// queue is served from entry 0 after the reset.
fn reset_alone(target: &Target, vector: &Vector, queue: Queue) -> Result<Verdict, String> {
    let mut link = open(target, RING_RESET)?;
    let session = create(&mut link, vector)?;
    for _ in 0..3 {
        link.reset_queue(queue)?;
        let request = vector.request(kiln_virtio::wire::data::Mode::Session(session));
        match link.request(&request)? {
            Ok(got) if got == vector.want => (),
            Ok(_) => return Err("a wrong result".into()),
            Err(status) => {
                return Err(format!("its session: status {}", name_status(status as u8)))
            }
        }
        in_session(&mut link, vector)?;
    }
    Ok(Verdict::Pass)
}

/// Stateless requests whose source and result overlap. They are stored in the same memory as their
/// ring.
struct Pile<'a> {
    file: &'a File,
    bytes: Vec<u8>,
    text: usize,
}

const PILED: u16 = 16;

impl<'a> Pile<'a> {
    fn new(file: &'a File, vector: &Vector) -> Pile<'a> {
        let mut bytes = Vec::new();
        let request = vector.request(vector.stateless());
        request.emit(Features::new(feature::ALL), &mut bytes);
        Pile {
            file,
            text: bytes.len() - vector.src.len(),
            bytes,
        }
    }

    fn place(n: u16) -> u64 {
        0x4000 + 0x400 * u64::from(n)
    }

    /// Writes all requests and makes them available.
    fn put(&self, vector: &Vector) -> std::io::Result<()> {
        let put = |at: u64, bytes: &[u8]| self.file.write_all_at(bytes, at);
        for n in 0..PILED {
            let (at, first) = (Pile::place(n), 3 * u64::from(n));
            put(at, &self.bytes)?;
            put(at + 0x300, &[0xee])?;
            let text = at + self.text as u64;
            for (i, address, len, flags) in [
                (first, at, self.bytes.len(), 1_u64),
                (first + 1, text, vector.src.len(), 3),
                (first + 2, at + 0x300, 1, 2),
            ] {
                let whole = words(&[
                    raw::BASE + address,
                    len as u64 | flags << 32 | (i + 1) << 48,
                ]);
                put(16 * i, &whole)?;
            }
            put(
                raw::AVAIL + 4 + 2 * u64::from(n),
                &(first as u16).to_le_bytes(),
            )?;
        }
        put(raw::AVAIL + 2, &PILED.to_le_bytes())
    }

    fn used(&self) -> std::io::Result<u16> {
        let mut bytes = [0; 2];
        self.file.read_exact_at(&mut bytes, raw::USED + 2)?;
        Ok(u16::from_le_bytes(bytes))
    }

    /// Checks that each request has a status, and that each request whose status is OK has the
    /// correct result. A request that the device did not finish may have an error status.
    fn is_right(&self, vector: &Vector) -> std::io::Result<Result<(), String>> {
        for n in 0..PILED {
            let (mut text, mut status) = (vec![0; vector.want.len()], [0]);
            let at = Pile::place(n);
            self.file.read_exact_at(&mut text, at + self.text as u64)?;
            self.file.read_exact_at(&mut status, at + 0x300)?;
            if status == [0] && text != vector.want {
                return Ok(Err(format!("request {n}: a wrong result with status ok")));
            }
            if status == [0xee] {
                return Ok(Err(format!("request {n} has no status")));
            }
        }
        Ok(Ok(()))
    }
}

/// The device's description of its in-flight memory, and the file that holds this memory.
type Notes = (Vec<u8>, File);

/// Connects a front end and negotiates features. Like [`open`], retries if the device has not yet
/// noticed that the previous front end has disconnected.
fn greet(target: &Target, protocol: u64) -> Result<Raw, String> {
    let until = Instant::now() + FREED;
    loop {
        let mut raw = Raw::connect(target).map_err(|e| e.to_string())?;
        if raw.hello(protocol) {
            return Ok(raw);
        }
        if target.is_stopped() || Instant::now() > until {
            return Err("the device disconnects a front end that negotiates features".into());
        }
        sleep(Duration::from_millis(10));
    }
}

/// Connects with an in-flight record, and starts a ring at the given entry. Returns `None` if the
/// device does not offer in-flight records.
fn with_notes(
    target: &Target,
    file: &File,
    notes: Option<&Notes>,
    [kick, call]: [BorrowedFd<'_>; 2],
    base: u16,
) -> Result<Option<(Raw, Notes)>, String> {
    let mut raw = greet(target, raw::INFLIGHT)?;
    if raw.offered & raw::INFLIGHT == 0 {
        return Ok(None);
    }
    let notes = match notes {
        Some((told, file)) => (told.clone(), file.try_clone().map_err(|e| e.to_string())?),
        None => {
            let asked = words(&[0, 0, 1 | u64::from(raw::RING) << 16]);
            raw.ask_file(raw::GET_INFLIGHT_FD, &asked)
                .ok_or("GET_INFLIGHT_FD got no answer with a descriptor")?
        }
    };
    let well = raw.done(raw::SET_INFLIGHT_FD, &notes.0, &[notes.1.as_fd()])
        && raw.table(SIZE, file)
        && raw.ring(0, base, Some(kick), call);
    match well {
        true => Ok(Some((raw, notes))),
        false => Err("the device refuses the file that it provided".into()),
    }
}

/// Checks what happens to requests that are in flight when a front end disconnects and then
/// reconnects. Each request must be answered, and none may be executed twice.
fn goes_on(target: &Target, vector: &Vector) -> Result<Verdict, String> {
    let of_io = |e: std::io::Error| format!("the check itself: {e}");
    let (kick, call) = (event().map_err(of_io)?, event().map_err(of_io)?);
    let ends = [kick.as_fd(), call.as_fd()];
    let until = Instant::now() + PATIENCE;
    for _ in 0..10 {
        let file = memory(SIZE, PLAIN).map_err(of_io)?;
        let pile = Pile::new(&file, vector);
        let Some((raw, notes)) = with_notes(target, &file, None, ends, 0)? else {
            return Ok(not_offered("INFLIGHT_SHMFD"));
        };
        pile.put(vector).map_err(of_io)?;
        raw::ring(&kick).map_err(of_io)?;
        raw.close();
        let _again = loop {
            // A device that serves only one front end at a time may need a moment before it accepts
            // the next one.
            let used = pile.used().map_err(of_io)?;
            let again = with_notes(target, &file, Some(&notes), ends, used);
            match again {
                Err(_) if Instant::now() < until && !target.is_stopped() => {
                    sleep(Duration::from_millis(20));
                }
                again => break again?,
            }
        };
        while pile.used().map_err(of_io)? != PILED {
            if Instant::now() > until || target.is_stopped() {
                return Err(format!(
                    "{} of {PILED} requests were returned",
                    pile.used().map_err(of_io)?
                ));
            }
            sleep(Duration::from_millis(1));
        }
        pile.is_right(vector).map_err(of_io)??;
    }
    Ok(Verdict::Pass)
}

/// Checks that the device survives corrupted in-flight records, which may contain any bytes, be too
/// small, or be truncated.
fn notes(target: &Target, vector: &Vector) -> Result<Verdict, String> {
    let of_io = |e: std::io::Error| format!("the check itself: {e}");
    let (kick, call) = (event().map_err(of_io)?, event().map_err(of_io)?);
    let ends = [kick.as_fd(), call.as_fd()];
    let mut other = Some(open(target, 0)?);
    let file = memory(SIZE, PLAIN).map_err(of_io)?;
    let mut first = with_notes(target, &file, None, ends, 0);
    if first.is_err() {
        // Disconnect the other front end and try again, because the device may serve only one front
        // end at a time.
        other = None;
        first = with_notes(target, &file, None, ends, 0);
    }
    let Some((raw, (told, _))) = first? else {
        return Ok(not_offered("INFLIGHT_SHMFD"));
    };
    drop(raw);
    let size = told
        .first_chunk()
        .map_or(0, |size| u64::from_le_bytes(*size));
    // The size is limited, because the device chose it and this process allocates the memory.
    if size > MOST_NOTES {
        return Err(format!(
            "the device wants {size} bytes for one queue of {}",
            raw::RING
        ));
    }
    for (byte, len) in [
        (0, 1),
        (0, size / 2),
        (1, size),
        (2, size),
        (0x7f, size),
        (0xff, size),
    ] {
        let content = memory(len, PLAIN).map_err(of_io)?;
        content
            .write_all_at(&vec![byte; len as usize], 0)
            .map_err(of_io)?;
        let given = (told.clone(), content);
        // The device may reject a corrupted record.
        if let Ok(Some((raw, _))) = with_notes(target, &file, Some(&given), ends, 0) {
            let _ = given.1.set_len(0);
            raw.send(raw::GET_VRING_BASE, &[0; 8], &[]);
            sleep(Duration::from_millis(20));
        }
        if let Some(other) = &mut other {
            in_session(other, vector).map_err(|e| format!("another driver meanwhile: {e}"))?;
        }
    }
    drop(other);
    soon(target, vector).map(|()| Verdict::Pass)
}

fn status(target: &Target, vector: &Vector) -> Result<Verdict, String> {
    const GET_STATUS: u32 = 40;
    let connect = || greet(target, raw::STATUS);
    let mut raw = connect()?;
    if raw.offered & raw::STATUS == 0 {
        return Ok(not_offered("STATUS"));
    }
    // Set ACKNOWLEDGE, DRIVER and FEATURES_OK, then reset and start over.
    for bits in [1_u64, 3, 11, 0, 1] {
        raw.send(raw::SET_STATUS, &words(&[bits]), &[]);
        match raw.ask(GET_STATUS, &[]) {
            Some(got) if got == words(&[bits]) => (),
            Some(got) => {
                let got = match <[u8; 8]>::try_from(got) {
                    Ok(got) => name_device_status(u64::from_le_bytes(got)),
                    Err(got) => format!("a payload of {} bytes", got.len()),
                };
                return Err(format!(
                    "{} was set, but {got} was read",
                    name_device_status(bits)
                ));
            }
            None => {
                return Err(format!(
                    "{} was set, and GET_STATUS got no answer",
                    name_device_status(bits)
                ))
            }
        }
    }
    drop(raw);
    for wrong in [256, u64::MAX] {
        let mut raw = connect()?;
        raw.send(raw::SET_STATUS, &words(&[wrong]), &[]);
        raw.ask(GET_STATUS, &[]);
    }
    soon(target, vector).map(|()| Verdict::Pass)
}
