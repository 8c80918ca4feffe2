//! Formats the human-readable table of `budget --tree`.

use kiln_question::table::{align, figure, plain, text};

use super::row::Row;

/// Formats one line per function, with one column per length.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let mut lengths: Vec<u64> = rows.iter().map(|r| r.bytes).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let functions = || rows.chunk_by(is_same);
    // Omit columns for lengths that occur only because a few functions do not accept longer
    // messages.
    let many = |n: u64| rows.iter().filter(|r| r.bytes == n).count();
    let most = lengths.iter().map(|&n| many(n)).max().unwrap_or(0);
    let columns: Vec<u64> = lengths
        .into_iter()
        .filter(|&n| 2 * many(n) > most)
        .collect();
    let mut table = plain();
    let mut head = vec!["function".to_string()];
    head.extend(columns.iter().map(|&n| size(n)));
    head.push("bound".to_string());
    table.add_row(head);
    for function in functions() {
        let mut line = vec![label(&function[0], rows)];
        for &n in &columns {
            let row = function.iter().find(|r| r.bytes == n);
            line.push(row.map_or("-".to_string(), |r| figure(r.section_us)));
        }
        line.push(function[0].bound.map_or("none".to_string(), size));
        table.add_row(line);
    }
    align(&mut table, 1..columns.len() + 2);
    format!(
        "The longest FPU section of one call in µs, by message length. Preemption and\n\
         softirqs are off meanwhile. \"bound\": sections do not grow after these bytes.\n\n{}{}{}",
        text(&table),
        footnote(rows),
        format_delays(rows)
    )
}

/// Rows of functions whose names end in `_update` describe a series of calls. This function is the
/// only exception: its rows describe a single call, which continues a CRC.
const ONE_CALL: &str = "crc_t10dif_update";

/// Explains rows that describe a series of calls. Returns an empty string if `rows` contains none.
fn footnote(rows: &[Row]) -> String {
    let series = |r: &Row| r.function.ends_with("_update") && r.function != ONE_CALL;
    match rows.iter().any(series) {
        false => String::new(),
        true => format!(
            "\nNAME_update: a series of calls for one message: init, two updates with half of\n\
             the message each, and final; the length and the bound are the message's. Only\n\
             {ONE_CALL} is a single call.\n"
        ),
    }
}

/// Formats the softirq delays of functions without a bound, at the shortest and the longest message
/// length.
fn format_delays(rows: &[Row]) -> String {
    let mut table = plain();
    table.add_row(["function", "message", "p50", "max", "message", "p50", "max"]);
    let mut lines = 0;
    for function in rows.chunk_by(is_same).filter(|f| f[0].bound.is_none()) {
        let measured: Vec<&Row> = function.iter().filter(|r| r.delays > 0).collect();
        let [short, .., long] = measured[..] else {
            continue;
        };
        let time = |us: Option<f64>| us.map_or("-".to_string(), figure);
        let mut line = vec![label(short, rows)];
        for row in [short, long] {
            line.extend([
                size(row.bytes),
                time(row.delay_us_p50),
                time(row.delay_us_max),
            ]);
        }
        table.add_row(line);
        lines += 1;
    }
    if lines == 0 {
        return String::new();
    }
    align(&mut table, 1..7);
    format!(
        "\nDelay of a softirq in µs, from a timer interrupt at a random moment to the\n\
         softirq's start, while a task calls the function:\n\n{}",
        text(&table)
    )
}

fn is_same(a: &Row, b: &Row) -> bool {
    (&a.function, &a.alg, &a.op) == (&b.function, &b.alg, &b.op)
}

/// Returns the name of the function, followed by the algorithm if several functions have that name.
fn label(row: &Row, rows: &[Row]) -> String {
    let alike = |r: &&Row| r.function == row.function && r.alg != row.alg;
    match rows.iter().find(alike) {
        Some(_) => format!("{} {}", row.function, row.alg),
        None => row.function.clone(),
    }
}

/// Formats a size in bytes with the largest unit that gives a whole number.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        n if n > 0 && n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n > 0 && n % (1 << 10) == 0 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(function: &str, bytes: u64, section_us: f64, bound: Option<u64>) -> Row {
        Row {
            function: function.to_string(),
            bytes,
            section_us,
            bound,
            ..Row::default()
        }
    }

    #[test]
    fn a_function_has_one_line_of_at_most_80_columns() {
        let name = "chacha20poly1305_encrypt_sg_inplace";
        let mut rows = Vec::new();
        for n in [4 << 10, 64 << 10, 1 << 20, 10 << 20] {
            rows.push(row(name, n, 12_345.6, Some(65536)));
        }
        for n in [4 << 10, 64 << 10, 1 << 20, 10 << 20] {
            rows.push(Row {
                delays: 3,
                ..row("sha256", n, 12_345.6, None)
            });
        }
        rows.push(row("nh", 1024, 0.12, Some(1024)));
        rows.push(row("hchacha_block", 16, 0.1, Some(16)));
        let table = format_tables(&rows);
        assert!(table.lines().all(|l| l.chars().count() <= 80), "{table}");
        assert_eq!(table.lines().filter(|l| l.starts_with(name)).count(), 1);
        let sha = table.lines().find(|l| l.starts_with("sha256")).unwrap();
        assert!(!table.contains(" 16 B  "), "{table}");
        assert!(sha.ends_with("12346    none"), "{sha}");
        assert!(table.contains("Delay of a softirq"), "{table}");
    }

    #[test]
    fn rows_of_a_series_of_calls_have_a_footnote() {
        let table = |function| format_tables(&[row(function, 4096, 1.0, None)]);
        let explained = table("sha256_update");
        assert!(explained.contains("two updates with half"), "{explained}");
        assert!(explained.lines().all(|l| l.chars().count() <= 80));
        for function in ["sha256", ONE_CALL] {
            assert!(!table(function).contains("two updates"), "{function}");
        }
    }

    #[test]
    fn sizes_are_whole_numbers() {
        assert_eq!(size(10 << 20), "10 MiB");
        assert_eq!(size(4096), "4 KiB");
        assert_eq!(size(1000), "1000 B");
        assert_eq!(size(0), "0 B");
    }
}
