//! Parses the guest's console output, and checks that the results are as expected.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::mistake::{find_unreported, is_report, Made, Mistake};
use super::row::{Outcome, Row, PLANTED, TIMER};
use super::script::{Load, Package, Script, NAMED};
use crate::console::{End, Line};
use crate::module::PREFIX;
use crate::Error;

/// Text that appears in the kernel's log if the module's self-test of nested sections failed.
const NESTED_OFF: &str = "nested sections are off";

/// Minimum number of sections that softirqs must have interrupted. A run with fewer interrupted
/// sections proves too little.
const ENOUGH: u64 = 100;

/// How far a boot got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// All commands were executed.
    End,
    /// Ctrl-C ended the boot.
    Interruption,
    /// A command failed, or the boot ended early.
    Failure,
}

/// A boot's console output.
#[derive(Default)]
pub(super) struct Heard {
    /// Index of the current command.
    pub(super) order: u32,
    /// When the host saw this command start.
    began: Option<Instant>,
    /// Durations of the finished commands.
    took: BTreeMap<u32, Duration>,
    ended: BTreeMap<u32, End>,
    out: BTreeMap<u32, Vec<String>>,
    /// Messages in which the module refuses to offer a driver, each with the number of the command
    /// that was being executed.
    refused: Vec<(u32, String)>,
    /// Numbers of the commands during which the module disabled nested sections.
    nested_off: Vec<u32>,
    /// Fault reports from the kernel's log, each with the number of the command that was being
    /// executed.
    reports: Vec<(u32, String)>,
    /// Whether kernel messages were lost.
    lost: bool,
}

impl Heard {
    pub(super) fn line(&mut self, line: &Line) {
        match line {
            Line::Begin { order, .. } => {
                (self.order, self.began) = (*order, Some(Instant::now()));
            }
            Line::Out(text) => self.out.entry(self.order).or_default().push(text.clone()),
            Line::End { order, how } => {
                self.ended.insert(*order, *how);
                if let Some(began) = self.began.take() {
                    self.took.insert(*order, began.elapsed());
                }
            }
            Line::Log { text, .. } if text.contains("not offered: it ") => {
                self.refused.push((self.order, text.clone()));
            }
            Line::Log { text, .. } if text.contains(NESTED_OFF) => {
                self.nested_off.push(self.order);
            }
            Line::Log { text, .. } if is_report(text) => {
                self.reports.push((self.order, text.clone()));
            }
            Line::Lost => self.lost = true,
            _ => {}
        }
    }

    /// Returns each mistake, how its command ended, and the faults that the kernel reported while
    /// the command ran.
    fn mistakes<'a>(&'a self, script: &Script) -> Vec<Made<'a>> {
        let reports_during = |order: u32| {
            let during = self.reports.iter().filter(move |(o, _)| *o == order);
            during.map(|(_, text)| text.as_str()).collect()
        };
        let made = |(order, mistake): &(u32, &'static Mistake)| Made {
            mistake,
            ended: self.ended.get(order).copied(),
            reports: reports_during(*order),
        };
        script.mistakes.iter().map(made).collect()
    }

    fn lines(&self, order: u32) -> &[String] {
        self.out.get(&order).map_or(&[], Vec::as_slice)
    }

    /// Parses the `/proc/crypto` listing that a command printed. Returns the Kiln drivers whose
    /// priority is at least as high as that of every Linux driver for the same algorithm.
    fn best_drivers(&self, order: u32) -> Vec<&str> {
        let (mut name, mut driver) = ("", "");
        let mut all: Vec<(&str, &str, i64)> = Vec::new();
        for line in self.lines(order) {
            let (key, value) = line.split_once(": ").unwrap_or_default();
            match key.trim() {
                "name" => name = value.trim(),
                "driver" => driver = value.trim(),
                "priority" => all.extend(value.trim().parse().ok().map(|p| (name, driver, p))),
                _ => {}
            }
        }
        let (own, linux): (Vec<_>, Vec<_>) =
            (all.into_iter()).partition(|(_, driver, _)| driver.starts_with(PREFIX));
        let is_best = |own: &(&str, &str, i64)| !linux.iter().any(|l| l.0 == own.0 && l.2 > own.2);
        let best = own.into_iter().filter(is_best);
        best.map(|(_, driver, _)| driver).collect()
    }

    /// Parses the `/proc/crypto` listing that a command printed. Returns the Kiln drivers and the
    /// status of their self-tests (`passed` or `unknown`), sorted by driver name.
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

/// Converts the answers to rows, findings and notes. If the boot did not reach its end, the rows
/// cover the finished loads, and expectations that only a whole run can meet are not checked.
///
/// # Errors
/// Fails if an answer is missing or cannot be parsed.
pub(super) fn judge(
    script: &Script,
    heard: &Heard,
    load: &Load,
    reached: Reached,
) -> Result<Outcome, Error> {
    let cycles = load.cycles;
    let whole = reached == Reached::End;
    let drivers = heard.drivers(script.listed);
    let passed = drivers.iter().filter(|(_, test)| test == "passed").count() as u64;
    let (mut rows, mut cryptd, mut notes) = (Vec::new(), 0, Vec::new());
    for (row, answers) in &script.rows {
        let mut row = row.clone();
        if !whole && !heard.took.contains_key(&answers.cryptd) {
            let lines = heard.lines(answers.traffic).iter();
            let done = lines.filter(|line| line.starts_with("cycle ")).count();
            if row.module == "cycles" && done > 0 {
                notes.push(format!("{done} of {cycles} cycles had ended"));
            }
            break;
        }
        let line = heard.lines(answers.traffic).last();
        let line = line.ok_or_else(|| Error::Answer("the traffic has no result".into()))?;
        match answers.saves {
            Some(saves) => {
                let [before, after] = saves.map(|order| heard.lines(order));
                read_timer(&mut row, line).map_err(Error::Answer)?;
                row.nested_saves = read_saves(before, after).map_err(Error::Answer)?;
            }
            None => read_traffic(&mut row, line).map_err(Error::Answer)?,
        }
        let total = read_probe(heard.lines(answers.cryptd)).map_err(Error::Answer)?;
        row.cryptd = total.saturating_sub(cryptd);
        cryptd = total;
        if row.module == "with" {
            row.drivers = passed;
        }
        rows.push(row);
    }
    let mut findings = find_reports(script, heard);
    findings.extend(find_faults(&rows, load));
    if whole {
        findings.extend(find_blind_controls(&rows));
        findings.extend(find_refused(script, heard, &drivers));
        findings.extend(find_misloaded(script, heard));
        let (unreported, detectors) = find_unreported(&heard.mistakes(script));
        findings.extend(unreported);
        notes.push(detectors);
        let package = script.package.as_ref();
        findings.extend(package.into_iter().flat_map(|p| find_remains(p, heard)));
    }
    notes.extend(describe(script, heard, &rows, &drivers));
    Ok(Outcome {
        rows,
        findings,
        notes,
        interrupted: reached == Reached::Interruption,
    })
}

/// Describes what the kernel reported, except for the planted mistakes.
fn find_reports(script: &Script, heard: &Heard) -> Vec<String> {
    let is_planted = |order: u32| script.mistakes.iter().any(|(o, _)| *o == order);
    let real = (heard.reports.iter()).filter(|(order, _)| !is_planted(*order));
    let mut found: Vec<String> = real
        .map(|(_, text)| format!("the kernel's log: {text}"))
        .collect();
    if heard.lost {
        found.push("messages of the kernel were lost".into());
    }
    found
}

/// Returns notes on what the rows omit: the drivers, the controls, rates and times.
fn describe(
    script: &Script,
    heard: &Heard,
    rows: &[Row],
    drivers: &[(String, String)],
) -> Vec<String> {
    let mut notes = Vec::new();
    let names: Vec<&str> = drivers.iter().map(|(name, _)| name.as_str()).collect();
    if !names.is_empty() {
        notes.push(format!("drivers of the module: {}", names.join(", ")));
    }
    let refused: Vec<&str> = heard
        .refused
        .iter()
        .filter(|(order, _)| order + 1 == script.planted)
        .map(|(_, text)| text.as_str())
        .collect();
    if !refused.is_empty() {
        notes.push(format!(
            "control, one bit of a known answer flipped: {}",
            refused.join("; ")
        ));
    }
    let with = || (rows.iter()).filter(|r| r.module == "with" && r.mode != TIMER);
    let saves: u64 = with().map(|r| r.nested_saves).sum();
    let ms: u64 = with().map(|r| r.load_ms).sum();
    if ms > 0 {
        notes.push(format!(
            "sections over interrupted ones: {saves} in {} s of load, {} per minute",
            ms / 1000,
            saves * 60_000 / ms
        ));
    }
    notes.extend(rows.iter().filter(|r| r.mode == TIMER).map(describe_timer));
    let took = |order: u32| heard.took.get(&order).map(Duration::as_secs_f64);
    if let Some(seconds) = took(script.loaded) {
        notes.push(format!(
            "the module was loaded, with all its tests, in {seconds:.1} s"
        ));
    }
    if let Some(seconds) = script.package.as_ref().and_then(|p| took(p.install)) {
        notes.push(format!("apt-get installed the package in {seconds:.0} s"));
    }
    notes
}

fn describe_timer(row: &Row) -> String {
    let control = match row.module {
        "unsaved" => "control, without saving registers: ",
        _ => "",
    };
    let per_minute = row.nested_saves * 60_000 / row.load_ms.max(1);
    format!(
        "{control}softirqs of a timer: {} nested sections over {} interrupted ones, at {} instructions, in {} s, \
         {per_minute} per minute; wrong: {} of {} messages of softirqs, {} of {} pieces of the task",
        row.nested_saves,
        row.interrupted,
        row.addresses,
        row.load_ms / 1000,
        row.wrong,
        row.sent,
        row.disk_wrong,
        row.disk,
    )
}

/// Checks that DKMS has built the module, and that removing the package leaves no files behind.
fn find_remains(package: &Package, heard: &Heard) -> Vec<String> {
    let mut found = Vec::new();
    let status = heard.lines(package.status);
    if !status.iter().any(|line| line.contains(": installed")) {
        found.push(format!("dkms status: {}", status.join("; ")));
    }
    let [before, after] = package.files.map(|order| heard.lines(order));
    if before.is_empty() {
        found.push("the control: the installed package had no files".into());
    }
    found.extend(after.iter().map(|file| format!("the package left {file}")));
    found
}

/// Checks which drivers were offered. The package's module must offer all drivers. The module with
/// one corrupted known answer must offer all drivers except those for the affected algorithm.
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
        .filter(|(order, _)| order + 1 != script.planted);
    found.extend(real.map(|(_, text)| text.clone()));
    found
}

/// Checks that the module's parameters had the expected effect when the module was loaded before
/// and after the phases.
fn find_misloaded(script: &Script, heard: &Heard) -> Vec<String> {
    let mut found = Vec::new();
    for (order, errno, what) in &script.failing {
        let how = heard.ended.get(order);
        if how != Some(&End::Errno(*errno)) {
            found.push(format!("the control: {what}: {how:?}"));
        }
    }
    let early = &script.early;
    let best = heard.best_drivers(early.last);
    if heard.drivers(early.last).is_empty() {
        found.push("without prefer no driver was registered".into());
    }
    if !best.is_empty() {
        found.push(format!("preferred although not asked: {}", best.join(", ")));
    }
    if heard.best_drivers(early.alone).is_empty() {
        found.push("the control: Linux had all its drivers without being asked".into());
    }
    let names = heard.drivers(early.named).into_iter().map(|(name, _)| name);
    if !names.eq([NAMED]) {
        found.push(format!("only={NAMED} registered other drivers"));
    }
    if heard.nested_off != [early.broken] || heard.lines(early.nested) != ["N"] {
        found.push(format!(
            "the control: nested sections were given up in orders {:?}",
            heard.nested_off
        ));
    }
    found
}

/// Describes the conditions that these rows violate.
fn find_faults(rows: &[Row], load: &Load) -> Vec<String> {
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
        if row.sent == row.lost || row.disk == 0 || row.registers == 0 && row.mode != TIMER {
            found.push(format!("{name}: part of the load did not run"));
        }
        if row.module == "with" && row.cryptd > 0 {
            found.push(format!("{name}: {} requests went to cryptd", row.cryptd));
        }
        if row.module == "with" && row.lost > 0 {
            found.push(format!("{name}: {} packets were lost", row.lost));
        }
        if row.module == "cycles" && row.cycles != u64::from(load.cycles) {
            found.push(format!("{name}: {} of {}", row.cycles, load.cycles));
        }
        // The module's own counter must confirm what the interrupting module counted.
        if row.mode == TIMER && row.module == "with" && row.nested_saves < load.sections {
            found.push(format!(
                "{name}: {} of {} nested sections",
                row.nested_saves, load.sections
            ));
        }
    }
    found
}

/// Checks that the run could have detected errors: enough nested sections were opened, and every
/// control had the expected effect.
fn find_blind_controls(rows: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    let sum = |module: &str, count: fn(&Row) -> u64| -> u64 {
        let counted = rows
            .iter()
            .filter(|r| r.module == module && r.mode != TIMER);
        counted.map(count).sum()
    };
    let mut timer = rows.iter().filter(|r| r.mode == TIMER);
    if timer.any(|r| r.module == "unsaved" && r.wrong + r.disk_wrong == 0) {
        found.push(
            "the control: without saving registers nothing was wrong over a timer's softirqs"
                .into(),
        );
    }
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
    if sum("unsaved", |r| r.registers_wrong) == 0 {
        found.push(
            "the control: a program whose registers were not saved did not find them changed"
                .into(),
        );
    }
    found
}

fn not_a_result(line: &str) -> String {
    format!("'{}' is not a result of the load", line.escape_debug())
}

/// Parses a line in which each of `names`, in this order, is followed by its value.
fn read_counts<const N: usize>(line: &str, names: [&str; N]) -> Result<[u64; N], String> {
    let bad = || not_a_result(line);
    let words: Vec<&str> = line.split(' ').collect();
    if words.len() != 2 * N {
        return Err(bad());
    }
    let mut counts = [0u64; N];
    for (i, pair) in words.chunks(2).enumerate() {
        if pair[0] != names[i] {
            return Err(bad());
        }
        counts[i] = pair[1].parse().map_err(|_| bad())?;
    }
    Ok(counts)
}

/// Parses the line of names and numbers that `linux/judge/traffic.c` prints.
fn read_traffic(row: &mut Row, line: &str) -> Result<(), String> {
    const NAMES: [&str; 12] = [
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
        "ms",
    ];
    let [sent, received, reordered, wrong, _, disk, disk_wrong, registers, registers_wrong, cycles, nested_saves, load_ms] =
        read_counts(line, NAMES)?;
    *row = Row {
        sent,
        lost: sent
            .checked_sub(received)
            .ok_or_else(|| not_a_result(line))?,
        reordered,
        wrong,
        disk,
        disk_wrong,
        registers,
        registers_wrong,
        cycles,
        nested_saves,
        load_ms,
        ..row.clone()
    };
    Ok(())
}

/// Parses the result of `linux/judge/nest.c`.
fn read_timer(row: &mut Row, line: &str) -> Result<(), String> {
    const NAMES: [&str; 8] = [
        "sent",
        "wrong",
        "interrupted",
        "nested",
        "pieces",
        "pieces_wrong",
        "addresses",
        "ms",
    ];
    let [sent, wrong, interrupted, _, disk, disk_wrong, addresses, load_ms] =
        read_counts(line, NAMES)?;
    *row = Row {
        sent,
        wrong,
        interrupted,
        disk,
        disk_wrong,
        addresses,
        load_ms,
        ..row.clone()
    };
    Ok(())
}

/// Returns by how much the module's counter increased during a load.
fn read_saves(before: &[String], after: &[String]) -> Result<u64, String> {
    let read = |lines: &[String]| lines.first().and_then(|line| line.parse::<u64>().ok());
    let difference = read(after).zip(read(before));
    difference
        .and_then(|(after, before)| after.checked_sub(before))
        .ok_or_else(|| "no number of nested sections".into())
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
    use super::super::script::{Answers, Early};
    use super::*;

    fn rows() -> Vec<Row> {
        let line = "sent 90 received 90 reordered 0 wrong 0 refused 0 chunks 5 chunks_wrong 0 rounds 7 rounds_wrong 0 \
                    cycles 0 saves 0 ms 5000";
        let timer = "sent 520 wrong 0 interrupted 100 nested 500 pieces 90 pieces_wrong 0 addresses 80 ms 900";
        [
            ("without", ""),
            ("with", ""),
            ("unsaved", ""),
            ("with", TIMER),
            ("unsaved", TIMER),
        ]
        .map(|(module, mode)| {
            let mut row = Row {
                module,
                mode,
                ..Row::default()
            };
            let read = if mode == TIMER {
                read_timer
            } else {
                read_traffic
            };
            read(&mut row, if mode == TIMER { timer } else { line }).unwrap();
            row.cryptd = if module == "with" { 0 } else { 9 };
            row.nested_saves = if module == "with" { 500 } else { 0 };
            row.disk_wrong = u64::from(module == "unsaved");
            row.registers_wrong = u64::from(module == "unsaved");
            row
        })
        .into()
    }

    #[test]
    fn each_fault_is_found() {
        let load = |cycles| Load {
            seconds: 1,
            cycles,
            sections: 500,
        };
        let find = |rows: &[Row]| [find_faults(rows, &load(0)), find_blind_controls(rows)].concat();
        assert!(find(&rows()).is_empty());
        let faults: [fn(&mut [Row]); 18] = [
            |r| r[1].wrong = 1,
            |r| r[0].wrong = 1,
            |r| r[1].disk_wrong = 1,
            |r| r[1].registers_wrong = 1,
            |r| r[1].disk = 0,
            |r| r[1].lost = 1,
            |r| r[0].lost = 90,
            |r| r[2].disk_wrong = 0,
            |r| r[2].registers_wrong = 0,
            |r| r[1].cryptd = 1,
            |r| r[1].nested_saves = ENOUGH - 1,
            |r| r[0].cryptd = 0,
            |r| r[3].wrong = 1,
            |r| r[3].disk_wrong = 1,
            |r| r[3].disk = 0,
            |r| r[3].cryptd = 1,
            |r| r[3].nested_saves = 499,
            |r| r[4].disk_wrong = 0,
        ];
        for (i, fault) in faults.iter().enumerate() {
            let mut rows = rows();
            fault(&mut rows);
            assert_eq!(find(&rows).len(), 1, "{i}");
        }
        let mut rows = rows();
        rows[1].module = "cycles";
        rows[1].cycles = 99;
        assert!(find_faults(&rows, &load(100))
            .iter()
            .any(|f| f.contains("99 of 100")));
    }

    #[test]
    fn the_timers_line_has_all_counts() {
        let said = describe_timer(&rows()[3]);
        assert_eq!(
            said,
            "softirqs of a timer: 500 nested sections over 100 interrupted ones, at 80 instructions, in 0 s, 33333 per \
             minute; wrong: 0 of 520 messages of softirqs, 0 of 90 pieces of the task"
        );
        let control = describe_timer(&rows()[4]);
        assert!(
            control.starts_with("control, ") && control.ends_with("1 of 90 pieces of the task")
        );
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
    fn loads_with_other_parameters_are_checked() {
        let early = Early {
            last: 1,
            alone: 2,
            broken: 3,
            nested: 4,
            named: 5,
        };
        let script = Script {
            early,
            failing: vec![(6, 2, "a load succeeded")],
            ..Script::default()
        };
        let list = |drivers: &[(&str, i64)]| -> Vec<String> {
            let entry = |(driver, priority): &(&str, i64)| {
                [
                    "name         : xts(aes)".to_owned(),
                    format!("driver       : {driver}"),
                    format!("priority     : {priority}"),
                    "selftest     : passed".to_owned(),
                    String::new(),
                ]
            };
            drivers.iter().flat_map(entry).collect()
        };
        let heard = || {
            let out = BTreeMap::from([
                (1, list(&[("xts-aes-aesni", 401), (NAMED, 4)])),
                (2, list(&[(NAMED, 4)])),
                (4, vec!["N".into()]),
                (5, list(&[(NAMED, 4)])),
            ]);
            Heard {
                out,
                nested_off: vec![3],
                ended: BTreeMap::from([(6, End::Errno(2))]),
                ..Heard::default()
            }
        };
        assert_eq!(find_misloaded(&script, &heard()), Vec::<String>::new());
        let faults: [&dyn Fn(&mut Heard); 8] = [
            &|h| drop(h.out.insert(1, list(&[("xts-aes-aesni", 4), (NAMED, 4)]))),
            &|h| drop(h.out.insert(1, list(&[("xts-aes-aesni", 401)]))),
            &|h| drop(h.out.insert(2, list(&[("xts-aes-aesni", 401), (NAMED, 4)]))),
            &|h| drop(h.out.insert(4, vec!["Y".into()])),
            &|h| {
                drop(
                    h.out
                        .insert(5, list(&[(NAMED, 4), ("kiln-xts-aes-avx2", 4)])),
                )
            },
            &|h| h.nested_off.clear(),
            &|h| h.nested_off.push(9),
            &|h| {
                h.ended.insert(6, End::Errno(0));
            },
        ];
        for (i, fault) in faults.iter().enumerate() {
            let mut heard = heard();
            fault(&mut heard);
            assert_eq!(find_misloaded(&script, &heard).len(), 1, "{i}");
        }
    }

    #[test]
    fn hostile_results_are_faults() {
        for bad in [
            "",
            "sent 1",
            "sent 1 received 2 reordered 0 wrong 0 refused 0 chunks 0 chunks_wrong 0 rounds 0 \
             rounds_wrong 0 cycles 0 saves 0 ms 1",
        ] {
            assert!(read_traffic(&mut Row::default(), bad).is_err(), "{bad}");
        }
        for bad in [
            "",
            "sent 1",
            "sent 1 wrong x interrupted 1 nested 1 pieces 1 pieces_wrong 0 addresses 1 ms 1",
        ] {
            assert!(read_timer(&mut Row::default(), bad).is_err(), "{bad}");
        }
        let saves = |before: &str, after: &str| read_saves(&[before.into()], &[after.into()]);
        assert_eq!(saves("7", "19"), Ok(12));
        assert!(saves("19", "7").is_err() && saves("", "7").is_err());
        assert_eq!(read_probe(&["  cryptd      12     0".into()]), Ok(12));
        for bad in ["", "cryptd 12 1", "cryptd x 0", "other 12 0"] {
            assert!(read_probe(&[bad.into()]).is_err(), "{bad}");
        }
    }
    #[test]
    fn a_run_that_is_interrupted_has_the_rows_of_the_loads_that_ended() {
        let mut script = Script::default();
        let mut heard = Heard::default();
        for (n, row) in rows().into_iter().enumerate() {
            let order = 2 * n as u32 + 1;
            let answers = Answers {
                traffic: order,
                cryptd: order + 1,
                saves: None,
            };
            script.rows.push((row, answers));
        }
        let said = "kiln:out sent 9 received 9 reordered 0 wrong 0 refused 0 chunks 5 chunks_wrong 0 rounds 7 \
                    rounds_wrong 0 cycles 0 saves 0 ms 5000";
        for line in [
            "kiln:begin 1 run",
            said,
            "kiln:end 1 exit 0",
            "kiln:begin 2 print",
            "kiln:out cryptd 4 0",
            "kiln:end 2 errno 0",
            "kiln:begin 3 run",
        ] {
            heard.line(&crate::console::line(line.as_bytes()));
        }
        let load = Load {
            seconds: 1,
            cycles: 0,
            sections: 0,
        };
        let outcome = judge(&script, &heard, &load, Reached::Interruption).unwrap();
        assert_eq!((outcome.rows.len(), outcome.rows[0].cryptd), (1, 4));
        assert!(outcome.interrupted && outcome.findings.is_empty());
        // Control: if the boot reached its end, a missing answer is an error.
        assert!(judge(&script, &heard, &load, Reached::End).is_err());
    }

    #[test]
    fn what_a_package_leaves_is_found() {
        let package = Package {
            status: 1,
            files: [2, 3],
            ..Package::default()
        };
        let heard = |status: &str, before: &[&str], after: &[&str]| {
            let mut heard = Heard::default();
            let lines = |lines: &[&str]| lines.iter().map(|l| l.to_string()).collect();
            heard.out.insert(1, lines(&[status]));
            heard.out.insert(2, lines(before));
            heard.out.insert(3, lines(after));
            heard
        };
        let well = "kiln-crypto/0.1.0, 6.1.0-56-amd64, x86_64: installed";
        let file = "/var/lib/dkms/kiln-crypto";
        assert!(find_remains(&package, &heard(well, &[file], &[])).is_empty());
        for bad in [
            heard(well, &[file], &[file]),
            heard(well, &[], &[]),
            heard("kiln-crypto/0.1.0: added", &[file], &[]),
        ] {
            assert_eq!(find_remains(&package, &bad).len(), 1);
        }
    }
}
