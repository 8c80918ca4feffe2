//! Checks that a device correctly serves everything it offers, in each request format: without
//! REVISION_1, with REVISION_1, and stateless.

use std::thread::sleep;
use std::time::{Duration, Instant};

use kiln_virtio::wire::algo::{self, cipher};
use kiln_virtio::wire::config::HW_READY;
use kiln_virtio::wire::data::{self, Mode};
use kiln_virtio::wire::{feature, session, Config, Control, Create, Operation, Service, Status};

use crate::bits::{masks, name_features, name_status};
use crate::case::{Case, Group};
use crate::link::{
    Came, Descriptor, Fault, Link, Offer, Queue, Target, BASE, INDIRECT, NEXT, ROOM, TABLE, WRITE,
};
use crate::rule::{self, Rule};
use crate::vectors::{all, inverse, Vector};

/// Names of the request formats, and the features that select them.
const FORMS: [(&str, u64); 3] = [
    ("legacy", 0),
    ("revision-1", feature::REVISION_1),
    ("stateless", feature::ALL),
];

pub(crate) fn cases(offer: &Offer) -> Vec<Case> {
    let (features, config) = (offer.features, offer.config);
    let mut cases = vec![
        Case::new(
            (Group::Configuration, rule::CONFIGURATION),
            "configuration",
            move |_| configuration(&config),
        ),
        Case::new(
            (Group::Configuration, rule::FEATURES),
            "feature bits",
            move |_| require_revision_1(features),
        ),
        Case::new(
            (Group::Configuration, rule::CREATE),
            "configuration: unknown algorithms are refused",
            move |target| {
                let mut link = open(target, 0)?;
                unknown(&mut link, &config)
            },
        ),
    ];
    for (form, wanted) in FORMS {
        for vector in all() {
            let name = format!("{form}: {}", vector.name);
            cases.push(served(name, offer, wanted, vector));
        }
    }
    let usable = usable(offer);
    for (name, rule, needed, check) in [
        (
            "sessions: destroyed once",
            rule::DESTROY,
            0,
            destroyed_once as Check,
        ),
        (
            "lengths: more readable and writable than needed",
            rule::DATA,
            0,
            more_than_needed,
        ),
        (
            "descriptors: one for every byte of the header",
            rule::FRAMING,
            0,
            split_header,
        ),
        ("descriptors: indirect", rule::INDIRECT, INDIRECT, indirect),
    ] {
        let kind = (Group::Framing, rule);
        cases.push(match (&usable, offer.lacks(needed)) {
            (Some(_), Some(why)) => Case::skip(kind, name, why),
            (Some(vector), None) => {
                let vector = vector.clone();
                Case::new(kind, name, move |target| {
                    check(&mut open(target, 0)?, &vector)
                })
            }
            (None, _) => Case::skip(kind, name, "no known algorithm"),
        });
    }
    cases
}

type Check = fn(&mut Link, &Vector) -> Result<(), String>;

/// How long a device may take to accept another driver after one has disconnected.
pub(crate) const FREED: Duration = Duration::from_secs(1);

/// Connects a driver. A device that serves only one driver at a time may reject the new driver
/// until it has noticed that the previous one has disconnected.
pub(crate) fn open(target: &Target, wanted: u64) -> Result<Link, String> {
    let until = Instant::now() + FREED;
    loop {
        match Link::open(target, wanted) {
            Err(Fault::Refused) if !target.is_stopped() && Instant::now() < until => {
                sleep(Duration::from_millis(10));
            }
            result => return result.map_err(|e| e.to_string()),
        }
    }
}

/// Returns a test vector for an algorithm that the device offers, preferably AES-CBC.
pub(crate) fn usable(offer: &Offer) -> Option<Vector> {
    let offered = |v: &Vector| offer.config.offers(v.create.service(), v.create.algo());
    let mut offered: Vec<Vector> = all().into_iter().filter(offered).collect();
    let cbc = |v: &Vector| v.name == "aes-cbc";
    let at = offered.iter().position(cbc).unwrap_or(0);
    (!offered.is_empty()).then(|| offered.swap_remove(at))
}

fn served(name: String, offer: &Offer, wanted: u64, vector: Vector) -> Case {
    let service = vector.create.service();
    let kind = (Group::Services, rule_of(service));
    if !offer.config.offers(service, vector.create.algo()) {
        return Case::skip(kind, name, "not offered");
    }
    let stateless = wanted == feature::ALL;
    let needed = match stateless {
        true => feature::CIPHER_STATELESS << service as u32 | feature::REVISION_1,
        false => wanted,
    };
    if let Some(why) = offer.lacks(needed) {
        return Case::skip(kind, name, why);
    }
    Case::new(kind, name, move |target| {
        let mut link = open(target, wanted)?;
        for vector in std::iter::once(vector.clone()).chain(inverse(&vector)) {
            let what = format!("{:?}", vector.action).to_lowercase();
            in_session(&mut link, &vector).map_err(|e| format!("{what}: {e}"))?;
            if stateless {
                let got = link.request(&vector.request(vector.stateless()))?;
                expect(got, &vector.want).map_err(|e| format!("{what}, stateless: {e}"))?;
            }
            if let Create::Aead(_) = vector.create {
                tampered(&mut link, &vector)?;
            }
        }
        Ok(())
    })
}

/// Returns the rule for a service's data requests, which cites the section that specifies them.
fn rule_of(service: Service) -> Rule {
    match service {
        Service::Cipher => rule::CIPHER,
        Service::Hash => rule::HASH,
        Service::Mac => rule::MAC,
        Service::Aead => rule::AEAD,
        Service::Akcipher => rule::AKCIPHER,
    }
}

fn expect(got: Result<Vec<u8>, Status>, want: &[u8]) -> Result<(), String> {
    match got {
        Ok(got) if got == want => Ok(()),
        Ok(got) if got.len() != want.len() => Err(format!(
            "the result has {} bytes, and the published one has {}",
            got.len(),
            want.len()
        )),
        Ok(got) => {
            let wrong = got.iter().zip(want).position(|(a, b)| a != b).unwrap_or(0);
            Err(format!(
                "byte {wrong} of the result is {:#04x}, and {:#04x} in the published one",
                got[wrong], want[wrong]
            ))
        }
        Err(status) => Err(format!("status {}", name_status(status as u8))),
    }
}

pub(crate) fn create(link: &mut Link, vector: &Vector) -> Result<u64, String> {
    let control = Control::Create {
        create: vector.create,
        key: &vector.key,
        auth_key: &[],
    };
    link.control(&control)?.map_err(not_created)
}

/// Formats the error message for a session that could not be created, including the status.
pub(crate) fn not_created(status: Status) -> String {
    format!("creating the session: status {}", name_status(status as u8))
}

/// Formats the error message for a session that could not be destroyed, including the status.
pub(crate) fn not_destroyed(status: Status) -> String {
    format!(
        "destroying the session: status {}",
        name_status(status as u8)
    )
}

pub(crate) fn destroy(link: &mut Link, vector: &Vector, session: u64) -> Result<Status, String> {
    let service = vector.create.service();
    let done = link.control(&Control::Destroy { service, session })?;
    Ok(done.err().unwrap_or(Status::Ok))
}

/// Creates a session, runs the vector in it, and destroys the session.
pub(crate) fn in_session(link: &mut Link, vector: &Vector) -> Result<(), String> {
    let session = create(link, vector)?;
    let got = link.request(&vector.request(Mode::Session(session)))?;
    expect(got, &vector.want)?;
    match destroy(link, vector, session)? {
        Status::Ok => Ok(()),
        status => Err(not_destroyed(status)),
    }
}

/// Checks that the device reports a wrong tag and does not return any plaintext.
fn tampered(link: &mut Link, vector: &Vector) -> Result<(), String> {
    let Some(mut wrong) =
        inverse(vector).filter(|v| v.action == kiln_virtio::wire::Action::Decrypt)
    else {
        return Ok(());
    };
    if let Some(last) = wrong.src.last_mut() {
        *last ^= 1;
    }
    let session = create(link, &wrong)?;
    let mut bytes = Vec::new();
    let request = wrong.request(Mode::Session(session));
    request.emit(link.features, &mut bytes);
    let answer = link.ask(Queue::Data, &bytes, request.answer_len())?;
    let (status, text) = answer.bytes.split_last().ok_or("no status")?;
    if *status != Status::BadMsg as u8 {
        return Err(format!(
            "a wrong tag: status {}, not {}",
            name_status(*status),
            name_status(Status::BadMsg as u8)
        ));
    }
    if text.len() > 4 && text.starts_with(&wrong.want[..4]) {
        return Err("a wrong tag: the plaintext was returned anyway".into());
    }
    destroy(link, &wrong, session).map(|_| ())
}

fn configuration(config: &Config) -> Result<(), String> {
    for mask in masks(config) {
        if let Some(bits) = mask.undefined() {
            return Err(format!(
                "{} has bits that are not defined: {bits}",
                mask.field
            ));
        }
    }
    let algorithms = [
        (Service::Cipher, config.cipher_algo),
        (Service::Hash, config.hash_algo.into()),
        (Service::Mac, config.mac_algo),
        (Service::Aead, config.aead_algo.into()),
        (Service::Akcipher, config.akcipher_algo.into()),
    ];
    for (service, mask) in algorithms {
        if config.has(service) && mask == 0 {
            return Err(format!(
                "crypto_services has {}, and its algorithm mask has no bit set",
                service.name()
            ));
        }
    }
    match config {
        c if c.status & HW_READY == 0 => Err(format!("status is {}, without HW_READY", c.status)),
        c if !(1..=65535).contains(&c.max_dataqueues) => Err(format!(
            "max_dataqueues is {}, not from 1 to 65535",
            c.max_dataqueues
        )),
        c if c.max_size == 0 => Err("max_size is 0".into()),
        c if c.has(Service::Cipher) && c.max_cipher_key_len == 0 => {
            Err("max_cipher_key_len is 0, although ciphers are offered".into())
        }
        c if c.has(Service::Mac) && c.max_auth_key_len == 0 => {
            Err("max_auth_key_len is 0, although MACs are offered".into())
        }
        _ => Ok(()),
    }
}

fn require_revision_1(features: u64) -> Result<(), String> {
    let stateless = features & (feature::ALL & !feature::REVISION_1);
    match stateless != 0 && features & feature::REVISION_1 == 0 {
        true => Err(format!(
            "{} offered without REVISION_1",
            name_features(stateless)
        )),
        false => Ok(()),
    }
}

/// Checks that the device rejects algorithms that it does not offer.
fn unknown(link: &mut Link, config: &Config) -> Result<(), String> {
    for algo in (0..64).filter(|&n| !config.offers(Service::Cipher, n)) {
        let create = Create::Cipher(session::Cipher {
            algo,
            key_len: 16,
            op: algo::OP_ENCRYPT,
        });
        let control = Control::Create {
            create,
            key: &[1; 16],
            auth_key: &[],
        };
        match link.control(&control)? {
            Err(Status::NotSupp) => (),
            Err(status) => {
                return Err(format!(
                    "cipher {algo}, which is not offered: status {}, not {}",
                    name_status(status as u8),
                    name_status(Status::NotSupp as u8)
                ))
            }
            Ok(_) => {
                return Err(format!(
                    "a session of cipher {algo}, which is not offered, was created"
                ))
            }
        }
    }
    Ok(())
}

fn destroyed_once(link: &mut Link, vector: &Vector) -> Result<(), String> {
    let session = create(link, vector)?;
    let first = destroy(link, vector, session)?;
    let second = destroy(link, vector, session)?;
    match (first, second) {
        (Status::Ok, Status::Ok) => {
            Err("destroying a session that was already destroyed: status ok (0)".into())
        }
        (Status::Ok, _) => Ok(()),
        (status, _) => Err(not_destroyed(status)),
    }
}

fn more_than_needed(link: &mut Link, vector: &Vector) -> Result<(), String> {
    let session = create(link, vector)?;
    let mut bytes = Vec::new();
    vector
        .request(Mode::Session(session))
        .emit(link.features, &mut bytes);
    bytes.extend([0x77; 40]);
    let got = link.raw(&bytes, vector.want.len() + 1 + 40)?;
    // The writable buffer is larger than needed. The device must write the status to the last byte
    // of the buffer and the result to its start.
    expect(got, &vector.want)
}

/// Checks that a request is served if each byte of its header is in a separate buffer, and its
/// writable part is split into two buffers.
fn split_header(link: &mut Link, vector: &Vector) -> Result<(), String> {
    const PIECES: usize = 24;
    let session = create(link, vector)?;
    let mut bytes = Vec::new();
    vector
        .request(Mode::Session(session))
        .emit(link.features, &mut bytes);
    let room = vector.want.len() + 1;
    let (request, answer) = (ROOM, ROOM + 0x4000);
    link.write(request, &bytes);
    let table = link.layout(Queue::Data)[0];
    let mut pieces: Vec<(usize, usize, u16)> = (0..PIECES).map(|i| (request + i, 1, 0)).collect();
    pieces.push((request + PIECES, bytes.len() - PIECES, 0));
    let first = room / 2;
    pieces.push((answer, first, WRITE));
    pieces.push((answer + 0x100, room - first, WRITE));
    describe(link, table, &pieces);
    let text = collect(
        link,
        0,
        room,
        [(answer, first), (answer + 0x100, room - first)],
    )?;
    expect(Ok(text), &vector.want)
}

fn indirect(link: &mut Link, vector: &Vector) -> Result<(), String> {
    let session = create(link, vector)?;
    let mut bytes = Vec::new();
    vector
        .request(Mode::Session(session))
        .emit(link.features, &mut bytes);
    let room = vector.want.len() + 1;
    let (indirect, request, answer) = (ROOM + 0x8000, ROOM, ROOM + 0x4000);
    link.write(request, &bytes);
    describe(
        link,
        indirect,
        &[(request, bytes.len(), 0), (answer, room, WRITE)],
    );
    let table = link.layout(Queue::Data)[0];
    let head = Descriptor {
        address: BASE + indirect as u64,
        len: 32,
        flags: TABLE,
        next: 0,
    };
    link.describe(table, 5, head);
    let text = collect(link, 5, room, [(answer, room), (answer, 0)])?;
    expect(Ok(text), &vector.want)
}

/// Writes consecutive descriptors to a table. Each piece consists of an offset, a length and flags.
pub(crate) fn describe(link: &Link, table: usize, pieces: &[(usize, usize, u16)]) {
    for (i, &(offset, len, flags)) in pieces.iter().enumerate() {
        let last = i + 1 == pieces.len();
        let piece = Descriptor {
            address: BASE + offset as u64,
            len: len as u32,
            flags: flags | if last { 0 } else { NEXT },
            next: i as u16 + 1,
        };
        link.describe(table, i as u16, piece);
    }
}

/// Publishes this head, waits until the device has used it, and reads the result from the two
/// buffers in `pieces`.
fn collect(
    link: &mut Link,
    head: u16,
    room: usize,
    pieces: [(usize, usize); 2],
) -> Result<Vec<u8>, String> {
    link.publish(Queue::Data, head, 1);
    match link.wait(Queue::Data, Duration::from_secs(5)) {
        Came::Used(id, _) if id == u32::from(head) => (),
        came => return Err(came.describe()),
    }
    let mut bytes: Vec<u8> = pieces
        .iter()
        .flat_map(|&(at, len)| link.read(at, len))
        .collect();
    bytes.truncate(room);
    match bytes.pop() {
        Some(0) => Ok(bytes),
        Some(status) => Err(format!("status {}", name_status(status))),
        None => Err("the request has no room for a status".into()),
    }
}

/// Returns a small hash vector, for checks that need several kinds of sessions.
pub(crate) fn small_hash() -> Vector {
    let hash = |v: &Vector| matches!(v.op, Operation::Hash(data::Digest { .. }));
    all().into_iter().find(hash).expect("there are hashes")
}

/// Returns whether the device offers AES-CBC, which all hostile requests use.
pub(crate) fn has_cbc(offer: &Offer) -> bool {
    offer.config.offers(Service::Cipher, cipher::AES_CBC)
}
