//! Parses durations on the command line.

/// Parses a positive number of seconds, at most 1,000,000.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n <= 1e6 => Ok(n),
        _ => Err("seconds, more than 0".into()),
    }
}
