//! Compares Kiln's best implementation with its best competitor, per row and overall.

use kiln_kernel::Tier;
use kiln_measure::verdict::FLOOR;
use kiln_measure::{ratio, verdict_by_both, Ratio, Series, Verdict};

use kiln_record::family;

use super::rival::{BestPeer, BestTree, ManyRival};
use super::row::Row;
use kiln_timing::peer::release;
use kiln_timing::{Candidate, Level, KILN};

/// The ratios of cycles and of time, and the verdict that follows from both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Compared {
    pub cycles: Ratio,
    pub time: Ratio,
    pub verdict: Verdict,
}

/// Compares two series from the same benchmark. Returns `None` if they have too few rounds in
/// common.
pub(super) fn compare(a: &Series, b: &Series) -> Option<Compared> {
    let (cycles, time) = (ratio(a, b)?, ratio(&a.in_ns(), &b.in_ns())?);
    let verdict = verdict_by_both(&cycles, &time, FLOOR);
    Some(Compared {
        cycles,
        time,
        verdict,
    })
}

/// The comparisons at one length, each with the index of its row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Best {
    /// The comparison of Kiln's fastest API call with the fastest library.
    pub peer: Option<(usize, BestPeer)>,
    /// The comparison of Kiln's fastest function with the fastest function of a kernel tree.
    pub tree: Option<(usize, BestTree)>,
    /// The comparison of Kiln with the fastest library function that processes several messages at
    /// once. Kiln's side is its fastest function of this kind, if it has one, and otherwise its
    /// fastest function for single messages.
    pub many: Option<(usize, ManyRival)>,
}

fn is_tree(c: &Candidate) -> bool {
    c.family() == "linux"
}

fn is_own(c: &Candidate) -> bool {
    c.provider == KILN
}

/// Returns whether the candidate is a function that processes one whole message.
fn is_function(c: &Candidate) -> bool {
    c.level == Level::Primitive && !c.together && c.digest.is_none()
}

/// Finds the fastest candidate of each kind, and compares Kiln's with those of its competitors, as
/// described at the fields of [`Best`]. The fastest candidate is the one with the shortest median
/// time, because a minimum may be due to a single unusually fast round. Block functions are not
/// compared, because they do not finish the digest.
pub(super) fn find_best(timed: &[(&Candidate, Option<&Series>)]) -> Best {
    let fastest = |wanted: &dyn Fn(&Candidate) -> bool| {
        let all = timed.iter().enumerate().filter(|(_, (c, _))| wanted(c));
        let with = all.filter_map(|(i, (c, s))| {
            let median = (*s)?.in_ns().estimate()?.median;
            Some((median, i, *c, (*s)?))
        });
        let least = with.min_by(|a, b| a.0.total_cmp(&b.0));
        least.map(|(_, i, c, s)| (i, c, s))
    };
    let is_wide = |c: &Candidate| {
        let tier = c.tier.as_deref().and_then(|t| t.parse::<Tier>().ok());
        tier.is_some_and(|t| t.bits() == 512)
    };
    let is_call = |c: &Candidate| is_own(c) && c.level == Level::Api;
    let peer = || {
        let (i, own, series) = fastest(&is_call)?;
        let (_, other, others) = fastest(&|c| !is_own(c) && !is_tree(c) && is_function(c))?;
        let of = compare(series, others)?;
        let narrow = match is_wide(own) {
            true => fastest(&|c| is_call(c) && !is_wide(c)),
            false => None,
        };
        let narrow = narrow.and_then(|(_, c, s)| Some((c, compare(s, others)?.time)));
        let best = BestPeer {
            best_peer: other.name.to_string(),
            best_peer_provider: other.provider.clone(),
            best_peer_ratio: of.cycles.ratio,
            best_peer_ratio_low: of.cycles.low,
            best_peer_ratio_high: of.cycles.high,
            best_peer_time_ratio: of.time.ratio,
            best_peer_time_ratio_low: of.time.low,
            best_peer_time_ratio_high: of.time.high,
            best_peer_verdict: of.verdict,
            best_peer_ymm_impl: narrow.map(|(c, _)| c.name.to_string()),
            best_peer_ymm_time_ratio: narrow.map(|(_, t)| t.ratio),
            best_peer_ymm_time_ratio_low: narrow.map(|(_, t)| t.low),
            best_peer_ymm_time_ratio_high: narrow.map(|(_, t)| t.high),
        };
        Some((i, best))
    };
    let tree = || {
        let (i, _, series) = fastest(&|c| is_own(c) && is_function(c))?;
        let (_, other, others) = fastest(&|c| is_tree(c) && is_function(c))?;
        let of = compare(series, others)?;
        let best = BestTree {
            best_tree: other.name.to_string(),
            best_tree_provider: other.provider.clone(),
            best_tree_ratio: of.cycles.ratio,
            best_tree_ratio_low: of.cycles.low,
            best_tree_ratio_high: of.cycles.high,
            best_tree_time_ratio: of.time.ratio,
            best_tree_time_ratio_low: of.time.low,
            best_tree_time_ratio_high: of.time.high,
            best_tree_verdict: of.verdict,
        };
        Some((i, best))
    };
    let many = || {
        let (i, _, others) = fastest(&|c| !is_own(c) && c.together)?;
        let own = fastest(&|c| is_own(c) && c.together);
        let (_, own, series) = own.or_else(|| fastest(&|c| is_own(c) && is_function(c)))?;
        let of = compare(series, others)?;
        let rival = ManyRival {
            kiln_impl: own.name.to_string(),
            kiln_time_ratio: of.time.ratio,
            kiln_time_ratio_low: of.time.low,
            kiln_time_ratio_high: of.time.high,
            kiln_verdict: of.verdict,
        };
        Some((i, rival))
    };
    Best {
        peer: peer(),
        tree: tree(),
        many: many(),
    }
}

/// Messages with fewer bytes than this count as short. For short messages, the code around the
/// cipher takes about as long as the cipher itself.
pub(super) const SHORT: usize = 256;

/// The numbers of rows in which Kiln is faster, equally fast or slower, and Kiln's mean speedups.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Count {
    /// Number of rows where Kiln is faster.
    pub faster: usize,
    /// Number of rows where no difference was shown, or cycles and time disagree.
    pub equal: usize,
    /// Number of rows, included in `equal`, in which cycles and time disagree.
    pub disagree: usize,
    /// Number of rows where Kiln is slower.
    pub slower: usize,
    /// Geometric mean of Kiln's speedups for messages shorter than [`SHORT`], based on time.
    pub short: Option<f64>,
    /// Geometric mean of Kiln's speedups for all longer messages, based on time.
    pub long: Option<f64>,
}

impl Count {
    /// Counts the verdicts in `rows`, a list of (length, time ratio, verdict) tuples. Returns
    /// `None` if `rows` is empty.
    fn new(rows: &[(usize, f64, Verdict)]) -> Option<Count> {
        let number = |wanted| rows.iter().filter(|(.., v)| *v == wanted).count();
        let disagree = number(Verdict::Disagree);
        let mean = |wanted: &dyn Fn(usize) -> bool| {
            let of = rows.iter().filter(|(len, ..)| wanted(*len));
            mean(of.map(|(_, ratio, _)| *ratio))
        };
        (!rows.is_empty()).then(|| Count {
            faster: number(Verdict::Faster),
            equal: number(Verdict::Same) + disagree,
            disagree,
            slower: number(Verdict::Slower),
            short: mean(&|len| len < SHORT),
            long: mean(&|len| len >= SHORT),
        })
    }

    /// Formats the counts, such as `faster in 56, equal in 6, slower in 0 of 62`, and the number of
    /// rows where cycles and time disagree.
    pub(super) fn sentence(&self) -> String {
        let all = self.faster + self.equal + self.slower;
        let disagree = match self.disagree {
            0 => String::new(),
            n => format!(" (in {n} of them cycles and time disagree)"),
        };
        format!(
            "faster in {}, equal in {}{disagree}, slower in {} of {all}",
            self.faster, self.equal, self.slower
        )
    }

    /// Formats the geometric means as a clause that begins with a semicolon. Returns an empty
    /// string if neither mean is known.
    fn means(&self) -> String {
        let with = [
            (self.short, format!("with less than {SHORT} B")),
            (self.long, format!("with {SHORT} B or more")),
        ];
        let words = with
            .into_iter()
            .filter_map(|(mean, lens)| Some(format!("Kiln {} {lens}", pace(mean?))));
        let words: Vec<String> = words.collect();
        match words.is_empty() {
            true => String::new(),
            false => format!("; in the geometric mean, {}", words.join(", and ")),
        }
    }
}

/// Computes the geometric mean of the speedups, which are the inverses of these time ratios.
fn mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = ratios.map(|ratio| -ratio.ln()).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Describes a speed in words: `is 1.41 times as fast`, `takes 1.25 times as long`, `is as fast`.
pub(super) fn pace(times: f64) -> String {
    let (fast, long) = (format!("{times:.2}"), format!("{:.2}", 1.0 / times));
    match (fast.as_str(), long.as_str()) {
        ("1.00", _) | (_, "1.00") => "is as fast".to_string(),
        _ if times > 1.0 => format!("is {fast} times as fast"),
        _ => format!("takes {long} times as long"),
    }
}

/// Libraries that process several messages at once, compared with Kiln.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Many {
    /// Names of the libraries that process several messages at once.
    pub who: Vec<String>,
    /// Number of rows where the row's library is faster than Kiln.
    pub ahead: usize,
    /// Number of rows where Kiln is faster than the row's library.
    pub behind: usize,
    pub rows: usize,
    /// Largest speedup of a library over Kiln.
    pub most: f64,
}

impl Many {
    /// Formats the comparison as the text of a note.
    pub(super) fn sentence(&self) -> String {
        let most = match self.ahead {
            0 => String::new(),
            _ => format!(", up to {:.1} times as fast", self.most),
        };
        format!(
            "several messages at a time: {} ahead in {} of {} rows{most}; Kiln in {}",
            self.who.join(", "),
            self.ahead,
            self.rows,
            self.behind
        )
    }
}

/// Summary, over all compared rows, of how Kiln's best implementation compares with its best
/// competitor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Summary {
    /// Names of the trees, and the results of comparing Kiln's functions with theirs.
    pub tree: Option<(Vec<String>, Count)>,
    /// Names of the libraries, and the results of comparing calls through Kiln's crypto API with
    /// calls to the fastest library.
    pub peer: Option<(Vec<String>, Count)>,
    /// Geometric mean of the speedups of Kiln's 256-bit code relative to the fastest library. Only
    /// lengths of at least [`SHORT`] at which Kiln's fastest call uses 512-bit code are included.
    pub ymm: Option<f64>,
    /// The comparison with libraries that process several messages at once.
    pub many: Option<Many>,
}

impl Summary {
    /// Summarizes the rows' comparisons.
    pub(super) fn new(rows: &[Row]) -> Summary {
        let who = |wanted: &dyn Fn(&Row) -> bool| {
            let mut all: Vec<String> = Vec::new();
            for row in rows.iter().filter(|r| wanted(r)) {
                let name = release::describe(&row.provider);
                if !all.contains(&name) {
                    all.push(name);
                }
            }
            all
        };
        let of_tree = |r: &Row| family(&r.provider) == "linux";
        let of_peer = |r: &Row| r.provider != KILN && !of_tree(r);
        let trees = rows.iter().filter_map(|r| {
            let b = r.best_tree.as_ref()?;
            Some((r.len, b.best_tree_time_ratio, b.best_tree_verdict))
        });
        let peers = || {
            rows.iter()
                .filter_map(|r| Some((r.len, r.best_peer.as_ref()?)))
        };
        let against = peers().map(|(len, b)| (len, b.best_peer_time_ratio, b.best_peer_verdict));
        let narrow = peers().filter(|(len, _)| *len >= SHORT);
        let rivals: Vec<&ManyRival> = rows.iter().filter_map(|r| r.many.as_ref()).collect();
        let number = |v| rivals.iter().filter(|r| r.kiln_verdict == v).count();
        let ratios = rivals.iter().map(|r| r.kiln_time_ratio);
        Summary {
            tree: Count::new(&trees.collect::<Vec<_>>()).map(|c| (who(&of_tree), c)),
            peer: Count::new(&against.collect::<Vec<_>>())
                .map(|c| (who(&|r| of_peer(r) && !r.together), c)),
            ymm: mean(narrow.filter_map(|(_, b)| b.best_peer_ymm_time_ratio)),
            many: ratios.reduce(f64::max).map(|most| Many {
                who: who(&|r| of_peer(r) && r.many.is_some()),
                ahead: number(Verdict::Slower),
                behind: number(Verdict::Faster),
                rows: rivals.len(),
                most,
            }),
        }
    }

    /// Returns the sentences for the notes. If a kernel tree was measured, its sentence comes
    /// first.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some((who, count)) = &self.tree {
            all.push(format!(
                "Kiln's fastest function against the fastest of {}: {}{}",
                who.join(", "),
                count.sentence(),
                count.means()
            ));
        }
        if let Some((who, count)) = &self.peer {
            let ymm = self
                .ymm
                .map(|ymm| format!("; Kiln's own 256-bit code from {SHORT} B on {}", pace(ymm)));
            all.push(format!(
                "a call of Kiln's crypto API (api) is compared with a call of the fastest library measured. Libraries measured: {}. \
                 Kiln is {} comparisons{}{}",
                who.join(", "),
                count.sentence(),
                count.means(),
                ymm.unwrap_or_default()
            ));
        }
        all.extend(self.many.as_ref().map(Many::sentence));
        all
    }
}

/// Describes the rows where Kiln is slower than a tree or a library, one per line, starting with
/// the largest difference.
pub(super) fn slower(rows: &[Row]) -> Vec<String> {
    let mut all: Vec<(f64, String)> = Vec::new();
    for row in rows {
        let tree = row.best_tree.as_ref().map(|b| {
            (
                b.best_tree_verdict,
                [
                    b.best_tree_time_ratio,
                    b.best_tree_time_ratio_low,
                    b.best_tree_time_ratio_high,
                ],
                format!("{}'s {}", b.best_tree_provider, b.best_tree),
            )
        });
        let peer = row.best_peer.as_ref().map(|b| {
            (
                b.best_peer_verdict,
                [
                    b.best_peer_time_ratio,
                    b.best_peer_time_ratio_low,
                    b.best_peer_time_ratio_high,
                ],
                format!("{}'s {}", b.best_peer_provider, b.best_peer),
            )
        });
        let call = match row.level {
            Level::Primitive => String::new(),
            level => format!(" ({level})"),
        };
        for (verdict, [ratio, low, high], other) in tree.into_iter().chain(peer) {
            if verdict == Verdict::Slower {
                let line = format!(
                    "{} {} {} B: {}{call} takes {ratio:.3} times ({low:.3} to {high:.3}) as long as {other}",
                    row.alg, row.op, row.len, row.imp
                );
                all.push((ratio, line));
            }
        }
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().map(|(_, line)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::row::example;
    use super::*;

    fn row(len: usize, ratio: f64, verdict: Verdict) -> Row {
        Row {
            level: Level::Api,
            best_peer: Some(BestPeer {
                best_peer: "x".into(),
                best_peer_provider: "openssl-3.0.19".into(),
                best_peer_ratio: ratio,
                best_peer_ratio_low: 0.99 * ratio,
                best_peer_ratio_high: 1.01 * ratio,
                best_peer_time_ratio: ratio,
                best_peer_time_ratio_low: 0.99 * ratio,
                best_peer_time_ratio_high: 1.01 * ratio,
                best_peer_verdict: verdict,
                best_peer_ymm_impl: Some("b".into()),
                best_peer_ymm_time_ratio: Some(2.0 * ratio),
                best_peer_ymm_time_ratio_low: Some(2.0 * ratio),
                best_peer_ymm_time_ratio_high: Some(2.0 * ratio),
            }),
            ..example("a", len, 100.0)
        }
    }

    fn library(provider: &str) -> Row {
        Row {
            provider: provider.into(),
            ..example("EVP", 64, 1.0)
        }
    }

    #[test]
    fn ties_are_ties_and_means_are_geometric() {
        let rows = [
            row(16, 0.5, Verdict::Faster),
            row(64, 0.125, Verdict::Faster),
            row(256, 3.0, Verdict::Slower),
            row(512, 1.25, Verdict::Slower),
            row(16384, 0.8, Verdict::Disagree),
            row(16384, 1.0 / 3.0, Verdict::Same),
            library("openssl-3.0.19"),
            library("libgcrypt-9.0"),
        ];
        let all = Summary::new(&rows);
        let (who, count) = all.peer.clone().unwrap();
        assert_eq!(
            who,
            ["openssl 3.0.19 (release series of 2021)", "libgcrypt 9.0"]
        );
        assert_eq!((count.faster, count.equal, count.slower), (2, 2, 2));
        assert!((count.short.unwrap() - 4.0).abs() < 1e-9);
        assert!((count.long.unwrap() - 1.0).abs() < 1e-9);
        let told = all.sentences();
        assert_eq!(told.len(), 1);
        for part in [
            "faster in 2, equal in 2 (in 1 of them cycles and time disagree), slower in 2 of 6",
            "Kiln is 4.00 times as fast with less than 256 B, and Kiln is as fast with 256 B or more",
            "Kiln's own 256-bit code from 256 B on takes 2.00 times as long",
        ] {
            assert!(told[0].contains(part), "{part}: {}", told[0]);
        }
        assert_eq!(Summary::new(&rows[6..]), Summary::default());
        let lines = slower(&rows);
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].contains("256 B: a (api) takes 3.000 times"),
            "{}",
            lines[0]
        );
        let (_, alone) = Summary::new(&rows[2..3]).peer.unwrap();
        assert_eq!((alone.short, alone.equal, alone.slower), (None, 0, 1));
    }

    #[test]
    fn the_kernels_own_come_first_and_several_messages_are_a_line() {
        let mut rows = vec![row(64, 2.0, Verdict::Slower), library("openssl-3.0.19")];
        rows.push(Row {
            best_tree: Some(BestTree {
                best_tree: "f".into(),
                best_tree_provider: "linux-6.12.1".into(),
                best_tree_ratio: 0.9,
                best_tree_ratio_low: 0.9,
                best_tree_ratio_high: 0.9,
                best_tree_time_ratio: 0.8,
                best_tree_time_ratio_low: 0.8,
                best_tree_time_ratio_high: 0.8,
                best_tree_verdict: Verdict::Faster,
            }),
            ..example("a", 4096, 1.0)
        });
        rows.push(library("linux-6.12.1"));
        let many = |ratio, verdict| Row {
            together: true,
            many: Some(ManyRival {
                kiln_impl: "a-many".into(),
                kiln_time_ratio: ratio,
                kiln_time_ratio_low: ratio,
                kiln_time_ratio_high: ratio,
                kiln_verdict: verdict,
            }),
            ..library("ipsec-mb-1.3.0")
        };
        rows.extend([
            many(12.0, Verdict::Slower),
            many(0.5, Verdict::Faster),
            many(1.0, Verdict::Same),
        ]);
        let told = Summary::new(&rows).sentences();
        assert_eq!(told.len(), 3);
        assert!(told[0].starts_with(
            "Kiln's fastest function against the fastest of linux 6.12.1: faster in 1"
        ));
        assert!(
            told[0].ends_with("Kiln is 1.25 times as fast with 256 B or more"),
            "{}",
            told[0]
        );
        assert!(
            told[1].contains("Kiln takes 2.00 times as long with less than 256 B"),
            "{}",
            told[1]
        );
        assert_eq!(
            told[2],
            "several messages at a time: ipsec-mb 1.3.0 (release series of 2022) ahead in 1 of 3 rows, up to 12.0 times as \
             fast; Kiln in 1"
        );
        // A library that is not ahead in any row must not be reported as ahead.
        let none = Summary::new(&[many(0.5, Verdict::Faster)]).sentences();
        assert!(
            none[0].contains("ahead in 0 of 1 rows; Kiln in 1"),
            "{none:?}"
        );
    }

    #[test]
    fn a_pace_has_a_direction() {
        assert_eq!(pace(1.414), "is 1.41 times as fast");
        assert_eq!(pace(0.8), "takes 1.25 times as long");
        assert_eq!(pace(1.004), "is as fast");
        assert_eq!(pace(0.996), "is as fast");
    }
}
