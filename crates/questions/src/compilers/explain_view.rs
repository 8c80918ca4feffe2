//! Formats the explanation of a cell: its results, and the results of similar cells.

use kiln_question::table::{align, figure, paragraph, plain, text, WIDTH};

use super::code::Code;
use super::culprit::Culprit;
use super::explain::{Explained, Seen};

/// Maximum number of lines of hot code shown for each cell.
const LINES: usize = 24;

/// Formats the results of all cells, the flag that causes the difference, and the hot code of the
/// two compared cells.
pub(super) fn format_tables(found: &Explained) -> String {
    let mut table = plain();
    table.set_header([
        "cell", "cyc/B", "code", "stack", "hot", "insns", "tables", "spills", "reloads", "calls",
    ]);
    let seen = [&found.own, &found.other].into_iter().chain(&found.more);
    for one in seen {
        table.add_row(line(one));
    }
    align(&mut table, [1, 2, 3, 5, 6, 7, 8, 9]);
    let mut out = text(&table);
    out.push('\n');
    out.push_str(&verdict(found));
    for one in [&found.own, &found.other] {
        if let Some(code) = &one.code {
            out.push_str(&stretch(one, code));
        }
    }
    out
}

fn line(seen: &Seen) -> Vec<String> {
    let facts = &seen.built.facts;
    let number = |n: Option<u64>| n.map_or("-".to_string(), |n| n.to_string());
    let mut line = vec![
        seen.cell.to_string(),
        figure(seen.cycles_per_byte),
        number(facts.text_bytes),
        number(facts.stack_bytes),
    ];
    match &seen.code {
        None => line.extend(["-"; 6].map(String::from)),
        Some(c) => {
            line.push(if c.is_loop { "loop" } else { "all" }.to_string());
            let counts = [
                c.instructions,
                c.indexed_loads,
                c.spills,
                c.reloads,
                c.calls,
            ];
            line.extend(counts.map(|n| n.to_string()));
        }
    }
    line
}

fn verdict(found: &Explained) -> String {
    let ratio = found.own.cycles_per_byte / found.other.cycles_per_byte;
    let mut said = vec![format!(
        "{} takes {ratio:.2} times what {} takes.",
        found.own.cell, found.other.cell
    )];
    said.extend(found.culprit.as_ref().map(|culprit| match culprit {
        Culprit::Alone(flag) => format!(
            "One flag makes the difference: {flag}, put to the slower level alone, brings it to {}.",
            found.cured.map_or("the other's result".to_string(), figure)
        ),
        Culprit::With(flag, others) => format!(
            "{flag} makes the difference, but only with others before it: {}.",
            others.join(" ")
        ),
        Culprit::Level(n) => format!(
            "None of the {n} flags in which the levels differ does it, nor do all together: it is the level itself, or a \
             parameter."
        ),
        Culprit::Unlisted => {
            "The compiler does not list the flags of its levels: no flag can be looked for.".to_string()
        }
    }));
    let of_tools = |code: &Option<Code>| {
        let called = code.as_ref().map_or(&[][..], |c| &c.called);
        let words: Vec<String> = called.iter().map(|(n, k)| format!("{n} ({k})")).collect();
        words.join(", ")
    };
    let called = of_tools(&found.own.code);
    if !called.is_empty() {
        said.push(format!("Its hot stretch calls {called}."));
    }
    said.iter().map(|s| paragraph(s) + "\n").collect::<String>() + "\n"
}

fn stretch(seen: &Seen, code: &Code) -> String {
    let what = if code.is_loop {
        "its hot loop"
    } else {
        "all of it"
    };
    let mut out = format!("{}: {}, {what}\n", seen.cell, code.function);
    for line in code.text.iter().take(LINES) {
        let line: String = line.chars().take(WIDTH - 2).collect();
        out.push_str(&format!("  {line}\n"));
    }
    if code.text.len() > LINES {
        out.push_str(&format!("  … {} more\n", code.text.len() - LINES));
    }
    out + "\n"
}
