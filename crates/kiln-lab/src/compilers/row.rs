//! The rows of `kiln compilers`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kiln_measure::Verdict;

use super::build::Facts;
use super::cell::{Abi, Cell, Status};

/// A cell is marked if it takes so many times what the best of its row takes.
pub const OUTLIER: f64 = 1.5;

/// A combination of compiler, optimization level, kind of build and subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "compilers",
    title = "Compilers",
    extend(
        "x-question" = "Which compiler, with which flags, makes which cipher slow?",
        "x-commands" = ["compilers"]
    )
)]
pub struct Row {
    /// What was compiled.
    #[schemars(extend("x-role" = "key"))]
    pub subject: String,
    /// The algorithm that it computes.
    #[schemars(extend("x-role" = "key"))]
    pub alg: String,
    /// Size of its key.
    #[schemars(extend("unit" = "bits", "x-role" = "key"))]
    pub key_bits: Option<u32>,
    /// The compiler, by the name the user gave; `-` if no compiler is involved.
    #[schemars(extend("x-role" = "key"))]
    pub cc: String,
    /// The version that the compiler reports.
    #[schemars(extend("x-role" = "key"))]
    pub cc_version: String,
    /// The optimization level, without the dash; `-` if no compiler is involved.
    #[schemars(extend("x-role" = "key"))]
    pub opt: String,
    /// The kind of build.
    #[schemars(extend("x-role" = "key"))]
    pub variant: String,
    /// Width: `64` or `32`.
    #[schemars(with = "String", extend("x-role" = "key"))]
    pub abi: Abi,
    /// Size of a message.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: usize,
    /// Core cycles per byte of the message; null without a result.
    #[schemars(extend(
        "unit" = "cycles",
        "x-role" = "main",
        "x-interval" = ["ci_low", "ci_high"],
        "x-better" = "less",
        "x-time" = "ns_per_byte"
    ))]
    pub cycles_per_byte: Option<f64>,
    /// Lower end of the interval that contains `cycles_per_byte` of a rerun.
    #[schemars(extend("unit" = "cycles"))]
    pub ci_low: Option<f64>,
    /// Upper end of that interval.
    #[schemars(extend("unit" = "cycles"))]
    pub ci_high: Option<f64>,
    /// Time per byte, measured by the TSC in the same samples; null without a result.
    #[schemars(extend("unit" = "ns", "x-role" = "figure", "x-interval" = ["ns_low", "ns_high"]))]
    pub ns_per_byte: Option<f64>,
    /// Lower end of the interval that contains `ns_per_byte` of a rerun.
    #[schemars(extend("unit" = "ns"))]
    pub ns_low: Option<f64>,
    /// Upper end of that interval.
    #[schemars(extend("unit" = "ns"))]
    pub ns_high: Option<f64>,
    /// `cycles_per_byte` divided by the best result of the same compiler, level, width and subject.
    #[schemars(extend("x-role" = "figure", "x-heading" = "relative to the best of its row"))]
    pub row_ratio: Option<f64>,
    /// Whether the row takes more than 1.5 times as long as that best result, in cycles and in time.
    pub outlier: bool,
    /// Cycles divided by the baseline's.
    #[schemars(extend(
        "x-role" = "figure",
        "x-heading" = "cycles, relative to the baseline",
        "x-interval" = ["ratio_low", "ratio_high"]
    ))]
    pub ratio: Option<f64>,
    /// Lower end of the interval of `ratio`; the confidence level holds for all rows together.
    pub ratio_low: Option<f64>,
    /// Upper end of that interval.
    pub ratio_high: Option<f64>,
    /// Time divided by the baseline's; null if one of the two has no time.
    #[schemars(extend(
        "x-role" = "figure",
        "x-heading" = "time, relative to the baseline",
        "x-interval" = ["time_ratio_low", "time_ratio_high"]
    ))]
    pub time_ratio: Option<f64>,
    /// Lower end of the interval of `time_ratio`; the confidence level holds for all rows together.
    pub time_ratio_low: Option<f64>,
    /// Upper end of that interval.
    pub time_ratio_high: Option<f64>,
    /// Size of the code.
    #[schemars(extend("unit" = "bytes", "x-role" = "figure", "x-heading" = "code, bytes"))]
    pub text_bytes: Option<u64>,
    /// Stack of the function that uses most; null if the compiler does not report it.
    #[schemars(extend("unit" = "bytes", "x-role" = "figure", "x-heading" = "stack, bytes"))]
    pub stack_bytes: Option<u64>,
    /// `ok`, `absent`, `failed`, `wrong`, `crashed` or `hung`.
    #[schemars(with = "String", extend("x-role" = "figure"))]
    pub status: Status,
    /// `faster` or `slower` both by cycles and by time, `same`, or `disagree`; null without a baseline.
    #[schemars(with = "Option<String>", extend("x-role" = "figure"))]
    pub verdict: Option<Verdict>,
    /// Why there is no result; for a sanitizer, what it complained about.
    #[schemars(extend("x-role" = "figure"))]
    pub reason: Option<String>,
    /// What the row was compared with.
    pub baseline: Option<String>,
    /// Time it took to compile and link; for results from the cache, when they were built.
    #[schemars(extend("unit" = "ms"))]
    pub build_ms: Option<f64>,
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
            ns_per_byte: None,
            ns_low: None,
            ns_high: None,
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
            time_ratio: None,
            time_ratio_low: None,
            time_ratio_high: None,
            verdict: None,
        }
    }

    /// What two rows have in common that can be compared: all but the compiler.
    pub fn place(&self) -> (&str, &str, &str, Abi, usize) {
        (&self.subject, &self.opt, &self.variant, self.abi, self.len)
    }
}

/// Marks what is far off the best of its row, in cycles and, where there are times, in time.
pub fn mark(rows: &mut [Row]) {
    let ratios = |figure: fn(&Row) -> Option<f64>| -> Vec<Option<f64>> {
        let to_best = |row: &Row| {
            let same = rows.iter().filter(|r| line(r) == line(row));
            let best = same.filter_map(figure).min_by(f64::total_cmp);
            Some(figure(row)? / best?)
        };
        rows.iter().map(to_best).collect()
    };
    let (cycles, times) = (ratios(|r| r.cycles_per_byte), ratios(|r| r.ns_per_byte));
    for (row, (cycles, time)) in rows.iter_mut().zip(cycles.into_iter().zip(times)) {
        row.row_ratio = cycles;
        row.outlier = cycles.is_some_and(|r| r > OUTLIER) && time.is_none_or(|r| r > OUTLIER);
    }
}

/// A line of the table.
fn line(row: &Row) -> (&str, &str, Abi, &str) {
    (&row.cc, &row.opt, row.abi, &row.subject)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The clock at which the rows of tests are measured unless they say otherwise.
    const GHZ: f64 = 4.0;

    impl Row {
        /// The same cycles, measured while the clock was `slower` times slower.
        pub fn at_clock(self, slower: f64) -> Row {
            let times = |ns: Option<f64>| ns.map(|ns| ns * slower);
            Row {
                ns_per_byte: times(self.ns_per_byte),
                ns_low: times(self.ns_low),
                ns_high: times(self.ns_high),
                ..self
            }
        }

        /// The row as it is in a record made before times were kept.
        pub fn without_time(self) -> Row {
            Row {
                ns_per_byte: None,
                ns_low: None,
                ns_high: None,
                ..self
            }
        }
    }

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
            ns_per_byte: figure.map(|f| f / GHZ),
            ns_low: figure.map(|f| f / GHZ * 0.999),
            ns_high: figure.map(|f| f / GHZ * 1.001),
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
            time_ratio: None,
            time_ratio_low: None,
            time_ratio_high: None,
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
    fn a_mark_needs_cycles_and_time() {
        let marked = |slow: Row| {
            let mut rows = [row("a", "default", Some(10.0)), slow];
            mark(&mut rows);
            rows[1].outlier
        };
        let slow = || row("a", "ubsan", Some(16.0));
        assert!(marked(slow()) && marked(slow().without_time()));
        assert!(!marked(slow().at_clock(0.9)));
        assert!(!marked(row("a", "ubsan", Some(14.0)).at_clock(1.5)));
    }

    #[test]
    fn a_record_without_times_is_read() {
        let mut json = serde_json::to_value(row("a", "default", Some(10.0))).unwrap();
        for field in ["ns_per_byte", "ns_low", "ns_high", "time_ratio"] {
            assert!(json.as_object_mut().unwrap().remove(field).is_some());
        }
        let old: Row = serde_json::from_value(json).unwrap();
        assert_eq!(old, row("a", "default", Some(10.0)).without_time());
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
            "ns_per_byte",
            "time_ratio",
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
