//! Rows that `kiln test --tree` prints.

use schemars::JsonSchema;
use serde::Serialize;

use crate::contexts::{self, Tried};
use crate::event::Checked;
use crate::kunit::{self, Verdict};
use crate::oracle::{Finding, Found, Ran};
use crate::row::Row;

/// The results of testing one driver in a kernel tree with one test suite.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "test-tree",
    title = "Tests of a kernel tree",
    extend(
        "x-question" = "Does every driver of the tree pass its own tests, in every context?",
        "x-commands" = ["test --tree"],
        "x-view" = {"check": {"fail": ["failed"], "skip": ["skipped"], "why": "reason"}}
    )
)]
pub struct TestRow {
    /// Name of the algorithm in the kernel's crypto API, such as `xts(aes)`. If `suite` is `kunit`,
    /// the name of the KUnit suite. Empty if `suite` is `build`, or if the algorithm is not known.
    #[schemars(extend("x-role" = "key"))]
    pub alg: String,
    /// Name of the driver, library function or KUnit case, or the path of an object that does not
    /// build.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub implementation: String,
    /// Kind of test: `testmgr` (the tree's own test), `contexts` (calls from several contexts),
    /// `kunit` (a case in a KUnit suite), `library` (a function that the tree's library exports),
    /// `oracle` (a rule that every driver must follow) or `build` (an object that does not build,
    /// or a crash outside any test).
    #[schemars(extend("x-role" = "key"))]
    pub suite: &'static str,
    /// Context from which the calls were made. If `suite` is `oracle`, the name of the oracle.
    #[schemars(extend("x-role" = "key"))]
    pub context: String,
    /// Highest ISA tier that the tree could see while a KUnit case ran. Present only if `suite` is
    /// `kunit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "key"))]
    pub tier: Option<&'static str>,
    /// The configuration that the tree was built with.
    #[schemars(extend("x-role" = "key"))]
    pub config: String,
    /// Number of test cases that were run.
    #[schemars(extend("x-role" = "main"))]
    pub cases: u64,
    /// Number of test cases that failed. For an oracle, the number of findings that are not in the
    /// list of known findings.
    #[schemars(extend("x-role" = "main"))]
    pub failed: u64,
    /// Number of an oracle's findings that are in the list of known findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", extend("x-role" = "figure"))]
    pub known: Option<u64>,
    /// 1 if the test was skipped, otherwise 0.
    #[schemars(extend("x-role" = "figure"))]
    pub skipped: u64,
    /// Why the test was skipped or failed. For an oracle with findings, a summary of one of them.
    /// Null if the test passed without findings.
    #[schemars(extend("x-role" = "figure"))]
    pub reason: Option<String>,
    /// An oracle's findings, each a block of lines. The first line gives the rule and how it was
    /// violated. Each further line starts with a label: `where` (the function and the offset in
    /// it), `known` (why the finding is in the list of known findings), `case` (the request),
    /// `callers`, `other drivers` (the number of other drivers with this finding) or `replay` (the
    /// command that reproduces the finding).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "figure"))]
    pub finding: Option<String>,
    /// Duration of the driver's self-test or of the KUnit case. Null if neither was run.
    #[schemars(extend("unit" = "µs"))]
    pub test_us: Option<u64>,
}

impl TestRow {
    /// Creates the row for a driver's self-test or an object's build.
    pub fn new(row: Row) -> TestRow {
        let is = |status: &str| u64::from(row.status == status);
        TestRow {
            failed: is("failed"),
            skipped: is("untested"),
            cases: is("failed") + is("tested"),
            // A row about a failed build or a crashed process does not belong to the test of any
            // algorithm.
            suite: match row.kind {
                "algorithm" => "testmgr",
                _ => "build",
            },
            context: "task, interrupted".into(),
            tier: None,
            alg: row.alg.unwrap_or_default(),
            implementation: row.name,
            reason: Some(row.reason).filter(|r| !r.is_empty()),
            known: None,
            finding: None,
            test_us: row.test_us,
            config: row.config,
        }
    }

    /// Creates one row per context. If the driver was not run, creates a single row that states the
    /// reason.
    pub fn contexts((driver, result): &Tried, config: &str) -> Vec<TestRow> {
        let row = |context: &str, cases: u64, failed: u64, reason: Option<String>| TestRow {
            alg: driver.alg.clone(),
            implementation: driver.name.clone(),
            suite: "contexts",
            context: context.into(),
            tier: None,
            cases,
            failed,
            skipped: u64::from(failed == 0 && reason.is_some()),
            reason,
            known: None,
            finding: None,
            test_us: None,
            config: config.into(),
        };
        let all = contexts::NAMES.join("; ");
        match result {
            Err(crash) => vec![row(&all, 1, 1, Some(crash.clone()))],
            Ok(seen) if seen.generic_error != 0 => {
                let reason = format!("{} is not available: {}", seen.generic, seen.generic_error);
                vec![row(&all, 0, 0, Some(reason))]
            }
            Ok(seen) if seen.error != 0 => {
                let reason = format!("not opened by name and key: {}", seen.error);
                vec![row(&all, 0, 0, Some(reason))]
            }
            Ok(seen) => (contexts::NAMES.iter().zip(seen.cases).zip(seen.wrong))
                .map(|((name, cases), wrong)| {
                    let reason = match (cases, wrong) {
                        (0, _) => Some("no interrupt arrived meanwhile".to_string()),
                        (_, 0) => None,
                        (_, n) => Some(format!(
                            "{n} of {cases} answers differ from {}",
                            seen.generic
                        )),
                    };
                    row(name, cases, wrong, reason)
                })
                .collect(),
        }
    }

    /// Creates one row for each case in a suite, and one for each crash.
    pub fn kunit(ran: &kunit::Ran, config: &str) -> Vec<TestRow> {
        let row = |case: &str, failed: bool, skipped: Option<&String>, why: String, us| TestRow {
            alg: ran.suite.clone(),
            implementation: case.to_owned(),
            suite: "kunit",
            context: "task, interrupted".into(),
            tier: Some(ran.tier.name()),
            config: config.into(),
            cases: u64::from(skipped.is_none()),
            failed: u64::from(failed),
            skipped: u64::from(skipped.is_some()),
            reason: skipped.cloned().or(Some(why).filter(|why| !why.is_empty())),
            known: None,
            finding: None,
            test_us: us,
        };
        let case = |case: &kunit::Case| {
            let (failed, skipped) = match &case.verdict {
                Verdict::Passed => (false, None),
                Verdict::Failed => (true, None),
                Verdict::Skipped(why) => (false, Some(why)),
            };
            let why = match failed {
                true => case.said.join("; "),
                false => String::new(),
            };
            row(&case.name, failed, skipped, why, Some(case.us))
        };
        let crash = |c: &kunit::Crash| row("(crash)", true, None, c.what.clone(), None);
        let cases = ran.cases.iter().map(case);
        cases.chain(ran.faults.iter().map(crash)).collect()
    }

    /// Creates the row for a library function.
    pub fn library(checked: &Checked, config: &str) -> TestRow {
        TestRow {
            alg: checked.alg.clone(),
            implementation: match checked.op.as_str() {
                "encrypt" | "decrypt" => format!("{} {}", checked.function, checked.op),
                _ => checked.function.clone(),
            },
            suite: "library",
            context: "task".into(),
            tier: None,
            config: config.into(),
            cases: checked.cases,
            failed: checked.failed,
            skipped: u64::from(checked.cases == 0),
            reason: match checked.cases {
                0 => Some("accepts none of the message lengths".into()),
                _ => checked.reason.clone(),
            },
            known: None,
            finding: None,
            test_us: None,
        }
    }

    /// Creates the row for a driver that an oracle examined.
    pub fn oracle(
        ran: &Ran,
        found: &Found,
        config: &str,
        replay: &dyn Fn(&Finding) -> String,
    ) -> TestRow {
        let findings: Vec<&Finding> = ran.findings.iter().map(|&i| &found.findings[i]).collect();
        // A finding's full block is included only in the row of the driver that the finding names.
        let (own, others): (Vec<&Finding>, Vec<&Finding>) =
            (findings.iter()).partition(|f| f.driver == ran.subject.driver);
        let mut blocks: Vec<String> = own.iter().map(|f| f.block(&replay(f))).collect();
        blocks.extend(others.iter().map(|f| {
            let mut block = format!(
                "{}: {}, as {}\nwhere: {}",
                f.rule, f.what, f.driver, f.place
            );
            (f.known.iter()).for_each(|reason| block += &format!("\nknown: {reason}"));
            block
        }));
        // Prefer a finding that is not known, because it makes the row fail.
        let all = || own.iter().chain(&others);
        let known = all().filter(|f| f.known.is_some()).count() as u64;
        let first = all().min_by_key(|f| f.known.is_some());
        TestRow {
            alg: ran.subject.alg.clone(),
            implementation: ran.subject.driver.clone(),
            suite: "oracle",
            context: ran.oracle.into(),
            tier: None,
            config: config.into(),
            cases: ran.cases,
            failed: findings.len() as u64 - known,
            known: Some(known),
            skipped: u64::from(findings.is_empty() && ran.skipped.is_some()),
            reason: match first {
                Some(f) => {
                    let known = f.known.as_ref().map_or("", |_| "known: ");
                    Some(format!("{known}{}: {}, in {}", f.rule, f.what, f.place))
                }
                None => ran.skipped.clone(),
            },
            finding: (!blocks.is_empty()).then(|| blocks.join("\n")),
            test_us: None,
        }
    }

    /// Returns the name of the driver or function, followed by what was tested.
    pub fn name(&self) -> String {
        if let Some(tier) = self.tier {
            return format!("{}.{} {tier}", self.alg, self.implementation);
        }
        let of = match self.alg.as_str() {
            "" => String::new(),
            alg => format!(" {alg}"),
        };
        let place = match self.suite {
            "contexts" => format!(" in {}", self.context),
            "library" => " of the library".into(),
            "oracle" => format!(" under oracle {}", self.context),
            _ => String::new(),
        };
        format!("{}{of}{place}", self.implementation)
    }
}
