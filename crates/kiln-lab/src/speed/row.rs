//! A row of `speed`. Its field names are a promise (`CLI.md`).

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};

use kiln_measure::{Series, Verdict};

use super::best::{BestPeer, BestTree, ManyRival};
use super::level::{Layout, Level};

/// One candidate at one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The kernel's name of the algorithm.
    pub alg: Cow<'static, str>,
    /// Driver name, or what the peer calls it, or a function's symbol.
    #[serde(rename = "impl")]
    pub imp: String,
    /// `kiln`, or the peer or the tree with its version.
    pub provider: String,
    /// The year in which the library's series came out, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<u16>,
    /// Of a tree: the configuration it was built with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The implementation's tier; null for a peer, which chooses for itself.
    pub tier: Option<Cow<'static, str>>,
    /// `primitive` or `api`.
    pub level: Level,
    /// Where its memory lies; absent where it is `plain`.
    #[serde(default, skip_serializing_if = "Layout::is_plain")]
    pub layout: Layout,
    /// `encrypt`, `decrypt` or `digest`.
    pub op: Cow<'static, str>,
    /// Bits of the key; of XTS's two keys, one's; 0 without a key.
    pub key_bits: u32,
    /// Bytes of a message.
    pub len: usize,
    /// Whether each call depends on the last.
    pub latency: bool,
    /// Core cycles of one call. Not a number (in JSON: null) if it could not be measured; so are the next seven.
    #[serde(deserialize_with = "null_is_nan")]
    pub cycles_per_op: f64,
    /// The same for each byte.
    #[serde(deserialize_with = "null_is_nan")]
    pub cycles_per_byte: f64,
    /// 10^6 bytes per second, from `ns_per_op`.
    #[serde(deserialize_with = "null_is_nan")]
    pub mb_per_s: f64,
    /// Lower end of the interval in which `cycles_per_op` of a rerun falls.
    #[serde(deserialize_with = "null_is_nan")]
    pub ci_low: f64,
    /// Its upper end.
    #[serde(deserialize_with = "null_is_nan")]
    pub ci_high: f64,
    /// Nanoseconds of one call, from the TSC during the same samples.
    #[serde(deserialize_with = "null_is_nan")]
    pub ns_per_op: f64,
    /// Lower end of the interval in which `ns_per_op` of a rerun falls.
    #[serde(deserialize_with = "null_is_nan")]
    pub ns_low: f64,
    /// Its upper end.
    #[serde(deserialize_with = "null_is_nan")]
    pub ns_high: f64,
    /// Least cycles of one call in each round, four digits; null for a round without a figure. The n-th round of all rows
    /// of one algorithm, operation, key and length was measured in the same stretch of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<Option<f64>>,
    /// Least nanoseconds of one call in each round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds_ns: Vec<Option<f64>>,
    /// Cycles the AES unit needs for the AES rounds alone, with this tier's vectors; null where unknown.
    pub limit_cycles: Option<f64>,
    /// With `latency`: cycles of the serial chain alone. Contained in `limit_cycles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_cycles: Option<f64>,
    /// With a baseline: against it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// Whether several messages are worked on at a time, so that one alone would take longer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
    /// Of Kiln's fastest API call, where libraries were measured: against the fastest of these.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub best_peer: Option<BestPeer>,
    /// Of Kiln's fastest function, where a tree's were measured: against the fastest of these.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub best_tree: Option<BestTree>,
    /// Of a library's fastest with several messages at a time: Kiln's fastest against it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub many: Option<ManyRival>,
}

/// A row's comparison with the baseline's row: cycles of this over cycles of that, from interleaved pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Below 1, this is faster. Null where the baseline has no figure or there were too few pairs.
    #[serde(deserialize_with = "there")]
    pub ratio: Option<f64>,
    /// Lower end of its 95 % confidence interval.
    pub ratio_low: Option<f64>,
    /// Upper end.
    pub ratio_high: Option<f64>,
    /// Time of this over time of that.
    pub time_ratio: Option<f64>,
    /// Lower end of its 95 % confidence interval.
    pub time_ratio_low: Option<f64>,
    /// Upper end.
    pub time_ratio_high: Option<f64>,
    /// `faster` or `slower` by cycles and by time, `same`, or `disagree`.
    pub verdict: Option<Verdict>,
}

/// More rounds than this are not recorded.
const ROUNDS: usize = 64;

/// A figure with four significant digits.
fn four_digits(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
}

/// JSON has no way to write what is not a number but null.
fn null_is_nan<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or(f64::NAN))
}

/// May be null, but not absent: by this a row with a comparison is known.
fn there<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(d)
}

impl Row {
    /// Takes over the figures of a series, if it has any.
    pub fn set(&mut self, series: &Series) {
        let ns = series.in_ns();
        let Some((cycles, time)) = series.estimate().zip(ns.estimate()) else {
            return;
        };
        self.cycles_per_op = cycles.best;
        self.cycles_per_byte = cycles.best / self.len as f64;
        self.ci_low = cycles.low;
        self.ci_high = cycles.high;
        self.ns_per_op = time.best;
        self.ns_low = time.low;
        self.ns_high = time.high;
        self.mb_per_s = self.len as f64 / time.best * 1e3;
        let rounds = |of: &Series| of.bests(ROUNDS).into_iter().map(|x| x.map(four_digits));
        self.rounds = rounds(series).collect();
        self.rounds_ns = rounds(&ns).collect();
    }

    /// Whether it has a figure.
    pub fn measured(&self) -> bool {
        self.cycles_per_op.is_finite()
    }

    /// Half the interval's width in per cent of the figure.
    pub fn plus_minus_pct(&self) -> f64 {
        50.0 * (self.ci_high - self.ci_low) / self.cycles_per_op
    }

    /// Whether both are of one candidate doing one thing, at whatever length.
    pub fn same_curve(&self, other: &Row) -> bool {
        self.imp == other.imp
            && self.alg == other.alg
            && self.op == other.op
            && (self.key_bits, self.level, self.layout, self.latency)
                == (other.key_bits, other.level, other.layout, other.latency)
            && (&self.provider, &self.config) == (&other.provider, &other.config)
    }
}

#[cfg(test)]
pub(crate) fn example(imp: &str, len: usize, cycles: f64) -> Row {
    let mut row = Row {
        alg: "xts(aes)".into(),
        imp: imp.to_string(),
        provider: "kiln".to_string(),
        released: None,
        config: None,
        tier: Some("generic".into()),
        level: Level::Primitive,
        layout: Layout::Plain,
        op: "encrypt".into(),
        key_bits: 256,
        len,
        latency: false,
        cycles_per_op: 0.0,
        cycles_per_byte: 0.0,
        mb_per_s: 0.0,
        ci_low: 0.0,
        ci_high: 0.0,
        ns_per_op: 0.0,
        ns_low: 0.0,
        ns_high: 0.0,
        rounds: Vec::new(),
        rounds_ns: Vec::new(),
        limit_cycles: None,
        chain_cycles: None,
        against: None,
        together: false,
        best_peer: None,
        best_tree: None,
        many: None,
    };
    row.set(&steady(cycles));
    row
}

/// Nine rounds, the fifth best 1 % above the best, at 4 GHz; the last was stopped.
#[cfg(test)]
pub(crate) fn steady(cycles: f64) -> Series {
    use kiln_measure::Round;
    let round = |n: u32, unit: f64| {
        let figure = cycles / unit * (1.0 + 0.01 * f64::from(n) / 4.0);
        Round {
            best: Some(figure),
            samples: vec![figure],
            complete: n < 8,
        }
    };
    Series {
        rounds: (0..9).map(|n| round(n, 1.0)).collect(),
        rounds_ns: (0..9).map(|n| round(n, 4.0)).collect(),
        ..Series::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let row = example("a", 1000, 500.0);
        assert_eq!(row.cycles_per_byte, 0.5);
        assert!((row.mb_per_s - 8000.0).abs() < 1e-9);
        assert!((row.ns_per_op - 125.0).abs() < 1e-9);
        assert!((row.ns_high - 1.01 * row.ns_per_op).abs() < 1e-9);
        assert!((row.plus_minus_pct() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn rounds_are_recorded_with_four_digits_and_only_whole_ones() {
        let row = example("a", 16, 123.456);
        assert_eq!(row.rounds.len(), 8);
        assert_eq!(row.rounds[..2], [Some(123.5), Some(123.8)]);
        assert_eq!(row.rounds_ns[0], Some(30.86));
        let mut many = steady(1.0);
        many.rounds = vec![many.rounds[0].clone(); 1000];
        many.rounds_ns = vec![many.rounds_ns[0].clone(); 1000];
        many.rounds[3].best = None;
        let mut row = row;
        row.set(&many);
        assert_eq!((row.rounds.len(), row.rounds_ns.len()), (ROUNDS, ROUNDS));
        assert_eq!(row.rounds[3], None);
        // Nothing measured, nothing said.
        let before = row.clone();
        row.set(&Series::default());
        assert_eq!(row, before);
    }

    #[test]
    fn fields_of_the_contract() {
        let mut row = example("a", 16, 50.0);
        let json = |row: &Row| serde_json::to_value(row).unwrap();
        for field in "alg impl provider level op key_bits len cycles_per_op cycles_per_byte mb_per_s ci_low ci_high \
                      ns_per_op ns_low ns_high rounds rounds_ns \
                      limit_cycles tier"
            .split_whitespace()
        {
            assert!(json(&row).get(field).is_some(), "{field}");
        }
        assert!(json(&row).get("ratio").is_none());
        row.against = Some(Against::default());
        for field in ["ratio", "ratio_low", "ratio_high", "verdict"] {
            assert!(json(&row)[field].is_null(), "{field}");
        }
        assert!(json(&row).get("against").is_none());
        row.cycles_per_op = f64::NAN;
        assert!(json(&row)["cycles_per_op"].is_null() && !row.measured());
    }

    #[test]
    fn a_row_comes_back_as_it_went() {
        let mut row = example("a", 16, 50.0);
        let back = |row: &Row| -> Row {
            serde_json::from_str(&serde_json::to_string(row).unwrap()).unwrap()
        };
        assert_eq!(back(&row), row);
        row.config = Some("tree".to_string());
        row.chain_cycles = Some(3.0);
        row.against = Some(Against {
            ratio: Some(1.5),
            ..Against::default()
        });
        assert_eq!(back(&row), row);
        row.against = Some(Against::default());
        assert_eq!(back(&row).against, row.against);
        row.together = true;
        row.best_peer = Some(BestPeer {
            best_peer: "EVP_x".into(),
            best_peer_provider: "openssl-3".into(),
            best_peer_ratio: 0.5,
            best_peer_ratio_low: 0.4,
            best_peer_ratio_high: 0.6,
            best_peer_time_ratio: 0.5,
            best_peer_time_ratio_low: 0.4,
            best_peer_time_ratio_high: 0.6,
            best_peer_verdict: Verdict::Disagree,
            best_peer_ymm_impl: None,
            best_peer_ymm_time_ratio: None,
            best_peer_ymm_time_ratio_low: None,
            best_peer_ymm_time_ratio_high: None,
        });
        row.released = Some(2021);
        assert_eq!(back(&row), row);
        row.cycles_per_op = f64::NAN;
        assert!(back(&row).cycles_per_op.is_nan());
    }
}
