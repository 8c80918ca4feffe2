//! Finds differences between machines and changes from commit to commit. Two results count as
//! different only if their intervals do not overlap. Results without an interval are not judged.

use std::collections::{BTreeMap, HashMap};

use kiln_record::{Better, Field, Row, RowType};

use crate::group::Group;
use crate::number;
use crate::record::{self, Origin};
use crate::side::Side;

/// A result with the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    pub best: f64,
    pub low: f64,
    pub high: f64,
}

impl Value {
    fn read(row: &Row, field: &Field) -> Option<Value> {
        let shown = number::figure(row, field);
        let (low, high) = shown.ends?;
        let value = Value {
            best: shown.value?,
            low,
            high,
        };
        (value.low > 0.0).then_some(value)
    }

    fn differs(&self, other: &Value) -> bool {
        self.low > other.high || other.low > self.high
    }

    /// Returns this result divided by `other`, with the interval of the quotient.
    fn ratio(&self, other: &Value) -> Value {
        Value {
            best: self.best / other.best,
            low: self.low / other.high,
            high: self.high / other.low,
        }
    }
}

/// A row whose results differ between columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// The words that identify the row.
    pub what: String,
    /// The result in each column; `None` where the row was not measured.
    pub values: Vec<Option<Value>>,
    /// The largest value divided by the smallest if machines are compared; the last value divided
    /// by the first if commits are compared.
    pub ratio: Value,
    /// The column in which the result changed most, if commits are compared.
    pub at: Option<usize>,
}

/// All differing rows of one row type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Differences {
    pub title: String,
    /// The column heading of the result that is compared.
    pub figure: String,
    pub less: bool,
    pub columns: Vec<String>,
    /// The differing rows, with the largest change first.
    pub rows: Vec<Difference>,
    /// Number of rows that do not differ, because their intervals overlap.
    pub same: usize,
    /// Number of rows that cannot be compared, because they lack intervals.
    pub unknown: usize,
}

/// The machine, commit and date of a side.
struct Point {
    side: usize,
    origin: Origin,
    date: String,
}

fn points(sides: &[Side]) -> Vec<Point> {
    let point = |(side, s): (usize, &Side)| Point {
        side,
        origin: s.origin(),
        date: s
            .records
            .iter()
            .filter_map(record::date)
            .max()
            .unwrap_or_default()
            .to_string(),
    };
    sides.iter().enumerate().map(point).collect()
}

/// Finds results that differ between machines. If a machine was measured with several commits or
/// compilers, the records of the latest commit and compiler are used.
pub(crate) fn between_machines(groups: &[Group], sides: &[Side]) -> Vec<Differences> {
    let points = points(sides);
    let same = |a: &Point, b: &Point| {
        a.origin.commit == b.origin.commit && a.origin.compiler == b.origin.compiler
    };
    let newer = |a: &Point, b: &Point| (&b.date, b.side) > (&a.date, a.side);
    let mut latest: HashMap<&str, &Point> = HashMap::new();
    for point in &points {
        let known = latest.entry(&point.origin.machine).or_insert(point);
        if newer(known, point) {
            *known = point;
        }
    }
    let chosen = points
        .iter()
        .filter(|p| same(p, latest[p.origin.machine.as_str()]));
    let columns: Vec<usize> = chosen.map(|p| p.side).collect();
    if columns.len() < 2 {
        return Vec::new();
    }
    let names: Vec<String> = columns.iter().map(|&s| sides[s].name.clone()).collect();
    let of = |group: &Group| find(group, &columns, &names, extremes);
    groups.iter().filter_map(of).collect()
}

/// Finds results that changed from commit to commit, separately for each machine and compiler.
/// Commits are ordered by the dates of their records.
pub(crate) fn over_commits(groups: &[Group], sides: &[Side]) -> Vec<(String, Vec<Differences>)> {
    let points = points(sides);
    let mut lines: BTreeMap<(&str, &str), Vec<&Point>> = BTreeMap::new();
    for point in &points {
        let line = (
            point.origin.machine.as_str(),
            point.origin.compiler.as_str(),
        );
        lines.entry(line).or_default().push(point);
    }
    let mut all = Vec::new();
    for ((machine, compiler), mut line) in lines {
        line.sort_by(|a, b| (&a.date, a.side).cmp(&(&b.date, b.side)));
        let mut latest: Vec<&Point> = Vec::new();
        for point in line {
            // If a commit was measured several times, use its latest records.
            latest.retain(|p| p.origin.commit != point.origin.commit);
            latest.push(point);
        }
        if latest.len() < 2 {
            continue;
        }
        let columns: Vec<usize> = latest.iter().map(|p| p.side).collect();
        let names: Vec<String> = latest.iter().map(|p| p.origin.commit.clone()).collect();
        let of = |group: &Group| find(group, &columns, &names, changes);
        let found: Vec<Differences> = groups.iter().filter_map(of).collect();
        if !found.is_empty() {
            all.push((format!("{machine}; {compiler}"), found));
        }
    }
    all
}

/// A function that judges one row. It returns the ratio and, if commits are compared, the column in
/// which the result changed. It returns `None` if the results do not differ.
type Judge = fn(&[Option<Value>]) -> Option<(Value, Option<usize>)>;

/// Returns the ratio of the largest result to the smallest, or `None` if these two do not differ.
fn extremes(values: &[Option<Value>]) -> Option<(Value, Option<usize>)> {
    let order = |a: &&Value, b: &&Value| a.best.total_cmp(&b.best);
    let known = || values.iter().flatten();
    let (least, most) = (known().min_by(order)?, known().max_by(order)?);
    least.differs(most).then(|| (most.ratio(least), None))
}

/// Returns the ratio of the last result to the first, and the column in which the result changed
/// most from the preceding one. A change that was later reversed also counts.
fn changes(values: &[Option<Value>]) -> Option<(Value, Option<usize>)> {
    let known: Vec<(usize, &Value)> = values
        .iter()
        .enumerate()
        .filter_map(|(i, v)| Some((i, v.as_ref()?)))
        .collect();
    let (first, last) = (known.first()?.1, known.last()?.1);
    let steps = known.windows(2).filter(|pair| pair[1].1.differs(pair[0].1));
    let size = |pair: &&[(usize, &Value)]| pair[1].1.ratio(pair[0].1).best.ln().abs();
    let step = steps.max_by(|a, b| size(a).total_cmp(&size(b)));
    let at = step.map(|pair| pair[1].0);
    (at.is_some() || first.differs(last)).then(|| (last.ratio(first), at))
}

/// Finds the rows of a group whose results differ between `columns`. Compares the first result
/// whose field specifies whether smaller or larger values are better.
fn find(group: &Group, columns: &[usize], names: &[String], judge: Judge) -> Option<Differences> {
    let kind: &RowType = group.kind;
    let figure = kind.figures().find(|f| f.better.is_some())?;
    let mut order: Vec<String> = Vec::new();
    let mut table: HashMap<String, Vec<Option<&Row>>> = HashMap::new();
    for (place, &side) in columns.iter().enumerate() {
        for row in &group.rows[side] {
            let key = kind.key(row, true).join(", ");
            let cells = table.entry(key.clone()).or_insert_with(|| {
                order.push(key);
                vec![None; columns.len()]
            });
            // A side's records are sorted by file name. If several records contain the row, use the
            // last one.
            cells[place] = Some(row);
        }
    }
    let mut found = Differences {
        title: kind.title.clone(),
        figure: figure.heading.clone(),
        less: figure.better == Some(Better::Less),
        columns: names.to_vec(),
        rows: Vec::new(),
        same: 0,
        unknown: 0,
    };
    for what in order {
        let rows = &table[&what];
        if rows.iter().flatten().count() < 2 {
            continue;
        }
        let values: Vec<Option<Value>> = rows
            .iter()
            .map(|row| Value::read(row.as_ref()?, figure))
            .collect();
        match judge(&values) {
            Some((ratio, at)) => found.rows.push(Difference {
                what,
                values,
                ratio,
                at,
            }),
            None if values.iter().flatten().count() < 2 => found.unknown += 1,
            None => found.same += 1,
        }
    }
    let size = |d: &Difference| d.ratio.best.ln().abs();
    found.rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    (found.rows.len() + found.same + found.unknown > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::groups;
    use serde_json::json;

    /// Creates a side with one row, whose result is 100 cycles times `factor`, with an interval of
    /// ± `percent` %.
    fn side(machine: &str, commit: &str, date: &str, factor: f64, percent: f64) -> Side {
        let cycles = 100.0 * factor;
        let row = json!({"alg": "xts(aes)", "impl": "i", "provider": "kiln", "level": "primitive", "op": "encrypt",
            "key_bits": 256, "len": 16, "latency": false, "cycles_per_op": cycles,
            "ci_low": cycles * (1.0 - percent / 100.0), "ci_high": cycles * (1.0 + percent / 100.0)});
        let record = json!({"kiln": "1", "commit": commit, "features": [], "date": date, "schema": 2, "command": "speed",
            "type": "speed", "args": [], "seed": 1, "machine": {"model": machine, "kernel_cc": "gcc"}, "rows": [row],
            "notes": []});
        Side::new(&format!("{machine} {commit}"), record).unwrap()
    }

    #[test]
    fn machines_differ_if_their_intervals_do_not_overlap() {
        let judge = |factor: f64, percent: f64| {
            let sides = [
                side("a", "c", "1", 1.0, percent),
                side("b", "c", "2", factor, percent),
            ];
            let found = between_machines(&groups(&sides), &sides);
            assert_eq!(found.len(), 1);
            (
                found[0].rows.len(),
                found[0].same,
                found[0].rows.first().map(|d| d.ratio),
            )
        };
        let (differ, same, ratio) = judge(2.0, 1.0);
        assert_eq!((differ, same), (1, 0));
        let ratio = ratio.unwrap();
        assert!(
            (ratio.best - 2.0).abs() < 1e-9 && ratio.low < 1.97 && ratio.high > 2.03,
            "{ratio:?}"
        );
        // Control: with wider intervals, the same factor does not count as a difference.
        assert_eq!(judge(1.05, 5.0), (0, 1, None));
        // Without intervals, rows are not judged.
        let mut sides = [side("a", "c", "1", 1.0, 1.0), side("b", "c", "2", 2.0, 1.0)];
        for side in &mut sides {
            side.records[0]["rows"][0]["ci_low"] = json!(null);
        }
        let found = between_machines(&groups(&sides), &sides);
        assert_eq!((found[0].rows.len(), found[0].unknown), (0, 1));
    }

    #[test]
    fn machines_take_part_with_their_latest_commit() {
        let sides = [
            side("a", "new", "2", 1.0, 1.0),
            side("a", "old", "1", 9.0, 1.0),
            side("b", "new", "3", 2.0, 1.0),
        ];
        let found = between_machines(&groups(&sides), &sides);
        assert_eq!(found[0].columns, ["a new", "b new"]);
        assert!((found[0].rows[0].ratio.best - 2.0).abs() < 1e-9);
        // If there is only one machine, nothing can be compared.
        assert!(between_machines(&groups(&sides[..2]), &sides[..2]).is_empty());
    }

    #[test]
    fn changes_over_commits_are_found_at_their_commit() {
        let cycles = [1.0, 1.001, 1.2, 1.199, 1.2];
        let mut sides: Vec<Side> = (cycles.iter().enumerate())
            .map(|(i, f)| side("a", &format!("c{i}"), &format!("2026-0{i}"), *f, 0.5))
            .collect();
        // Commits must be ordered by date, not in the order of the files.
        sides.reverse();
        sides.push(side("b", "c0", "2026-00", 5.0, 0.5));
        let found = over_commits(&groups(&sides), &sides);
        assert_eq!(found.len(), 1, "machine b has one commit");
        let row = &found[0].1[0].rows[0];
        assert_eq!(found[0].1[0].columns[row.at.unwrap()], "1 (c2)");
        assert!((row.ratio.best - 1.2).abs() < 0.01);
        // A result that becomes slow and then fast again also counts as a change.
        let spike: Vec<Side> = [1.0, 2.0, 1.0]
            .iter()
            .enumerate()
            .map(|(i, f)| side("a", &format!("c{i}"), &format!("2026-0{i}"), *f, 0.5))
            .collect();
        assert_eq!(over_commits(&groups(&spike), &spike)[0].1[0].rows.len(), 1);
        // Control: noise within the intervals does not count as a change.
        let quiet: Vec<Side> = [1.0, 1.004, 0.998]
            .iter()
            .enumerate()
            .map(|(i, f)| side("a", &format!("c{i}"), &format!("2026-0{i}"), *f, 0.5))
            .collect();
        let found = over_commits(&groups(&quiet), &quiet);
        assert_eq!((found[0].1[0].rows.len(), found[0].1[0].same), (0, 1));
    }
}
