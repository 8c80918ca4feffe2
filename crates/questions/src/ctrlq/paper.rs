//! Published results for comparison (Linux commit 977231e8d4, 2022, on a Platinum 8260).

/// "Create/close session operations" per second under busy polling, with one worker and with eight
/// workers. Each of these operations evidently consists of a create and a close: the histogram
/// shows 187,262 closes in 5 s, or 37 K closes per second, and the text reports 35 K operations per
/// second.
pub(super) const POLL_PAIRS_PER_S: [(usize, f64); 2] = [(1, 35_000.0), (8, 40_000.0)];
/// CPU time that eight workers use under busy polling, as a percentage of one CPU.
pub(super) const POLL_CPU_PCT: f64 = 800.0;
/// Pairs per second if the workers sleep instead of polling. The number of workers was not
/// published.
pub(super) const WAIT_PAIRS_PER_S: f64 = 200_000.0;
/// CPU time that the workers use if they sleep, as a percentage of one CPU.
pub(super) const WAIT_CPU_PCT: f64 = 300.0;

/// Histogram of akcipher session closes in 5 s under busy polling. The buckets are 0 to 1 µs, 2 to
/// 3 µs, 4 to 7 µs and so on.
pub(super) const CLOSES: [u64; 14] = [0, 7, 72, 186_485, 687, 5, 3, 1, 0, 0, 0, 0, 0, 2];
/// Duration in seconds of the measurement that produced `CLOSES`.
pub(super) const CLOSES_SECONDS: f64 = 5.0;
