//! Running the hosted program: a child, whose crash is a finding.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::{Error, Plan};

/// A child that says nothing for so long hangs: the slowest test takes a tenth of a second.
const SILENCE: Duration = Duration::from_secs(60);

/// After so many crashes the rest is not tried.
const CRASHES: usize = 16;

/// A line of the protocol (`tree/services/host.c`).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// An initcall failed.
    Initcall { address: u64, result: i32 },
    /// A test ended.
    Test {
        driver: String,
        alg: String,
        result: i32,
        us: u64,
        reached: bool,
    },
    /// The tree printed something.
    Log { text: String },
    /// The tree warned.
    Warn {
        address: u64,
        file: String,
        line: u32,
    },
    /// An algorithm is registered.
    Alg(Alg),
    /// The process ended early.
    Fault {
        what: String,
        address: u64,
        driver: String,
    },
    /// It came to the end.
    Done { initcalls: u64 },
}

/// An algorithm as registered.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Alg {
    /// Such as `xts(aes)`.
    pub name: String,
    /// Such as `xts-aes-vaes-avx2`.
    pub driver: String,
    /// Such as `skcipher`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The highest is chosen.
    pub priority: i32,
    /// May answer later.
    #[serde(rename = "async")]
    pub is_async: bool,
    /// For the crypto API's own use.
    pub internal: bool,
    /// By the tree's own mark.
    pub tested: bool,
}

/// All that was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Events of the last run.
    pub events: Vec<Event>,
    /// Faults of drivers' tests in the runs before it: what happened, and where.
    pub faults: HashMap<String, (String, u64)>,
    /// A fault outside any test; nothing was listed.
    pub broken: Option<(String, u64)>,
}

/// Runs it; after a crash in a driver's test again without that test.
pub fn run_all(program: &Path, plan: &Plan) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let mut skip: Vec<String> = Vec::new();
    loop {
        seen.events = run(program, plan, &skip)?;
        let fault = seen.events.iter().find_map(|event| match event {
            Event::Fault {
                what,
                address,
                driver,
            } => Some((what.clone(), *address, driver.clone())),
            _ => None,
        });
        let Some((what, address, driver)) = fault else {
            return Ok(seen);
        };
        if driver.is_empty() || skip.len() == CRASHES || skip.contains(&driver) {
            seen.broken = Some((what, address));
            return Ok(seen);
        }
        seen.faults.insert(driver.clone(), (what, address));
        skip.push(driver);
    }
}

fn run(program: &Path, plan: &Plan, skip: &[String]) -> Result<Vec<Event>, Error> {
    let mut child = Command::new(program)
        .arg(plan.seed.to_string())
        .args(skip)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| Error::Lacks(format!("cannot run {}: {e}", program.display())))?;
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let (send, receive) = channel();
    let reader = thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let mut events = Vec::new();
    let mut last = Instant::now();
    let mut hangs = false;
    loop {
        match receive.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => {
                last = Instant::now();
                events.extend(serde_json::from_str::<Event>(&line));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => hangs = last.elapsed() > SILENCE,
        }
        if hangs || plan.stop.load(Ordering::Relaxed) {
            let _ = child.kill();
            break;
        }
    }
    let status = child.wait().map_err(|e| Error::Lacks(e.to_string()))?;
    let _ = reader.join();
    if plan.stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let ended = |e: &Event| matches!(e, Event::Fault { .. } | Event::Done { .. });
    if !events.iter().any(ended) {
        let what = match status.signal() {
            _ if hangs => format!("no sign of life for {} s", SILENCE.as_secs()),
            Some(signal) => format!("ended by signal {signal}"),
            None => format!("ended early: {status}"),
        };
        events.push(Event::Fault {
            what,
            address: 0,
            driver: String::new(),
        });
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocols_lines_are_understood() {
        let parse = |line: &str| serde_json::from_str::<Event>(line).unwrap();
        assert_eq!(
            parse(
                r#"{"event":"fault","what":"BUG at a.c:3","address":4198400,"driver":"md4-generic"}"#
            ),
            Event::Fault {
                what: "BUG at a.c:3".into(),
                address: 4_198_400,
                driver: "md4-generic".into()
            }
        );
        let line = r#"{"event":"alg","name":"xts(aes)","driver":"d","type":"skcipher","priority":-1,"async":true,"internal":false,"tested":true}"#;
        assert!(matches!(parse(line), Event::Alg(alg) if alg.is_async && alg.priority == -1));
        assert_eq!(
            parse(r#"{"event":"done","initcalls":103}"#),
            Event::Done { initcalls: 103 }
        );
    }
}
