//! Formats the tables that `kiln linux fidelity`, `kiln linux nested` and `kiln linux dkms` print.

use kiln_linux::dkms;
use kiln_linux::fidelity::nested;
use kiln_linux::fidelity::row::Row;
use kiln_question::table::{align, figure, paragraph, plain, text};

/// Formats a table of the questions, then both answers to each question on which the real kernel
/// and the emulated CPU differ or were not compared, then the costs, then the counts.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let title = format!(
        "Linux {} on {} ({}), policy {}",
        first.kernel, first.cpu, first.accel, first.policy
    );
    let answers = || rows.iter().filter(|r| r.kind == "answer");
    let mut table = plain();
    table.add_row(["#", "question", "asked", "agree"]);
    for row in answers() {
        let agree = match row.agree {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "not asked",
        };
        let asked = shortened(row.asked.as_deref().unwrap_or(""));
        let number = row.number.map_or_else(String::new, |n| n.to_string());
        table.add_row([&number, &row.question, &asked, agree]);
    }
    align(&mut table, [0]);
    let mut out = format!("{}\n\n{}\n", paragraph(&title), text(&table));
    for row in answers().filter(|r| r.agree != Some(true)) {
        let side = |s: &Option<String>| s.clone().unwrap_or_else(|| "-".into());
        for line in [
            format!("{}, real: {}", row.number.unwrap_or(0), side(&row.real)),
            format!(
                "{}, emulated: {}",
                row.number.unwrap_or(0),
                side(&row.emulated)
            ),
        ] {
            out.push_str(&(paragraph(&line) + "\n"));
        }
    }
    let mut costs = plain();
    costs.add_row([
        "TSC cycles",
        "least",
        "median",
        "helper/direct",
        "emulated",
        "helper/direct",
    ]);
    for row in rows.iter().filter(|r| r.kind == "cost") {
        let of = |v: Option<f64>| v.map_or_else(|| "-".to_string(), figure);
        let times = |v: Option<f64>| v.map_or_else(String::new, |v| format!("{v:.2}"));
        costs.add_row([
            row.question.clone(),
            of(row.cycles_min),
            of(row.cycles),
            times(row.ratio),
            of(row.kiln_cycles),
            times(row.kiln_ratio),
        ]);
    }
    align(&mut costs, 1..6);
    let count = |agree| answers().filter(|r| r.agree == agree).count();
    out + &format!(
        "{}\n{} answers agree, {} differ, {} not asked\n",
        text(&costs),
        count(Some(true)),
        count(Some(false)),
        count(None)
    )
}

/// Shortens a script that is too long for the table.
fn shortened(asked: &str) -> String {
    const MOST: usize = 34;
    match asked.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &asked[..at]),
        None => asked.to_owned(),
    }
}

/// Formats the rows of `kiln linux nested`, one line per row.
pub(super) fn nested(rows: &[nested::Row]) -> String {
    let mut table = plain();
    table.add_row([
        "mode",
        "who",
        "driver",
        "done",
        "over a section",
        "saves",
        "wrong",
        "refused",
        "late",
    ]);
    for row in rows {
        table.add_row([
            row.mode.to_owned(),
            row.who.clone(),
            row.driver.clone(),
            row.done.to_string(),
            row.over.to_string(),
            row.nested_saves.to_string(),
            row.wrong.to_string(),
            row.refused.to_string(),
            row.late.to_string(),
        ]);
    }
    align(&mut table, 3..9);
    let title = rows.first().map_or_else(String::new, |r| {
        paragraph(&format!("Linux {} ({})", r.kernel, r.accel)) + "\n\n"
    });
    format!("{title}{}\n", text(&table))
}

/// Formats the rows of `kiln linux dkms`, one line per row.
pub(super) fn dkms(rows: &[dkms::Row]) -> String {
    let mut table = plain();
    table.add_row([
        "module",
        "mode",
        "cipher",
        "sent",
        "lost",
        "reordered",
        "wrong",
        "cryptd",
        "saves",
        "disk",
        "wrong",
        "registers",
        "wrong",
        "cycles",
    ]);
    for row in rows {
        let mut line = vec![row.module.into(), row.mode.into(), row.cipher.to_owned()];
        let counts = [
            row.sent,
            row.lost,
            row.reordered,
            row.wrong,
            row.cryptd,
            row.nested_saves,
            row.disk,
            row.disk_wrong,
            row.registers,
            row.registers_wrong,
            row.cycles,
        ];
        line.extend(counts.map(|count| count.to_string()));
        table.add_row(line);
    }
    align(&mut table, 3..14);
    let title = rows.first().map_or_else(String::new, |r| {
        paragraph(&format!("Linux {} ({})", r.kernel, r.accel)) + "\n\n"
    });
    format!("{title}{}\n", text(&table))
}
