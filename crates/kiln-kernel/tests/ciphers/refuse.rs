//! What is not authentic is refused, and nothing of it is left; keys of wrong lengths are refused.

use kiln_kernel::cipher::{Context, Impl, Kind, Op};

use crate::agree::message;
use crate::buffer::{call, Message, Random};

#[test]
fn every_byte_counts() {
    for imp in Impl::all() {
        if imp.kind() != Kind::Aead || !imp.tier().usable() {
            continue;
        }
        let mut random = Random(7);
        for _ in 0..20 {
            let m = message(imp, &mut random);
            let ctx = Context::new(imp, &m.key).expect("a size it takes");
            let sealed = call(imp, &ctx, Op::Encrypt, &m, &[], false, 3);
            let open = |m: &Message, tag: &[u8]| call(imp, &ctx, Op::Decrypt, m, tag, false, 3);
            let good = Message {
                text: sealed.text.clone(),
                ..m.clone()
            };
            assert!(open(&good, &sealed.tag).accepted, "{imp:?}");
            for i in 0..sealed.tag.len() {
                let mut tag = sealed.tag.clone();
                tag[i] ^= 1 << random.below(8);
                let answer = open(&good, &tag);
                assert!(!answer.accepted, "{imp:?}: byte {i} of the tag");
                assert!(answer.text.iter().all(|&b| b == 0), "{imp:?}: not wiped");
            }
            let mut flips: Vec<Message> = Vec::new();
            for _ in 0..8 {
                let mut bad = good.clone();
                if !bad.text.is_empty() {
                    let i = random.below(bad.text.len());
                    bad.text[i] ^= 1 << random.below(8);
                    flips.push(bad);
                }
                let mut bad = good.clone();
                if !bad.aad.is_empty() {
                    let i = random.below(bad.aad.len());
                    bad.aad[i] ^= 1 << random.below(8);
                    flips.push(bad);
                }
            }
            for bad in flips {
                assert!(!open(&bad, &sealed.tag).accepted, "{imp:?}: a flipped bit");
            }
        }
    }
}

#[test]
fn keys_of_other_lengths_are_refused() {
    for imp in Impl::all() {
        for len in 0..1200 {
            let key = vec![0x42; len];
            let taken = if imp.is_keyed() {
                imp.takes_key(len)
            } else {
                len == 0
            };
            assert_eq!(
                Context::new(imp, &key).is_ok(),
                taken,
                "{imp:?}: {len} bytes"
            );
        }
    }
}
