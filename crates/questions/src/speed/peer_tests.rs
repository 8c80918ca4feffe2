//! Tests with this machine's libraries, and with deliberately wrong libraries.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kiln_question::lens::Lens;
use kiln_record::family;

use super::{run, Plan};
use kiln_timing::peer::{load, Wanted, NAMES};
use kiln_timing::Op;

#[test]
fn words() {
    let parse =
        |words: &[&str]| Wanted::parse(&words.iter().map(|w| w.to_string()).collect::<Vec<_>>());
    assert_eq!(parse(&[]), Ok(Wanted::Auto));
    assert_eq!(parse(&["none"]), Ok(Wanted::None));
    assert!(parse(&["openssl"]).unwrap().names("openssl"));
    assert!(!Wanted::Auto.names("openssl"));
    let fault = |words| parse(words).unwrap_err().to_string();
    assert!(fault(&["opensll"]).contains("did you mean 'openssl'"));
    assert!(fault(&["none", "openssl"]).contains("cannot be combined"));
}

/// Checks that every library gives the same results as Kiln for every algorithm that it supports.
/// Covers encryption, decryption and digests, and messages that end with a full or a partial block.
#[test]
fn peers_agree_with_kiln() {
    let plan = Plan {
        ops: vec![Op::Encrypt, Op::Decrypt, Op::Digest],
        lens: Lens(vec![16, 48, 337, 1424]),
        turn: Some(Duration::from_millis(400)),
        ..Plan::new(3)
    };
    let outcome = run(plan, &AtomicBool::new(false), &mut |_, _| {}).unwrap();
    let wrong: Vec<_> = outcome
        .notes
        .iter()
        .filter(|n| n.contains("WRONG"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for name in NAMES {
        let of = outcome.rows.iter().filter(|r| family(&r.provider) == name);
        let algs: BTreeSet<&str> = of.map(|r| &*r.alg).collect();
        match load(name) {
            // Graviola supports only the algorithms that TLS needs.
            Ok(_) if name == "graviola" => assert!(algs.len() >= 6, "{name}: {algs:?}"),
            Ok(_) => assert!(algs.len() >= 10, "{name}: {algs:?}"),
            Err(why) => println!("SKIPPED {name}: {why}"),
        }
        println!("{name}: {algs:?}");
    }
}

/// Checks that no library gives wrong results with 128-bit and 192-bit AES keys, or with 512-bit
/// HMAC keys.
#[test]
fn peers_agree_with_all_keys() {
    let plan = Plan {
        algs: [
            "xts(aes)",
            "gcm(aes)",
            "ccm(aes)",
            "cbc(aes)",
            "cmac(aes)",
            "hmac(sha512)",
        ]
        .map(String::from)
        .to_vec(),
        ops: vec![Op::Encrypt, Op::Decrypt, Op::Digest],
        lens: Lens(vec![16, 64]),
        key_bits: Vec::new(),
        turn: Some(Duration::from_millis(200)),
        ..Plan::new(4)
    };
    for bits in [128, 192, 512] {
        let mut plan = plan.clone();
        plan.algs
            .retain(|alg| alg.starts_with("hmac(") == (bits == 512));
        plan.key_bits = vec![bits];
        let outcome = run(plan, &AtomicBool::new(false), &mut |_, _| {}).unwrap();
        let wrong = outcome.notes.iter().filter(|n| n.contains("WRONG"));
        assert_eq!(wrong.count(), 0, "{:#?}", outcome.notes);
    }
}
