//! Groups the rows of all sides by type.

use kiln_record::{row_types, type_of, Row, RowType};

use crate::record;
use crate::side::Side;

/// The rows of one type, in one list per side. The list of a side without such rows is empty.
pub(crate) struct Group<'a> {
    pub kind: &'static RowType,
    /// One list of rows per side.
    pub rows: Vec<Vec<&'a Row>>,
    /// The records that contain the rows, each as the index of its side and its index within that
    /// side.
    pub from: Vec<(usize, usize)>,
}

impl Group<'_> {
    /// Returns the indices of the sides that have rows of this type.
    pub(crate) fn sides(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.rows.len()).filter(|&s| !self.rows[s].is_empty())
    }
}

/// Returns all non-empty groups, in the order the page shows them.
pub(crate) fn groups(sides: &[Side]) -> Vec<Group<'_>> {
    let mut all: Vec<Group> = Vec::new();
    for (s, side) in sides.iter().enumerate() {
        for (r, one) in side.records.iter().enumerate() {
            let kind = type_of(one);
            let mut rows = record::rows(one).peekable();
            if rows.peek().is_none() {
                continue;
            }
            let found = all.iter().position(|g| g.kind.name == kind.name);
            let place = found.unwrap_or_else(|| {
                all.push(Group {
                    kind,
                    rows: vec![Vec::new(); sides.len()],
                    from: Vec::new(),
                });
                all.len() - 1
            });
            all[place].rows[s].extend(rows);
            all[place].from.push((s, r));
        }
    }
    // Unknown types come last.
    let order = |g: &Group| row_types().iter().position(|t| t.name == g.kind.name);
    all.sort_by_key(|g| order(g).unwrap_or(usize::MAX));
    all
}

/// Splits rows into groups for which `key` returns the same result. The groups are in order of
/// first appearance.
pub(crate) fn split<'a>(
    rows: &[&'a Row],
    key: impl Fn(&Row) -> String,
) -> Vec<(String, Vec<&'a Row>)> {
    let mut parts: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let name = key(row);
        match parts.iter_mut().find(|p| p.0 == name) {
            Some(part) => part.1.push(row),
            None => parts.push((name, vec![row])),
        }
    }
    parts
}
