//! Runs the oracles (`tree/oracles/`), which check rules that every driver must follow, regardless
//! of its algorithm. The parent lists the drivers, distributes them to children, and groups their
//! reports into findings. A crash is a finding too; the next child continues with the remaining
//! drivers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CString, OsString};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread::{self, available_parallelism};
use std::time::Duration;

use kiln_kernel::cpu::{Config, Cpu};

use crate::child::{self, OracleOrder, Order, Watch};
use crate::event::{Event, Examined, Subject, Violation};
use crate::fault::Symbols;
use crate::features;
use crate::host::Host;
use crate::known::Known;
use crate::oracle_tools::{shorten_queues, Tools};
use crate::{family, raw, Error};

/// Time without events after which a child is considered hung.
const SILENCE: Duration = Duration::from_secs(60);

/// Time without events after which a child that instantiates templates is considered hung. The
/// limit is longer than [`SILENCE`], because no event is sent while a template rejects one child
/// algorithm after another.
const REACH_SILENCE: Duration = Duration::from_secs(300);

/// Maximum number of drivers that one child examines.
const CHUNK: usize = 120;

/// Maximum number of crashes in one driver family under one oracle. When this number is reached,
/// the rest of the family is skipped.
const CRASHES: usize = 4;

/// Maximum number of crashes while templates are being instantiated. If there are more, no driver
/// is examined.
const INSTANCES: usize = 16;

/// A pseudo-oracle for crashes during template instantiation. Users cannot select it.
const REACH: Oracle = oracle("reach", u32::MAX, false);

/// Maximum number of answers to compare per driver.
const ANSWERS: usize = 512;

/// The case groups of the oracle `values`, in the order in which `tree/oracles/values.c` defines
/// them.
const CARRIES: [&str; 10] = [
    "drawn",
    "before a carry from 32 bits",
    "5 blocks before a carry from 32 bits",
    "before a carry from 64 bits",
    "before a carry from 96 bits",
    "before a carry from 128 bits",
    "17 blocks before a carry from 128 bits",
    "little-endian, before a carry from 32 bits",
    "little-endian, before a carry from 64 bits",
    "little-endian, before a carry from 128 bits",
];

/// The traits that the oracle `sequence` compares, in the order of `enum kiln_trait` in
/// `tree/oracles/sequence.c`.
const TRAITS: [&str; 6] = [
    "sizes of IV, block, tag, digest and chunk",
    "lengths of keys that are accepted",
    "weak keys that are accepted",
    "tag sizes that are accepted",
    "lengths of messages and associated data that are accepted",
    "whether the IV that a request leaves continues the message",
];

/// A rule that drivers must follow, checked by code in `tree/oracles/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oracle {
    pub name: &'static str,
    number: u32,
    /// Whether all drivers of an algorithm must give the same answers.
    compares: bool,
    /// Whether the oracle examines FPU sections and assembly code. Templates contain neither, so
    /// the drivers that they wrap are examined instead.
    of_code: bool,
}

/// All oracles, in the order in which they run.
pub const ALL: [Oracle; 12] = [
    oracle("memory", raw::KILN_ORACLE_MEMORY, false),
    oracle("context", raw::KILN_ORACLE_CONTEXT, false),
    oracle("values", raw::KILN_ORACLE_VALUES, true),
    oracle("sequence", raw::KILN_ORACLE_SEQUENCE, true),
    oracle("leaks", raw::KILN_ORACLE_LEAKS, false),
    oracle("failures", raw::KILN_ORACLE_FAILURES, false),
    oracle("fill", raw::KILN_ORACLE_FILL, false),
    oracle("queues", raw::KILN_ORACLE_QUEUES, false),
    oracle("sharing", raw::KILN_ORACLE_SHARING, false),
    of_code("registers", raw::KILN_ORACLE_REGISTERS),
    of_code("features", raw::KILN_ORACLE_FEATURES),
    of_code("bounds", raw::KILN_ORACLE_BOUNDS),
];

impl Oracle {
    /// Describes the group of cases that the answer with this index covers.
    fn group(&self, number: usize) -> String {
        let named = |names: &[&str]| names.get(number).copied().unwrap_or_default().to_owned();
        match self.number {
            raw::KILN_ORACLE_SEQUENCE => named(&TRAITS),
            _ => format!("IVs and counters: {}", named(&CARRIES)),
        }
    }

    /// Returns the text of a finding for a driver whose answer differs from that of `other`, which
    /// is another driver for the same algorithm.
    fn differs(&self, other: &str, alg: &str) -> String {
        match self.number {
            raw::KILN_ORACLE_SEQUENCE => format!("differs from {other}, which is {alg}, too"),
            _ => format!("answers otherwise than {other}, which is {alg}, too"),
        }
    }
}

const fn oracle(name: &'static str, number: u32, compares: bool) -> Oracle {
    Oracle {
        name,
        number,
        compares,
        of_code: false,
    }
}

const fn of_code(name: &'static str, number: u32) -> Oracle {
    Oracle {
        of_code: true,
        ..oracle(name, number, false)
    }
}

/// Finds the oracle that has this user-visible name, such as `memory`.
pub fn find(name: &str) -> Option<Oracle> {
    ALL.into_iter().find(|o| o.name == name)
}

/// The oracles to run, and the drivers to examine.
pub struct Wanted<'a> {
    pub image: &'a Path,
    pub seed: u64,
    /// Command-line arguments that make this program call [`measure`] in a child.
    pub args: &'a [OsString],
    pub oracles: &'a [Oracle],
    pub thorough: bool,
    /// Whether to examine only some instances of each template.
    pub quick: bool,
    /// The list of known findings.
    pub known: &'a Known,
    /// Returns whether to examine a driver.
    pub chosen: &'a (dyn Fn(&Subject) -> bool + Sync),
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
    pub progress: &'a (dyn Fn(f64, &str) + Sync),
}

/// A rule violation, as shown to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub oracle: &'static str,
    /// The driver that violates the rule at this place. If several drivers do, the one with the
    /// shortest name.
    pub driver: String,
    pub alg: String,
    pub rule: String,
    pub what: String,
    /// Description of the request during which the rule was violated.
    pub case: String,
    /// Function and offset at which the rule is violated, or the driver's name if the location is
    /// unknown.
    pub place: String,
    /// Names of the calling functions, innermost first.
    pub trace: Vec<String>,
    /// Number of other drivers that violate the rule at this place.
    pub others: usize,
    /// The reason given in the list of known findings; `None` if the finding is not in the list.
    pub known: Option<String>,
}

impl Finding {
    /// Formats the finding as a block of lines.
    pub(crate) fn block(&self, replay: &str) -> String {
        let mut lines = vec![
            format!("{}: {}", self.rule, self.what),
            format!("where: {}", self.place),
        ];
        lines.extend((self.known.iter()).map(|reason| format!("known: {reason}")));
        lines.extend((!self.case.is_empty()).then(|| format!("case: {}", self.case)));
        lines.extend(
            (!self.trace.is_empty()).then(|| format!("callers: {}", self.trace.join(", "))),
        );
        lines.extend((self.others > 0).then(|| format!("other drivers: {}", self.others)));
        lines.push(format!("replay: {replay}"));
        lines.join("\n")
    }
}

/// The result of examining one driver with one oracle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    pub oracle: &'static str,
    pub subject: Subject,
    pub cases: u64,
    pub refused: u64,
    /// Why the driver was not examined; `None` if it was examined.
    pub skipped: Option<String>,
    /// Indices of the driver's findings in [`Found::findings`].
    pub findings: Vec<usize>,
}

/// The results of all oracles.
#[derive(Debug, Default)]
pub struct Found {
    /// Number of drivers that can be examined.
    pub subjects: usize,
    /// Number of drivers left out because only some instances of each template were examined.
    pub left_out: usize,
    /// Templates and drivers that the oracles cannot examine, each with the reason.
    pub unreached: Vec<(String, String)>,
    pub ran: Vec<Ran>,
    pub findings: Vec<Finding>,
    /// Which of the known findings occurred, as indices into the list of known findings.
    seen: Vec<usize>,
    /// Entries in the list of known findings that did not occur. Empty unless all drivers were
    /// examined.
    pub unseen: Vec<String>,
}

/// Examines the drivers in `wanted`, or lists all drivers if `wanted` selects no oracle. Called in
/// the child processes that [`run`] starts.
///
/// # Errors
/// Fails if the image cannot be loaded.
pub fn measure(order: &Order, wanted: &OracleOrder) -> Result<(), Error> {
    let loaded = Host::load(order)?;
    if wanted.number == Some(raw::KILN_ORACLE_QUEUES) {
        shorten_queues(&loaded.image);
    }
    let cpu = Cpu::boot(&Config::default()).map_err(Error::Cpu)?;
    let mut host = loaded.start(cpu);
    match wanted.number {
        None => reach(&mut host, order)?,
        Some(number) => {
            let mut tools = Tools::get(&mut host, number)?;
            for subject in &wanted.subjects {
                let examined = examine(&mut host, order, wanted, &mut tools, subject)?;
                let mut line = serde_json::to_value(&examined).expect("plain values");
                line["event"] = "examined".into();
                host.tell(&format!("{line}\n"))?;
            }
        }
    }
    let done = format!("{{\"event\":\"done\",\"initcalls\":{}}}\n", host.initcalls);
    host.tell(&done)
}

fn reach(host: &mut Host, order: &Order) -> Result<(), Error> {
    let name = "crypto_template_list";
    let templates = host.image.symbol(name).ok_or_else(|| Error::NoSymbol {
        image: host.image.path.clone(),
        name: name.into(),
    })?;
    let names: Result<Vec<CString>, _> =
        (order.skipped.iter().map(|name| CString::new(name.as_str()))).collect();
    let names = names?;
    let mut skipped: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    skipped.push(ptr::null());
    let mut raw = raw::Reach {
        templates: ptr::with_exposed_provenance_mut(templates as usize),
        skipped: skipped.as_ptr(),
    };
    // SAFETY: the argument points to the structure that the function takes. The list belongs to the
    // tree, and the names outlive the call.
    unsafe { host.call("kiln_glue_reach", (&raw mut raw).cast())? };
    Ok(())
}

fn examine(
    host: &mut Host,
    order: &Order,
    wanted: &OracleOrder,
    tools: &mut Tools,
    subject: &Subject,
) -> Result<Examined, Error> {
    let (oracle, name) = (
        CString::new(wanted.oracle.as_str())?,
        CString::new(subject.name.as_str())?,
    );
    let alg = CString::new(subject.alg.as_str())?;
    let mut answers = vec![0u64; ANSWERS];
    let mut raw = raw::Examine {
        oracle: oracle.as_ptr(),
        name: name.as_ptr(),
        alg: alg.as_ptr(),
        number: tools.number,
        type_: subject.kind,
        internal: u32::from(subject.internal),
        thorough: u32::from(wanted.thorough),
        seed: order.seed,
        answers: answers.as_mut_ptr(),
        room: ANSWERS as u64,
        audit: tools.audit(),
        steps: u64::from(tools.judged().is_some()),
        peer: tools.peer(),
        count: 0,
        cases: 0,
        refused: 0,
        error: 0,
    };
    // SAFETY: the argument points to the structure that the function takes, and its strings and
    // array outlive the call.
    unsafe { host.call("kiln_glue_examine", (&raw mut raw).cast())? };
    answers.truncate(raw.count as usize);
    let mut features = Vec::new();
    if let Some(stepped) = tools.judged() {
        let (violations, used) = stepped.take(host, &wanted.hidden);
        features = used;
        for violation in &violations {
            let violation = Violation {
                oracle: wanted.oracle.clone(),
                driver: subject.name.clone(),
                ..violation.clone()
            };
            let mut line = serde_json::to_value(&violation).expect("plain values");
            line["event"] = "violation".into();
            host.tell(&format!("{line}\n"))?;
        }
        // For the oracle `registers`, examine the driver a second time without single-stepping.
        // Skip this if a violation was found: if a function failed to preserve a register, the next
        // call might crash.
        raw.steps = 0;
        let again = raw.number == raw::KILN_ORACLE_REGISTERS;
        if violations.is_empty() && again && raw.error == 0 {
            // SAFETY: the argument points to the structure that the function takes, and its strings
            // and array outlive the call.
            unsafe { host.call("kiln_glue_examine", (&raw mut raw).cast())? };
            stepped.clear();
        }
    }
    Ok(Examined {
        name: subject.name.clone(),
        cases: raw.cases,
        refused: raw.refused,
        error: raw.error,
        answers,
        features,
    })
}

/// What the children reported about one driver.
struct Told {
    oracle: Oracle,
    subject: Subject,
    examined: Option<Examined>,
    violations: Vec<Violation>,
    /// Whether the driver was skipped because too many drivers in its family had crashed.
    left: bool,
}

impl Told {
    fn new(oracle: Oracle, subject: Subject) -> Told {
        Told {
            oracle,
            subject,
            examined: None,
            violations: Vec::new(),
            left: false,
        }
    }

    fn crash(&mut self, fault: child::Fault) {
        let address = (fault.address != 0).then_some(fault.address);
        self.violations.push(Violation {
            oracle: self.oracle.name.into(),
            driver: self.subject.name.clone(),
            rule: "crash".into(),
            what: fault.what,
            case: fault.case,
            trace: address.into_iter().chain(fault.trace).collect(),
        });
    }
}

/// Examines the chosen drivers with the chosen oracles, in child processes.
///
/// # Errors
/// Fails if a child cannot be started, or if Ctrl-C was pressed.
pub fn run(wanted: &Wanted) -> Result<Found, Error> {
    let Reach {
        subjects: all,
        unreached,
        crashed,
    } = subjects(wanted)?;
    let mut chosen: Vec<Subject> = all.iter().filter(|s| (wanted.chosen)(s)).cloned().collect();
    let requested = chosen.len();
    if wanted.quick {
        let selected = family::quick_set(&all);
        chosen.retain(|s| selected.contains(s.driver.as_str()));
    }
    // Sort so that the drivers for each algorithm are adjacent.
    chosen.sort_by(|a, b| (&a.alg, &a.driver).cmp(&(&b.alg, &b.driver)));
    let with_code: Vec<Subject> = (chosen.iter())
        .filter(|s| wanted.thorough || has_code(&s.driver))
        .cloned()
        .collect();
    // Comparing answers requires all drivers for an algorithm, so also examine drivers that were
    // not chosen.
    let algs: BTreeSet<&str> = chosen.iter().map(|s| plain(&s.alg)).collect();
    let mut compared: Vec<Subject> = (all.iter())
        .filter(|s| algs.contains(plain(&s.alg)))
        .cloned()
        .collect();
    compared.sort_by(|a, b| (&a.alg, &a.driver).cmp(&(&b.alg, &b.driver)));
    let subjects_of = |oracle: &Oracle| match (oracle.of_code, oracle.compares) {
        (true, _) => &with_code,
        (_, true) => &compared,
        _ => &chosen,
    };
    let jobs: Vec<(Oracle, &[Subject])> = (wanted.oracles.iter())
        .flat_map(|oracle| subjects_of(oracle).chunks(CHUNK).map(|c| (*oracle, c)))
        .collect();
    let done = AtomicUsize::new(0);
    let crashes = Crashes::default();
    let total: usize = wanted.oracles.iter().map(|o| subjects_of(o).len()).sum();
    let total = total.max(1) as f64;
    let results = on_all_cores(&jobs, wanted.stop, |(oracle, subjects)| {
        let progress = |subject: &str| {
            let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
            let what = format!("{}: {subject}", oracle.name);
            (wanted.progress)(so_far as f64 / total, &what);
        };
        run_chunk(wanted, *oracle, &[], subjects, &crashes, &progress)
    });
    if wanted.stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let mut told = crashed;
    for result in results {
        told.extend(result?);
    }
    for oracle in wanted.oracles.iter().filter(|o| o.compares) {
        compare(&mut told, *oracle);
    }
    let names: BTreeSet<&str> = chosen.iter().map(|s| s.driver.as_str()).collect();
    told.retain(|t| t.oracle == REACH || names.contains(t.subject.driver.as_str()));
    without_features(wanted, &mut told, &crashes)?;
    let mut found = collect(wanted.image, told, wanted.known);
    let whole = chosen.len() == all.len();
    let names: Vec<&str> = wanted.oracles.iter().map(|o| o.name).collect();
    let unseen = || wanted.known.unseen(&names, &found.seen);
    // Report the known findings that did not occur, but only if all drivers were examined.
    found.unseen = whole.then(unseen).unwrap_or_default();
    found.subjects = all.len();
    found.left_out = requested - chosen.len();
    found.unreached = unreached;
    Ok(found)
}

/// Strips the prefix that marks internal algorithms.
fn plain(alg: &str) -> &str {
    alg.trim_start_matches("__")
}

/// Returns whether a driver's own code may contain FPU sections. This is false for template
/// instances, except `ecb(...)`, through which single-block ciphers are examined.
fn has_code(driver: &str) -> bool {
    let inner = driver.strip_prefix("ecb(");
    !inner.unwrap_or(driver).contains('(')
}

/// Runs the oracle `features` once more for each CPU feature. Only the drivers that use the feature
/// are examined, in children that hide the feature from the tree. A driver that still
/// registers must work without the feature.
fn without_features(wanted: &Wanted, told: &mut [Told], crashes: &Crashes) -> Result<(), Error> {
    let uses = |t: &Told, name: &str| {
        let examined = t.examined.as_ref();
        examined.is_some_and(|e| e.features.iter().any(|f| f == name))
    };
    let Some(oracle) = told
        .iter()
        .map(|t| t.oracle)
        .find(|o| o.number == raw::KILN_ORACLE_FEATURES)
    else {
        return Ok(());
    };
    // Skip template instances: they execute the code of their child algorithms, which is examined
    // separately.
    let users = |name: &str| -> Vec<Subject> {
        let told = told.iter();
        let users = told.filter(|t| uses(t, name) && has_code(&t.subject.driver));
        users.map(|t| t.subject.clone()).collect()
    };
    let jobs: Vec<(&str, Vec<Subject>)> = (features::ALL.iter())
        .flat_map(|feature| {
            let users = users(feature.name);
            let chunks = users.chunks(CHUNK).map(|c| (feature.name, c.to_vec()));
            chunks.collect::<Vec<_>>()
        })
        .collect();
    let done = AtomicUsize::new(0);
    let results = on_all_cores(&jobs, wanted.stop, |(feature, subjects)| {
        let so_far = done.fetch_add(1, Ordering::Relaxed) as f64;
        let what = format!("features: without {feature}");
        (wanted.progress)(so_far / jobs.len() as f64, &what);
        let hidden = features::with_dependents(feature);
        run_chunk(wanted, oracle, &hidden, subjects, crashes, &|_| ())
    });
    for result in results {
        for again in result? {
            let same = |t: &&mut Told| t.oracle == oracle && t.subject == again.subject;
            if let Some(t) = told.iter_mut().find(same) {
                t.violations.extend(again.violations);
            }
        }
    }
    Ok(())
}

/// Runs the jobs in parallel, with one thread per CPU. Starts no more jobs once `stop` is set.
/// Returns the results of the completed jobs in job order.
fn on_all_cores<J: Sync, R: Send>(
    jobs: &[J],
    stop: &AtomicBool,
    work: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    let worker = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(number) else {
            break;
        };
        let result = work(job);
        let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
        results.push((number, result));
        if stop.load(Ordering::Relaxed) {
            break;
        }
    };
    let workers = available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(worker);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The result of instantiating all templates: the drivers that are available, and the failures.
#[derive(Default)]
struct Reach {
    subjects: Vec<Subject>,
    /// Templates and drivers that cannot be examined, each with the reason.
    unreached: Vec<(String, String)>,
    /// Template instances whose creation crashed the child.
    crashed: Vec<Told>,
}

/// Lists every driver, including the instances of every template. If creating an instance crashes
/// the child, starts a new child that skips this instance.
fn subjects(wanted: &Wanted) -> Result<Reach, Error> {
    (wanted.progress)(0.0, "every template over every child");
    let mut crashed: Vec<Told> = Vec::new();
    loop {
        let skipped = crashed.iter().map(|t| t.subject.name.clone()).collect();
        let (reach, fault) = subjects_without(wanted, skipped)?;
        let Some(fault) = fault else {
            return Ok(Reach { crashed, ..reach });
        };
        let again = crashed.iter().any(|t| t.subject.name == fault.driver);
        if fault.driver.is_empty() || again || crashed.len() == INSTANCES {
            return Err(Error::Reach(fault.line(wanted.image)));
        }
        let subject = Subject {
            name: fault.driver.clone(),
            alg: fault.driver.clone(),
            driver: fault.driver.clone(),
            kind: 0,
            is_async: false,
            internal: false,
        };
        let mut told = Told::new(REACH, subject);
        told.crash(fault);
        crashed.push(told);
    }
}

/// Lists every driver in one child, which does not create the instances in `skipped`. If the child
/// crashes, also returns the crash.
fn subjects_without(
    wanted: &Wanted,
    skipped: Vec<String>,
) -> Result<(Reach, Option<child::Fault>), Error> {
    let mut order = Order::new(wanted.image, wanted.seed);
    order.lonely = true;
    order.oracle = Some(OracleOrder {
        oracle: "reach".into(),
        number: None,
        thorough: wanted.thorough,
        subjects: Vec::new(),
        hidden: Vec::new(),
    });
    order.skipped = skipped;
    let ended = child::run(
        &order,
        wanted.args,
        &mut Watch {
            stop: wanted.stop,
            silence: Some(REACH_SILENCE),
            event: &mut |_| (),
        },
    )?;
    if wanted.stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let mut reach = Reach::default();
    for event in ended.events {
        match event {
            Event::Subject(subject) => reach.subjects.push(subject),
            Event::Unreached { name, why } => reach.unreached.push((name, why)),
            _ => {}
        }
    }
    Ok((reach, ended.fault))
}

/// Counts crashed drivers per family and oracle.
#[derive(Default)]
struct Crashes(Mutex<HashMap<(&'static str, String), usize>>);

impl Crashes {
    fn count(&self, oracle: Oracle, driver: &str) -> usize {
        let counts = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let key = (oracle.name, family::of(driver).to_owned());
        counts.get(&key).copied().unwrap_or(0)
    }

    fn add(&self, oracle: Oracle, driver: &str) {
        let mut counts = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let key = (oracle.name, family::of(driver).to_owned());
        *counts.entry(key).or_default() += 1;
    }
}

/// Returns a name that identifies a driver's code. An internal driver, its simd wrapper, and cryptd
/// instances that wrap either of them run the same code and get the same name.
fn code(driver: &str) -> &str {
    let inner = driver.strip_prefix("cryptd(").unwrap_or(driver);
    let inner = inner.trim_start_matches("__");
    match inner.contains('(') {
        true => family::of(inner),
        false => inner.trim_end_matches(')'),
    }
}

/// Examines some drivers with one oracle, starting a new child after each crash.
fn run_chunk(
    wanted: &Wanted,
    oracle: Oracle,
    hidden: &[u16],
    subjects: &[Subject],
    crashes: &Crashes,
    progress: &dyn Fn(&str),
) -> Result<Vec<Told>, Error> {
    let mut told: Vec<Told> = (subjects.iter())
        .map(|subject| Told::new(oracle, subject.clone()))
        .collect();
    let mut at = 0;
    while at < told.len() {
        // Move the drivers that will be skipped to the end of the list.
        let left = |t: &Told| crashes.count(oracle, &t.subject.driver) >= CRASHES;
        told[at..].sort_by_key(left);
        let rest = told[at..].partition_point(|t| !left(t));
        told[at + rest..].iter_mut().for_each(|t| t.left = true);
        if rest == 0 {
            break;
        }
        let mut order = Order::new(wanted.image, wanted.seed);
        order.lonely = true;
        order.oracle = Some(OracleOrder {
            oracle: oracle.name.into(),
            number: Some(oracle.number),
            thorough: wanted.thorough,
            subjects: (told[at..at + rest].iter())
                .map(|t| t.subject.clone())
                .collect(),
            hidden: hidden.to_vec(),
        });
        let mut watch = Watch {
            stop: wanted.stop,
            silence: Some(SILENCE),
            event: &mut |event| {
                let Some(now) = told.get_mut(at) else { return };
                match event {
                    Event::Examined(examined) => {
                        now.examined = Some(examined.clone());
                        progress(&now.subject.driver);
                        at += 1;
                    }
                    Event::Violation(violation) => now.violations.push(violation.clone()),
                    Event::Warn {
                        file,
                        line,
                        address,
                    } => now.violations.push(Violation {
                        oracle: oracle.name.into(),
                        driver: now.subject.name.clone(),
                        rule: "warning".into(),
                        what: format!("the tree warns at {file}:{line}"),
                        case: String::new(),
                        trace: vec![*address],
                    }),
                    _ => {}
                }
            },
        };
        let ended = child::run(&order, wanted.args, &mut watch)?;
        if wanted.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let Some(now) = told.get_mut(at).filter(|t| !t.left) else {
            continue;
        };
        let fault = ended.fault.unwrap_or_else(|| child::Fault {
            what: format!("the process ended early: {}", ended.status),
            address: 0,
            driver: String::new(),
            case: String::new(),
            trace: Vec::new(),
        });
        now.crash(fault);
        crashes.add(oracle, &now.subject.driver);
        progress(&now.subject.driver);
        at += 1;
    }
    Ok(told)
}

/// Finds drivers whose answers differ from those of other drivers for the same algorithm.
fn compare(told: &mut [Told], oracle: Oracle) {
    let mut groups: BTreeMap<(String, usize, u64), Vec<usize>> = BTreeMap::new();
    for (i, t) in told.iter().enumerate() {
        let of = t.oracle == oracle;
        let Some(examined) = t.examined.as_ref().filter(|e| of && !e.answers.is_empty()) else {
            continue;
        };
        let alg = plain(&t.subject.alg).to_owned();
        let (count, key) = (examined.answers.len(), examined.answers[0]);
        groups.entry((alg, count, key)).or_default().push(i);
    }
    for ((alg, count, _), members) in groups {
        for group in 1..count {
            let answer = |i: &usize| told[*i].examined.as_ref().map_or(0, |e| e.answers[group]);
            // Skip drivers whose answer is 0, which means that it cannot be compared.
            let mut families: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
            for i in members.iter().filter(|i| answer(i) != 0) {
                let of = families.entry(answer(i)).or_default();
                of.insert(code(&told[*i].subject.driver));
            }
            let generic = |value: u64| {
                let named = |i: &usize| {
                    let driver = &told[*i].subject.driver;
                    answer(i) == value && (driver.contains("generic") || driver.contains("-lib"))
                };
                members.iter().any(named)
            };
            // Generic code gets two extra votes, because SIMD drivers share code and may share
            // errors.
            let votes = |value: u64, n: usize| n + 2 * usize::from(generic(value));
            let right = families
                .iter()
                .max_by_key(|(value, of)| (votes(**value, of.len()), **value));
            let Some(right) = right.map(|(value, _)| *value) else {
                continue;
            };
            let wrong: Vec<usize> = (members.iter().copied())
                .filter(|i| answer(i) != 0 && answer(i) != right)
                .collect();
            let other = members.iter().copied().find(|i| answer(i) == right);
            let other = other.map_or(String::new(), |i| told[i].subject.driver.clone());
            for i in wrong {
                let driver = told[i].subject.name.clone();
                told[i].violations.push(Violation {
                    oracle: oracle.name.into(),
                    driver,
                    rule: "answer".into(),
                    what: oracle.differs(&other, &alg),
                    case: oracle.group(group - 1),
                    trace: Vec::new(),
                });
            }
        }
    }
}

/// Returns whether a function only acts on behalf of its caller: a service, or a function that
/// copies or allocates memory. A violation in such a function is attributed to the caller.
fn is_helper(function: &str) -> bool {
    let name = function.split('+').next().unwrap_or(function);
    let starts = [
        "__wrap_",
        "mem",
        "__mem",
        "guard_",
        "vmalloc_",
        "duplicate",
        "kmem",
        "__kmalloc",
        "kmalloc",
        "rep_",
    ];
    starts.iter().any(|start| name.starts_with(start))
        || name.ends_with("_erms")
        || name.ends_with("_orig")
}

/// Groups violations into findings: one per rule and place, or per driver if the place is unknown.
fn collect(image: &Path, told: Vec<Told>, known: &Known) -> Found {
    let symbols = Symbols::lazily(image);
    let mut found = Found::default();
    let mut numbers: HashMap<(&str, String, String, Option<usize>), usize> = HashMap::new();
    for t in told {
        let mut findings = Vec::new();
        for violation in &t.violations {
            let names: Vec<String> = violation.trace.iter().map(|&a| symbols.name(a)).collect();
            // Remove Kiln's functions and unknown addresses from the backtrace.
            let of_kiln = |n: &str| ["kiln_", "svc_", "0x"].iter().any(|s| n.starts_with(s));
            let trace: Vec<String> = names.into_iter().filter(|n| !of_kiln(n)).collect();
            let place = trace.iter().find(|n| !is_helper(n));
            // If the place is unknown, merge the violations of all instances of a template.
            let template = || t.subject.driver.split('(').next().unwrap_or("").to_owned();
            let (oracle, driver) = (t.oracle.name, &t.subject.driver);
            let at = place.map_or(driver.as_str(), String::as_str);
            let entry = known.find(oracle, (&violation.rule, &violation.case), driver, at);
            found.seen.extend(entry);
            let key = (
                oracle,
                violation.rule.clone(),
                place.cloned().unwrap_or_else(template),
                entry,
            );
            if let Some(&index) = numbers.get(&key) {
                let finding = &mut found.findings[index];
                if !findings.contains(&index) {
                    findings.push(index);
                    finding.others += usize::from(finding.driver != t.subject.driver);
                }
                if t.subject.driver.len() < finding.driver.len() {
                    finding.place = place.cloned().unwrap_or_else(|| t.subject.driver.clone());
                    finding.driver.clone_from(&t.subject.driver);
                    finding.alg.clone_from(&t.subject.alg);
                    finding.what.clone_from(&violation.what);
                    finding.case.clone_from(&violation.case);
                    finding.trace = trace;
                }
                continue;
            }
            numbers.insert(key, found.findings.len());
            findings.push(found.findings.len());
            found.findings.push(Finding {
                oracle: t.oracle.name,
                driver: t.subject.driver.clone(),
                alg: t.subject.alg.clone(),
                rule: violation.rule.clone(),
                what: violation.what.clone(),
                case: violation.case.clone(),
                place: place.cloned().unwrap_or_else(|| t.subject.driver.clone()),
                trace,
                others: 0,
                known: entry.map(|number| known.reason(number).to_owned()),
            });
        }
        let examined = t.examined.as_ref();
        found.ran.push(Ran {
            oracle: t.oracle.name,
            cases: examined.map_or(u64::from(!t.left), |e| e.cases),
            refused: examined.map_or(0, |e| e.refused),
            skipped: match examined {
                _ if !findings.is_empty() => None,
                _ if t.left => Some(format!(
                    "{CRASHES} drivers of {} crashed before",
                    family::of(&t.subject.driver)
                )),
                Some(e) if e.error != 0 => Some(format!("not opened by name and key: {}", e.error)),
                Some(e) if e.cases == 0 => Some("has no case".into()),
                _ => None,
            },
            subject: t.subject,
            findings,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(driver: &str, answers: &[u64], violations: Vec<Violation>) -> Told {
        Told {
            oracle: ALL[2],
            subject: Subject {
                name: driver.into(),
                alg: "ctr(aes)".into(),
                driver: driver.into(),
                kind: 0,
                is_async: false,
                internal: false,
            },
            examined: Some(Examined {
                name: driver.into(),
                cases: 1,
                refused: 0,
                error: 0,
                answers: answers.to_vec(),
                features: Vec::new(),
            }),
            violations,
            left: false,
        }
    }

    #[test]
    fn the_driver_that_differs_from_the_others_is_named() {
        let wrong = |drivers: &[(&str, u64)]| -> Vec<String> {
            let mut all: Vec<Told> = (drivers.iter())
                .map(|(driver, answer)| told(driver, &[7, *answer], Vec::new()))
                .collect();
            compare(&mut all, ALL[2]);
            let named = all.iter().filter(|t| !t.violations.is_empty());
            named.map(|t| t.subject.driver.clone()).collect()
        };
        assert_eq!(wrong(&[("a-generic", 1), ("b", 1), ("c", 2)]), ["c"]);
        assert_eq!(
            wrong(&[("a-generic", 2), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]),
            ["a-generic"]
        );
        assert_eq!(wrong(&[("a-generic", 1), ("b", 2)]), ["b"]);
        assert_eq!(wrong(&[("a-generic", 1), ("b", 1)]), [""; 0]);
        // Drivers that share code share one vote.
        let avx = [("__x-avx", 2), ("x-avx", 2), ("cryptd(__x-avx)", 2)];
        let shared = [
            &avx[..],
            &[("__x-avx2", 2), ("x-avx2", 2), ("c(x-generic)", 1)],
        ]
        .concat();
        assert_eq!(wrong(&shared).len(), 5);
        // A driver whose answer is 0 cannot be compared, so it is not reported.
        assert_eq!(wrong(&[("a-generic", 1), ("b", 0)]), [""; 0]);
    }

    #[test]
    fn one_place_is_one_finding_and_the_shortest_driver_is_named() {
        let violation = |driver: &str| Violation {
            oracle: "values".into(),
            driver: driver.into(),
            rule: "sleep".into(),
            what: "may sleep".into(),
            case: String::new(),
            trace: Vec::new(),
        };
        let found = collect(
            Path::new("/no/image"),
            vec![
                told(
                    "ctr(a-long-name)",
                    &[],
                    vec![violation("a"), violation("a")],
                ),
                told("ctr(short)", &[], vec![violation("b")]),
                told("other", &[], vec![violation("c")]),
            ],
            &Known::default(),
        );
        assert_eq!(found.findings.len(), 2);
        assert_eq!(found.ran[0].findings, [0]);
        assert_eq!(found.ran[1].findings, [0]);
        assert_eq!(found.findings[0].driver, "ctr(short)");
        assert_eq!(found.findings[0].others, 1);
    }
}
