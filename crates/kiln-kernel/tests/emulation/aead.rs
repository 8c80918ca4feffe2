//! Requests to all AEADs and skciphers must give the same results as the reference implementation,
//! regardless of how their memory is divided, in which context they are made, and what interrupts
//! them.

use kiln_kernel::cipher::{Context as KeyContext, Impl, Kind, Op, BLOCK};
use kiln_kernel::crypto::{authenc_key, Aead, Errno, Model, Skcipher, ASYNC, INTERNAL};
use kiln_kernel::fpu::Context;
use kiln_kernel::Tier;

use crate::machine::{boot, run_alone};
use crate::requests::{ask_under_every_policy, check_cipher, Draw, Memory};

/// Total number of requests. They are divided equally among all correct policies, each of which is
/// tested with and without full preemption.
const REQUESTS: u64 = 120_000;

pub(crate) const RFC4106: &str = "rfc4106(gcm(aes))";
pub(crate) const SEQIV: &str = "seqiv(rfc4106(gcm(aes)))";
pub(crate) const AUTHENC: &str = "authenc(hmac(sha256),cbc(aes))";

/// Returns the reference implementation of an algorithm, which is the first in the algorithm's list
/// of implementations. Direct calls to it use neither SIMD nor the request code.
pub(crate) fn oracle(alg: &str) -> Impl {
    Impl::find_all(alg)[0]
}

/// Encrypts or hashes a message with the reference implementation. Returns the output text, and the
/// tag or digest.
pub(crate) fn seal(
    alg: &str,
    key: &[u8],
    iv: &[u8],
    aad: &[u8],
    text: &[u8],
    tag_size: usize,
) -> (Vec<u8>, Vec<u8>) {
    let imp = oracle(alg);
    let ctx = KeyContext::new(imp, key).expect("a length it takes");
    let size = match imp.kind() {
        Kind::Hash => imp.digest_size(),
        _ => tag_size,
    };
    let mut tag = vec![0; size];
    let sealed = imp.once(Op::Encrypt, &ctx, iv, aad, text, &mut tag);
    (sealed.expect("right lengths").unwrap_or_default(), tag)
}

/// A transform under test.
enum Subject {
    /// An skcipher, with its reference implementation and expanded key.
    Cipher(Skcipher, Impl, KeyContext),
    /// An AEAD, with its algorithm, key and tag size.
    Aead(Aead, String, Vec<u8>, usize),
}

/// Builds a key for `alg` from random bytes.
pub(crate) fn key_for(alg: &str, bytes: &[u8]) -> Vec<u8> {
    match alg {
        SEQIV => bytes[..36].to_vec(),
        AUTHENC => authenc_key(&bytes[..32], &bytes[32..64]),
        _ => {
            let sizes = oracle(alg).key_sizes();
            bytes[..*sizes.last().expect("it has a key")].to_vec()
        }
    }
}

/// Opens the transform `name` and sets a key that is suitable for `alg`.
pub(crate) fn open_keyed(name: &str, alg: &str) -> Aead {
    let mut tfm = Aead::open(name, 0, 0).expect(name);
    tfm.set_key(&key_for(alg, &[7; 256])).expect("a right key");
    tfm
}

/// Makes an in-place request over all of `bytes` and returns the request's result.
pub(crate) fn ask_in_place(
    tfm: &mut Aead,
    op: Op,
    mut iv: [u8; BLOCK],
    assoc: usize,
    len: usize,
    bytes: &mut [u8],
    context: Context,
) -> Errno {
    let list = [(bytes.as_mut_ptr(), bytes.len())];
    // SAFETY: the only piece is exactly the slice, which is borrowed exclusively.
    unsafe { tfm.request(op, &mut iv, assoc, len, &list, &list, context) }.1
}

/// Returns pairs of an algorithm and the name of a transform that implements it.
fn names() -> Vec<(&'static str, String)> {
    let mut names = vec![];
    let all = Impl::all().into_iter();
    for imp in all.filter(|i| i.kind() != Kind::Hash && i.alg() != "xts(aes)") {
        let (alg, driver) = (imp.alg(), imp.driver());
        names.push((alg, driver.to_string()));
        names.push((alg, format!("__{driver}")));
        names.push((alg, format!("cryptd(__{driver})")));
        match alg {
            RFC4106 => names.push((SEQIV, format!("seqiv({driver})"))),
            "cbc(aes)" => names.push((AUTHENC, format!("authenc(hmac(sha256),{driver})"))),
            _ => {}
        }
    }
    names
}

/// Opens all transforms that are available under the current model.
fn subjects(draw: &mut Draw) -> Vec<Subject> {
    let mut all = Vec::new();
    for (alg, name) in names() {
        let kind = if name.contains("__") { INTERNAL } else { 0 };
        let key = key_for(alg, &draw.bytes(256));
        if alg == SEQIV || alg == AUTHENC || oracle(alg).kind() == Kind::Aead {
            let Ok(mut tfm) = Aead::open(&name, kind, INTERNAL) else {
                continue;
            };
            tfm.set_key(&key).expect("a right key");
            let tag = match alg {
                AUTHENC => draw.pick(&[12, 16, 32]),
                SEQIV => draw.pick(&[8, 12, 16]),
                _ => draw.pick(&oracle(alg).tag_sizes()),
            };
            tfm.set_tag_size(tag).expect("one it takes");
            all.push(Subject::Aead(tfm, alg.into(), key, tag));
        } else if let Ok(mut tfm) = Skcipher::open(&name, kind, INTERNAL) {
            tfm.set_key(&key).expect("a right key");
            let context = KeyContext::new(oracle(alg), &key).expect("a right key");
            all.push(Subject::Cipher(tfm, oracle(alg), context));
        }
    }
    all
}

/// Uses the reference implementation to compute the expected packet: associated data, ciphertext
/// and tag.
fn packet(alg: &str, key: &[u8], iv: &[u8; BLOCK], aad: &[u8], text: &[u8], tag: usize) -> Vec<u8> {
    let (out, icv) = match alg {
        AUTHENC => {
            let (out, _) = seal("cbc(aes)", &key[40..], iv, &[], text, 0);
            let whole = [aad, &out].concat();
            let (_, icv) = seal("hmac(sha256)", &key[8..40], &[], &[], &whole, 0);
            (out, icv[..tag].to_vec())
        }
        SEQIV => {
            // Skip the first eight bytes of the text, which are reserved for the IV.
            let (out, icv) = seal(RFC4106, key, &iv[..8], aad, &text[8..], tag);
            ([&iv[..8], &out].concat(), icv)
        }
        RFC4106 => seal(alg, key, iv, &aad[..aad.len() - 8], text, tag),
        _ => seal(alg, key, iv, aad, text, tag),
    };
    [aad, &out, &icv].concat()
}

/// Seals a packet, corrupts it in some cases, and opens it. Returns whether a request completed
/// asynchronously.
fn check_aead(
    draw: &mut Draw,
    memory: &mut Memory,
    tfm: &mut Aead,
    (alg, key, tag): (&str, &[u8], usize),
) -> Result<bool, String> {
    let mut iv = draw.iv();
    let assoc = match alg {
        RFC4106 => draw.pick(&[16, 20]),
        SEQIV => draw.pick(&[8, 12]),
        _ => draw.pick(&[0, 8, 13, 16, 20, 300]),
    };
    let len = match alg {
        AUTHENC => draw.len().next_multiple_of(16),
        SEQIV => draw.len(),
        _ => draw.len() - draw.below(BLOCK + 1),
    };
    if alg == "ccm(aes)" {
        iv[0] = 2 + iv[0] % 6;
    }
    let (aad, mut text) = (draw.bytes(assoc), draw.bytes(len));
    let plain = [&aad[..], &text].concat();
    let mut used = iv;
    let whole = assoc + len + tag;
    let (got, result, sealed_later) = memory.pass(draw, &plain, whole, |src, dst, context| {
        // SAFETY: the pieces are inside the buffers and do not overlap.
        unsafe { tfm.request(Op::Encrypt, &mut used, assoc, len, src, dst, context) }
    })?;
    if result != Errno(0) {
        return Err(format!("sealing {assoc} + {len} bytes: {result}"));
    }
    let mut from = assoc;
    if alg == SEQIV {
        iv = used;
        text[..8].copy_from_slice(&iv[..8]);
        from += 8;
    }
    let mut sealed = packet(alg, key, &iv, &aad, &text, tag);
    // Do not compare the associated data. If source and destination differ, some drivers copy it
    // and some do not, as in Linux.
    if got[assoc..] != sealed[assoc..] {
        return Err(format!(
            "sealing {assoc} + {len} bytes, tag {tag}: wrong bytes"
        ));
    }

    let spoilt = draw.below(3) == 0;
    if spoilt {
        sealed[assoc + draw.below(len + tag)] ^= 1 << draw.below(8);
    }
    let text_len = assoc + len;
    let (got, result, opened_later) =
        memory.pass(draw, &sealed, text_len, |src, dst, context| {
            // SAFETY: the pieces are inside the buffers and do not overlap.
            unsafe { tfm.request(Op::Decrypt, &mut iv, assoc, len + tag, src, dst, context) }
        })?;
    let text = &text[from - assoc..];
    match (spoilt, result, got[from..] == *text) {
        (false, Errno(0), true) => {}
        (false, Errno(0), false) => {
            return Err(format!("opening {assoc} + {len} bytes: wrong bytes"));
        }
        (true, Errno::BAD_MESSAGE, true) if text.len() >= 16 => {
            return Err("a wrong packet's text was given out".into());
        }
        (true, Errno::BAD_MESSAGE, _) => {}
        (_, e, _) => {
            return Err(format!(
                "opening {assoc} + {len} bytes, spoilt {spoilt}: {e}"
            ));
        }
    }
    Ok(sealed_later || opened_later)
}

#[test]
fn requests_agree_with_the_implementations() {
    run_alone(|seed| {
        let open = |_, draw: &mut Draw| subjects(draw);
        ask_under_every_policy(seed, REQUESTS, open, |subject, draw, memory| {
            let (driver, answer) = match subject {
                Subject::Cipher(tfm, oracle, key) => {
                    let answer = check_cipher(draw, memory, tfm, *oracle, key);
                    (tfm.driver(), answer)
                }
                Subject::Aead(tfm, alg, key, tag) => {
                    let answer = check_aead(draw, memory, tfm, (alg, key, *tag));
                    (tfm.driver(), answer)
                }
            };
            answer.map_err(|why| format!("{driver}: {why}"))
        });
    });
}

#[test]
fn aeads_and_templates_are_found_as_linux_has_them() {
    run_alone(|_| {
        let _cpu = boot();
        let best = |alg| Impl::best(alg).expect("generic is there");
        Model::Helper.set();
        let chacha = "rfc7539(chacha20,poly1305)";
        for alg in ["gcm(aes)", RFC4106, "ccm(aes)", chacha] {
            let tfm = Aead::open(alg, 0, 0).unwrap();
            assert_eq!(tfm.driver(), best(alg).driver());
            assert_eq!(tfm.is_async(), best(alg).tier() != Tier::Generic);
            assert_eq!(tfm.priority(), best(alg).priority() as i32);
            let sync = Aead::open(alg, 0, ASYNC).unwrap();
            assert!(!sync.is_async());
            assert!(
                Skcipher::open(alg, 0, 0).is_err(),
                "{alg} is not a skcipher"
            );
        }
        let (gcm, mac, cbc) = (best(RFC4106), best("hmac(sha256)"), best("cbc(aes)"));
        let seqiv = Aead::open(SEQIV, 0, 0).unwrap();
        let with_seqiv = format!("seqiv({gcm:?})");
        assert_eq!(seqiv.driver(), with_seqiv);
        assert_eq!(seqiv.is_async(), gcm.tier() != Tier::Generic);
        let authenc = Aead::open(AUTHENC, 0, 0).unwrap();
        assert_eq!(authenc.driver(), format!("authenc({mac:?},{cbc:?})"));
        let priority = 10 * cbc.priority() + mac.priority();
        assert_eq!(authenc.priority(), priority as i32);
        drop((seqiv, authenc));
        assert!(!Aead::open(SEQIV, 0, ASYNC).unwrap().is_async());
        for name in [
            "seqiv(gcm(aes))",
            "seqiv(ctr(aes))",
            "seqiv()",
            "seqiv(rfc4106(gcm(aes))",
            "seqiv(rfc4106(gcm(aes)))x",
            "authenc(hmac(sha256))",
            "authenc(hmac(sha256),cbc(aes),cbc(aes))",
            "authenc(cbc(aes),hmac(sha256))",
            "cryptd(sha256)",
        ] {
            let e = Aead::open(name, 0, 0).err().expect(name);
            assert!(e == Errno::NOT_THERE || e == Errno::INVALID, "{name}: {e}");
        }
        Model::Direct.set();
        let direct = Aead::open(SEQIV, 0, ASYNC).unwrap();
        assert_eq!(direct.driver(), with_seqiv);
        assert!(!direct.is_async());
    });
}

#[test]
fn bad_aead_requests_are_refused() {
    run_alone(|_| {
        let cpu = boot();
        for model in [Model::Helper, Model::Direct] {
            model.set();
            for (alg, assoc, len) in [("gcm(aes)", 8, 32), (SEQIV, 8, 40), (AUTHENC, 24, 32)] {
                let mut tfm = Aead::open(alg, 0, 0).unwrap();
                let mut bytes = [0u8; 512];
                let mut ask = |tfm: &mut Aead, op, len, have, context| {
                    // Change the data so that opening fails.
                    bytes[0] += u8::from(op == Op::Decrypt);
                    ask_in_place(tfm, op, [0; BLOCK], assoc, len, &mut bytes[..have], context)
                };
                let (task, seal, open) = (Context::Task, Op::Encrypt, Op::Decrypt);
                assert_eq!(ask(&mut tfm, seal, len, 512, task), Errno::NO_KEY);
                assert_eq!(tfm.set_key(&[1; 5]), Err(Errno::INVALID));
                assert_eq!(tfm.set_tag_size(0), Err(Errno::INVALID));
                assert_eq!(tfm.set_tag_size(33), Err(Errno::INVALID));
                tfm.set_key(&key_for(alg, &[7; 256])).unwrap();
                let little = assoc + len + 8;
                for (what, op, len, have, want) in [
                    ("a right one", seal, len, 512, Errno(0)),
                    ("no room for the tag", seal, len, little, Errno::INVALID),
                    ("shorter than its tag", open, 11, 512, Errno::INVALID),
                    ("another byte", open, len + 32, 512, Errno::BAD_MESSAGE),
                ] {
                    let got = ask(&mut tfm, op, len, have, task);
                    assert_eq!(got, want, "{alg}: {what}");
                }
                for context in [Context::Hardirq, Context::HardirqOverSoftirq, Context::Nmi] {
                    let before = cpu.stats().warnings;
                    let got = ask(&mut tfm, seal, len, 512, context);
                    assert_eq!(got, Errno::DEADLOCK, "{alg}");
                    assert_eq!(cpu.stats().warnings, before + 1, "it is a bug");
                }
            }
            // In RFC 4106 packets, the 8-byte IV follows 8 or 12 bytes of header, so the associated
            // data must have 16 or 20 bytes.
            let mut tfm = open_keyed(RFC4106, RFC4106);
            for (assoc, valid) in [(8, false), (16, true), (20, true), (24, false)] {
                let (mut bytes, iv, task) = ([0u8; 128], [0; BLOCK], Context::Task);
                let got = ask_in_place(&mut tfm, Op::Encrypt, iv, assoc, 16, &mut bytes, task);
                assert_eq!(
                    got,
                    if valid { Errno(0) } else { Errno::INVALID },
                    "{assoc}"
                );
            }
        }
    });
}
