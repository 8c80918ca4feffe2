//! Tests the strategies that divide long messages into FPU sections. Results must not depend on the
//! strategy, sections must not exceed their limits, and stalls must not affect the measurements on
//! which budgets are based.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kiln_kernel::budget::{self, Planted, Run, Way};
use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::crypto::{Driver, Model};
use kiln_kernel::fpu::Policy;
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::messages::{Lens, Messages};
use kiln_kernel::Tier;
use kiln_measure::SplitMix64;

/// Prevents other tests from running at the same time, because strategies and budgets are global to
/// the process.
fn lock_budgets() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    Model::Direct.set();
    budget::force(None);
    guard
}

fn bytes(n: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; n];
    SplitMix64(seed).fill(&mut bytes);
    bytes
}

fn judge_of(alg: &str) -> Impl {
    let all = Impl::find_all(alg);
    let generic = all.iter().find(|i| i.tier() == Tier::Generic);
    *generic.expect("every algorithm has generic code")
}

fn simd_of(alg: &str) -> Vec<Impl> {
    let wanted = |i: &Impl| i.tier() != Tier::Generic && i.tier().usable();
    Impl::find_all(alg).into_iter().filter(wanted).collect()
}

/// An implementation under test, and its driver.
struct Subject(Impl, Driver);

impl Subject {
    fn open(imp: Impl) -> Subject {
        let mut driver = Driver::open(imp).expect("a usable driver");
        if imp.is_keyed() {
            let sizes = imp.key_sizes().into_iter();
            let fits = |&n: &usize| n <= 64 || imp.alg() == "nhpoly1305";
            let len = sizes.rev().find(fits).unwrap_or(64);
            driver.set_key(&bytes(len, 5)).expect("a key size it takes");
        }
        Subject(imp, driver)
    }

    fn seal(&mut self, src: &[u8], lens: Lens) -> Vec<u8> {
        self.ask(Op::Encrypt, src, lens)
    }

    /// Makes one request with source and destination at odd addresses, and returns its result.
    fn ask(&mut self, op: Op, src: &[u8], lens: Lens) -> Vec<u8> {
        const OFF: usize = 3;
        let Subject(imp, driver) = self;
        let mut from = vec![0; OFF + src.len()];
        from[OFF..].copy_from_slice(src);
        let mut to = vec![0xa5; 1 + lens.dst(op) + 1];
        let mut iv = bytes(imp.iv_size(), 9);
        if imp.alg() == "ccm(aes)" {
            iv[0] = 3;
        }
        let mut iv_room = iv.clone();
        let end = to.len() - 1;
        let message = Messages {
            iv_room: &mut iv_room,
            ..Messages::single(op, &from[OFF..], &mut to[1..end], &iv)
        };
        let later = driver
            .run(&mut message.with_lens(lens), 1)
            .unwrap_or_else(|e| panic!("{imp:?} {op:?} {lens:?}: {e}"));
        assert_eq!(later, 0);
        // The bytes before and after the result must be unchanged.
        assert_eq!((to[0], to[end]), (0xa5, 0xa5), "{imp:?}");
        // Append the final content of the IV, which is part of a cipher's result.
        if imp.kind() == Kind::Skcipher {
            to.extend(&iv_room);
        }
        // Skip the associated data, which is not written to the destination.
        to[1 + if lens.digest == 0 { lens.assoc } else { 0 }..].to_vec()
    }
}

/// Returns message lengths at which faults are likely: near the boundaries of blocks and of code
/// loops, and near `budget`.
fn lengths(imp: Impl, budget: usize) -> Vec<usize> {
    let block = imp.block_size().max(16);
    let mut all = vec![0, 1, block - 1, block];
    all.extend([budget - 1, budget, budget + 1, 2 * budget + 1]);
    // Add lengths near the boundaries of loops over several vectors, and near the lengths of the
    // parts into which CRC-32C divides messages.
    all.extend([
        192, 255, 256, 448, 512, 768, 896, 1008, 1024, 1025, 4032, 4080,
    ]);
    let shortest = imp.shortest();
    let skcipher = imp.kind() == Kind::Skcipher;
    for n in &mut all {
        *n = (*n).max(shortest);
        if skcipher {
            *n = n.next_multiple_of(imp.block_size());
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the minimum and maximum number of sections for a request of this size if a section
/// processes at most `most` bytes.
fn sections(imp: Impl, lens: Lens, most: usize) -> (u64, u64) {
    let whole = lens.assoc + lens.text + lens.tag;
    // Requests with an empty message do not call the cipher, so they open no section.
    if imp.kind() == Kind::Skcipher && lens.text == 0 {
        return (0, 0);
    }
    if whole <= most {
        return (1, 1);
    }
    let calls = (lens.assoc + lens.text).div_ceil(most).max(1) as u64;
    match imp.kind() {
        Kind::Hash => (calls, calls),
        // One more section is possible, because ciphertext stealing holds back a block, and
        // associated data and text are not processed by the same call.
        _ => (calls, calls + 1),
    }
}

#[test]
fn every_way_answers_what_generic_code_does() {
    let _one = lock_budgets();
    // Plant rates at which SIMD is faster than scalar code even for the shortest messages.
    plant(&[], 700, false);
    let cpu = Cpu::boot(&Config::default()).unwrap();
    let mut requests = 0;
    for alg in Impl::algorithms() {
        let mut judge = Subject::open(judge_of(alg));
        let mut known: HashMap<(usize, usize, bool), Vec<u8>> = HashMap::new();
        for imp in simd_of(alg) {
            let granule = imp.budget().granule as usize;
            let mut subject = Subject::open(imp);
            for way in Way::ALL {
                let by_bytes = !matches!(way, Way::Unbounded | Way::Clocked | Way::OnDemand);
                // Test constant budgets as they are. Replace measured budgets with a fixed value,
                // because they differ between machines.
                let constant = matches!(way, Way::Page | Way::Fixed | Way::Class);
                budget::force((!constant).then_some(4 * granule as u32));
                way.set(1 << 40);
                let most = imp.budget().most[0] as usize;
                let unbounded = way == Way::Unbounded;
                let around = if unbounded { 4 * granule } else { most };
                let unit = granule.min(imp.block_size().max(16));
                assert_eq!(around % unit, 0, "{imp:?} {way}");
                for len in lengths(imp, around) {
                    let assocs = match (imp.kind(), alg) {
                        (Kind::Aead, "rfc4106(gcm(aes))") => vec![16],
                        (Kind::Aead, _) if len < 300 => vec![16, 2 * around + 1],
                        _ => vec![16],
                    };
                    for assoc in assocs {
                        let lens = imp.lens(assoc, len);
                        let src = bytes(lens.src(Op::Encrypt), 1 + len as u64);
                        let want = known
                            .entry((len, lens.assoc, false))
                            .or_insert_with(|| judge.seal(&src, lens));
                        let before = cpu.stats().sections;
                        let got = subject.seal(&src, lens);
                        let opened = cpu.stats().sections - before;
                        assert!(got == *want, "{imp:?} {way}: {len} + {} bytes", lens.assoc);
                        requests += 1;
                        let (least, at_most) = sections(imp, lens, most);
                        if by_bytes || unbounded {
                            assert!(
                                (least..=at_most).contains(&opened),
                                "{imp:?} {way} {lens:?}: {opened} sections, {least} to {at_most}"
                            );
                        } else if at_most > 0 {
                            // Expect a single section: nothing is pending and the target is never
                            // reached, so the strategy has no reason to end the section early.
                            assert_eq!(opened, 1, "{imp:?} {way} {lens:?}");
                        }
                        if imp.kind() == Kind::Hash {
                            continue;
                        }
                        let skcipher = imp.kind() == Kind::Skcipher;
                        let iv = if skcipher { imp.iv_size() } else { 0 };
                        // Drop the guard byte and the IV, which follow the text and the tag.
                        let sealed = [&src[..lens.assoc], &want[..want.len() - 1 - iv]].concat();
                        let got = subject.ask(Op::Decrypt, &sealed, lens);
                        let what = format!("{imp:?} {way}: decrypting {len} bytes");
                        assert!(got[..len] == src[lens.assoc..lens.assoc + len], "{what}");
                        let want = known
                            .entry((len, lens.assoc, true))
                            .or_insert_with(|| judge.ask(Op::Decrypt, &sealed, lens));
                        assert!(got == *want, "{what}: what it leaves");
                    }
                }
            }
        }
    }
    assert!(requests > 5_000 || !Tier::Aesni.usable(), "{requests}");
}

/// Uses long pieces, because XTS advances its tweak between pieces in steps of 16384, 2048, 128 and
/// 56 blocks.
#[test]
fn tweaks_of_long_pieces_are_right() {
    let _one = lock_budgets();
    let judge = judge_of("xts(aes)");
    let src = bytes(700_001, 8);
    let lens = judge.lens(0, src.len());
    let want = Subject::open(judge).seal(&src, lens);
    for imp in simd_of("xts(aes)") {
        let mut subject = Subject::open(imp);
        for most in [100_032, 340_032, 16 * 127, 16 * 2047] {
            budget::force(Some(most));
            Way::Calibrated.set(1);
            let got = subject.seal(&src, lens);
            assert!(got == want, "{imp:?}: {most} bytes a section");
        }
    }
}

/// Under the clocked strategy, the step size adapts to the target. It must remain a positive number
/// of whole blocks, no matter how short the target is.
#[test]
fn the_clock_halves_no_step_to_nothing() {
    let _one = lock_budgets();
    for alg in Impl::algorithms() {
        let mut judge = Subject::open(judge_of(alg));
        for imp in simd_of(alg) {
            let mut subject = Subject::open(imp);
            // Plant rates and set a long target, so that the first steps are long.
            plant(&[], 700, false);
            Way::Clocked.set(1 << 20);
            let lens = imp.lens(16, 20_480);
            let src = bytes(lens.src(Op::Encrypt), 6);
            let want = judge.seal(&src, lens);
            for target in [1, 200, 1_000, 5_000, 20_000, 80_000] {
                Way::Clocked.set(target);
                for _ in 0..30 {
                    let got = subject.seal(&src, lens);
                    assert!(got == want, "{imp:?}: a target of {target} ticks");
                    let known = imp.budget();
                    let step = known.most[0];
                    let whole = step > 0 && step % known.granule == 0;
                    assert!(whole, "{imp:?}: {step} bytes");
                }
            }
        }
    }
    budget::calibrate();
}

/// Control: comparing the results must detect a lost piece.
#[test]
fn a_lost_piece_is_seen() {
    let imp = judge_of("sha256");
    let mut subject = Subject::open(imp);
    let text = bytes(600, 3);
    let mut digest = |n| subject.seal(&text[..n], imp.lens(0, n));
    assert_ne!(digest(600), digest(536));
}

/// A row of `kernel/crypto/posted.def`.
struct Posted {
    alg: String,
    level: String,
    bytes: u32,
    driver: Option<String>,
    id: String,
}

fn parse_posted(text: &str) -> Vec<Posted> {
    let rows = text.lines().filter(|l| l.starts_with("POSTED("));
    rows.map(|line| {
        let inner = line.strip_prefix("POSTED(").unwrap();
        let inner = inner.strip_suffix(')').expect("a row ends with its line");
        let [alg, level, kib, driver, id] = inner.split(", ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let unquoted = |s: &str| s.trim_matches('"').to_string();
        Posted {
            alg: unquoted(alg),
            level: unquoted(level),
            bytes: kib.parse::<u32>().unwrap() * 1024,
            driver: (driver != "NULL").then(|| unquoted(driver)),
            id: unquoted(id),
        }
    })
    .collect()
}

/// Returns the driver names of the implementations whose limit in `kernel/` differs from the table.
fn unlike_posted(table: &[Posted]) -> Vec<String> {
    let limit = |imp: &Impl| {
        let row = |p: &&Posted| p.driver.as_deref() == Some(imp.driver());
        table.iter().find(row).map(|p| p.bytes)
    };
    let all = Impl::all().into_iter();
    let unlike = all.filter(|i| i.budget().posted != limit(i));
    unlike.map(|i| i.driver().to_string()).collect()
}

const POSTED: &str = include_str!("../../../kernel/crypto/posted.def");

#[test]
fn fixed_is_what_was_posted_for_the_algorithm_and_the_tier_and_nothing_else() {
    let _one = lock_budgets();
    let table = parse_posted(POSTED);
    assert_eq!(table.len(), 23);
    assert_eq!(unlike_posted(&table), [""; 0]);
    // Controls: a changed limit, an additional limit, and a missing row must be detected.
    let planted = |from: &str, to: &str| {
        assert!(POSTED.contains(from), "{from}");
        unlike_posted(&parse_posted(&POSTED.replace(from, to)))
    };
    let number = planted("50, \"ghash-aesni\"", "400, \"ghash-aesni\"");
    assert_eq!(number, ["ghash-aesni"]);
    let tier = planted(
        "NULL, \"20221116041342.3841-12",
        "\"sm3-avx512\", \"20221116041342.3841-12",
    );
    assert_eq!(tier, ["sm3-avx512"]);
    let gone = planted("\"polyval-aesni\"", "NULL");
    assert_eq!(gone, ["polyval-aesni"]);
}

#[test]
fn a_posted_limit_is_of_the_same_algorithm_and_isa_level_and_has_a_message_id() {
    for row in parse_posted(POSTED) {
        let (series, patch) = row.id.split_once('-').unwrap();
        let patch = patch.strip_suffix("-elliott@hpe.com");
        let patch: u32 = patch.expect("a Message-Id").parse().unwrap();
        let patches = match series {
            "20221103042740.6556" => 17,
            "20221116041342.3841" => 24,
            _ => panic!("{series}: neither version 3 nor 4"),
        };
        // The cover letter is patch 1, so the first real patch is patch 2.
        assert!((2..=patches + 1).contains(&patch));
        let Some(driver) = &row.driver else {
            continue;
        };
        let imp = Impl::find(driver).unwrap_or_else(|| panic!("Kiln has no {driver}"));
        assert_eq!(imp.alg(), row.alg);
        let tier = match row.level.as_str() {
            "sse2" | "clmulni" | "pclmul" => "aesni",
            "avx" if row.alg == "sm3" => "avx2",
            "avx512" => "vaes-avx512",
            level => level,
        };
        assert_eq!(imp.tier().name(), tier, "{driver}");
    }
}

/// Checks the sections of actual requests, not only the limits in the table.
#[test]
fn requests_are_cut_by_the_posted_limits() {
    let _one = lock_budgets();
    plant(&[], 700, false);
    let cpu = Cpu::boot(&Config::default()).unwrap();
    Way::Fixed.set(1);
    for row in parse_posted(POSTED) {
        let imp = row.driver.as_deref().and_then(Impl::find);
        let Some(imp) = imp.filter(|i| i.tier().usable()) else {
            continue;
        };
        let mut subject = Subject::open(imp);
        for (pieces, len) in [(1, row.bytes), (2, row.bytes + 1), (3, 3 * row.bytes)] {
            let lens = imp.lens(0, len as usize);
            let src = bytes(lens.src(Op::Encrypt), 3);
            let before = cpu.stats().sections;
            subject.seal(&src, lens);
            let opened = cpu.stats().sections - before;
            assert_eq!(opened, pieces, "{imp:?}: {len} bytes");
        }
    }
    budget::calibrate();
}

fn compiles(expression: &str) -> bool {
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/include");
    let text = format!("#include <kiln/budget.h>\nenum {{ BYTES_PER_FPU = {expression} }};\n");
    let mut cc = Command::new("cc")
        .args(["-std=gnu11", "-ffreestanding", "-mgeneral-regs-only"])
        .args(["-fsyntax-only", "-I", include, "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a C compiler");
    std::io::Write::write_all(&mut cc.stdin.take().unwrap(), text.as_bytes()).unwrap();
    cc.wait().unwrap().success()
}

#[test]
fn constants_that_cannot_be_do_not_compile() {
    assert!(compiles("FPU_BUDGET(337 * 1024, 1024)"));
    assert!(!compiles("FPU_BUDGET(0, 16)"));
    assert!(!compiles("FPU_BUDGET(1000, 16)"));
    assert!(!compiles("FPU_BUDGET(-64, 64)"));
}

/// Returns the budgets of all implementations for a section of 30 µs at a TSC frequency of 2.6 GHz.
fn budgets() -> Vec<Option<u32>> {
    let all = Impl::all().into_iter();
    all.map(|i| i.bytes_in(Op::Encrypt, 78_000)).collect()
}

/// Returns one simulated rate per implementation, in TSC ticks per 65536 bytes. The values range
/// from that of a fast checksum to that of a slow hash.
fn rates() -> Vec<u64> {
    (0..Impl::all().len() as u64)
        .map(|i| 2_000 + i * i * i % 470_001)
        .collect()
}

fn plant(stalls: &[u64], chain: u64, again: bool) -> bool {
    let rates = rates();
    let planted = Planted {
        rates: &rates,
        stalls,
        chain,
    };
    budget::calibrate_planted(&planted, again).is_some()
}

fn most_moved(a: &[Option<u32>], b: &[Option<u32>]) -> f64 {
    let moved = |(a, b): (&Option<u32>, &Option<u32>)| {
        let (a, b) = (a.map_or(1.0, f64::from), b.map_or(1.0, f64::from));
        (b / a - 1.0).abs()
    };
    a.iter().zip(b).map(moved).fold(0.0, f64::max)
}

/// Plants stalls like those caused by interrupts, by SMIs and by the host. Some last a few
/// microseconds, some last a few hundred microseconds, and some affect many consecutive runs.
#[test]
fn planted_stalls_move_no_budget() {
    let _one = lock_budgets();
    plant(&[], 700, false);
    let clean = budgets();
    assert!(clean.iter().all(|b| b.is_some_and(|n| n > 0)));
    for seed in 1..100u64 {
        let draw = bytes(2 * 997, seed);
        let mut stalls: Vec<u64> = draw
            .chunks(2)
            .map(|d| match d[0] {
                0..64 => 50 + u64::from(d[1]) * 3_000,
                _ => 0,
            })
            .collect();
        // Add the stall of an SMI, which stops all CPUs and therefore affects many runs.
        stalls[200..340].fill(600_000);
        plant(&stalls, 700, false);
        let moved = most_moved(&clean, &budgets());
        assert!(moved <= 0.05, "seed {seed}: by {:.1} %", 100.0 * moved);
    }
    // Control: stalls in every run must change the budgets.
    plant(&[40_000, 60_000, 90_000], 700, false);
    assert!(most_moved(&clean, &budgets()) > 0.05);
    // Restore real measurements, because other tests start from these budgets.
    budget::calibrate();
}

#[test]
fn another_clock_speed_is_noticed() {
    let _one = lock_budgets();
    plant(&[], 700, false);
    assert!(!plant(&[], 700, true));
    assert!(!plant(&[], 720, true), "less than a twentieth slower");
    assert!(plant(&[], 800, true));
    assert!(!plant(&[], 800, true), "measured anew");
    assert!(plant(&[], 400, true), "faster, too");
    budget::calibrate();
}

#[test]
fn what_is_measured_fits_and_one_of_each_is_fastest() {
    let _one = lock_budgets();
    budget::calibrate();
    for alg in Impl::algorithms() {
        let all = Impl::find_all(alg);
        let fastest = all.iter().filter(|i| i.budget().fastest);
        assert_eq!(fastest.count(), 1, "{alg}");
        for imp in all.into_iter().filter(|i| i.tier().usable()) {
            let known = imp.budget();
            assert!(known.rate.iter().all(|&r| r > 0.0), "{imp:?}");
            let [tick, little, much] =
                [1, 100_000, 400_000].map(|ticks| imp.bytes_in(Op::Encrypt, ticks));
            assert_eq!(tick, None, "{imp:?}");
            assert!(little <= much, "{imp:?}");
            assert_eq!(much.unwrap() % known.granule, 0, "{imp:?}");
        }
    }
}

/// Runs long messages with `imp` and the strategy `way` while a timer sends interrupts, until
/// `done` returns true.
fn disturbed(
    imp: Impl,
    way: Way,
    long_ticks: u64,
    mut done: impl FnMut(&budget::Part) -> bool,
) -> budget::Part {
    let config = Config {
        preempt_full: true,
        ..Config::default()
    };
    let mut cpu = Cpu::boot(&config).unwrap();
    let bh_off: Policy = "bh-off".parse().unwrap();
    bh_off.set(&mut cpu);
    way.set(78_000);
    let Subject(_, mut driver) = Subject::open(imp);
    let src = bytes(1 << 20, 4);
    let lens = imp.lens(0, src.len());
    let mut dst = vec![0; lens.dst(Op::Encrypt)];
    let iv = bytes(imp.iv_size(), 1);
    let mut message = Messages::single(Op::Encrypt, &src, &mut dst, &iv).with_lens(lens);
    let run = Run {
        null_chain: 1000,
        long_ticks,
        ticks: 1,
        min_ops: 20,
        cold: false,
        alone: true,
    };
    let started = Instant::now();
    let part = loop {
        let timer = Timer::start(&mut cpu, Arrivals::Periodic(2000.0)).unwrap();
        let part = run.run(&mut cpu, &mut driver, &mut message).unwrap().judged;
        drop(timer);
        if done(&part) {
            break part;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "not after a minute: {part:?}"
        );
    };
    Policy::all()[0].set(&mut cpu);
    part
}

#[test]
fn sections_end_on_demand_and_their_victims_are_served() {
    let _one = lock_budgets();
    let Some(imp) = simd_of("sha256").pop() else {
        return;
    };
    budget::calibrate();
    // An unbounded section never ends early. With `long_ticks` of 1, every section is long, so an
    // interrupt in a section must count as a stall.
    let part = disturbed(imp, Way::Unbounded, 1, |p| {
        p.stalls > 2 && p.softirq.total() > 2 && p.wake.total() > 2
    });
    assert_eq!(part.sections, part.ops);
    assert!(part.long_sections >= part.long_witnessed);
    let part = disturbed(imp, Way::OnDemand, u64::MAX, |p| p.softirq.total() > 2);
    assert!(part.sections > part.ops, "{part:?}");
    assert_eq!((part.stalls, part.long_sections), (0, 0));
    // 1 MiB takes much longer than the target, so the strategy must divide every message.
    let part = disturbed(imp, Way::Clocked, u64::MAX, |p| p.ops > 0);
    assert!(part.sections > 5 * part.ops, "{part:?}");
}
