//! Parses `--seconds`, which limits a command's total time.

use std::time::Duration;

use crate::Error;

/// Checks the requested time, which must be at least `least` seconds and at most a day.
pub fn parse_seconds(asked: Option<f64>, least: f64) -> Result<Option<Duration>, Error> {
    match asked {
        Some(s) if !(least..=86_400.0).contains(&s) => Err(Error::input(format!(
            "--seconds {s}: expected a number from {least} to 86400"
        ))),
        asked => Ok(asked.map(Duration::from_secs_f64)),
    }
}
