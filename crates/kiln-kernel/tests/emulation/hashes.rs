//! All hashes must give the same results as the reference implementation: in any context, under any
//! policy, in one call or in pieces, and when the state is exported and imported between pieces.

use kiln_kernel::cipher::{Impl, Kind};
use kiln_kernel::crypto::{Errno, Shash};
use kiln_kernel::fpu::Context;

use crate::aead::{oracle, seal};
use crate::machine::{boot, run_alone};
use crate::requests::{ask_under_every_policy, Draw};

/// Total number of messages for all policies together if the test runs alone.
const MESSAGES: u64 = 60_000;

fn key_for(alg: &str, bytes: &[u8]) -> Vec<u8> {
    let sizes = oracle(alg).key_sizes();
    let len = match sizes.last() {
        None => 0,
        // Limit the key to 20 bytes, so that it does not exceed the block size of any hash.
        Some(&most) if sizes.contains(&20) => most.min(20),
        Some(&most) => most,
    };
    bytes[..len].to_vec()
}

fn open_keyed(imp: Impl, key: &[u8]) -> Shash {
    let mut tfm = Shash::open(imp.driver(), 0, 0).expect("it is there");
    assert_eq!(tfm.driver(), imp.driver());
    if imp.is_keyed() {
        tfm.set_key(key).expect("a right key");
    }
    tfm
}

fn cuts(draw: &mut Draw, len: usize) -> Vec<u32> {
    let mut cuts: Vec<usize> = (0..draw.below(6)).map(|_| draw.below(len + 1)).collect();
    cuts.extend([0, len]);
    cuts.sort_unstable();
    cuts.windows(2).map(|w| (w[1] - w[0]) as u32).collect()
}

#[test]
fn digests_agree_in_every_context() {
    run_alone(|seed| {
        let open = |_, draw: &mut Draw| -> Vec<(Impl, Vec<u8>, Shash)> {
            let all = Impl::all().into_iter();
            all.filter(|i| i.kind() == Kind::Hash && i.tier().usable())
                .map(|imp| {
                    let key = key_for(imp.alg(), &draw.bytes(2048));
                    let tfm = open_keyed(imp, &key);
                    (imp, key, tfm)
                })
                .collect()
        };
        ask_under_every_policy(seed, MESSAGES, open, |(imp, key, tfm), draw, _| {
            // Some hashes, such as NH, accept only lengths that are a multiple of some unit.
            let unit = match imp.alg() {
                "nhpoly1305" => 16,
                _ => 1,
            };
            let len = draw.len().min(6000) / unit * unit;
            let data = draw.bytes(len);
            let context = draw.pick(&Context::ALL);
            let pieces = match (draw.below(3), unit) {
                (0, _) | (_, 16) => vec![],
                _ => cuts(draw, len),
            };
            let reimport = draw.below(2) == 0;
            let (_, want) = seal(imp.alg(), key, &[], &[], &data, 0);
            let got = tfm.digest(&data, &pieces, reimport, context);
            let size = imp.digest_size();
            match got.is_ok_and(|got| got[..size] == want[..size]) {
                true => Ok(false),
                false => Err(format!(
                    "{imp:?} of {len} bytes in {context:?}, {pieces:?}, reimport {reimport}: {got:?}"
                )),
            }
        });
    });
}

/// Counters in the exported states of hashes. Each entry gives the algorithm, the counter's offset,
/// the largest value that the counter can reach when a message is hashed, and the counter's size in
/// bytes.
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
    run_alone(|_| {
        let _cpu = boot();
        let counted = |alg: &str| {
            let name = alg.replace("blake2smac", "blake2s-256");
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
                let mut tfm = open_keyed(imp, &key_for(alg, &[7; 2048]));
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
    });
}

#[test]
fn hashes_refuse_what_they_must() {
    run_alone(|_| {
        let _cpu = boot();
        let mut mac = Shash::open("hmac(sha256)", 0, 0).unwrap();
        for pieces in [vec![], vec![3]] {
            let got = mac.digest(b"abc", &pieces, false, Context::Task);
            assert_eq!(got, Err(Errno::NO_KEY));
        }
        mac.set_key(b"key").unwrap();
        assert!(mac.digest(b"abc", &[], false, Context::Nmi).is_ok());
        let mut sha = Shash::open("sha256", 0, 0).unwrap();
        // An unkeyed hash does not accept a key.
        assert_eq!(sha.set_key(b"key"), Err(Errno(-38)));
        assert!(sha.digest(b"", &[], false, Context::Hardirq).is_ok());
        let cryptd = "cryptd(sha256-generic)";
        for name in ["xts(aes)", "gcm(aes)", cryptd, "sha257", ""] {
            let got = Shash::open(name, 0, 0).err();
            assert_eq!(got, Some(Errno::NOT_THERE), "{name}");
        }
    });
}
