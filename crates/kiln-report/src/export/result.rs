//! The results that rows contain, with the names and units that other tools use.

use kiln_record::{type_of, Field, RowType};
use serde_json::Value;

use crate::number;
use crate::record::{self, number as read_number, Row};
use crate::side::Side;

/// A number, with an interval if the row contains one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    pub value: f64,
    pub ends: Option<(f64, f64)>,
}

impl Figure {
    fn read(row: &Row, field: &Field) -> Option<Figure> {
        let shown = number::figure(row, field);
        Some(Figure {
            value: shown.value?,
            ends: shown.ends,
        })
    }

    pub(super) fn scaled(self, by: f64) -> Figure {
        Figure {
            value: self.value * by,
            ends: self.ends.map(|(low, high)| (low * by, high * by)),
        }
    }
}

/// A row, together with its side, its type and its record.
pub(super) struct Result<'a> {
    pub side: &'a Side,
    pub record: &'a Value,
    pub kind: &'static RowType,
    pub row: &'a Row,
}

/// Iterates over all rows of all sides.
pub(super) fn results(sides: &[Side]) -> impl Iterator<Item = Result<'_>> {
    let records = sides
        .iter()
        .flat_map(|side| side.records.iter().map(move |r| (side, r)));
    records.flat_map(|(side, record)| {
        let kind = type_of(record);
        record::rows(record).map(move |row| Result {
            side,
            record,
            kind,
            row,
        })
    })
}

impl Result<'_> {
    /// Returns the words that identify the row: its type and its keys, preceded by the name of the
    /// side if there are several sides. If `plain` is set, provider versions are omitted.
    pub(super) fn words(&self, sides: usize, plain: bool) -> Vec<String> {
        let mut words = vec![self.kind.name.clone()];
        if sides > 1 {
            words.insert(0, self.side.name.clone());
        }
        words.extend(self.kind.key(self.row, plain));
        words
    }

    /// Returns the words that identify the row, joined by dots and reduced to characters that every
    /// tool accepts.
    pub(super) fn path(&self, sides: usize) -> String {
        let part = |word: &String| {
            let safe = |c: char| match c.is_ascii_alphanumeric() || c == '-' {
                true => c,
                false => '_',
            };
            let part: String = word.chars().map(safe).collect();
            part.trim_matches('_').to_string()
        };
        let parts: Vec<String> = self.words(sides, true).iter().map(part).collect();
        let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        parts.join(".")
    }

    /// Returns the result in nanoseconds per operation. The time is either measured or converted
    /// from cycles at the core's clock frequency.
    pub(super) fn time(&self) -> Option<Figure> {
        let (kind, row) = (self.kind, self.row);
        let hz = record::host(self.record).core_hz.filter(|hz| *hz > 0.0);
        let bytes = || kind.keys().find(|f| f.unit.as_deref() == Some("bytes"));
        let (field, times) = match called(kind, "real_time") {
            Some(field) => (field, 1.0),
            None => {
                let field = called(kind, "real_time_per_byte")?;
                (field, read_number(row, &bytes()?.name)?)
            }
        };
        let ns = |field: &Field| {
            let scale = match field.unit.as_deref()? {
                "ns" => 1.0,
                "µs" => 1e3,
                "cycles" => 1e9 / hz?,
                _ => return None,
            };
            Some(Figure::read(row, field)?.scaled(scale * times))
        };
        let measured = field.time.as_ref().and_then(|time| kind.field(time));
        measured.and_then(ns).or_else(|| ns(field))
    }

    /// Returns each result whose field specifies whether smaller or larger values are better, along
    /// with this field.
    pub(super) fn judged(&self) -> impl Iterator<Item = (&'static Field, Figure)> + '_ {
        let better = self.kind.figures().filter(|f| f.better.is_some());
        better.filter_map(move |f| Some((f, Figure::read(self.row, f)?)))
    }

    /// Returns the first main result that is a number.
    pub(super) fn main(&self) -> Option<(&'static Field, Figure)> {
        self.kind
            .main_figures()
            .find_map(|f| Some((f, Figure::read(self.row, f)?)))
    }
}

/// Returns the field whose name in google-benchmark's format is `what`.
pub(super) fn called<'a>(kind: &'a RowType, what: &str) -> Option<&'a Field> {
    let is = |f: &&Field| f.benchmark.as_deref() == Some(what);
    kind.fields.iter().find(is)
}

/// Formats a JSON document and appends a newline.
pub(super) fn to_text(document: &Value) -> String {
    let text = serde_json::to_string_pretty(document);
    text.expect("a document has string keys only") + "\n"
}
