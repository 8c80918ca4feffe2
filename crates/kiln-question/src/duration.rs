//! The flag `--seconds`, where it bounds a whole command.

use std::time::Duration;

use crate::Error;

/// The time that was asked for, which is `least` or more and a day at most.
pub fn parse_seconds(asked: Option<f64>, least: f64) -> Result<Option<Duration>, Error> {
    match asked {
        Some(s) if !(least..=86_400.0).contains(&s) => Err(Error::input(format!(
            "--seconds {s}: this takes from {least} to 86400"
        ))),
        asked => Ok(asked.map(Duration::from_secs_f64)),
    }
}
