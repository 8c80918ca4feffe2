//! Tests templates that wrap instances of other templates. An instance must keep the instances that
//! it wraps alive.

use kiln_kernel::cipher::{Op, BLOCK};
use kiln_kernel::crypto::{self, Aead, Errno, Model};
use kiln_kernel::fpu::Context;

use crate::aead::{ask_in_place, key_for, open_keyed, AUTHENC, SEQIV};
use crate::machine::{boot, run_alone};

/// Nested template names, each with the algorithm that determines its keys and messages.
const NESTED: [(&str, &str); 7] = [
    ("cryptd(seqiv(rfc4106(gcm(aes))))", SEQIV),
    ("seqiv(cryptd(rfc4106(gcm(aes))))", SEQIV),
    ("cryptd(seqiv(rfc4106-gcm-aes-fixed-time))", SEQIV),
    ("authenc(hmac(sha256),cryptd(cbc(aes)))", AUTHENC),
    ("authenc(hmac(sha256),cryptd(cbc-aes-fixed-time))", AUTHENC),
    ("cryptd(authenc(hmac(sha256),cbc(aes)))", AUTHENC),
    ("cryptd(authenc(hmac(sha256),cbc-aes-fixed-time))", AUTHENC),
];

/// Seals a message with one transform and opens it with another. Returns the results of both
/// requests.
fn pass(from: &mut Aead, to: &mut Aead, alg: &str) -> [Errno; 2] {
    let (assoc, text, tag) = match alg {
        SEQIV => (8, 8 + 64, 16),
        _ => (24, 64, 32),
    };
    let mut bytes: Vec<u8> = (0..=255).collect();
    let (iv, task) = ([5; BLOCK], Context::Task);
    let sealed = ask_in_place(from, Op::Encrypt, iv, assoc, text, &mut bytes, task);
    let opened = ask_in_place(to, Op::Decrypt, iv, assoc, text + tag, &mut bytes, task);
    let same = (0..=255).eq(bytes.iter().copied());
    let iv = if alg == SEQIV { assoc..assoc + 8 } else { 0..0 };
    let text_same = (0..assoc + text).all(|i| iv.contains(&i) || bytes[i] == i as u8);
    assert!(
        !same && text_same,
        "{alg}: the opened text is the sealed text"
    );
    [sealed, opened]
}

#[test]
fn instances_of_instances_can_be_made() {
    run_alone(|_| {
        let _cpu = boot();
        for model in [Model::Helper, Model::Direct] {
            model.set();
            for (name, alg) in NESTED {
                let before = crypto::memory_in_use();
                let mut plain = open_keyed(alg, alg);
                let mut nested = match Aead::open(name, 0, 0) {
                    Ok(tfm) => tfm,
                    // Accept this error, because cryptd cannot wrap an asynchronous algorithm.
                    Err(e) => {
                        let over_async = model == Model::Helper && name.starts_with("cryptd");
                        assert!(over_async && e == Errno::NOT_THERE, "{name}: {e}");
                        continue;
                    }
                };
                assert!(nested.is_async(), "{name}");
                nested
                    .set_key(&key_for(alg, &[7; 256]))
                    .expect("a right key");
                assert_eq!(pass(&mut plain, &mut nested, alg), [Errno(0); 2], "{name}");
                assert_eq!(pass(&mut nested, &mut plain, alg), [Errno(0); 2], "{name}");
                drop((plain, nested));
                assert_eq!(
                    crypto::memory_in_use(),
                    before,
                    "{name}: all memory was freed"
                );
            }
            let twice = Aead::open("seqiv(seqiv(rfc4106(gcm(aes))))", 0, 0);
            assert!(twice.is_ok(), "{:?}", twice.err());
        }
    });
}
