//! Builds the survey's headlines about the number of bytes that an FPU section may process.

use kiln_question::survey::words::{number, thousands, word};
use kiln_question::survey::{Estimate, Row, Runs, Topic};
use serde_json::Value;

use super::row::keeps_target;

pub(super) static TOPIC: Topic = Topic {
    name: "fpu-budget",
    title: "How many bytes may one FPU section process?",
    command: "kiln budget",
    source: Some(
        "the patches \"crypto: x86 - limit FPU preemption\", Elliott, 2022, on a Cascade Lake",
    ),
};

/// The three classes of hashes discussed in 2022 in the mailing list thread "crypto: x86 - limit
/// FPU preemption", from slowest to fastest. Only algorithms that Kiln implements are listed.
const CLASSES: [(&str, &[&str]); 3] = [
    ("hashes", &["sha1", "sha256", "sha512", "sm3"]),
    (
        "keyed hashes",
        &["poly1305", "polyval", "nhpoly1305", "ghash"],
    ),
    ("CRCs", &["crc32c", "crct10dif"]),
];

const KIB: f64 = 1024.0;

/// An algorithm, and a size in KiB that was read from a field of the algorithm's rows.
struct Size<'a> {
    alg: &'a str,
    kib: Estimate,
}

/// Computes the median of `field` over the rows of each implementation of an algorithm, and returns
/// the largest median in KiB.
fn largest(rows: &[&Value], alg: &str, field: &str) -> Option<f64> {
    let of_alg: Vec<&&Value> = rows.iter().filter(|r| word(r, "alg") == alg).collect();
    let median = |imp: &str| {
        let of_imp = of_alg.iter().filter(|r| word(r, "impl") == imp);
        let mut all: Vec<f64> = of_imp.filter_map(|r| number(r, field)).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    };
    let sizes = of_alg.iter().filter_map(|r| median(word(r, "impl")));
    sizes.reduce(f64::max).map(|bytes| bytes / KIB)
}

/// Returns the measured algorithms of a class, in ascending order of size.
fn sizes<'a>(runs: &Runs<'_>, algs: &[&'a str], field: &str) -> Vec<Size<'a>> {
    let size = |alg: &'a str| {
        let kib = runs.estimate(|rows| largest(rows, alg, field))?;
        Some(Size { alg, kib })
    };
    let mut sizes: Vec<Size> = algs.iter().filter_map(|alg| size(alg)).collect();
    sizes.sort_by(|a, b| a.kib.value.total_cmp(&b.kib.value));
    sizes
}

/// Formats a size in KiB, with one decimal if it is below 100.
fn kib(x: f64) -> String {
    match x {
        x if x < 99.95 => format!("{x:.1}"),
        x => thousands(x),
    }
}

/// Returns a description of the smallest and the largest size in each class, along with an estimate
/// of the smallest size overall.
fn ranges<'a>(runs: &Runs<'a>, field: &str) -> Option<(String, Estimate)> {
    // If a whole message takes less time than the target, the size is at least the length of the
    // message, but is not known exactly.
    let len = runs.all().find_map(|r| number(r, "len"))? / KIB;
    let say = |size: &Size| match size.kib.value {
        v if v >= len => format!("{} {} KiB or more", size.alg, kib(len)),
        v => {
            let interval = interval(&size.kib, |x| kib(x.min(len)));
            format!("{} {} KiB{interval}", size.alg, kib(v))
        }
    };
    let mut classes = Vec::new();
    let mut smallest: Option<Estimate> = None;
    for (class, algs) in CLASSES {
        let sizes = sizes(runs, algs, field);
        let range = match sizes.as_slice() {
            [] => continue,
            [one] => say(one),
            // If even the smallest size covers a whole message, all the others do, too.
            [others @ .., last] if sizes[0].kib.value >= len => {
                let others = others.iter().map(|size| format!("{} and ", size.alg));
                others.collect::<String>() + &say(last)
            }
            [first, .., last] => format!("{} and {}", say(first), say(last)),
        };
        classes.push(format!("for {class}, {range}"));
        let first = sizes.into_iter().next().map(|s| s.kib);
        smallest = [smallest, first]
            .into_iter()
            .flatten()
            .min_by(|a, b| a.value.total_cmp(&b.value));
    }
    Some((classes.join("; "), smallest?))
}

fn target(runs: &Runs) -> Option<f64> {
    runs.all().find_map(|r| number(r, "target_us"))
}

fn once(estimate: &Estimate) -> &'static str {
    match estimate.low {
        Some(_) => "",
        None => ", measured once",
    }
}

/// Returns the algorithm with the smallest size.
fn slowest(runs: &Runs, field: &str) -> &'static str {
    let algs = CLASSES.map(|(_, algs)| algs).concat();
    let all = sizes(runs, &algs, field);
    all.first().map_or("", |size| size.alg)
}

/// Formats the smallest size in a few words.
fn brief(runs: &Runs, smallest: &Estimate) -> String {
    let whole = runs.all().find_map(|r| number(r, "len"));
    match whole.is_some_and(|len| smallest.value >= len / KIB) {
        true => format!("{} KiB or more", kib(smallest.value)),
        false => format!("{} KiB{}", kib(smallest.value), interval(smallest, kib)),
    }
}

/// Formats the interval as ` (LOW to HIGH)`, unless both ends are equal after rounding.
fn interval(estimate: &Estimate, show: impl Fn(f64) -> String) -> String {
    match (estimate.low.map(&show), estimate.high.map(&show)) {
        (Some(low), Some(high)) if low != high => format!(" ({low} to {high})"),
        _ => String::new(),
    }
}

/// Builds the headline that states how many bytes an FPU section was found to process within the
/// target.
pub(super) fn held(runs: &Runs) -> Option<Row> {
    let (ranges, smallest) = ranges(runs, "holds_bytes")?;
    let text = format!(
        "Of all measured hashes and CRCs, {} is the slowest. In {target:.0} µs, an FPU section can process these amounts with the slowest \
         and the fastest algorithm of each kind{}: {ranges}. Each algorithm runs its fastest implementation on cached messages of \
         1,024 KiB. A section that processes more bytes delays other work for more than {target:.0} µs",
        slowest(runs, "holds_bytes"),
        once(&smallest),
        target = target(runs)?
    );
    let verdict = format!(
        "Within {:.0} µs, a section processes {} with {}",
        target(runs)?,
        brief(runs, &smallest),
        slowest(runs, "holds_bytes")
    );
    let detail = format!(
        "{} is slowest; all hashes and CRCs run their fastest code on cached data{}",
        slowest(runs, "holds_bytes"),
        once(&smallest)
    );
    let row = Row::estimate(&TOPIC, &smallest, "KiB", text).with_verdict(verdict);
    Some(row.with_detail(detail))
}

/// Builds the headline that states how many bytes Kiln allows, with a safety margin.
pub(super) fn budgets(runs: &Runs) -> Option<Row> {
    let (ranges, smallest) = ranges(runs, "budget_bytes")?;
    let text = format!(
        "Kiln's byte limits keep an FPU section below {:.0} µs; they leave a fifth of that time in reserve, and assume that no data is \
         cached. These are Kiln's limits per section for the slowest and the fastest algorithm of each kind{}: {ranges}",
        target(runs)?,
        once(&smallest)
    );
    let verdict = format!(
        "Kiln's byte limit per section, with a margin: {} for {}",
        brief(runs, &smallest),
        slowest(runs, "budget_bytes")
    );
    let detail = format!(
        "The limit keeps a fifth of the {:.0} µs in reserve and assumes uncached data",
        target(runs)?
    );
    let row = Row::estimate(&TOPIC, &smallest, "KiB", text).with_verdict(verdict);
    Some(row.with_detail(detail))
}

/// Returns whether an implementation met the target under a chunking strategy. Returns `None` if
/// the processes of the survey disagree, or if at most half of the results have a verdict.
fn verdict(runs: &Runs, imp: &str, mode: &str) -> Option<bool> {
    let of = |r: &&Value| word(r, "impl") == imp && word(r, "mode") == mode;
    let asked: Vec<Option<bool>> = runs
        .all()
        .filter(of)
        .map(|r| {
            let over = number(r, "bytes")? / number(r, "holds_bytes")?;
            let over = r["step_bytes"].is_null().then_some(over);
            keeps_target(number(r, "long_pct")?, number(r, "null_long_pct")?, over)
        })
        .collect();
    let told: Vec<bool> = asked.iter().flatten().copied().collect();
    let first = *told.first()?;
    (told.len() * 2 > asked.len() && told.iter().all(|v| *v == first)).then_some(first)
}

/// The implementations, grouped by verdict.
#[derive(Default)]
struct Count<'a> {
    kept: usize,
    missed: Vec<&'a str>,
    unknown: Vec<&'a str>,
}

impl<'a> Count<'a> {
    fn from_verdicts(runs: &Runs, imps: &[&'a str], mode: &str) -> Count<'a> {
        let mut count = Count::default();
        for imp in imps {
            match verdict(runs, imp, mode) {
                Some(true) => count.kept += 1,
                Some(false) => count.missed.push(imp),
                None => count.unknown.push(imp),
            }
        }
        count
    }

    /// Lists the implementations that missed the target, and those without a verdict.
    fn exceptions(&self) -> String {
        let mut parts = Vec::new();
        if !self.missed.is_empty() {
            parts.push(format!("missed by {}", self.missed.join(", ")));
        }
        if !self.unknown.is_empty() {
            parts.push(format!("undecided for {}", self.unknown.join(", ")));
        }
        match parts.is_empty() {
            true => String::new(),
            false => format!(" ({})", parts.join("; ")),
        }
    }
}

/// Builds the headline that states how many implementations meet the target with the byte limits
/// posted in 2022, and how many with a section timer. Only implementations with a posted limit are
/// counted.
pub(super) fn posted(runs: &Runs) -> Option<Row> {
    let topic = &TOPIC;
    let mut imps: Vec<&str> = Vec::new();
    for row in runs.all().filter(|r| word(r, "mode") == "fixed") {
        let timed = |r: &Value| word(r, "mode") == "clocked" && r["impl"] == row["impl"];
        if !imps.contains(&word(row, "impl")) && runs.all().any(timed) {
            imps.push(word(row, "impl"));
        }
    }
    let target = target(runs).filter(|_| !imps.is_empty())?;
    let fixed = Count::from_verdicts(runs, &imps, "fixed");
    let timed = Count::from_verdicts(runs, &imps, "clocked");
    let of = imps.len();
    let once = if runs.len() < 2 {
        ", measured once"
    } else {
        ""
    };
    let text = format!(
        "An implementation meets the target of {target:.0} µs if 95 % of its sections end within {:.0} µs (10 % tolerance). With the byte limits \
         posted to the kernel mailing list in 2022, which were chosen on a 2.2 GHz Cascade Lake, {} of {of} implementations meet the \
         target{}. With a section timer instead of byte limits, {} of the {of} implementations meet the target{}{once}",
        1.1 * target,
        fixed.kept,
        fixed.exceptions(),
        timed.kept,
        timed.exceptions()
    );
    let value = fixed.kept as f64;
    let verdict = format!(
        "{} of {of} implementations meet {target:.0} µs with 2022's byte limits, {} with a timer",
        fixed.kept, timed.kept
    );
    let undecided = match (fixed.unknown.len(), timed.unknown.len()) {
        (0, 0) => String::new(),
        (limits, timer) => {
            format!(". Undecided: {limits} implementations with limits, {timer} with a timer")
        }
    };
    let detail = format!(
        "To meet {target:.0} µs, 95 % of the sections must end within {:.0} µs (10 % tolerance){undecided}",
        1.1 * target
    );
    let row =
        Row::new(topic, value, "implementations that meet the target", text).with_verdict(verdict);
    Some(Row {
        source: topic.source,
        ..row.with_detail(detail)
    })
}

#[cfg(test)]
mod tests {
    use super::super::survey::BUDGET;
    use super::*;
    use crate::testing::{answer, sentences, verdicts};
    use kiln_question::survey::Answer;
    use kiln_question::survey::PROCESSES;
    use serde_json::json;

    /// One implementation in the test data: the algorithm, the implementation, how many KiB fit
    /// into the target, the budget in KiB, and the percentages of long sections under `fixed`
    /// (`None` if no limit was posted) and under `clocked`.
    type Given = (&'static str, &'static str, f64, f64, Option<f64>, f64);

    const USUAL: [Given; 7] = [
        ("sm3", "sm3-avx2", 16.0, 10.0, Some(0.2), 1.0),
        ("sm3", "sm3-avx512", 17.0, 11.0, None, 1.0),
        ("sha1", "sha1-sha-ni", 55.0, 42.0, Some(0.2), 1.0),
        ("polyval", "polyval-aesni", 260.0, 167.0, Some(90.0), 1.0),
        ("ghash", "ghash-aesni", 256.0, 164.0, Some(0.1), 1.0),
        ("crc32c", "crc32c-vaes-avx512", 1024.0, 540.0, None, 1.0),
        (
            "crct10dif",
            "crct10dif-vaes-avx512",
            1030.0,
            530.0,
            None,
            1.0,
        ),
    ];

    fn process(given: &[Given], scale: f64, arithmetic: f64) -> Answer {
        let mut rows = Vec::new();
        for &(alg, imp, holds, budget, fixed, clocked) in given {
            let row = |mode: &str, long: f64| {
                // If most sections are long, make them process more bytes than an undisturbed
                // machine could process within the target. Otherwise, their length would be
                // attributed to disturbances, and the verdict would be unknown.
                let over = if long > 50.0 { 1.5 } else { 0.9 };
                let step = (mode == "clocked").then_some(4096);
                json!({"bytes": 1024.0 * holds * scale * over, "step_bytes": step, "alg": alg, "impl": imp, "mode": mode, "target_us": 30.0, "len": 1 << 20,
                       "holds_bytes": (1024.0 * holds * scale).min(1048576.0), "budget_bytes": 1024.0 * budget,
                       "long_pct": long, "null_long_pct": arithmetic})
            };
            rows.extend(fixed.map(|long| row("fixed", long)));
            rows.push(row("clocked", clocked));
        }
        answer(&BUDGET, Value::Array(rows))
    }

    fn five(given: &[Given], arithmetic: f64) -> Vec<Answer> {
        let scale = |k: usize| 1.0 + 0.01 * k as f64 - 0.02;
        let each = (0..PROCESSES).map(|k| process(given, scale(k), arithmetic));
        each.collect()
    }

    fn told(answers: &[Answer]) -> Vec<String> {
        sentences(&TOPIC, answers)
    }

    #[test]
    fn what_is_held_and_the_budget_are_two_sentences() {
        let all = told(&five(&USUAL, 0.5));
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(
            all[0],
            "Of all measured hashes and CRCs, sm3 is the slowest. In 30 µs, an FPU section can process these amounts with the slowest and the fastest algorithm of each kind: for hashes, sm3 17.0 KiB (16.2 to 17.8) and sha1 55.0 KiB (52.4 to 57.7); for keyed hashes, ghash 256 KiB \
             (244 to 269) and polyval 260 KiB (248 to 273); for CRCs, crc32c and crct10dif 1,024 KiB or more. Each algorithm runs its fastest \
             implementation on cached messages of 1,024 KiB. A section that processes more bytes delays other work for more than 30 µs"
        );
        assert!(
            all[1].starts_with("Kiln's byte limits keep an FPU section below 30 µs")
                && all[1].contains("sm3 11.0 KiB and sha1 42.0 KiB"),
            "{all:?}"
        );
        assert!(!all[0].contains("2022") && !all[0].contains("published"));
        assert_eq!(
            verdicts(&TOPIC, &five(&USUAL, 0.5)),
            [
                "Within 30 µs, a section processes 17.0 KiB (16.2 to 17.8) with sm3",
                "Kiln's byte limit per section, with a margin: 11.0 KiB for sm3",
                "3 of 4 implementations meet 30 µs with 2022's byte limits, 4 with a timer"
            ]
        );
        // On a machine half as fast, the measured sizes in the first sentence are halved. The
        // second sentence, about byte budgets, does not change, because the test data fixes the
        // budgets.
        let slow: Vec<Answer> = (0..PROCESSES).map(|_| process(&USUAL, 0.5, 0.5)).collect();
        let slow = told(&slow);
        assert!(slow[0].contains("sm3 8.5 KiB"), "{slow:?}");
        assert!(slow[0].contains("crc32c 512 KiB"), "{slow:?}");
        assert_eq!(slow[1], all[1]);
    }

    #[test]
    fn one_process_has_no_interval_and_says_so() {
        let all = told(&[process(&USUAL, 1.0, 0.5)]);
        assert!(
            all[0].contains("sm3 17.0 KiB") && all[0].contains("measured once"),
            "{all:?}"
        );
        assert!(all.iter().all(|s| s.contains(", measured once")), "{all:?}");
    }

    #[test]
    fn posted_limits_and_the_timer_are_counted_over_the_same_implementations() {
        let text = &told(&five(&USUAL, 0.5))[2];
        assert_eq!(
            text,
            "An implementation meets the target of 30 µs if 95 % of its sections end within 33 µs (10 % tolerance). With the byte limits \
             posted to the kernel mailing list in 2022, which were chosen on a 2.2 GHz Cascade Lake, 3 of 4 implementations meet the \
             target (missed by polyval-aesni). With a section timer instead of byte limits, 4 of the 4 implementations meet the target"
        );
        let mut other = USUAL;
        for row in &mut other {
            (row.4, row.5) = (row.4.map(|_| 0.0), 30.0);
        }
        let text = &told(&five(&other, 0.5))[2];
        assert!(
            text.contains("4 of 4 implementations meet the target. With a section timer"),
            "{text}"
        );
        assert!(
            text.ends_with(
                "0 of the 4 implementations meet the target (missed by sm3-avx2, sha1-sha-ni, polyval-aesni, ghash-aesni)"
            ),
            "{text}"
        );
    }

    #[test]
    fn processes_that_disagree_and_machines_that_disturb_cannot_tell() {
        let mut answers = five(&USUAL, 0.5);
        let mut close = USUAL;
        close[0].4 = Some(60.0);
        answers[3] = process(&close, 1.0, 0.5);
        let text = &told(&answers)[2];
        assert!(
            text.contains(
                "2 of 4 implementations meet the target (missed by polyval-aesni; undecided for sm3-avx2)"
            ),
            "{text}"
        );
        let text = &told(&five(&USUAL, 40.0))[2];
        assert!(text.contains("(undecided for polyval-aesni)"), "{text}");
        // If at most 50 % of the sections are long, the test data gives each section fewer bytes
        // than fit into the target. Without disturbances, such sections would have met the target,
        // so the verdict is unknown.
        let mut disturbed = USUAL;
        disturbed[3].4 = Some(40.0);
        let text = &told(&five(&disturbed, 0.5))[2];
        assert!(text.contains("(undecided for polyval-aesni)"), "{text}");
    }

    #[test]
    fn without_posted_limits_there_is_nothing_to_compare() {
        let mut none = USUAL;
        none.iter_mut().for_each(|row| row.4 = None);
        let all = told(&five(&none, 0.5));
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all.iter().all(|s| !s.contains("2022")));
    }
}
