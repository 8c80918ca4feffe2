//! The table of `list`.

use kiln_lab::list::Row;

use super::{align, figure, paragraph, plain, text};

/// Everything, a paragraph for each kind.
pub fn all(rows: &[Row]) -> String {
    let of = |kind: &'static str| rows.iter().filter(move |r| r.kind == kind);
    let mut out = String::new();
    for (kind, title) in [
        ("tier", "Tiers"),
        ("impl", "Implementations (* chosen)"),
        ("peer", "Peers"),
        ("compiler", "Compilers"),
    ] {
        out.push_str(&format!("{title}\n{}\n", named(of(kind))));
    }
    out.push_str(&format!("CPU features\n{}\n", features(of("feature"))));
    out.push_str(&format!(
        "Limits of the hardware, measured\n{}",
        limits(of("limit"))
    ));
    out
}

/// One line: what was chosen for an algorithm.
pub fn chosen(rows: &[Row], alg: &str) -> String {
    let lines: Vec<String> = rows
        .iter()
        .filter(|r| r.chosen == Some(true) && r.alg == Some(alg))
        .map(|r| format!("chosen for {}: {}", r.alg.unwrap_or("?"), r.name))
        .collect();
    lines.join("\n")
}

fn named<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let rows: Vec<&Row> = rows.collect();
    let width = rows.iter().map(|r| r.name.len()).max().unwrap_or(0);
    rows.iter()
        .map(|row| {
            let mark = match (row.chosen, row.available) {
                (Some(true), _) => '*',
                (_, true) => ' ',
                (_, false) => '-',
            };
            let times = match row.constant_time {
                Some(false) => "; table-based, not constant-time",
                _ => "",
            };
            let line = format!("{mark} {:width$}  {}{times}", row.name, row.reason);
            paragraph(&line) + "\n"
        })
        .collect()
}

fn features<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let (here, absent): (Vec<&Row>, Vec<&Row>) = rows.partition(|r| r.available);
    let names = |rows: &[&Row]| {
        let names: Vec<&str> = rows.iter().map(|r| r.name.as_str()).collect();
        names.join(" ")
    };
    let line = |title: &str, rows: &[&Row]| match rows {
        [] => String::new(),
        _ => paragraph(&format!("  {title} {}", names(rows))) + "\n",
    };
    line("here:", &here) + &line("absent:", &absent)
}

fn limits<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut table = plain();
    for row in rows {
        let value = row.value.flatten();
        table.add_row([
            format!("  {}", row.name),
            value.map_or("-".to_string(), figure),
            row.unit.unwrap_or_default().to_string(),
            row.reason.clone(),
        ]);
    }
    align(&mut table, [1]);
    text(&table)
}
