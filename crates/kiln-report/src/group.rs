//! The rows of all sides, by kind.

use crate::kind::{Kind, KINDS};
use crate::record::{self, Row};
use crate::side::Side;

/// Rows of one kind: a list for each side, empty where a side has none.
pub struct Group<'a> {
    /// What they are of.
    pub kind: &'static Kind,
    /// Of each side.
    pub rows: Vec<Vec<&'a Row>>,
    /// Records they are from: side, and which of its records.
    pub from: Vec<(usize, usize)>,
}

impl Group<'_> {
    /// Sides that have rows of this kind.
    pub fn sides(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.rows.len()).filter(|&s| !self.rows[s].is_empty())
    }
}

/// All groups that have rows, in the order of the page.
pub fn groups(sides: &[Side]) -> Vec<Group<'_>> {
    let mut all: Vec<Group> = KINDS
        .iter()
        .map(|kind| Group {
            kind,
            rows: vec![Vec::new(); sides.len()],
            from: Vec::new(),
        })
        .collect();
    for (s, side) in sides.iter().enumerate() {
        for (r, one) in side.records.iter().enumerate() {
            for row in record::rows(one) {
                let kind = Kind::of(record::command(one), row);
                let group = all.iter_mut().find(|g| std::ptr::eq(g.kind, kind));
                let group = group.expect("every kind has its group");
                group.rows[s].push(row);
                if !group.from.contains(&(s, r)) {
                    group.from.push((s, r));
                }
            }
        }
    }
    all.retain(|g| !g.from.is_empty());
    all
}
