//! Formats the tables that `kiln speed` prints.

use comfy_table::{Attribute, Cell};
use kiln_measure::Verdict;
use kiln_question::table::{align, figure, plain, text};
use kiln_record::family;

use super::effort::SWEEP;
use super::row::Row;
use kiln_timing::{Level, KILN};

/// Number of implementations that fit on a line next to the length, the limit and the interval.
const COLUMNS: usize = 6;

/// Number of lengths that fit on a line next to an implementation's name, provider and level.
const LENGTHS: usize = 4;
/// Maximum width of an implementation's name in characters.
const NAME: usize = 33;

/// Formats one table for each combination of algorithm, operation, key size and mode. A table has
/// one line per length and one column per implementation.
pub(super) fn tables(rows: &[Row], tty: bool) -> String {
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

/// Returns the heading of an implementation's column.
fn title(row: &Row) -> String {
    // The heading has two lines, because names are long and numbers are short.
    if row.provider == KILN {
        let prefix = row.alg.replace(['(', ','], "-").replace(')', "") + "-";
        let name = row.imp.strip_prefix(&prefix).unwrap_or(&row.imp);
        return match row.level {
            Level::Primitive => name.replacen('-', "\n", 1),
            level => format!("{name}\n{level}"),
        };
    }
    let family = family(&row.provider);
    let version = row.provider[family.len()..].trim_start_matches('-');
    let mark = if row.together { "*" } else { "" };
    format!("{family}{mark}\n{version}")
}

/// Returns the part of a heading that states the row's number of threads.
pub(super) fn threads(row: &Row) -> String {
    let n = row.threads.map(|n| format!(", {n} threads"));
    n.unwrap_or_default()
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
    let mut out = format!(
        "{} {}{key}: cycles per byte, {calls}{}\n",
        first.alg,
        first.op,
        threads(first)
    );
    let (cold, rows): (Vec<&Row>, Vec<&Row>) = rows.iter().copied().partition(|row| row.cold);
    let cold = cold_table(&cold);
    let rows = &rows[..];
    let (mut columns, lens) = columns_and_lens(rows);
    if lens.len() > SWEEP {
        return out + &ends(rows, &columns, &lens);
    }
    // List a tree's implementations by name, because there are many of them and their names are
    // long.
    let own = |r: &&&Row| r.provider == KILN;
    let calls = rows.iter().filter(own).all(|r| r.level == Level::Api);
    if calls && rows.iter().any(|r| r.level == Level::Api)
        || rows.iter().any(|r| family(&r.provider) == "linux")
    {
        return out + &listed(rows, &columns, &lens, tty);
    }
    // If the columns do not fit side by side, keep Kiln's columns together.
    if columns.len() > COLUMNS {
        columns.sort_by_key(|c| c.provider != KILN);
    }
    let own = columns.iter().filter(|c| c.provider == KILN).count();
    let (own, others) = match columns.len() > COLUMNS {
        true => columns.split_at(own),
        false => columns.split_at(columns.len()),
    };
    for part in own.chunks(COLUMNS).chain(others.chunks(COLUMNS)) {
        out.push('\n');
        out.push_str(&part_of(rows, part, &lens, tty));
        if rows.iter().any(|r| r.against.is_some()) {
            out.push_str("\nmultiples of the baseline's cycles (below 1 is fewer; = no difference shown,\n? cycles and time disagree)\n\n");
            out.push_str(&by_column(rows, part, &lens, &against));
        }
        if first.threads.is_some() {
            for part in part.chunks(COLUMNS - 1) {
                out.push_str("\nGB/s of all threads @ the clock of a core in GHz\n\n");
                out.push_str(&by_column(rows, part, &lens, &total));
            }
        }
    }
    out + &cold
}

/// Returns the first row of each column, and the lengths in ascending order.
fn columns_and_lens<'a>(rows: &[&'a Row]) -> (Vec<&'a Row>, Vec<usize>) {
    let mut columns: Vec<&Row> = Vec::new();
    for row in rows {
        if !columns.iter().any(|c| c.same_curve(row)) {
            columns.push(row);
        }
    }
    let mut lens: Vec<usize> = rows.iter().map(|r| r.len).collect();
    lens.sort_unstable();
    lens.dedup();
    (columns, lens)
}

/// Formats the rows that were measured with cold caches.
fn cold_table(rows: &[&Row]) -> String {
    let (columns, lens) = columns_and_lens(rows);
    let mut out = String::new();
    for part in columns.chunks(COLUMNS) {
        out.push_str("\ncycles per message, cold caches\n\n");
        out.push_str(&by_column(rows, part, &lens, &|row| {
            figure(row.cycles_per_op)
        }));
    }
    out
}

/// Formats tables with one line per implementation and one column per length. Lengths that do not
/// fit in one table continue in the next.
fn listed(rows: &[&Row], columns: &[&Row], lens: &[usize], tty: bool) -> String {
    let mut out = String::new();
    for part in lens.chunks(LENGTHS) {
        let figures = |row: &Row| figure(row.cycles_per_byte);
        out.push('\n');
        out.push_str(&grid(rows, columns, part, tty, &figures));
    }
    if rows.iter().any(|r| r.against.is_some()) {
        out.push_str(
            "\nmultiples of the baseline's cycles (below 1 is fewer; = no difference shown,\n? cycles and time disagree)\n",
        );
        for part in lens.chunks(LENGTHS) {
            out.push('\n');
            out.push_str(&grid(rows, columns, part, false, &against));
        }
    }
    if rows.iter().any(|r| r.threads.is_some()) {
        out.push_str("\nGB/s of all threads @ the clock of a core in GHz\n");
        for part in lens.chunks(LENGTHS / 2) {
            out.push('\n');
            out.push_str(&grid(rows, columns, part, false, &total));
        }
    }
    out
}

/// Formats the ratio of a row's cycles to the baseline's cycles. The mark `=` means that no
/// difference was shown, and `?` that cycles and time disagree.
fn against(row: &Row) -> String {
    let mark = match row.against.and_then(|a| a.verdict) {
        Some(Verdict::Same) => "=",
        Some(Verdict::Disagree) => "?",
        _ => "",
    };
    let ratio = row.against.and_then(|a| a.ratio);
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
            level => level.name(),
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

/// Shortens a name to the maximum width by omitting its middle.
fn short(name: &str) -> String {
    let n = name.chars().count();
    if n <= NAME {
        return name.to_string();
    }
    let head: String = name.chars().take(NAME / 2).collect();
    let tail: String = name.chars().skip(n - (NAME - NAME / 2 - 1)).collect();
    format!("{head}…{tail}")
}

/// Finds the row that has the length `len` and the same candidate as `column`.
fn at<'a>(rows: &[&'a Row], column: &Row, len: usize) -> Option<&'a Row> {
    let found = rows.iter().find(|r| r.len == len && r.same_curve(column));
    found.copied()
}

/// Formats one part of a table, with at most [`COLUMNS`] implementations.
fn part_of(rows: &[&Row], columns: &[&Row], lens: &[usize], tty: bool) -> String {
    let mut table = plain();
    let mut header = vec!["bytes".to_string()];
    header.extend(columns.iter().map(|c| title(c)));
    header.extend(["limit".to_string(), "±".to_string()]);
    table.set_header(header);
    for &len in lens {
        let here: Vec<&Row> = columns.iter().filter_map(|c| at(rows, c, len)).collect();
        let all = rows.iter().filter(|r| r.len == len);
        let best = all.map(|r| r.cycles_per_op).fold(f64::INFINITY, f64::min);
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

/// Formats the total throughput of all threads, and the clock frequency of a core.
fn total(row: &Row) -> String {
    let all = row.all.as_ref();
    all.map_or("-".to_string(), |all| {
        format!("{} @{:.2}", figure(all.total_mb_per_s / 1e3), all.core_ghz)
    })
}

/// Formats a table with one line per length and one column per implementation. `text_of` converts a
/// row to the text of its cell.
fn by_column(
    rows: &[&Row],
    columns: &[&Row],
    lens: &[usize],
    text_of: &dyn Fn(&Row) -> String,
) -> String {
    let mut table = plain();
    let mut header = vec!["bytes".to_string()];
    header.extend(columns.iter().map(|c| title(c)));
    table.set_header(header);
    for &len in lens {
        let mut cells = vec![len.to_string()];
        for column in columns {
            cells.push(at(rows, column, len).map_or("-".to_string(), text_of));
        }
        table.add_row(cells);
    }
    align(&mut table, 0..columns.len() + 1);
    text(&table)
}

/// Formats only the shortest and the longest length of a sweep; notes describe the steps between
/// them.
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

/// Formats one line per row with all fields of the record, separated by spaces.
pub(super) fn rows(rows: &[Row]) -> String {
    let mut table = plain();
    let compared = rows.iter().any(|r| r.against.is_some());
    let mut header: Vec<&str> =
        "alg op key_bits len provider impl cycles/op cycles/B ns/op MB/s ci_low ci_high limit"
            .split(' ')
            .collect();
    if compared {
        header.extend(["ratio", "ratio_low", "ratio_high", "verdict"]);
    }
    let levels = rows.iter().any(|r| r.level != Level::Primitive);
    if levels {
        header.push("level");
    }
    let cold = rows.iter().any(|r| r.cold);
    if cold {
        header.push("caches");
    }
    let several = rows.iter().any(|r| r.threads.is_some());
    if several {
        header.extend(["threads", "total MB/s", "GHz"]);
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
            fixed(r.ns_per_op, 2),
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
        if cold {
            cells.push(if r.cold { "cold" } else { "warm" }.to_string());
        }
        if several {
            let all = r.all.as_ref();
            cells.push(or_dash(r.threads.map(|n| n.to_string())));
            cells.push(or_dash(all.map(|all| fixed(all.total_mb_per_s, 0))));
            cells.push(or_dash(all.map(|all| fixed(all.core_ghz, 2))));
        }
        table.add_row(cells);
    }
    align(&mut table, [2, 3].into_iter().chain(6..columns));
    text(&table)
}

/// Formats a number with a fixed number of decimals, or a dash if the value could not be measured.
fn fixed(x: f64, decimals: usize) -> String {
    match x.is_finite() {
        true => format!("{x:.decimals$}"),
        false => "-".to_string(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::speed::row::{Against, AllThreads};
    use kiln_question::table::WIDTH;

    pub(crate) fn row(imp: &str, provider: &str, len: usize, cycles: f64) -> Row {
        Row {
            alg: "xts(aes)".into(),
            imp: imp.to_string(),
            provider: provider.to_string(),
            op: "encrypt".into(),
            key_bits: 256,
            len,
            cycles_per_op: cycles,
            cycles_per_byte: cycles / len as f64,
            mb_per_s: 1.0,
            ci_low: 0.99 * cycles,
            ci_high: 1.01 * cycles,
            ns_per_op: cycles / 4.0,
            ns_low: 0.99 * cycles / 4.0,
            ns_high: 1.01 * cycles / 4.0,
            limit_cycles: Some(len as f64 / 10.0),
            ..Row::default()
        }
    }

    pub(crate) fn six(len: usize) -> Vec<Row> {
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
    fn calls_of_the_api_are_columns_and_a_contradiction_has_a_mark() {
        let api = |imp: &str, len| Row {
            level: Level::Api,
            against: Some(Against {
                ratio: Some(0.9),
                verdict: Some(Verdict::Disagree),
                ..Against::default()
            }),
            ..row(imp, KILN, len, 60.0)
        };
        let rows: Vec<Row> = [16, 1420]
            .into_iter()
            .flat_map(|len| {
                let mut rows = six(len);
                rows.extend([
                    api("xts-aes-vaes-avx512", len),
                    api("xts-aes-vaes-avx2", len),
                ]);
                rows
            })
            .collect();
        let text = tables(&rows, false);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        let heads = |word: &str| {
            text.lines()
                .any(|l| l.split_whitespace().any(|w| w == word))
        };
        assert!(
            heads("api") && heads("vaes-avx512") && heads("?0.900"),
            "{text}"
        );
        // A table that contains only requests has one line per implementation.
        assert!(tables(&[api("xts-aes-aesni", 16)], false).contains("implementation"));
    }

    #[test]
    fn cold_rows_have_a_table_of_their_own() {
        let cold = |len| {
            let own = six(len).into_iter().take(5);
            own.map(|row| Row {
                cold: true,
                cycles_per_op: 1234.0,
                ..row
            })
        };
        let lens = [16, 16384];
        let of: Vec<Row> = lens
            .into_iter()
            .flat_map(six)
            .chain(lens.into_iter().flat_map(cold))
            .collect();
        let text = tables(&of, false);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        let (warm, cold) = text.split_once("cycles per message, cold caches").unwrap();
        assert!(warm.contains("openssl") && !warm.contains("1234"), "{text}");
        assert_eq!(cold.matches("1234").count(), 2 * 5, "{text}");
        assert!(rows(&of).contains("caches") && !rows(&six(16)).contains("caches"));
    }

    #[test]
    fn several_threads_have_a_table_of_their_sum() {
        let all = |len| {
            six(len).into_iter().map(|row| Row {
                threads: Some(2),
                all: Some(AllThreads {
                    total_mb_per_s: 583.2,
                    core_ghz: 4.123,
                    ..AllThreads::default()
                }),
                ..row
            })
        };
        let of: Vec<Row> = [16, 16384].into_iter().flat_map(all).collect();
        let text = tables(&of, false);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert!(text.contains("independent calls, 2 threads\n"), "{text}");
        assert_eq!(text.matches("0.583 @4.12").count(), 2 * 6, "{text}");
        assert!(rows(&of).contains("total MB/s"));
        assert!(!tables(&six(16), false).contains("threads"));
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
