//! Records in plain language: a sentence for each figure that a question comes down to.

use serde_json::Value;

use super::answer::Answer;
use super::part::Part;
use super::question::{self, Question};
use super::row::Row;
use crate::ctrlq::paper;
use crate::speed;

/// A usual length of a disk's sector, of which speeds are told.
const USUAL: f64 = 4096.0;
/// The length at which the detour through the simd helper was published.
const SHORT: f64 = 16.0;
/// Workers of the published figures.
const WORKERS: f64 = 8.0;

/// What the answers so far say to a question; nothing if none of them does.
pub fn rows(question: Question, answers: &[Answer]) -> Vec<Row> {
    let of = |part| -> Vec<&Value> {
        let answers = answers.iter().filter(|a| a.part == part);
        answers.flat_map(|a| a.rows()).collect()
    };
    match question {
        Question::Speed => {
            let first = of(Part::Speed);
            let mut rows: Vec<Row> = throughput(&first).into_iter().collect();
            rows.extend(beside_peers(&first));
            rows.extend(beside_tree(&of(Part::TreeSpeed)));
            let more = of(Part::MoreSpeed);
            if !more.is_empty() {
                rows.extend(all_ciphers(&[first, more].concat()));
            }
            rows
        }
        Question::SoftirqSimd => {
            let mut rows: Vec<Row> = detour(&of(Part::Ways)).into_iter().collect();
            rows.extend(detour_of_tree(&of(Part::TreeWays)));
            rows.extend(policies(&of(Part::Policies)));
            rows
        }
        Question::NestedFpu => {
            let counted = [of(Part::Policies), of(Part::Breakpoints)].concat();
            let mut rows: Vec<Row> = interrupted(&counted).into_iter().collect();
            rows.extend(ipsec(&of(Part::Esp)));
            rows
        }
        Question::FpuBudget => {
            let all = of(Part::Budget);
            classes(&all).into_iter().chain(sections(&all)).collect()
        }
        Question::Compilers => {
            let all = of(Part::Compilers);
            cells(&all).into_iter().chain(compilers(&all)).collect()
        }
        Question::Ctrlq => waiting(&of(Part::Ctrlq)).into_iter().collect(),
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
    let family = speed::family(provider);
    let version = provider[family.len()..].trim_start_matches('-');
    format!("{family} {version}").trim().to_string()
}

/// The usual length, or the longest if there was no time for that.
fn length(rows: &[&Value]) -> Option<f64> {
    let lens = rows.iter().filter_map(|r| number(r, "len"));
    lens.filter(|len| *len <= USUAL).reduce(f64::max)
}

/// Kiln's fastest at the usual length.
fn fastest<'a>(rows: &[&'a Value]) -> Option<&'a Value> {
    let len = length(rows);
    let own = |r: &&&Value| has(r, &[("provider", "kiln"), ("op", "encrypt")]);
    let usual = rows.iter().filter(own).filter(|r| number(r, "len") == len);
    let with = usual.filter_map(|r| Some((number(r, "cycles_per_op")?, *r)));
    with.min_by(|a, b| a.0.total_cmp(&b.0)).map(|f| f.1)
}

fn throughput(rows: &[&Value]) -> Option<Row> {
    let row = fastest(rows)?;
    let (mb, cycles) = (number(row, "mb_per_s")?, number(row, "cycles_per_op")?);
    let end = |field| Some(mb * cycles / number(row, field)?);
    let limit = match number(row, "limit_cycles") {
        Some(limit) => format!(
            ", {:.0} % of what its AES unit can do",
            100.0 * limit / cycles
        ),
        None => String::new(),
    };
    let text = format!(
        "AES-256-XTS runs at {} GB/s a core{limit} ({} B, {})",
        figure(mb / 1e3),
        number(row, "len")?,
        word(row, "impl")
    );
    let new = Row::new(Question::Speed, mb, "mb_per_s", text);
    Some(new.within(end("ci_high"), end("ci_low")))
}

fn beside_peers(rows: &[&Value]) -> Option<Row> {
    let len = length(rows);
    let usual = |r: &&&Value| number(r, "len") == len;
    let row = rows
        .iter()
        .filter(usual)
        .find(|r| r["best_peer"].is_string())?;
    let inverse = |field| number(row, field).map(|r| 1.0 / r);
    let ratio = inverse("best_peer_ratio")?;
    let text = format!(
        "That is {} times as fast as {}, the fastest other library here",
        figure(ratio),
        library(word(row, "best_peer_provider"))
    );
    let new = Row::new(Question::Speed, ratio, "times", text);
    Some(new.within(
        inverse("best_peer_ratio_high"),
        inverse("best_peer_ratio_low"),
    ))
}

fn beside_tree(rows: &[&Value]) -> Option<Row> {
    let (own, len) = (fastest(rows)?, length(rows));
    let of_tree = |r: &&&Value| word(r, "provider").starts_with("linux-");
    let wanted = [("op", "encrypt"), ("level", "primitive")];
    let usual = |r: &&&Value| has(r, &wanted) && number(r, "len") == len;
    let all = rows.iter().filter(of_tree).filter(usual);
    let with = all.filter_map(|r| Some((number(r, "cycles_per_op")?, *r)));
    let (cycles, tree) = with.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let ratio = cycles / number(own, "cycles_per_op")?;
    let text = format!(
        "The fastest of {} takes {} times as long",
        library(word(tree, "provider")),
        figure(ratio)
    );
    Some(Row::new(Question::Speed, ratio, "times", text))
}

fn all_ciphers(rows: &[&Value]) -> Option<Row> {
    let typed = rows.iter().map(|r| serde_json::from_value((*r).clone()));
    let typed: Vec<speed::Row> = typed.filter_map(Result::ok).collect();
    let all = speed::Summary::of(&typed)?;
    let mut algs: Vec<&str> = typed.iter().map(|r| &*r.alg).collect();
    algs.dedup();
    let (short, long) = (all.short?, all.long?);
    let text = format!(
        "Of {} figures of {} algorithms the best library is ahead in {}; on average Kiln is {} times as fast up to 64 B, {} \
         from 512 B",
        all.rows,
        algs.len(),
        all.slower,
        figure(short),
        figure(long)
    );
    Some(Row::new(Question::Speed, long, "times", text))
}

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

fn detour(rows: &[&Value]) -> Option<Row> {
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

fn detour_of_tree(rows: &[&Value]) -> Option<Row> {
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

fn policies(rows: &[&Value]) -> Option<Row> {
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

fn interrupted(rows: &[&Value]) -> Option<Row> {
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

fn ipsec(rows: &[&Value]) -> Option<Row> {
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

fn classes(rows: &[&Value]) -> Option<Row> {
    let question = Question::FpuBudget;
    let range = |algs: &[&str]| {
        let of = rows.iter().filter(|r| algs.contains(&word(r, "alg")));
        let kib: Vec<f64> = of
            .filter_map(|r| Some(number(r, "fits_bytes")? / 1024.0))
            .collect();
        let least = kib.iter().copied().reduce(f64::min)?;
        Some((least, kib.iter().copied().fold(least, f64::max)))
    };
    let told = |(low, high): (f64, f64)| match thousands(low) == thousands(high) {
        true => thousands(low),
        false => format!("{} to {}", thousands(low), thousands(high)),
    };
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for (name, algs, published) in question::CLASSES {
        if let Some(range) = range(algs) {
            here.push(format!("{} KiB of {name}", told(range)));
            there.push(format!("{:.0}-{:.0}", published.0, published.1));
        }
    }
    let target = rows.iter().find_map(|r| number(r, "target_us"))?;
    let (_, algs, published) = question::CLASSES[0];
    let least = range(algs)?.0;
    let text = format!(
        "{target:.0} µs hold {}; published {}",
        here.join(", "),
        there.join(", ")
    );
    Some(Row::new(question, least, "KiB", text).beside(question, published.0))
}

fn sections(rows: &[&Value]) -> Option<Row> {
    let question = Question::FpuBudget;
    let worst = |mode: &str| {
        let of = rows.iter().filter(|r| word(r, "mode") == mode);
        let with = of.filter_map(|r| Some((number(r, "section_us_p95")?, *r)));
        with.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (fixed, whose) = worst("fixed")?;
    let (clocked, _) = worst("clocked")?;
    let (low, high) = question::SECTIONS_US;
    let text = format!(
        "With the patches' constants 95 % of sections end within {} µs at worst ({}), by the clock within {}; published \
         {low:.0} to {high:.0} with constants",
        figure(fixed),
        word(whose, "alg"),
        figure(clocked)
    );
    Some(Row::new(question, fixed, "us", text).beside(question, high))
}

/// Cells of the level that was published, with their figures.
fn at_o2<'a>(rows: &[&'a Value]) -> Vec<(f64, &'a Value)> {
    let of = rows
        .iter()
        .filter(|r| has(r, &[("opt", "O2"), ("status", "ok")]));
    of.filter_map(|r| Some((number(r, "cycles_per_byte")?, *r)))
        .collect()
}

/// The slowest of some cells and the fastest.
struct Extremes {
    /// What they are called.
    names: [String; 2],
    /// Cycles a byte.
    cycles: [f64; 2],
    /// Ends of their ratio, by where reruns of the two fall.
    low: Option<f64>,
    high: Option<f64>,
}

impl Extremes {
    fn of(cells: &[(f64, &Value)]) -> Option<Extremes> {
        let worst = cells.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let best = cells.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let name = |r: &Value| match word(r, "variant") {
            "default" => word(r, "cc").to_string(),
            variant => format!("{} {variant}", word(r, "cc")),
        };
        let over = |a: &str, b: &str| Some(number(worst.1, a)? / number(best.1, b)?);
        Some(Extremes {
            names: [name(worst.1), name(best.1)],
            cycles: [worst.0, best.0],
            low: over("ci_low", "ci_high"),
            high: over("ci_high", "ci_low"),
        })
    }

    fn row(&self, text: String, published: f64) -> Row {
        let question = Question::Compilers;
        let new = Row::new(question, self.ratio(), "times", text);
        new.within(self.low, self.high).beside(question, published)
    }

    fn ratio(&self) -> f64 {
        self.cycles[0] / self.cycles[1]
    }
}

fn cells(rows: &[&Value]) -> Option<Row> {
    let of = Extremes::of(&at_o2(rows))?;
    let published = question::CELLS.1 / question::CELLS.0;
    let text = format!(
        "The same AES at -O2 takes {} times as long at worst ({}: {} cycles a byte) as at best ({}: {}); published {}",
        figure(of.ratio()),
        of.names[0],
        figure(of.cycles[0]),
        of.names[1],
        figure(of.cycles[1]),
        figure(published)
    );
    Some(of.row(text, published))
}

/// Without further flags, where there are several.
fn compilers(rows: &[&Value]) -> Option<Row> {
    let mut plain = at_o2(rows);
    plain.retain(|c| word(c.1, "variant") == "default");
    let of = Extremes::of(&plain).filter(|_| plain.len() > 1)?;
    let text = format!(
        "Of {} compilers without further flags {} makes it {} times as slow as {}; published {}",
        plain.len(),
        of.names[0],
        figure(of.ratio()),
        of.names[1],
        figure(question::COMPILERS)
    );
    Some(of.row(text, question::COMPILERS))
}

fn waiting(rows: &[&Value]) -> Option<Row> {
    let question = Question::Ctrlq;
    // The paper's device hands each request to another thread.
    let of = |mode: &str, ctrl: &str| {
        let same = |r: &&&Value| {
            has(r, &[("mode", mode), ("ctrl", ctrl)]) && number(r, "workers") == Some(WORKERS)
        };
        rows.iter().copied().find(|r| same(&r))
    };
    let rate = |r: &Value| number(r, "ops_per_s");
    let (wait, poll) = (of("wait", "thread")?, of("poll", "thread")?);
    let ratio = rate(wait)? / rate(poll)?;
    let k = |x: f64| match x < 1e3 {
        true => thousands(x),
        false => format!("{} K", figure(x / 1e3)),
    };
    let tail = |r: &Value| number(r, "lat_us_p999").map_or("-".to_string(), |us| figure(us / 1e3));
    let at_once = match (of("wait", "inline"), of("poll", "inline")) {
        (Some(w), Some(p)) => format!(
            "; of a device that answers at once {} and {}",
            k(rate(w)?),
            k(rate(p)?)
        ),
        _ => String::new(),
    };
    let published = paper::WAIT_OPS_PER_S / paper::POLL_OPS_PER_S[1].1;
    let text = format!(
        "Eight workers get {} operations a second by waiting, {} by polling; published 200 K and 40 K{at_once}; p99.9 is {} and \
         {} ms",
        k(rate(wait)?),
        k(rate(poll)?),
        tail(wait),
        tail(poll)
    );
    Some(Row::new(question, ratio, "times", text).beside(question, published))
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
