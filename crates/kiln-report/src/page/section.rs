//! The page's section on one row type: a description, charts, tables and commands.

use maud::{html, Markup};

use crate::group::Group;
use crate::picture::{self, Picture};
use crate::record;
use crate::side::Side;
use crate::table::{self, Table};
use crate::verdict;

/// A table with more rows than this is initially collapsed.
const LONG: usize = 24;
/// Maximum number of rows per table. Further rows are only in the record.
const MOST_ROWS: usize = 1200;

/// Maximum number of charts per side.
const MOST_PICTURES: usize = 24;
/// Number of charts shown initially; the reader can open the others.
const FIRST: usize = 12;

pub(super) fn draw_section(group: &Group, sides: &[Side], names: &[String]) -> Markup {
    let kind = group.kind;
    let tables = table::make_tables(group, names);
    let mut pictures = picture::draw_group(group, names);
    pictures.truncate(MOST_PICTURES * names.len().max(1));
    let commands: Vec<String> = group
        .from
        .iter()
        .map(|&(s, r)| record::repeat_command(&sides[s].records[r]))
        .collect();
    html! {
        section id=(kind.name) {
            h2 { (kind.title) }
            p.question { (kind.question) }
            @for (side, verdict) in verdicts(group) {
                p.verdict {
                    @if names.len() > 1 { (names[side]) ": " }
                    b { (verdict) }
                }
            }
            @if !pictures.is_empty() {
                p.small { (kind.view.how) }
                (drawn(&pictures[..pictures.len().min(FIRST)]))
                @if pictures.len() > FIRST {
                    details {
                        summary { (pictures.len() - FIRST) " more pictures" }
                        (drawn(&pictures[FIRST..]))
                    }
                }
            }
            @for (n, one) in tables.iter().enumerate() {
                @let short = one.rows.len() <= LONG && tables.len() == 1;
                details open[short] {
                    summary {
                        @if one.title.is_empty() { "Results" } @else { (one.title) }
                        " " span.small { (rows(one.rows.len())) }
                    }
                    (draw(one, &format!("{} {}", kind.title, n + 1)))
                }
            }
            p.again {
                "To repeat: "
                @for (n, command) in commands.iter().enumerate() {
                    @if n > 0 { "; " }
                    code { (command) }
                }
            }
        }
    }
}

/// Returns the verdict on lost state for each side that has one.
fn verdicts(group: &Group) -> Vec<(usize, String)> {
    let of = |side: usize| Some((side, verdict::lost_state(group.kind, &group.rows[side])?));
    group.sides().filter_map(of).collect()
}

fn drawn(pictures: &[Picture]) -> Markup {
    html! { div.pictures { @for one in pictures { figure { (one.inline()) } } } }
}

fn rows(n: usize) -> String {
    match n {
        1 => "(1 row)".to_string(),
        n => format!("({n} rows)"),
    }
}

/// Returns a table cell's CSS class. Numbers are right-aligned, and short words are not broken.
fn look(numeric: bool, text: &str) -> Option<&'static str> {
    match numeric {
        true => Some("n"),
        false => (text.chars().count() <= 28).then_some("k"),
    }
}

/// Draws a table that the page's script can sort.
fn draw(table: &Table, label: &str) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.sortable {
                thead { tr {
                    @for column in &table.columns {
                        th scope="col" class=[column.numeric.then_some("n")] { (column.head) }
                    }
                } }
                tbody {
                    @for row in table.rows.iter().take(MOST_ROWS) {
                        tr {
                            @for (cell, column) in row.iter().zip(&table.columns) {
                                td class=[look(column.numeric, &cell.text)] data-v=[cell.sort] title=[cell.hint.as_ref()] {
                                    (cell.text)
                                    @if let Some(ends) = cell.between() { " " small { (ends) } }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if table.rows.len() > MOST_ROWS {
            p.small { (table.rows.len() - MOST_ROWS) " more rows are in the record." }
        }
    }
}
