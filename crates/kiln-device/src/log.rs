//! Logs on stderr: events with fields, as text or as JSON. No field ever holds a key, a request's bytes, or an address of
//! guest memory.

use std::io::stderr;
use std::str::FromStr;

use tracing_subscriber::filter::LevelFilter;

use crate::error::Error;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(name: &str) -> Result<Form, Error> {
        match name {
            "text" => Ok(Form::Text),
            "json" => Ok(Form::Json),
            _ => Err(Error::Argument(format!(
                "unknown form of log '{name}': there are text, json"
            ))),
        }
    }
}

/// Sends this process's events to stderr, from `level` on (error, warn, info, debug, trace, off).
pub fn start(form: Form, level: &str) -> Result<(), Error> {
    let level: LevelFilter = level.parse().map_err(|_| {
        Error::Argument(format!(
            "unknown level of log '{level}': there are off, error, warn, info, debug, trace"
        ))
    })?;
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(false)
        .with_writer(stderr)
        // The reader may have gone. Reporting that on the same stream would panic.
        .log_internal_errors(false);
    let done = match form {
        Form::Text => log.try_init(),
        Form::Json => log.json().flatten_event(true).try_init(),
    };
    done.map_err(|e| Error::Argument(format!("--log: {e}")))
}
