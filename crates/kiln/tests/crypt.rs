//! Tests `kiln crypt`: all tiers and OpenSSL must produce the same bytes, for messages processed
//! whole and in chunks, and for decryption.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{fault, kiln, kiln_fed, kiln_with, Run};
use kiln_kernel::cipher::Impl;
use kiln_kernel::load::all_impls;
use kiln_kernel::Tier;
use kiln_measure::SplitMix64;

const IV: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

/// Returns message lengths in bytes: most of them from 16 to 80, and a few larger, up to 5003.
fn lengths() -> Vec<usize> {
    (16..=80)
        .step_by(7)
        .chain([17, 31, 33, 64, 511, 4096, 5003])
        .collect()
}

fn random(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SplitMix64(seed).fill(&mut bytes);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn crypt(key: &str, data: &[u8], more: &[&str]) -> Run {
    let mut args = vec!["crypt", "--alg", "xts(aes)", "--key", key, "--iv", IV];
    args.extend(more);
    kiln_fed(&args, data)
}

#[track_caller]
fn good(run: Run) -> Vec<u8> {
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    run.bytes
}

fn usable() -> Vec<&'static str> {
    let impls = all_impls().into_iter().filter(|i| i.tier().usable());
    impls.map(Impl::driver).collect()
}

#[test]
fn all_tiers_agree_and_there_and_back_is_the_same() {
    for key_bytes in [32, 48, 64] {
        let key = hex(&random(key_bytes, 1));
        for len in lengths() {
            let data = random(len, len as u64);
            let want = good(crypt(&key, &data, &["--impl", "xts-aes-generic"]));
            assert_eq!(want.len(), len);
            assert_ne!(want, data);
            for driver in usable() {
                let got = good(crypt(&key, &data, &["--impl", driver]));
                assert!(got == want, "{driver} {key_bytes} {len}");
            }
            let back = good(crypt(&key, &want, &["--decrypt"]));
            assert!(back == data, "{key_bytes} {len}");
        }
    }
}

#[test]
fn the_mask_chooses_and_the_result_stays() {
    let key = hex(&random(64, 2));
    let data = random(1000, 3);
    let want = good(crypt(&key, &data, &[]));
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &data).unwrap();
    for tier in Tier::ALL.into_iter().filter(|t| t.present()) {
        let args = [
            "crypt",
            "--alg",
            "xts(aes)",
            "--key",
            &key,
            "--iv",
            IV,
            "--in",
            path(file.path()),
        ];
        let run = kiln_with(&args, &[("KILN_TIERS", tier.name())]);
        assert!(good(run) == want, "{tier}");
    }
}

/// Compares the output with that of the `openssl` program, if it is installed.
#[test]
fn openssl_agrees() {
    let (key, iv) = (random(32, 4), random(16, 4));
    for (alg, name) in [("ctr(aes)", "-aes-256-ctr"), ("cbc(aes)", "-aes-256-cbc")] {
        for len in [16, 64, 4096] {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), random(len, 5)).unwrap();
            let theirs = Command::new("openssl")
                .args([
                    "enc",
                    name,
                    "-nopad",
                    "-K",
                    &hex(&key),
                    "-iv",
                    &hex(&iv),
                    "-in",
                ])
                .arg(file.path())
                .output();
            let Ok(theirs) = theirs else {
                eprintln!("SKIPPED: no openssl here");
                return;
            };
            assert!(theirs.status.success(), "{theirs:?}");
            let (key, iv) = (hex(&key), hex(&iv));
            let args = ["crypt", "--alg", alg, "--key", &key, "--iv", &iv, "--in"];
            let ours = kiln_with(&[&args[..], &[path(file.path())]].concat(), &[]);
            assert!(good(ours) == theirs.stdout, "{alg} {len}");
        }
    }
}

#[test]
fn pieces_do_not_matter() {
    let key = hex(&random(64, 6));
    for len in [16, 64, 1001] {
        let data = random(len, 7);
        let want = good(crypt(&key, &data, &[]));
        for divide in ["13,51", "1", "16", "5000", "15,1,16,17"] {
            let got = good(crypt(&key, &data, &["--divide", divide]));
            assert!(got == want, "{len} {divide}");
        }
    }
}

fn path(p: &Path) -> &str {
    p.to_str().unwrap()
}

#[test]
fn files_may_be_the_same_and_keys_may_be_files() {
    let dir = tempfile::tempdir().unwrap();
    let raw = random(64, 8);
    let data = random(100, 9);
    let want = good(crypt(&hex(&raw), &data, &[]));
    let (file, hex_key, raw_key) = (
        dir.path().join("data"),
        dir.path().join("key.hex"),
        dir.path().join("key.raw"),
    );
    fs::write(&hex_key, hex(&raw) + "\n").unwrap();
    fs::write(&raw_key, &raw).unwrap();
    for key in [hex_key, raw_key] {
        fs::write(&file, &data).unwrap();
        let at = format!("@{}", path(&key));
        let more = ["--in", path(&file), "--out-file", path(&file)];
        assert_eq!(good(crypt(&at, &[], &more)), b"");
        assert_eq!(fs::read(&file).unwrap(), want);
    }
}

/// After an error, the output file must be unchanged, and its directory must contain no other file.
#[test]
fn nothing_is_written_when_anything_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::write(&out, "as it was").unwrap();
    let key = hex(&random(64, 10));
    let refused = |key: &str, data: &[u8], more: &[&str], want: &str| {
        let mut more = more.to_vec();
        more.extend(["--out-file", path(&out)]);
        fault(&crypt(key, data, &more), 2, want);
        assert_eq!(fs::read(&out).unwrap(), b"as it was");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    };
    let data = [1; 64];
    refused(&key, &data[..15], &[], "at least 16");
    refused(&key, &[], &[], "has 0 bytes");
    refused(&key[2..], &data, &[], "63 bytes");
    refused(&key[1..], &data, &[], "hex digits");
    refused("xy", &data, &[], "not a hex digit");
    refused("@/no/such/key", &data, &[], "/no/such/key");
    refused(&key, &data, &["--divide", "0"], "0 bytes");
    refused(&key, &data, &["--divide", "a"], "--divide");
    refused(&key, &data, &["--aad", "00"], "--aad");
    refused(&key, &data, &["--tag", "00"], "--tag");
    refused(&key, &data, &["--in", "/no/such/file"], "/no/such/file");
    refused(
        &key,
        &data,
        &["--impl", "xts-aes-vaes"],
        "unknown implementation",
    );
}

#[test]
fn what_is_missing_is_named() {
    let key = hex(&random(64, 11));
    let run = |args: &[&str]| kiln(args);
    fault(&run(&["crypt"]), 2, "--alg");
    fault(
        &run(&["crypt", "--alg", "xts(aes)", "--iv", IV]),
        2,
        "--key is missing",
    );
    fault(
        &run(&["crypt", "--alg", "xts(aes)", "--key", &key]),
        2,
        "--iv is missing",
    );
    let short_iv = ["crypt", "--alg", "xts(aes)", "--key", &key, "--iv", "00"];
    fault(&run(&short_iv), 2, "--iv: this IV has 1 byte");
    fault(
        &run(&["crypt", "--alg", "xts-aes", "--key", &key, "--iv", IV]),
        2,
        "xts(aes)",
    );
    fault(&crypt(&key, &[1; 16], &["--json"]), 2, "--out-file");
    let nowhere = ["--out-file", "/no/such/dir/file"];
    fault(&crypt(&key, &[1; 16], &nowhere), 2, "/no/such/dir/file");
}

/// The tag of an AEAD either follows the text or is given separately. If the tag is wrong, the
/// program must not write anything, not even an empty file.
#[test]
fn an_aead_and_its_tag() {
    let dir = tempfile::tempdir().unwrap();
    let (sealed, opened) = (dir.path().join("sealed"), dir.path().join("opened"));
    let (key, iv, aad) = (hex(&random(32, 9)), hex(&random(12, 10)), "00112233");
    let base = [
        "crypt", "--alg", "gcm(aes)", "--key", &key, "--iv", &iv, "--aad", aad,
    ];
    let with = |more: &[&str], input: &[u8]| kiln_fed(&[&base[..], more].concat(), input);
    let data = random(100, 11);
    let text = good(with(&[], &data));
    assert_eq!(text.len(), 116);
    assert_eq!(good(with(&["--decrypt"], &text)), data);
    let tag = hex(&text[100..]);
    assert_eq!(
        good(with(&["--decrypt", "--tag", &tag], &text[..100])),
        data
    );
    let out = ["--decrypt", "--out-file", opened.to_str().unwrap()];
    for byte in [0, 50, 99, 100, 115] {
        let mut bad = text.clone();
        bad[byte] ^= 1;
        let run = with(&["--decrypt"], &bad);
        assert_eq!((run.status, run.bytes.len()), (1, 0), "{run:?}");
        assert!(run.stderr.contains("tag is wrong"), "{}", run.stderr);
        assert_eq!(with(&out, &bad).status, 1);
        assert!(!opened.exists());
    }
    // An existing file must stay unchanged.
    fs::write(&opened, b"before").unwrap();
    let other = [
        "crypt", "--alg", "gcm(aes)", "--key", &key, "--iv", &iv, "--aad", "00",
    ];
    assert_eq!(kiln_fed(&[&other[..], &out].concat(), &text).status, 1);
    assert_eq!(fs::read(&opened).unwrap(), b"before");
    fs::write(&sealed, &text).unwrap();
    let file = [&out[..], &["--in", sealed.to_str().unwrap()]].concat();
    assert_eq!(with(&file, b"").status, 0);
    assert_eq!(fs::read(&opened).unwrap(), data);
}

#[test]
fn a_hash_writes_its_digest() {
    let run = kiln_fed(&["crypt", "--alg", "sha256"], b"abc");
    let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hex(&good(run)), want);
    let args = ["crypt", "--alg", "hmac(sha256)", "--key", &hex(b"Jefe")];
    let run = kiln_fed(&args, b"what do ya want for nothing?");
    let want = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(hex(&good(run)), want);
    // The expected digest was computed in Python:
    // hmac.new(bytes(i % 251 for i in range(257)), text, 'sha256').hexdigest()
    let long: Vec<u8> = (0..257u32).map(|i| (i % 251) as u8).collect();
    let args = ["crypt", "--alg", "hmac(sha256)", "--key", &hex(&long)];
    let run = kiln_fed(&args, b"what do ya want for nothing?");
    let want = "36964575d8b87272fc68dacc6700c4fa6803b40e02e88b0dbcdc29cd00e4373f";
    assert_eq!(hex(&good(run)), want);
    let fed = |args: &[&str]| kiln_fed(&[&["crypt", "--alg"], args].concat(), b"");
    fault(&fed(&["sha256", "--key", "00"]), 2, "takes none");
    fault(&fed(&["sha256", "--decrypt"]), 2, "is a hash");
    fault(
        &fed(&["gcm(aes)", "--key", "00", "--iv", "00"]),
        2,
        "takes 16, 24, 32",
    );
}
