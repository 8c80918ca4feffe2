//! The outcome of a check as a row.

use schemars::JsonSchema;
use serde::Serialize;

use crate::case::{Row, Verdict};

/// One check of a device.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "virtio-check",
    title = "The device's checks",
    extend(
        "x-question" = "Is a virtio-crypto device correct and safe?",
        "x-commands" = ["virtio-check"],
        "x-view" = {"check": {"fail": ["status!=pass|skip"], "skip": ["status=skip"], "why": "note"}}
    )
)]
pub struct RecordRow {
    /// What was checked.
    #[schemars(extend("x-role" = "key"))]
    case: String,
    /// `pass`, `skip` or `fail`.
    #[schemars(extend("x-role" = "main"))]
    status: &'static str,
    /// Why the check was skipped, or what is wrong; null for `pass`.
    #[schemars(extend("x-role" = "figure"))]
    note: Option<String>,
}

impl From<Row> for RecordRow {
    fn from(row: Row) -> RecordRow {
        RecordRow {
            status: row.status(),
            case: row.case,
            note: match row.verdict {
                Verdict::Pass => None,
                Verdict::Skip(why) => Some(why),
                Verdict::Fail(what) => Some(what),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_say_why() {
        let row = RecordRow::from(Row {
            case: "a".into(),
            verdict: Verdict::Fail("it was accepted".into()),
        });
        assert_eq!(
            (row.status, row.note.as_deref()),
            ("fail", Some("it was accepted"))
        );
    }
}
