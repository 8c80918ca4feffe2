//! Formats the tables that `kiln fpu` and its subcommands print.

use std::path::Path;

use kiln_question::table::{align, figure, plain, text};

use super::answers::AnswerRow;
use super::row::Row;
use super::step_row::StepRow;

pub(crate) fn or_dash(x: Option<f64>) -> String {
    x.map_or("-".to_string(), figure)
}

/// Formats a policy's name, followed by the softirqs' fallback if it is not the default.
pub(crate) fn with_fallback(row: &Row) -> String {
    match row.fallback.as_ref() {
        "cryptd" => format!("{}, cryptd", policy(&row.policy)),
        _ => policy(&row.policy),
    }
}

/// Formats a policy's name. The broken control is marked; a tree is shown with its directory name
/// and version.
fn policy(name: &str) -> String {
    match (name, name.strip_prefix("tree:")) {
        ("none", _) => "none (broken)".to_string(),
        (_, Some(dir)) => match Path::new(dir).file_name() {
            Some(last) => last.to_string_lossy().into_owned(),
            None => name.to_string(),
        },
        _ => name.to_string(),
    }
}

/// Formats a table that shows, for each policy and context, whether the FPU is usable outside a
/// section, and whether it is usable while the task has an open section. `W` means that opening a
/// section causes a warning. A dash means that the softirq waits until the section ends.
pub(crate) fn answers(rows: &[AnswerRow]) -> String {
    let mut policies: Vec<&str> = Vec::new();
    let mut contexts: Vec<&str> = Vec::new();
    for r in rows {
        if !policies.contains(&r.policy.as_str()) {
            policies.push(&r.policy);
        }
        if !contexts.contains(&r.context.as_str()) {
            contexts.push(&r.context);
        }
    }
    let word = |r: &AnswerRow| match (r.in_section && !r.over_section, r.usable, r.warnings) {
        (true, ..) => "-".to_string(),
        (_, usable, warnings) => format!(
            "{}{}",
            if usable { "yes" } else { "no" },
            if warnings > 0 { " W" } else { "" }
        ),
    };
    let mut table = plain();
    let head = policies.iter().map(|p| policy(p));
    table.set_header(std::iter::once("context".to_string()).chain(head));
    for context in contexts {
        let cell = |name: &&str| {
            let of = rows
                .iter()
                .filter(|r| r.policy == **name && r.context == context);
            of.map(word).collect::<Vec<_>>().join(" / ")
        };
        table.add_row(std::iter::once(context.to_string()).chain(policies.iter().map(cell)));
    }
    format!(
        "Is the FPU usable? outside a section / with one in progress\n\n{}",
        text(&table)
    )
}

/// Formats the results of each load, followed by the counts.
pub(crate) fn tables(rows: &[Row]) -> String {
    let mut loads: Vec<&str> = Vec::new();
    for r in rows {
        if !loads.contains(&&*r.load) {
            loads.push(&r.load);
        }
    }
    let mut out = String::new();
    for load in loads {
        let rows: Vec<&Row> = rows
            .iter()
            .filter(|r| r.load == load && !r.control)
            .collect();
        let timed = rows.iter().any(|r| r.task_mb_per_s.is_some());
        out.push_str(&format!("{load}, {}\n", rows[0].imp));
        for r in rows.iter().filter(|r| r.version.is_some()) {
            let version = r.version.as_deref().unwrap_or_default();
            out.push_str(&format!(
                "{}: Linux {version}, {}\n",
                with_fallback(r),
                r.imp
            ));
        }
        out.push('\n');
        if timed {
            out.push_str(&figures(&rows));
            out.push('\n');
        }
        out.push_str(&counts(&rows));
        out.push('\n');
    }
    if out.is_empty() {
        out.push_str("no figures\n");
    }
    out
}

/// Formats the counts for each load, then each policy's totals over all loads.
pub(crate) fn campaign(rows: &[Row]) -> String {
    let mut policies: Vec<String> = Vec::new();
    for row in rows {
        let name = with_fallback(row);
        if !policies.contains(&name) {
            policies.push(name);
        }
    }
    let mut table = plain();
    table.set_header([
        "total",
        "into\nsections",
        "results\nwrong",
        "user states\nlost",
        "wrong if as bad\nas the control",
    ]);
    for name in policies {
        let of: Vec<&Row> = rows.iter().filter(|r| with_fallback(r) == name).collect();
        let sum = |f: fn(&Row) -> u64| of.iter().map(|r| f(r)).sum::<u64>().to_string();
        let expected: Option<f64> = of.iter().map(|r| r.expected_wrong).sum();
        table.add_row([
            name,
            sum(|r| r.irqs_in_section),
            sum(|r| r.corrupted),
            sum(|r| r.user_corrupted),
            expected.map_or("-".to_string(), |x| format!("{x:.0}")),
        ]);
    }
    align(&mut table, 1..5);
    format!("{}{}", tables(rows), text(&table))
}

fn figures(rows: &[&Row]) -> String {
    let mut table = plain();
    table.set_header([
        "policy",
        "task\nMB/s",
        "\n±",
        "of its\ncontrol",
        "\n±",
        "softirq\nMB/s",
        "softirq\nµs p50",
        "\np99",
        "section\nµs p50",
        "\np99.9",
    ]);
    for r in rows {
        let half = || Some(50.0 * (r.of_control_high? - r.of_control_low?));
        let pct = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{x:.1}%"));
        table.add_row([
            with_fallback(r),
            or_dash(r.task_mb_per_s),
            pct(r.plus_minus_pct()),
            pct(r.of_control.map(|x| 100.0 * x)),
            pct(half()),
            or_dash(r.softirq_mb_per_s),
            or_dash(r.softirq_us_p50),
            or_dash(r.softirq_us_p99),
            or_dash(r.section_us_p50),
            or_dash(r.section_us_p999),
        ]);
    }
    align(&mut table, 1..10);
    text(&table)
}

fn counts(rows: &[&Row]) -> String {
    let mut table = plain();
    // Loads without requests cannot defer anything, so the deferral columns are left out.
    let later = rows.iter().any(|r| r.async_punts.is_some());
    let mut head = vec![
        "policy",
        "into\nsections",
        "\na second",
        "nested\nsaves",
        "scalar\nfallbacks",
    ];
    if later {
        head.extend(["put\noff", "\ndropped", "out of\norder"]);
    }
    head.extend(["\nwarnings", "\ncorrupted", "user\ncorrupted"]);
    let columns = head.len();
    table.set_header(head);
    let count = |n: Option<u64>| n.map_or("-".to_string(), |n| n.to_string());
    for r in rows {
        let mut row = vec![
            with_fallback(r),
            r.irqs_in_section.to_string(),
            format!("{:.0}", r.irqs_in_section as f64 / r.seconds),
            r.nested_saves.to_string(),
            r.scalar_fallbacks.to_string(),
        ];
        if later {
            row.extend([count(r.async_punts), count(r.dropped), count(r.reordered)]);
        }
        row.extend([
            r.warnings.to_string(),
            r.corrupted.to_string(),
            r.user_corrupted.to_string(),
        ]);
        table.add_row(row);
    }
    align(&mut table, 1..columns);
    text(&table)
}

/// Formats the table that a proof run prints, with one line per policy and implementation.
pub(crate) fn proof(rows: &[StepRow]) -> String {
    let mut table = plain();
    table.set_header([
        "policy", "impl", "points", "softirq", "singly", "irqs", "pairs", "warned", "lost",
    ]);
    let mut at = 0;
    while at < rows.len() {
        let same = |r: &&StepRow| (&r.policy, &r.imp) == (&rows[at].policy, &rows[at].imp);
        let group: Vec<&StepRow> = rows[at..].iter().take_while(same).collect();
        let sum = |f: fn(&StepRow) -> u64| group.iter().map(|r| f(r)).sum::<u64>().to_string();
        table.add_row([
            policy(&rows[at].policy),
            short(&rows[at].imp),
            sum(|r| r.points),
            sum(|r| r.softirq_points),
            sum(|r| r.singles),
            sum(|r| r.injected),
            sum(|r| r.pairs),
            sum(|r| r.warnings),
            sum(|r| r.corrupted + r.user_corrupted),
        ]);
        at += group.len();
    }
    align(&mut table, 2..9);
    let mut lens: Vec<String> = Vec::new();
    for len in rows.iter().filter_map(|r| r.len) {
        let len = len.to_string();
        if !lens.contains(&len) {
            lens.push(len);
        }
    }
    let head = match lens.is_empty() {
        true => String::new(),
        false => format!(
            "an interrupt before every instruction, {} B\n\n",
            lens.join(", ")
        ),
    };
    head + &text(&table)
}

/// Formats the result of replaying one injection.
pub(crate) fn replay(rows: &[StepRow]) -> String {
    let line = |r: &StepRow| {
        let verdict = match r.corrupted + r.user_corrupted {
            0 => "nothing was lost".to_string(),
            _ => format!(
                "state was lost: {} wrong results, {} wrong user states",
                r.corrupted, r.user_corrupted
            ),
        };
        format!(
            "{}, {}: {} interrupts injected in a section of {} instructions: {verdict}\n",
            policy(&r.policy),
            r.imp,
            r.injected,
            r.instructions
        )
    };
    rows.iter().map(line).collect()
}

fn short(imp: &str) -> String {
    imp.strip_prefix("xts-aes-").unwrap_or(imp).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_question::table::WIDTH;

    fn step_row(policy: &'static str, len: usize) -> StepRow {
        StepRow {
            policy: policy.into(),
            imp: "xts-aes-vaes-avx512".into(),
            op: Some("encrypt".into()),
            len: Some(len),
            instructions: 100_000,
            points: 100_000,
            singles: 1000,
            injected: 100_000,
            masked: 100_000,
            softirq_instructions: 300,
            softirq_points: 300,
            pairs: 500,
            corrupted: 100,
            user_corrupted: 100,
            expected_wrong: None,
            warnings: 10_000,
            replay: None,
        }
    }

    #[test]
    fn a_proof_sums_lengths_and_fits_80_columns() {
        let rows = [
            step_row("none", 16),
            step_row("none", 4096),
            step_row("preemptible", 16),
        ];
        let text = proof(&rows);
        assert!(text.contains("16, 4096 B"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("none (broken)") && text.contains("200000"));
        assert!(replay(&rows).contains("state was lost"));
    }
}
