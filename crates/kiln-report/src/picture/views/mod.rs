//! Which pictures a question has.

mod budget;
mod compilers;
mod ctrlq;
mod esp;
mod policies;
mod speed;
mod ways;

use super::canvas::Picture;
use crate::group::Group;
use crate::record::Row;

/// More than these would not be looked at; the rest is in the table.
const MOST: usize = 24;

/// A group's pictures, and how to read them. Of several sides those of each, or one with all.
pub fn of(group: &Group, names: &[String]) -> (Vec<Picture>, &'static str) {
    let name = |side: usize| match names.len() {
        1 => String::new(),
        _ => format!("{}: ", names[side]),
    };
    let each = |draw: &dyn Fn(&str, &[&Row]) -> Vec<Picture>| -> Vec<Picture> {
        let sides = group.sides();
        sides.flat_map(|s| draw(&name(s), &group.rows[s])).collect()
    };
    let (mut pictures, how) = match group.kind.name.as_str() {
        "speed" => (
            speed::draw(&group.rows, names),
            "Cycles per byte by message length: Kiln's best implementation, the best of each library and of the kernel \
             tree, and for AES what the AES unit needs for the AES rounds alone (GCM's hash, tweaks, loads and stores left \
             out). Lower is better.",
        ),
        "fpu-overhead" => (
            each(&ways::draw),
            "What one message costs by each way to reach the cipher. Farther left is better.",
        ),
        "fpu" => (
            each(&policies::draw),
            "Each policy under the same interrupts: what the task keeps of its throughput, and how long softirqs and \
             sections last. Heights of the distributions are square roots of counts.",
        ),
        "fpu-esp" => (
            each(&esp::draw),
            "Packets delivered against packets offered: a policy whose line leaves the diagonal loses packets. Where a record has \
             phases of load, payload received and requests waiting for cryptd over time.",
        ),
        "budget" => (
            each(&budget::draw),
            "How long sections last by way of cutting, and the target they have to hold. A diamond marks what the same share of \
             sections of pure arithmetic, as long as the target, does not exceed: what the machine itself adds.",
        ),
        "compilers" => (
            each(&compilers::draw),
            "One map for each cipher: compilers and levels down, kinds of build across.",
        ),
        "ctrlq" => (
            each(&ctrlq::draw),
            "How long closing a session takes, by way of waiting, as the share of all closes.",
        ),
        _ => (Vec::new(), ""),
    };
    pictures.truncate(MOST * names.len().max(1));
    (pictures, how)
}

/// Rows by what `key` makes of them, in the order they come.
fn split<'a>(rows: &[&'a Row], key: impl Fn(&Row) -> String) -> Vec<(String, Vec<&'a Row>)> {
    let mut parts: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let of = key(row);
        match parts.iter_mut().find(|p| p.0 == of) {
            Some(part) => part.1.push(row),
            None => parts.push((of, vec![row])),
        }
    }
    parts
}

/// These fields' values, those that there are.
fn said(row: &Row, fields: &[&str]) -> String {
    let words = fields.iter().filter_map(|f| {
        let value = row.get(*f).filter(|v| !v.is_null())?;
        let text = crate::number::value(value);
        Some(match *f {
            "key_bits" if text == "0" => return None,
            "key_bits" => format!("{text} bit"),
            "len" => format!("{text} B"),
            "workers" if text == "1" => "1 worker".to_string(),
            "workers" => format!("{text} workers"),
            "cores" if text == "1" => "1 core".to_string(),
            "cores" => format!("{text} cores"),
            "depth" => format!("depth {text}"),
            "ctrl" => format!("device: {text}"),
            _ => text,
        })
    });
    words.collect::<Vec<_>>().join(", ")
}

/// A policy and what its softirqs fall back to.
fn policy(row: &Row) -> String {
    let word = |f| crate::record::word(row, f).unwrap_or_default();
    match word("fallback") {
        "" | "none" | "own" | "scalar" => word("policy").to_string(),
        fallback => format!("{}, {fallback}", word("policy")),
    }
}

/// Of a flat histogram: from, to, how many, in the unit of the bounds.
fn histogram(row: &Row, prefix: &str) -> Vec<(f64, f64, f64)> {
    let bound = |field: &str| -> Option<f64> {
        field
            .strip_prefix(prefix)?
            .strip_prefix("_le_")?
            .parse()
            .ok()
    };
    let counts = row
        .iter()
        .filter_map(|(field, v)| Some((bound(field)?, v.as_f64()?)));
    let mut counts: Vec<(f64, f64)> = counts.collect();
    counts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut all = Vec::new();
    let mut from = counts.first().map_or(0.0, |c| c.0 / 2.0);
    for (to, count) in counts {
        all.push((from, to, count));
        from = to;
    }
    if let Some(more) = crate::record::number(row, &format!("{prefix}_more")) {
        all.push((from, from * 2.0, more));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn histograms_are_read_in_order() {
        let row = json!({"h_le_1": 5, "h_le_16": 2, "h_le_2": 3, "h_more": 1, "hh_le_4": 9});
        assert_eq!(
            histogram(row.as_object().unwrap(), "h"),
            [
                (0.5, 1.0, 5.0),
                (1.0, 2.0, 3.0),
                (2.0, 16.0, 2.0),
                (16.0, 32.0, 1.0)
            ]
        );
        assert!(histogram(row.as_object().unwrap(), "x").is_empty());
    }
}
