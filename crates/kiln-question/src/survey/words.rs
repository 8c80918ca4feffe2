//! Reads record fields, and formats numbers for use in sentences.

use kiln_record::family;
use serde_json::Value;

/// Returns the text in a field, or an empty string if the field does not hold text.
pub fn word<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

/// Returns the number in a field, or `None` if the field does not hold a finite number.
pub fn number(row: &Value, field: &str) -> Option<f64> {
    row[field].as_f64().filter(|x| x.is_finite())
}

/// Returns whether every (field, text) pair in `wanted` matches the row.
pub fn has(row: &Value, wanted: &[(&str, &str)]) -> bool {
    wanted.iter().all(|(field, w)| word(row, field) == *w)
}

/// Formats a number with at most two decimals and, from 1 upwards, three significant digits.
/// Numbers of 100 or more are rounded to whole numbers and get thousands separators.
pub fn figure(x: f64) -> String {
    match x.abs() {
        a if a < 9.995 => format!("{x:.2}"),
        a if a < 99.95 => format!("{x:.1}"),
        _ => thousands(x),
    }
}

/// Formats a whole number with thousands separators.
pub fn thousands(x: f64) -> String {
    let digits = format!("{:.0}", x.abs());
    let mut text = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(c);
    }
    if x < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

/// Formats a library's name and version for use in a sentence: `openssl-3.0.19` becomes `openssl
/// 3.0.19`.
pub fn library(provider: &str) -> String {
    let family = family(provider);
    let version = provider[family.len()..].trim_start_matches('-');
    format!("{family} {version}").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        assert_eq!(figure(1.294), "1.29");
        assert_eq!(figure(-1234.5), "-1,234");
        assert_eq!(thousands(999.0), "999");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(library("openssl-3.0.19"), "openssl 3.0.19");
        assert_eq!(library("libgcrypt-1.10.1"), "libgcrypt 1.10.1");
    }
}
