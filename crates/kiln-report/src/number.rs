//! Formats numbers for display.

use kiln_record::{Field, Row};
use serde_json::Value;

use crate::record::number;

/// Formats a number with up to three significant digits. A number of 100 or more is rounded to an
/// integer instead.
pub(crate) fn short(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => "-".to_string(),
        0.0 => "0".to_string(),
        a if a >= 99.95 => format!("{x:.0}"),
        a if a >= 9.995 => format!("{x:.1}"),
        a if a >= 0.9995 => format!("{x:.2}"),
        a if a >= 0.0995 => format!("{x:.3}"),
        a if a >= 0.0001 => format!("{x:.4}"),
        _ => format!("{x:.1e}"),
    }
}

/// Formats a time given in microseconds, converted to s, ms, µs or ns depending on its size.
pub(crate) fn micros(us: f64) -> String {
    match us {
        0.0 => "0".to_string(),
        us if us >= 999_999.5 => format!("{} s", trim(us / 1e6)),
        us if us >= 999.95 => format!("{} ms", trim(us / 1e3)),
        us if us >= 0.9995 => format!("{} µs", trim(us)),
        us => format!("{} ns", trim(us * 1e3)),
    }
}

/// Formats a number, using the SI prefixes k and M for large numbers.
pub(crate) fn scaled(x: f64) -> String {
    match x {
        x if x >= 999_999.5 => format!("{} M", trim(x / 1e6)),
        x if x >= 9_999.5 => format!("{} k", trim(x / 1e3)),
        x => short(x),
    }
}

fn trim(x: f64) -> String {
    let text = short(x);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// Formats a JSON value for display. Null becomes a dash, and booleans become `yes` or `no`.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::Null => "-".to_string(),
        Value::Bool(true) => "yes".to_string(),
        Value::Bool(false) => "no".to_string(),
        Value::Number(n) => match (n.as_u64(), n.as_f64()) {
            (Some(n), _) => n.to_string(),
            (_, Some(x)) => short(x),
            _ => n.to_string(),
        },
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A row's result, formatted for display.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shown {
    /// The formatted result.
    pub text: String,
    /// Lower and upper end of the interval.
    pub ends: Option<(f64, f64)>,
    /// The result as a number, which also serves as the sort key.
    pub value: Option<f64>,
}

/// Formats a row's result with its interval. An interval that does not contain the result is
/// dropped, because the interval's fields may belong to another result.
pub(crate) fn figure(row: &Row, figure: &Field) -> Shown {
    let value = number(row, &figure.name);
    let ends = figure
        .interval
        .as_ref()
        .and_then(|(low, high)| number(row, low).zip(number(row, high)));
    Shown {
        text: row.get(&figure.name).map_or("-".to_string(), self::value),
        ends: ends.filter(|(low, high)| value.is_some_and(|x| (*low..=*high).contains(&x))),
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (x, text) in [
            (0.0, "0"),
            (12345.6, "12346"),
            (99.96, "100"),
            (45.67, "45.7"),
            (9.996, "10.0"),
            (1.0, "1.00"),
            (0.1094, "0.109"),
            (0.0123, "0.0123"),
            (0.00001, "1.0e-5"),
            (-3.5, "-3.50"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(short(x), text);
        }
        for (us, text) in [
            (0.064, "64 ns"),
            (1.0, "1 µs"),
            (16.384, "16.4 µs"),
            (1000.0, "1 ms"),
            (2.5e6, "2.5 s"),
        ] {
            assert_eq!(micros(us), text);
        }
        for (x, text) in [
            (50.0, "50.0"),
            (2e4, "20 k"),
            (5e5, "500 k"),
            (1.5e6, "1.5 M"),
        ] {
            assert_eq!(scaled(x), text);
        }
    }
}
