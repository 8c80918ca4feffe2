//! Rows that `kiln tree` prints.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::event::{Alg, Event};
use crate::fault::Symbols;
use crate::select::Selection;
use crate::selftest::Seen;

/// A status that makes the command fail.
pub(crate) const FAILED: &str = "failed";

/// An object file or an algorithm in a kernel tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(
    rename = "tree",
    title = "The kernel tree",
    extend(
        "x-question" = "What does the tree contain?",
        "x-commands" = ["tree"]
    )
)]
pub struct Row {
    /// Kind of row: `object` or `algorithm`.
    #[schemars(extend("x-role" = "key"))]
    pub kind: &'static str,
    /// Path of the object file, or driver name of the algorithm.
    #[schemars(extend("x-role" = "key"))]
    pub name: String,
    /// Name of the algorithm in the kernel's crypto API, such as `xts(aes)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "key"))]
    pub alg: Option<String>,
    /// Type of the algorithm in the crypto API, such as `skcipher`, `aead` or `shash`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "key"))]
    pub alg_type: Option<String>,
    /// The configuration that the tree was built with.
    #[schemars(extend("x-role" = "key"))]
    pub config: String,
    /// Status of the object file (`built`, `left-out` or `failed`) or of the algorithm (`tested`,
    /// `untested` or `failed`).
    #[schemars(extend("x-role" = "main"))]
    pub status: &'static str,
    /// The driver's priority. If several drivers implement an algorithm, the one with the highest
    /// priority is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", extend("x-role" = "figure"))]
    pub priority: Option<i32>,
    /// Whether the driver is asynchronous: it may complete a request after the call has returned.
    #[serde(rename = "async", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub is_async: Option<bool>,
    /// Whether the driver is internal: only other drivers of the crypto API may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub internal: Option<bool>,
    /// Duration of the driver's self-test.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", extend("unit" = "µs", "x-role" = "figure", "x-heading" = "self-test µs"))]
    pub test_us: Option<u64>,
    /// Reason for the status `left-out`, `untested` or `failed`. Empty for every other status.
    #[schemars(extend("x-role" = "figure"))]
    pub reason: String,
}

impl Row {
    fn object(name: &str, status: &'static str, reason: String) -> Row {
        Row {
            kind: "object",
            name: name.to_string(),
            status,
            reason,
            ..Row::default()
        }
    }
}

pub(crate) fn objects(selection: &Selection, failures: &[(String, String)]) -> Vec<Row> {
    let failed = failures
        .iter()
        .map(|(name, why)| Row::object(name, FAILED, why.clone()));
    let left_out = selection.left_out.iter().map(|(name, missing)| {
        let more = match missing.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        Row::object(name, "left-out", format!("needs {}{more}", missing[0]))
    });
    let built = selection
        .linked
        .iter()
        .map(|name| Row::object(name, "built", String::new()));
    failed.chain(left_out).chain(built).collect()
}

/// Adds a row for each algorithm. Events that do not belong to any row become notes.
pub(crate) fn algorithms(
    seen: &Seen,
    symbols: &Symbols,
    rows: &mut Vec<Row>,
    notes: &mut Vec<String>,
) {
    let mut tests: HashMap<&str, (i32, u64, bool)> = HashMap::new();
    let mut without: HashSet<&str> = HashSet::new();
    let mut said: HashMap<&str, &str> = HashMap::new();
    let mut nothing_to_drive: Vec<String> = Vec::new();
    let drivers: Vec<&str> = seen
        .events
        .iter()
        .filter_map(|e| match e {
            Event::Alg(alg) => Some(alg.driver.as_str()),
            _ => None,
        })
        .collect();
    for event in &seen.events {
        match event {
            Event::Test {
                driver,
                result,
                us,
                reached,
                ..
            } => {
                tests.insert(driver, (*result, *us, *reached));
            }
            Event::Log { text } => {
                let text = text.trim();
                if let Some(rest) = text.strip_prefix("alg: No test for ") {
                    if let Some((_, driver)) = rest.split_once(" (") {
                        without.insert(driver.trim_end_matches(')'));
                    }
                } else if text.starts_with("alg: ") && !text.contains("skipping comparison") {
                    for word in text.split_whitespace() {
                        if let Some(driver) = drivers.iter().find(|d| **d == word) {
                            // The first message states the reason. Later messages only repeat that
                            // the test failed.
                            said.entry(driver).or_insert(text);
                        }
                    }
                }
            }
            Event::Initcall { address, result } if *result == -libc::ENODEV => {
                let name = symbols.name(*address);
                nothing_to_drive.push(name.trim_end_matches("+0x0").to_string());
            }
            Event::Interrupts {
                irqs,
                in_section,
                sections,
            } => notes.push(format!(
                "{irqs} interrupts meanwhile, {in_section} of them in the tree's {sections} sections"
            )),
            Event::Initcall { address, result } => notes.push(format!(
                "initcall {} failed with {result}",
                symbols.name(*address)
            )),
            Event::Warn {
                address,
                file,
                line,
            } => notes.push(format!(
                "the tree warned at {file}:{line}, in {}",
                symbols.name(*address)
            )),
            _ => {}
        }
    }
    notes.dedup();
    if !nothing_to_drive.is_empty() {
        notes.push(format!(
            "not for this CPU, or not under KILN_TIERS: {}",
            nothing_to_drive.join(", ")
        ));
    }
    // A driver is reported after its test, and again at the end unless it has been replaced in the
    // meantime. Use the last report.
    let mut told: HashSet<&str> = HashSet::new();
    let mut algs: Vec<&Alg> = Vec::new();
    for event in seen.events.iter().rev() {
        if let Event::Alg(alg) = event {
            if told.insert(&alg.driver) {
                algs.push(alg);
            }
        }
    }
    for alg in algs.into_iter().rev() {
        let driver = alg.driver.as_str();
        let test = tests.get(driver);
        let (status, reason) = match (seen.faults.get(driver), test) {
            (Some((what, address)), _) => (FAILED, symbols.fault(what, *address)),
            (None, Some((0, ..))) if without.contains(driver) => {
                ("untested", "the tree has no test for it".to_string())
            }
            (None, Some((0, _, false))) => {
                ("untested", "its test passes without using it".to_string())
            }
            (None, Some((0, ..))) => ("tested", String::new()),
            (None, Some((result, ..))) => (
                FAILED,
                said.get(driver).map_or_else(
                    || format!("its self-test returned {result}"),
                    |s| s.to_string(),
                ),
            ),
            (None, None) if alg.internal => (
                "untested",
                "internal: tested through the driver that uses it".to_string(),
            ),
            (None, None) => (
                "untested",
                "the tree's crypto manager did not test it".to_string(),
            ),
        };
        rows.push(Row {
            kind: "algorithm",
            name: alg.driver.clone(),
            status,
            reason,
            config: String::new(),
            alg: Some(alg.name.clone()),
            alg_type: Some(alg.kind.clone()),
            priority: Some(alg.priority),
            is_async: Some(alg.is_async),
            internal: Some(alg.internal),
            test_us: test.map(|(_, us, _)| *us),
        });
    }
    // Add drivers that crashed before they could be listed, either because their registration
    // failed or because the process ended early.
    let listed: HashSet<String> = rows.iter().map(|row| row.name.clone()).collect();
    let mut unlisted: Vec<_> = (seen.faults.iter())
        .filter(|(driver, _)| !listed.contains(*driver))
        .collect();
    unlisted.sort();
    for (driver, (what, address)) in unlisted {
        let row = Row::object(driver, FAILED, symbols.fault(what, *address));
        rows.push(Row {
            kind: "algorithm",
            ..row
        });
    }
    if let Some((what, address)) = &seen.broken {
        let line = symbols.fault(what, *address);
        rows.push(Row::object("(the hosted tree)", FAILED, line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alg(driver: &str, internal: bool) -> Event {
        Event::Alg(Alg {
            name: "xts(aes)".into(),
            driver: driver.into(),
            kind: "skcipher".into(),
            priority: 100,
            is_async: false,
            internal,
            tested: true,
        })
    }

    fn test(driver: &str, result: i32) -> Event {
        Event::Test {
            driver: driver.into(),
            alg: "xts(aes)".into(),
            result,
            us: 7,
            reached: driver != "empty",
        }
    }

    #[test]
    fn a_status_says_what_really_ran() {
        let seen = Seen {
            events: vec![
                Event::Log {
                    text: "alg: No test for x (odd)\n".into(),
                },
                Event::Log {
                    text: "alg: skcipher: wrong encryption test failed\n".into(),
                },
                test("good", 0),
                test("odd", 0),
                test("empty", 0),
                test("wrong", -22),
                alg("good", false),
                alg("odd", false),
                alg("good", false),
                alg("odd", false),
                alg("empty", false),
                alg("wrong", false),
                alg("crashes", false),
                alg("inner", true),
                alg("forgotten", false),
            ],
            faults: HashMap::from([("crashes".into(), ("Segmentation fault".into(), 0x10))]),
            broken: None,
        };
        let (mut rows, mut notes) = (Vec::new(), Vec::new());
        algorithms(&seen, &Symbols::from_symbols(&[]), &mut rows, &mut notes);
        let told: Vec<_> = rows.iter().map(|r| (r.name.as_str(), r.status)).collect();
        assert_eq!(
            told,
            [
                ("good", "tested"),
                ("odd", "untested"),
                ("empty", "untested"),
                ("wrong", "failed"),
                ("crashes", "failed"),
                ("inner", "untested"),
                ("forgotten", "untested")
            ]
        );
        assert!(rows[3].reason.contains("encryption test failed"));
        assert_eq!(rows[4].reason, "Segmentation fault, in 0x10");
        assert!(notes.is_empty());
    }
}
