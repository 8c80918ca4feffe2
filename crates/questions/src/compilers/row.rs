//! The rows that `kiln compilers` outputs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kiln_measure::Verdict;

use super::build::Facts;
use super::cell::{Abi, Cell, Status};

/// A row is marked as an outlier if its cost exceeds the lowest cost in the same line of the table
/// by this factor.
pub(super) const OUTLIER: f64 = 1.5;

/// One subject built by one compiler, at one optimization level, as one variant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "compilers",
    title = "Compilers",
    extend(
        "x-question" = "Which compiler, with which flags, makes which cipher slow?",
        "x-commands" = ["compilers"],
        "x-view" = {
            "how": "One map for each cipher. Each row is a compiler at one optimization level; each column is a kind of build, such as default or ubsan.",
            "only": ["cc!=-"],
            "each": ["subject", "alg", "abi=32"],
            "name": ["cc", "opt"],
            "pictures": [{
                "form": "map",
                "value": "cycles_per_byte",
                "unit": "cycles per byte",
                "column": ["variant"],
                "status": "status=ok",
                "hint": ["cc_version", "opt", "variant", "reason"]
            }],
            "check": {"fail": ["status!=ok|absent"], "skip": ["status=absent"], "why": "reason"}
        }
    )
)]
pub(super) struct Row {
    /// Name of the code that was compiled.
    #[schemars(extend("x-role" = "key"))]
    pub subject: String,
    /// The algorithm that the code computes, such as `cbc(aes)`.
    #[schemars(extend("x-role" = "key"))]
    pub alg: String,
    /// Size of the key; null if the algorithm takes no key.
    #[schemars(extend("unit" = "bits", "x-role" = "key"))]
    pub key_bits: Option<u32>,
    /// Name of the compiler, as the user gave it; `-` for assembly, which needs no compiler.
    #[schemars(extend("x-role" = "key"))]
    pub cc: String,
    /// Version that the compiler reports; `-` for assembly.
    #[schemars(extend("x-role" = "key"))]
    pub cc_version: String,
    /// Optimization level without the dash, such as `O2`; `-` for assembly.
    #[schemars(extend("x-role" = "key"))]
    pub opt: String,
    /// Kind of build: `default`, `patched`, `ubsan`, `ubsan-tree`, `asan` or `no-object-flags`;
    /// several of these joined by `+`; or the user's own flags. `-` for assembly.
    #[schemars(extend("x-role" = "key"))]
    pub variant: String,
    /// Width of the code in bits: `64` (x86-64) or `32` (i386).
    #[schemars(with = "String", extend("x-role" = "key"))]
    pub abi: Abi,
    /// Size of each message.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: usize,
    /// Core cycles per byte of the message; null unless `status` is `ok`.
    #[schemars(extend(
        "unit" = "cycles",
        "x-role" = "main",
        "x-interval" = ["ci_low", "ci_high"],
        "x-better" = "less",
        "x-time" = "ns_per_byte",
        "x-benchmark" = "real_time_per_byte"
    ))]
    pub cycles_per_byte: Option<f64>,
    /// Lower end of the prediction interval of `cycles_per_byte`. A rerun is expected to give a
    /// result within this interval.
    #[schemars(extend("unit" = "cycles"))]
    pub ci_low: Option<f64>,
    /// Upper end of the prediction interval of `cycles_per_byte`.
    #[schemars(extend("unit" = "cycles"))]
    pub ci_high: Option<f64>,
    /// Time per byte of the message, measured with the TSC in the same samples as
    /// `cycles_per_byte`; null unless `status` is `ok`.
    #[schemars(extend("unit" = "ns", "x-role" = "figure", "x-interval" = ["ns_low", "ns_high"]))]
    pub ns_per_byte: Option<f64>,
    /// Lower end of the prediction interval of `ns_per_byte`. A rerun is expected to give a result
    /// within this interval.
    #[schemars(extend("unit" = "ns"))]
    pub ns_low: Option<f64>,
    /// Upper end of the prediction interval of `ns_per_byte`.
    #[schemars(extend("unit" = "ns"))]
    pub ns_high: Option<f64>,
    /// `cycles_per_byte` divided by the lowest `cycles_per_byte` of all builds with the same
    /// `subject`, `cc`, `opt` and `abi`.
    #[schemars(extend("x-role" = "figure", "x-heading" = "cycles, relative to the fastest build of this compiler and level"))]
    pub row_ratio: Option<f64>,
    /// Whether this row takes more than 1.5 times the lowest number of cycles and more than 1.5
    /// times the shortest time of all builds with the same `subject`, `cc`, `opt` and `abi`.
    pub outlier: bool,
    /// Cycles of this row divided by the baseline's cycles. Null without a baseline, or if either
    /// row has no result or too few rounds.
    #[schemars(extend(
        "x-role" = "figure",
        "x-heading" = "cycles, relative to the baseline",
        "x-interval" = ["ratio_low", "ratio_high"]
    ))]
    pub ratio: Option<f64>,
    /// Lower end of the interval of `ratio`. If the baseline is a compiler, the intervals of all
    /// rows hold jointly with 95 % confidence. If the baseline is a record, this is `ci_low` of
    /// this row divided by `ci_high` of the record's row.
    pub ratio_low: Option<f64>,
    /// Upper end of the interval of `ratio`, computed like the lower end. If the baseline is a
    /// record, this is `ci_high` of this row divided by `ci_low` of the record's row.
    pub ratio_high: Option<f64>,
    /// Time of this row divided by the baseline's time. Null without a baseline, or if either row
    /// has no time.
    #[schemars(extend(
        "x-role" = "figure",
        "x-heading" = "time, relative to the baseline",
        "x-interval" = ["time_ratio_low", "time_ratio_high"]
    ))]
    pub time_ratio: Option<f64>,
    /// Lower end of the interval of `time_ratio`, computed like the interval of `ratio`.
    pub time_ratio_low: Option<f64>,
    /// Upper end of the interval of `time_ratio`.
    pub time_ratio_high: Option<f64>,
    /// Size of the compiled machine code.
    #[schemars(extend("unit" = "bytes", "x-role" = "figure", "x-heading" = "code, bytes"))]
    pub text_bytes: Option<u64>,
    /// Highest stack usage of any function; null if the compiler does not report it.
    #[schemars(extend("unit" = "bytes", "x-role" = "figure", "x-heading" = "stack, bytes"))]
    pub stack_bytes: Option<u64>,
    /// Outcome of the build and the measurement: `ok`, `absent` (not available or not measured),
    /// `failed` (does not build), `wrong` (wrong result), `crashed` or `hung`.
    #[schemars(with = "String", extend("x-role" = "figure"))]
    pub status: Status,
    /// Comparison with the baseline: `faster` or `slower` (in both cycles and time), `disagree`
    /// (cycles and time contradict each other) or `same` (otherwise). Null if `ratio` is null.
    #[schemars(with = "Option<String>", extend("x-role" = "figure"))]
    pub verdict: Option<Verdict>,
    /// Why the row has no result. If `status` is `ok`, the first line that the program printed to
    /// stderr, such as a sanitizer's report. Null if the program printed nothing.
    #[schemars(extend("x-role" = "figure"))]
    pub reason: Option<String>,
    /// Name of the compiler or record that this row was compared with. Null without a comparison.
    pub baseline: Option<String>,
    /// Time to compile and link the program. If the program came from the cache, this is the time
    /// that the original build took. Null if the program could not be built.
    #[schemars(extend("unit" = "ms"))]
    pub build_ms: Option<f64>,
}

impl Row {
    /// Creates a row without results for a cell.
    pub(super) fn new(cell: &Cell, len: usize, facts: &Facts) -> Row {
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
            text_bytes: facts.text_bytes,
            stack_bytes: facts.stack_bytes,
            build_ms: Some(facts.build_ms),
            ..Row::default()
        }
    }

    /// Returns the properties that two rows must share to be comparable: all except the compiler.
    pub(super) fn place(&self) -> (&str, &str, &str, Abi, usize) {
        (&self.subject, &self.opt, &self.variant, self.abi, self.len)
    }
}

/// Marks the outliers: rows whose cost is much higher than that of the best row in the same table
/// line, both in cycles and, if available, in time.
pub(super) fn mark(rows: &mut [Row]) {
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

/// Returns the properties that all rows in a table line share.
fn line(row: &Row) -> (&str, &str, Abi, &str) {
    (&row.cc, &row.opt, row.abi, &row.subject)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Clock frequency in GHz that the test rows use.
    const GHZ: f64 = 4.0;

    impl Row {
        /// Simulates a clock that is slower by the factor `slower`: the times increase, but the
        /// number of cycles stays the same.
        pub(crate) fn at_clock(self, slower: f64) -> Row {
            let times = |ns: Option<f64>| ns.map(|ns| ns * slower);
            Row {
                ns_per_byte: times(self.ns_per_byte),
                ns_low: times(self.ns_low),
                ns_high: times(self.ns_high),
                ..self
            }
        }

        /// Removes the times, as in an old record.
        pub(crate) fn without_time(self) -> Row {
            Row {
                ns_per_byte: None,
                ns_low: None,
                ns_high: None,
                ..self
            }
        }
    }

    pub(crate) fn row(cc: &str, variant: &str, figure: Option<f64>) -> Row {
        Row {
            cc: cc.into(),
            cc_version: "1".into(),
            opt: "O2".into(),
            variant: variant.into(),
            abi: Abi::Bits64,
            subject: "s".into(),
            alg: "a".into(),
            len: 4096,
            cycles_per_byte: figure,
            ci_low: figure.map(|f| f * 0.999),
            ci_high: figure.map(|f| f * 1.001),
            ns_per_byte: figure.map(|f| f / GHZ),
            ns_low: figure.map(|f| f / GHZ * 0.999),
            ns_high: figure.map(|f| f / GHZ * 1.001),
            text_bytes: Some(1),
            status: if figure.is_some() {
                Status::Ok
            } else {
                Status::Failed
            },
            ..Row::default()
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
