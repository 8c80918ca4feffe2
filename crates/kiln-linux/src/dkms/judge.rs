//! Parses the guest's answers, and checks that they meet the expectations.

use std::collections::BTreeMap;

use super::row::{Outcome, Row, PLANTED};
use super::script::Script;
use crate::console::{End, Line};
use crate::module::PREFIX;
use crate::Error;

/// Texts by which faults are recognised in the kernel's log: warnings, KASAN, KCSAN, lockdep,
/// stalls.
const REPORTS: [&str; 6] = [
    "WARNING:",
    "BUG:",
    "INFO: rcu",
    "Oops:",
    "general protection",
    "alg: self-tests for",
];

/// Minimum number of sections that softirqs must have interrupted. A run with fewer proves too
/// little.
const ENOUGH: u64 = 100;

/// The console output of a boot.
#[derive(Default)]
pub(super) struct Heard {
    /// Number of the order that is being executed.
    pub(super) order: u32,
    out: BTreeMap<u32, Vec<String>>,
    ends: BTreeMap<u32, End>,
    /// Messages in which the module refuses to offer a driver, each with the number of the order
    /// that was being executed.
    refused: Vec<(u32, String)>,
    faults: Vec<String>,
}

impl Heard {
    pub(super) fn line(&mut self, line: &Line) {
        match line {
            Line::Begin { order, .. } => self.order = *order,
            Line::Out(text) => self.out.entry(self.order).or_default().push(text.clone()),
            Line::End { order, how } => drop(self.ends.insert(*order, *how)),
            Line::Log { text, .. } if text.contains("not offered: it ") => {
                self.refused.push((self.order, text.clone()));
            }
            Line::Log { text, .. } if REPORTS.iter().any(|r| text.contains(r)) => {
                self.faults.push(format!("the kernel's log: {text}"));
            }
            Line::Lost => self.faults.push("messages of the kernel were lost".into()),
            _ => {}
        }
    }

    fn lines(&self, order: u32) -> &[String] {
        self.out.get(&order).map_or(&[], Vec::as_slice)
    }

    /// Returns Kiln's drivers that an order listed from `/proc/crypto`, with the status of their
    /// self-tests (`passed` or `unknown`), sorted by name.
    fn drivers(&self, order: u32) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut driver = "";
        for line in self.lines(order) {
            let Some((key, value)) = line.split_once(": ") else {
                continue;
            };
            match key.trim() {
                "driver" => driver = value.trim(),
                "selftest" if driver.starts_with(PREFIX) => {
                    found.push((driver.to_owned(), value.trim().to_owned()));
                }
                _ => {}
            }
        }
        found.sort();
        found
    }
}

/// Converts the answers to rows, findings and notes.
///
/// # Errors
/// Fails if an answer is missing or cannot be parsed.
pub(super) fn judge(script: &Script, heard: &Heard, cycles: u32) -> Result<Outcome, Error> {
    let drivers = heard.drivers(script.listed);
    let passed = drivers.iter().filter(|(_, test)| test == "passed").count() as u64;
    let (mut rows, mut cryptd) = (Vec::new(), 0);
    for (row, answers) in &script.rows {
        let mut row = row.clone();
        let line = heard.lines(answers.traffic).first();
        let line = line.ok_or_else(|| Error::Answer("the traffic has no result".into()))?;
        read_traffic(&mut row, line).map_err(Error::Answer)?;
        let total = read_probe(heard.lines(answers.cryptd)).map_err(Error::Answer)?;
        row.cryptd = total.saturating_sub(cryptd);
        cryptd = total;
        if row.module == "with" {
            row.drivers = passed;
        }
        rows.push(row);
    }
    let mut findings = heard.faults.clone();
    findings.extend(find_faults(&rows, cycles));
    findings.extend(find_refused(script, heard, &drivers));
    let names: Vec<&str> = drivers.iter().map(|(name, _)| name.as_str()).collect();
    let refused: Vec<&str> = heard
        .refused
        .iter()
        .map(|(_, text)| text.as_str())
        .collect();
    let notes = vec![
        format!("drivers of the module: {}", names.join(", ")),
        format!(
            "control, one bit of a known answer flipped: {}",
            refused.join("; ")
        ),
    ];
    Ok(Outcome {
        rows,
        findings,
        notes,
    })
}

/// Checks which drivers were offered. The package's module must offer all drivers. The module with
/// the planted wrong answer must offer all drivers except those of that answer's algorithm.
fn find_refused(script: &Script, heard: &Heard, drivers: &[(String, String)]) -> Vec<String> {
    let stem = format!("{PREFIX}rfc4106-gcm-aes-");
    let planted = heard.drivers(script.planted);
    let offers = |name: &String| planted.iter().any(|(n, _)| n == name);
    let mut found = Vec::new();
    if !drivers.iter().any(|(name, _)| name.starts_with(&stem)) {
        found.push(format!("no driver of {PLANTED} was registered"));
    }
    for (name, test) in drivers {
        let is_wrong = name.starts_with(&stem);
        if is_wrong && offers(name) {
            found.push(format!(
                "the control: {name} was offered in spite of a wrong known answer"
            ));
        }
        if !is_wrong && !offers(name) {
            found.push(format!(
                "the control: {name} was not offered because of another algorithm's answer"
            ));
        }
        if test != "passed" {
            found.push(format!("{name}: Linux's self-test: {test}"));
        }
    }
    let real = heard
        .refused
        .iter()
        .filter(|(order, _)| *order >= script.planted);
    found.extend(real.map(|(_, text)| text.clone()));
    found
}

/// Describes the conditions that these rows violate.
fn find_faults(rows: &[Row], cycles: u32) -> Vec<String> {
    let mut found = Vec::new();
    for row in rows {
        let name = format!("{}, {}, {}", row.module, row.mode, row.cipher);
        for (what, count) in [
            ("packets", row.wrong),
            ("pieces of the disk", row.disk_wrong),
            ("registers of a program", row.registers_wrong),
        ] {
            if count > 0 && row.module != "unsaved" {
                found.push(format!("{name}: {count} {what} wrong"));
            }
        }
        if row.sent == row.lost || row.disk == 0 || row.registers == 0 {
            found.push(format!("{name}: part of the load did not run"));
        }
        if row.module == "with" && row.cryptd > 0 {
            found.push(format!("{name}: {} requests went to cryptd", row.cryptd));
        }
        if row.module == "with" && row.lost > 0 {
            found.push(format!("{name}: {} packets were lost", row.lost));
        }
        if row.module == "cycles" && row.cycles != u64::from(cycles) {
            found.push(format!("{name}: {} of {cycles}", row.cycles));
        }
    }
    let sum = |module: &str, count: fn(&Row) -> u64| -> u64 {
        rows.iter().filter(|r| r.module == module).map(count).sum()
    };
    let saves = sum("with", |r| r.nested_saves);
    if saves < ENOUGH {
        found.push(format!(
            "{saves} sections over interrupted ones: too few to prove anything"
        ));
    }
    if sum("without", |r| r.cryptd) == 0 {
        found.push("the control: without the module nothing went to cryptd either".into());
    }
    if sum("unsaved", |r| r.wrong + r.disk_wrong) == 0 {
        found.push(
            "the control: without saving registers nothing was wrong, so nothing would have been found"
                .into(),
        );
    }
    found
}

/// Parses the line of names and numbers that `linux/judge/traffic.c` prints.
fn read_traffic(row: &mut Row, line: &str) -> Result<(), String> {
    const NAMES: [&str; 11] = [
        "sent",
        "received",
        "reordered",
        "wrong",
        "refused",
        "chunks",
        "chunks_wrong",
        "rounds",
        "rounds_wrong",
        "cycles",
        "saves",
    ];
    let bad = || format!("'{}' is not a result of the traffic", line.escape_debug());
    let words: Vec<&str> = line.split(' ').collect();
    if words.len() != 2 * NAMES.len() {
        return Err(bad());
    }
    let mut counts = [0u64; NAMES.len()];
    for (i, pair) in words.chunks(2).enumerate() {
        if pair[0] != NAMES[i] {
            return Err(bad());
        }
        counts[i] = pair[1].parse().map_err(|_| bad())?;
    }
    let [sent, received, reordered, wrong, _, disk, disk_wrong, registers, registers_wrong, cycles, nested_saves] =
        counts;
    *row = Row {
        sent,
        lost: sent.checked_sub(received).ok_or_else(bad)?,
        reordered,
        wrong,
        disk,
        disk_wrong,
        registers,
        registers_wrong,
        cycles,
        nested_saves,
        ..row.clone()
    };
    Ok(())
}

/// Parses `NAME HITS MISSES`, the format of the kernel's `kprobe_profile`. Misses are calls that
/// the probe did not count.
fn read_probe(lines: &[String]) -> Result<u64, String> {
    let words = lines
        .first()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    match words.as_deref() {
        Some(["cryptd", hits, "0"]) => hits.parse().map_err(|_| "no number of hits".into()),
        _ => Err("the probe of cryptd has no result, or missed calls".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let line = "sent 90 received 90 reordered 0 wrong 0 refused 0 chunks 5 chunks_wrong 0 rounds 7 rounds_wrong 0 \
                    cycles 0 saves 0";
        ["without", "with", "unsaved"]
            .map(|module| {
                let mut row = Row {
                    module,
                    ..Row::default()
                };
                read_traffic(&mut row, line).unwrap();
                row.cryptd = if module == "with" { 0 } else { 9 };
                row.nested_saves = if module == "with" { 500 } else { 0 };
                row.disk_wrong = u64::from(module == "unsaved");
                row
            })
            .into()
    }

    #[test]
    fn each_fault_is_found() {
        assert!(find_faults(&rows(), 0).is_empty());
        let faults: [fn(&mut [Row]); 11] = [
            |r| r[1].wrong = 1,
            |r| r[0].wrong = 1,
            |r| r[1].disk_wrong = 1,
            |r| r[1].registers_wrong = 1,
            |r| r[1].disk = 0,
            |r| r[1].lost = 1,
            |r| r[0].lost = 90,
            |r| r[2].disk_wrong = 0,
            |r| r[1].cryptd = 1,
            |r| r[1].nested_saves = ENOUGH - 1,
            |r| r[0].cryptd = 0,
        ];
        for (i, fault) in faults.iter().enumerate() {
            let mut rows = rows();
            fault(&mut rows);
            assert_eq!(find_faults(&rows, 0).len(), 1, "{i}");
        }
        let mut rows = rows();
        rows[1].module = "cycles";
        rows[1].cycles = 99;
        assert!(find_faults(&rows, 100)
            .iter()
            .any(|f| f.contains("99 of 100")));
    }

    #[test]
    fn a_driver_with_a_wrong_answer_has_to_be_absent_and_no_other() {
        let mut script = Script::default();
        (script.planted, script.listed) = (1, 2);
        let list = |names: &[&str]| {
            names
                .iter()
                .flat_map(|n| {
                    [
                        format!("driver       : {n}"),
                        "selftest     : passed".into(),
                    ]
                })
                .collect()
        };
        let refused = |planted: &[&str]| {
            let mut heard = Heard::default();
            heard.out.insert(1, list(planted));
            heard.out.insert(
                2,
                list(&[
                    "kiln-xts-aes-aesni",
                    "kiln-rfc4106-gcm-aes-aesni",
                    "xts-aes-aesni",
                ]),
            );
            let drivers = heard.drivers(2);
            assert_eq!(drivers.len(), 2);
            find_refused(&script, &heard, &drivers)
        };
        assert!(refused(&["kiln-xts-aes-aesni"]).is_empty());
        assert_eq!(refused(&[]).len(), 1);
        assert_eq!(
            refused(&["kiln-xts-aes-aesni", "kiln-rfc4106-gcm-aes-aesni"]).len(),
            1
        );
    }

    #[test]
    fn hostile_results_are_faults() {
        for bad in [
            "",
            "sent 1",
            "sent 1 received 2 reordered 0 wrong 0 refused 0 chunks 0 chunks_wrong 0 rounds 0 \
             rounds_wrong 0 cycles 0 saves 0",
        ] {
            assert!(read_traffic(&mut Row::default(), bad).is_err(), "{bad}");
        }
        assert_eq!(read_probe(&["  cryptd      12     0".into()]), Ok(12));
        for bad in ["", "cryptd 12 1", "cryptd x 0", "other 12 0"] {
            assert!(read_probe(&[bad.into()]).is_err(), "{bad}");
        }
    }
}
