//! Logs events with fields to stderr, as text or JSON. Fields never contain keys, request bytes, or
//! addresses of guest memory.

use std::io::stderr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::Error;
use crate::pace::Bucket;

/// Maximum number of lines per second that one process logs, and the burst allowed after a pause,
/// given as the time that the burst takes at this rate. Without a limit, a front end could cause
/// any number of lines.
const LINES: u64 = 20;
const LINES_AT_ONCE: Duration = Duration::from_secs(10);

/// A rate limit for log lines. It drops lines that exceed the rate, and later reports how many it
/// has dropped.
struct Limit {
    bucket: Bucket,
    start: Instant,
    left_out: AtomicU64,
}

impl Limit {
    fn new() -> Limit {
        Limit {
            bucket: Bucket::new(LINES, LINES_AT_ONCE),
            start: Instant::now(),
            left_out: AtomicU64::new(0),
        }
    }

    /// Returns the number of lines dropped since the last one was written, or `None` if no line may
    /// be written at `now`.
    fn admit(&self, now: Duration) -> Option<u64> {
        let now = now.as_nanos() as u64;
        if !self.bucket.is_due(now) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.bucket.take(1, now);
        Some(self.left_out.swap(0, Ordering::Relaxed))
    }
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, _: &Event<'_>, _: Context<'_, S>) -> bool {
        if !has_room() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        match self.admit(self.start.elapsed()) {
            None => return false,
            Some(0) => {}
            Some(lines) => tracing::warn!(lines, "lines were dropped: the rate limit was exceeded"),
        }
        true
    }
}

/// Returns whether a line can be written without blocking. A write blocks if stderr is a full pipe
/// whose reader is stalled.
fn has_room() -> bool {
    let out = stderr();
    let mut fds = [PollFd::new(&out, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec::default())) != Ok(0)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Text,
    /// One JSON object per line, for programs.
    Json,
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(name: &str) -> Result<Form, Error> {
        match name {
            "text" => Ok(Form::Text),
            "json" => Ok(Form::Json),
            _ => Err(Error::Argument(format!(
                "unknown log format '{name}': choose text or json"
            ))),
        }
    }
}

/// Starts logging to stderr at the given level: off, error, warn, info, debug or trace.
pub fn start(form: Form, level: &str) -> Result<(), Error> {
    let level: LevelFilter = level.parse().map_err(|_| {
        Error::Argument(format!(
            "unknown log level '{level}': choose from off, error, warn, info, debug, trace"
        ))
    })?;
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(false)
        .with_writer(stderr)
        // The reader may have closed stderr, and reporting that on stderr would panic.
        .log_internal_errors(false);
    let done = match form {
        Form::Text => log.finish().with(Limit::new()).try_init(),
        Form::Json => {
            let log = log.json().flatten_event(true);
            log.finish().with(Limit::new()).try_init()
        }
    };
    done.map_err(|e| Error::Argument(format!("--log: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_rate_are_left_out_and_counted() {
        let limit = Limit::new();
        let most = LINES * LINES_AT_ONCE.as_secs();
        let admitted = (0..10 * most).filter(|_| limit.admit(Duration::ZERO).is_some());
        // The line that exceeds the burst is still admitted, so one more than `most` is expected.
        assert_eq!(admitted.count() as u64, most + 1);
        let later = LINES_AT_ONCE * 2;
        assert_eq!(limit.admit(later), Some(9 * most - 1));
        assert_eq!(limit.admit(later), Some(0), "they are counted once");
    }
}
