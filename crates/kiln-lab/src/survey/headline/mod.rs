//! Records in plain language: a sentence for each figure that a question comes down to.

mod budget;
mod compilers;
mod ctrlq;
mod fpu;
mod ipsec;
mod speed;

use serde_json::Value;

use super::answer::Answer;
use super::part::Part;
use super::question::Question;
use super::row::Row;
use super::runs::Runs;
use kiln_record::family;

/// The sentences that the answers so far carry; none if they carry none.
pub fn rows(question: Question, answers: &[Answer]) -> Vec<Row> {
    let of = |parts: &[Part]| Runs::of(answers, parts);
    let rows = match question {
        Question::Speed => {
            let first = of(&[Part::Speed]);
            let both = of(&[Part::Speed, Part::MoreSpeed]);
            let more = !of(&[Part::MoreSpeed]).is_empty();
            // What a kernel developer compares with comes before libraries.
            vec![
                speed::throughput(&first),
                speed::against_tree(&of(&[Part::TreeSpeed])),
                speed::against_peers(&first),
                more.then(|| speed::all_ciphers(&both)).flatten(),
                more.then(|| speed::several_messages(&both)).flatten(),
            ]
        }
        Question::SoftirqSimd => vec![
            fpu::direct_to_helper(&of(&[Part::Ways])),
            fpu::other_sections(&of(&[Part::Ways])),
            fpu::detour_of_tree(&of(&[Part::TreeWays])),
        ],
        Question::NestedFpu => vec![
            fpu::interrupted(&of(&[Part::Policies, Part::Breakpoints])),
            ipsec::knees(&of(&[Part::Esp])),
        ],
        Question::FpuBudget => {
            let all = of(&[Part::Budget]);
            vec![
                budget::held(&all),
                budget::budgets(&all),
                budget::posted(&all),
            ]
        }
        Question::Compilers => {
            let all = of(&[Part::Compilers]);
            vec![compilers::cells(&all), compilers::compilers(&all)]
        }
        Question::Ctrlq => ctrlq::waiting(&of(&[Part::Ctrlq])),
    };
    rows.into_iter().flatten().collect()
}

/// Whether interrupts into sections were counted without the power to see a loss: a check that failed.
pub fn is_blind(answers: &[Answer]) -> bool {
    fpu::is_blind(&Runs::of(answers, &[Part::Policies, Part::Breakpoints]))
}

fn word<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

fn number(row: &Value, field: &str) -> Option<f64> {
    row[field].as_f64().filter(|x| x.is_finite())
}

/// Whether fields have these words.
fn has(row: &Value, wanted: &[(&str, &str)]) -> bool {
    wanted.iter().all(|(field, w)| word(row, field) == *w)
}

/// Three digits.
fn figure(x: f64) -> String {
    match x.abs() {
        a if a < 9.995 => format!("{x:.2}"),
        a if a < 99.95 => format!("{x:.1}"),
        _ => thousands(x),
    }
}

/// A whole number with commas.
fn thousands(x: f64) -> String {
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

/// Name and version as a sentence has them: `openssl-3.0.19` is openssl 3.0.19.
fn library(provider: &str) -> String {
    let family = family(provider);
    let version = provider[family.len()..].trim_start_matches('-');
    format!("{family} {version}").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::child::Left;
    use serde_json::json;

    pub(super) fn answer(part: Part, rows: Value) -> Answer {
        let record = json!({"command": "x", "rows": rows, "notes": []});
        let left = Left {
            status: Ok(0),
            output: record.to_string().into_bytes(),
            said: None,
        };
        Answer::of(part, left)
    }

    pub(super) fn sentences(question: Question, answers: &[Answer]) -> Vec<String> {
        let rows = rows(question, answers).into_iter();
        rows.map(|r| r.headline.unwrap()).collect()
    }

    pub(super) fn one(question: Question, answers: &[Answer]) -> Row {
        let rows = rows(question, answers);
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.into_iter().next().unwrap()
    }

    #[test]
    fn no_records_no_headlines() {
        for question in Question::ALL {
            assert_eq!(rows(question, &[]), []);
            let empty = [
                Part::Speed,
                Part::Ways,
                Part::Policies,
                Part::Esp,
                Part::Budget,
            ]
            .map(|p| answer(p, json!([{"policy": "legacy"}, {}])));
            assert_eq!(rows(question, &empty), [], "{question:?}");
        }
    }

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
