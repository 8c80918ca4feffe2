//! The outcome of a check, as a row.

use schemars::JsonSchema;
use serde::Serialize;

use crate::case::Row;

/// A check that was run on a device.
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
    /// Subject of the check: `configuration`, `services`, `lengths and descriptors`, `private
    /// keys`, `hostile requests`, `hostile rings`, `hostile front ends` or `optional features`.
    #[schemars(extend("x-role" = "condition", "x-since" = 2))]
    group: &'static str,
    /// Requirement that the check tests: a section of the virtio specification, version 1.3 (such
    /// as `virtio 5.9.7.6.2`), or messages of the vhost-user protocol (such as `vhost-user
    /// GET_CONFIG`).
    #[schemars(extend("x-role" = "condition", "x-since" = 2))]
    rule: String,
    /// Result of the check: `pass`, `skip` or `fail`.
    #[schemars(extend("x-role" = "main"))]
    status: &'static str,
    /// Explanation of the result. For a skipped check, the reason. For a failed check, what is
    /// wrong, which requirement this violates, and what to do. Null if the check passed.
    #[schemars(extend("x-role" = "figure"))]
    note: Option<String>,
}

impl From<Row> for RecordRow {
    fn from(row: Row) -> RecordRow {
        RecordRow {
            group: row.group.name(),
            rule: row.rule.to_string(),
            status: row.status(),
            note: row.explain(),
            case: row.case,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Group, Verdict};
    use crate::rule;

    #[test]
    fn rows_say_why() {
        let row = RecordRow::from(Row {
            group: Group::Framing,
            case: "a".into(),
            rule: rule::DESTROY,
            verdict: Verdict::Fail("it was accepted".into()),
        });
        let note = row.note.unwrap();
        assert!(
            note.starts_with("it was accepted; see virtio 5.9.7.2.1.9 ("),
            "{note}"
        );
        assert_eq!(
            (row.group, row.rule.as_str(), row.status),
            ("lengths and descriptors", "virtio 5.9.7.2.1.9", "fail")
        );
    }
}
