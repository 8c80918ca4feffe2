//! Creates a valid session of each service and sends requests to it, with some bytes changed.

#[path = "../../crates/kiln-virtio/tests/common/mod.rs"]
mod common;

use std::cell::RefCell;

use common::{bytes, hex, Case, Driver, FORMS};
use kiln_virtio::wire::algo::{
    aead, akcipher, cipher, hash, mac, HASH_THEN_CIPHER, OP_DECRYPT, OP_ENCRYPT,
};
use kiln_virtio::wire::data::Mode;
use kiln_virtio::wire::{Action, Control, Features};

thread_local! {
    static DRIVER: RefCell<(Driver, Vec<Case>)> = RefCell::new((Driver::new(0), cases()));
}

fn cases() -> Vec<Case> {
    let (key, iv, src) = (bytes(1, 64), bytes(2, 16), bytes(3, 96));
    let cbc = Case::cipher(cipher::AES_CBC, OP_ENCRYPT, &key[..16], &iv, &src);
    let hmac = Case::mac(mac::HMAC_SHA_256, 16, &key[..20], &src);
    let chain = Case::chain(HASH_THEN_CIPHER, &cbc, &hmac, 16..80, 0..96, &bytes(4, 9));
    let rsa = hex(include_str!(
        "../../crates/kiln-virtio/tests/common/rsa512.hex"
    ));
    let ec = [&hex("3025 020101 0420")[..], &key[..32]].concat();
    let pkcs1 = [akcipher::PKCS1_PADDING, akcipher::RSA_SHA256];
    let (sign, digest) = (Action::Sign, &src[..32]);
    vec![
        cbc,
        chain,
        hmac,
        Case::cipher(cipher::AES_ECB, OP_DECRYPT, &key[..24], &[], &src),
        Case::cipher(cipher::AES_CTR, OP_ENCRYPT, &key[..32], &iv, &src),
        Case::cipher(cipher::AES_XTS, OP_DECRYPT, &key, &iv, &src[..33]),
        Case::hash(hash::SHA_512, 64, &src),
        Case::mac(mac::CMAC_AES, 16, &key[..16], &src),
        Case::aead(
            aead::GCM,
            OP_DECRYPT,
            16,
            &key[..32],
            &iv[..12],
            &src[..5],
            &src,
        ),
        Case::aead(
            aead::CCM,
            OP_ENCRYPT,
            8,
            &key[..24],
            &iv[..9],
            &src[..5],
            &src,
        ),
        Case::aead(
            aead::CHACHA20_POLY1305,
            OP_ENCRYPT,
            16,
            &key[..32],
            &iv[..12],
            &[],
            &src,
        ),
        Case::akcipher(
            Action::Decrypt,
            akcipher::RSA,
            true,
            [0, 0],
            &rsa,
            &src[..64],
            64,
        ),
        Case::akcipher(sign, akcipher::RSA, true, pkcs1, &rsa, digest, 64),
        Case::akcipher(
            sign,
            akcipher::ECDSA,
            true,
            [akcipher::P256, 0],
            &ec,
            digest,
            72,
        ),
    ]
}

/// Applies changes to `bytes`. Each change consists of a position and a value that is XORed into
/// the byte at that position.
fn change(bytes: &mut [u8], changes: &[u8]) {
    for change in changes.chunks_exact(2) {
        if let Some(byte) = bytes.get_mut(usize::from(change[0])) {
            *byte ^= change[1];
        }
    }
}

/// Runs one input. Returns whether it gets a result with status ok.
pub(crate) fn run(input: &[u8]) -> bool {
    let [which, form, room, of_control, rest @ ..] = input else {
        return false;
    };
    let (of_control, of_data) = rest.split_at(rest.len().min(usize::from(*of_control)));
    DRIVER.with_borrow_mut(|(driver, cases)| {
        let case = &cases[usize::from(*which) % cases.len()];
        driver.guest.reset();
        driver.features = Features::new(FORMS[usize::from(*form) % 3]);
        driver.guest.negotiate(driver.features.bits());
        let create = Control::Create {
            create: case.create,
            key: &case.key,
            auth_key: &case.auth_key,
        };
        let (mut control, mut request) = (Vec::new(), Vec::new());
        create.emit(driver.features, &mut control);
        change(&mut control, of_control);
        let mut answer = [0; 16];
        // The changes may have produced a destroy request, whose answer is one byte long.
        let used = driver.guest.control(&control, &mut answer);
        assert!(used == 16 || used == 1);
        let name = u64::from_le_bytes(answer[..8].try_into().expect("eight bytes"));
        let stateless = driver.features.stateless(case.op.service()) && form & 4 != 0;
        let mode = match stateless {
            true => Mode::Stateless {
                create: case.create,
                key: &case.key,
                auth_key: &case.auth_key,
            },
            false => Mode::Session(name),
        };
        let whole = case.request(mode);
        whole.emit(driver.features, &mut request);
        change(&mut request, of_data);
        let room = match room {
            0 => whole.answer_len(),
            n => usize::from(*n),
        };
        // bytes() checks that the answer has a status, has a result only on success, and contains
        // no bytes from an earlier answer.
        driver.bytes(&mut request, room).is_ok()
    })
}
