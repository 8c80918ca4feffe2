//! Builds the parts of the page that surround the results: machines, warnings, headlines, and
//! records.

use kiln_record::{machine_facts, Field};
use maud::{html, Markup};
use serde_json::Value;

use crate::group::Group;
use crate::number::{short, value};
use crate::record::{self, number, word, Row};
use crate::side::Side;

/// Builds a table of facts about the machines, with one column per side.
pub(super) fn machines(sides: &[Side]) -> Markup {
    let first = |side: &Side| side.records.first().cloned().unwrap_or_default();
    let records: Vec<Value> = sides.iter().map(first).collect();
    let known = |fact: &&Field| {
        let mut all = records.iter();
        all.any(|r| record::fact(r, &fact.name).is_some())
    };
    let facts: Vec<&Field> = machine_facts().iter().filter(known).collect();
    let date = |r: &Value| record::date(r).unwrap_or("-").to_string();
    if let [one] = &records[..] {
        return html! {
            dl.facts {
                div { dt { "date (UTC)" } dd { (date(one)) } }
                @for fact in &facts { div { dt { (fact.heading) } dd { (show(fact, one)) } } }
                div { dt { "Kiln" } dd { (record::build(one)) } }
            }
        };
    }
    html! {
        div.scroll {
            table.facts {
                thead { tr { td {} @for side in sides { th scope="col" { (side.name) } } } }
                tbody {
                    tr { th scope="row" { "date (UTC)" } @for r in &records { td { (date(r)) } } }
                    @for fact in &facts {
                        tr { th scope="row" { (fact.heading) } @for r in &records { td { (show(fact, r)) } } }
                    }
                    tr { th scope="row" { "Kiln" } @for r in &records { td { (record::build(r)) } } }
                }
            }
        }
    }
}

/// Builds a table with one line per side, for pages that have too many sides for one column each.
pub(super) fn sides(sides: &[Side]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Sides" {
            table.sortable {
                thead { tr {
                    @for head in ["date (UTC)", "machine", "Kiln", "compiler of the ciphers"] { th scope="col" { (head) } }
                    th.n scope="col" { "records" }
                } }
                tbody {
                    @for side in sides {
                        @let origin = side.origin();
                        tr {
                            td.k { (side.records.iter().filter_map(record::date).max().unwrap_or("-")) }
                            td { (origin.machine) } td { (origin.commit) } td { (origin.compiler) }
                            td.n { (side.records.len()) }
                        }
                    }
                }
            }
        }
    }
}

/// Formats a fact for display. A fact that the record lacks is shown as a dash.
fn show(fact: &Field, record: &Value) -> String {
    match (record::fact(record, &fact.name), fact.unit.as_deref()) {
        (None, _) => "-".to_string(),
        (Some(v), Some("Hz")) => v
            .as_f64()
            .map_or("-".to_string(), |hz| format!("{} GHz", short(hz / 1e9))),
        (Some(v), Some(unit)) => format!("{} {unit}", value(v)),
        // Hide vulnerabilities that do not affect this CPU, because they need no mitigation and
        // cost nothing.
        (Some(Value::Object(all)), None) => {
            let on = all.iter().filter(|(_, v)| value(v) != "Not affected");
            let on: Vec<String> = on.map(|(k, v)| format!("{k}: {}", value(v))).collect();
            on.join("; ")
        }
        (Some(Value::Array(list)), None) => {
            let all: Vec<String> = list.iter().map(value).collect();
            all.join(", ")
        }
        (Some(v), None) => value(v),
    }
}

/// Maximum number of warnings above the results.
const MOST_WARNINGS: usize = 30;

/// Prefix of notes that explain why results are less reliable.
const WARNING: &str = "warning: ";

/// Builds the list of warnings above the results. It contains only the first warning of each kind
/// for each side. The section on records contains all warnings.
pub(super) fn warnings(sides: &[Side]) -> Markup {
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
                b { "Interpret these results with care" }
                ul {
                    @for line in all.iter().take(MOST_WARNINGS) { li { (line) } }
                    @if all.len() > MOST_WARNINGS {
                        li { (all.len() - MOST_WARNINGS) " more warnings are in the notes under Records" }
                    }
                }
            }
        }
    }
}

/// Builds the headlines of surveys, which are shown before everything else.
pub(super) fn headlines(groups: &[Group], names: &[String]) -> Markup {
    let survey = groups
        .iter()
        .find_map(|g| Some((g, g.kind.view.cards.as_ref()?)));
    let Some((survey, cards)) = survey else {
        return html! {};
    };
    let interval = survey
        .kind
        .field(&cards.value)
        .and_then(|f| f.interval.as_ref());
    let ends = |row: &Row| interval.and_then(|(l, h)| number(row, l).zip(number(row, h)));
    html! {
        section id=(survey.kind.name) {
            h2 { "In short" }
            @for side in survey.sides() {
                @if names.len() > 1 { h3 { (names[side]) } }
                div.cards {
                    @for row in &survey.rows[side] {
                        article.card {
                            @if let Some(verdict) = word(row, &cards.verdict) { h3.verdict { (verdict) } }
                            @match word(row, &cards.headline) {
                                Some(headline) => p.headline { (headline) "." },
                                None => p.headline { (word(row, &cards.question).unwrap_or("-")) ": left out; the notes under Records give the reason" },
                            }
                            p.small {
                                @if let Some(v) = number(row, &cards.value) {
                                    b { (short(v)) " " (unit(word(row, &cards.unit).unwrap_or_default())) }
                                    @if let Some((low, high)) = ends(row) {
                                        " (" (short(low)) " to " (short(high)) ")"
                                    }
                                }
                                @if let Some(v) = number(row, &cards.published) { "; published " (short(v)) }
                                @if let Some(source) = word(row, &cards.source) { "; source: " (source) }
                            }
                            @if let Some(command) = word(row, &cards.command) { p.small { code { (command) } } }
                        }
                    }
                }
            }
        }
    }
}

/// Converts a unit from the spelling used in field names to its usual notation.
fn unit(name: &str) -> &str {
    match name {
        "mb_per_s" => "MB/s",
        "us" => "µs",
        other => other,
    }
}

/// Builds one entry per record, with the command that repeats the run, a button that saves the
/// record, and the notes. Records in `left` have no button, because the page omits them.
pub(super) fn records(sides: &[Side], left: &[(usize, usize)]) -> Markup {
    html! {
        section #records {
            h2 { "Records" }
            p.question { "This page was made from these records. Each record is listed with its notes, and with the command that repeats the measurement." }
            @for (s, side) in sides.iter().enumerate() {
                @if sides.len() > 1 { h3 { (side.name) } }
                @for (r, one) in side.records.iter().enumerate() {
                    div.record {
                        p {
                            code { (record::repeat_command(one)) }
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
        Side::new(name, record).unwrap()
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
        // For a record that predates these fields, the page must show the version without a commit,
        // and no date.
        let old = machines(&[side("a", None)]).into_string();
        assert!(old.contains(">0.1.0<") && !old.contains("2026"), "{old}");
    }
}
