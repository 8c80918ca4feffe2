//! Records in plain language: a sentence for each figure that a question comes down to.

mod budget;
mod compilers;
mod ctrlq;
mod fpu;
mod speed;

use serde_json::Value;

use super::answer::Answer;
use super::part::Part;
use super::question::Question;
use super::row::Row;
use crate::speed::family;

/// What the answers so far say to a question; nothing if none of them does.
pub fn rows(question: Question, answers: &[Answer]) -> Vec<Row> {
    let of = |part| -> Vec<&Value> {
        let answers = answers.iter().filter(|a| a.part == part);
        answers.flat_map(|a| a.rows()).collect()
    };
    match question {
        Question::Speed => {
            let first = of(Part::Speed);
            let mut rows: Vec<Row> = speed::throughput(&first).into_iter().collect();
            rows.extend(speed::beside_peers(&first));
            rows.extend(speed::beside_tree(&of(Part::TreeSpeed)));
            let more = of(Part::MoreSpeed);
            if !more.is_empty() {
                rows.extend(speed::all_ciphers(&[first, more].concat()));
            }
            rows
        }
        Question::SoftirqSimd => {
            let mut rows: Vec<Row> = fpu::detour(&of(Part::Ways)).into_iter().collect();
            rows.extend(fpu::detour_of_tree(&of(Part::TreeWays)));
            rows.extend(fpu::policies(&of(Part::Policies)));
            rows
        }
        Question::NestedFpu => {
            let counted = [of(Part::Policies), of(Part::Breakpoints)].concat();
            let mut rows: Vec<Row> = fpu::interrupted(&counted).into_iter().collect();
            rows.extend(fpu::ipsec(&of(Part::Esp)));
            rows
        }
        Question::FpuBudget => {
            let all = of(Part::Budget);
            budget::classes(&all)
                .into_iter()
                .chain(budget::sections(&all))
                .collect()
        }
        Question::Compilers => {
            let all = of(Part::Compilers);
            compilers::cells(&all)
                .into_iter()
                .chain(compilers::compilers(&all))
                .collect()
        }
        Question::Ctrlq => ctrlq::waiting(&of(Part::Ctrlq)).into_iter().collect(),
    }
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

    fn answer(part: Part, rows: Value) -> Answer {
        let record = json!({"command": "x", "rows": rows, "notes": []});
        let left = Left {
            status: Ok(0),
            output: record.to_string().into_bytes(),
            said: None,
        };
        Answer::of(part, left)
    }

    fn one(question: Question, answers: &[Answer]) -> Row {
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
    fn the_detour_stands_beside_the_published_one() {
        let of = |policy: &str, len: u32, path: &str, ratio: f64| {
            json!({"policy": policy, "len": len, "path": path, "ratio": ratio, "ci_low": ratio - 0.01,
                   "ci_high": ratio + 0.01})
        };
        let ways = json!([
            of("bh-off", 16, "simd-helper", 1.9),
            of("legacy", 512, "simd-helper", 1.1),
            of("legacy", 16, "direct", 1.0),
            of("legacy", 16, "simd-helper", 1.29)
        ]);
        let row = one(Question::SoftirqSimd, &[answer(Part::Ways, ways)]);
        assert_eq!(
            row.headline.unwrap(),
            "Calling AES-XTS directly is 1.29 times as fast as through the simd helper at 16 bytes; published 1.27"
        );
        assert_eq!((row.value, row.low), (Some(1.29), Some(1.28)));
        assert!((row.ratio.unwrap() - 1.29 / (487.0 / 384.0)).abs() < 1e-9);
        assert!(row.source.unwrap().contains("Ryzen"));
    }

    #[test]
    fn wrong_results_are_counted_where_none_are_allowed() {
        let of = |policy: &str, control: bool, hit: u32, wrong: u32| json!({"policy": policy, "control": control, "irqs_in_section": hit, "corrupted": wrong, "user_corrupted": 0});
        let told = |wrong| {
            let table = json!([
                of("legacy", false, 500, 0),
                of("legacy", true, 900, 0),
                of("none", false, 100, 40)
            ]);
            let random = json!([
                of("nested", false, 1_000_000, wrong),
                of("none", false, 2000, 900)
            ]);
            let answers = [
                answer(Part::Policies, table),
                answer(Part::Breakpoints, random),
            ];
            one(Question::NestedFpu, &answers)
        };
        assert_eq!(
            told(0).headline.unwrap(),
            "1,000,500 interrupts into FPU sections under 2 policies: 0 results wrong; the broken control, which saves nothing: \
             940 wrong after 2,100"
        );
        assert_eq!(told(7).value, Some(7.0));
    }

    #[test]
    fn ipsec_and_its_recovery() {
        let of = |policy: &str, mb: f64, ratio: f64, us: f64| {
            json!({"policy": policy, "control": false, "esp_mb_per_s": mb, "esp_ratio": ratio, "esp_ratio_low": ratio,
                   "esp_ratio_high": ratio, "recovery_us": us})
        };
        let rows = json!([
            of("legacy", 131.0, 1.0, 5200.0),
            of("bh-off", 400.4, 3.06, 90.0)
        ]);
        let text = one(Question::NestedFpu, &[answer(Part::Esp, rows)])
            .headline
            .unwrap();
        assert!(
            text.contains("is 3.06 times")
                && text.contains("(400 and 131 MB/s); published about 3")
        );
        assert!(text.ends_with("needs 5.20 ms to drain, not 0.09"), "{text}");
    }

    #[test]
    fn classes_are_ranges_and_sections_the_worst() {
        let of = |alg: &str, mode: &str, kib: u32, p95: f64| json!({"alg": alg, "mode": mode, "fits_bytes": kib * 1024, "section_us_p95": p95, "target_us": 30.0});
        let rows_of = json!([
            of("sha256", "fixed", 60, 10.0),
            of("sm3", "fixed", 16, 36.0),
            of("sm3", "clocked", 16, 28.0),
            of("crc32c", "clocked", 900, 30.5)
        ]);
        let all = rows(Question::FpuBudget, &[answer(Part::Budget, rows_of)]);
        let text = all[0].headline.as_deref().unwrap();
        assert_eq!(
            text,
            "30 µs hold 16 to 60 KiB of sha*/sm3, 900 KiB of crc*; published 10-20, 600-800"
        );
        assert_eq!((all[0].value, all[0].baseline), (Some(16.0), Some(10.0)));
        let text = all[1].headline.as_deref().unwrap();
        assert!(
            text.contains("within 36.0 µs at worst (sm3), by the clock within 30.5"),
            "{text}"
        );
    }

    #[test]
    fn the_worst_cell_is_over_the_best() {
        let of = |cc: &str, variant: &str, opt: &str, status: &str, cycles: f64| {
            json!({"cc": cc, "variant": variant, "opt": opt, "status": status, "cycles_per_byte": cycles,
                   "ci_low": cycles * 0.99, "ci_high": cycles * 1.01})
        };
        let both = json!([
            of("gcc-12", "default", "O2", "ok", 12.0),
            of("gcc-12", "ubsan", "O2", "ok", 60.0),
            of("gcc-12", "ubsan", "O3", "ok", 99.0),
            of("clang-14", "patched", "O2", "wrong", 1.0),
            of("clang-14", "default", "O2", "ok", 15.0),
            of("-", "-", "-", "ok", 2.0)
        ]);
        let all = rows(Question::Compilers, &[answer(Part::Compilers, both)]);
        let text = all[0].headline.as_deref().unwrap();
        assert!(
            text.contains("5.00 times as long at worst (gcc-12 ubsan: 60.0"),
            "{text}"
        );
        assert!(
            text.ends_with("as at best (gcc-12: 12.0); published 9.24"),
            "{text}"
        );
        let text = all[1].headline.as_deref().unwrap();
        assert!(
            text.contains("clang-14 makes it 1.25 times as slow as gcc-12; published 1.24"),
            "{text}"
        );
    }

    #[test]
    fn waiting_stands_beside_polling() {
        let of = |mode: &str, ctrl: &str, workers: u32, ops: f64| json!({"mode": mode, "ctrl": ctrl, "workers": workers, "ops_per_s": ops, "lat_us_p999": 2000.0});
        let rows_of = json!([
            of("wait", "thread", 8, 16_000.0),
            of("poll", "thread", 1, 90_000.0),
            of("poll", "thread", 8, 32_000.0),
            of("wait", "inline", 8, 110_000.0),
            of("poll", "inline", 8, 390_000.0)
        ]);
        let row = one(Question::Ctrlq, &[answer(Part::Ctrlq, rows_of)]);
        assert_eq!((row.value, row.baseline), (Some(0.5), Some(5.0)));
        let text = row.headline.unwrap();
        assert!(
            text.contains("get 16.0 K operations a second by waiting, 32.0 K by polling"),
            "{text}"
        );
        assert!(text.contains("110 K and 390 K"), "{text}");
    }

    #[test]
    fn speed_is_told_of_the_usual_length_or_the_longest_there_is() {
        let of = |imp: &str, len: u32, cycles: f64| {
            json!({"provider": "kiln", "op": "encrypt", "impl": imp, "len": len, "cycles_per_op": cycles, "mb_per_s": 2e4,
                   "ci_low": cycles * 0.5, "ci_high": cycles * 2.0, "limit_cycles": 100.0})
        };
        let mut all = vec![of("slow", 1024, 300.0), of("fast", 1024, 200.0)];
        let told = |all: &[Value]| one(Question::Speed, &[answer(Part::Speed, json!(all))]);
        let row = told(&all);
        assert_eq!(
            row.headline.unwrap(),
            "AES-256-XTS runs at 20.0 GB/s a core, 50 % of what its AES unit can do (1024 B, fast)"
        );
        assert_eq!((row.low, row.high), (Some(1e4), Some(4e4)));
        all.extend([of("fast", 4096, 900.0), of("fast", 16384, 3000.0)]);
        all[2]["best_peer"] = json!("EVP");
        all[2]["best_peer_provider"] = json!("openssl-3.0.19");
        all[2]["best_peer_ratio"] = json!(0.25);
        let rows = rows(Question::Speed, &[answer(Part::Speed, json!(all))]);
        assert!(rows[0]
            .headline
            .as_deref()
            .unwrap()
            .contains("11 % of what its AES unit can do (4096 B"));
        assert_eq!(
            rows[1].headline.as_deref().unwrap(),
            "That is 4.00 times as fast as openssl 3.0.19, the fastest other library here"
        );
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
