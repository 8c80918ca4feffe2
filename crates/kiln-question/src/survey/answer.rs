//! The result of a survey part.

use kiln_measure::warning::PREFIX;
use serde_json::Value;

use super::part::Part;
use crate::child::Left;

/// How a part ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The part wrote a record.
    Done,
    /// The part wrote a record that reports a failed check.
    Failed,
    /// Ctrl-C interrupted the part, which may have written a record.
    Interrupted,
    /// Something that the part needs is missing on this machine. The string is the command's error
    /// line, which says what is missing.
    Lacks(String),
    /// The part failed without a usable record, for example because it crashed or hung. The string
    /// gives the reason.
    Died(String),
}

/// A part's record, and how the part ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub part: &'static Part,
    pub ended: Ended,
    /// The record exactly as the command printed it; `None` if it printed no usable record.
    pub text: Option<String>,
    /// The record, parsed as JSON; `None` if the command printed no usable record.
    pub record: Option<Value>,
}

impl Answer {
    /// Creates an answer from the output and exit status of the part's process.
    pub fn new(part: &'static Part, left: Left) -> Answer {
        let text = String::from_utf8(left.output).ok();
        let record: Option<Value> = text.as_deref().and_then(|t| serde_json::from_str(t).ok());
        let record = record.filter(|r| r["rows"].is_array() && r["command"].is_string());
        let said = left.said.unwrap_or_else(|| "it said nothing".to_string());
        // Remove the prefix that the command prints before its error message.
        let said = said.strip_prefix("kiln: ").unwrap_or(&said).to_string();
        let ended = match (left.status, &record) {
            (Ok(0), Some(_)) => Ended::Done,
            (Ok(1), Some(_)) => Ended::Failed,
            (Ok(130), _) => Ended::Interrupted,
            (Ok(3), _) => Ended::Lacks(said),
            (Ok(code), _) => Ended::Died(format!("exit status {code}: {said}")),
            (Err(how), _) => Ended::Died(how),
        };
        let keeps = !matches!(ended, Ended::Lacks(_) | Ended::Died(_));
        Answer {
            part,
            ended,
            text: text.filter(|_| keeps && record.is_some()),
            record: record.filter(|_| keeps),
        }
    }

    pub fn rows(&self) -> &[Value] {
        let rows = self.record.as_ref().and_then(|r| r["rows"].as_array());
        rows.map_or(&[], Vec::as_slice)
    }

    pub fn notes(&self) -> impl Iterator<Item = &str> {
        let notes = self.record.as_ref().and_then(|r| r["notes"].as_array());
        notes.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the warnings in the record, one line each.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.notes().filter(|n| n.starts_with(PREFIX))
    }

    /// Returns the libraries that are not installed on this machine, each with the package or
    /// command that installs it.
    pub fn peers_left_out(&self) -> impl Iterator<Item = (&str, &str)> {
        self.notes().filter_map(|note| {
            let (name, rest) = note.strip_prefix("peer ")?.split_once(" is not here")?;
            Some((name, rest.rsplit_once(": ")?.1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(status: Result<i32, String>, output: &str, said: Option<&str>) -> Left {
        Left {
            status,
            output: output.as_bytes().to_vec(),
            said: said.map(str::to_string),
        }
    }

    #[test]
    fn every_end_is_one_of_five() {
        let record = r#"{"command": "speed", "rows": [1], "notes": ["peer x is not here: a: b: apt-get install y",
                         "warning: turbo: on"]}"#;
        let of = |status, output| {
            Answer::new(
                &Part::USUAL,
                left(status, output, Some("kiln: no X: get Y")),
            )
        };
        let done = of(Ok(0), record);
        assert_eq!((&done.ended, done.rows().len()), (&Ended::Done, 1));
        assert_eq!(done.warnings().count(), 1);
        let peers: Vec<_> = done.peers_left_out().collect();
        assert_eq!(peers, [("x", "apt-get install y")]);
        assert_eq!(of(Ok(1), record).ended, Ended::Failed);
        assert_eq!(of(Ok(130), "").ended, Ended::Interrupted);
        assert!(of(Ok(130), record).record.is_some());
        assert_eq!(of(Ok(3), "").ended, Ended::Lacks("no X: get Y".into()));
        for (status, output, want) in [
            (Ok(0), "{}", "exit status 0: no X"),
            (Ok(1), "", "exit status 1"),
            (Ok(2), record, "exit status 2"),
            (Err("ended by signal 11".to_string()), record, "signal 11"),
        ] {
            let answer = of(status, output);
            let Ended::Died(why) = &answer.ended else {
                panic!("{answer:?}");
            };
            assert!(why.contains(want), "{why}");
            assert_eq!(answer.record, None);
        }
    }
}
