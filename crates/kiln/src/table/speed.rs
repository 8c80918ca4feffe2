//! The tables of `speed`.

use comfy_table::{Attribute, Cell};
use kiln_lab::speed::{family, Level, Row, KILN, SWEEP};
use kiln_measure::Verdict;

use super::{align, figure, plain, text};

/// Columns of implementations that fit beside length, limit and interval.
const COLUMNS: usize = 6;

/// Columns of lengths beside an implementation's name, provider and level.
const LENGTHS: usize = 4;
/// Characters of an implementation's name.
const NAME: usize = 33;

/// Columns of lengths that fit beside a name in the table of all algorithms.
const MANY: usize = 8;
/// Characters of a name there.
const WHO: usize = 22;

/// All algorithms: of each operation Kiln's chosen tier and each peer's best, a line each, a column a length.
pub fn compact(rows: &[Row], tty: bool) -> String {
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
            out.push_str(&format!("{:WHO$}{cells}\n", "cycles a byte"));
            header = lens.clone();
        }
        let key = match first.key_bits {
            0 => String::new(),
            bits => format!(", {bits}-bit key"),
        };
        out.push_str(&format!("{} {}{key}\n", first.alg, first.op));
        out.push_str(&lines(&these, &lens, tty));
    }
    if out.is_empty() {
        out.push_str("no figures\n");
    }
    out
}

/// Kiln's line, then the others', fastest at the longest length first.
fn lines(rows: &[&Row], lens: &[usize], tty: bool) -> String {
    let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let mark = if row.together { " *" } else { "" };
        let name = format!("{}{mark}", row.provider);
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

/// The tier of Kiln's fastest at the longest length.
fn fastest_tier(rows: &[&Row]) -> String {
    let longest = rows.iter().map(|r| r.len).max();
    let here = rows
        .iter()
        .filter(|r| Some(r.len) == longest && r.measured());
    let best = here.min_by(|a, b| a.cycles_per_op.total_cmp(&b.cycles_per_op));
    let tier = best.and_then(|r| r.tier.as_deref());
    tier.unwrap_or("?").to_string()
}

/// The tables without the comparisons with a baseline.
pub fn overview(rows: &[Row], tty: bool) -> String {
    let mut rows = rows.to_vec();
    rows.iter_mut().for_each(|r| r.against = None);
    tables(&rows, tty)
}

/// A table for each algorithm, operation, key size and mode: a row a length, a column an implementation.
pub fn tables(rows: &[Row], tty: bool) -> String {
    let mut out = String::new();
    let mut rest: Vec<&Row> = rows.iter().collect();
    while let Some(first) = rest.first().copied() {
        let alike = |r: &&Row| {
            (&r.alg, &r.op, r.key_bits, r.latency)
                == (&first.alg, &first.op, first.key_bits, first.latency)
        };
        let (these, others): (Vec<&Row>, Vec<&Row>) = rest.into_iter().partition(alike);
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&table(&these, tty));
        rest = others;
    }
    if out.is_empty() {
        out.push_str("no figures\n");
    }
    out
}

/// What heads a column.
fn title(row: &Row) -> String {
    // Two lines: names are long, figures short.
    if row.provider == KILN {
        let prefix = row.alg.replace(['(', ','], "-").replace(')', "") + "-";
        let name = row.imp.strip_prefix(&prefix).unwrap_or(&row.imp);
        return name.replacen('-', "\n", 1);
    }
    let family = family(&row.provider);
    let version = row.provider[family.len()..].trim_start_matches('-');
    let mark = if row.together { "*" } else { "" };
    format!("{family}{mark}\n{version}")
}

fn table(rows: &[&Row], tty: bool) -> String {
    let first = rows[0];
    let calls = if first.latency {
        "dependent calls"
    } else {
        "independent calls"
    };
    let key = match first.key_bits {
        0 => String::new(),
        bits if first.alg == "xts(aes)" => format!(", AES-{bits}"),
        bits => format!(", {bits}-bit key"),
    };
    let mut out = format!("{} {}{key}: cycles a byte, {calls}\n", first.alg, first.op);
    let mut columns: Vec<&Row> = Vec::new();
    for row in rows {
        if !columns.iter().any(|c| c.same_curve(row)) {
            columns.push(row);
        }
    }
    let mut lens: Vec<usize> = rows.iter().map(|r| r.len).collect();
    lens.sort_unstable();
    lens.dedup();
    if lens.len() > SWEEP {
        return out + &ends(rows, &columns, &lens);
    }
    // A tree has many, with long names.
    if rows
        .iter()
        .any(|r| r.level == Level::Api || family(&r.provider) == "linux")
    {
        return out + &listed(rows, &columns, &lens, tty);
    }
    for part in columns.chunks(COLUMNS) {
        out.push('\n');
        out.push_str(&part_of(rows, part, &lens, tty));
        if rows.iter().any(|r| r.against.is_some()) {
            out.push_str("\nmultiples of the baseline's cycles (below 1 is faster; = no difference shown)\n\n");
            out.push_str(&ratios(rows, part, &lens));
        }
    }
    out
}

/// A line an implementation, a column a length: as many lengths beside each other as fit.
fn listed(rows: &[&Row], columns: &[&Row], lens: &[usize], tty: bool) -> String {
    let mut out = String::new();
    for part in lens.chunks(LENGTHS) {
        let figures = |row: &Row| figure(row.cycles_per_byte);
        out.push('\n');
        out.push_str(&grid(rows, columns, part, tty, &figures));
    }
    if rows.iter().any(|r| r.against.is_some()) {
        out.push_str(
            "\nmultiples of the baseline's cycles (below 1 is faster; = no difference shown)\n",
        );
        for part in lens.chunks(LENGTHS) {
            out.push('\n');
            out.push_str(&grid(rows, columns, part, false, &against));
        }
    }
    out
}

/// The ratio of a row to the baseline's, marked if it shows no difference.
fn against(row: &Row) -> String {
    let same = row
        .against
        .is_some_and(|a| a.verdict == Some(Verdict::Same));
    let ratio = row.against.and_then(|a| a.ratio);
    let mark = if same { "=" } else { "" };
    ratio.map_or("-".to_string(), |r| format!("{mark}{}", figure(r)))
}

fn grid(
    rows: &[&Row],
    columns: &[&Row],
    lens: &[usize],
    tty: bool,
    text_of: &dyn Fn(&Row) -> String,
) -> String {
    let mut table = plain();
    let mut header = vec![
        "implementation".to_string(),
        "of".to_string(),
        String::new(),
    ];
    header.extend(lens.iter().map(usize::to_string));
    table.set_header(header);
    for column in columns {
        let level = match column.level {
            Level::Primitive => "",
            Level::Api => "api",
        };
        let mut cells = vec![
            Cell::new(short(&column.imp)),
            Cell::new(family(&column.provider)),
            Cell::new(level),
        ];
        for &len in lens {
            let here = rows.iter().filter(|r| r.len == len);
            let best = here.map(|r| r.cycles_per_op).fold(f64::INFINITY, f64::min);
            let row = at(rows, column, len);
            let cell = Cell::new(row.map_or("-".to_string(), text_of));
            let bold = tty && row.is_some_and(|r| r.cycles_per_op == best);
            cells.push(match bold {
                true => cell.add_attribute(Attribute::Bold),
                false => cell,
            });
        }
        table.add_row(cells);
    }
    align(&mut table, 3..lens.len() + 3);
    if tty {
        table.enforce_styling();
    }
    text(&table)
}

/// A name that fits; the middle of a longer one is left out.
fn short(name: &str) -> String {
    let n = name.chars().count();
    if n <= NAME {
        return name.to_string();
    }
    let head: String = name.chars().take(NAME / 2).collect();
    let tail: String = name.chars().skip(n - (NAME - NAME / 2 - 1)).collect();
    format!("{head}…{tail}")
}

/// The row of this length on the curve of `column`.
fn at<'a>(rows: &[&'a Row], column: &Row, len: usize) -> Option<&'a Row> {
    let found = rows.iter().find(|r| r.len == len && r.same_curve(column));
    found.copied()
}

/// One part of a table, of at most [`COLUMNS`] implementations.
fn part_of(rows: &[&Row], columns: &[&Row], lens: &[usize], tty: bool) -> String {
    let mut table = plain();
    let mut header = vec!["bytes".to_string()];
    header.extend(columns.iter().map(|c| title(c)));
    header.extend(["limit".to_string(), "±".to_string()]);
    table.set_header(header);
    for &len in lens {
        let here: Vec<&Row> = columns.iter().filter_map(|c| at(rows, c, len)).collect();
        let cycles = here.iter().map(|r| r.cycles_per_op);
        let best = cycles.fold(f64::INFINITY, f64::min);
        let mut cells = vec![Cell::new(len)];
        for column in columns {
            let row = at(rows, column, len);
            let cell = Cell::new(row.map_or("-".to_string(), |r| figure(r.cycles_per_byte)));
            let bold = tty && row.is_some_and(|r| r.cycles_per_op == best);
            cells.push(if bold {
                cell.add_attribute(Attribute::Bold)
            } else {
                cell
            });
        }
        let limit = here.iter().filter_map(|r| r.limit_cycles).reduce(f64::min);
        let limit = limit.map_or("-".to_string(), |l| figure(l / len as f64));
        let worst = here.iter().map(|r| r.plus_minus_pct()).fold(0.0, f64::max);
        cells.push(Cell::new(limit));
        cells.push(Cell::new(format!("{worst:.1}%")));
        table.add_row(cells);
    }
    align(&mut table, 0..columns.len() + 3);
    if tty {
        table.enforce_styling();
    }
    text(&table)
}

/// The comparisons with the baseline.
fn ratios(rows: &[&Row], columns: &[&Row], lens: &[usize]) -> String {
    let mut table = plain();
    let mut header = vec!["bytes".to_string()];
    header.extend(columns.iter().map(|c| title(c)));
    table.set_header(header);
    for &len in lens {
        let mut cells = vec![len.to_string()];
        for column in columns {
            cells.push(at(rows, column, len).map_or("-".to_string(), against));
        }
        table.add_row(cells);
    }
    align(&mut table, 0..columns.len() + 1);
    text(&table)
}

/// Of a sweep: the shortest and the longest; the notes tell of the steps between.
fn ends(rows: &[&Row], columns: &[&Row], lens: &[usize]) -> String {
    let (first, last) = (lens[0], lens[lens.len() - 1]);
    let mut table = plain();
    table.set_header([
        "implementation".to_string(),
        format!("{first} B"),
        format!("{last} B"),
    ]);
    for column in columns {
        let at = |len| at(rows, column, len).map_or("-".to_string(), |r| figure(r.cycles_per_byte));
        let name = if column.provider == KILN {
            &column.imp
        } else {
            &column.provider
        };
        table.add_row([name.clone(), at(first), at(last)]);
    }
    align(&mut table, [1, 2]);
    format!(
        "\n{}\n{} lengths from {first} to {last}; --rows or --json has them all\n",
        text(&table),
        lens.len()
    )
}

/// One line a row, all that is in the record, blanks between.
pub fn rows(rows: &[Row]) -> String {
    let mut table = plain();
    let compared = rows.iter().any(|r| r.against.is_some());
    let mut header: Vec<&str> =
        "alg op key_bits len provider impl cycles/op cycles/B MB/s ci_low ci_high limit"
            .split(' ')
            .collect();
    if compared {
        header.extend(["ratio", "ratio_low", "ratio_high", "verdict"]);
    }
    let levels = rows.iter().any(|r| r.level != Level::Primitive);
    if levels {
        header.push("level");
    }
    let columns = header.len();
    table.set_header(header);
    let or_dash = |x: Option<String>| x.unwrap_or_else(|| "-".to_string());
    for r in rows {
        let mut cells = vec![
            r.alg.to_string(),
            r.op.to_string(),
            r.key_bits.to_string(),
            r.len.to_string(),
            r.provider.clone(),
            r.imp.clone(),
            fixed(r.cycles_per_op, 1),
            fixed(r.cycles_per_byte, 4),
            fixed(r.mb_per_s, 0),
            fixed(r.ci_low, 1),
            fixed(r.ci_high, 1),
            or_dash(r.limit_cycles.map(|l| format!("{l:.1}"))),
        ];
        if compared {
            let a = r.against.unwrap_or_default();
            for x in [a.ratio, a.ratio_low, a.ratio_high] {
                cells.push(or_dash(x.map(|x| format!("{x:.4}"))));
            }
            cells.push(or_dash(a.verdict.map(|v| v.to_string())));
        }
        if levels {
            cells.push(r.level.to_string());
        }
        table.add_row(cells);
    }
    align(&mut table, [2, 3].into_iter().chain(6..columns));
    text(&table)
}

/// With so many decimals; a dash for what could not be measured.
fn fixed(x: f64, decimals: usize) -> String {
    match x.is_finite() {
        true => format!("{x:.decimals$}"),
        false => "-".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::WIDTH;
    use kiln_lab::speed::Against;

    fn row(imp: &str, provider: &str, len: usize, cycles: f64) -> Row {
        Row {
            alg: "xts(aes)".into(),
            imp: imp.to_string(),
            provider: provider.to_string(),
            config: None,
            tier: None,
            level: Level::Primitive,
            op: "encrypt".into(),
            key_bits: 256,
            len,
            latency: false,
            cycles_per_op: cycles,
            cycles_per_byte: cycles / len as f64,
            mb_per_s: 1.0,
            ci_low: 0.99 * cycles,
            ci_high: 1.01 * cycles,
            limit_cycles: Some(len as f64 / 10.0),
            chain_cycles: None,
            against: None,
            together: false,
            best_peer: None,
        }
    }

    fn six(len: usize) -> Vec<Row> {
        let names = ["generic", "fixed-time", "aesni", "vaes-avx2", "vaes-avx512"];
        let mut rows: Vec<Row> = names
            .iter()
            .enumerate()
            .map(|(i, n)| row(&format!("xts-aes-{n}"), KILN, len, 99999.0 / (i + 1) as f64))
            .collect();
        rows.push(row("EVP_aes_256_xts", "openssl-3.0.17", len, 10.0));
        rows
    }

    #[test]
    fn the_usual_table_fits_80_columns() {
        let rows: Vec<Row> = [16, 1420, 16384].into_iter().flat_map(six).collect();
        let text = tables(&rows, false);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        let row: Vec<_> = text
            .lines()
            .find(|l| l.trim_start().starts_with("1420"))
            .unwrap()
            .split_whitespace()
            .collect();
        assert_eq!(row.len(), 9);
        assert_eq!((row[6], row[7], row[8]), ("0.007", "0.100", "1.0%"));
        assert!(!text.contains('\x1b'));
        assert!(tables(&rows, true).contains("\x1b[1m"), "the best is bold");
    }

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
        // A header, and of each algorithm a title, Kiln and two others.
        assert_eq!(text.lines().count(), 1 + 2 * 4, "{text}");
        assert!(text.contains("kiln vaes-avx512"), "{text}");
        assert!(text.contains("ipsec-mb-1.3.0 *"), "{text}");
        // The best of five, at 16 B.
        let kiln = text.lines().nth(2).unwrap();
        assert!(kiln.contains(" 1250 "), "{kiln}");
        assert!(compact(&rows, true).contains("\x1b[1m"));
        assert_eq!(compact(&[], false), "no figures\n");
    }

    #[test]
    fn each_operation_has_its_table_and_gaps_are_dashes() {
        let mut rows = six(16);
        rows.push(Row {
            op: "decrypt".into(),
            ..row("xts-aes-aesni", KILN, 64, 5.0)
        });
        rows.push(row("xts-aes-aesni", KILN, 64, 5.0));
        let text = tables(&rows, false);
        assert!(text.contains("encrypt") && text.contains("decrypt"));
        assert!(text.lines().any(|l| l.contains(" - ")));
        assert_eq!(tables(&[], false), "no figures\n");
    }

    #[test]
    fn a_sweep_shows_its_ends_and_a_baseline_its_ratios() {
        let sweep: Vec<Row> = (16..100).flat_map(six).collect();
        let text = tables(&sweep, false);
        assert!(text.contains("84 lengths from 16 to 99"), "{text}");
        assert!(text.lines().count() < 20);
        let compared = Row {
            against: Some(Against {
                ratio: Some(0.5),
                verdict: Some(Verdict::Same),
                ..Against::default()
            }),
            ..row("xts-aes-aesni", KILN, 64, 5.0)
        };
        assert!(tables(std::slice::from_ref(&compared), false).contains("=0.500"));
        assert!(rows(&[compared]).contains("verdict"));
    }

    #[test]
    fn a_tree_has_a_line_for_each_and_fits_80_columns() {
        let of = |imp: &str, level| Row {
            level,
            config: Some("kiln".into()),
            ..row(imp, "linux-6.12.117", 16, 40.0)
        };
        let long = "adiantum(xchacha12-generic,aes-generic,nhpoly1305-generic)";
        let mut rows = vec![
            row("xts-aes-aesni", KILN, 16, 20.0),
            of("aes_xts_encrypt_vaes_avx10_512", Level::Primitive),
            of(long, Level::Api),
        ];
        rows.extend((5..12).map(|n| row("xts-aes-aesni", KILN, 1 << n, 99999.0)));
        rows[2].cycles_per_byte = f64::NAN;
        let text = tables(&rows, false);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        let of = |name: &str| {
            let all = lines.iter().filter(|words| words.first() == Some(&name));
            all.map(|words| words[1..3].to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(of("aes_xts_encrypt_vaes_avx10_512").len(), 2, "{text}");
        assert_eq!(
            of("adiantum(xchacha…oly1305-generic)")[0],
            ["linux", "api"],
            "{text}"
        );
        assert!(tables(&rows, true).contains("\x1b[1m"));
        rows[0].against = Some(Against {
            ratio: Some(0.5),
            verdict: Some(Verdict::Faster),
            ..Against::default()
        });
        assert!(tables(&rows, false).contains("0.500"));
    }
}
