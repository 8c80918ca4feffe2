//! Tests Kiln's ciphers with Linux's own testmgr. Reports which drivers passed, and which drivers
//! were not tested.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kiln_kernel::cipher::Impl;
use kiln_tree::event::Event;
use schemars::JsonSchema;
use serde::Serialize;

use crate::boot::Boot;
use crate::console::Line;
use crate::init::{initramfs, Order};
use crate::live;
use crate::module::{tiers, Module, PREFIX};
use crate::tcrypt::{insert, loaded, TEMPLATES};
use crate::uml::Built;
use crate::Error;

/// Message that testmgr prints once, when its first test begins, if its full tests are enabled.
const FULL: &str = "crypto tests enabled";

/// Number of rounds in which the module saves and restores live registers.
const LIVE_ROUNDS: u32 = 1000;

/// The verdict of Linux's testmgr on one of Kiln's implementations.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "linux-selftest",
    title = "Linux's own self-tests",
    extend(
        "x-question" = "Does the testmgr of real Linux accept the implementations?",
        "x-commands" = ["linux selftest"],
        "x-view" = {"check": {"fail": ["selftest=failed"], "skip": ["selftest!=passed"], "why": "reason"}}
    )
)]
pub struct Row {
    /// Name under which Linux knows the driver, such as `kiln-xts-aes-aesni`.
    #[schemars(extend("x-role" = "key"))]
    pub driver: String,
    /// Algorithm name in the kernel's crypto API, such as `xts(aes)`.
    #[schemars(extend("x-role" = "key"))]
    pub alg: String,
    /// ISA tier of the implementation.
    #[schemars(extend("x-role" = "key"))]
    pub tier: String,
    /// Verdict: `passed`, `failed`, `untested` (none of Linux's tests reached the driver), `absent`
    /// (the CPU lacks the driver's tier, or `KILN_TIERS` excludes it) or `unknown` (Linux reported
    /// neither success nor failure).
    #[schemars(extend("x-role" = "main", "x-heading" = "self-test"))]
    pub selftest: &'static str,
    /// Reason for any `selftest` verdict other than `passed`. Empty for `passed`.
    #[schemars(extend("x-role" = "figure"))]
    pub reason: String,
}

/// Options for a testmgr run.
pub struct Plan<'a> {
    pub built: &'a Built,
    /// Kiln's module, built for this kernel.
    pub module: &'a Module,
    /// Algorithm or driver to test; `None` tests all.
    pub only: Option<&'a str>,
    /// Iterations per random test; `None` selects Linux's default of 100.
    pub fuzz: Option<u32>,
    /// Maximum duration of the boot. A boot that takes longer is killed.
    pub limit: Duration,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Callback that receives the completed fraction and a description of the current activity.
    pub progress: &'a dyn Fn(f64, &str),
}

#[derive(Debug)]
pub struct Outcome {
    /// One row per requested implementation.
    pub rows: Vec<Row>,
    /// Notes that help the reader interpret the rows.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Returns whether any driver did not pass although Linux has tests for it.
    pub fn failed(&self) -> bool {
        let bad = |row: &Row| matches!(row.selftest, "failed" | "unknown");
        self.rows.iter().any(bad)
    }
}

/// Boots the kernel, loads the module, and collects each driver's result.
///
/// # Errors
/// Fails if the kernel cannot be booted, cannot load the module, or did not run its full tests.
pub fn run(plan: &Plan) -> Result<Outcome, Error> {
    let mut parameters = format!("all=1 check=0 live={LIVE_ROUNDS} tiers={}", tiers());
    if let Some(name) = plan.only {
        write!(parameters, " only={name}").expect("a string");
    }
    let templates = loaded(plan.built, &TEMPLATES);
    let mut orders: Vec<Order> = templates.iter().map(|(path, _)| insert(path)).collect();
    orders.push(Order::module("/kiln.ko", &parameters));
    orders.push(Order::print("/proc/crypto"));
    let mut archive = initramfs(&plan.built.compiler, &orders)?;
    for (path, module) in &templates {
        archive.file(path, module);
    }
    let module =
        std::fs::read(&plan.module.path).map_err(|e| Error::cache(&plan.module.path, e))?;
    archive.file("kiln.ko", &module);
    let fuzz = plan.fuzz.map(|n| format!("cryptomgr.fuzz_iterations={n}"));
    let arguments: Vec<&str> = fuzz.iter().map(String::as_str).collect();
    let mut heard = Heard::default();
    (plan.progress)(0.0, "Linux's testmgr");
    let outcome = Boot {
        linux: &plan.built.linux,
        initramfs: archive.finish(),
        memory: "256M",
        arguments: &arguments,
        limit: plan.limit,
        stop: plan.stop,
    }
    .run(&mut |line| heard.line(line))?;
    if outcome.exit != Some(0) {
        let version = &plan.built.version;
        return Err(Error::Console {
            what: format!("Kiln's module cannot be loaded into Linux {version}"),
            tail: outcome.tail,
        });
    }
    live::judge(&heard.live, LIVE_ROUNDS)?;
    heard.outcome(&plan.built.version, plan.only)
}

/// Returns an algorithm's implementations, or the one implementation with this driver name. If no
/// name is given, returns all implementations.
pub(crate) fn select_impls(only: Option<&str>) -> Vec<Impl> {
    let mut all = Impl::all();
    all.retain(|i| only.is_none_or(|name| name == i.alg() || name == i.driver()));
    all
}

/// What a kernel reported about its drivers. A booted kernel reports on its console; a hosted tree
/// reports through events.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    full: bool,
    /// Status of each driver in /proc/crypto, by driver name.
    listed: HashMap<String, String>,
    driver: Option<String>,
    /// First message about each driver that failed, by driver name.
    failed: HashMap<String, String>,
    /// Reasons why drivers were not tested, by driver name.
    untested: HashMap<String, &'static str>,
    /// Drivers that testmgr could not compare with their generic drivers.
    skipped: Vec<String>,
    /// The module's results for saving and restoring live registers.
    live: Vec<live::Width>,
}

const NO_TEST: &str = "Linux has no test for the algorithm";

impl Heard {
    /// Returns the rows of the requested implementations.
    ///
    /// # Errors
    /// Fails if this kernel did not run its full tests.
    pub(crate) fn outcome(&self, version: &str, only: Option<&str>) -> Result<Outcome, Error> {
        if !self.full {
            return Err(Error::TestsCut(version.to_owned()));
        }
        let mut rows: Vec<Row> = select_impls(only)
            .into_iter()
            .map(|i| self.row(i))
            .collect();
        rows.sort_by(|a, b| (&a.alg, &a.driver).cmp(&(&b.alg, &b.driver)));
        let mut notes = notes(&rows, &self.skipped);
        notes.extend(self.live.iter().map(live::Width::note));
        Ok(Outcome { rows, notes })
    }

    /// Processes an event. Each driver is reported after its test and once more at the end of the
    /// run.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::Log { text } => self.log(text.trim_end()),
            Event::Test {
                driver,
                result: 0,
                reached: false,
                ..
            } => {
                let why = self.untested.entry(driver.clone());
                why.or_insert("its test passes without using it");
            }
            Event::Test { driver, result, .. } if *result != 0 => {
                self.fails(driver, &format!("its self-test says {result}"));
            }
            Event::Alg(alg) => {
                let status = if alg.tested { "passed" } else { "not tested" };
                self.listed.insert(alg.driver.clone(), status.into());
            }
            _ => {}
        }
    }

    /// Records a failure. If a driver fails repeatedly, the first reason is kept, because it is the
    /// most informative.
    pub(crate) fn fails(&mut self, driver: &str, why: &str) {
        let first = self.failed.entry(driver.to_owned());
        first.or_insert_with(|| why.to_owned());
    }

    fn line(&mut self, line: &Line) {
        match line {
            Line::Out(text) => self.listing(text),
            Line::Log { text, .. } | Line::Noise(text) => self.log(text),
            _ => {}
        }
    }

    /// Parses a line of `/proc/crypto`, where the `key : value` lines form one block per driver. A
    /// driver under test has a second block for its test larval.
    fn listing(&mut self, text: &str) {
        let Some((key, value)) = text.split_once(':') else {
            self.driver = None;
            return;
        };
        match key.trim() {
            "driver" => self.driver = Some(value.trim().to_owned()),
            "selftest" => {
                if let Some(driver) = self.driver.take() {
                    let status = value.trim().to_owned();
                    let known = self.listed.entry(driver).or_insert_with(|| status.clone());
                    if *known == "passed" {
                        *known = status;
                    }
                }
            }
            _ => {}
        }
    }

    fn log(&mut self, text: &str) {
        if text.contains(FULL) {
            self.full = true;
        }
        self.live.extend(live::Width::read(text));
        let Some((_, said)) = text.split_once("alg: ") else {
            return;
        };
        if let Some(rest) = said.strip_prefix("No test for ") {
            let driver = rest.rsplit_once('(').and_then(|(_, d)| d.split_once(')'));
            self.untested
                .extend(driver.map(|(d, _)| (d.to_owned(), NO_TEST)));
            return;
        }
        let Some(driver) = said.split([' ', ',', ':']).find(|w| w.starts_with(PREFIX)) else {
            return;
        };
        if said.contains("skipping comparison") {
            self.skipped.push(driver.to_owned());
        } else if said.contains("failed") || said.contains("unexpected") || said.contains("doesn't")
        {
            self.fails(driver, said);
        }
    }

    fn row(&self, imp: Impl) -> Row {
        let driver = format!("{PREFIX}{}", imp.driver());
        let (selftest, reason) = self.verdict(&driver, imp);
        Row {
            alg: imp.alg().into(),
            tier: imp.tier().name().into(),
            driver,
            selftest,
            reason,
        }
    }

    fn verdict(&self, driver: &str, imp: Impl) -> (&'static str, String) {
        if let Some(why) = self.failed.get(driver) {
            return ("failed", why.clone());
        }
        match (
            self.listed.get(driver).map(String::as_str),
            imp.tier().lacks(),
        ) {
            (None, Some(feature)) => ("absent", format!("this CPU lacks {feature}")),
            (None, None) if !imp.tier().usable() => ("absent", "KILN_TIERS leaves it out".into()),
            (None, None) => ("unknown", "the module did not register it".into()),
            (Some("passed"), _) => match self.untested.get(driver) {
                Some(why) => ("untested", (*why).into()),
                None => ("passed", String::new()),
            },
            (Some(status), _) => ("unknown", format!("Linux lists it as: {status}")),
        }
    }
}

fn notes(rows: &[Row], skipped: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    for (status, of) in [
        ("untested", "Linux has no test for, which proves nothing of"),
        ("absent", "this CPU cannot run, so that Linux never saw"),
    ] {
        let names: Vec<&str> = rows
            .iter()
            .filter(|r| r.selftest == status)
            .map(|r| r.driver.as_str())
            .collect();
        if !names.is_empty() {
            notes.push(format!(
                "{} drivers {of} them: {}",
                names.len(),
                names.join(", ")
            ));
        }
    }
    if !skipped.is_empty() {
        notes.push(format!(
            "not compared with Linux's generic code, which it does not have: {}",
            skipped.join(", ")
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(n: usize) -> Impl {
        let xts = Impl::find_all("xts(aes)");
        xts[n]
    }

    fn heard(lines: &[&str]) -> Heard {
        let mut heard = Heard::default();
        for line in lines {
            heard.line(&crate::console::line(line.as_bytes()));
        }
        heard
    }

    fn block(driver: &str, status: &str) -> Vec<String> {
        vec![
            "kiln:out name         : xts(aes)".into(),
            format!("kiln:out driver       : {driver}"),
            "kiln:out module       : kiln".into(),
            format!("kiln:out selftest     : {status}"),
            "kiln:out type         : skcipher".into(),
            "kiln:out ".into(),
        ]
    }

    #[test]
    fn each_driver_has_its_verdict() {
        let imp = driver(0);
        let name = format!("{PREFIX}{}", imp.driver());
        let failed = format!(
            "kiln:log 3 1.5 alg: skcipher: {name} encryption test failed (wrong result) on test vector 0"
        );
        let untested = format!("kiln:log 6 1.5 alg: No test for xts(aes) ({name})");
        let listed = |status: &str| block(&name, status);
        let verdict = |mut lines: Vec<String>, more: &[&str]| {
            lines.extend(more.iter().map(|l| l.to_string()));
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            heard(&lines).row(imp).selftest
        };
        assert_eq!(verdict(listed("passed"), &[]), "passed");
        assert_eq!(verdict(listed("unknown"), &[]), "unknown");
        assert_eq!(verdict(listed("passed"), &[&untested]), "untested");
        // Linux reports the self-test status of a failed driver as "unknown".
        assert_eq!(verdict(listed("unknown"), &[&failed]), "failed");
        assert_eq!(verdict(listed("passed"), &[&failed]), "failed");
        assert_eq!(verdict(Vec::new(), &[]), "unknown");
        // The driver has two blocks: one for the driver itself and one for its test larval.
        let mut twice = listed("passed");
        twice.extend(listed("unknown"));
        assert_eq!(verdict(twice, &[]), "unknown");
    }

    #[test]
    fn a_hosted_driver_has_its_verdict_too() {
        let imp = driver(0);
        let name = format!("{PREFIX}{}", imp.driver());
        let test = |result: i32, reached: bool| {
            format!(
                r#"{{"event":"test","driver":"{name}","alg":"xts(aes)","result":{result},"us":7,"reached":{reached}}}"#
            )
        };
        let listed = |tested: bool| {
            format!(
                r#"{{"event":"alg","name":"xts(aes)","driver":"{name}","type":"skcipher","priority":1,"async":false,"internal":false,"tested":{tested}}}"#
            )
        };
        let verdict = |lines: &[String]| {
            let mut heard = Heard::default();
            for line in lines {
                heard.event(&serde_json::from_str(line).unwrap());
            }
            heard.row(imp).selftest
        };
        // The first report follows the driver's test. At that time, Linux has not yet marked the
        // driver as tested.
        let (soon, marked) = (listed(false), listed(true));
        let passed = [test(0, true), soon.clone(), marked.clone()];
        assert_eq!(verdict(&passed), "passed");
        assert_eq!(verdict(&passed[..2]), "unknown");
        assert_eq!(verdict(&[test(0, false), marked.clone()]), "untested");
        assert_eq!(verdict(&[test(-22, true), soon]), "failed");
        assert_eq!(verdict(&[test(-22, true), marked]), "failed");
        assert_eq!(verdict(&[]), "unknown");
    }

    #[test]
    fn hostile_lines_prove_nothing() {
        let heard = heard(&[
            "kiln:out selftest     : passed",
            "kiln:out driver       :",
            "kiln:out selftest     : passed",
            "kiln:log 3 1.0 alg: ",
            "kiln:log 3 1.0 alg: No test for x (",
            "kiln:log 3 1.0 alg: No test for",
            "kiln:log 3 1.0 alg: kiln- failed",
            "kiln:out : : :",
            "alg: \u{fffd}\u{1b}[2J failed",
        ]);
        assert!(!heard.full);
        assert!(heard.untested.is_empty());
        assert_eq!(heard.row(driver(1)).selftest, "unknown");
    }

    #[test]
    fn tests_that_were_not_run_are_noticed() {
        assert!(
            heard(&["alg: extra crypto tests enabled.  This is intended for developer use only."])
                .full
        );
        assert!(
            heard(&["alg: full crypto tests enabled.  This is intended for developer use only."])
                .full
        );
        assert!(!heard(&["alg: self-tests disabled"]).full);
    }
}
