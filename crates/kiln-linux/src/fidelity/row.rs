//! Rows that `kiln linux fidelity` prints, and the records that contain such rows.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One answer or one cost, on real Linux and on the emulated CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "linux-fidelity",
    title = "Compared with real Linux",
    extend(
        "x-question" = "Does the emulated CPU give the answers of real Linux, at the same cost?",
        "x-commands" = ["linux fidelity"],
        "x-view" = {"check": {"fail": ["agree=false"], "skip": ["agree="]}}
    )
)]
pub struct Row {
    /// Kind of row: `answer` or `cost`.
    #[schemars(extend("x-role" = "key"))]
    pub kind: String,
    /// Release of the real kernel, as `uname -r` prints it.
    #[schemars(extend("x-role" = "key"))]
    pub kernel: String,
    /// Kiln's FPU policy that corresponds to the real kernel.
    #[schemars(extend("x-role" = "key"))]
    pub policy: String,
    /// The question in words. For a cost, a description of what was timed.
    #[schemars(extend("x-role" = "key"))]
    pub question: String,
    /// Permanent number of the question. Null for a cost.
    pub number: Option<u32>,
    /// The question as the real kernel and the emulated CPU received it, in a compact notation. For
    /// a cost, its short name.
    pub asked: Option<String>,
    /// The real kernel's answer. If the kernel gave no valid answer, `none:` and the reason. Null
    /// for a cost.
    #[schemars(extend("x-role" = "main"))]
    pub real: Option<String>,
    /// The emulated CPU's answer. Null for a cost, or if the emulated CPU could not be asked.
    #[schemars(extend("x-role" = "main"))]
    pub emulated: Option<String>,
    /// Whether `real` and `emulated` are the same. Also false if only the real kernel gave no valid
    /// answer. Null for a cost, or if the emulated CPU could not be asked.
    #[schemars(extend("x-role" = "main"))]
    pub agree: Option<bool>,
    /// Median cost on the real kernel, in TSC cycles. Null for an answer, under software emulation,
    /// or if the kernel did not report this cost.
    #[schemars(extend("unit" = "cycles", "x-role" = "main", "x-heading" = "real, cycles"))]
    pub cycles: Option<f64>,
    /// Smallest cost measured on the real kernel, in TSC cycles. Null if `cycles` is null.
    #[schemars(extend("unit" = "cycles"))]
    pub cycles_min: Option<f64>,
    /// Cost on the emulated CPU, in TSC cycles. Null for an answer, or if the cost cannot be
    /// measured there.
    #[schemars(extend("unit" = "cycles", "x-role" = "figure", "x-heading" = "emulated, cycles"))]
    pub kiln_cycles: Option<f64>,
    /// Relative cost of the simd helper on the real kernel: median cost of a request through the
    /// helper, divided by the median cost of the same request without the helper. Null in all other
    /// rows.
    #[serde(default)]
    #[schemars(extend("x-role" = "figure", "x-heading" = "real, ratio"))]
    pub ratio: Option<f64>,
    /// Relative cost of the simd helper on the emulated CPU: cost of a request through the helper,
    /// divided by the cost of the same request without the helper. Null in all other rows.
    #[serde(default)]
    #[schemars(extend("x-role" = "figure", "x-heading" = "emulated, ratio"))]
    pub kiln_ratio: Option<f64>,
    /// CPU model that the guest sees.
    pub cpu: String,
    /// QEMU accelerator that runs the guest: `kvm` or `tcg` (software emulation).
    pub accel: String,
}

/// The fields of a record that tests read.
#[derive(Clone, Debug, Deserialize)]
pub struct Record {
    /// The command that wrote the record.
    pub command: String,
    pub rows: Vec<Row>,
}

impl Record {
    /// Parses a record and checks that its rows are consistent.
    ///
    /// # Errors
    /// Fails if the record is not from this command, or its rows contradict each other.
    pub fn read(text: &str) -> Result<Record, String> {
        let record: Record = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if record.command != "linux-fidelity" {
            return Err(format!("a record of '{}'", record.command));
        }
        let Some(first) = record.rows.first() else {
            return Err("no rows".into());
        };
        let mut numbers = BTreeSet::new();
        for row in &record.rows {
            let about = |r: &Row| {
                (
                    r.kernel.clone(),
                    r.cpu.clone(),
                    r.accel.clone(),
                    r.policy.clone(),
                )
            };
            if about(row) != about(first) {
                return Err(format!(
                    "rows of two kernels: {} and {}",
                    first.kernel, row.kernel
                ));
            }
            match row.kind.as_str() {
                "answer" => {
                    let number = row.number.ok_or("an answer without a number")?;
                    if !numbers.insert(number) {
                        return Err(format!("two answers to question {number}"));
                    }
                    if row.asked.is_none() || row.real.is_none() {
                        return Err(format!("question {number} was not put or not answered"));
                    }
                }
                "cost" => {}
                other => return Err(format!("a row of kind '{other}'")),
            }
            if !["kvm", "tcg"].contains(&row.accel.as_str()) {
                return Err(format!("accelerator '{}'", row.accel));
            }
            if row.accel == "tcg" && row.cycles.or(row.cycles_min).or(row.ratio).is_some() {
                return Err("costs of software emulation".into());
            }
        }
        if first.policy != crate::debian::policy(&first.kernel) {
            return Err(format!("policy {} of {}", first.policy, first.kernel));
        }
        Ok(record)
    }

    pub fn answers(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| r.kind == "answer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            kind: "answer".into(),
            kernel: "6.12.1-amd64".into(),
            cpu: "c".into(),
            accel: "tcg".into(),
            policy: "legacy".into(),
            number: Some(1),
            question: "q".into(),
            asked: Some("? - - -".into()),
            real: Some("T?y0".into()),
            emulated: Some("T?y0".into()),
            agree: Some(true),
            cycles_min: None,
            cycles: None,
            kiln_cycles: None,
            ratio: None,
            kiln_ratio: None,
        }
    }

    fn written(rows: &[Row]) -> String {
        serde_json::json!({ "command": "linux-fidelity", "rows": rows }).to_string()
    }

    #[test]
    fn a_record_is_read_again() {
        assert_eq!(Record::read(&written(&[row()])).unwrap().rows, [row()]);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let bad: [fn(&mut Row); 10] = [
            |r| r.kind = "guess".into(),
            |r| r.number = None,
            |r| r.real = None,
            |r| r.asked = None,
            |r| r.accel = "magic".into(),
            |r| r.cycles = Some(1.0),
            |r| r.ratio = Some(1.0),
            |r| r.policy = "bh-off".into(),
            |r| r.kernel = "6.15.0".into(),
            |r| r.cpu = "other".into(),
        ];
        for change in bad {
            let mut second = Row {
                number: Some(2),
                ..row()
            };
            change(&mut second);
            assert!(
                Record::read(&written(&[row(), second.clone()])).is_err(),
                "{second:?}"
            );
        }
        assert!(Record::read(&written(&[row(), row()])).is_err(), "twice");
        assert!(Record::read(&written(&[])).is_err(), "empty");
        assert!(Record::read("{}").is_err() && Record::read("").is_err());
        let other = written(&[row()]).replace("linux-fidelity", "speed");
        assert!(Record::read(&other).is_err());
        let unknown = written(&[row()]).replace("\"kind\"", "\"extra\":1,\"kind\"");
        assert!(Record::read(&unknown).is_err());
    }
}
