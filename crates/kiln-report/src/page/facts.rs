//! What is over and under the figures: machines, headlines, notes, the records themselves.

use maud::{html, Markup};
use serde_json::Value;

use crate::group::Group;
use crate::number::{short, value};
use crate::record::{self, number, word, Row};
use crate::side::Side;

/// The facts that figures depend on, and what they are called.
const FACTS: [(&str, &str); 14] = [
    ("model", "processor"),
    ("core_hz", "clock"),
    ("cores", "logical processors"),
    ("smt", "two to a core"),
    ("hypervisor_vendor", "hypervisor"),
    ("kernel", "Linux"),
    ("cmdline", "kernel command line"),
    ("mitigations", "CPU mitigations"),
    ("microcode", "microcode"),
    ("governor", "governor"),
    ("tiers", "tiers"),
    ("kernel_cc", "compiler of the ciphers"),
    ("load", "load"),
    ("stolen_s", "stolen since boot"),
];

/// A column of facts for each side.
pub fn machines(sides: &[Side]) -> Markup {
    let first = |side: &Side| side.records.first().cloned().unwrap_or_default();
    let records: Vec<Value> = sides.iter().map(first).collect();
    let told = |name: &str| records.iter().any(|r| record::fact(r, name).is_some());
    let date = |r: &Value| record::text(r, "date").unwrap_or("-").to_string();
    if let [one] = &records[..] {
        return html! {
            dl.facts {
                div { dt { "date (UTC)" } dd { (date(one)) } }
                @for (name, called) in FACTS.iter().filter(|(n, _)| told(n)) {
                    div { dt { (called) } dd { (fact(name, record::fact(one, name))) } }
                }
                div { dt { "Kiln" } dd { (version(one)) } }
            }
        };
    }
    html! {
        div.scroll {
            table.facts {
                thead { tr { td {} @for side in sides { th scope="col" { (side.name) } } } }
                tbody {
                    tr { th scope="row" { "date (UTC)" } @for r in &records { td { (date(r)) } } }
                    @for (name, called) in FACTS.iter().filter(|(n, _)| told(n)) {
                        tr {
                            th scope="row" { (called) }
                            @for r in &records { td { (fact(name, record::fact(r, name))) } }
                        }
                    }
                    tr { th scope="row" { "Kiln" } @for r in &records { td { (version(r)) } } }
                }
            }
        }
    }
}

/// The version with the commit and the features, as `kiln --version` prints them. Older records have the version alone.
fn version(record: &Value) -> String {
    let version = record::text(record, "kiln").unwrap_or("-");
    let Some(commit) = record::text(record, "commit") else {
        return version.to_string();
    };
    let features = record.get("features").and_then(Value::as_array);
    let features: Vec<String> = features.into_iter().flatten().map(value).collect();
    match features.is_empty() {
        true => format!("{version} ({commit})"),
        false => format!("{version} ({commit}, features: {})", features.join(", ")),
    }
}

fn fact(name: &str, of: Option<&Value>) -> String {
    match (name, of) {
        (_, None) => "-".to_string(),
        ("core_hz", Some(v)) => v
            .as_f64()
            .map_or("-".to_string(), |hz| format!("{} GHz", short(hz / 1e9))),
        ("stolen_s", Some(v)) => format!("{} s", value(v)),
        // What a CPU is not affected by costs nothing.
        ("mitigations", Some(Value::Object(all))) => {
            let on = all.iter().filter(|(_, v)| value(v) != "Not affected");
            let on: Vec<String> = on.map(|(k, v)| format!("{k}: {}", value(v))).collect();
            on.join("; ")
        }
        (_, Some(Value::Array(list))) => {
            let all: Vec<String> = list.iter().map(value).collect();
            all.join(", ")
        }
        (_, Some(v)) => value(v),
    }
}

/// With this a note begins that says why not to trust figures too far.
const WARNING: &str = "warning: ";

/// What disturbed the figures, each kind once for a side, before anyone reads them. All of them stand with the records.
pub fn warnings(sides: &[Side]) -> Markup {
    let mut all: Vec<String> = Vec::new();
    for side in sides {
        let mut kinds: Vec<&str> = Vec::new();
        let notes = side.records.iter().flat_map(record::notes);
        for warning in notes.filter_map(|n| n.strip_prefix(WARNING)) {
            let kind = warning.split(':').next().unwrap_or_default();
            if kinds.contains(&kind) {
                continue;
            }
            kinds.push(kind);
            all.push(match sides.len() {
                1 => warning.to_string(),
                _ => format!("{}: {warning}", side.name),
            });
        }
    }
    html! {
        @if !all.is_empty() {
            div.warnings role="note" {
                b { "Read these figures with care" }
                ul { @for line in &all { li { (line) } } }
            }
        }
    }
}

/// The survey's, where there is one: the answers before anything else.
pub fn headlines(groups: &[Group], names: &[String]) -> Markup {
    let survey = groups.iter().find(|g| g.kind.name == "survey");
    let Some(survey) = survey else {
        return html! {};
    };
    html! {
        section #survey {
            h2 { "In short" }
            @for side in survey.sides() {
                @if names.len() > 1 { h3 { (names[side]) } }
                div.cards {
                    @for row in &survey.rows[side] {
                        article.card {
                            @match word(row, "headline") {
                                Some(headline) => p.headline { (headline) },
                                None => p.headline { (word(row, "question").unwrap_or("-")) ": left out, the notes say why" },
                            }
                            p.small {
                                @if let Some(v) = number(row, "value") {
                                    b { (short(v)) " " (unit(row)) }
                                    @if let (Some(low), Some(high)) = (number(row, "low"), number(row, "high")) {
                                        " (" (short(low)) " to " (short(high)) ")"
                                    }
                                }
                                @if let Some(v) = number(row, "baseline") { "; published " (short(v)) }
                                @if let Some(source) = word(row, "source") { ", " (source) }
                            }
                            @if let Some(command) = word(row, "command") { p.small { code { (command) } } }
                        }
                    }
                }
            }
        }
    }
}

/// As people write it.
fn unit(row: &Row) -> &str {
    match word(row, "unit").unwrap_or_default() {
        "mb_per_s" => "MB/s",
        "us" => "µs",
        other => other,
    }
}

/// Each record: the command that repeats it, its notes, and the record itself.
pub fn records(sides: &[Side], left: &[(usize, usize)]) -> Markup {
    html! {
        section #records {
            h2 { "Records" }
            p.question { "What this page was made of, and the commands that make it again." }
            @for (s, side) in sides.iter().enumerate() {
                @if sides.len() > 1 { h3 { (side.name) } }
                @for (r, one) in side.records.iter().enumerate() {
                    div.record {
                        p {
                            code { (record::again(one)) }
                            " "
                            @if left.contains(&(s, r)) {
                                span.small { "too large for this page: it is in " (side.name) }
                            } @else {
                                button.save type="button" data-side=(s) data-record=(r) hidden {
                                    "Save " (record::command(one)) ".json"
                                }
                            }
                        }
                        @if record::notes(one).next().is_some() {
                            ul.notes { @for note in record::notes(one) { li { (note) } } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn side(name: &str, commit: Option<&str>) -> Side {
        let mut record = json!({"kiln": "0.1.0", "command": "speed", "args": ["speed"], "seed": 1, "rows": [],
            "machine": {"model": "m", "cmdline": "ro quiet",
                "mitigations": {"meltdown": "Not affected", "spectre_v2": "Mitigation: Retpolines"}}});
        if let Some(commit) = commit {
            record["commit"] = json!(commit);
            record["features"] = json!(["peers"]);
            record["date"] = json!("2026-11-22T15:33:07Z");
        }
        Side::of(name, record).unwrap()
    }

    #[test]
    fn date_commit_features_and_mitigations_are_among_the_facts() {
        let one = machines(&[side("a", Some("312f00c"))]).into_string();
        for part in [
            "2026-11-22T15:33:07Z",
            "0.1.0 (312f00c, features: peers)",
            "ro quiet",
            "spectre_v2: Mitigation: Retpolines<",
        ] {
            assert!(one.contains(part), "{part}: {one}");
        }
        assert!(!one.contains("meltdown"), "{one}");
        let two = machines(&[side("a", Some("312f00c")), side("b", Some("925cf9c"))]).into_string();
        assert!(
            two.contains("(312f00c, ") && two.contains("(925cf9c, "),
            "{two}"
        );
        // A record from before it had them claims neither.
        let old = machines(&[side("a", None)]).into_string();
        assert!(old.contains(">0.1.0<") && !old.contains("2026"), "{old}");
    }
}
