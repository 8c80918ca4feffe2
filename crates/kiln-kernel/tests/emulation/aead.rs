//! Requests to AEADs and skciphers of all names agree with the implementation they are held
//! against, however they are divided, wherever they are made, whatever interrupts them.

use kiln_kernel::cipher::{Context as KeyContext, Impl, Kind, Op, BLOCK};
use kiln_kernel::crypto::{self, authenc_key, Aead, Errno, Model, Skcipher, ASYNC, INTERNAL};
use kiln_kernel::fpu::Context;
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::load::{Load, TaskWork};

use crate::corruption::config;
use crate::machine::{alone, assert_clean, boot, correct, judge, messages, plan, random};
use crate::requests::{Draw, POISON, ROOM};

/// Requests of all policies together, in a test that runs alone.
const REQUESTS: u64 = 120_000;

pub const RFC4106: &str = "rfc4106(gcm(aes))";
pub const SEQIV: &str = "seqiv(rfc4106(gcm(aes)))";
pub const AUTHENC: &str = "authenc(hmac(sha256),cbc(aes))";

/// The first of an algorithm: no SIMD, no requests.
pub fn oracle(alg: &str) -> Impl {
    Impl::find_all(alg)[0]
}

/// One message through an implementation.
pub fn call(
    alg: &str,
    key: &[u8],
    op: Op,
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
    let dst = imp.once(op, &ctx, iv, aad, text, &mut tag);
    (dst.expect("right lengths").unwrap_or_default(), tag)
}

/// What can be asked, with a key of its own.
enum Subject {
    Cipher(Skcipher, String),
    Aead(Aead, String, usize),
}

/// A key of the right length from random bytes.
pub fn key_for(alg: &str, bytes: &[u8]) -> Vec<u8> {
    match alg {
        SEQIV => bytes[..36].to_vec(),
        AUTHENC => authenc_key(&bytes[..32], &bytes[32..64]),
        _ => {
            let sizes = oracle(alg).key_sizes();
            bytes[..*sizes.last().expect("it has a key")].to_vec()
        }
    }
}

fn aead_names() -> Vec<(String, String)> {
    let mut names = vec![];
    for imp in Impl::all() {
        if imp.kind() == Kind::Hash {
            continue;
        }
        let alg = imp.alg().to_string();
        if alg == "xts(aes)" {
            continue;
        }
        names.push((alg.clone(), imp.driver().to_string()));
        names.push((alg.clone(), format!("__{}", imp.driver())));
        names.push((alg, format!("cryptd(__{})", imp.driver())));
        match imp.alg() {
            RFC4106 => names.push((SEQIV.into(), format!("seqiv({})", imp.driver()))),
            "cbc(aes)" => names.push((
                AUTHENC.into(),
                format!("authenc(hmac(sha256),{})", imp.driver()),
            )),
            _ => {}
        }
    }
    names
}

/// All that a model has.
fn subjects(model: Model, bytes: &[u8], draw: &mut Draw<'_>) -> Vec<Subject> {
    model.set();
    let mut all = Vec::new();
    for (alg, name) in aead_names() {
        let kind = if name.contains("__") { INTERNAL } else { 0 };
        let key = key_for(&alg, bytes);
        let is_aead = alg == SEQIV || alg == AUTHENC || oracle(&alg).kind() == Kind::Aead;
        if is_aead {
            let Ok(mut tfm) = Aead::open(&name, kind, INTERNAL) else {
                continue;
            };
            tfm.set_key(&key).expect("a right key");
            let tags = match alg.as_str() {
                AUTHENC => vec![12, 16, 32],
                SEQIV => vec![8, 12, 16],
                _ => oracle(&alg).tag_sizes(),
            };
            let tag = tags[draw.below(tags.len())];
            tfm.set_tag_size(tag).expect("one it takes");
            all.push(Subject::Aead(tfm, alg, tag));
        } else {
            let Ok(mut tfm) = Skcipher::open(&name, kind, INTERNAL) else {
                continue;
            };
            tfm.set_key(&key).expect("a right key");
            all.push(Subject::Cipher(tfm, alg));
        }
    }
    all
}

/// Buffers of a request.
struct Memory {
    src: Vec<u8>,
    dst: Vec<u8>,
}

type List = Vec<(*mut u8, usize)>;

fn list(base: *mut u8, pieces: &[(usize, usize)]) -> List {
    pieces
        .iter()
        .map(|&(at, n)| (base.wrapping_add(at), n))
        .collect()
}

fn gather(from: &[u8], pieces: &[(usize, usize)]) -> Vec<u8> {
    pieces
        .iter()
        .flat_map(|&(at, n)| from[at..at + n].iter().copied())
        .collect()
}

/// Run a request over random pieces: `input` goes in, `output` bytes come back. Bytes between
/// the pieces stay as they are.
fn through(
    draw: &mut Draw<'_>,
    memory: &mut Memory,
    input: &[u8],
    output: usize,
    ask: &mut dyn FnMut(&List, &List, Context) -> (Errno, Errno),
) -> Result<(Vec<u8>, Errno, bool), String> {
    let context = [Context::Task, Context::TaskBhOff, Context::Softirq][draw.below(3)];
    let in_place = draw.below(2) == 0;
    let room = input.len().max(output);
    let whole = if in_place { room } else { input.len() };
    let from = draw.pieces(whole, ROOM);
    let to = if in_place {
        from.clone()
    } else {
        draw.pieces(output, ROOM)
    };
    let mut rest = input;
    memory.src[..].fill(POISON);
    for &(at, n) in &from {
        let n = n.min(rest.len());
        memory.src[at..at + n].copy_from_slice(&rest[..n]);
        rest = &rest[n..];
    }
    memory.dst[..].fill(POISON);
    let src = list(memory.src.as_mut_ptr(), &from);
    let dst = match in_place {
        true => src.clone(),
        false => list(memory.dst.as_mut_ptr(), &to),
    };
    let (submitted, result) = ask(&src, &dst, context);
    let later = submitted == Errno::IN_PROGRESS;
    if !later && submitted != result {
        return Err(format!("{submitted}, then {result}"));
    }
    let got = if in_place { &memory.src } else { &memory.dst };
    let mut behind = 0;
    for &(at, n) in &to {
        if got[behind..at].iter().any(|&b| b != POISON) {
            return Err("written between the pieces".into());
        }
        behind = at + n;
    }
    if got[behind..].iter().any(|&b| b != POISON) {
        return Err("written behind the pieces".into());
    }
    let mut all = gather(got, &to);
    all.truncate(output);
    Ok((all, result, later))
}

fn one_cipher(
    draw: &mut Draw<'_>,
    memory: &mut Memory,
    tfm: &mut Skcipher,
    alg: &str,
    key: &[u8],
) -> Result<bool, String> {
    let block = oracle(alg).block_size();
    let len = draw.len().next_multiple_of(block);
    let op = [Op::Encrypt, Op::Decrypt][draw.below(2)];
    let mut text = vec![0; len];
    (draw.0)(&mut text);
    let mut iv = [0; BLOCK];
    (draw.0)(&mut iv);
    let (want, _) = call(alg, key, op, &iv, &[], &text, 0);
    let (got, result, later) = through(draw, memory, &text, len, &mut |src, dst, context| {
        // SAFETY: the pieces lie in the buffers, apart from each other.
        unsafe { tfm.request(op, &mut iv, len, src, dst, context) }
    })?;
    match (result, got == want) {
        (Errno(0), true) => Ok(later),
        (e, _) => Err(format!("{op:?} of {len} bytes: {e}, or wrong bytes")),
    }
}

/// A whole packet from the oracle: associated data, text (or what became of it), tag.
fn sealed(alg: &str, key: &[u8], iv: &[u8; BLOCK], aad: &[u8], text: &[u8], tag: usize) -> Vec<u8> {
    let mut packet = aad.to_vec();
    match alg {
        AUTHENC => {
            let (auth, enc) = (&key[8..40], &key[40..]);
            let (out, _) = call("cbc(aes)", enc, Op::Encrypt, iv, &[], text, 0);
            packet.extend(out);
            let (_, icv) = call("hmac(sha256)", auth, Op::Encrypt, &[], &[], &packet, 0);
            packet.extend(&icv[..tag]);
        }
        SEQIV => {
            // The first eight bytes of the text are the IV's place.
            let (out, icv) = call(RFC4106, key, Op::Encrypt, &iv[..8], aad, &text[8..], tag);
            packet.extend(&iv[..8]);
            packet.extend(out);
            packet.extend(icv);
        }
        RFC4106 => {
            let bare = &aad[..aad.len() - 8];
            let (out, icv) = call(alg, key, Op::Encrypt, iv, bare, text, tag);
            packet.extend(out);
            packet.extend(icv);
        }
        _ => {
            let (out, icv) = call(alg, key, Op::Encrypt, iv, aad, text, tag);
            packet.extend(out);
            packet.extend(icv);
        }
    }
    packet
}

fn one_aead(
    draw: &mut Draw<'_>,
    memory: &mut Memory,
    tfm: &mut Aead,
    alg: &str,
    key: &[u8],
    tag: usize,
) -> Result<bool, String> {
    let mut iv = [0; BLOCK];
    (draw.0)(&mut iv);
    let assoc = match alg {
        RFC4106 => [16, 20][draw.below(2)],
        SEQIV => [8, 12][draw.below(2)],
        _ => [0, 8, 13, 16, 20, 300][draw.below(6)],
    };
    let len = match alg {
        AUTHENC => draw.len().next_multiple_of(16),
        SEQIV => draw.len(),
        _ => draw.len() - draw.below(BLOCK + 1),
    };
    if alg == "ccm(aes)" {
        iv[0] = 2 + iv[0] % 6;
    }
    let mut aad = vec![0; assoc];
    let mut text = vec![0; len];
    (draw.0)(&mut aad);
    (draw.0)(&mut text);
    let whole = assoc + len + tag;

    let mut packet = aad.clone();
    packet.extend(&text);
    let mut used = iv;
    let (got, result, mut later) =
        through(draw, memory, &packet, whole, &mut |src, dst, context| {
            // SAFETY: the pieces lie in the buffers, apart from each other.
            unsafe { tfm.request(Op::Encrypt, &mut used, assoc, len, src, dst, context) }
        })?;
    if result != Errno(0) {
        return Err(format!("sealing {assoc} + {len} bytes: {result}"));
    }
    if alg == SEQIV {
        iv = used;
        text[..8].copy_from_slice(&iv[..8]);
    }
    let want = sealed(alg, key, &iv, &aad, &text, tag);
    // Out of place some copy the associated data and some do not, as in Linux.
    if got[assoc..] != want[assoc..] {
        return Err(format!(
            "sealing {assoc} + {len} bytes, tag {tag}: wrong bytes"
        ));
    }

    let mut bad = want.clone();
    let spoilt = draw.below(3) == 0;
    if spoilt {
        let at = assoc + draw.below(len + tag);
        bad[at] ^= 1 << draw.below(8);
    }
    let mut used = iv;
    let (got, result, also) =
        through(draw, memory, &bad, assoc + len, &mut |src, dst, context| {
            // SAFETY: as above.
            unsafe { tfm.request(Op::Decrypt, &mut used, assoc, len + tag, src, dst, context) }
        })?;
    later |= also;
    match (spoilt, result) {
        (false, Errno(0)) => {
            let from = if alg == SEQIV { assoc + 8 } else { assoc };
            if got[from..] != text[from - assoc..] {
                return Err(format!("opening {assoc} + {len} bytes: wrong bytes"));
            }
        }
        (true, Errno::BAD_MESSAGE) => {
            let from = if alg == SEQIV { assoc + 8 } else { assoc };
            let plain = text.len() - (from - assoc) >= 16 && got[from..] == text[from - assoc..];
            if plain {
                return Err("a wrong packet's text was given out".into());
            }
        }
        (_, e) => {
            return Err(format!(
                "opening {assoc} + {len} bytes, spoilt {spoilt}: {e}"
            ))
        }
    }
    Ok(later)
}

#[test]
fn requests_agree_with_the_implementations() {
    alone("aead::requests_agree_with_the_implementations", |seed| {
        let mut cpu = boot();
        crypto::seed(seed);
        let policies = correct();
        let each = REQUESTS / (2 * policies.len() as u64);
        let mut bytes = [0; 256];
        random(seed)(&mut bytes);
        for p in policies {
            p.set(&mut cpu);
            for full in [false, true] {
                cpu.configure(&config(full));
                cpu.reset_stats();
                let model = match (p.name(), full) {
                    ("legacy", _) | (_, true) => Model::Helper,
                    _ => Model::Direct,
                };
                let before = crypto::memory_in_use();
                let mut next = random(seed ^ each);
                let mut draw = Draw(&mut next);
                let mut all = subjects(model, &bytes, &mut draw);
                let mut memory = Memory {
                    src: vec![0; ROOM],
                    dst: vec![0; ROOM],
                };
                let mut plan = plan(
                    TaskWork::Crypt(judge(), messages(seed, Op::Encrypt, 64, 4)),
                    seed,
                );
                plan.hardirq_fpu = true;
                let mut load = Load::attach(&mut cpu, plan).expect("tiers are there");
                let timer =
                    Timer::start(load.cpu(), Arrivals::Poisson(15_000.0, seed)).expect("a timer");
                let (count, mut later) = (all.len(), 0);
                for i in 0..each {
                    let subject = &mut all[i as usize % count];
                    let (what, done) = match subject {
                        Subject::Cipher(tfm, alg) => {
                            let key = key_for(alg, &bytes);
                            let done = one_cipher(&mut draw, &mut memory, tfm, alg, &key);
                            (tfm.driver().to_string(), done)
                        }
                        Subject::Aead(tfm, alg, tag) => {
                            let key = key_for(alg, &bytes);
                            let done = one_aead(&mut draw, &mut memory, tfm, alg, &key, *tag);
                            (tfm.driver().to_string(), done)
                        }
                    };
                    match done {
                        Ok(was) => later += u64::from(was),
                        Err(why) => {
                            panic!("{p}, full preemption {full}, request {i}: {what}: {why}")
                        }
                    }
                }
                drop(timer);
                assert_clean(&format!("{p}, full {full}"), &load.counts());
                drop(load);
                println!(
                    "{p}, {model:?}: {each} requests to {count} drivers, {later} answered later"
                );
                assert!(cpu.stats().irqs_in_section > 0);
                drop(all);
                assert_eq!(crypto::memory_in_use(), before, "all is given back");
            }
        }
    });
}

#[test]
fn aeads_and_templates_are_found_as_linux_has_them() {
    alone(
        "aead::aeads_and_templates_are_found_as_linux_has_them",
        |_| {
            let _cpu = boot();
            let best = |alg: &str| {
                let mut usable = Impl::find_all(alg)
                    .into_iter()
                    .filter(|i| i.tier().usable());
                usable.next_back().expect("generic is there")
            };
            Model::Helper.set();
            for alg in [
                "gcm(aes)",
                RFC4106,
                "ccm(aes)",
                "rfc7539(chacha20,poly1305)",
            ] {
                let tfm = Aead::open(alg, 0, 0).unwrap();
                assert_eq!(tfm.driver(), best(alg).driver());
                assert_eq!(
                    tfm.is_async(),
                    best(alg).tier() != kiln_kernel::Tier::Generic
                );
                assert_eq!(tfm.priority(), best(alg).priority() as i32);
                let sync = Aead::open(alg, 0, ASYNC).unwrap();
                assert!(!sync.is_async());
                assert!(Skcipher::open(alg, 0, 0).is_err(), "{alg} is no skcipher");
            }
            let gcm = best(RFC4106).driver();
            let seqiv = Aead::open(SEQIV, 0, 0).unwrap();
            assert_eq!(seqiv.driver(), format!("seqiv({gcm})"));
            assert_eq!(
                seqiv.is_async(),
                best(RFC4106).tier() != kiln_kernel::Tier::Generic
            );
            let authenc = Aead::open(AUTHENC, 0, 0).unwrap();
            let (mac, cbc) = (best("hmac(sha256)"), best("cbc(aes)"));
            assert_eq!(
                authenc.driver(),
                format!("authenc({},{})", mac.driver(), cbc.driver())
            );
            assert_eq!(
                authenc.priority(),
                10 * cbc.priority() as i32 + mac.priority() as i32
            );
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
            assert_eq!(direct.driver(), format!("seqiv({gcm})"));
            assert!(!direct.is_async());
        },
    );
}

#[test]
fn bad_aead_requests_are_refused() {
    alone("aead::bad_aead_requests_are_refused", |_| {
        let cpu = boot();
        for model in [Model::Helper, Model::Direct] {
            model.set();
            for (alg, assoc, len) in [("gcm(aes)", 8, 32), (SEQIV, 8, 40), (AUTHENC, 24, 32)] {
                let mut tfm = Aead::open(alg, 0, 0).unwrap();
                let mut bytes = [0u8; 512];
                let base = bytes.as_mut_ptr();
                let ask = |tfm: &mut Aead, op, assoc, len, have, context| {
                    let mut iv = [0; BLOCK];
                    let list = [(base, have)];
                    // SAFETY: the piece is the array, or less.
                    unsafe { tfm.request(op, &mut iv, assoc, len, &list, &list, context) }.1
                };
                let task = Context::Task;
                assert_eq!(
                    ask(&mut tfm, Op::Encrypt, assoc, len, 512, task),
                    Errno::NO_KEY
                );
                assert_eq!(tfm.set_key(&[1; 5]), Err(Errno::INVALID));
                assert_eq!(tfm.set_tag_size(0), Err(Errno::INVALID));
                assert_eq!(tfm.set_tag_size(33), Err(Errno::INVALID));
                tfm.set_key(&key_for(alg, &[7; 256])).unwrap();
                let e = |tfm: &mut Aead, n| ask(tfm, Op::Encrypt, assoc, n, 512, task);
                assert_eq!(e(&mut tfm, len), Errno(0), "{alg}");
                // No room for the tag.
                assert_eq!(
                    ask(&mut tfm, Op::Encrypt, assoc, len, assoc + len + 8, task),
                    Errno::INVALID,
                    "{alg}"
                );
                assert_eq!(
                    ask(&mut tfm, Op::Decrypt, assoc, 11, 512, task),
                    Errno::INVALID,
                    "{alg}: shorter than its tag"
                );
                // SAFETY: the array's first byte.
                unsafe { base.write(!base.read()) };
                assert_eq!(
                    ask(&mut tfm, Op::Decrypt, assoc, len + 32, 512, task),
                    Errno::BAD_MESSAGE,
                    "{alg}"
                );
                for context in [Context::Hardirq, Context::HardirqOverSoftirq, Context::Nmi] {
                    let before = cpu.stats().warnings;
                    assert_eq!(
                        ask(&mut tfm, Op::Encrypt, assoc, len, 512, context),
                        Errno::DEADLOCK,
                        "{alg}"
                    );
                    assert_eq!(cpu.stats().warnings, before + 1, "it is a bug");
                }
            }
            // RFC 4106 packets have 8 or 12 bytes and the IV in front.
            let mut tfm = Aead::open(RFC4106, 0, 0).unwrap();
            tfm.set_key(&[3; 36]).unwrap();
            for (assoc, want) in [
                (8, Errno::INVALID),
                (16, Errno(0)),
                (20, Errno(0)),
                (24, Errno::INVALID),
            ] {
                let mut bytes = [0u8; 128];
                let list = [(bytes.as_mut_ptr(), 128)];
                let mut iv = [0; BLOCK];
                // SAFETY: the piece is the array.
                let got = unsafe {
                    tfm.request(Op::Encrypt, &mut iv, assoc, 16, &list, &list, Context::Task)
                };
                assert_eq!(got.1, want, "{assoc}");
            }
        }
    });
}
