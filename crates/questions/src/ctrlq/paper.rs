//! Published results, for comparison (Linux commit 977231e8d4, 2022, on a Platinum 8260).

/// "Create/close session operations" per second under busy polling, with one worker and with eight.
/// An operation here must be a pair: the histogram has 187,262 closes in 5 s, or 37 K closes per
/// second, and the text has 35 K operations.
pub(super) const POLL_PAIRS_PER_S: [(usize, f64); 2] = [(1, 35_000.0), (8, 40_000.0)];
/// Per cent of a CPU that eight workers took under busy polling.
pub(super) const POLL_CPU_PCT: f64 = 800.0;
/// Pairs per second with waiting instead of polling; the paper does not give the number of workers.
pub(super) const WAIT_PAIRS_PER_S: f64 = 200_000.0;
/// Per cent of a CPU that the workers took with waiting.
pub(super) const WAIT_CPU_PCT: f64 = 300.0;

/// Histogram of the closes of akcipher sessions in 5 s under busy polling: from 0 to 1 µs, from 2
/// to 3, from 4 to 7 and so on.
pub(super) const CLOSES: [u64; 14] = [0, 7, 72, 186_485, 687, 5, 3, 1, 0, 0, 0, 0, 0, 2];
/// Seconds for which `CLOSES` were counted.
pub(super) const CLOSES_SECONDS: f64 = 5.0;
