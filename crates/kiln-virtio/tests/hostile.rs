//! Tests that send hostile requests and check the answers. Tests whose names begin with `cve` are
//! named after vulnerabilities in other devices. Tests about rings and guest memory are in
//! `kiln-device`.

mod common;

use common::{bytes, hex, Case, Driver, FORMS};
use kiln_virtio::wire::algo::{aead, akcipher, cipher, hash, mac, OP_DECRYPT, OP_ENCRYPT};
use kiln_virtio::wire::data::{self, Mode};
use kiln_virtio::wire::{session, Action, Control, Create, Operation, Service, Status};
use kiln_virtio::{Guest, Limits, Services};

fn cbc(src: &[u8]) -> Case {
    Case::cipher(cipher::AES_CBC, OP_ENCRYPT, &[1; 16], &[2; 16], src)
}

/// Creates a session for `case`, sends a data request after `patch` has modified its bytes, and
/// returns the status.
fn patched(form: u64, case: &Case, room: usize, patch: impl Fn(&mut Vec<u8>)) -> Status {
    let mut driver = Driver::new(form);
    let name = driver
        .create(case.create, &case.key, &case.auth_key)
        .unwrap();
    let mut request = Vec::new();
    case.request(Mode::Session(name))
        .emit(driver.features, &mut request);
    patch(&mut request);
    let result = driver.bytes(&mut request, room);
    // The session must still work, regardless of what the request contained.
    let after = driver.request(&case.request(Mode::Session(name)));
    assert!(after.is_ok(), "{after:?}");
    result.err().unwrap_or(Status::Ok)
}

/// Returns a function that writes `value` into a request, `at` bytes after the data header.
fn put(at: usize, value: u32) -> impl Fn(&mut Vec<u8>) {
    move |request| request[24 + at..28 + at].copy_from_slice(&value.to_le_bytes())
}

/// A request must be rejected if the sum of the lengths in its header overflows 32 bits.
#[test]
fn cve_2017_5931_lengths_overflow() {
    let case = cbc(&[3; 64]);
    for (iv_len, src_len) in [
        (16, u32::MAX),
        (u32::MAX, 64),
        (u32::MAX - 63, 64),
        (0x8000_0000, 0x8000_0000),
        (u32::MAX, u32::MAX),
    ] {
        let status = patched(0, &case, 65, |request| {
            put(0, iv_len)(request);
            put(4, src_len)(request);
            put(8, src_len)(request);
        });
        assert_eq!(status, Status::Err, "{iv_len} {src_len}");
    }
    let gcm = Case::aead(
        aead::GCM,
        OP_ENCRYPT,
        16,
        &[1; 16],
        &[2; 12],
        &[4; 8],
        &[3; 32],
    );
    for at in [0, 4, 8, 12] {
        let status = patched(0, &gcm, 49, put(at, u32::MAX - 8));
        assert_eq!(status, Status::Err, "offset {at}");
    }
}

/// A chain must be rejected if one of its regions exceeds the source, or if the sum of the region's
/// start and length overflows 32 bits.
#[test]
fn cve_2017_5931_regions_overflow() {
    let create = Create::Chain(session::Chain {
        order: 1,
        cipher: session::Cipher {
            algo: cipher::AES_CTR,
            key_len: 16,
            op: OP_ENCRYPT,
        },
        hash: session::ChainHash::Plain(session::Hash {
            algo: hash::SHA1,
            result_len: 20,
        }),
        aad_len: 0,
    });
    let case = Case {
        create,
        op: Operation::Chain(data::Chain {
            iv_len: 16,
            src_len: 64,
            dst_len: 64,
            cipher_start: 0,
            cipher_len: 64,
            hash_start: 0,
            hash_len: 64,
            aad_len: 0,
            result_len: 20,
        }),
        ..cbc(&[3; 64])
    };
    for (start, len) in [(12, 16), (20, 24)] {
        for (from, of) in [
            (u32::MAX, 2),
            (1, u32::MAX),
            (65, 0),
            (32, 33),
            (1 << 31, 1 << 31),
        ] {
            let status = patched(0, &case, 85, |request| {
                put(start, from)(request);
                put(len, of)(request);
            });
            assert_eq!(status, Status::Err, "{from} {of}");
        }
    }
}

/// A key must be rejected if its length is invalid, or if its claimed length exceeds what the
/// driver sent.
#[test]
fn cve_2020_10724_key_lengths() {
    for form in FORMS {
        let driver = Driver::new(form);
        for len in [0, 1, 15, 17, 33, 64, 65, 4096] {
            let key = vec![7; len];
            let case = Case::cipher(cipher::AES_CBC, OP_ENCRYPT, &key, &[0; 16], &[]);
            assert_eq!(
                driver.create(case.create, &key, &[]),
                Err(Status::Err),
                "{len}"
            );
        }
        let long = vec![7; 513];
        let hmac = Case::mac(mac::HMAC_SHA1, 20, &long, &[]);
        assert_eq!(driver.create(hmac.create, &long, &[]), Err(Status::Err));
        // Claim a length that exceeds the 16 bytes of the key.
        for claimed in [17, 32, 0x7fff_ffff, u32::MAX] {
            let create = Create::Cipher(session::Cipher {
                algo: cipher::AES_CBC,
                key_len: claimed,
                op: OP_ENCRYPT,
            });
            assert_eq!(driver.create(create, &[7; 16], &[]), Err(Status::Err));
            let create = Create::Mac(session::Mac {
                algo: mac::HMAC_SHA1,
                result_len: 20,
                key_len: claimed,
            });
            assert_eq!(driver.create(create, &[7; 16], &[]), Err(Status::Err));
        }
        assert_eq!(driver.guest.sessions(), 0);
    }
}

/// A request must be rejected if the lengths in its header exceed the number of bytes that the
/// device may read or write.
#[test]
fn cve_2020_14374_data_against_what_is_there() {
    let case = cbc(&[3; 64]);
    for cut in 0..=24 + 48 + 16 + 63 {
        let status = patched(0, &case, 65, |request| request.truncate(cut));
        assert_eq!(status, Status::Err, "{cut} bytes");
    }
    for room in 1..65 {
        let status = patched(0, &case, room, |_| ());
        assert_eq!(status, Status::Err, "room for {room}");
    }
    // The device cannot answer if the request has no space for a status.
    let mut driver = Driver::new(0);
    let used = driver
        .guest
        .data(&mut driver.worker, &mut [0; 200], &mut []);
    assert_eq!(used, 0);
}

/// The bytes after the result are zeroed, so the guest does not receive their previous contents.
#[test]
fn cve_2020_14376_nothing_beside_the_result() {
    let mut driver = Driver::new(0);
    let case = cbc(&[3; 32]);
    let name = driver.create(case.create, &case.key, &[]).unwrap();
    let mut request = Vec::new();
    case.request(Mode::Session(name))
        .emit(driver.features, &mut request);
    for room in [33, 34, 100, 4096] {
        let mut answer = vec![0xa5; room];
        let used = driver
            .guest
            .data(&mut driver.worker, &mut request, &mut answer);
        assert_eq!((used, answer[room - 1]), (33, 0));
        assert!(answer[32..].iter().all(|&b| b == 0));
    }
    let mut answer = [0xa5; 64];
    assert_eq!(driver.guest.control(&request[..10], &mut answer), 16);
    assert!(answer[16..].iter().all(|&b| b == 0));
}

/// A request must be rejected if its source and destination have different lengths.
#[test]
fn cve_2023_3180_source_and_destination_differ() {
    let case = cbc(&[3; 64]);
    for dst_len in [0, 16, 63, 80, 4096, u32::MAX] {
        let status = patched(0, &case, 8192, put(8, dst_len));
        assert_eq!(status, Status::Err, "{dst_len}");
    }
}

/// The driver chooses the lengths in akcipher requests and keys. The device must reject lengths
/// that are too large.
#[test]
fn cve_2025_14876_akcipher_lengths() {
    let rsa = hex(include_str!("common/rsa512.hex"));
    let para = [akcipher::RAW_PADDING, 0];
    let make = |other| {
        Case::akcipher(
            Action::Encrypt,
            akcipher::RSA,
            true,
            para,
            &rsa,
            &[1; 64],
            other,
        )
    };
    let mut driver = Driver::new(0);
    if driver.run(&make(64)) == Err(Status::NotSupp) {
        eprintln!("skipped: no libcrypto 4 or 3 here: apt-get install libssl3");
        return;
    }
    drop(driver);
    for dst_len in [65, 1 << 20, u32::MAX] {
        assert_eq!(patched(0, &make(64), 65, put(4, dst_len)), Status::Err);
    }
    for src_len in [65, 1 << 20, u32::MAX] {
        assert_eq!(patched(0, &make(64), 65, put(0, src_len)), Status::Err);
    }
    let driver = Driver::new(0);
    let create = |key: &[u8], key_len| {
        let Create::Akcipher(a) = make(64).create else {
            unreachable!()
        };
        let create = Create::Akcipher(session::Akcipher { key_len, ..a });
        driver.create(create, key, &[])
    };
    assert_eq!(create(&rsa, u32::MAX), Err(Status::Err));
    assert_eq!(
        create(&[0x30; 5000], 5000),
        Err(Status::Err),
        "more than a key may have"
    );
    // Try the key truncated to every shorter length, and a modulus that exceeds the limit.
    for len in 0..rsa.len() {
        assert_eq!(
            create(&rsa[..len], len as u32),
            Err(Status::Err),
            "{len} bytes"
        );
    }
    let number = |bytes: &[u8]| {
        [
            &[2, 0x82, (bytes.len() >> 8) as u8, bytes.len() as u8],
            bytes,
        ]
        .concat()
    };
    let body = [
        &[2, 1, 0][..],
        &number(&[0x7f; 513]),
        &number(&[3]).repeat(7),
    ]
    .concat();
    let head = [0x30, 0x82, (body.len() >> 8) as u8, body.len() as u8];
    let huge = [&head[..], &body].concat();
    assert_eq!(
        create(&huge, huge.len() as u32),
        Err(Status::Err),
        "4104 bits"
    );
    assert_eq!(driver.guest.sessions(), 0);
}

/// A request must be rejected if its session was destroyed, is of another kind, or never existed.
#[test]
fn cve_2026_86845_stale_sessions_and_other_kinds() {
    for form in FORMS {
        let mut driver = Driver::new(form);
        let (cipher, gcm) = (cbc(&[3; 32]), aead_case());
        let a = driver.create(cipher.create, &cipher.key, &[]).unwrap();
        // Send requests of every other kind in the cipher's session, and the cipher's request in
        // another session.
        for case in [
            gcm.clone(),
            Case::hash(hash::SHA_256, 32, &[3; 32]),
            Case::mac(mac::HMAC_SHA_256, 32, &[1; 16], &[3; 32]),
            Case::akcipher(
                Action::Sign,
                akcipher::RSA,
                true,
                [1, 0],
                &[1],
                &[3; 32],
                64,
            ),
        ] {
            let request = case.request(Mode::Session(a));
            assert_eq!(driver.request(&request), Err(Status::InvSess));
            let status = driver.destroy(case.create.service(), a);
            assert_eq!(status, Status::Err, "destroyed as what it was not");
        }
        let b = driver.create(gcm.create, &gcm.key, &[]).unwrap();
        let request = cipher.request(Mode::Session(b));
        assert_eq!(driver.request(&request), Err(Status::InvSess));
        // Use the session in the opposite direction.
        let mut back = cipher.clone();
        back.action = Action::Decrypt;
        assert_eq!(
            driver.request(&back.request(Mode::Session(a))),
            Err(Status::Err)
        );
        // Destroy the session, and let another session reuse its slot.
        assert_eq!(driver.destroy(Service::Cipher, a), Status::Ok);
        assert_eq!(driver.destroy(Service::Cipher, a), Status::Err, "twice");
        let c = driver.create(cipher.create, &[9; 16], &[]).unwrap();
        for name in [a, 0, 1, u64::MAX, c ^ 1, c ^ 1 << 20, c ^ 1 << 63] {
            let request = cipher.request(Mode::Session(name));
            assert_eq!(driver.request(&request), Err(Status::InvSess), "{name:#x}");
        }
        assert!(driver.request(&cipher.request(Mode::Session(c))).is_ok());
    }
}

fn aead_case() -> Case {
    Case::aead(
        aead::GCM,
        OP_ENCRYPT,
        16,
        &[1; 16],
        &[2; 12],
        &[4; 8],
        &[3; 32],
    )
}

/// One guest's session IDs are invalid for another guest, and a reset removes all sessions.
#[test]
fn guests_do_not_share_sessions() {
    let case = cbc(&[3; 32]);
    let mut one = Driver::new(0);
    let other = Guest::new(Limits::default(), &Services::symmetric());
    other.negotiate(0);
    let name = one.create(case.create, &case.key, &[]).unwrap();
    let mut request = Vec::new();
    case.request(Mode::Session(name))
        .emit(one.features, &mut request);
    let mut answer = [0; 33];
    assert_eq!(other.data(&mut one.worker, &mut request, &mut answer), 1);
    assert_eq!(answer[32], Status::InvSess as u8);
    one.guest.reset();
    assert_eq!(one.guest.sessions(), 0);
    assert_eq!(one.bytes(&mut request, 33), Err(Status::InvSess));
}

/// When the session limit is reached, a request to create another session must fail, with NOSPC
/// under REVISION_1 and with ERR otherwise.
#[test]
fn sessions_are_counted() {
    for (form, full) in [(0, Status::Err), (1, Status::NoSpc)] {
        let limits = Limits {
            max_sessions: 3,
            ..Limits::default()
        };
        let driver = Driver::with(form, limits);
        let case = cbc(&[]);
        let create = || driver.create(case.create, &case.key, &[]);
        let names: Vec<u64> = (0..3).map(|_| create().unwrap()).collect();
        assert_eq!(create(), Err(full));
        assert_eq!(driver.destroy(Service::Cipher, names[1]), Status::Ok);
        assert!(create().is_ok());
        assert_eq!(driver.guest.sessions(), 3);
    }
}

/// If the answer does not fit, no session is created, because the driver would not learn the
/// session's ID.
#[test]
fn no_room_for_an_answer() {
    let driver = Driver::new(0);
    let case = cbc(&[]);
    let mut request = Vec::new();
    let create = Control::Create {
        create: case.create,
        key: &case.key,
        auth_key: &[],
    };
    create.emit(driver.features, &mut request);
    for room in 0..16 {
        let mut answer = vec![0; room];
        assert_eq!(driver.guest.control(&request, &mut answer), 0);
        assert_eq!(driver.guest.sessions(), 0);
    }
}

/// Requests are rejected if their format was not negotiated, or if their algorithm, direction or
/// sizes are not supported.
#[test]
fn refused() {
    let mut driver = Driver::new(1);
    let case = cbc(&[3; 32]);
    assert_eq!(
        driver.run_stateless(&case),
        Err(Status::NotSupp),
        "stateless"
    );
    for algo in [0, 1, 5, 14, 40, u32::MAX] {
        let other = Case::cipher(algo, OP_ENCRYPT, &[1; 16], &[2; 16], &[3; 32]);
        assert_eq!(driver.run(&other), Err(Status::NotSupp), "{algo}");
    }
    for op in [0, 3, u32::MAX] {
        let other = Case::cipher(cipher::AES_CBC, op, &[1; 16], &[2; 16], &[3; 32]);
        assert_eq!(driver.run(&other), Err(Status::Err), "{op}");
    }
    // Try partial blocks, wrong IV sizes, unsupported tag and digest sizes, and a ciphertext that
    // is shorter than its tag.
    assert_eq!(driver.run(&cbc(&[3; 31])), Err(Status::Err));
    let iv = Case::cipher(cipher::AES_CBC, OP_ENCRYPT, &[1; 16], &[2; 15], &[3; 32]);
    assert_eq!(driver.run(&iv), Err(Status::Err));
    let xts = Case::cipher(
        cipher::AES_XTS,
        OP_ENCRYPT,
        &bytes(1, 64),
        &[2; 16],
        &[3; 15],
    );
    assert_eq!(driver.run(&xts), Err(Status::Err));
    for tag in [0, 3, 17] {
        let gcm = Case::aead(
            aead::GCM,
            OP_ENCRYPT,
            tag,
            &[1; 16],
            &[2; 12],
            &[],
            &[3; 32],
        );
        assert_eq!(driver.run(&gcm), Err(Status::Err), "{tag}");
    }
    let short = Case::aead(aead::GCM, OP_DECRYPT, 16, &[1; 16], &[2; 12], &[], &[3; 15]);
    assert_eq!(driver.run(&short), Err(Status::Err), "shorter than its tag");
    assert_eq!(
        driver.run(&Case::hash(hash::SHA1, 21, &[])),
        Err(Status::Err)
    );
    assert_eq!(
        driver.run(&Case::hash(hash::SHA1, 0, &[])),
        Err(Status::Err)
    );
    for iv in [0, 11, 13, 16] {
        let gcm = Case::aead(
            aead::GCM,
            OP_ENCRYPT,
            16,
            &[1; 16],
            &bytes(3, iv),
            &[],
            &[3; 32],
        );
        let want = if iv == 16 {
            Status::NotSupp
        } else {
            Status::Err
        };
        assert_eq!(driver.run(&gcm), Err(want), "{iv}");
    }
    // CCM with a two-byte length field allows at most 64 KiB minus one byte.
    for (len, fits) in [(65535, true), (65536, false)] {
        let ccm = Case::aead(
            aead::CCM,
            OP_ENCRYPT,
            8,
            &[1; 16],
            &[2; 13],
            &[],
            &bytes(4, len),
        );
        assert_eq!(driver.run(&ccm).is_ok(), fits, "{len}");
    }
    assert_eq!(driver.guest.sessions(), 0);
}

/// `max_request` limits the total length of the IV, the source and the associated data.
#[test]
fn requests_are_limited() {
    let limits = Limits {
        max_request: 1024,
        ..Limits::default()
    };
    let mut driver = Driver::with(0, limits);
    assert!(driver.run(&cbc(&[3; 1024 - 16])).is_ok());
    assert_eq!(driver.run(&cbc(&[3; 1024])), Err(Status::Err));
    let aad = Case::aead(
        aead::GCM,
        OP_ENCRYPT,
        16,
        &[1; 16],
        &[2; 12],
        &[4; 1000],
        &[3; 32],
    );
    assert_eq!(driver.run(&aad), Err(Status::Err));
}
