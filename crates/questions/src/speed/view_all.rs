//! Formats the table of all algorithms that `kiln speed` prints.

use kiln_question::table::figure;

use super::row::Row;
use super::view::threads;
use kiln_timing::{Level, KILN};

/// Number of lengths that fit next to a name on a line of the table of all algorithms.
const MANY: usize = 8;
/// Maximum width of a name in the table of all algorithms, in characters.
const WHO: usize = 22;

/// Formats the table of all algorithms, with one column per length. Each operation has one line for
/// Kiln's chosen tier and one line for the best implementation of each library.
pub(super) fn compact(rows: &[Row], tty: bool) -> String {
    let mut out = String::new();
    let mut rest: Vec<&Row> = rows.iter().collect();
    let mut header: Vec<usize> = Vec::new();
    while let Some(first) = rest.first().copied() {
        let alike = |r: &&Row| {
            (&r.alg, &r.op, r.key_bits, r.latency)
                == (&first.alg, &first.op, first.key_bits, first.latency)
        };
        let (these, others): (Vec<&Row>, Vec<&Row>) = rest.into_iter().partition(alike);
        rest = others;
        let mut lens: Vec<usize> = these.iter().map(|r| r.len).collect();
        lens.sort_unstable();
        lens.dedup();
        lens.truncate(MANY);
        if lens != header {
            let cells: String = lens.iter().map(|l| format!("{l:>7}")).collect();
            out.push_str(&format!("{:WHO$}{cells}\n", "cycles per byte"));
            header = lens.clone();
        }
        let key = match first.key_bits {
            0 => String::new(),
            bits => format!(", {bits}-bit key"),
        };
        let threads = threads(first);
        out.push_str(&format!("{} {}{key}{threads}\n", first.alg, first.op));
        out.push_str(&lines(&these, &lens, tty));
    }
    if out.is_empty() {
        out.push_str("no figures\n");
    }
    out
}

/// Formats Kiln's line, followed by one line per library or tree, sorted by speed at the longest
/// length, fastest first.
fn lines(rows: &[&Row], lens: &[usize], tty: bool) -> String {
    let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let mark = if row.together { " *" } else { "" };
        let call = match (row.cold, row.provider == KILN && row.level == Level::Api) {
            (true, _) => " cold",
            (_, true) => " api",
            (_, false) => "",
        };
        let name = format!("{}{call}{mark}", row.provider);
        match groups.iter_mut().find(|g| g.0 == name) {
            Some(group) => group.1.push(row),
            None => groups.push((name, vec![row])),
        }
    }
    let best = |rows: &[&Row], len: usize| {
        let here = rows.iter().filter(|r| r.len == len && r.measured());
        here.map(|r| r.cycles_per_byte).reduce(f64::min)
    };
    let mut out = String::new();
    let mut all: Vec<(String, Vec<Option<f64>>)> = groups
        .iter()
        .map(|(name, rows)| {
            let name = match name == KILN {
                true => format!("kiln {}", fastest_tier(rows)),
                false => name.clone(),
            };
            (name, lens.iter().map(|&len| best(rows, len)).collect())
        })
        .collect();
    let last = |line: &(String, Vec<Option<f64>>)| {
        let own = line.0.starts_with("kiln ");
        (!own, line.1.last().copied().flatten().unwrap_or(f64::MAX))
    };
    all.sort_by(|a, b| last(a).partial_cmp(&last(b)).expect("no NaN"));
    for (name, figures) in &all {
        let name: String = name.chars().take(WHO - 3).collect();
        out.push_str(&format!("  {name:width$}", width = WHO - 2));
        for (i, x) in figures.iter().enumerate() {
            let text = format!("{:>7}", x.map_or("-".to_string(), figure));
            let least = all.iter().filter_map(|l| l.1[i]).reduce(f64::min);
            match tty && x.is_some() && *x == least {
                true => out.push_str(&format!("\x1b[1m{text}\x1b[0m")),
                false => out.push_str(&text),
            }
        }
        out.push('\n');
    }
    out
}

/// Returns the tier of Kiln's fastest implementation at the longest length.
fn fastest_tier(rows: &[&Row]) -> String {
    let longest = rows.iter().map(|r| r.len).max();
    let here = rows
        .iter()
        .filter(|r| Some(r.len) == longest && r.measured());
    let best = here.min_by(|a, b| a.cycles_per_op.total_cmp(&b.cycles_per_op));
    let tier = best.and_then(|r| r.tier.as_deref());
    tier.unwrap_or("?").to_string()
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::{row, six};
    use super::*;
    use kiln_question::table::WIDTH;

    #[test]
    fn all_algorithms_are_a_compact_table_of_the_best() {
        let mut rows = Vec::new();
        for alg in ["xts(aes)", "rfc7539(chacha20,poly1305)"] {
            for len in [16, 64, 256, 512, 1024, 1420, 4096, 16384] {
                for mut row in six(len) {
                    row.alg = alg.into();
                    row.tier = Some("vaes-avx512".into());
                    rows.push(row);
                }
                rows.push(Row {
                    level: Level::Api,
                    alg: alg.into(),
                    ..row("xts-aes-vaes-avx512", KILN, len, 30000.0)
                });
                rows.push(Row {
                    together: true,
                    alg: alg.into(),
                    ..row("IMB_X", "ipsec-mb-1.3.0", len, 7.0)
                });
            }
        }
        let text = compact(&rows, false);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        // The text has a header, and for each algorithm a title and lines for Kiln's functions,
        // Kiln's API and two libraries.
        assert_eq!(text.lines().count(), 1 + 2 * 5, "{text}");
        assert!(text.contains("\n  kiln api "), "{text}");
        assert!(text.contains("kiln vaes-avx512"), "{text}");
        assert!(text.contains("ipsec-mb-1.3.0 *"), "{text}");
        // The line shows the best of the five implementations at 16 bytes.
        let kiln = text.lines().nth(2).unwrap();
        assert!(kiln.contains(" 1250 "), "{kiln}");
        assert!(compact(&rows, true).contains("\x1b[1m"));
        assert_eq!(compact(&[], false), "no figures\n");
    }
}
