//! The tree's own KUnit suites (`tree/kunit.c`), each in a child of its own: one that crashes or hangs takes no other with
//! it. While a suite runs, interrupts come at random times, and the timers of its interrupt tests fire in them.

use std::ffi::{CString, OsString};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::Tier;

use crate::child::{self, KunitOrder, Order, Watch};
use crate::event::Event;
use crate::host::Host;
use crate::{raw, Error};

/// Interrupts a second: as many as leave the task half of the CPU.
const RATE: f64 = 20_000.0;

/// The tree ends a case after five minutes of its own; nothing here takes one.
const SILENCE: Duration = Duration::from_secs(60);

/// Which suites run, and how.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// Patterns `SUITE` or `SUITE.CASE`; none: everything.
    pub patterns: Vec<String>,
    /// The benchmarks among the cases, too.
    pub bench: bool,
    /// Under each of these sets of tiers, by the name of the last one.
    pub masks: Vec<Vec<Tier>>,
}

impl Wanted {
    /// The patterns of cases under which a suite is wanted; `None` if it is not.
    fn cases(&self, suite: &str) -> Option<Vec<Option<String>>> {
        if self.patterns.is_empty() {
            return Some(vec![None]);
        }
        let parts = self.patterns.iter().map(|p| match p.split_once('.') {
            Some((suite, case)) => (suite, Some(case.to_owned())),
            None => (p.as_str(), None),
        });
        let cases: Vec<_> = parts
            .filter(|(s, _)| matches(s, suite))
            .map(|(_, c)| c)
            .collect();
        (!cases.is_empty()).then_some(cases)
    }
}

/// Whether a name is of this pattern, in which `*` stands for anything and `?` for a character.
fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            matches(&pattern[1..], name)
                || name
                    .chars()
                    .next()
                    .is_some_and(|c| matches(pattern, &name[c.len_utf8()..]))
        }
        (Some(p), Some(c)) if p == '?' || p == c => {
            matches(&pattern[p.len_utf8()..], &name[c.len_utf8()..])
        }
        _ => false,
    }
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed,
    /// And why.
    Skipped(String),
}

/// A case of a suite.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub name: String,
    pub verdict: Verdict,
    /// Since the case before it.
    pub us: u64,
    /// What it printed before its result.
    pub said: Vec<String>,
}

/// A suite under a tier.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    pub suite: String,
    /// The highest tier that the tree saw.
    pub tier: Tier,
    pub cases: Vec<Case>,
    /// The crash that ended it; the cases behind it did not run.
    pub fault: Option<String>,
}

/// The child's part.
///
/// # Errors
/// The image cannot be loaded; there is no timer.
pub fn measure(order: &Order, wanted: &KunitOrder) -> Result<(), Error> {
    if let Some(tiers) = &wanted.tiers {
        let tiers: Vec<Tier> = tiers.iter().filter_map(|t| t.parse().ok()).collect();
        Tier::mask(&tiers);
    }
    let loaded = Host::load(order)?;
    let cpu = Cpu::boot(&Config::default()).map_err(Error::Cpu)?;
    let mut host = loaded.start(cpu);
    // A tree without suites has no such function.
    let there = host.image.symbol("kiln_glue_kunit_run").is_some();
    match &wanted.suite {
        _ if !there => {}
        None => {
            // SAFETY: it ignores its argument.
            unsafe { host.call("kiln_glue_kunit_list", ptr::null_mut())? };
        }
        Some(suite) => {
            let interrupts = Timer::start(&mut host.cpu, Arrivals::Poisson(RATE, order.seed))
                .map_err(|e| Error::host("a timer for interrupts", e))?;
            let suite = CString::new(suite.as_str())?;
            let cases = wanted.cases.as_deref().map(CString::new).transpose()?;
            let mut raw = raw::KunitOrder {
                suite: suite.as_ptr(),
                cases: cases.as_ref().map_or(ptr::null(), |c| c.as_ptr()),
                bench: u64::from(wanted.bench),
            };
            // SAFETY: the function takes this structure, whose strings live.
            unsafe { host.call("kiln_glue_kunit_run", (&raw mut raw).cast())? };
            drop(interrupts);
        }
    }
    let done = format!("{{\"event\":\"done\",\"initcalls\":{}}}\n", host.initcalls);
    host.tell(&done)
}

/// The parent's part: `args` make this program call [`measure`]. In the order of suites and masks.
///
/// # Errors
/// A child cannot be started, or Ctrl-C.
pub fn run(
    image: &Path,
    seed: u64,
    args: &[OsString],
    wanted: &Wanted,
    stop: &AtomicBool,
    progress: &(dyn Fn(f64, &str) + Sync),
) -> Result<Vec<Ran>, Error> {
    let order = |kunit: KunitOrder| {
        let mut order = Order::new(image, seed);
        (order.lonely, order.kunit) = (true, Some(kunit));
        order
    };
    let mut suites = Vec::new();
    let list = order(KunitOrder {
        suite: None,
        cases: None,
        bench: false,
        tiers: None,
    });
    let mut watch = Watch {
        stop,
        silence: Some(SILENCE),
        event: &mut |event| {
            if let Event::Suite { name, .. } = event {
                suites.push(name.clone());
            }
        },
    };
    let ended = child::run(&list, args, &mut watch)?;
    if let Some(fault) = ended.fault {
        return Err(Error::Suites(fault.line(image)));
    }
    suites.sort();
    let mut jobs = Vec::new();
    for suite in &suites {
        for cases in wanted.cases(suite).unwrap_or_default() {
            for mask in &wanted.masks {
                jobs.push((suite, cases.clone(), mask));
            }
        }
    }
    // Those that take long first would be better; nobody knows which.
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<Option<Result<Ran, Error>>>> =
        Mutex::new(jobs.iter().map(|_| None).collect());
    let work = || {
        while let Some((suite, cases, mask)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let at = jobs
                .iter()
                .position(|j| ptr::eq(j.0, *suite) && j.1 == *cases && ptr::eq(j.2, *mask));
            let all = Some(mask.len()) == wanted.masks.iter().map(Vec::len).max();
            let kunit = KunitOrder {
                suite: Some(suite.to_string()),
                cases: cases.clone(),
                bench: wanted.bench,
                // What is above all tiers is the tree's to use, too.
                tiers: (!all || Tier::masked())
                    .then(|| mask.iter().map(|t| t.name().to_owned()).collect()),
            };
            let tier = mask.last().copied().unwrap_or(Tier::Generic);
            let ran = run_suite(&order(kunit), args, suite, tier, image, stop);
            let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(so_far as f64 / jobs.len() as f64, suite);
            let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
            results[at.expect("it is one of them")] = Some(ran);
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    };
    // A suite's CPU is a thread of its child.
    let workers = available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    results.into_iter().flatten().collect()
}

fn run_suite(
    order: &Order,
    args: &[OsString],
    suite: &str,
    tier: Tier,
    image: &Path,
    stop: &AtomicBool,
) -> Result<Ran, Error> {
    let mut ran = Ran {
        suite: suite.to_owned(),
        tier,
        cases: Vec::new(),
        fault: None,
    };
    let mut said = Vec::new();
    let mut last = Instant::now();
    let mut watch = Watch {
        stop,
        silence: Some(SILENCE),
        event: &mut |event| match event {
            Event::Log { text } => {
                for line in text.lines() {
                    match parse_result(line) {
                        Some((name, verdict)) => {
                            ran.cases.push(Case {
                                name,
                                verdict,
                                us: last.elapsed().as_micros() as u64,
                                said: std::mem::take(&mut said),
                            });
                            last = Instant::now();
                        }
                        None => said.extend(comment(line)),
                    }
                }
            }
            Event::Warn { file, line, .. } => said.push(format!("WARNING at {file}:{line}")),
            _ => {}
        },
    };
    let ended = child::run(order, args, &mut watch)?;
    ran.fault = ended.fault.map(|fault| fault.line(image));
    Ok(ran)
}

/// The result of a case: four blanks before it. What has none is the suite's, what has more a parameter's.
fn parse_result(line: &str) -> Option<(String, Verdict)> {
    let line = line.strip_prefix("    ")?;
    let (passed, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (number, name) = rest.split_once(' ')?;
    number.parse::<u32>().ok()?;
    let (name, directive) = name.split_once(" # ").unwrap_or((name, ""));
    let verdict = match (passed, directive.strip_prefix("SKIP")) {
        (_, Some(why)) => Verdict::Skipped(why.trim().to_owned()),
        (true, None) => Verdict::Passed,
        (false, None) => Verdict::Failed,
    };
    Some((name.trim().to_owned(), verdict))
}

/// What a person would want to read of a line.
fn comment(line: &str) -> Option<String> {
    let text = line.trim();
    let head = [
        "KTAP version",
        "# Subtest:",
        "1..",
        "# module:",
        "ok ",
        "# Totals:",
    ];
    (!text.is_empty() && !head.iter().any(|h| text.starts_with(h)))
        .then(|| text.trim_start_matches("# ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_the_tree_s_ktap() {
        let read = |line: &str| parse_result(line);
        assert_eq!(
            read("    ok 3 test_a").unwrap(),
            ("test_a".into(), Verdict::Passed)
        );
        assert_eq!(read("    not ok 4 test_b").unwrap().1, Verdict::Failed);
        assert_eq!(
            read("    ok 5 bench # SKIP not enabled").unwrap(),
            ("bench".into(), Verdict::Skipped("not enabled".into()))
        );
        for none in [
            "ok 1 sha256",
            "        ok 1 a parameter",
            "    # ok 3 x",
            "    1..3",
        ] {
            assert_eq!(read(none), None, "{none}");
        }
    }

    #[test]
    fn patterns_name_suites_and_cases() {
        for (pattern, name, wanted) in [
            ("sha*", "sha256", true),
            ("sha?56", "sha256", true),
            ("*", "", true),
            ("sha", "sha256", false),
            ("*256", "sha512", false),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        }
        let wanted = Wanted {
            patterns: vec!["sha256.test_a*".into(), "crc".into()],
            ..Wanted::default()
        };
        assert_eq!(wanted.cases("sha256"), Some(vec![Some("test_a*".into())]));
        assert_eq!(wanted.cases("crc"), Some(vec![None]));
        assert_eq!(wanted.cases("sha512"), None);
    }
}
