//! Known answers: of RFCs, FIPS, NIST's SP 800-38 series, IEEE 1619, and of what else the files say.
//!
//! A file has cases, parted by empty lines; a case has lines `name = hex`. Names: `alg` (the kernel's), `key`, `iv`,
//! `aad`, `pt`, `ct`, `tag` for what encrypts, `msg` and `md` for hashes. `N * hex` is that many times the bytes,
//! `"..."` is text; a line of `#` says where a case is from. `kiln-kernel`'s own tests read the same files.

use kiln_kernel::cipher::{Impl, Op};

use super::judge::{judge, Judged};
use super::message::{Answer, Message};

/// The files of `crates/kiln-kernel/tests/ciphers/vectors`.
macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../kiln-kernel/tests/ciphers/vectors/", $name, ".txt")))),*]
    };
}

static FILES: &[(&str, &str)] = files!("blake2s" "blake2smac" "cbc" "ccm" "chacha20" "chachapoly" "cmac" "crc" "ctr" "ecb" "gcm"
    "ghash" "hmac_sha1" "hmac_sha256" "hmac_sha512" "nhpoly1305" "poly1305" "polyval" "rfc4106" "sha1" "sha256"
    "sha512" "sm3" "xts");

static IEEE_1619: &str = include_str!("ieee1619.txt");

/// A known answer.
#[derive(Clone, Debug)]
pub struct Vector {
    /// The kernel's name of the algorithm.
    pub alg: String,
    /// Where it is from.
    pub name: String,
    /// What is encrypted, or digested.
    pub message: Message,
    /// What comes of it; empty for a hash.
    pub cipher: Vec<u8>,
    /// Tag or digest.
    pub tag: Vec<u8>,
}

impl Vector {
    /// What is to be done in one direction, and its answer. What the standards do not say (an IV afterwards, what
    /// `setkey` makes of the key) is `with`'s.
    pub fn task(&self, with: Impl, op: Op) -> Result<(Message, Judged), String> {
        let mut message = self.message.clone();
        let mut text = self.cipher.clone();
        if op == Op::Decrypt {
            std::mem::swap(&mut message.text, &mut text);
        }
        let mut judged = judge(with, op, &message, &self.tag)?;
        judged.answer = Answer {
            text,
            tag: self.tag.clone(),
            iv: judged.answer.iv,
        };
        Ok((message, judged))
    }
}

/// All of an algorithm whose text is not longer than `longest`.
pub fn of(alg: &str, longest: usize) -> Vec<Vector> {
    let files = FILES.iter().flat_map(|(name, text)| parse(name, text));
    let ieee = (alg == "xts(aes)").then(ieee1619).unwrap_or_default();
    files
        .filter(|v| v.alg == alg)
        .chain(ieee)
        .filter(|v| v.message.text.len() <= longest)
        .collect()
}

fn parse(file: &str, text: &str) -> Vec<Vector> {
    let mut all = Vec::new();
    for block in text.split("\n\n") {
        let mut vector = Vector {
            alg: String::new(),
            name: file.to_string(),
            message: Message::default(),
            cipher: Vec::new(),
            tag: Vec::new(),
        };
        for line in block.lines().map(str::trim) {
            if let Some(source) = line.strip_prefix('#') {
                vector.name = format!("{file}, {}", source.trim());
                continue;
            }
            let Some((name, text)) = line.split_once('=') else {
                assert!(line.is_empty(), "{file}: {line}");
                continue;
            };
            let text = text.trim();
            match name.trim() {
                "alg" => vector.alg = text.to_string(),
                "key" => vector.message.key = value(text),
                "iv" => vector.message.iv = value(text),
                "aad" => vector.message.aad = value(text),
                "pt" | "msg" => vector.message.text = value(text),
                "ct" => vector.cipher = value(text),
                "tag" => {
                    vector.tag = value(text);
                    vector.message.tag_size = vector.tag.len();
                }
                "md" => vector.tag = value(text),
                other => panic!("{file}: {other}"),
            }
        }
        if !vector.alg.is_empty() {
            all.push(vector);
        }
    }
    all
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

/// IEEE Std 1619-2018, annex B: all nineteen.
pub fn ieee1619() -> Vec<Vector> {
    let mut all: Vec<Vector> = Vec::new();
    let mut blocks = IEEE_1619.split("\nvector ");
    blocks.next();
    for block in blocks {
        let (name, rest) = block.split_once('\n').expect("a name and its fields");
        let field = |key: &str| field(rest, key);
        let name = format!("IEEE 1619, vector {}", name.trim());
        let plain = match field("plain").as_str() {
            "count" => (0..512u32).map(|i| i as u8).collect(),
            other => match other.strip_prefix("vector") {
                None => hex(other),
                Some(of) => {
                    let of = format!("IEEE 1619, vector {of}");
                    let of = all.iter().find(|v| v.name == of);
                    of.expect("an earlier vector").cipher.clone()
                }
            },
        };
        all.push(Vector {
            alg: "xts(aes)".into(),
            name,
            message: Message {
                key: hex(&field("key")),
                iv: hex(&field("iv")),
                text: plain,
                ..Message::default()
            },
            cipher: hex(&field("cipher")),
            tag: Vec::new(),
        });
    }
    all
}

/// A field with its continued lines, without blanks.
fn field(block: &str, key: &str) -> String {
    let mut lines = block.lines().skip_while(|l| !l.starts_with(key));
    let first = lines.next().expect("every field is there");
    let mut value: String = first[key.len()..].split_whitespace().collect();
    for line in lines.take_while(|l| l.starts_with(' ')) {
        value.push_str(line.trim());
    }
    value
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    assert!(digits.len() % 2 == 0, "an odd number of digits: {text}");
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hex digits"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn all_nineteen_are_read() {
        let all = ieee1619();
        let names: Vec<&str> = all.iter().map(|v| v.name.as_str()).collect();
        let want: Vec<String> = (1..=19).map(|n| format!("IEEE 1619, vector {n}")).collect();
        assert_eq!(names, want);
        for (n, v) in (1..).zip(&all) {
            let len = match n {
                1..=3 => 32,
                15..=18 => n + 2,
                _ => 512,
            };
            assert_eq!(
                (v.message.text.len(), v.cipher.len()),
                (len, len),
                "{}",
                v.name
            );
            let aes_256 = matches!(n, 10..=14);
            assert_eq!(
                v.message.key.len(),
                if aes_256 { 64 } else { 32 },
                "{}",
                v.name
            );
        }
        assert_eq!(all[4].message.text, all[3].cipher);
    }

    #[test]
    fn every_file_is_embedded_and_every_algorithm_has_some() {
        let dir =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../kiln-kernel/tests/ciphers/vectors");
        let there: BTreeSet<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| {
                e.unwrap()
                    .path()
                    .file_stem()
                    .unwrap()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        let embedded: BTreeSet<String> = FILES.iter().map(|(n, _)| n.to_string()).collect();
        assert_eq!(embedded, there);
        for alg in Impl::algorithms() {
            assert!(!of(alg, usize::MAX).is_empty(), "{alg}");
        }
    }
}
