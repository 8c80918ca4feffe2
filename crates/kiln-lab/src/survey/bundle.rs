//! The record of a survey, with the records it stands on.

use serde::Serialize;
use serde_json::Value;

use crate::{record, Record};

/// A record as all are, with one more field.
#[derive(Serialize)]
pub struct Bundle<'a, R> {
    /// The survey's own.
    #[serde(flatten)]
    pub record: Record<'a, R>,
    /// Those of its parts, as their commands made them.
    pub records: &'a [Value],
}

impl<'a, R: Serialize> Bundle<'a, R> {
    /// Of both.
    pub fn new(record: Record<'a, R>, records: &'a [Value]) -> Bundle<'a, R> {
        Bundle { record, records }
    }

    /// One JSON document, with a newline at its end.
    pub fn to_json(&self) -> String {
        record::pretty(self)
    }

    /// The same as a value.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a record has string keys only")
    }
}
