//! Formats the tables that `kiln list` prints.

use kiln_question::table::{align, figure, paragraph, plain, text};

use super::row::Row;

/// Formats the whole list, with one section for each kind of item.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let of = |kind: &'static str| rows.iter().filter(move |r| r.kind == kind);
    let mut out = String::new();
    out.push_str(&format!("Tiers\n{}\n", named(of("tier"))));
    out.push_str(
        "Implementations: the beginning of their driver names, and how each ends\n\
         (* chosen, - cannot run here, ! table-based, not constant-time, xN encrypts N messages\n\
         side by side; =N core cycles a byte, measured)\n",
    );
    out.push_str(&format!("{}\n", impls(of("impl"))));
    for (kind, title) in [("peer", "Peers"), ("compiler", "Compilers")] {
        out.push_str(&format!("{title}\n{}\n", named(of(kind))));
    }
    out.push_str(&format!("CPU features\n{}\n", features(of("feature"))));
    out.push_str(&format!(
        "Limits of the hardware, measured\n{}",
        limits(of("limit"))
    ));
    out
}

/// Formats the implementations, one line per algorithm.
fn impls<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let rows: Vec<&Row> = rows.collect();
    let mut algs: Vec<&str> = Vec::new();
    for alg in rows.iter().filter_map(|r| r.alg) {
        if !algs.contains(&alg) {
            algs.push(alg);
        }
    }
    let line = |alg: &&str| {
        let of: Vec<&Row> = rows
            .iter()
            .filter(|r| r.alg == Some(alg))
            .copied()
            .collect();
        let names: Vec<&str> = of.iter().map(|r| r.name.as_str()).collect();
        let prefix = common(&names);
        let ends: Vec<String> = of
            .iter()
            .map(|row| {
                let mark = match (row.chosen, row.available) {
                    (Some(true), _) => "*",
                    (_, true) => "",
                    (_, false) => "-",
                };
                let times = match row.constant_time {
                    Some(false) => "!",
                    _ => "",
                };
                // `n` is the number of messages processed in parallel.
                let lanes = row.lanes.map_or(String::new(), |n| format!("(x{n})"));
                let cycles = row.cycles_per_byte;
                let cycles = cycles.map_or(String::new(), |c| format!("={}", figure(c)));
                format!("{mark}{}{times}{lanes}{cycles}", &row.name[prefix.len()..])
            })
            .collect();
        paragraph(&format!("  {alg}: {prefix} {}", ends.join(" "))) + "\n"
    };
    algs.iter().map(line).collect()
}

/// Returns the longest prefix that ends with a dash and that all names have in common.
fn common<'a>(names: &[&'a str]) -> &'a str {
    let Some((first, rest)) = names.split_first() else {
        return "";
    };
    let shared = |end: usize| rest.iter().all(|n| n.starts_with(&first[..end]));
    let ends = first.match_indices('-').map(|(i, _)| i + 1);
    ends.rev()
        .find(|&end| shared(end))
        .map_or("", |end| &first[..end])
}

fn named<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let rows: Vec<&Row> = rows.collect();
    let width = rows.iter().map(|r| r.name.len()).max().unwrap_or(0);
    rows.iter()
        .map(|row| {
            let mark = if row.available { ' ' } else { '-' };
            let line = format!("{mark} {:width$}  {}", row.name, row.reason);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implementations_are_a_line_an_algorithm() {
        let rows = crate::list::impls();
        let text = impls(rows.iter());
        for line in text.lines() {
            assert!(
                line.chars().count() <= kiln_question::table::WIDTH,
                "{line}"
            );
        }
        for alg in kiln_question::Algorithm::all() {
            let of = format!("  {alg}: ");
            assert_eq!(
                text.lines().filter(|l| l.starts_with(&of)).count(),
                1,
                "{alg}"
            );
        }
        assert!(
            text.contains("xts-aes- ") && text.contains("generic!"),
            "{text}"
        );
        assert_eq!(
            text.matches('*').count(),
            kiln_question::Algorithm::all().len()
        );
    }

    #[test]
    fn names_share_whole_words() {
        assert_eq!(common(&["a-b-avx2", "a-b-avx512"]), "a-b-");
        assert_eq!(common(&["a-vaes-avx2", "a-vaes-avx512", "a-aesni"]), "a-");
        assert_eq!(common(&["x", "y"]), "");
        assert_eq!(common(&[]), "");
    }
}
