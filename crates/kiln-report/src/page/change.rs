//! The sections on differences between machines and on changes from commit to commit.

use maud::{html, Markup};

use crate::change::{between_machines, over_commits, Difference, Differences, Value};
use crate::group::Group;
use crate::number::short;
use crate::side::Side;

/// Maximum number of rows per table. Below the table, the page states how many rows were omitted.
const MOST_ROWS: usize = 40;
/// Maximum number of columns for the sides' results. If there are more sides, a table shows only
/// the first and the last one.
const MOST_COLUMNS: usize = 8;
/// Maximum number of (machine, compiler) pairs shown in the section on commits.
const MOST_LINES: usize = 20;

/// Builds both sections. A section is omitted if it has nothing to compare.
pub(super) fn sections(groups: &[Group], sides: &[Side]) -> Markup {
    let machines = between_machines(groups, sides);
    let commits = over_commits(groups, sides);
    html! {
        @if !machines.is_empty() {
            section #machines {
                h2 { "What differs between machines" }
                p.question {
                    "Results whose intervals do not overlap, the largest ratio first. Of a machine with several commits or compilers, \
                     only the latest commit and compiler are compared."
                }
                @for one in &machines { (draw(one, "largest / smallest")) }
            }
        }
        @if !commits.is_empty() {
            section #commits {
                h2 { "What changed over commits" }
                p.question {
                    "For each machine and compiler, results whose intervals do not overlap between neighbouring commits, or \
                     between the first and the last commit. Commits are in the order in which they were measured."
                }
                @for (line, found) in commits.iter().take(MOST_LINES) {
                    h3 { (line) }
                    @for one in found { (draw(one, "last / first")) }
                }
                @if commits.len() > MOST_LINES {
                    p.small { (commits.len() - MOST_LINES) " more machines have several commits." }
                }
            }
        }
    }
}

fn draw(found: &Differences, ratio: &str) -> Markup {
    let all: Vec<usize> = (0..found.columns.len()).collect();
    let shown = match all.len() > MOST_COLUMNS {
        true => vec![0, all.len() - 1],
        false => all,
    };
    let steps = found.rows.iter().any(|d| d.at.is_some());
    let better = match found.less {
        true => "less is better",
        false => "more is better",
    };
    html! {
        p {
            b { (found.title) } ": " (found.figure) ", " (better) ". "
            (found.rows.len()) " of " (found.rows.len() + found.same + found.unknown) " rows differ"
            @if found.unknown > 0 { "; " (found.unknown) " have no interval, so they cannot be compared" }
            "."
        }
        @if !found.rows.is_empty() {
            div.scroll tabindex="0" role="region" aria-label=(found.title) {
                table.sortable {
                    thead { tr {
                        th scope="col" { "measurement" }
                        @for &n in &shown { th.n scope="col" { (found.columns[n]) } }
                        th.n scope="col" { (ratio) }
                        @if steps { th scope="col" { "largest change at commit" } }
                    } }
                    tbody { @for one in found.rows.iter().take(MOST_ROWS) { (line(one, found, &shown, steps)) } }
                }
            }
            @if found.rows.len() > MOST_ROWS {
                p.small { (found.rows.len() - MOST_ROWS) " more rows have smaller differences." }
            }
        }
    }
}

fn line(one: &Difference, found: &Differences, shown: &[usize], steps: bool) -> Markup {
    html! {
        tr {
            td { (one.what) }
            @for &n in shown { (cell(one.values[n].as_ref())) }
            (cell(Some(&one.ratio)))
            @if steps { td { @if let Some(at) = one.at { (found.columns[at]) } @else { "-" } } }
        }
    }
}

fn cell(value: Option<&Value>) -> Markup {
    html! {
        @match value {
            Some(v) => td.n data-v=(v.best) { (short(v.best)) " " small { (short(v.low)) " to " (short(v.high)) } },
            None => td.n { "-" },
        }
    }
}
