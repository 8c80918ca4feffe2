//! Kiln's best against the best of all others, row by row and altogether.

use kiln_measure::verdict::FLOOR;
use kiln_measure::{ratio, verdict, Series, Verdict};
use serde::{Deserialize, Serialize};

use super::candidate::{Candidate, KILN};
use super::level::Level;
use super::row::Row;

/// Of the row of Kiln's fastest implementation: against the fastest of the others, from interleaved pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestPeer {
    /// What the other is called.
    pub best_peer: String,
    /// Whose it is, with the version.
    pub best_peer_provider: String,
    /// Cycles of Kiln's over cycles of the other: below 1, Kiln's is faster.
    pub best_peer_ratio: f64,
    /// Lower end of its 95 % confidence interval.
    pub best_peer_ratio_low: f64,
    /// Upper end.
    pub best_peer_ratio_high: f64,
    /// Whether Kiln's is `faster`, the `same` or `slower`.
    pub best_peer_verdict: Verdict,
}

/// Up to this many bytes a message is short.
pub const SHORT: usize = 64;
/// From this many on it is long.
pub const LONG: usize = 512;

/// The index of Kiln's fastest, and how it does against the fastest other; fastest by what they usually take, which is
/// what a ratio is of: a least figure may be one lucky round. Who works on several messages together, or
/// is called through another layer, or leaves a digest unfinished, is not compared: what one message takes is another
/// question.
pub fn of(timed: &[(&Candidate, Option<&Series>)]) -> Option<(usize, BestPeer)> {
    let fastest = |kiln: bool| {
        let alike = |c: &Candidate| {
            let whole = !c.together && c.digest.is_none() && c.level == Level::Primitive;
            (c.provider == KILN) == kiln && whole
        };
        let all = timed.iter().enumerate().filter(|(_, (c, _))| alike(c));
        let with = all.filter_map(|(i, (c, s))| Some((i, *c, (*s)?, (*s)?.estimate()?.median)));
        with.min_by(|a, b| a.3.total_cmp(&b.3))
    };
    let (i, _, own, _) = fastest(true)?;
    let (_, other, series, _) = fastest(false)?;
    let r = ratio(own, series)?;
    Some((
        i,
        BestPeer {
            best_peer: other.name.to_string(),
            best_peer_provider: other.provider.clone(),
            best_peer_ratio: r.ratio,
            best_peer_ratio_low: r.low,
            best_peer_ratio_high: r.high,
            best_peer_verdict: verdict(&r, FLOOR),
        },
    ))
}

/// How Kiln's best does against the best of the others, over rows that were compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Rows compared.
    pub rows: usize,
    /// Of them, those in which Kiln's best is slower beyond the noise.
    pub slower: usize,
    /// Geometric mean of how many times faster it is, of short messages.
    pub short: Option<f64>,
    /// The same of long ones.
    pub long: Option<f64>,
}

impl Summary {
    /// Of these rows; nothing if none was compared.
    pub fn of(rows: &[Row]) -> Option<Summary> {
        let all: Vec<(usize, &BestPeer)> = rows
            .iter()
            .filter_map(|r| Some((r.len, r.best_peer.as_ref()?)))
            .collect();
        if all.is_empty() {
            return None;
        }
        let mean = |wanted: &dyn Fn(usize) -> bool| {
            let logs: Vec<f64> = all
                .iter()
                .filter(|(len, _)| wanted(*len))
                .map(|(_, b)| -b.best_peer_ratio.ln())
                .collect();
            (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
        };
        let slower = |b: &BestPeer| b.best_peer_verdict == Verdict::Slower;
        Some(Summary {
            rows: all.len(),
            slower: all.iter().filter(|(_, b)| slower(b)).count(),
            short: mean(&|len| len <= SHORT),
            long: mean(&|len| len >= LONG),
        })
    }

    /// As a note has it.
    pub fn sentence(&self) -> String {
        let mut means = Vec::new();
        if let Some(short) = self.short {
            means.push(format!("{short:.2} times faster up to {SHORT} B"));
        }
        if let Some(long) = self.long {
            means.push(format!("{long:.2} times from {LONG} B on"));
        }
        let means = match means.is_empty() {
            true => String::new(),
            false => format!("; geometric mean {}", means.join(", ")),
        };
        format!(
            "Kiln's best against the best peer: slower in {} of {} rows{means}",
            self.slower, self.rows
        )
    }
}

/// The rows in which Kiln's best is slower, the slowest first, a line each.
pub fn slower(rows: &[Row]) -> Vec<String> {
    let is_slower = |b: &&BestPeer| b.best_peer_verdict == Verdict::Slower;
    let mut all: Vec<(&Row, &BestPeer)> = rows
        .iter()
        .filter_map(|r| Some((r, r.best_peer.as_ref().filter(is_slower)?)))
        .collect();
    all.sort_by(|a, b| b.1.best_peer_ratio.total_cmp(&a.1.best_peer_ratio));
    all.iter()
        .map(|(r, b)| {
            format!(
                "{} {} {} B: {} takes {:.3} times ({:.3} to {:.3}) {}'s {}",
                r.alg,
                r.op,
                r.len,
                r.imp,
                b.best_peer_ratio,
                b.best_peer_ratio_low,
                b.best_peer_ratio_high,
                b.best_peer_provider,
                b.best_peer
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::row::example;
    use super::*;

    fn row(len: usize, ratio: f64, verdict: Verdict) -> Row {
        Row {
            best_peer: Some(BestPeer {
                best_peer: "x".into(),
                best_peer_provider: "y-1".into(),
                best_peer_ratio: ratio,
                best_peer_ratio_low: 0.99 * ratio,
                best_peer_ratio_high: 1.01 * ratio,
                best_peer_verdict: verdict,
            }),
            ..example("a", len, 100.0)
        }
    }

    #[test]
    fn means_are_geometric_and_of_their_lengths() {
        let rows = [
            row(16, 0.5, Verdict::Faster),
            row(64, 0.125, Verdict::Faster),
            row(256, 3.0, Verdict::Slower),
            row(512, 1.25, Verdict::Slower),
            row(16384, 0.8, Verdict::Faster),
            example("b", 64, 1.0),
        ];
        let all = Summary::of(&rows).unwrap();
        assert_eq!((all.rows, all.slower), (5, 2));
        assert!((all.short.unwrap() - 4.0).abs() < 1e-9);
        assert!((all.long.unwrap() - 1.0).abs() < 1e-9);
        assert!(all
            .sentence()
            .contains("slower in 2 of 5 rows; geometric mean 4.00"));
        assert_eq!(Summary::of(&rows[5..]), None);
        let told = slower(&rows);
        assert_eq!(told.len(), 2);
        assert!(told[0].contains("256 B") && told[0].contains("3.000 times"));
        let alone = Summary::of(&rows[2..3]).unwrap();
        assert_eq!((alone.short, alone.long), (None, None));
    }
}
