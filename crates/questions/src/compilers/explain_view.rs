//! Formats the explanation of a cell: the results of this cell and of similar cells.

use kiln_question::table::{align, figure, paragraph, plain, text, WIDTH};

use super::cell::{Abi, Cell};
use super::code::Code;
use super::culprit::Culprit;
use super::explain::{Explained, Seen};

/// Maximum length in characters of a cell's name in the table.
const NAME: usize = 18;

/// Checks that increase the time by no more than this fraction are counted but not listed.
const SAME: f64 = 0.02;

/// Formats the results of all cells and the flag or check that causes the difference. If
/// `with_code` is true, also shows the hot code of the two compared cells.
pub(super) fn format_tables(found: &Explained, with_code: bool) -> String {
    let mut table = plain();
    table.set_header([
        "cell", "cyc/B", "code", "stack", "hot", "insns", "table", "spill", "reload", "calls",
    ]);
    let seen = || [&found.own, &found.other].into_iter().chain(&found.more);
    let alike = |of: fn(&Cell) -> String| seen().all(|s| of(&s.cell) == of(&found.own.cell));
    let one_cc = alike(|c| c.cc.name.clone());
    let one_subject = alike(|c| c.subject.name.clone());
    for one in seen() {
        table.add_row(line(one, one_cc, one_subject));
    }
    align(&mut table, [1, 2, 3, 5, 6, 7, 8, 9]);
    let own = &found.own.cell;
    let common = [(one_cc, &own.cc.name), (one_subject, &own.subject.name)];
    let common: Vec<&str> = common
        .iter()
        .filter(|(one, _)| *one)
        .map(|(_, name)| name.as_str())
        .collect();
    let mut out = String::new();
    if !common.is_empty() {
        out = paragraph(&common.join(", ")) + "\n";
    }
    out.push_str(&text(&table));
    out.push_str(&(paragraph(LEGEND) + "\n\n"));
    out.push_str(&verdict(found));
    out.push_str(&checks(found));
    for one in [&found.own, &found.other].iter().filter(|_| with_code) {
        if let Some(code) = &one.code {
            out.push('\n');
            out.push_str(&stretch(one, code));
        }
    }
    out
}

const LEGEND: &str = "cyc/B: core cycles per byte; code: bytes of machine code; stack: bytes of the largest stack frame; hot: what the \
    columns after it count, the hottest loop or all of the function; insns: instructions; table: loads from a computed address, mostly \
    table lookups; spill, reload: stores of registers to the stack, loads from it";

/// Returns a cell's name without the parts that are the same for all cells.
fn short_name(cell: &Cell, one_cc: bool, one_subject: bool) -> String {
    let variant = cell.variant.name();
    let mut parts = vec![cell.opt.name(), variant];
    if !one_subject {
        parts.insert(1, &cell.subject.name);
    }
    if !one_cc {
        parts.insert(0, &cell.cc.name);
    }
    if cell.abi == Abi::Bits32 {
        parts.push("32");
    }
    let name = parts.join("/");
    match name.chars().count() > NAME {
        true => name.chars().take(NAME - 1).chain(['…']).collect(),
        false => name,
    }
}

/// Formats what each sanitizer check costs on its own.
fn checks(found: &Explained) -> String {
    let Some((worst, _)) = found.checks.first() else {
        return String::new();
    };
    let (own, other) = (found.own.cycles_per_byte, found.other.cycles_per_byte);
    let costs = |seen: &Seen| seen.cycles_per_byte > other * (1.0 + SAME);
    let (listed, same): (Vec<_>, Vec<_>) = found.checks.iter().partition(|(_, seen)| costs(seen));
    let mut out = format!(
        "\nEach of {} checks alone, cycles per byte:\n",
        found.checks.len()
    );
    if !listed.is_empty() {
        let mut table = plain();
        for (check, seen) in &listed {
            let share = (seen.cycles_per_byte - other) / (own - other);
            table.add_row([
                format!("  {}", check.name),
                figure(seen.cycles_per_byte),
                format!("{:.0} % of the difference", 100.0 * share),
            ]);
        }
        align(&mut table, [1]);
        out.push_str(&text(&table));
    }
    if !same.is_empty() {
        let within = 100.0 * SAME;
        out.push_str(&format!(
            "  {} others cost less than {within:.0} %\n",
            same.len()
        ));
    }
    let said = match (listed.is_empty(), found.without) {
        (true, _) => "No check alone makes the difference.".to_string(),
        (false, None) => format!("{} costs most.", worst.name),
        (false, Some(rest)) => format!(
            "{} costs most. Without it, all other checks together take {}.",
            worst.name,
            figure(rest)
        ),
    };
    out + &paragraph(&said) + "\n"
}

fn line(seen: &Seen, one_cc: bool, one_subject: bool) -> Vec<String> {
    let facts = &seen.built.facts;
    let number = |n: Option<u64>| n.map_or("-".to_string(), |n| n.to_string());
    let mut line = vec![
        short_name(&seen.cell, one_cc, one_subject),
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
            "One flag makes the difference: adding '{flag}' alone to the slower level gives {}.",
            found.cured.map_or("the other's result".to_string(), figure)
        ),
        Culprit::With(flag, others) => format!(
            "'{flag}' makes the difference, but only with others before it: '{}'.",
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
    said.iter().map(|s| paragraph(s) + "\n").collect::<String>()
}

fn stretch(seen: &Seen, code: &Code) -> String {
    let what = if code.is_loop {
        "its hot loop"
    } else {
        "all of it"
    };
    let mut out = format!("{}: {}, {what}\n", seen.cell, code.function);
    for line in &code.text {
        let line: String = line.chars().take(WIDTH - 2).collect();
        out.push_str(&format!("  {line}\n"));
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use kiln_measure::Series;

    use super::super::build::{Built, Facts};
    use super::super::cell::Opt;
    use super::super::checks::Check;
    use super::super::file;
    use super::super::toolchain::Toolchain;
    use super::super::variant::Variant;
    use super::*;

    /// Creates a result for `gcc/O2/my.c/VARIANT`, with one line of code.
    fn seen(cc: &Arc<Toolchain>, variant: &str, cycles_per_byte: f64) -> Seen {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.c");
        std::fs::write(&path, "int f;\n").unwrap();
        let subject = file::subject(&format!("{}:crc:checksum32", path.display()), &[]).unwrap();
        Seen {
            cell: Cell {
                cc: cc.clone(),
                subject: Arc::new(subject),
                opt: Opt::parse("O2").unwrap(),
                variant: Variant::parse(variant).unwrap(),
                abi: Abi::Bits64,
            },
            built: Built {
                executable: PathBuf::new(),
                objects: Vec::new(),
                facts: Facts {
                    text_bytes: Some(59_193),
                    stack_bytes: Some(288),
                    build_ms: 1.0,
                },
            },
            cycles_per_byte,
            series: Series::default(),
            code: Some(Code {
                function: "crc".into(),
                instructions: 6114,
                reloads: 1215,
                text: vec!["     0: ret".into()],
                ..Code::default()
            }),
        }
    }

    #[test]
    fn the_check_that_costs_most_is_named_and_cheap_ones_are_counted() {
        let Ok(cc) = Toolchain::find("gcc") else {
            eprintln!("SKIPPED: no gcc here");
            return;
        };
        let cc = Arc::new(cc);
        let check = |name: &str, cycles: f64| {
            let check = Check {
                name: name.into(),
                alone: Vec::new(),
                off: Vec::new(),
            };
            (check, seen(&cc, "default", cycles))
        };
        let mut found = Explained {
            own: seen(&cc, "patched+ubsan", 30.0),
            other: seen(&cc, "patched", 10.0),
            more: Vec::new(),
            culprit: None,
            cured: None,
            checks: [
                ("object-size", 25.0),
                ("null", 11.0),
                ("shift", 10.1),
                ("bool", 9.9),
            ]
            .map(|(name, cycles)| check(name, cycles))
            .into(),
            without: Some(12.0),
        };
        let text = format_tables(&found, false);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        for line in [
            "gcc, my.c",
            "O2/patched+ubsan",
            "object-size",
            "75 % of the difference",
            "2 others cost less than 2 %",
            "object-size costs most. Without it, all other checks together take 12.0.",
            "cyc/B: core cycles per byte",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("shift"), "{text}");
        assert!(!text.contains("0: ret"), "{text}");
        assert!(format_tables(&found, true).contains("0: ret"));
        // Control: if no check is costly, no check is blamed.
        found.checks.drain(..2);
        found.without = None;
        let text = format_tables(&found, false);
        assert!(
            text.contains("No check alone makes the difference."),
            "{text}"
        );
        found.checks.clear();
        assert!(!format_tables(&found, false).contains("check alone"));
        // Flags are quoted, because some of them look like ordinary words.
        found.culprit = Some(Culprit::With(
            "-free".into(),
            vec!["-fa".into(), "-fb".into()],
        ));
        let text = format_tables(&found, false);
        assert!(
            text.contains("'-free' makes") && text.contains("'-fa -fb'."),
            "{text}"
        );
    }

    #[test]
    fn names_have_what_differs_and_fit() {
        let Ok(cc) = Toolchain::find("gcc") else {
            eprintln!("SKIPPED: no gcc here");
            return;
        };
        let cell = seen(&Arc::new(cc), "ubsan+-fno-tree-pre", 1.0).cell;
        assert_eq!(short_name(&cell, true, true), "O2/ubsan+-fno-tre…");
        let plain = Cell {
            variant: Variant::parse("default").unwrap(),
            ..cell
        };
        assert_eq!(short_name(&plain, true, true), "O2/default");
        assert_eq!(short_name(&plain, true, false), "O2/my.c/default");
        assert_eq!(short_name(&plain, false, true), "gcc/O2/default");
    }
}
