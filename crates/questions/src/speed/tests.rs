//! Tests whole runs of `kiln speed` with a source of toy algorithms.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kiln_kernel::Tier;
use kiln_measure::{Round, Series, Verdict};
use kiln_question::lens::Lens;
use kiln_question::{Error, Outcome};

use super::best;
use super::cores::{Cores, Threads};
use super::plan::Plan;
use super::row::Row;
use super::run::{run, run_with};
use kiln_timing::peer::Wanted;
use kiln_timing::{
    Candidate, Choice, Judge, Kind, Level, Messages, Op, Run, Source, Spec, Takes, Work, KILN,
};

/// A toy AEAD and a toy hash, each in a correct and a faulty version.
struct Toys;

/// Creates a toy AEAD that encrypts by XORing with the first byte of the IV. The tag is a checksum
/// byte over the associated data and the plaintext, repeated four times.
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
            more: Vec::new(),
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

fn outcome(change: impl FnOnce(&mut Plan)) -> Outcome<Row> {
    try_outcome(change).unwrap()
}

fn try_outcome(change: impl FnOnce(&mut Plan)) -> Result<Outcome<Row>, Error> {
    let mut plan = Plan {
        lens: Lens(vec![24, 30, 64]),
        peers: Wanted::None,
        turn: Some(Duration::from_millis(50)),
        ops: vec![Op::Encrypt, Op::Decrypt, Op::Digest],
        ..Plan::new(1)
    };
    change(&mut plan);
    let stop = AtomicBool::new(false);
    run_with(plan, &[&Toys], &stop, &mut |_, _| {})
}

#[test]
fn aeads_and_hashes_are_timed_and_faulty_ones_have_no_figure() {
    let outcome = outcome(|plan| plan.algs = vec!["toy-aead".into(), "toy-hash".into()]);
    assert!(outcome.failed);
    // Three operations, two lengths, two candidates. Length 30 is left out, because the toys
    // accept only multiples of 8 bytes.
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
    let chained = try_outcome(|plan| {
        plan.algs = vec!["toy-hash".into()];
        plan.latency = true;
    });
    let why = chained.unwrap_err().to_string();
    assert!(why.contains("--latency"), "{why}");
}

/// Runs Kiln's functions in one thread per core, and checks that the total throughput is the sum of
/// the threads' throughputs.
#[test]
fn several_threads_have_the_sum_of_their_rates() {
    let cores = Cores::choose(Threads::All).unwrap();
    let n = cores.count();
    let plan = Plan {
        algs: vec!["xts(aes)".into(), "gcm(aes)".into()],
        lens: Lens(vec![64, 1024]),
        peers: Wanted::None,
        within: Some(Duration::from_secs(2)),
        cores: Some(cores),
        ..Plan::new(1)
    };
    let stop = AtomicBool::new(false);
    let outcome = run(plan, &stop, &mut |_, _| {}).unwrap();
    assert!(!outcome.failed, "{:?}", outcome.notes);
    let threads = format!("{n} threads on cores");
    assert!(outcome.notes.iter().any(|note| note.starts_with(&threads)));
    for row in &outcome.rows {
        assert_eq!(row.threads, Some(n as u32));
        // On a busy machine, a row may have no valid sample.
        let Some(all) = &row.all else { continue };
        assert_eq!(all.thread_mb_per_s.len(), n);
        let sum: f64 = all.thread_mb_per_s.iter().sum();
        let off = sum / all.total_mb_per_s - 1.0;
        assert!(off.abs() < 0.005, "{row:?}");
    }
}

/// Measures Kiln's functions both with warm and with cold caches.
#[test]
fn cold_rows_are_additional() {
    let plan = Plan {
        algs: vec!["xts(aes)".into(), "gcm(aes)".into(), "sha256".into()],
        ops: vec![Op::Encrypt, Op::Decrypt, Op::Digest],
        lens: Lens(vec![64, 1024]),
        peers: Wanted::None,
        within: Some(Duration::from_secs(120)),
        cold: true,
        ..Plan::new(1)
    };
    let stop = AtomicBool::new(false);
    let outcome = run(plan, &stop, &mut |_, _| {}).unwrap();
    assert!(!outcome.failed, "{:?}", outcome.notes);
    let (cold, warm): (Vec<&Row>, Vec<&Row>) = outcome.rows.iter().partition(|row| row.cold);
    assert!(cold.len() >= 2 * 5, "{:?}", outcome.notes);
    for row in cold {
        assert!(
            row.measured() && row.ci_low <= row.cycles_per_op && row.cycles_per_op <= row.ci_high
        );
        assert!(warm
            .iter()
            .any(|w| (w.len, &w.imp, &w.op) == (row.len, &row.imp, &row.op)));
    }
    assert!(outcome.notes.iter().any(|note| note.starts_with("cold: ")));
}

/// If the other threads lack a source, the run must fail instead of measuring that source in only
/// one thread.
#[test]
fn threads_with_other_candidates_have_no_figure() {
    let Ok(cores) = Cores::choose(Threads::Count(2)) else {
        println!("SKIPPED: one core");
        return;
    };
    let outcome = outcome(|plan| {
        plan.algs = vec!["toy-hash".into()];
        plan.cores = Some(cores);
    });
    assert!(outcome.failed);
    assert!(outcome.rows.iter().all(|row| !row.measured()));
    let told = |note: &String| note.contains("in thread 2: this thread has other candidates");
    assert!(outcome.notes.iter().any(told), "{:?}", outcome.notes);
}

/// A thread that cannot be pinned must make the run fail, because its results would be attributed
/// to a core on which it did not run.
#[test]
fn a_thread_that_is_not_on_its_core_has_no_figure() {
    let plan = Plan {
        algs: vec!["gcm(aes)".into()],
        lens: Lens(vec![64]),
        peers: Wanted::None,
        within: Some(Duration::from_secs(60)),
        cores: Some(Cores::with_a_missing_core()),
        ..Plan::new(1)
    };
    let outcome = run(plan, &AtomicBool::new(false), &mut |_, _| {}).unwrap();
    assert!(outcome.failed, "{:?}", outcome.notes);
    assert!(outcome.rows.iter().all(|row| !row.measured()));
    let told = |note: &String| note.contains("in thread 2: cannot pin to cores 1023: ");
    assert!(outcome.notes.iter().any(told), "{:?}", outcome.notes);
}

/// Creates a series from the cycles of eight rounds and the nanoseconds per cycle.
fn series(figures: [f64; 8], ns: f64) -> Series {
    let rounds = |unit: f64| {
        let round = |figure: &f64| Round {
            best: Some(figure * unit),
            samples: vec![figure * unit],
            complete: true,
        };
        figures.iter().map(round).collect()
    };
    Series {
        rounds: rounds(1.0),
        rounds_ns: rounds(ns),
        ..Series::default()
    }
}

fn function(name: &'static str, provider: &str) -> Candidate<'static> {
    Candidate::primitive(name, provider, None, hash(false))
}

fn call(name: &'static str, tier: Tier) -> Candidate<'static> {
    Candidate {
        level: Level::Api,
        tier: Some(tier.name().into()),
        ..function(name, KILN)
    }
}

/// Checks that API calls are compared with library calls, functions with a tree's functions, and
/// functions that process several messages at once with functions of the same kind.
#[test]
fn like_is_compared_with_like() {
    let together = |c: Candidate<'static>| Candidate {
        together: true,
        ..c
    };
    let all = [
        (function("own", KILN), 40.0),
        (call("wide", Tier::VaesAvx512), 80.0),
        (call("narrow", Tier::VaesAvx2), 90.0),
        (function("EVP", "openssl-3.0.19"), 100.0),
        (function("slow", "nettle-3.8"), 200.0),
        (function("asm", "linux-6.12.1"), 50.0),
        (together(function("jobs", "ipsec-mb-1.3.0")), 4.0),
        (together(function("many", KILN)), 8.0),
        // The last two candidates must be ignored. The first is a hash's block function, which does
        // less work than a complete hash computation. The second makes requests to the tree instead
        // of calling one of its functions.
        (
            Candidate {
                digest: Some(40),
                ..function("block", "linux-6.12.1")
            },
            5.0,
        ),
        (
            Candidate {
                level: Level::Api,
                ..function("request", "linux-6.12.1")
            },
            5.0,
        ),
    ];
    let times: Vec<Series> = all.iter().map(|(_, c)| series([*c; 8], 0.25)).collect();
    let mut timed: Vec<(&Candidate, Option<&Series>)> = all
        .iter()
        .map(|(c, _)| c)
        .zip(times.iter().map(Some))
        .collect();
    let best = best::find_best(&timed);
    let (i, peer) = best.peer.unwrap();
    assert_eq!(
        (i, &*peer.best_peer, &*peer.best_peer_provider),
        (1, "EVP", "openssl-3.0.19")
    );
    assert_eq!(
        (peer.best_peer_ratio, peer.best_peer_time_ratio),
        (0.8, 0.8)
    );
    assert_eq!(peer.best_peer_verdict, Verdict::Faster);
    assert_eq!(peer.best_peer_ymm_impl.as_deref(), Some("narrow"));
    assert_eq!(peer.best_peer_ymm_time_ratio, Some(0.9));
    let (i, tree) = best.tree.unwrap();
    assert_eq!((i, &*tree.best_tree, tree.best_tree_ratio), (0, "asm", 0.8));
    let (i, many) = best.many.unwrap();
    assert_eq!(
        (i, &*many.kiln_impl, many.kiln_time_ratio),
        (6, "many", 2.0)
    );
    assert_eq!(many.kiln_verdict, Verdict::Slower);
    // If Kiln has no function for several messages, its function for a single message is used.
    timed.remove(7);
    let (_, many) = best::find_best(&timed).many.unwrap();
    assert_eq!((&*many.kiln_impl, many.kiln_time_ratio), ("own", 10.0));
    // Without an API call by Kiln, libraries are not compared.
    timed.drain(1..3);
    let best = best::find_best(&timed);
    assert!(best.peer.is_none() && best.tree.is_some());
    // If Kiln's fastest call does not use 512-bit vectors, the `best_peer_ymm_*` fields are absent.
    let two = [(&all[2].0, Some(&times[2])), (&all[3].0, Some(&times[3]))];
    assert_eq!(
        best::find_best(&two).peer.unwrap().1.best_peer_ymm_impl,
        None
    );
}

/// Checks that 512-bit code that takes fewer cycles but more time is not considered faster than
/// Kiln's other implementations or than a library.
#[test]
fn time_decides_where_the_clock_is_lowered() {
    let all = [
        call("wide", Tier::VaesAvx512),
        call("narrow", Tier::VaesAvx2),
        function("EVP", "openssl-3.0.19"),
    ];
    let (wide, narrow) = (series([80.0; 8], 0.4), series([90.0; 8], 0.25));
    let other = series([100.0; 8], 0.25);
    let timed = [
        (&all[0], Some(&wide)),
        (&all[1], Some(&narrow)),
        (&all[2], Some(&other)),
    ];
    let (i, peer) = best::find_best(&timed).peer.unwrap();
    assert_eq!((i, peer.best_peer_verdict), (1, Verdict::Faster));
    // If Kiln has only 512-bit code, the ratios of cycles and of time contradict each other.
    let timed = [timed[0], timed[2]];
    let (_, peer) = best::find_best(&timed).peer.unwrap();
    assert_eq!(peer.best_peer_verdict, Verdict::Disagree);
    assert!(peer.best_peer_ratio < 1.0 && peer.best_peer_time_ratio > 1.0);
}

/// Checks that a single lucky round does not make a candidate the fastest.
#[test]
fn the_best_is_what_usually_takes_least() {
    let lucky = series(
        [50.0, 110.0, 111.0, 112.0, 111.0, 110.0, 112.0, 111.0],
        0.25,
    );
    let (steady, other) = (series([90.0; 8], 0.25), series([100.0; 8], 0.25));
    let all = [
        call("lucky", Tier::Aesni),
        call("steady", Tier::Aesni),
        function("function", "nettle-3.8"),
    ];
    let timed = [
        (&all[0], Some(&lucky)),
        (&all[1], Some(&steady)),
        (&all[2], Some(&other)),
    ];
    let (i, best) = best::find_best(&timed).peer.unwrap();
    assert_eq!((i, best.best_peer_ratio), (1, 0.9));
}
