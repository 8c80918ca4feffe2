//! Templates over instances of templates: an instance keeps what it is made of.

use kiln_kernel::cipher::{Op, BLOCK};
use kiln_kernel::crypto::{self, Aead, Errno, Model};
use kiln_kernel::fpu::Context;

use crate::aead::{key_for, AUTHENC, SEQIV};
use crate::machine::{alone, boot};

/// Names, and whose key and messages they take.
const NESTED: [(&str, &str); 7] = [
    ("cryptd(seqiv(rfc4106(gcm(aes))))", SEQIV),
    ("seqiv(cryptd(rfc4106(gcm(aes))))", SEQIV),
    ("cryptd(seqiv(rfc4106-gcm-aes-fixed-time))", SEQIV),
    ("authenc(hmac(sha256),cryptd(cbc(aes)))", AUTHENC),
    ("authenc(hmac(sha256),cryptd(cbc-aes-fixed-time))", AUTHENC),
    ("cryptd(authenc(hmac(sha256),cbc(aes)))", AUTHENC),
    ("cryptd(authenc(hmac(sha256),cbc-aes-fixed-time))", AUTHENC),
];

/// Seal with one transform and open with another; what the calls came to.
fn pass(from: &mut Aead, to: &mut Aead, alg: &str) -> [Errno; 2] {
    let (assoc, text, tag) = match alg {
        SEQIV => (8, 8 + 64, 16),
        _ => (24, 64, 32),
    };
    let mut bytes: Vec<u8> = (0..=255).collect();
    let len = bytes.len();
    let list = [(bytes.as_mut_ptr(), len)];
    let ask = |tfm: &mut Aead, op, len| {
        // SAFETY: the piece is the vector.
        unsafe { tfm.request(op, &mut [5; BLOCK], assoc, len, &list, &list, Context::Task) }.1
    };
    let sealed = ask(from, Op::Encrypt, text);
    let opened = ask(to, Op::Decrypt, text + tag);
    let same = (0..len).all(|i| bytes[i] == i as u8);
    let iv = if alg == SEQIV { assoc..assoc + 8 } else { 0..0 };
    let text_same = (0..assoc + text).all(|i| iv.contains(&i) || bytes[i] == i as u8);
    assert!(
        !same && text_same,
        "{alg}: what was sealed is what was opened"
    );
    [sealed, opened]
}

#[test]
fn instances_of_instances_can_be_made() {
    alone("templates::instances_of_instances_can_be_made", |_| {
        let _cpu = boot();
        for model in [Model::Helper, Model::Direct] {
            model.set();
            for (name, alg) in NESTED {
                let before = crypto::memory_in_use();
                let mut plain = Aead::open(alg, 0, 0).expect("it is there");
                let mut nested = match Aead::open(name, 0, 0) {
                    Ok(tfm) => tfm,
                    // cryptd is never made of something asynchronous.
                    Err(e) => {
                        assert!(
                            model == Model::Helper && name.starts_with("cryptd"),
                            "{name}"
                        );
                        assert_eq!(e, Errno::NOT_THERE, "{name}");
                        continue;
                    }
                };
                assert!(nested.is_async(), "{name}");
                for tfm in [&mut plain, &mut nested] {
                    tfm.set_key(&key_for(alg, &[7; 256])).expect("a right key");
                }
                assert_eq!(pass(&mut plain, &mut nested, alg), [Errno(0); 2], "{name}");
                assert_eq!(pass(&mut nested, &mut plain, alg), [Errno(0); 2], "{name}");
                drop((plain, nested));
                assert_eq!(crypto::memory_in_use(), before, "{name}: all is given back");
            }
            let twice = Aead::open("seqiv(seqiv(rfc4106(gcm(aes))))", 0, 0);
            assert!(twice.is_ok(), "{:?}", twice.err());
        }
    });
}
