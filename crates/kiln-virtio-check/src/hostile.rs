//! Checks that send requests from a hostile driver. The descriptors are valid, but the contents of
//! the requests are malformed. The device must either answer such a request with an error or leave
//! it unanswered, and it must serve the next driver.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kiln_virtio::wire::algo::{akcipher, cipher, OP_ENCRYPT};
use kiln_virtio::wire::data::{self, Mode};
use kiln_virtio::wire::{session, Action, Control, Create, Operation, Service, Status};

use crate::bits::name_status;
use crate::case::{Case, Group, Verdict};
use crate::conform::{create, destroy, has_cbc, in_session, open, small_hash, usable};
use crate::link::{Link, Offer, Target, GONE, ROOM, SILENT};
use crate::rule::{self, Rule};
use crate::vectors::{all, Vector};

/// The status of a request, or the reason why the device did not return one.
type Answered = Result<Status, String>;

/// A check that opens its own connections.
type Check = fn(&Target, &Vector) -> Result<(), String>;

pub(crate) fn cases(offer: &Offer) -> Vec<Case> {
    let Some(vector) = usable(offer).filter(|_| has_cbc(offer)) else {
        return vec![Case::skip(
            (Group::Requests, rule::CIPHER),
            "hostile requests",
            "AES_CBC, of which they are made, is not offered",
        )];
    };
    let mut cases = Vec::new();
    // Test lengths that overflow 32-bit sums, exceed the buffers, contradict each other or are
    // invalid for the cipher mode. Also test unknown operation types.
    for (name, at, value) in [
        ("CVE-2017-5931: iv_len of 4 GiB", 0, u32::MAX),
        ("CVE-2017-5931: iv_len that wraps", 0, u32::MAX - 63),
        ("CVE-2017-5931: src_data_len of 4 GiB", 4, u32::MAX),
        (
            "CVE-2020-14374: src_data_len beyond what is readable",
            4,
            4096,
        ),
        (
            "CVE-2020-14374: dst_data_len beyond what is writable",
            8,
            4096,
        ),
        ("CVE-2023-3180: dst_data_len shorter than the source", 8, 16),
        ("CVE-2023-3180: dst_data_len of 4 GiB", 8, u32::MAX),
        ("iv_len of 15", 0, 15),
        ("op_type of 0", 40, 0),
        ("op_type of 7", 40, 7),
    ] {
        cases.push(refused(rule::CIPHER, name, &vector, move |link, vector| {
            patched(link, vector, |bytes| {
                bytes[24 + at..28 + at].copy_from_slice(&value.to_le_bytes());
            })
        }));
    }
    cases.push(refused(
        rule::DATA,
        "an unknown opcode",
        &vector,
        |link, vector| patched(link, vector, |bytes| bytes[1] = 0x77),
    ));
    cases.push(refused(
        rule::CIPHER,
        "a source of 31 bytes",
        &vector,
        |link, vector| {
            patched(link, vector, |bytes| {
                for at in [4, 8] {
                    bytes[24 + at..28 + at].copy_from_slice(&31_u32.to_le_bytes());
                }
            })
        },
    ));
    for cut in [1, 8, 23, 24, 71, 72, 87] {
        let name = format!("CVE-2020-14374: a request of {cut} bytes");
        cases.push(refused(rule::DATA, name, &vector, move |link, vector| {
            patched(link, vector, |bytes| bytes.truncate(cut))
        }));
    }
    for claimed in [0, 17, 64, 65, 4096, u32::MAX] {
        let name = format!("CVE-2020-10724: key_len of {claimed}");
        cases.push(refused(rule::CREATE, name, &vector, move |link, _| {
            key(link, claimed, &[7; 16])
        }));
    }
    cases.push(refused(
        rule::CREATE,
        "CVE-2020-10724: a key of 8 KiB",
        &vector,
        |link, _| key(link, 8192, &[7; 8192]),
    ));
    cases.push(refused(
        rule::CIPHER,
        "CVE-2026-86845: a session that was destroyed",
        &vector,
        stale,
    ));
    cases.push(refused(
        rule::CIPHER,
        "CVE-2026-86845: a session that never existed",
        &vector,
        |link, vector| named(link, vector, u64::MAX),
    ));
    cases.push(match offer.config.has(Service::Hash) {
        true => refused(
            rule::CIPHER,
            "CVE-2026-86845: a session of another kind",
            &vector,
            |link, vector| {
                let hash = small_hash();
                let name = create(link, &hash)?;
                named(link, vector, name)
            },
        ),
        false => Case::skip(
            (Group::Requests, rule::CIPHER),
            "CVE-2026-86845: a session of another kind",
            "HASH is not offered",
        ),
    });
    let rsa = all().into_iter().find(|v| v.name.starts_with("rsa"));
    let offered = offer.config.offers(Service::Akcipher, akcipher::RSA);
    for (name, rule, what) in [
        (
            "CVE-2025-14876: akcipher dst_data_len of 4 GiB",
            rule::AKCIPHER,
            0,
        ),
        (
            "CVE-2025-14876: akcipher src_data_len of 4 GiB",
            rule::AKCIPHER,
            1,
        ),
        ("CVE-2025-14876: akcipher key_len of 4 GiB", rule::CREATE, 2),
    ] {
        cases.push(match &rsa {
            Some(rsa) if offered => {
                let rsa = rsa.clone();
                refused(rule, name, &vector, move |link, _| {
                    akcipher_lengths(link, &rsa, what)
                })
            }
            _ => Case::skip((Group::Requests, rule), name, "RSA is not offered"),
        });
    }
    let checks: [(&str, Rule, Check); 3] = [
        (
            "CVE-2020-14375: lengths that change while they are read",
            rule::CIPHER,
            changing,
        ),
        ("sessions without limit", rule::CREATE, without_end),
        (
            "the session of a connection that is gone",
            rule::STATUS,
            outlived,
        ),
    ];
    for (name, rule, check) in checks {
        let vector = vector.clone();
        let check = move |target: &Target| check(target, &vector);
        cases.push(Case::new((Group::Requests, rule), name, check));
    }
    cases.push(Case::new_skippable(
        (Group::Requests, rule::STATUS),
        "another guest's session",
        move |target| another_guest(target, &vector),
    ));
    cases
}

/// Creates a check that sends a request which the device must reject. The device must still work
/// afterwards.
pub(crate) fn refused(
    rule: Rule,
    name: impl Into<String>,
    vector: &Vector,
    act: impl FnOnce(&mut Link, &Vector) -> Answered + 'static,
) -> Case {
    let vector = vector.clone();
    Case::new((Group::Requests, rule), name, move |target| {
        let mut link = open(target, 0)?;
        match act(&mut link, &vector) {
            Ok(Status::Ok) => return Err("the device accepted it: status ok (0)".into()),
            Ok(_) => in_session(&mut link, &vector).map_err(|e| format!("afterwards: {e}"))?,
            // The device may disconnect the driver that sent the request, or leave the request
            // unanswered, but it must keep serving other drivers.
            Err(e) if e == GONE || e == SILENT => (),
            Err(e) => return Err(e),
        }
        drop(link);
        next_driver(target, &vector)
    })
}

/// Checks that the next driver is served correctly.
pub(crate) fn next_driver(target: &Target, vector: &Vector) -> Result<(), String> {
    let serve = || in_session(&mut open(target, 0)?, vector);
    serve().map_err(|e| format!("the next driver: {e}"))
}

/// Opens a session, sends a request whose bytes have been modified by `patch`, and returns the
/// status.
fn patched(link: &mut Link, vector: &Vector, patch: impl FnOnce(&mut Vec<u8>)) -> Answered {
    let name = create(link, vector)?;
    let mut bytes = Vec::new();
    vector
        .request(Mode::Session(name))
        .emit(link.features, &mut bytes);
    patch(&mut bytes);
    let result = link.raw(&bytes, vector.want.len() + 1)?;
    Ok(result.err().unwrap_or(Status::Ok))
}

fn named(link: &mut Link, vector: &Vector, session: u64) -> Answered {
    let result = link.request(&vector.request(Mode::Session(session)))?;
    Ok(result.err().unwrap_or(Status::Ok))
}

fn key(link: &mut Link, claimed: u32, key: &[u8]) -> Answered {
    let create = Create::Cipher(session::Cipher {
        algo: cipher::AES_CBC,
        key_len: claimed,
        op: OP_ENCRYPT,
    });
    let control = Control::Create {
        create,
        key,
        auth_key: &[],
    };
    Ok(link.control(&control)?.err().unwrap_or(Status::Ok))
}

fn stale(link: &mut Link, vector: &Vector) -> Answered {
    let name = create(link, vector)?;
    destroy(link, vector, name)?;
    // A new session may reuse the destroyed session's slot, but must have a different ID.
    create(link, vector)?;
    named(link, vector, name)
}

fn akcipher_lengths(link: &mut Link, rsa: &Vector, what: usize) -> Answered {
    if what == 2 {
        let Create::Akcipher(a) = rsa.create else {
            return Err("a vector of RSA".into());
        };
        let create = Create::Akcipher(session::Akcipher {
            key_len: u32::MAX,
            ..a
        });
        let control = Control::Create {
            create,
            key: &rsa.key,
            auth_key: &[],
        };
        return Ok(link.control(&control)?.err().unwrap_or(Status::Ok));
    }
    let name = create(link, rsa)?;
    let mut data = data::Akcipher {
        src_len: 64,
        dst_len: 64,
    };
    match what {
        0 => data.dst_len = u32::MAX,
        _ => data.src_len = u32::MAX,
    }
    let mut request = rsa.request(Mode::Session(name));
    request.op = Operation::Akcipher(data);
    request.action = Action::Encrypt;
    let mut bytes = Vec::new();
    request.emit(link.features, &mut bytes);
    let result = link.raw(&bytes, 65)?;
    Ok(result.err().unwrap_or(Status::Ok))
}

/// Checks requests whose source and destination lengths are changed by another thread while the
/// device reads them. Each answer must be either correct or an error, and the device must serve the
/// next driver.
fn changing(target: &Target, vector: &Vector) -> Result<(), String> {
    const REQUESTS: usize = 2000;
    let mut link = open(target, 0)?;
    let name = create(&mut link, vector)?;
    let mut bytes = Vec::new();
    vector
        .request(Mode::Session(name))
        .emit(link.features, &mut bytes);
    let stop = AtomicBool::new(false);
    let right = vector.src.len() as u32;
    let memory = link.shared();
    let result = thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for len in [right, u32::MAX, 1 << 20, right, 0, right] {
                    for at in [4, 8] {
                        memory.write(ROOM + 24 + at, &len.to_le_bytes());
                    }
                }
            }
        });
        let mut run = || {
            for n in 0..REQUESTS {
                match link.raw(&bytes, vector.want.len() + 1)? {
                    Ok(got) if got.is_empty() || got == vector.want => (),
                    Ok(_) => return Err(format!("request {n}: a wrong result with status ok")),
                    Err(_) => (),
                }
            }
            Ok(())
        };
        let result = run();
        stop.store(true, Ordering::Relaxed);
        result
    });
    result?;
    drop(link);
    next_driver(target, vector)
}

/// Checks that the device either limits the number of sessions or provides at least 20,000. After a
/// disconnect, the next driver must be able to create at least as many sessions as the first.
fn without_end(target: &Target, vector: &Vector) -> Result<(), String> {
    const ENOUGH: usize = 20_000;
    let mut first = None;
    for turn in 0..2 {
        let mut link = open(target, 0)?;
        let mut made = 0;
        while made < ENOUGH && create(&mut link, vector).is_ok() {
            made += 1;
        }
        if made == 0 {
            return Err(format!("no session can be created on connection {turn}"));
        }
        let before = *first.get_or_insert(made);
        if before > made {
            return Err(format!(
                "{made} sessions can be created, but {before} could on the first connection: the \
                 device did not free all of them"
            ));
        }
        drop(link);
        // The device may need a moment to wipe this many sessions.
        thread::sleep(Duration::from_millis(200));
    }
    next_driver(target, vector)
}

fn another_guest(target: &Target, vector: &Vector) -> Result<Verdict, String> {
    let mut one = open(target, 0)?;
    let name = create(&mut one, vector)?;
    let Ok(mut other) = Link::open(target, 0) else {
        let why = "the device does not serve a second guest at the same time";
        return Ok(Verdict::Skip(why.into()));
    };
    match named(&mut other, vector, name)? {
        Status::Ok => return Err("one guest could use another guest's session".into()),
        _ => drop(other),
    }
    match named(&mut one, vector, name)? {
        Status::Ok => Ok(Verdict::Pass),
        status => Err(format!(
            "the guest that owns the session then got status {}",
            name_status(status as u8)
        )),
    }
}

/// Checks that the next driver cannot use a session that a disconnected driver left open.
fn outlived(target: &Target, vector: &Vector) -> Result<(), String> {
    let name = create(&mut open(target, 0)?, vector)?;
    match named(&mut open(target, 0)?, vector, name)? {
        Status::Ok => Err("the next driver could use the session: status ok (0)".into()),
        _ => Ok(()),
    }
}
