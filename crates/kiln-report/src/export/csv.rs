//! Exports any records as CSV, with one line per row (RFC 4180).

use std::collections::BTreeSet;

use kiln_record::{row_types, Row, RowType};
use serde_json::Value;

use crate::error::Error;
use crate::record;
use crate::side::Side;

/// Exports all rows. The columns are side, command and seed, followed by every field that occurs in
/// any row. If a row lacks a field, its cell is empty.
pub(super) fn text(sides: &[Side]) -> Result<String, Error> {
    let all = || {
        sides.iter().flat_map(|side| {
            let records = side.records.iter();
            records.flat_map(move |r| record::rows(r).map(move |row| (side, r, row)))
        })
    };
    let names: BTreeSet<&str> = all()
        .flat_map(|(.., row)| row.keys().map(String::as_str))
        .collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_cached_key(|name| (place(name), number_last(name)));
    let mut out = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    let mut write = |line: Vec<String>| out.write_record(line).expect("lines have one length");
    let head = ["side", "command", "seed"].into_iter();
    write(
        head.chain(names.iter().copied())
            .map(str::to_string)
            .collect(),
    );
    for (side, record, row) in all() {
        let seed = record::seed(record).map_or(String::new(), |n| n.to_string());
        let mut line = vec![side.name.clone(), record::command(record).to_string(), seed];
        line.extend(names.iter().map(|name| field(row, name)));
        write(line);
    }
    let bytes = out.into_inner().expect("a vector takes all bytes");
    Ok(String::from_utf8(bytes).expect("lines are texts"))
}

/// Returns the sort key of a column. Fields that identify a row come first, then results, then all
/// other fields in alphabetical order.
fn place(name: &str) -> usize {
    let keys = row_types().iter().flat_map(RowType::keys);
    let figures = row_types().iter().flat_map(RowType::figures);
    let found = keys.chain(figures).position(|f| f.name == name);
    found.unwrap_or(usize::MAX)
}

/// Returns a field name's sort key, which sorts `x_9` before `x_10`.
fn number_last(name: &str) -> (String, u64) {
    match name.rsplit_once('_') {
        Some((head, tail)) => match tail.parse() {
            Ok(n) => (head.to_string(), n),
            Err(_) => (name.to_string(), 0),
        },
        None => (name.to_string(), 0),
    }
}

fn field(row: &Row, name: &str) -> String {
    match row.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_end_as_they_must_and_hold_what_they_must() {
        let rows = json!([
            {"alg": "a,b", "impl": "say \"x\"", "len": 16, "cycles_per_op": 1.5, "zeta": null},
            {"alg": "two\nlines", "h_le_16": 2, "h_le_2": 1, "latency": true},
        ]);
        let side = Side::new("s", json!({"command": "speed", "seed": 7, "rows": rows})).unwrap();
        let csv = text(&[side]).unwrap();
        assert_eq!(
            csv,
            "side,command,seed,alg,len,impl,latency,cycles_per_op,h_le_2,h_le_16,zeta\r\n\
             s,speed,7,\"a,b\",16,\"say \"\"x\"\"\",,1.5,,,\r\n\
             s,speed,7,\"two\nlines\",,,true,,1,2,\r\n"
        );
    }

    #[test]
    fn no_field_has_an_escape_sequence() {
        let rows = json!([{"alg": "a\x1b[2J", "impl\x1b]0;t\x07": "x", "len": 16}]);
        let record = json!({"command": "speed\x1b[1m", "seed": 7, "rows": rows});
        let csv = text(&[Side::new("s", record).unwrap()]).unwrap();
        assert!(csv.contains("speed [1m") && csv.contains("impl ]0;t ") && csv.contains("a [2J"));
        assert!(!csv.contains('\x1b'), "{csv:?}");
    }
}
