//! The vectors of IEEE Std 1619-2018, annex B.

use std::io;

use kiln_kernel::xts::{Key, Op, BLOCK};

use super::bench::{Bench, Replay};
use super::case::Case;
use super::guard::Place;
use super::random::{Failure, Tally};
use super::subject::{Subject, ALG};

static TEXT: &str = include_str!("ieee1619.txt");

/// A known answer.
#[derive(Clone, Debug)]
pub struct Vector {
    /// Its number in the standard, or in whatever it comes from.
    pub name: String,
    /// Key1 then Key2.
    pub key: Vec<u8>,
    /// The data unit number, little-endian.
    pub iv: [u8; BLOCK],
    /// Before encryption.
    pub plain: Vec<u8>,
    /// After it.
    pub cipher: Vec<u8>,
}

/// All nineteen.
pub fn ieee1619() -> Vec<Vector> {
    let mut all: Vec<Vector> = Vec::new();
    let mut blocks = TEXT.split("\nvector ");
    blocks.next();
    for block in blocks {
        let (name, rest) = block.split_once('\n').expect("a name and its fields");
        let field = |key: &str| field(rest, key);
        let plain = match field("plain").as_str() {
            "count" => (0..512u32).map(|i| i as u8).collect(),
            other => match other.strip_prefix("vector") {
                None => hex(other),
                Some(of) => {
                    let of = all.iter().find(|v| v.name == of);
                    of.expect("an earlier vector").cipher.clone()
                }
            },
        };
        all.push(Vector {
            name: name.trim().to_string(),
            key: hex(&field("key")),
            iv: hex(&field("iv")).try_into().expect("16 bytes"),
            plain,
            cipher: hex(&field("cipher")),
        });
    }
    all
}

/// Both directions of each, in and out of place, at the guard pages and off alignment.
pub fn run(subject: &Subject<'_>, vectors: &[Vector]) -> io::Result<Tally> {
    let mut bench = Bench::new()?;
    let mut tally = Tally::default();
    let replay = format!("kiln test '{ALG}' --impl {} --cases 0", subject.name);
    for vector in vectors {
        let key = Key::new(&vector.key).expect("32, 48 or 64 bytes");
        for (op, data, want) in [
            (Op::Encrypt, &vector.plain, &vector.cipher),
            (Op::Decrypt, &vector.cipher, &vector.plain),
        ] {
            for place in [Place::End, Place::At(0), Place::At(64), Place::At(1)] {
                for in_place in [false, true] {
                    let case = Case {
                        number: 0,
                        op,
                        key: vector.key.clone(),
                        iv: vector.iv,
                        data: data.clone(),
                        in_place,
                        src: place,
                        dst: place,
                        iv_at: place,
                    };
                    tally.cases += 1;
                    if let Err(what) =
                        bench.check(subject, &key, &case, want, Replay(&replay, None))
                    {
                        tally.failed += 1;
                        tally.failures.push(Failure {
                            what: format!(
                                "vector {}, {op:?}, {place}, in place {in_place}: {what}",
                                vector.name
                            ),
                            replay: replay.clone(),
                        });
                    }
                }
            }
        }
    }
    Ok(tally)
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
    assert!(text.len() % 2 == 0, "an odd number of digits");
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hex digits"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nineteen_are_read() {
        let all = ieee1619();
        let names: Vec<&str> = all.iter().map(|v| v.name.as_str()).collect();
        let want: Vec<String> = (1..=19).map(|n| n.to_string()).collect();
        assert_eq!(names, want);
        for v in &all {
            let len = match v.name.parse() {
                Ok(1..=3) => 32,
                Ok(n @ 15..=18) => n + 2,
                _ => 512,
            };
            assert_eq!((v.plain.len(), v.cipher.len()), (len, len), "{}", v.name);
            let aes_256 = matches!(v.name.parse(), Ok(10..=14));
            assert_eq!(v.key.len(), if aes_256 { 64 } else { 32 }, "{}", v.name);
        }
        assert_eq!(all[4].plain, all[3].cipher);
    }
}
