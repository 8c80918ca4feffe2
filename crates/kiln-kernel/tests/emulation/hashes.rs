//! Hashes of all names agree with the implementation they are held against, in any context and
//! under any policy, in one call and in pieces, with states that are exported and imported.

use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::crypto::{self, Errno, Shash};
use kiln_kernel::fpu::Context;
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::load::{Load, TaskWork};

use crate::aead::{call, oracle};
use crate::corruption::config;
use crate::machine::{alone, assert_clean, boot, correct, judge, messages, plan, random};
use crate::requests::Draw;

/// Messages of all policies together, in a test that runs alone.
const MESSAGES: u64 = 60_000;

fn key_for(alg: &str, bytes: &[u8]) -> Vec<u8> {
    let sizes = oracle(alg).key_sizes();
    let len = match sizes.last() {
        None => 0,
        // Not longer than a block of any, and not the shortest.
        Some(&most) if sizes.contains(&20) => most.min(20),
        Some(&most) => most,
    };
    bytes[..len].to_vec()
}

fn cuts(draw: &mut Draw<'_>, len: usize) -> Vec<u32> {
    let mut cuts: Vec<usize> = (0..draw.below(6)).map(|_| draw.below(len + 1)).collect();
    cuts.extend([0, len]);
    cuts.sort_unstable();
    cuts.windows(2).map(|w| (w[1] - w[0]) as u32).collect()
}

#[test]
fn digests_agree_in_every_context() {
    alone("hashes::digests_agree_in_every_context", |seed| {
        let mut cpu = boot();
        let mut bytes = vec![0; 8192];
        random(seed)(&mut bytes);
        let algs: Vec<Impl> = Impl::all()
            .into_iter()
            .filter(|i| i.kind() == Kind::Hash && i.tier().usable())
            .collect();
        let policies = correct();
        let each = MESSAGES / (2 * policies.len() as u64);
        crypto::seed(seed);
        for p in policies {
            p.set(&mut cpu);
            for full in [false, true] {
                cpu.configure(&config(full));
                let before = crypto::memory_in_use();
                let mut tfms: Vec<(Impl, Vec<u8>, Shash)> = algs
                    .iter()
                    .map(|&imp| {
                        let mut tfm = Shash::open(imp.driver(), 0, 0).expect("it is there");
                        assert_eq!(tfm.driver(), imp.driver());
                        let key = key_for(imp.alg(), &bytes);
                        if imp.is_keyed() {
                            tfm.set_key(&key).expect("a right key");
                        }
                        (imp, key, tfm)
                    })
                    .collect();
                let mut plan = plan(
                    TaskWork::Crypt(judge(), messages(seed, Op::Encrypt, 64, 4)),
                    seed,
                );
                plan.hardirq_fpu = true;
                let mut load = Load::attach(&mut cpu, plan).expect("tiers are there");
                let timer =
                    Timer::start(load.cpu(), Arrivals::Poisson(15_000.0, seed)).expect("a timer");
                let mut next = random(seed ^ each);
                let mut draw = Draw(&mut next);
                let count = tfms.len();
                for i in 0..each {
                    let (imp, key, tfm) = &mut tfms[i as usize % count];
                    // Bytes of some are a multiple of a unit: NH's.
                    let unit = match imp.alg() {
                        "nhpoly1305" => 16,
                        _ => 1,
                    };
                    let len = draw.len().min(6000) / unit * unit;
                    let at = draw.below(bytes.len() - len);
                    let data = &bytes[at..at + len];
                    let context = Context::ALL[draw.below(Context::ALL.len())];
                    let pieces = match (draw.below(3), unit) {
                        (0, _) | (_, 16) => vec![],
                        _ => cuts(&mut draw, len),
                    };
                    let reimport = draw.below(2) == 0;
                    let (_, want) = call(imp.alg(), key, Op::Encrypt, &[], &[], data, 0);
                    let got = tfm.digest(data, &pieces, reimport, context);
                    let size = imp.digest_size();
                    assert!(
                        got.is_ok_and(|got| got[..size] == want[..size]),
                        "{p}, full preemption {full}, message {i}: {imp:?} of {len} bytes in \
                         {context:?}, {pieces:?}, reimport {reimport}: {got:?}"
                    );
                }
                drop(timer);
                assert_clean(&format!("{p}, full {full}"), &load.counts());
                drop(load);
                drop(tfms);
                assert_eq!(crypto::memory_in_use(), before, "all is given back");
            }
        }
    });
}

/// A counter in a state: where it is, the largest value that a message comes to, how many bytes it has.
const COUNTERS: [(&str, usize, u64, usize); 8] = [
    ("cmac(aes)", 32, 16, 8),
    ("ghash", 16, 15, 8),
    ("polyval", 16, 15, 8),
    ("poly1305", 40, 15, 8),
    ("nhpoly1305", 56, 1008, 8),
    ("nhpoly1305", 80, 15, 8),
    ("blake2s-256", 104, 64, 8),
    ("crct10dif", 0, 0xffff, 4),
];

#[test]
fn states_that_no_message_comes_to_are_refused() {
    alone(
        "hashes::states_that_no_message_comes_to_are_refused",
        |_| {
            let _cpu = boot();
            let counted = |alg: &str| {
                let name = if alg == "blake2smac" {
                    "blake2s-256"
                } else {
                    alg
                };
                let counters = COUNTERS.iter().filter(move |c| c.0 == name);
                counters.copied().collect::<Vec<_>>()
            };
            for alg in Impl::algorithms() {
                let impls = Impl::find_all(alg).into_iter();
                let impls: Vec<Impl> = impls.filter(|i| i.tier().usable()).collect();
                if impls[0].kind() != Kind::Hash {
                    continue;
                }
                let resume = |imp: Impl, state: &[u8]| {
                    let mut tfm = Shash::open(imp.driver(), 0, 0).expect("it is there");
                    if imp.is_keyed() {
                        tfm.set_key(&key_for(alg, &[7; 2048])).expect("a right key");
                    }
                    tfm.resume(imp, state, &[0x33; 160])
                };
                let agree = |state: &[u8], what: &str| {
                    let want = resume(impls[0], state);
                    for &imp in &impls[1..] {
                        assert_eq!(resume(imp, state), want, "{imp:?}: {what}");
                    }
                    want
                };
                let size = impls[0].state_size();
                let all = agree(&vec![0xff; size], "all ones");
                let want = counted(alg).first().map(|_| Errno::INVALID);
                assert_eq!(all.err(), want, "{alg}: all ones");
                assert!(agree(&vec![0; size], "zeros").is_ok(), "{alg}: zeros");
                for (_, at, most, bytes) in counted(alg) {
                    let with = |value: u64| {
                        let mut state = vec![0; size];
                        state[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
                        agree(&state, &format!("{value} at {at}"))
                    };
                    assert!(with(most).is_ok(), "{alg}: {most} at {at}");
                    for value in [most + 1, 1 << 31] {
                        assert_eq!(with(value), Err(Errno::INVALID), "{alg}: {value} at {at}");
                    }
                }
            }
        },
    );
}

#[test]
fn hashes_refuse_what_they_must() {
    alone("hashes::hashes_refuse_what_they_must", |_| {
        let _cpu = boot();
        let mut mac = Shash::open("hmac(sha256)", 0, 0).unwrap();
        for pieces in [vec![], vec![3]] {
            let got = mac.digest(b"abc", &pieces, false, Context::Task);
            assert_eq!(got, Err(Errno::NO_KEY));
        }
        mac.set_key(b"key").unwrap();
        assert!(mac.digest(b"abc", &[], false, Context::Nmi).is_ok());
        let mut sha = Shash::open("sha256", 0, 0).unwrap();
        // A hash without a key has nothing to set.
        assert_eq!(sha.set_key(b"key"), Err(Errno(-38)));
        assert!(sha.digest(b"", &[], false, Context::Hardirq).is_ok());
        for name in [
            "xts(aes)",
            "gcm(aes)",
            "cryptd(sha256-generic)",
            "sha257",
            "",
        ] {
            assert_eq!(
                Shash::open(name, 0, 0).err(),
                Some(Errno::NOT_THERE),
                "{name}"
            );
        }
    });
}
