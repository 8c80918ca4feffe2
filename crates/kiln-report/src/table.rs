//! Builds tables from rows, independently of the output format.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use kiln_record::view::Across;
use kiln_record::{Field, Row, RowType};
use serde_json::Value;

use crate::group::{split, Group};
use crate::number;
use crate::record;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub head: String,
    /// Whether the column's cells contain numbers.
    pub numeric: bool,
}

/// A table cell, which contains a number or a word.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cell {
    pub text: String,
    /// Lower and upper end of the number's interval.
    pub ends: Option<(f64, f64)>,
    /// The cell's sort key. Cells without one are sorted as text.
    pub sort: Option<f64>,
    /// Tooltip text.
    pub hint: Option<String>,
}

impl Cell {
    fn word(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            ..Cell::default()
        }
    }

    fn figure(row: &Row, figure: &Field) -> Cell {
        let shown = number::figure(row, figure);
        Cell {
            text: shown.text,
            ends: shown.ends,
            sort: shown.value,
            hint: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.text == "-" || self.text.is_empty()
    }

    /// Formats the interval in words.
    pub(crate) fn between(&self) -> Option<String> {
        let (low, high) = self.ends?;
        Some(format!("{} to {}", number::short(low), number::short(high)))
    }

    /// Formats the cell compactly, for output formats with little space. If the cell has an
    /// interval, half its width is appended to the text as a percentage of the number.
    pub(crate) fn brief(&self) -> String {
        let half = self
            .ends
            .zip(self.sort)
            .map(|((low, high), x)| 50.0 * (high - low) / x.abs());
        match half.filter(|h| h.is_finite()) {
            Some(half) => format!("{} ±{half:.1}%", self.text),
            None => self.text.clone(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    /// The properties that all rows have in common.
    pub title: String,
    pub columns: Vec<Column>,
    /// The rows, each with one cell per column.
    pub rows: Vec<Vec<Cell>>,
}

fn words(head: &str) -> Column {
    Column {
        head: head.to_string(),
        numeric: false,
    }
}

fn figures(head: impl Into<String>) -> Column {
    Column {
        head: head.into(),
        numeric: true,
    }
}

impl Table {
    /// Removes empty columns, and moves key columns that have the same value in every row to the
    /// title.
    fn narrowed(mut self, keys: usize) -> Table {
        let mut said: Vec<String> = Vec::new();
        let mut kept = Vec::new();
        for n in 0..self.columns.len() {
            let first = self.rows.first().map(|r| r[n].text.clone());
            let same = self.rows.iter().all(|r| Some(&r[n].text) == first.as_ref());
            let empty = self.rows.iter().all(|r| r[n].is_empty());
            match (
                empty,
                n < keys && same && (self.rows.len() > 1 || first.as_deref() == Some("no")),
            ) {
                (true, _) => {}
                (false, true) => said.extend(first.and_then(|f| match f.as_str() {
                    "yes" => Some(self.columns[n].head.clone()),
                    "no" => None,
                    _ if self.columns[n].numeric => Some(format!("{} {f}", self.columns[n].head)),
                    _ => Some(f),
                })),
                (false, false) => kept.push(n),
            }
        }
        let pick = |row: Vec<Cell>| -> Vec<Cell> {
            let mut cells: Vec<Option<Cell>> = row.into_iter().map(Some).collect();
            kept.iter().filter_map(|&n| cells[n].take()).collect()
        };
        self.rows = self.rows.into_iter().map(pick).collect();
        self.columns = kept.iter().map(|&n| self.columns[n].clone()).collect();
        if !said.is_empty() {
            let more = said.join(", ");
            self.title = match self.title.is_empty() {
                true => more,
                false => format!("{}: {more}", self.title),
            };
        }
        self
    }
}

/// Builds a group's tables. If the report has several sides, there is a single table with one
/// column per side. Otherwise, the row type determines the layout.
pub(crate) fn make_tables(group: &Group, names: &[String]) -> Vec<Table> {
    let sides: Vec<usize> = group.sides().collect();
    match sides[..] {
        [only] if names.len() == 1 => split_table(group.kind, &group.rows[only]),
        _ => vec![joined(group, names)],
    }
}

fn split_table(kind: &RowType, rows: &[&Row]) -> Vec<Table> {
    match &kind.view.across {
        Some(across) => spread(kind, across, rows),
        None if kind.fields.is_empty() => vec![all_fields(rows)],
        None => vec![plain(kind, rows)],
    }
}

/// Builds a table with one line per row.
fn plain(kind: &RowType, rows: &[&Row]) -> Table {
    let numeric = |field: &str| {
        let any = rows.iter().filter_map(|r| r.get(field));
        any.filter(|v| !v.is_null()).all(Value::is_number)
    };
    let mut columns: Vec<Column> = Vec::new();
    for field in kind.keys().chain(kind.figures()) {
        columns.push(Column {
            head: field.heading.clone(),
            numeric: numeric(&field.name),
        });
    }
    let table = Table {
        title: String::new(),
        columns,
        rows: rows
            .iter()
            .map(|row| {
                let keys = kind.keys().map(|key| Cell {
                    text: row.get(&key.name).map_or("-".to_string(), number::value),
                    sort: record::number(row, &key.name),
                    ..Cell::default()
                });
                let figures = kind.figures().map(|f| Cell::figure(row, f));
                keys.chain(figures).collect()
            })
            .collect(),
    };
    table.narrowed(kind.keys().count())
}

/// Builds one table for each value of the field named `across.each`, with one column for each value
/// of the field named `across.by`.
fn spread(kind: &RowType, across: &Across, rows: &[&Row]) -> Vec<Table> {
    let outside = |key: &&Field| key.name != across.each && key.name != across.by;
    let keys: Vec<&Field> = kind.keys().filter(outside).collect();
    let figure = kind
        .main_figures()
        .next()
        .expect("a type has a main result");
    let each = |row: &Row| record::word(row, &across.each).unwrap_or("-").to_string();
    let table = |(name, rows): (String, Vec<&Row>)| {
        let mut stops: BTreeMap<u64, String> = BTreeMap::new();
        let mut order: Vec<Vec<String>> = Vec::new();
        let mut lines: BTreeMap<Vec<String>, BTreeMap<u64, Cell>> = BTreeMap::new();
        for row in rows {
            let Some(stop) = row.get(&across.by).and_then(Value::as_u64) else {
                continue;
            };
            let by = kind.field(&across.by).into_iter();
            stops.insert(stop, kind.words(by, row, false).concat());
            let word = |key: &&Field| row.get(&key.name).map_or("-".to_string(), number::value);
            let line: Vec<String> = keys.iter().map(word).collect();
            let cell = Cell {
                hint: hint(kind, across, row),
                ..Cell::figure(row, figure)
            };
            if !lines.contains_key(&line) {
                order.push(line.clone());
            }
            lines.entry(line).or_default().insert(stop, cell);
        }
        let mut columns: Vec<Column> = keys.iter().map(|k| words(&k.heading)).collect();
        for (column, key) in columns.iter_mut().zip(&keys) {
            column.numeric = key.unit.is_some();
        }
        columns.extend(stops.values().map(figures));
        let line = |key: &Vec<String>| {
            let cells = key.iter().map(|k| Cell {
                sort: k.parse().ok(),
                ..Cell::word(k.clone())
            });
            let at = |stop| lines[key].get(stop).cloned();
            let figures = stops.keys().map(|s| at(s).unwrap_or(Cell::word("-")));
            cells.chain(figures).collect()
        };
        let table = Table {
            title: format!("{name}, {}", figure.heading),
            rows: order.iter().map(line).collect(),
            columns,
        };
        table.narrowed(keys.len())
    };
    split(rows, each).into_iter().map(table).collect()
}

/// Formats the tooltip, which contains results that the table does not show.
fn hint(kind: &RowType, across: &Across, row: &Row) -> Option<String> {
    let fields = across.hint.iter().filter_map(|name| kind.field(name));
    let one = |f: &Field| {
        Some(format!(
            "{}: {}",
            f.heading,
            number::short(record::number(row, &f.name)?)
        ))
    };
    let all: Vec<String> = fields.filter_map(one).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Builds a table that shows all fields, for rows of an unknown type.
fn all_fields(rows: &[&Row]) -> Table {
    let names: BTreeSet<&String> = rows.iter().flat_map(|r| r.keys()).collect();
    let table = Table {
        title: String::new(),
        columns: names
            .iter()
            .map(|n| {
                let mut all = rows.iter().filter_map(|r| r.get(*n));
                Column {
                    head: n.replace('_', " "),
                    numeric: all.all(|v| v.is_number() || v.is_null()),
                }
            })
            .collect(),
        rows: rows
            .iter()
            .map(|row| {
                let cell = |n: &&String| Cell {
                    text: row.get(*n).map_or("-".to_string(), number::value),
                    sort: record::number(row, n),
                    ..Cell::default()
                };
                names.iter().map(cell).collect()
            })
            .collect(),
    };
    table.narrowed(0)
}

/// Builds a table with one line per combination of key and result, and one column per side. If
/// there are two sides, it also shows the ratio of the second to the first.
fn joined(group: &Group, names: &[String]) -> Table {
    let kind = group.kind;
    // Ignore provider versions, so that results of different versions are compared with each other.
    // However, include versions if two rows of a side would otherwise have the same key.
    let plain = group.rows.iter().all(|rows| {
        let mut seen = HashSet::new();
        rows.iter().all(|row| seen.insert(kind.key(row, true)))
    });
    let mut order: Vec<Vec<String>> = Vec::new();
    let mut found: BTreeMap<Vec<String>, Vec<Option<&Row>>> = BTreeMap::new();
    for (s, rows) in group.rows.iter().enumerate() {
        for row in rows {
            let key = kind.key(row, plain);
            let sides = found.entry(key.clone()).or_insert_with(|| {
                order.push(key);
                vec![None; names.len()]
            });
            // If a side has several rows with the same key, use the first one.
            sides[s].get_or_insert(row);
        }
    }
    let mut columns = vec![words("measurement"), words("result")];
    columns.extend(names.iter().map(|n| figures(n.clone())));
    let two = names.len() == 2;
    if two {
        columns.push(figures(format!("{} / {}", names[1], names[0])));
    }
    let mut table = Table {
        title: String::new(),
        columns,
        rows: Vec::new(),
    };
    for key in &order {
        let sides = &found[key];
        for figure in kind
            .main_figures()
            .filter(|f| sides.iter().flatten().any(|r| has(r, f)))
        {
            let mut line = vec![
                Cell::word(key.join(", ")),
                Cell::word(figure.heading.clone()),
            ];
            let cell =
                |side: &Option<&Row>| side.map_or(Cell::word("-"), |r| Cell::figure(r, figure));
            line.extend(sides.iter().map(cell));
            if two {
                let ratio = line[3].sort.zip(line[2].sort).map(|(b, a)| b / a);
                let ratio = ratio.filter(|r| r.is_finite());
                line.push(Cell {
                    text: ratio.map_or("-".to_string(), number::short),
                    sort: ratio,
                    ..Cell::default()
                });
            }
            table.rows.push(line);
        }
    }
    table.narrowed(2)
}

fn has(row: &Row, figure: &Field) -> bool {
    row.get(&figure.name).is_some_and(|v| !v.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::groups;
    use crate::side::Side;
    use serde_json::json;

    fn side(name: &str, command: &str, rows: Value) -> Side {
        Side::new(name, json!({"kiln": "1", "command": command, "rows": rows})).unwrap()
    }

    fn speed(imp: &str, len: u64, cycles: f64) -> Value {
        json!({"alg": "xts(aes)", "impl": imp, "provider": "kiln", "op": "encrypt", "key_bits": 256,
               "len": len, "cycles_per_op": cycles, "cycles_per_byte": cycles / len as f64, "mb_per_s": 1.0,
               "ci_low": cycles - 1.0, "ci_high": cycles + 1.0})
    }

    fn tables(sides: &[Side]) -> Vec<Table> {
        let names: Vec<String> = sides.iter().map(|s| s.name.clone()).collect();
        groups(sides)
            .iter()
            .flat_map(|g| make_tables(g, &names))
            .collect()
    }

    #[test]
    fn lengths_stand_across_and_what_all_share_is_said_once() {
        let rows = json!([
            speed("a", 16, 50.0),
            speed("a", 64, 70.0),
            speed("b", 16, 90.0)
        ]);
        let all = tables(&[side("m", "speed", rows)]);
        assert_eq!(all.len(), 1);
        assert_eq!(
            all[0].title,
            "xts(aes), cycles per message: encrypt, key bits 256, kiln"
        );
        let heads: Vec<&str> = all[0].columns.iter().map(|c| c.head.as_str()).collect();
        assert_eq!(heads, ["impl", "16 B", "64 B"]);
        let cell = &all[0].rows[0][1];
        assert_eq!(cell.between().unwrap(), "49.0 to 51.0");
        assert_eq!(cell.brief(), "50.0 ±2.0%");
        assert_eq!(all[0].rows[1][2].text, "-");
    }

    #[test]
    fn sides_have_a_column_each() {
        let a = side(
            "a",
            "speed",
            json!([speed("i", 16, 50.0), speed("j", 16, 10.0)]),
        );
        let b = side("b", "speed", json!([speed("i", 16, 100.0)]));
        let all = tables(&[a, b]);
        let heads: Vec<&str> = all[0].columns.iter().map(|c| c.head.as_str()).collect();
        assert_eq!(heads, ["measurement", "a", "b", "b / a"]);
        assert_eq!(all[0].rows.len(), 2);
        assert_eq!(all[0].rows[0][3].text, "2.00");
        assert_eq!(all[0].rows[1][2].text, "-");
    }

    #[test]
    fn an_interval_of_something_else_is_not_shown() {
        let row = json!([{"alg": "a", "impl": "i", "cycles_per_op": 500.0, "ci_low": 1.0, "ci_high": 1.2, "len": 1}]);
        let all = tables(&[side("m", "speed", row)]);
        assert!(all[0].rows[0].iter().all(|c| c.ends.is_none()));
    }

    #[test]
    fn rows_of_unknown_commands_show_all_they_have() {
        let all = tables(&[side(
            "m",
            "new",
            json!([{"x": 1, "y": "t"}, {"x": 2, "y": "u"}]),
        )]);
        assert_eq!(all[0].columns.len(), 2);
        assert_eq!(all[0].rows[1][1].text, "u");
    }
}
