//! Assembles a report's sides from the records that were read.

use std::path::Path;

use kiln_record::{base_command, type_of};
use serde_json::Value;

use crate::record;
use crate::shards;
use crate::side::Side;

/// Merges the shards of each run. Then merges each side that has only one record into an earlier
/// side with the same machine, commit and compiler, unless that side already has a record with the
/// same command and row type. Finally, shortens the names of the sides.
pub fn gather(mut found: Vec<Side>) -> Vec<Side> {
    shards::unite(&mut found);
    let mut sides: Vec<Side> = Vec::new();
    for side in found {
        let alone = |s: &Side| s.records.len() == 1;
        let apart = |s: &Side| {
            s.records
                .iter()
                .all(|r| side.records.iter().all(|o| !same_question(r, o)))
        };
        let home = sides
            .iter_mut()
            .find(|s| alone(&side) && s.origin() == side.origin() && apart(s));
        match home {
            Some(home) => {
                home.records.extend(side.records);
                home.name = common(&home.name, &side.name);
            }
            None => sides.push(side),
        }
    }
    name_apart(&mut sides);
    sides
}

/// Returns whether both records come from the same command and have the same row type.
fn same_question(a: &Value, b: &Value) -> bool {
    let kind = |r: &Value| type_of(r).name.as_str();
    let command = |r| base_command(record::command(r));
    command(a) == command(b) && kind(a) == kind(b)
}

/// Returns the parent directory of both paths, or `a` if their parents differ.
fn common(a: &str, b: &str) -> String {
    match (Path::new(a).parent(), Path::new(b).parent()) {
        (Some(one), Some(other)) if one == other && !one.as_os_str().is_empty() => {
            one.display().to_string()
        }
        _ => a.to_string(),
    }
}

/// Shortens each name to the last path component that differs between sides, and appends a number
/// if names are still equal.
fn name_apart(sides: &mut [Side]) {
    let plain = |name: &str| -> String {
        let name = name.strip_suffix(".json").unwrap_or(name);
        name.strip_suffix(".html")
            .unwrap_or(name)
            .trim_end_matches('/')
            .to_string()
    };
    let full: Vec<String> = sides.iter().map(|s| plain(&s.name)).collect();
    let parts: Vec<Vec<&str>> = full.iter().map(|n| n.split('/').collect()).collect();
    // Count the trailing path components that are the same in all names.
    let last = |p: &Vec<&str>, k: usize| p.len().checked_sub(k + 1).map(|i| p[i].to_string());
    let mut same = 0;
    while sides.len() > 1
        && parts
            .iter()
            .all(|p| last(p, same).is_some() && last(p, same) == last(&parts[0], same))
    {
        same += 1;
    }
    let mut seen: Vec<String> = Vec::new();
    for (side, parts) in sides.iter_mut().zip(&parts) {
        let mut name = last(parts, same).unwrap_or_else(|| parts.join("/"));
        let mut number = 2;
        while seen.contains(&name) {
            name = format!(
                "{} ({number})",
                name.trim_end_matches(
                    |c: char| " ()".contains(c) || c.is_ascii_digit() && number > 2
                )
            );
            number += 1;
        }
        seen.push(name.clone());
        side.name = name;
    }
}
