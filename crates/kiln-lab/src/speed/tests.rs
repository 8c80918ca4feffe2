//! A source of another kind than Kiln's own, run from end to end.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::candidate::{Candidate, Judge, Run, Takes};
use super::level::Level;
use super::plan::Plan;
use super::run::{run_with, Outcome};
use super::shape::{Kind, Op};
use super::source::{Choice, Source, Spec, Work};
use super::Messages;
use crate::lens::Lens;
use crate::peer::Wanted;
use crate::Error;

/// A toy AEAD and a toy hash, each twice: right, and with one fault.
struct Toys;

/// Ciphertext: XOR with the IV's first byte; tag: sums of associated data and plaintext, seven times over.
fn aead(op: Op, faulty: bool) -> Run<'static> {
    Box::new(move |m: &mut Messages, calls| {
        let (shape, count) = (m.shape, m.count() as u64);
        for call in 0..calls.min(2 * count) {
            let i = (call % count) as usize;
            let (iv, src) = m.one_mut(i);
            let pad = iv[0];
            let (prefix, data) = src.split_at(shape.prefix);
            let text: Vec<u8> = data[..shape.len].iter().map(|b| b ^ pad).collect();
            let plain = if op == Op::Encrypt {
                &data[..shape.len]
            } else {
                &text
            };
            let sum = |bytes: &[u8]| {
                bytes
                    .iter()
                    .fold(7u8, |s, b| s.wrapping_mul(31).wrapping_add(*b))
            };
            let tag = sum(prefix) ^ sum(plain) ^ u8::from(faulty);
            if op == Op::Decrypt && data[shape.len..] != [tag; 4] {
                return Err("a tag is wrong".to_string());
            }
            let at = i * m.dst_stride + shape.prefix;
            let dst = m.parts().2;
            dst[at..at + shape.len].copy_from_slice(&text);
            if op == Op::Encrypt {
                dst[at + shape.len..at + shape.len + 4].fill(tag);
            }
        }
        Ok(())
    })
}

fn hash(faulty: bool) -> Run<'static> {
    Box::new(move |m: &mut Messages, calls| {
        let count = m.count() as u64;
        for call in 0..calls.min(2 * count) {
            let i = (call % count) as usize;
            let sum: u8 = m.one_mut(i).1.iter().fold(0, |s, b| s ^ b);
            let at = i * m.dst_stride;
            let digest = m.shape.digest;
            m.parts().2[at..at + digest].fill(sum ^ u8::from(faulty && call == 3));
        }
        Ok(())
    })
}

impl Source for Toys {
    fn algorithms(&self) -> Vec<Spec> {
        let spec = |name: &'static str, kind| Spec {
            name: name.into(),
            kind,
            key_bits: vec![0],
            iv: if kind == Kind::Aead { 12 } else { 0 },
            prefix: if kind == Kind::Aead { 16 } else { 0 },
            tag: 4,
            digest: 8,
            takes: Takes::default(),
        };
        vec![spec("toy-aead", Kind::Aead), spec("toy-hash", Kind::Hash)]
    }

    fn names(&self, alg: &str) -> Vec<(String, Level)> {
        let names = ["good", "faulty"].map(|n| (format!("{alg}-{n}"), Level::Api));
        names.to_vec()
    }

    fn candidates(
        &self,
        work: &Work,
        choice: Choice,
        _: &mut Vec<String>,
    ) -> Result<Vec<Candidate<'_>>, Error> {
        let mut found = Vec::new();
        for faulty in [false, true] {
            let name = format!(
                "{}-{}",
                work.spec.name,
                if faulty { "faulty" } else { "good" }
            );
            let run = match &*work.spec.name {
                "toy-aead" => aead(work.op, faulty),
                "toy-hash" => hash(faulty),
                _ => continue,
            };
            if choice.wants(&name, Level::Api) {
                found.push(Candidate {
                    level: Level::Api,
                    takes: Takes {
                        multiple: 8,
                        ..Takes::default()
                    },
                    ..Candidate::primitive(name, "toys-1", None, run)
                });
            }
        }
        Ok(found)
    }

    fn judge(&self, work: &Work) -> Result<Option<Judge<'_>>, Error> {
        let run = match &*work.spec.name {
            "toy-aead" => aead(work.op, false),
            "toy-hash" => hash(false),
            _ => return Ok(None),
        };
        let name = "toy judge".to_string();
        Ok(Some(Judge { name, run }))
    }
}

fn outcome(change: impl FnOnce(&mut Plan)) -> Outcome {
    let mut plan = Plan {
        lens: Lens(vec![24, 30, 64]),
        peers: Wanted::None,
        turn: Some(Duration::from_millis(50)),
        ops: vec![Op::Encrypt, Op::Decrypt, Op::Digest],
        ..Plan::new(1)
    };
    change(&mut plan);
    let stop = AtomicBool::new(false);
    run_with(plan, &[&Toys], 4e9, &stop, &mut |_, _| {}).unwrap()
}

#[test]
fn aeads_and_hashes_are_timed_and_faulty_ones_have_no_figure() {
    let outcome = outcome(|plan| plan.algs = vec!["toy-aead".into(), "toy-hash".into()]);
    assert!(outcome.failed);
    // 30 bytes is no multiple of 8.
    assert_eq!(outcome.rows.len(), 3 * 2 * 2, "{:?}", outcome.rows);
    for row in &outcome.rows {
        assert_eq!(row.measured(), row.imp.ends_with("good"), "{row:?}");
        assert_eq!((row.level, row.key_bits), (Level::Api, 0));
        assert_eq!(row.provider, "toys-1");
    }
    let ops: Vec<&str> = outcome.rows.iter().map(|r| &*r.op).collect();
    for op in ["encrypt", "decrypt", "digest"] {
        assert_eq!(ops.iter().filter(|o| **o == op).count(), 4);
    }
    let wrong = outcome.notes.iter().filter(|n| n.contains("WRONG ANSWER"));
    assert_eq!(wrong.count(), 6, "{:?}", outcome.notes);
    let told = |what: &str| outcome.notes.iter().any(|n| n.contains(what));
    assert!(
        told("message 3 differs from toy judge's at byte 0"),
        "{:?}",
        outcome.notes
    );
    assert!(told("a tag is wrong"), "{:?}", outcome.notes);
}

#[test]
fn names_levels_and_latency_choose() {
    let one = outcome(|plan| plan.impls = vec!["toy-hash-good".into()]);
    assert!(!one.failed && one.rows.len() == 2, "{:?}", one.rows);
    let none = outcome(|plan| {
        plan.algs = vec!["toy-hash".into()];
        plan.level = Some(Level::Primitive);
    });
    assert!(none.rows.is_empty());
    let chained = outcome(|plan| {
        plan.algs = vec!["toy-hash".into()];
        plan.latency = true;
    });
    assert!(chained.rows.is_empty());
    assert!(
        chained.notes.iter().any(|n| n.contains("--latency")),
        "{:?}",
        chained.notes
    );
}

/// Kiln's own against a toy that does nothing right but its answers: requests, several messages at a time and
/// unfinished digests are no match, a function is.
#[test]
fn the_best_peer_does_one_whole_message() {
    use super::best;
    use super::candidate::KILN;
    use kiln_measure::{measure, Subject};

    let spin = |n: u64| {
        move |calls: u64| {
            for i in 0..calls * n {
                std::hint::black_box(i);
            }
        }
    };
    let mut subjects = vec![
        Subject::new("own", spin(400)),
        Subject::new("other", spin(800)),
        Subject::new("fast", spin(50)),
    ];
    let plan = kiln_measure::Plan {
        rounds: 8,
        samples: 2,
        sample_us: 20.0,
        seed: 1,
        deadline: None,
    };
    let series = measure(
        &mut subjects,
        &plan,
        &AtomicBool::new(false),
        &mut |_, _| {},
    );
    let of = |name: &'static str, provider: &str| {
        Candidate::primitive(name, provider, None, hash(false))
    };
    let fast = [
        Candidate {
            together: true,
            ..of("jobs", "peer-1")
        },
        Candidate {
            digest: Some(40),
            ..of("block", "linux-6")
        },
        Candidate {
            level: Level::Api,
            ..of("request", "linux-6")
        },
    ];
    let (own, other) = (of("own", KILN), of("function", "peer-1"));
    let mut all = vec![(&other, Some(&series[1])), (&own, Some(&series[0]))];
    all.extend(fast.iter().map(|c| (c, Some(&series[2]))));
    let (i, best) = best::of(&all).unwrap();
    assert_eq!((i, &*best.best_peer), (1, "function"));
    assert_eq!(best.best_peer_provider, "peer-1");
    assert!(best.best_peer_ratio_low <= best.best_peer_ratio);
    // Without it there is nobody.
    all.remove(0);
    assert!(best::of(&all).is_none());
}

/// One lucky round makes nobody the fastest.
#[test]
fn the_best_is_what_usually_takes_least() {
    use super::best;
    use super::candidate::KILN;
    use kiln_measure::{Round, Series};

    let series = |figures: [f64; 8]| Series {
        rounds: figures
            .iter()
            .map(|cycles| Round {
                best: Some(*cycles),
                samples: vec![*cycles],
                complete: true,
            })
            .collect(),
        ..Series::default()
    };
    let lucky = series([50.0, 110.0, 111.0, 112.0, 111.0, 110.0, 112.0, 111.0]);
    let (steady, other) = (series([90.0; 8]), series([100.0; 8]));
    let of = |name: &'static str, provider: &str| {
        Candidate::primitive(name, provider, None, hash(false))
    };
    let all = [
        of("lucky", KILN),
        of("steady", KILN),
        of("function", "peer-1"),
    ];
    let timed = [
        (&all[0], Some(&lucky)),
        (&all[1], Some(&steady)),
        (&all[2], Some(&other)),
    ];
    let (i, best) = best::of(&timed).unwrap();
    assert_eq!((i, best.best_peer_ratio), (1, 0.9));
}
