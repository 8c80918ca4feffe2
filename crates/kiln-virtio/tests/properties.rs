//! Sends malformed variants of every request in all formats. Some variants are truncated, some have
//! one word of the header replaced, and some have one random bit flipped. The device must answer
//! each variant with a status, and must report an error if the request is truncated. Other tests
//! check that emitting and parsing a request returns the same request.

mod common;

use common::{bytes, Case, Driver, FORMS};
use kiln_measure::SplitMix64;
use kiln_virtio::wire::algo::{aead, cipher, hash, mac, CIPHER_THEN_HASH, OP_DECRYPT, OP_ENCRYPT};
use kiln_virtio::wire::data::Mode;
use kiln_virtio::wire::{Control, Features, Request};

fn cases() -> Vec<Case> {
    let (key, iv, src) = (bytes(1, 64), bytes(2, 16), bytes(3, 96));
    let cbc = Case::cipher(cipher::AES_CBC, OP_ENCRYPT, &key[..16], &iv, &src);
    let hmac = Case::mac(mac::HMAC_SHA_256, 16, &key[..20], &src);
    let chain = Case::chain(CIPHER_THEN_HASH, &cbc, &hmac, 16..80, 0..96, &bytes(4, 9));
    vec![
        cbc,
        Case::cipher(cipher::AES_XTS, OP_DECRYPT, &key, &iv, &src[..33]),
        chain,
        Case::hash(hash::SHA_512, 64, &src),
        hmac,
        Case::aead(
            aead::CCM,
            OP_ENCRYPT,
            8,
            &key[..24],
            &iv[..9],
            &src[..5],
            &src,
        ),
    ]
}

#[test]
fn broken_in_every_place() {
    let mut random = SplitMix64(1);
    for form in FORMS {
        let mut driver = Driver::new(form);
        for case in cases() {
            let stateless = driver.features.stateless(case.op.service());
            let name = driver
                .create(case.create, &case.key, &case.auth_key)
                .unwrap();
            let mut modes = vec![Mode::Session(name)];
            if stateless {
                modes.push(Mode::Stateless {
                    create: case.create,
                    key: &case.key,
                    auth_key: &case.auth_key,
                });
            }
            for mode in modes {
                let request = case.request(mode);
                let (room, mut whole) = (request.answer_len(), Vec::new());
                request.emit(driver.features, &mut whole);
                let right = driver.bytes(&mut whole.clone(), room).unwrap();
                for cut in 0..whole.len() {
                    assert!(driver.bytes(&mut whole[..cut].to_vec(), room).is_err());
                }
                for at in (0..whole.len().min(24 + 76)).step_by(4) {
                    for word in [0, 1, 15, 17, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
                        let mut broken = whole.clone();
                        let end = broken.len().min(at + 4);
                        broken[at..end].copy_from_slice(&u32::to_le_bytes(word)[..end - at]);
                        let _ = driver.bytes(&mut broken, room);
                    }
                    let mut broken = whole.clone();
                    broken[at + random.below(4) % (whole.len() - at)] ^= 1 << random.below(8);
                    let _ = driver.bytes(&mut broken, random.below(200) + 1);
                }
                assert_eq!(driver.bytes(&mut whole, room), Ok(right));
            }
        }
    }
}

#[test]
fn there_and_back() {
    let mut random = SplitMix64(2);
    for form in FORMS.map(Features::new) {
        for case in cases() {
            let mut bytes = Vec::new();
            let control = Control::Create {
                create: case.create,
                key: &case.key,
                auth_key: &case.auth_key,
            };
            control.emit(form, &mut bytes);
            assert_eq!(Control::parse(&bytes, form), Ok(control));
            for cut in 0..bytes.len() {
                assert!(Control::parse(&bytes[..cut], form).is_err());
            }
            let destroy = Control::Destroy {
                service: case.create.service(),
                session: random.below(1 << 48) as u64,
            };
            bytes.clear();
            destroy.emit(form, &mut bytes);
            assert_eq!(Control::parse(&bytes, form), Ok(destroy));
            bytes.clear();
            let request = case.request(Mode::Session(random.below(1 << 48) as u64));
            request.emit(form, &mut bytes);
            // Extra bytes must be harmless, because Linux makes whole scatterlists readable.
            bytes.extend_from_slice(&[7; 9]);
            assert_eq!(Request::parse(&bytes, form), Ok(request));
        }
    }
}

/// Fixed parts have the sizes of the specification's structures.
#[test]
fn sizes() {
    let sizes = |form| -> Vec<(usize, usize)> {
        let form = Features::new(form);
        let of = |case: Case| {
            let (mut control, mut data) = (Vec::new(), Vec::new());
            let create = Control::Create {
                create: case.create,
                key: &[],
                auth_key: &[],
            };
            create.emit(form, &mut control);
            let mode = Mode::Session(1);
            let request = Request {
                iv: &[],
                src: &[],
                aad: &[],
                ..case.request(mode)
            };
            request.emit(form, &mut data);
            (control.len() - 16, data.len() - 24)
        };
        cases().into_iter().map(of).collect()
    };
    assert_eq!(sizes(0), [(56, 48); 6]);
    let new = [(56, 48), (56, 48), (56, 48), (8, 8), (16, 8), (24, 24)];
    assert_eq!(sizes(1), new);
    let stateless = [(56, 76), (56, 76), (56, 76), (8, 16), (16, 16), (24, 32)];
    assert_eq!(sizes(0x3f), stateless);
}
