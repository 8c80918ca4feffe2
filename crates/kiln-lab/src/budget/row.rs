//! What came of one implementation under one way.

use kiln_kernel::cpu::Histogram;
use serde::Serialize;

/// A row of `budget`. Times are microseconds; those of the null sections are of pure arithmetic as long as the target,
/// made in turns with the operations. A share that could not be formed is null.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // the names are those of the contract
pub struct Row {
    pub alg: &'static str,
    #[serde(rename = "impl")]
    pub imp: &'static str,
    pub tier: &'static str,
    pub op: &'static str,
    pub mode: &'static str,
    pub data: &'static str,
    pub target_us: f64,
    /// Of a section: what the way allows, or on average where it does not count bytes.
    pub bytes: u64,
    /// Between two looks at the counter or at what is pending; null for ways that do not look.
    pub step_bytes: Option<u64>,
    /// What one section of the target's length holds at the rate of whole messages in one section (the 10th percentile of
    /// their times), without a margin, their data as `data` says; at most `len`.
    pub holds_bytes: Option<u64>,
    /// The budget: what the target holds by the rate measured at start, with the safety margin; null if not even one
    /// block.
    pub budget_bytes: Option<u64>,
    pub min_bytes: u64,
    pub cycles_per_byte: f64,
    pub len: usize,
    pub ops: u64,
    pub sections_per_op: f64,
    pub section_us_p50: Option<f64>,
    pub section_us_p95: Option<f64>,
    pub section_us_p999: Option<f64>,
    pub section_us_max: Option<f64>,
    pub null_us_p95: Option<f64>,
    pub null_us_p999: Option<f64>,
    /// Throughput lost against one section, whatever the length, and its 95 % interval.
    pub loss_pct: Option<f64>,
    pub loss_low: Option<f64>,
    pub loss_high: Option<f64>,
    /// From the raise of a softirq to its handler, the sections being those of this row.
    pub softirq_us_p50: Option<f64>,
    pub softirq_us_p95: Option<f64>,
    pub softirq_us_p999: Option<f64>,
    pub null_softirq_us_p95: Option<f64>,
    pub null_softirq_us_p999: Option<f64>,
    /// From the interrupt that wakes a task to its first action.
    pub wake_us_p50: Option<f64>,
    pub wake_us_p95: Option<f64>,
    pub wake_us_p999: Option<f64>,
    pub null_wake_us_p95: Option<f64>,
    pub null_wake_us_p999: Option<f64>,
    pub softirqs: u64,
    /// Of the timed sections, those an interrupt came into ...
    pub interrupted_pct: Option<f64>,
    /// ... and those during which the host took the CPU away.
    pub stolen_pct: Option<f64>,
    /// Sections beyond 1.1 times the target, null sections beyond it, and how many of the former have one of the two as
    /// witness.
    pub long_pct: Option<f64>,
    pub null_long_pct: Option<f64>,
    pub long_witnessed_pct: Option<f64>,
    /// Sections beyond 1.1 times the target as the watchdog found them: at an interrupt.
    pub stalls: u64,
}

impl Row {
    /// Whether 95 % of the sections ended within 1.1 times the target; see [`keeps_target()`].
    pub fn keeps_target(&self) -> Option<bool> {
        let by_bytes = self.step_bytes.is_none();
        let over = by_bytes.then_some(self.bytes as f64 / self.holds_bytes? as f64);
        keeps_target(self.long_pct?, self.null_long_pct?, over)
    }
}

/// The same by the shares of long sections and null sections, per cent: counted, not read from a histogram's buckets. `over`
/// is for sections of so many bytes: these bytes over those that the target holds undisturbed.
///
/// None if the sections missed the target and the machine may be the cause: null sections missed it as well, or the bytes
/// would have kept it undisturbed (a lower clock and a busy SMT sibling leave null sections alone). A timer has no such
/// excuse: it is there to notice.
pub fn keeps_target(long_pct: f64, null_long_pct: f64, over: Option<f64>) -> Option<bool> {
    const MISSED_PCT: f64 = 5.0;
    const LONG: f64 = 1.1;
    if long_pct <= MISSED_PCT {
        return Some(true);
    }
    (null_long_pct <= MISSED_PCT && over.is_none_or(|x| x > LONG)).then_some(false)
}

/// Section lengths of a row, for the picture: microseconds and how many.
#[derive(Clone, Debug)]
pub struct Lengths {
    /// The way's name.
    pub mode: &'static str,
    /// Upper end of each bucket in microseconds, and how many.
    pub buckets: Vec<(f64, u64)>,
}

/// A quantile in microseconds.
pub(super) fn us(h: &Histogram, q: f64, tsc_hz: f64) -> Option<f64> {
    h.quantile(q).map(|ticks| ticks as f64 / tsc_hz * 1e6)
}

/// Per cent; none of nothing.
pub(super) fn pct(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| 100.0 * part as f64 / of as f64)
}

/// Bytes of `ticks` at the rate of an undisturbed message of `len` bytes, which is the 10th percentile of what they took: the
/// machine makes some of them longer and none shorter. At most one message.
pub(super) fn holds(messages: &[u64], len: usize, ticks: u64) -> Option<u64> {
    let mut took = messages.to_vec();
    took.sort_unstable();
    let undisturbed = *took.get(took.len() / 10)?;
    Some((len as u64 * ticks / undisturbed.max(1)).min(len as u64))
}

/// Per cent lost by `judged` against `free`, pair by pair: the median and its 95 % interval.
pub(super) fn loss(judged: &[u64], free: &[u64]) -> Option<(f64, f64, f64)> {
    let mut lost: Vec<f64> = judged
        .iter()
        .zip(free)
        .filter(|(&a, &b)| a > 0 && b > 0)
        .map(|(&a, &b)| 100.0 * (1.0 - b as f64 / a as f64))
        .collect();
    // Fewer have no interval of this width.
    if lost.len() < 6 {
        return None;
    }
    lost.sort_by(f64::total_cmp);
    let n = lost.len() as f64;
    let off = 1.96 * n.sqrt() / 2.0;
    let at = |rank: f64| lost[(rank.max(0.0) as usize).min(lost.len() - 1)];
    let middle = lost.len() / 2;
    let median = match lost.len() % 2 {
        0 => (lost[middle - 1] + lost[middle]) / 2.0,
        _ => lost[middle],
    };
    Some((
        median,
        at((n / 2.0 - off).floor()),
        at((n / 2.0 + off).ceil()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_medians_of_pairs() {
        let free = [100; 40];
        let judged: Vec<u64> = (0..40)
            .map(|i| if i == 7 { 900 } else { 100 + i % 3 })
            .collect();
        let (median, low, high) = loss(&judged, &free).unwrap();
        assert!((0.9..1.1).contains(&median), "{median}");
        assert!(low <= median && median <= high);
        assert_eq!(loss(&[1; 5], &[1; 5]), None);
        // A way that is faster loses less than nothing.
        assert!(loss(&[99; 9], &[110; 9]).unwrap().0 < 0.0);
    }

    #[test]
    fn a_target_holds_what_undisturbed_messages_give_and_no_more_than_was_run() {
        // 1 MiB in 600 µs of a TSC of 1 GHz: 30 µs hold a twentieth, whatever most of the messages met.
        let took = [9_000_000, 600_000, 9_000_000, 1_200_000];
        assert_eq!(holds(&took, 1 << 20, 30_000), Some((1 << 20) / 20));
        // One of many that is too short to be true is not believed.
        let mut many = [300_000; 40];
        many[7] = 1_000;
        assert_eq!(holds(&many, 1 << 20, 30_000), Some((1 << 20) / 10));
        assert_eq!(holds(&[10_000; 3], 1 << 20, 30_000), Some(1 << 20));
        assert_eq!(holds(&[], 1 << 20, 30_000), None);
    }

    #[test]
    fn a_target_is_missed_only_where_the_machine_is_not_the_cause() {
        assert_eq!(keeps_target(5.0, 0.1, Some(2.0)), Some(true));
        assert_eq!(keeps_target(5.1, 0.1, Some(1.11)), Some(false));
        assert_eq!(keeps_target(5.1, 0.1, Some(1.09)), None);
        assert_eq!(keeps_target(5.1, 5.1, Some(2.0)), None);
        assert_eq!(keeps_target(0.0, 60.0, Some(2.0)), Some(true));
        // A timer.
        assert_eq!(keeps_target(5.1, 0.1, None), Some(false));
    }

    #[test]
    fn shares_of_nothing_are_none() {
        assert_eq!(pct(1, 0), None);
        assert_eq!(pct(1, 4), Some(25.0));
    }
}
