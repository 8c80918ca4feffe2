//! Formats the table that `kiln libraries` prints.

use kiln_question::table::{align, paragraph, plain, text};

use super::row::Row;
use kiln_timing::peer::installed::directory;

/// Formats one line per library, then the commands that install the current versions, then the
/// reasons why some libraries are missing.
pub(super) fn format_table(rows: &[Row]) -> String {
    let mut table = plain();
    table.set_header(["library", "version", "series of", "place"]);
    for row in rows {
        table.add_row([
            row.name.clone(),
            row.version.clone().unwrap_or_else(|| "-".to_string()),
            row.year.map_or_else(|| "-".to_string(), |y| y.to_string()),
            match (row.place, &row.file) {
                // Do not show paths in the cache, which are long and all have the same form.
                (Some(place @ ("cache" | "program")), _) => place.to_string(),
                (Some(place), Some(file)) => format!("{place}: {file}"),
                _ => "not here".to_string(),
            },
        ]);
    }
    align(&mut table, [2]);
    let mut out = text(&table);
    if let Some(cache) = directory().filter(|_| rows.iter().any(|r| r.place == Some("cache"))) {
        out.push_str(&(paragraph(&format!("cache: {}", cache.display())) + "\n"));
    }
    out.push_str("\nHow to get the current version:\n");
    for row in rows {
        out.push_str(&(paragraph(&format!("  {}: {}", row.name, row.get)) + "\n"));
    }
    for why in rows.iter().filter_map(|r| r.reason.as_ref()) {
        out.push_str(&(paragraph(why) + "\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_has_its_reason_and_remedy() {
        let here = Row {
            name: "openssl".into(),
            available: true,
            version: Some("4.0.3".into()),
            year: Some(2026),
            place: Some("cache"),
            file: Some("/c/openssl-4.0.3/libcrypto.so".into()),
            get: "kiln libraries install openssl".into(),
            reason: None,
        };
        let missing = Row {
            name: "aws-lc".into(),
            get: "kiln libraries install aws-lc".into(),
            reason: Some("peer aws-lc is not here: no file".into()),
            ..Row::default()
        };
        let text = format_table(&[here, missing]);
        for line in [
            "openssl  4.0.3         2026  cache",
            "cache: /",
            "aws-lc   -                -  not here",
            "  aws-lc: kiln libraries install aws-lc",
            "peer aws-lc is not here: no file",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
