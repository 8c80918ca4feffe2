//! Tests nested sections (`linux/module/section.c`) in ring 0 of a real kernel. On one CPU, threads
//! encrypt with Linux's own drivers, while a timer and a tasklet encrypt with Kiln's drivers.

use schemars::JsonSchema;
use serde::Serialize;

use crate::module;
use crate::Error;

use super::asker::{Plan, Step, Told};

/// Mixes of drivers. Each mix names one driver for the threads, one for the timer and one for the
/// tasklet. In the second mix, the upper halves of AVX registers are live.
const MIXES: [&str; 2] = [
    "xts-aes-aesni kiln-xts-aes-aesni kiln-ctr-aes-aesni",
    "chacha20-simd kiln-chacha20-avx2 kiln-xts-aes-aesni",
];

/// The modes, which must run in this order: the second mode disables nesting, and the third enables
/// nesting without saving.
const MODES: [&str; 3] = ["saved", "scalar", "unsaved"];

const PARAMETERS: &str = "/sys/module/kiln/parameters";

/// Minimum number of nested sections. A run with fewer proves too little, so it is reported as a
/// finding.
const ENOUGH: u64 = 1000;

/// The results for one user of a driver, in a test of nested FPU sections in a real kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(
    rename = "linux-nested",
    title = "Nested sections in real Linux",
    extend(
        "x-question" = "Is it safe to save an open section in a real kernel?",
        "x-commands" = ["linux nested"]
    )
)]
pub struct Row {
    /// Kernel release, as `uname -r` prints it.
    #[schemars(extend("x-role" = "key"))]
    pub kernel: String,
    /// QEMU accelerator that runs the guest: `kvm` or `tcg` (software emulation).
    #[schemars(extend("x-role" = "key"))]
    pub accel: String,
    /// How nested sections are configured: `saved` (they save the open section's registers),
    /// `scalar` (they are off) or `unsaved` (they save nothing; this is the control).
    #[schemars(extend("x-role" = "key"))]
    pub mode: &'static str,
    /// Context that encrypts: `thread`, `timer` or `tasklet`.
    #[schemars(extend("x-role" = "key"))]
    pub who: String,
    /// Name of the driver that encrypts.
    #[schemars(extend("x-role" = "key"))]
    pub driver: String,
    /// Number of messages encrypted.
    #[schemars(extend("x-role" = "main", "x-heading" = "messages"))]
    pub done: u64,
    /// Number of messages whose ciphertext is wrong.
    #[schemars(extend("x-role" = "main"))]
    pub wrong: u64,
    /// Number of messages that failed with an error.
    #[schemars(extend("x-role" = "figure"))]
    pub refused: u64,
    /// Number of messages that were not complete when the driver returned (`-EINPROGRESS`).
    #[schemars(extend("x-role" = "figure"))]
    pub late: u64,
    /// Number of messages whose encryption began while `irq_fpu_usable()` returned false.
    #[schemars(extend("x-role" = "figure", "x-heading" = "over a section"))]
    pub over: u64,
    /// Number of FPU sections that began inside an open section. The threads, the timer and the
    /// tasklet that ran together are counted together, so all of their rows have the same number.
    #[schemars(extend("x-role" = "figure"))]
    pub nested_saves: u64,
}

pub struct Outcome {
    /// Rows for each combination of mode and user.
    pub rows: Vec<Row>,
    /// Descriptions of failed expectations.
    pub findings: Vec<String>,
    /// Notes that help the reader interpret the rows.
    pub notes: Vec<String>,
}

/// Boots once and runs each mode for `ms` milliseconds. `module` is Kiln's module, built for this
/// kernel.
///
/// # Errors
/// Fails if the kernel cannot be booted or does not accept questions.
pub fn run(plan: &Plan, module: &module::Module, ms: u32) -> Result<Outcome, Error> {
    let content = std::fs::read(&module.path).map_err(|e| Error::cache(&module.path, e))?;
    let saves = format!("{PARAMETERS}/nested_saves");
    let nested = format!("{PARAMETERS}/nested");
    let unsaved = format!("{PARAMETERS}/nested_unsaved");
    let mut steps = Vec::new();
    for mode in MODES {
        match mode {
            "scalar" => steps.push(Step::Write(&nested, "0")),
            "unsaved" => {
                steps.push(Step::Write(&nested, "1"));
                steps.push(Step::Write(&unsaved, "1"));
            }
            _ => {}
        }
        for mix in MIXES {
            steps.push(Step::Ask(format!("nested {ms} {mix}")));
            steps.push(Step::Read(&saves));
        }
    }
    let answers = plan.ask(&steps, Some((module::NAME, &content)))?;
    let (mut rows, mut before) = (Vec::new(), 0);
    let modes = MODES.into_iter().flat_map(|mode| [mode; MIXES.len()]);
    for (mode, told) in modes.zip(answers.told.chunks(2)) {
        let [users, saves] = told else {
            return Err(Error::Answer("an answer is missing".into()));
        };
        let total = number(saves).map_err(Error::Answer)?;
        let users = users
            .as_ref()
            .map_err(|e| Error::Answer(format!("{mode}: {e}")))?;
        for line in users {
            let mut row = user(line).map_err(Error::Answer)?;
            row.kernel = plan.kernel.release.clone();
            row.accel = answers.accel.name().into();
            row.mode = mode;
            row.nested_saves = total.saturating_sub(before);
            rows.push(row);
        }
        before = total;
    }
    let mut notes = Vec::new();
    if !answers.why.is_empty() {
        notes.push(format!("by software emulation: {}", answers.why));
    }
    for warning in answers.warnings.iter().take(5) {
        notes.push(format!("the kernel said: {warning}"));
    }
    Ok(Outcome {
        findings: findings(&rows, plan.kernel.policy()),
        rows,
        notes,
    })
}

/// Describes the conditions that these rows violate.
fn findings(rows: &[Row], policy: &str) -> Vec<String> {
    let of = |mode: &'static str| rows.iter().filter(move |r| r.mode == mode);
    let mut found = Vec::new();
    for row in rows.iter().filter(|r| r.mode != "unsaved") {
        if row.wrong > 0 || row.refused > 0 {
            found.push(format!(
                "{}, {}: {} of {} wrong, {} refused",
                row.mode, row.who, row.wrong, row.done, row.refused
            ));
        }
        if row.who != "thread" && row.late > 0 {
            found.push(format!(
                "{}, {}: {} answered later",
                row.mode, row.who, row.late
            ));
        }
        if row.done == 0 {
            found.push(format!("{}, {}: did nothing", row.mode, row.who));
        }
    }
    // Since 6.15, softirqs do not interrupt a section, so no registers are saved and none can be
    // lost.
    if policy != "legacy" {
        return found;
    }
    // All rows of a mix have the same number of nested saves. Each mix has exactly one timer row,
    // so use that row.
    let timers = of("saved").filter(|r| r.who == "timer");
    let saves: u64 = timers.map(|r| r.nested_saves).sum();
    let over: u64 = of("saved").map(|r| r.over).sum();
    if saves < ENOUGH {
        found.push(format!("{saves} nested saves: too few to prove anything"));
    }
    if saves != over {
        found.push(format!(
            "{saves} nested saves, but {over} messages over a section"
        ));
    }
    if of("scalar").any(|r| r.nested_saves > 0) {
        found.push("nested saves although they were off".into());
    }
    if of("unsaved")
        .filter(|r| r.who == "thread")
        .all(|r| r.wrong == 0)
    {
        found.push(
            "the control: without saving nothing was corrupted, so nothing would have been seen"
                .into(),
        );
    }
    found
}

fn number(told: &Told) -> Result<u64, String> {
    let lines = told.as_ref().map_err(Clone::clone)?;
    let [line] = lines.as_slice() else {
        return Err(format!("{} lines in place of a number", lines.len()));
    };
    line.parse()
        .map_err(|_| format!("'{}' is not a number", line.escape_debug()))
}

/// Parses `USER DRIVER done N wrong N refused N late N over N`.
fn user(line: &str) -> Result<Row, String> {
    let bad = || format!("'{}' is not a number of messages", line.escape_debug());
    let words: Vec<&str> = line.split(' ').collect();
    let [who, driver, rest @ ..] = words.as_slice() else {
        return Err(bad());
    };
    let names = ["done", "wrong", "refused", "late", "over"];
    if rest.len() != 2 * names.len() {
        return Err(bad());
    }
    let mut counts = [0; 5];
    for (i, pair) in rest.chunks(2).enumerate() {
        if pair[0] != names[i] {
            return Err(bad());
        }
        counts[i] = pair[1].parse().map_err(|_| bad())?;
    }
    let [done, wrong, refused, late, over] = counts;
    Ok(Row {
        kernel: String::new(),
        accel: String::new(),
        mode: "",
        who: (*who).into(),
        driver: (*driver).into(),
        done,
        wrong,
        refused,
        late,
        over,
        nested_saves: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for (mode, saves, wrong) in [("saved", 5000, 0), ("scalar", 0, 0), ("unsaved", 5000, 9)] {
            for who in ["thread", "timer"] {
                let line = format!("{who} d done 9000 wrong 0 refused 0 late 0 over 0");
                let mut row = user(&line).unwrap();
                row.mode = mode;
                row.nested_saves = saves;
                match who {
                    "thread" => row.wrong = wrong,
                    _ => row.over = 5000,
                }
                rows.push(row);
            }
        }
        rows
    }

    #[test]
    fn each_fault_is_found() {
        assert!(findings(&rows(), "legacy").is_empty());
        let faults: [fn(&mut [Row]); 9] = [
            |r| r[0].wrong = 1,
            |r| r[1].wrong = 1,
            |r| r[1].refused = 1,
            |r| r[1].late = 1,
            |r| r[3].done = 0,
            |r| r[1].over = 4999,
            |r| {
                r[..2]
                    .iter_mut()
                    .for_each(|r| (r.nested_saves, r.over) = (10, 5))
            },
            |r| r[2].nested_saves = 1,
            |r| r[4].wrong = 0,
        ];
        for (i, fault) in faults.iter().enumerate() {
            let mut rows = rows();
            fault(&mut rows);
            assert_eq!(findings(&rows, "legacy").len(), 1, "{i}");
        }
    }

    #[test]
    fn hostile_counts_are_faults() {
        for bad in [
            "",
            "timer d",
            "timer d done 1 wrong 0 refused 0 late 0",
            "timer d done 1 wrong 0 refused 0 late 0 over -1",
            "timer d done 1 wrong 0 refused 0 over 0 late 0",
            "timer d done 1 wrong 0 refused 0 late 0 over 0 x",
        ] {
            assert!(user(bad).is_err(), "{bad}");
        }
        assert!(number(&Ok(vec!["1".into(), "2".into()])).is_err());
        assert!(number(&Ok(vec!["x".into()])).is_err());
    }
}
