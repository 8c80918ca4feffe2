//! What SIMD in softirqs costs, and what nested sections lose, in plain language.

use serde_json::Value;

use super::{figure, has, library, number, thousands, word};
use crate::survey::question::{self, Question};
use crate::survey::row::Row;

/// The length at which the detour through the simd helper was published.
const SHORT: f64 = 16.0;

/// Through the simd helper at 16 bytes, cycles over those of a direct call.
fn helper<'a>(rows: &[&'a Value], policy: &dyn Fn(&str) -> bool) -> Option<(&'a Value, f64)> {
    let wanted = |r: &&&Value| {
        word(r, "path") == "simd-helper"
            && number(r, "len") == Some(SHORT)
            && policy(word(r, "policy"))
    };
    let row = rows.iter().find(wanted)?;
    Some((row, number(row, "ratio")?))
}

pub(super) fn detour(rows: &[&Value]) -> Option<Row> {
    let question = Question::SoftirqSimd;
    let (row, ratio) = helper(rows, &|p| p == "legacy")?;
    let text = format!(
        "Calling AES-XTS directly is {} times as fast as through the simd helper at 16 bytes; published {}",
        figure(ratio),
        figure(question::DIRECT_TO_HELPER)
    );
    let new = Row::new(question, ratio, "times", text);
    let new = new.within(number(row, "ci_low"), number(row, "ci_high"));
    Some(new.beside(question, question::DIRECT_TO_HELPER))
}

pub(super) fn detour_of_tree(rows: &[&Value]) -> Option<Row> {
    let question = Question::SoftirqSimd;
    let (row, ratio) = helper(rows, &|p| p.starts_with("tree:"))?;
    let text = format!(
        "In {}, its own code, it is {} times",
        library(word(row, "provider")),
        figure(ratio)
    );
    let new = Row::new(question, ratio, "times", text);
    let new = new.within(number(row, "ci_low"), number(row, "ci_high"));
    Some(new.beside(question, question::DIRECT_TO_HELPER))
}

pub(super) fn policies(rows: &[&Value]) -> Option<Row> {
    let of = |policy: &str| {
        rows.iter().copied().find(|r| {
            has(
                r,
                &[("policy", policy), ("load", "xts-16"), ("inject", "timer")],
            ) && r["control"] == false
        })
    };
    let told: Vec<String> = ["bh-off", "nested", "preemptible"]
        .iter()
        .filter_map(|policy| {
            let ratio = number(of(policy)?, "ratio")?;
            Some(format!("{:.0} % under {policy}", 100.0 * ratio))
        })
        .collect();
    let row = of("bh-off")?;
    let ratio = number(row, "ratio")?;
    let text = format!(
        "Of its speed under legacy a task of 16-byte messages keeps {}",
        told.join(", ")
    );
    let new = Row::new(Question::SoftirqSimd, ratio, "times", text).by("kiln fpu");
    Some(new.within(number(row, "ratio_low"), number(row, "ratio_high")))
}

pub(super) fn interrupted(rows: &[&Value]) -> Option<Row> {
    let real: Vec<_> = rows.iter().filter(|r| r["control"] == false).collect();
    let sum = |none: bool, fields: &[&str]| -> f64 {
        let of = real
            .iter()
            .filter(|r| (word(r, "policy") == "none") == none);
        of.flat_map(|r| fields.iter().filter_map(|f| number(r, f)))
            .sum()
    };
    let (hit, wrong) = (
        sum(false, &["irqs_in_section"]),
        sum(false, &["corrupted", "user_corrupted"]),
    );
    if hit == 0.0 {
        return None;
    }
    let mut sound: Vec<&str> = real.iter().map(|r| word(r, "policy")).collect();
    sound.retain(|p| *p != "none");
    sound.sort_unstable();
    sound.dedup();
    let (broken_hit, broken) = (sum(true, &["irqs_in_section"]), sum(true, &["corrupted"]));
    let control = match broken_hit > 0.0 {
        true => format!(
            "; the broken control, which saves nothing: {} wrong after {}",
            thousands(broken),
            thousands(broken_hit)
        ),
        false => String::new(),
    };
    let text = format!(
        "{} interrupts into FPU sections under {} policies: {} results wrong{control}",
        thousands(hit),
        sound.len(),
        thousands(wrong)
    );
    Some(Row::new(Question::NestedFpu, wrong, "wrong", text).by("kiln fpu --inject step"))
}

pub(super) fn ipsec(rows: &[&Value]) -> Option<Row> {
    let question = Question::NestedFpu;
    let of = |policy: &str| {
        let real = |r: &&&Value| word(r, "policy") == policy && r["control"] == false;
        rows.iter().copied().find(|r| real(&r))
    };
    let (direct, cryptd) = (of("bh-off")?, of("legacy")?);
    let ratio = number(direct, "esp_ratio")?;
    let rate = |r: &Value| number(r, "esp_mb_per_s").map_or("-".to_string(), figure);
    let drained = match (number(cryptd, "recovery_us"), number(direct, "recovery_us")) {
        (Some(slow), Some(fast)) => format!(
            "; after it cryptd needs {} ms to drain, not {}",
            figure(slow / 1e3),
            figure(fast / 1e3)
        ),
        _ => String::new(),
    };
    let text = format!(
        "IPsec under high load is {} times as fast where softirqs may use the FPU as where cryptd works for them ({} and {} \
         MB/s); published about 3{drained}",
        figure(ratio),
        rate(direct),
        rate(cryptd)
    );
    let new = Row::new(question, ratio, "times", text);
    let new = new.within(
        number(direct, "esp_ratio_low"),
        number(direct, "esp_ratio_high"),
    );
    Some(new.beside(question, question::ESP_TO_CRYPTD))
}
