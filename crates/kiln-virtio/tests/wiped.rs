//! Tests that keys are wiped from memory before the memory is freed.

mod common;
mod looking;

use common::{hex, Case, Driver};
use kiln_virtio::wire::algo::{aead, akcipher, cipher, mac, OP_ENCRYPT};
use kiln_virtio::wire::data::Mode;
use kiln_virtio::wire::{Action, Control, Status};
use looking::{found, MARK};

#[test]
fn keys_do_not_outlive_their_sessions() {
    // Control: the key must be found in memory that is not wiped.
    assert_eq!(found(|| drop(MARK.to_vec())), 1);

    let key = [&MARK[..], &MARK, &MARK, &MARK].concat();
    let mut cases = vec![
        Case::cipher(cipher::AES_CBC, OP_ENCRYPT, &key[..32], &[2; 16], &[3; 64]),
        Case::cipher(cipher::AES_XTS, OP_ENCRYPT, &key, &[2; 16], &[3; 64]),
        Case::mac(mac::CMAC_AES, 16, &key[..32], &[3; 64]),
        Case::mac(mac::HMAC_SHA_256, 32, &key, &[3; 64]),
        Case::aead(
            aead::GCM,
            OP_ENCRYPT,
            16,
            &key[..32],
            &[2; 12],
            &[4; 8],
            &[3; 64],
        ),
        Case::aead(
            aead::CHACHA20_POLY1305,
            OP_ENCRYPT,
            16,
            &key[..32],
            &[2; 12],
            &[],
            &[3; 64],
        ),
    ];
    // An ECPrivateKey structure whose privateKey field is the marked key.
    let ec = [&hex("3025 020101 0420")[..], &key[..32]].concat();
    let sign = Case::akcipher(
        Action::Sign,
        akcipher::ECDSA,
        true,
        [3, 0],
        &ec,
        &[3; 32],
        72,
    );
    cases.push(sign);
    let mut driver = Driver::new(0x3f);
    for case in &cases {
        let create = Control::Create {
            create: case.create,
            key: &case.key,
            auth_key: &case.auth_key,
        };
        let (mut control, mut data, mut answer) = (Vec::new(), Vec::new(), vec![0; 200]);
        create.emit(driver.features, &mut control);
        let mode = Mode::Stateless {
            create: case.create,
            key: &case.key,
            auth_key: &case.auth_key,
        };
        case.request(mode).emit(driver.features, &mut data);
        // The driver's own buffers stay allocated, so the keys in them are not counted.
        let found = found(|| {
            for _ in 0..2 {
                driver.guest.control(&control, &mut answer);
                if answer[8] == Status::NotSupp as u8 {
                    eprintln!("skipped: no libcrypto 4 or 3 here: apt-get install libssl3");
                    return;
                }
                assert_eq!((answer[8], driver.guest.sessions()), (0, 1));
                driver.guest.reset();
                driver
                    .guest
                    .data(&mut driver.worker, &mut data, &mut answer);
                assert_eq!(answer[199], 0, "{:?}", case.create);
            }
        });
        assert_eq!(found, 0, "{:?}", case.create);
    }
}
