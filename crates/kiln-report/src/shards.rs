//! Merges a run's shards, which may come from different machines, and finds missing shards.

use std::collections::{BTreeMap, HashMap};

use kiln_record::view::Term;
use kiln_record::{type_of, Part, RowType};
use serde_json::{json, Value};

use crate::record::{self, Origin, Row};
use crate::side::Side;

/// Maximum number of missing shards that a report lists per run.
const MOST: usize = 12;
/// The field of a merged record that describes its shards.
const FIELD: &str = "shards";

/// A record of a shard, with the index of its side and its index within that side.
struct Found {
    part: Part,
    place: (usize, usize),
    date: String,
}

/// Replaces each run's shards with one record per machine. Warnings about missing shards are added
/// to the notes of the first of these records. A shard that was run twice, because a job was
/// repeated, is used only once.
pub(crate) fn unite(sides: &mut Vec<Side>) {
    let mut runs: BTreeMap<(String, String, u32, String), Vec<Found>> = BTreeMap::new();
    for (s, side) in sides.iter().enumerate() {
        for (r, record) in side.records.iter().enumerate() {
            let Some(part) = record::part(record) else {
                continue;
            };
            let key = (
                record::whole_command(record),
                record::build(record),
                part.count,
                part.plan.clone(),
            );
            runs.entry(key).or_default().push(Found {
                part,
                place: (s, r),
                date: record::date(record).unwrap_or_default().to_string(),
            });
        }
    }
    let mut united: Vec<(usize, Value)> = Vec::new();
    let mut gone: Vec<(usize, usize)> = Vec::new();
    for ((command, _, count, _), found) in &runs {
        gone.extend(found.iter().map(|f| f.place));
        let chosen = choose(found);
        let mut warnings = warnings(command, *count, &chosen, found);
        let mut by_origin: Vec<(Origin, Vec<&Found>)> = Vec::new();
        for one in chosen {
            let (s, r) = one.place;
            let origin = record::origin(&sides[s].records[r]);
            match by_origin.iter_mut().find(|(other, _)| *other == origin) {
                Some((_, list)) => list.push(one),
                None => by_origin.push((origin, vec![one])),
            }
        }
        for (_, list) in by_origin {
            let records: Vec<&Value> = list
                .iter()
                .map(|f| &sides[f.place.0].records[f.place.1])
                .collect();
            let own = std::mem::take(&mut warnings);
            united.push((list[0].place.0, join(&records, &list, &own)));
        }
    }
    for (s, side) in sides.iter_mut().enumerate() {
        let mut place = 0;
        side.records.retain(|_| {
            place += 1;
            !gone.contains(&(s, place - 1))
        });
    }
    for (s, record) in united {
        sides[s].records.push(record);
    }
    sides.retain(|side| !side.records.is_empty());
}

/// Chooses one record per shard. Complete records take precedence over incomplete ones, and later
/// records over earlier ones.
fn choose(found: &[Found]) -> Vec<&Found> {
    let mut chosen: BTreeMap<u32, &Found> = BTreeMap::new();
    for one in found {
        let better =
            |other: &&Found| (one.part.complete, &one.date) > (other.part.complete, &other.date);
        match chosen.get(&one.part.index) {
            Some(other) if !better(other) => {}
            _ => drop(chosen.insert(one.part.index, one)),
        }
    }
    chosen.into_values().collect()
}

/// Returns warnings about a run's shards. Each line about a missing shard contains the command that
/// runs this shard. If more than [`MOST`] shards are missing, the rest are only counted.
fn warnings(command: &str, count: u32, chosen: &[&Found], found: &[Found]) -> Vec<String> {
    let has = |index: u32| chosen.iter().find(|f| f.part.index == index);
    let is_missing = |index: &u32| has(*index).is_none_or(|f| !f.part.complete);
    let missing: Vec<u32> = (1..=count).filter(is_missing).collect();
    let mut lines: Vec<String> = missing
        .iter()
        .take(MOST)
        .map(|&index| {
            let what = match has(index) {
                Some(f) => format!("was interrupted on {}", f.part.host),
                None => "is missing".to_string(),
            };
            format!("shard {index}/{count} of '{command}' {what}: run {command} --shard {index}/{count} --out DIR")
        })
        .collect();
    if missing.len() > MOST {
        let more = missing.len() - MOST;
        lines.push(format!("{more} more shards of '{command}' are missing"));
    }
    let twice = found.len() - chosen.len();
    if twice > 0 {
        lines.push(format!(
            "{twice} shards of '{command}' were done more than once; the last complete one of each counts"
        ));
    }
    lines
}

/// Joins all shards' rows into one record, in shard order.
fn join(records: &[&Value], list: &[&Found], warnings: &[String]) -> Value {
    let kind = type_of(records[0]);
    let mut rows: Vec<Row> = Vec::new();
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    for record in records {
        let before = rows.len();
        for row in record::rows(record) {
            let key = kind.key(row, false);
            // Every shard contains the rows of controls and references. Keep only one copy of each
            // such row, preferably one that is a failed check.
            match places.get(&key).copied().filter(|place| *place < before) {
                Some(place) if fails(kind, row) && !fails(kind, &rows[place]) => {
                    rows[place] = row.clone();
                }
                Some(_) => {}
                None => {
                    places.insert(key, rows.len());
                    rows.push(row.clone());
                }
            }
        }
    }
    let mut notes: Vec<String> = Vec::new();
    let all = records.iter().flat_map(|r| record::notes(r));
    let own = warnings.iter().map(|line| format!("{WARNING}{line}"));
    for note in own.chain(all.map(str::to_string)) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let mut united = records[0].clone();
    let fields = united.as_object_mut().expect("a record is an object");
    fields.remove("shard");
    let args = fields.get("args").and_then(Value::as_array).cloned();
    fields.insert(
        "args".to_string(),
        json!(whole_args(&args.unwrap_or_default())),
    );
    fields.insert(
        FIELD.to_string(),
        json!({
            "count": list[0].part.count,
            "done": list.iter().map(|f| f.part.index).collect::<Vec<_>>(),
            "hosts": list.iter().map(|f| f.part.host.clone()).collect::<Vec<_>>(),
            "missing": warnings.iter().filter(|w| w.starts_with(SHARD)).collect::<Vec<_>>(),
        }),
    );
    fields.insert("rows".to_string(), json!(rows));
    fields.insert("notes".to_string(), json!(notes));
    united
}

/// Prefix of notes that a page shows above the results.
const WARNING: &str = "warning: ";
/// First word of a line about a missing shard.
const SHARD: &str = "shard ";

/// Returns the arguments of the whole run: `args` without those that select a shard.
fn whole_args(args: &[Value]) -> Vec<&Value> {
    let mut skip = false;
    let own = |arg: &&Value| {
        let text = arg.as_str().unwrap_or_default();
        let is_value = std::mem::take(&mut skip);
        skip = text == "--shard";
        !is_value && !skip && !text.starts_with("--shard=")
    };
    args.iter().filter(own).collect()
}

/// Returns whether the row is a failed check.
fn fails(kind: &RowType, row: &Row) -> bool {
    let holds = |term: &Term| term.holds(row);
    let check = kind.view.check.as_ref();
    check.is_some_and(|check| check.fail.iter().any(holds))
}

/// Returns a line for each shard that is missing from these sides. Each line contains the command
/// that runs the shard.
pub fn missing_shards(sides: &[Side]) -> Vec<String> {
    let records = sides.iter().flat_map(|side| &side.records);
    let lists = records.filter_map(|r| r.get(FIELD)?.get("missing")?.as_array());
    let lines = lists.flatten().filter_map(Value::as_str);
    lines.map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather;

    /// Creates a shard of a test run. The shard has one row that no other shard has, and one
    /// control row that every shard has.
    fn shard(index: u32, host: &str, complete: bool, model: &str) -> Side {
        let part = json!({"index": index, "count": 3, "items": 1, "total": 3, "plan": "p",
                          "complete": complete, "host": host});
        let row = |imp: &str, failed: u64| {
            json!({"alg": "a", "impl": imp, "suite": "s", "context": "task", "tiers": "generic",
                   "cases": 1, "failed": failed, "skipped": 0, "reason": null})
        };
        let rows = json!([
            row("control", u64::from(index == 2)),
            row(&format!("i{index}"), 0)
        ]);
        let record = json!({"kiln": "1", "schema": 2, "command": "test", "type": "test",
            "args": ["test", "--shard", format!("{index}/3"), "--out", "d"], "seed": 1, "shard": part,
            "date": format!("2026-11-24T00:00:0{index}Z"),
            "machine": {"model": model, "kernel": "6"}, "rows": rows, "notes": [host]});
        Side::new(&format!("d/{host}-{index}.json"), record).unwrap()
    }

    fn rows(sides: &[Side]) -> Vec<String> {
        let all = sides.iter().flat_map(|s| &s.records).flat_map(record::rows);
        all.map(|row| format!("{} {}", row["impl"].as_str().unwrap(), row["failed"]))
            .collect()
    }

    #[test]
    fn shards_of_one_kind_of_machine_become_one_record() {
        let sides = gather((1..=3).map(|i| shard(i, "n", true, "m")).collect());
        assert_eq!(sides.len(), 1);
        assert_eq!(sides[0].records.len(), 1);
        assert_eq!(rows(&sides), ["control 1", "i1 0", "i2 0", "i3 0"]);
        assert_eq!(missing_shards(&sides), Vec::<String>::new());
        assert_eq!(sides[0].records[0]["args"], json!(["test", "--out", "d"]));
        // Gathering the merged record a second time must not change it.
        assert_eq!(gather(sides.clone()), sides);
    }

    #[test]
    fn a_missing_shard_is_named_with_its_command() {
        let sides = gather(vec![shard(1, "n", true, "m"), shard(3, "n", true, "m")]);
        let line = "shard 2/3 of 'kiln test --seed 1' is missing: run kiln test --seed 1 --shard 2/3 --out DIR";
        assert_eq!(missing_shards(&sides), [line]);
        let notes: Vec<&str> = record::notes(&sides[0].records[0]).collect();
        assert_eq!(notes[0], format!("warning: {line}"));
        let stopped = vec![
            shard(1, "n", true, "m"),
            shard(2, "n4", false, "m"),
            shard(3, "n", true, "m"),
        ];
        let lines = missing_shards(&gather(stopped));
        assert!(
            lines.len() == 1 && lines[0].contains("was interrupted on n4"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_shard_that_was_repeated_counts_once() {
        let mut again = shard(2, "n2", true, "m");
        again.records[0]["date"] = json!("2026-11-25T00:00:00Z");
        again.records[0]["rows"][1]["cases"] = json!(7);
        let all = vec![
            shard(1, "n", true, "m"),
            again,
            shard(2, "n", true, "m"),
            shard(3, "n", true, "m"),
        ];
        let sides = gather(all);
        assert_eq!(rows(&sides).len(), 4);
        let record = &sides[0].records[0];
        assert_eq!(record["shards"]["hosts"], json!(["n", "n2", "n"]));
        assert_eq!(record["rows"][2]["cases"], 7);
        // An interrupted shard must not replace a complete one, even if it is newer.
        let mut cut = shard(2, "n3", false, "m");
        cut.records[0]["date"] = json!("2026-11-26T00:00:00Z");
        let sides = gather(vec![shard(2, "n", true, "m"), cut]);
        assert_eq!(sides[0].records[0]["shards"]["hosts"], json!(["n"]));
    }

    #[test]
    fn a_machine_of_another_kind_is_a_side_of_its_own() {
        let all = vec![
            shard(1, "n1", true, "zen"),
            shard(2, "n2", true, "spr"),
            shard(3, "n1", true, "zen"),
        ];
        let sides = gather(all);
        assert_eq!(sides.len(), 2);
        assert_eq!(rows(&sides).len(), 5, "the control of each machine");
        assert_eq!(missing_shards(&sides), Vec::<String>::new());
        // A shard with a different list of items belongs to another run. The other two shards of
        // that run are missing.
        let mut other = shard(2, "n2", true, "spr");
        other.records[0]["shard"]["plan"] = json!("q");
        let sides = gather(vec![
            shard(1, "n", true, "zen"),
            other,
            shard(3, "n", true, "zen"),
        ]);
        assert_eq!(missing_shards(&sides).len(), 3);
    }
}
