//! Runs the tree's own KUnit suites (`tree/kunit.c`). Each suite runs in its own child, so that a
//! crash or a hang affects only that suite. While a suite runs, interrupts arrive at random times.
//! They drive the high-resolution timers of the interrupt tests, and arrive more often while such a
//! timer is armed.

use std::ffi::{CString, OsString};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::Tier;

use crate::child::{self, KunitOrder, Order, ProveOrder, Watch};
use crate::event::{Event, Proof};
use crate::host::Host;
use crate::pattern::matches;
use crate::prove::{self, Proving};
use crate::{raw, Error};

/// Average number of interrupts per second while a suite's timer is armed and the child runs. Each
/// interrupt takes 20 to 30 us of host time, so interrupts take about half of the child's CPU time.
const HZ_ARMED: f64 = 20_000.0;

/// Average number of interrupts per second while no timer is armed: the tick rate of a kernel with
/// `HZ=1000`.
const HZ_IDLE: f64 = 1_000.0;

/// Time without events after which a child is considered hung. KUnit's own timeout is 300 s, but
/// every case finishes within a minute here.
const SILENCE: Duration = Duration::from_secs(60);

/// Name of a pseudo-suite that single-steps the functions that the tree's library exports.
pub const LIBRARY: &str = "library";

/// Maximum number of parts into which the library's functions are divided. Each part runs in
/// separate children.
const PARTS: usize = 8;

/// The suites to run, and the options for them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// Patterns of the form `SUITE` or `SUITE.CASE`; empty selects everything.
    pub patterns: Vec<String>,
    /// Whether to also run the cases that are benchmarks.
    pub bench: bool,
    /// How to single-step the functions that the suites' interrupt tests call; `None` disables
    /// stepping. While functions are stepped, no other interrupts arrive.
    pub prove: Option<ProveOrder>,
    /// Sets of tiers. Each suite runs once per set, and its results are labelled with the last tier
    /// in the set.
    pub masks: Vec<Vec<Tier>>,
}

impl Wanted {
    /// Returns the patterns that select cases of this suite, or `None` if the suite is not
    /// selected. In the list, `None` selects all cases.
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

    /// Returns whether a library function is selected.
    fn has_function(&self, function: &str) -> bool {
        let selects = |case: Option<String>| case.is_none_or(|case| matches(&case, function));
        self.cases(LIBRARY)
            .is_some_and(|cases| cases.into_iter().any(selects))
    }

    fn jobs<'a>(&'a self, suites: &'a [String], functions: &[&str]) -> Vec<Job<'a>> {
        let mut jobs = Vec::new();
        for suite in suites {
            for cases in self.cases(suite).unwrap_or_default() {
                jobs.extend(self.masks.chunks(1).map(|masks| Job {
                    suite,
                    cases: cases.clone(),
                    masks,
                    functions: Vec::new(),
                }));
            }
        }
        jobs.extend((0..PARTS.min(functions.len())).map(|part| Job {
            suite: LIBRARY,
            cases: None,
            masks: &self.masks,
            functions: {
                let own = functions.iter().skip(part).step_by(PARTS);
                own.map(|f| f.to_string()).collect()
            },
        }));
        jobs
    }
}

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed,
    /// The case was skipped. The string is the reason.
    Skipped(String),
}

/// The result of one case in a suite.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub name: String,
    pub verdict: Verdict,
    /// Time in microseconds since the previous case ended. For the first case, this is the time
    /// since the child was started, which includes loading the tree.
    pub us: u64,
    /// Lines that the case printed before its result line.
    pub said: Vec<String>,
}

/// The results of running one suite with one set of tiers.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    pub suite: String,
    /// Highest tier that the tree could see.
    pub tier: Tier,
    pub cases: Vec<Case>,
    /// Results for the functions that were single-stepped.
    pub proofs: Vec<Proof>,
    /// The file and line of each warning that the tree raised.
    pub warnings: Vec<String>,
    /// The crash or early exit that kept the rest of the suite from running; empty if the suite ran
    /// to completion. The library suite continues after a crash, so it can have several entries.
    pub faults: Vec<Crash>,
}

/// A crash in a suite or a library function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// The function that was being stepped; empty if a suite crashed.
    pub function: String,
    pub what: String,
}

/// A unit of work: a suite with one set of tiers, or a part of the library with all sets of tiers.
struct Job<'a> {
    suite: &'a str,
    cases: Option<String>,
    masks: &'a [Vec<Tier>],
    /// Library functions to step.
    functions: Vec<String>,
}

/// Runs one suite, or lists the suites. If `wanted` enables stepping, the list also includes the
/// library's functions. Called in the child processes that [`run`] starts.
///
/// # Errors
/// Fails if the image cannot be loaded, or the timer cannot be created.
pub fn measure(order: &Order, wanted: &KunitOrder) -> Result<(), Error> {
    if let Some(tiers) = &wanted.tiers {
        let tiers: Vec<Tier> = tiers.iter().filter_map(|t| t.parse().ok()).collect();
        Tier::mask(&tiers);
    }
    let loaded = Host::load(order)?;
    let cpu = Cpu::boot(&Config::default()).map_err(Error::Cpu)?;
    let mut host = loaded.start(cpu);
    // Trees without suites do not have this function.
    let there = host.image.symbol("kiln_glue_kunit_run").is_some();
    match (&wanted.suite, &wanted.prove) {
        (Some(suite), Some(prove)) if suite == LIBRARY => prove::step_library(&mut host, prove)?,
        (None, prove) => {
            if there {
                // SAFETY: `kunit.c` defines the function with the type `GateFn`, and the function
                // ignores its argument.
                unsafe { host.call("kiln_glue_kunit_list", ptr::null_mut())? };
            }
            if prove.is_some() {
                prove::list_library(&mut host)?;
            }
        }
        _ if !there => {}
        (Some(suite), prove) => {
            let mut proving = match prove {
                Some(prove) => Some(Proving::start(&mut host, prove)?),
                None => None,
            };
            let timer_armed = Arc::new(AtomicBool::new(false));
            let arrivals = Arrivals::TwoRates {
                flag: timer_armed.clone(),
                hz_if_set: HZ_ARMED,
                hz_if_clear: HZ_IDLE,
                seed: order.seed,
            };
            let interrupts = match proving {
                Some(_) => None,
                None => Some(
                    Timer::start(&mut host.cpu, arrivals)
                        .map_err(|e| Error::host("a timer for interrupts", e))?,
                ),
            };
            let suite = CString::new(suite.as_str())?;
            let cases = wanted.cases.as_deref().map(CString::new).transpose()?;
            let mut raw = raw::KunitOrder {
                suite: suite.as_ptr(),
                cases: cases.as_ref().map_or(ptr::null(), |c| c.as_ptr()),
                bench: u64::from(wanted.bench),
                prove: proving.as_mut().map_or(ptr::null_mut(), Proving::raw),
                timer_armed: timer_armed.as_ptr().cast(),
            };
            // SAFETY: the argument points to the structure that the function takes, and its strings
            // outlive the call.
            unsafe { host.call("kiln_glue_kunit_run", (&raw mut raw).cast())? };
            drop(interrupts);
            for proof in proving.map_or(Vec::new(), |mut p| p.take(&host)) {
                host.tell(&proof.line())?;
            }
        }
    }
    let done = format!("{{\"event\":\"done\",\"initcalls\":{}}}\n", host.initcalls);
    host.tell(&done)
}

/// Starts a child for each suite and set of tiers, and returns the results ordered by suite and
/// then by set. The children run this program with `args`, which must make it call [`measure`].
/// `choose` receives the names of all selected suites, and the names of all selected library
/// functions in the form `library.FUNCTION`, and returns the names to run.
///
/// # Errors
/// Fails if a child cannot be started, or if Ctrl-C was pressed.
pub fn run(
    image: &Path,
    seed: u64,
    args: &[OsString],
    wanted: &Wanted,
    choose: &dyn Fn(Vec<String>) -> Vec<String>,
    stop: &AtomicBool,
    progress: &(dyn Fn(f64, &str) + Sync),
) -> Result<Vec<Ran>, Error> {
    let order = |kunit: KunitOrder| {
        let mut order = Order::new(image, seed);
        (order.lonely, order.kunit) = (true, Some(kunit));
        order
    };
    let (mut suites, mut functions) = (Vec::new(), Vec::new());
    let list = order(KunitOrder {
        suite: None,
        cases: None,
        bench: false,
        tiers: None,
        prove: wanted.prove.clone(),
    });
    let mut watch = Watch {
        stop,
        silence: Some(SILENCE),
        event: &mut |event| match event {
            Event::Suite { name, .. } => suites.push(name.clone()),
            Event::Function { name } => functions.push(name.clone()),
            _ => {}
        },
    };
    let ended = child::run(&list, args, &mut watch)?;
    if let Some(fault) = ended.fault {
        return Err(Error::Suites(fault.line(image)));
    }
    suites.retain(|suite| wanted.cases(suite).is_some());
    suites.sort();
    functions.retain(|function| wanted.has_function(function));
    let in_library = format!("{LIBRARY}.");
    suites.extend(functions.iter().map(|f| format!("{in_library}{f}")));
    let (functions, suites): (Vec<String>, Vec<String>) = choose(suites)
        .into_iter()
        .partition(|name| name.starts_with(&in_library));
    let functions: Vec<&str> = functions.iter().map(|f| &f[in_library.len()..]).collect();
    let jobs = wanted.jobs(&suites, &functions);
    let steps: usize = jobs.iter().map(|j| j.masks.len()).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(Vec::from_iter(jobs.iter().map(|_| None)));
    let run_job = |job: &Job<'_>| -> Result<Vec<Ran>, Error> {
        let mut prove = wanted.prove.clone();
        let mut all = Vec::new();
        for mask in job.masks {
            let whole = Some(mask.len()) == wanted.masks.iter().map(Vec::len).max();
            let kunit = KunitOrder {
                suite: Some(job.suite.to_string()),
                cases: job.cases.clone(),
                bench: wanted.bench,
                // If all tiers are allowed, do not mask any, so that the tree also sees features
                // that do not belong to a tier.
                tiers: (!whole || Tier::masked())
                    .then(|| mask.iter().map(|t| t.name().to_owned()).collect()),
                prove: prove.as_ref().map(|p| ProveOrder {
                    functions: job.functions.clone(),
                    ..p.clone()
                }),
            };
            let tier = mask.last().copied().unwrap_or(Tier::Generic);
            let ran = run_suite(order(kunit), args, job.suite, tier, image, stop)?;
            // If a function executes the same instructions under several sets of tiers, interrupt
            // it under only one of these sets.
            if let Some(prove) = &mut prove {
                prove.known.extend(ran.proofs.iter().map(|p| p.digest));
            }
            all.push(ran);
            let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(so_far as f64 / steps as f64, job.suite);
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(all)
    };
    let work = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(at).filter(|_| !stop.load(Ordering::Relaxed)) else {
            break;
        };
        let ran = run_job(job);
        results.lock().unwrap_or_else(|e| e.into_inner())[at] = Some(ran);
    };
    // Run three children per CPU, because most interrupt tests run for one second regardless of
    // how much CPU time they get. When stepping or benchmarking, run only one child per CPU,
    // because each child then has one thread that needs a whole CPU.
    let per_cpu = if wanted.prove.is_some() || wanted.bench {
        1
    } else {
        3
    };
    let workers = per_cpu * available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    let results: Result<Vec<Vec<Ran>>, Error> = results.into_iter().flatten().collect();
    Ok(results?.into_iter().flatten().collect())
}

fn run_suite(
    mut order: Order,
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
        proofs: Vec::new(),
        warnings: Vec::new(),
        faults: Vec::new(),
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
                                said: merge_repeats(std::mem::take(&mut said)),
                            });
                            last = Instant::now();
                        }
                        None => said.extend(comment(line)),
                    }
                }
            }
            Event::Warn { file, line, .. } => {
                said.push(format!("WARNING at {file}:{line}"));
                ran.warnings.push(format!("{file}:{line}"));
            }
            Event::Proof(proof) => ran.proofs.push(proof.clone()),
            _ => {}
        },
    };
    let mut faults = Vec::new();
    // If a library function crashes, start another child for the functions that follow it.
    loop {
        let ended = child::run(&order, args, &mut watch)?;
        let Some(fault) = ended.fault else {
            // A child that exits early without crashing has printed the reason to standard error.
            if !ended.events.iter().any(|e| matches!(e, Event::Done { .. })) {
                faults.push(Crash {
                    function: String::new(),
                    what: format!("ended early ({})", ended.status),
                });
            }
            break;
        };
        let what = fault.line(image);
        let function = match suite == LIBRARY {
            true => fault.driver,
            false => String::new(),
        };
        let goes_on = drop_through(&mut order, &function) && !stop.load(Ordering::Relaxed);
        faults.push(Crash { function, what });
        if !goes_on {
            break;
        }
    }
    ran.faults = faults;
    Ok(ran)
}

/// Removes the function that crashed, and those that were stepped before it, from the functions to
/// step. Returns whether any functions are left.
fn drop_through(order: &mut Order, crashed: &str) -> bool {
    let prove = order.kunit.as_mut().and_then(|kunit| kunit.prove.as_mut());
    let Some(functions) = prove.map(|prove| &mut prove.functions) else {
        return false;
    };
    let Some(at) = functions.iter().position(|f| f == crashed) else {
        return false;
    };
    functions.drain(..=at);
    !functions.is_empty()
}

/// Merges equal lines and appends a count, because a case may raise the same warning thousands of
/// times.
fn merge_repeats(lines: Vec<String>) -> Vec<String> {
    let mut merged: Vec<(String, u64)> = Vec::new();
    for line in lines {
        match merged.iter_mut().find(|(first, _)| *first == line) {
            Some((_, count)) => *count += 1,
            None => merged.push((line, 1)),
        }
    }
    let print = |(line, count): (String, u64)| match count {
        1 => line,
        _ => format!("{line} ({count} times)"),
    };
    merged.into_iter().map(print).collect()
}

/// Parses the result line of a case, which is indented by four spaces. The result lines of suites
/// are not indented, and those of parameters are indented further.
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

/// Returns the trimmed text of a line that a case printed, or `None` if the line is empty, is a
/// result line, or is part of the KTAP structure.
fn comment(line: &str) -> Option<String> {
    let text = line.trim();
    let head = [
        "KTAP version",
        "# Subtest:",
        "1..",
        "# module:",
        "ok ",
        "not ok ",
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
    fn equal_lines_are_merged_and_counted() {
        let lines = ["a", "b", "a", "a"].map(String::from).to_vec();
        assert_eq!(merge_repeats(lines), ["a (3 times)", "b"]);
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

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn a_selected_function_is_in_one_part() {
        let wanted = Wanted {
            patterns: names(&["library.sha*", "library.sha1", "crc"]),
            masks: vec![vec![Tier::Generic]],
            ..Wanted::default()
        };
        assert!(wanted.has_function("sha1") && !wanted.has_function("crc"));
        let all: Vec<String> = (10..30).map(|i| format!("sha{i}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let parts = |functions: &[&str]| -> Vec<Vec<String>> {
            let jobs = wanted.jobs(&[], functions).into_iter();
            jobs.map(|job| job.functions).collect()
        };
        let mut stepped = parts(&all).concat();
        stepped.sort();
        assert_eq!(stepped, all);
        // Each part must contain a function, because an empty part would boot the tree needlessly.
        assert_eq!(parts(&all[..2]), [names(&["sha10"]), names(&["sha11"])]);
        assert!(parts(&[]).is_empty());
    }

    #[test]
    fn after_a_crash_the_functions_behind_it_are_left() {
        let with = |functions: &[&str]| {
            let mut order = Order::new(Path::new(""), 1);
            order.kunit = Some(KunitOrder {
                suite: Some(LIBRARY.into()),
                cases: None,
                bench: false,
                tiers: None,
                prove: Some(ProveOrder {
                    functions: names(functions),
                    ..ProveOrder::default()
                }),
            });
            order
        };
        let left = |mut order: Order, crashed: &str| {
            let any = drop_through(&mut order, crashed);
            any.then(|| order.kunit.unwrap().prove.unwrap().functions)
        };
        let all = ["a", "b", "c"];
        assert_eq!(left(with(&all), "a"), Some(names(&["b", "c"])));
        assert_eq!(left(with(&all), "b"), Some(names(&["c"])));
        assert_eq!(left(with(&all), "c"), None);
        // A crash outside these functions would recur in every child, so nothing is left to step.
        assert_eq!(left(with(&all), ""), None);
        assert_eq!(left(Order::new(Path::new(""), 1), "a"), None);
    }
}
