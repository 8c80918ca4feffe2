//! Rows. Field names are a promise (`CLI.md`).

use serde::{Deserialize, Serialize};

use kiln_measure::Verdict;

use super::build::Facts;
use super::cell::{Abi, Cell, Status};

/// A cell is marked if it takes so many times what the best of its row takes.
pub const OUTLIER: f64 = 1.5;

/// A row of `compilers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The compiler, as the user calls it; `-` where none has a part.
    pub cc: String,
    /// What it says of itself.
    pub cc_version: String,
    /// The level, without the dash; `-` where none has a part.
    pub opt: String,
    /// The kind of build.
    pub variant: String,
    /// Width.
    pub abi: Abi,
    /// What was compiled.
    pub subject: String,
    /// What it computes.
    pub alg: String,
    /// Bits of its key.
    pub key_bits: Option<u32>,
    /// Bytes of a message.
    pub len: usize,
    /// Core cycles for each byte of the message; null without a figure.
    pub cycles_per_byte: Option<f64>,
    /// Where the figure of a rerun falls.
    pub ci_low: Option<f64>,
    /// As above.
    pub ci_high: Option<f64>,
    /// Bytes of code.
    pub text_bytes: Option<u64>,
    /// Stack of the function that takes most; null if the compiler does not tell.
    pub stack_bytes: Option<u64>,
    /// Time it took to compile and link; of cells from the cache, when they were built.
    pub build_ms: Option<f64>,
    /// What became of it.
    pub status: Status,
    /// Why it has no figure; of a sanitizer, what it complained of.
    pub reason: Option<String>,
    /// Times the best of the same compiler, level, width and subject.
    pub row_ratio: Option<f64>,
    /// Whether that is more than 1.5.
    pub outlier: bool,
    /// What it was judged against.
    pub baseline: Option<String>,
    /// Times the baseline's.
    pub ratio: Option<f64>,
    /// The ratio's interval; of all rows' at once.
    pub ratio_low: Option<f64>,
    /// As above.
    pub ratio_high: Option<f64>,
    /// `faster`, `same` or `slower`; null without a baseline.
    pub verdict: Option<Verdict>,
}

impl Row {
    /// Of a cell, without figures.
    pub fn of(cell: &Cell, len: usize, facts: &Facts) -> Row {
        Row {
            cc: cell.cc.name.clone(),
            cc_version: cell.cc.version.clone(),
            opt: cell.opt.name().to_string(),
            variant: cell.variant.name().to_string(),
            abi: cell.abi,
            subject: cell.subject.name.clone(),
            alg: cell.subject.alg.clone(),
            key_bits: cell.subject.key_bits,
            len,
            cycles_per_byte: None,
            ci_low: None,
            ci_high: None,
            text_bytes: facts.text_bytes,
            stack_bytes: facts.stack_bytes,
            build_ms: Some(facts.build_ms),
            status: Status::Ok,
            reason: None,
            row_ratio: None,
            outlier: false,
            baseline: None,
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            verdict: None,
        }
    }

    /// What two rows have in common that can be compared: all but the compiler.
    pub fn place(&self) -> (&str, &str, &str, Abi, usize) {
        (&self.subject, &self.opt, &self.variant, self.abi, self.len)
    }
}

/// Marks what is far off the best of its row.
pub fn mark(rows: &mut [Row]) {
    let figures: Vec<((String, String, Abi, String), f64)> = rows
        .iter()
        .filter_map(|r| Some((line(r), r.cycles_per_byte?)))
        .collect();
    for row in rows {
        let own = line(row);
        let same = figures.iter().filter(|(l, _)| *l == own);
        let best = same.map(|(_, x)| *x).min_by(f64::total_cmp);
        row.row_ratio = row.cycles_per_byte.zip(best).map(|(x, b)| x / b);
        row.outlier = row.row_ratio.is_some_and(|r| r > OUTLIER);
    }
}

/// A line of the table.
fn line(row: &Row) -> (String, String, Abi, String) {
    (
        row.cc.clone(),
        row.opt.clone(),
        row.abi,
        row.subject.clone(),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn row(cc: &str, variant: &str, figure: Option<f64>) -> Row {
        Row {
            cc: cc.into(),
            cc_version: "1".into(),
            opt: "O2".into(),
            variant: variant.into(),
            abi: Abi::Bits64,
            subject: "s".into(),
            alg: "a".into(),
            key_bits: None,
            len: 4096,
            cycles_per_byte: figure,
            ci_low: figure.map(|f| f * 0.999),
            ci_high: figure.map(|f| f * 1.001),
            text_bytes: Some(1),
            stack_bytes: None,
            build_ms: None,
            status: if figure.is_some() {
                Status::Ok
            } else {
                Status::Failed
            },
            reason: None,
            row_ratio: None,
            outlier: false,
            baseline: None,
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            verdict: None,
        }
    }

    #[test]
    fn what_is_far_off_the_best_of_its_row_is_marked() {
        let mut rows = [
            row("a", "default", Some(10.0)),
            row("a", "ubsan", Some(15.1)),
            row("a", "patched", Some(15.0)),
            row("b", "ubsan", Some(40.0)),
            row("b", "default", None),
        ];
        mark(&mut rows);
        let marked: Vec<bool> = rows.iter().map(|r| r.outlier).collect();
        assert_eq!(marked, [false, true, false, false, false]);
        assert_eq!(rows[1].row_ratio, Some(1.51));
        assert_eq!(rows[4].row_ratio, None);
    }

    #[test]
    fn a_row_survives_json_with_the_fields_of_the_contract() {
        let one = row("a", "default", Some(10.0));
        let json = serde_json::to_value(&one).unwrap();
        for field in [
            "cc",
            "cc_version",
            "opt",
            "variant",
            "subject",
            "alg",
            "key_bits",
            "len",
            "cycles_per_byte",
            "ci_low",
            "ci_high",
            "text_bytes",
            "stack_bytes",
            "status",
            "verdict",
        ] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert_eq!(json["abi"], "64");
        assert_eq!(serde_json::from_value::<Row>(json).unwrap(), one);
    }
}
