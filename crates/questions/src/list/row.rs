//! The rows of `kiln list`: tiers, implementations, CPU features, libraries, compilers, and limits
//! of the hardware.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use kiln_kbuild::Compiler;
use kiln_kernel::cipher::Impl;
use kiln_kernel::{budget, Tier};
use kiln_question::tiers::reason;
use kiln_question::Algorithm;
use schemars::JsonSchema;
use serde::Serialize;

use crate::compilers::compilers_on_path;
use crate::limits::Limits;
use kiln_timing::peer;

/// One item that may be available on this machine: a tier, an implementation, a CPU feature, a
/// library, a compiler or a hardware limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "list",
    title = "What is available",
    extend(
        "x-question" = "Which tiers, implementations, libraries and compilers are there, and what are the hardware's limits?",
        "x-commands" = ["list"]
    )
)]
pub struct Row {
    /// The kind of item: `tier`, `impl` (an implementation), `feature` (of the CPU), `peer` (a
    /// library), `compiler` or `limit` (of the hardware).
    #[schemars(extend("x-role" = "key"))]
    pub kind: &'static str,
    /// Name of the tier, driver, feature, library, compiler or limit.
    #[schemars(extend("x-role" = "key"))]
    pub name: String,
    /// Name of an implementation's algorithm in the kernel's crypto API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "key"))]
    pub alg: Option<&'static str>,
    /// ISA tier of an implementation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "key"))]
    pub tier: Option<&'static str>,
    /// Whether the item can be used on this machine or, for a limit, whether it was measured.
    #[schemars(extend("x-role" = "main"))]
    pub available: bool,
    /// Priority of an implementation in the crypto API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", extend("x-role" = "figure"))]
    pub priority: Option<u32>,
    /// Whether an implementation is the one that serves requests for its algorithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool", extend("x-role" = "figure"))]
    pub chosen: Option<bool>,
    /// Whether an implementation claims that its run time does not depend on keys and data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub constant_time: Option<bool>,
    /// Core cycles that an implementation takes per byte of long messages. Present only if the
    /// implementation was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64", extend("unit" = "cycles", "x-role" = "figure", "x-better" = "less"))]
    pub cycles_per_byte: Option<f64>,
    /// Message length below which scalar code is faster than a SIMD implementation. Present only
    /// for SIMD implementations that were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", extend("unit" = "bytes", "x-role" = "figure", "x-heading" = "SIMD from, bytes"))]
    pub min_bytes: Option<u32>,
    /// Number of messages that an implementation processes at once. Absent if it has no functions
    /// for several messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub lanes: Option<usize>,
    /// Version of a library or a compiler.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub version: Option<String>,
    /// Value of a hardware limit. Null if the limit could not be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-role" = "figure", "x-interval" = ["ci_low", "ci_high"]))]
    pub value: Option<Option<f64>>,
    /// Lower end of the prediction interval of a limit's `value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub ci_low: Option<f64>,
    /// Upper end of the prediction interval of a limit's `value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub ci_high: Option<f64>,
    /// Unit of a limit's `value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "figure"))]
    pub unit: Option<&'static str>,
    /// Why the item is available or unavailable. For a limit that was measured, a description of
    /// what was measured.
    #[schemars(extend("x-role" = "figure"))]
    pub reason: String,
}

impl Row {
    fn new(kind: &'static str, name: impl Into<String>, available: bool, reason: String) -> Row {
        Row {
            kind,
            name: name.into(),
            available,
            reason,
            ..Row::default()
        }
    }
}

/// Returns all rows, including measured implementations (about 30 ms) and limits (0.2 s).
/// `cycles_per_tick` is the number of core cycles per TSC tick.
pub(super) fn run(seed: u64, cycles_per_tick: f64, stop: &AtomicBool) -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(tiers());
    budget::calibrate();
    rows.extend(measured(impls(), cycles_per_tick));
    rows.extend(features());
    rows.extend(peers());
    rows.extend(compilers());
    rows.extend(limits(&Limits::measure(seed, stop)));
    rows
}

/// Returns a row for every tier, lowest first.
pub fn tiers() -> Vec<Row> {
    Tier::ALL
        .into_iter()
        .map(|t| Row::new("tier", t.name(), t.usable(), reason(t)))
        .collect()
}

/// Returns a row for every implementation; each algorithm's implementations are in ascending order
/// of priority. If they were measured, the fastest is marked as chosen, otherwise the usable one
/// with the highest priority.
pub fn impls() -> Vec<Row> {
    let mut rows = Vec::new();
    for alg in Algorithm::all() {
        let impls = alg.impls();
        let fastest = impls
            .iter()
            .position(|i| i.budget().fastest && i.tier().usable());
        let by_priority = impls.iter().rposition(|i| i.tier().usable());
        let chosen = fastest.or(by_priority);
        for (n, imp) in impls.iter().enumerate() {
            let usable = imp.tier().usable();
            let chosen = Some(n) == chosen;
            let why = if chosen && fastest.is_some() && fastest != by_priority {
                format!(
                    "chosen: fastest by measurement, priority {}",
                    imp.priority()
                )
            } else if chosen {
                format!("chosen: highest usable priority, {}", imp.priority())
            } else if usable {
                format!("usable, priority {}", imp.priority())
            } else {
                format!("tier {}: {}", imp.tier(), reason(imp.tier()))
            };
            rows.push(Row {
                alg: Some(alg.name()),
                tier: Some(imp.tier().name()),
                priority: Some(imp.priority()),
                chosen: Some(chosen),
                constant_time: Some(imp.constant_time()),
                lanes: imp.lanes(),
                ..Row::new("impl", imp.driver(), usable, why)
            });
        }
    }
    rows
}

/// Adds two measured values to the rows of usable implementations: the cycles per byte, and the
/// message length from which SIMD is faster.
fn measured(rows: Vec<Row>, cycles_per_tick: f64) -> Vec<Row> {
    let known: BTreeMap<&str, Impl> = Impl::all().into_iter().map(|i| (i.driver(), i)).collect();
    let add = |row: Row| {
        let imp = known[row.name.as_str()];
        let budget = imp.budget();
        if budget.rate[0] <= 0.0 || !row.available {
            return row;
        }
        let cycles = budget.rate[0] * cycles_per_tick;
        Row {
            reason: format!("{}, {cycles:.2} cycles a byte", row.reason),
            cycles_per_byte: Some(cycles),
            min_bytes: (imp.tier() != Tier::Generic).then_some(budget.min_bytes),
            ..row
        }
    };
    rows.into_iter().map(add).collect()
}

/// Returns rows for the CPU features that ciphers can use.
pub(super) fn features() -> Vec<Row> {
    macro_rules! features {
        ($($name:tt)*) => { [$(($name, is_x86_feature_detected!($name))),*] };
    }
    features!("aes" "pclmulqdq" "sse4.1" "avx2" "bmi2" "vaes" "vpclmulqdq" "gfni" "sha" "avx512f" "avx512bw"
              "avx512dq" "avx512vl" "avx512ifma" "avx512vbmi" "avx512vbmi2" "adx" "xsavec")
    .into_iter()
    .map(|(name, has)| {
        let why = if has { "in CPUID" } else { "not in CPUID, or not enabled by the system" };
        Row::new("feature", name, has, why.to_string())
    })
    .collect()
}

/// Returns rows for the libraries that Kiln can be compared with.
pub(super) fn peers() -> Vec<Row> {
    peer::NAMES
        .into_iter()
        .map(|name| match peer::load(name) {
            Ok(peer) => Row {
                version: Some(peer.version().to_string()),
                ..Row::new(
                    "peer",
                    name,
                    true,
                    format!("{} in {}", peer.version(), peer.file()),
                )
            },
            Err(why) => Row::new("peer", name, false, why),
        })
        .collect()
}

/// Returns rows for the C compilers on PATH that are named cc, gcc or clang, with or without a
/// version suffix.
pub(super) fn compilers() -> Vec<Row> {
    let mut found = compilers_on_path();
    found.retain(|(family, _), _| family != "zig");
    let mut rows: Vec<Row> = found
        .into_values()
        .map(|name| match Compiler::find(&name) {
            Ok(cc) => Row {
                version: Some(cc.version.clone()),
                ..Row::new(
                    "compiler",
                    name,
                    true,
                    format!("{} ({})", cc.version, cc.path.display()),
                )
            },
            Err(e) => Row::new("compiler", name, false, e.to_string()),
        })
        .collect();
    if rows.is_empty() {
        let why = "none on PATH: apt-get install gcc".to_string();
        rows.push(Row::new("compiler", "cc", false, why));
    }
    rows
}

/// Returns a row for every hardware limit.
pub(super) fn limits(limits: &Limits) -> Vec<Row> {
    limits
        .all
        .iter()
        .map(|l| {
            let why = match (l.lacks, l.value) {
                (Some(feature), _) => format!("the CPU lacks {feature}"),
                (None, None) => "not measured: interrupted".to_string(),
                _ => l.what.to_string(),
            };
            Row {
                value: Some(l.value),
                ci_low: l.low,
                ci_high: l.high,
                unit: Some(l.unit),
                ..Row::new("limit", l.name, l.value.is_some(), why)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_implementation_is_chosen_and_every_row_says_why() {
        let rows = impls();
        for alg in Algorithm::all() {
            let of = rows.iter().filter(|r| r.alg == Some(alg.name()));
            assert_eq!(of.filter(|r| r.chosen == Some(true)).count(), 1, "{alg}");
        }
        for row in rows.iter().chain(&tiers()).chain(&features()) {
            assert!(!row.reason.is_empty(), "{}", row.name);
        }
        let json = serde_json::to_value(&rows[0]).unwrap();
        for field in ["kind", "name", "available", "reason"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert!(json.get("value").is_none());
    }

    #[test]
    fn a_limit_that_was_not_measured_is_null() {
        let rows = limits(&Limits::measure(1, &AtomicBool::new(true)));
        let json = serde_json::to_value(&rows[0]).unwrap();
        assert!(json.get("value").is_some_and(|v| v.is_null()));
    }
}
