//! Published results for comparison (Linux commit 977231e8d4, 2022, on a Platinum 8260).

/// "Create/close session operations" per second under busy polling, with one worker and with eight
/// workers. Each operation must be a pair of a create and a close: the histogram has 187,262 closes
/// in 5 s, or 37 K closes per second, and the text has 35 K operations per second.
pub(super) const POLL_PAIRS_PER_S: [(usize, f64); 2] = [(1, 35_000.0), (8, 40_000.0)];
/// CPU time of eight workers under busy polling, in per cent of one CPU.
pub(super) const POLL_CPU_PCT: f64 = 800.0;
/// Pairs per second if workers wait instead of polling. The paper does not give the number of
/// workers.
pub(super) const WAIT_PAIRS_PER_S: f64 = 200_000.0;
/// CPU time of the workers if they wait, in per cent of one CPU.
pub(super) const WAIT_CPU_PCT: f64 = 300.0;

/// Histogram of akcipher session closes in 5 s under busy polling. The buckets are 0 to 1 µs, 2 to
/// 3 µs, 4 to 7 µs and so on.
pub(super) const CLOSES: [u64; 14] = [0, 7, 72, 186_485, 687, 5, 3, 1, 0, 0, 0, 0, 0, 2];
/// Duration in seconds of the measurement that produced `CLOSES`.
pub(super) const CLOSES_SECONDS: f64 = 5.0;
