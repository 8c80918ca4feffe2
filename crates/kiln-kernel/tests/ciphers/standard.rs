//! Values of the standards: `kernel/ciphers/*/vectors.txt`.
//!
//! A file has cases, parted by empty lines; a case has lines `name = hex`. Names: `alg` (the
//! kernel's), `key`, `iv`, `aad`, `pt`, `ct`, `tag` for what encrypts, `msg` and `md` for hashes.
//! `N * hex` is that many times the bytes, `"..."` is text; a line of `#` says where a case is from.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use kiln_kernel::cipher::{Context, Impl, Kind, Op};

use crate::buffer::{call, Message};

#[derive(Debug, Default)]
struct Case {
    alg: String,
    message: Message,
    /// Ciphertext, and tag or digest.
    ct: Vec<u8>,
    tag: Vec<u8>,
    place: String,
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    assert!(digits.len() % 2 == 0, "{text}");
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect(text))
        .collect()
}

fn value(text: &str) -> Vec<u8> {
    if let Some((n, of)) = text.split_once('*') {
        return value(of.trim()).repeat(n.trim().parse().expect(text));
    }
    match text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        Some(text) => text.as_bytes().to_vec(),
        None => hex(text),
    }
}

fn cases(path: &Path) -> Vec<Case> {
    let text = fs::read_to_string(path).expect("a readable file");
    let mut all = Vec::new();
    let mut case = Case::default();
    for (i, line) in text.lines().chain([""]).enumerate() {
        let line = line.trim();
        if line.is_empty() {
            if !case.alg.is_empty() {
                all.push(std::mem::take(&mut case));
            }
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{}", path.display(), i + 1);
        let (name, text) = line.split_once('=').unwrap_or_else(|| panic!("{place}"));
        let text = text.trim();
        match name.trim() {
            "alg" => {
                case.alg = text.to_string();
                case.place = place;
            }
            "key" => case.message.key = value(text),
            "iv" => case.message.iv = value(text),
            "aad" => case.message.aad = value(text),
            "pt" | "msg" => case.message.text = value(text),
            "ct" => case.ct = value(text),
            "tag" | "md" => case.tag = value(text),
            other => panic!("{place}: {other}"),
        }
    }
    all
}

#[test]
fn values_of_the_standards() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/ciphers");
    let mut seen = BTreeSet::new();
    let mut count = 0;
    for entry in fs::read_dir(&dir).expect("the directory of vectors") {
        let file = entry.expect("an entry").path().join("vectors.txt");
        for case in file.exists().then(|| cases(&file)).into_iter().flatten() {
            let impls = Impl::find_all(&case.alg);
            assert!(
                !impls.is_empty(),
                "{}: nobody does {}",
                case.place,
                case.alg
            );
            for imp in impls {
                if imp.tier().usable() {
                    hold(imp, &case);
                    count += 1;
                }
            }
            seen.insert(case.alg);
        }
    }
    for alg in Impl::algorithms() {
        assert!(seen.contains(alg), "{alg} has no vectors");
    }
    println!("{count} cases");
}

fn hold(imp: Impl, case: &Case) {
    let what = format!("{}: {imp:?}", case.place);
    let ctx = Context::new(imp, &case.message.key).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let mut message = case.message.clone();
    message.tag_size = case.tag.len();
    for (in_place, at) in [(false, 0), (true, 0), (false, 5), (true, 9)] {
        let answer = call(imp, &ctx, Op::Encrypt, &message, &[], in_place, at);
        if imp.kind() != Kind::Hash {
            assert_eq!(answer.text, case.ct, "{what}");
        }
        assert_eq!(answer.tag, case.tag, "{what}");
        if imp.kind() == Kind::Hash {
            continue;
        }
        let back = Message {
            text: case.ct.clone(),
            ..message.clone()
        };
        let answer = call(imp, &ctx, Op::Decrypt, &back, &case.tag, in_place, at);
        assert!(answer.accepted, "{what}");
        assert_eq!(answer.text, message.text, "{what}: back");
    }
}
