//! Headlines about the cost of SIMD in softirqs, and about state lost by nested sections.

use kiln_question::survey::words::{figure, library, number, thousands, word};
use kiln_question::survey::{Against, Estimate, Row, Runs, Topic};
use serde_json::Value;

use super::power::{self, is_control, Count, NoVerdict};

pub(super) static SOFTIRQ_SIMD: Topic = Topic {
    name: "softirq-simd",
    title: "What does each way of using SIMD in softirqs cost?",
    command: "kiln fpu overhead",
    source: Some(
        "Biggers measured 16-byte messages on a Ryzen 9 9950X in 2025: 384 MB/s through the simd helper and 487 MB/s by direct \
         calls (Linux commit d02198550423). Direct calls reached 461 MB/s with softirqs disabled in FPU sections, and 480 MB/s \
         with nested sections (mail 20250305203018.GB19889).",
    ),
};

/// Survey topic about nested FPU use. `kiln ipsec` contributes headlines to this topic, too.
pub(crate) static NESTED_FPU: Topic = Topic {
    name: "nested-fpu",
    title: "Are nested FPU sections safe? What does cryptd do to IPsec?",
    command: "kiln ipsec",
    source: Some("x86/fpu: nested in-kernel use, Liang, 2024"),
};

/// Published throughput of AES-XTS with 16-byte messages on a Ryzen 9 9950X, in MB/s, for calls
/// through the simd helper with `legacy` sections. Source: Linux commit d02198550423.
const HELPER_LEGACY: f64 = 384.0;
/// Published throughput of direct calls with `legacy` sections in MB/s. Source: Linux commit
/// d02198550423.
const DIRECT_LEGACY: f64 = 487.0;
/// Published throughput of direct calls with softirqs disabled (the version that was merged), in
/// MB/s. Source: mail 20250305203018.GB19889 in the thread about Linux commit d02198550423.
const DIRECT_BH_OFF: f64 = 461.0;
/// Published throughput of direct calls with nested sections that save registers to a per-CPU
/// buffer, in MB/s. Source: mail 20250305203018.GB19889.
const DIRECT_NESTED: f64 = 480.0;

/// Message length in bytes for which results were published.
const SHORT: f64 = 16.0;
/// Longer message lengths in bytes, for comparison.
const LONGER: [f64; 2] = [512.0, 4096.0];

/// The speed of a method relative to the method that the row's field `baseline` names.
struct Speedup {
    cycles: Estimate,
    /// The speedup computed from times instead of cycles; `None` for old records, which contain no
    /// times.
    time: Option<Estimate>,
}

fn speedup(runs: &Runs, policy: &dyn Fn(&str) -> bool, path: &str, len: f64) -> Option<Speedup> {
    let estimate = |field: &str| {
        runs.estimate(|rows| {
            let wanted = |r: &&&Value| {
                policy(word(r, "policy"))
                    && word(r, "path") == path
                    && number(r, "len") == Some(len)
            };
            number(rows.iter().find(wanted)?, field)
        })
    };
    Some(Speedup {
        cycles: estimate("speedup")?,
        time: estimate("time_speedup"),
    })
}

/// Formats a speedup computed from cycles, and the verdict on it. The verdict depends on the
/// interval and on whether the speedup computed from times agrees.
fn times(speedup: &Speedup) -> String {
    let shown = |e: &Estimate| format!("{} times{}", figure(e.value), e.interval(figure));
    let (cycles, time) = (&speedup.cycles, speedup.time.as_ref());
    let times = shown(cycles);
    match cycles.against_by_both(time, 1.0) {
        Some(Against::Above) => format!("{times}, faster"),
        Some(Against::Below) => format!("{times}, slower"),
        Some(Against::Equal) => {
            format!("{times}, no difference found")
        }
        Some(Against::CannotTell) => format!("{times}, measured once"),
        None => format!(
            "{times} by cycles but {} by time, no verdict because the core's clock was not the same",
            time.map(shown).unwrap_or_default()
        ),
    }
}

/// Formats a speedup briefly, as part of a verdict.
fn brief(speedup: &Speedup) -> String {
    let (cycles, time) = (&speedup.cycles, speedup.time.as_ref());
    let shown = format!(
        "{} times as fast{}",
        figure(cycles.value),
        cycles.interval(figure)
    );
    match cycles.against_by_both(time, 1.0) {
        Some(Against::Above) => shown,
        Some(Against::Below) => shown,
        Some(Against::Equal) => {
            let range = cycles.interval(figure).replace(')', " times)");
            format!("no difference found{range}")
        }
        Some(Against::CannotTell) => format!("{shown}, measured once"),
        None => "cannot tell, the clock changed".to_string(),
    }
}

/// A policy, and the path by which requests reach the cipher.
type Way = (&'static str, &'static str);

/// Returns the duration of a short request in nanoseconds in one process; `None` for old records.
fn request_ns(rows: &[&Value], (policy, path): Way) -> Option<f64> {
    let wanted = |r: &&&Value| {
        word(r, "policy") == policy && word(r, "path") == path && number(r, "len") == Some(SHORT)
    };
    number(rows.iter().find(wanted)?, "ns_per_op")
}

/// Describes how the duration of a short request changes from one way to another. States the
/// difference only if the interval of the ratio shows that there is one, or if only one process
/// measured.
fn describe_step(runs: &Runs, from: Way, to: Way) -> Option<String> {
    let ns = |way| runs.estimate(|rows| request_ns(rows, way));
    let ratio = runs.estimate(|rows| Some(request_ns(rows, from)? / request_ns(rows, to)?))?;
    if ratio.against(1.0) == Against::Equal {
        return Some("makes no measurable difference".to_string());
    }
    let saved = ns(from)?.value - ns(to)?.value;
    Some(match saved > 0.0 {
        true => format!("saves {} ns", figure(saved)),
        false => format!("costs {} ns", figure(-saved)),
    })
}

/// Returns the verdict on a speedup in a few words.
fn outcome(speedup: &Speedup) -> &'static str {
    match speedup.cycles.against_by_both(speedup.time.as_ref(), 1.0) {
        Some(Against::Above) => "6.15 is faster",
        Some(Against::Below) => "6.15 is slower",
        Some(Against::Equal) => "no difference found",
        Some(Against::CannotTell) => "measured once",
        None => "unclear",
    }
}

/// Builds the headline that compares the methods that kernels offer to softirqs: direct calls since
/// Linux 6.15, and the simd helper in earlier versions.
pub(super) fn direct_to_helper(runs: &Runs) -> Option<Row> {
    let topic = &SOFTIRQ_SIMD;
    let of = |len| speedup(runs, &|p| p == "bh-off", "direct", len);
    let short = of(SHORT)?;
    let mut parts = vec![format!("16 bytes: {}", times(&short))];
    parts.extend(
        LONGER
            .iter()
            .filter_map(|&len| Some(format!("{} bytes: {}", thousands(len), times(&of(len)?)))),
    );
    let published = DIRECT_BH_OFF / HELPER_LEGACY;
    let (helper, direct, softirqs_off) = (
        ("legacy", "simd-helper"),
        ("legacy", "direct"),
        ("bh-off", "direct"),
    );
    let ns = |way| Some(runs.estimate(|rows| request_ns(rows, way))?.value);
    let (before, now) = (ns(helper), ns(softirqs_off));
    // Report the two steps separately, because they explain why the total may differ from the
    // published one.
    let steps = describe_step(runs, helper, direct).zip(describe_step(runs, direct, softirqs_off));
    let steps = steps.map_or(String::new(), |(first, second)| {
        format!(
            ". Compared with 6.14, calling the cipher without the simd helper {first} per 16-byte request; disabling softirqs in FPU \
             sections {second}"
        )
    });
    let theirs = SHORT / DIRECT_BH_OFF * 1000.0;
    let lengths = now.map_or(String::new(), |now| {
        // If requests take longer on the published machine, explain that saving the same number of
        // ns is a smaller gain in percent there.
        let so = if now < theirs {
            ", longer than here, so saving the same number of ns is a smaller gain in percent there"
        } else {
            ""
        };
        format!(
            ". On that Ryzen 9 9950X, a 16-byte request takes {} ns in 6.15{so}",
            figure(theirs)
        )
    });
    let text = format!(
        "Kiln models Linux 6.14 and 6.15 on an emulated CPU. Up to Linux 6.14, AES-XTS requests go through the simd helper. Since \
         Linux 6.15, AES-XTS requests go directly to the cipher. Linux 6.15 also disables softirqs during FPU sections, so a softirq \
         never interrupts a section, and can always use SIMD{steps}. AES-XTS speed of Linux 6.15 relative to 6.14, by message length: \
         {}. Published for 16 bytes: 6.15 is {} times as fast as 6.14 (Biggers, 2025, Ryzen 9 9950X){lengths}",
        parts.join("; "),
        figure(published)
    );
    let verdict = match before.zip(now) {
        Some((before, now)) => format!(
            "AES-XTS 16 B: 6.14 model {} ns, 6.15 model {} ns; {}",
            figure(before),
            figure(now),
            outcome(&short)
        ),
        None => format!("16 bytes, Linux 6.15's model: {}", brief(&short)),
    };
    let detail = format!("Kiln models Linux 6.14 and 6.15; the instructions run natively{steps}");
    let row = Row::estimate(topic, &short.cycles, "times", text).with_verdict(verdict);
    Some(row.with_detail(detail).beside(topic, published))
}

/// Builds the headline about direct calls under other policies. The baseline is again the simd
/// helper with `legacy` sections.
pub(super) fn other_sections(runs: &Runs) -> Option<Row> {
    let topic = &SOFTIRQ_SIMD;
    let of = |policy: &'static str| speedup(runs, &|p| p == policy, "direct", SHORT);
    let legacy = of("legacy")?;
    let published = |mb: f64| figure(mb / HELPER_LEGACY);
    let mut text = format!(
        "These factors say how fast 16-byte AES-XTS is when it is called directly, compared with calls through the simd helper, as in \
         Linux up to 6.14. With the FPU sections of 6.14: {}. Published: {} times ({} instead of {} MB/s, commit d02198550423)",
        times(&legacy),
        published(DIRECT_LEGACY),
        DIRECT_LEGACY,
        HELPER_LEGACY
    );
    if let Some(nested) = of("nested") {
        text.push_str(&format!(
            ". With nested sections: {}. Published for nested sections that save registers per CPU: {} times ({} instead of {} MB/s, mail 20250305203018.GB19889)",
            times(&nested),
            published(DIRECT_NESTED),
            DIRECT_NESTED,
            HELPER_LEGACY
        ));
    }
    let row = Row::estimate(topic, &legacy.cycles, "times", text)
        .with_verdict(format!(
            "Linux 6.14 without its simd helper: {}",
            brief(&legacy)
        ))
        .with_detail(
            "Direct calls of 16-byte AES-XTS against calls through the helper, in 6.14".to_string(),
        );
    Some(row.beside(topic, DIRECT_LEGACY / HELPER_LEGACY))
}

pub(super) fn detour_of_tree(runs: &Runs) -> Option<Row> {
    let topic = &SOFTIRQ_SIMD;
    let direct = speedup(runs, &|p| p.starts_with("tree:"), "direct", SHORT)?;
    let of_tree = |r: &&&Value| word(r, "policy").starts_with("tree:");
    let provider = word(runs.first().iter().find(of_tree)?, "provider");
    let mut text = format!(
        "{}, its own code, messages of 16 bytes. Speed of direct calls, compared with calls through the tree's simd helper: {}",
        library(provider),
        times(&direct)
    );
    // The published comparison used the sections of Linux up to 6.14, so it is quoted only for such
    // trees.
    let version = provider.rsplit('-').next().unwrap_or_default();
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    let legacy = (numbers.next()?, numbers.next()?) < (6, 15);
    let published = DIRECT_LEGACY / HELPER_LEGACY;
    if legacy {
        text.push_str(&format!(
            ". Published: {} times, {} instead of {} MB/s (commit d02198550423; Biggers, 2025, Ryzen 9 9950X)",
            figure(published),
            DIRECT_LEGACY,
            HELPER_LEGACY
        ));
    }
    let row = Row::estimate(topic, &direct.cycles, "times", text).with_verdict(format!(
        "{}, direct calls, 16 bytes: {}",
        library(provider),
        brief(&direct)
    ));
    let row = row.with_detail("Compared with calls through the tree's own simd helper".to_string());
    Some(match legacy {
        true => row.beside(topic, published),
        false => row,
    })
}

/// How many interrupts hit sections and how often state was lost, by policy and load.
struct LostState {
    /// Policy, load and source of interrupts, followed by three numbers: interrupts that hit
    /// sections, wrong results, and lost user states.
    counts: Vec<(String, String, [u64; 3])>,
}

impl LostState {
    fn from_runs(runs: &Runs) -> LostState {
        let counts = runs.all().filter(|r| r["control"] == false).map(|r| {
            let count = |field| r[field].as_u64().unwrap_or(0);
            (
                word(r, "policy").to_string(),
                format!("{} ({})", word(r, "load"), word(r, "inject")),
                ["irqs_in_section", "corrupted", "user_corrupted"].map(count),
            )
        });
        LostState {
            counts: counts.collect(),
        }
    }

    fn judge(&self) -> Result<(), NoVerdict> {
        let counts = self.counts.iter();
        let counts = counts.map(|(policy, load, [hit, wrong, _])| Count {
            policy,
            load,
            hit: *hit,
            wrong: *wrong,
        });
        power::judge(&counts.collect::<Vec<_>>())
    }

    /// Returns three numbers, summed either over the control or over all other policies: interrupts
    /// that hit sections, wrong results, and lost user states.
    fn sum(&self, control: bool) -> [u64; 3] {
        let of = self.counts.iter().filter(|c| is_control(&c.0) == control);
        of.fold([0; 3], |sum, c| std::array::from_fn(|i| sum[i] + c.2[i]))
    }

    /// Returns the same three numbers as `sum`, but summed over the policies with nested sections.
    fn nested(&self) -> [u64; 3] {
        let of = self.counts.iter().filter(|c| nests(&c.0));
        of.fold([0; 3], |sum, c| std::array::from_fn(|i| sum[i] + c.2[i]))
    }

    /// Returns the number of policies, excluding the control, that satisfy `wanted`.
    fn policies(&self, wanted: impl Fn(&str) -> bool) -> usize {
        let mut names: Vec<&str> = self.counts.iter().map(|c| c.0.as_str()).collect();
        names.retain(|p| !is_control(p) && wanted(p));
        names.sort_unstable();
        names.dedup();
        names.len()
    }

    /// States briefly whether nested sections are safe.
    fn verdict(&self) -> String {
        let ([hit, wrong, user], [_, all_wrong, all_user]) = (self.nested(), self.sum(false));
        let (lost, all) = (wrong + user, all_wrong + all_user);
        let show = |n: u64| thousands(n as f64);
        let times = |n: u64| {
            if n == 1 {
                "once".to_string()
            } else {
                format!("{} times", show(n))
            }
        };
        match (self.judge().is_ok(), hit) {
            _ if lost > 0 => format!(
                "No: nested sections lost registers {} in {} interrupts",
                times(lost),
                show(hit)
            ),
            (_, 0) if all > 0 => format!(
                "Other sections lost registers {}; nested were not tested",
                times(all)
            ),
            (true, 0) => {
                "Cannot tell: nested sections were not tested, others lost no registers".to_string()
            }
            (true, _) if all > 0 => format!(
                "Nested sections lost no registers; other sections lost registers {}",
                times(all)
            ),
            (true, _) => format!(
                "In this test, yes: nested sections lost no registers in {} interrupts",
                show(hit)
            ),
            (false, _) if all > 0 => {
                format!(
                    "Cannot tell about nested sections; others lost registers {}",
                    times(all)
                )
            }
            (false, _) => {
                "Cannot tell whether nested sections are safe: a loss could have been missed"
                    .to_string()
            }
        }
    }
}

/// Returns whether a softirq that interrupts an FPU section opens a section of its own under this
/// policy.
fn nests(policy: &str) -> bool {
    policy.starts_with("nested")
}

/// Returns whether interrupts hit sections but the counts do not allow a verdict. In that case, the
/// survey fails.
pub(super) fn is_blind(runs: &Runs) -> bool {
    let lost = LostState::from_runs(runs);
    lost.sum(false)[0] > 0 && lost.judge().is_err()
}

pub(super) fn interrupted(runs: &Runs) -> Option<Row> {
    let lost = LostState::from_runs(runs);
    let show = |n: u64| thousands(n as f64);
    let ([hit, wrong, user], [of_control, control_wrong, control_user]) =
        (lost.sum(false), lost.sum(true));
    if hit == 0 {
        return None;
    }
    let counted = format!(
        "{} interrupts occurred during FPU sections, summed over {} FPU policies ({} of them with nested sections). Under the tested \
         policies, {} results were wrong, and {} emulated system calls changed the user's FPU registers. A control that saves no \
         registers must lose some: after {} interrupts during its FPU sections, {} results were wrong. The control also changed the \
         user's FPU registers in {} emulated system calls, whether or not they were interrupted",
        show(hit),
        lost.policies(|_| true),
        lost.policies(nests),
        show(wrong),
        show(user),
        show(of_control),
        show(control_wrong),
        show(control_user)
    );
    let verdict = lost.verdict();
    let found = lost.judge().map(|()| {
        format!(
            "A control that saves no registers: {} wrong results in {} interrupts",
            show(control_wrong),
            show(of_control)
        )
    });
    let row = match lost.judge() {
        Ok(()) => Row::new(&NESTED_FPU, (wrong + user) as f64, "lost", counted),
        // A loss under another policy is reported even if the control lost nothing.
        Err(why) if wrong + user > 0 => {
            let text = format!("{counted}; {why}");
            Row::new(&NESTED_FPU, (wrong + user) as f64, "lost", text)
        }
        Err(why) => {
            let why = why.to_string();
            let (first, rest) = why.split_at(1);
            let text = format!("{}{rest}; {counted}", first.to_uppercase());
            Row::new(
                &NESTED_FPU,
                control_wrong as f64,
                "lost by the control",
                text,
            )
        }
    };
    let row = row.with_verdict(verdict).by("kiln fpu prove breakpoint");
    Some(match found {
        Ok(found) => row.with_detail(found),
        Err(_) => row,
    })
}

#[cfg(test)]
mod tests {
    use super::super::survey::{BREAKPOINTS, POLICIES, TREE_WAYS, WAYS};
    use super::*;
    use crate::testing::{answer, fails, one, sentences};
    use kiln_question::survey::Answer;
    use serde_json::json;

    fn way(policy: &str, path: &str, len: u32, speedup: f64) -> Value {
        json!({"policy": policy, "path": path, "len": len, "speedup": speedup, "ns_per_op": 20.0 / speedup,
               "provider": "linux-6.12.117", "baseline": "legacy/simd-helper"})
    }

    /// Creates the results of five simulated survey processes from the speedups of direct calls:
    /// `bh_off` (16 bytes), `long` (4096 bytes under bh-off), `legacy` and `nested` (both 16
    /// bytes).
    fn ways(bh_off: [f64; 5], long: [f64; 5], legacy: [f64; 5], nested: [f64; 5]) -> Vec<Answer> {
        let process = |i: usize| {
            let rows = json!([
                way("legacy", "simd-helper", 16, 1.0),
                way("bh-off", "simd-helper", 16, 9.0),
                way("bh-off", "direct", 16, bh_off[i]),
                way("bh-off", "direct", 4096, long[i]),
                way("legacy", "direct", 16, legacy[i]),
                way("nested", "direct", 16, nested[i])
            ]);
            answer(&WAYS, rows)
        };
        (0..5).map(process).collect()
    }

    const FASTER: [f64; 5] = [1.20, 1.21, 1.22, 1.21, 1.20];
    const SLOWER: [f64; 5] = [0.80, 0.81, 0.80, 0.79, 0.80];
    const EQUAL: [f64; 5] = [1.01, 0.99, 1.00, 1.01, 0.99];

    #[test]
    fn the_methods_of_two_kernels_are_set_beside_the_published_pair() {
        let answers = ways(FASTER, EQUAL, FASTER, FASTER);
        let rows = crate::headlines(&SOFTIRQ_SIMD, &answers);
        let row = &rows[0];
        let text = row.headline.as_deref().unwrap();
        assert!(
            text.contains("16 bytes: 1.21 times (1.18 to 1.23), faster; 4,096 bytes: 1.00 times (0.97 to 1.03), no difference found"),
            "{text}"
        );
        assert!(
            text.contains(
                "Published for 16 bytes: 6.15 is 1.20 times as fast as 6.14 (Biggers, 2025, Ryzen 9 9950X)."
            ),
            "{text}"
        );
        assert_eq!(
            row.verdict.as_deref(),
            Some("AES-XTS 16 B: 6.14 model 20.0 ns, 6.15 model 16.5 ns; 6.15 is faster")
        );
        assert_eq!(row.value, Some(1.21));
        assert_eq!(row.baseline, Some(461.0 / 384.0));
        assert_eq!(row.values, FASTER);
        assert!(row.source.unwrap().contains("Ryzen"));
        let text = rows[1].headline.as_deref().unwrap();
        assert!(
            text.contains(
                "of 6.14: 1.21 times (1.18 to 1.23), faster. Published: 1.27 times (487 instead of 384 MB/s"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "With nested sections: 1.21 times (1.18 to 1.23), faster. Published for nested sections that save registers per CPU: 1.25 times (480 instead"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_faster_helper_and_equal_methods_are_said_to_be_so() {
        let said = sentences(&SOFTIRQ_SIMD, &ways(SLOWER, SLOWER, EQUAL, SLOWER));
        assert!(
            said[0].contains(
                "16 bytes: 0.80 times (0.78 to 0.82), slower; 4,096 bytes: 0.80 times (0.78 to 0.82), slower"
            ),
            "{}",
            said[0]
        );
        assert!(
            said[1].contains("of 6.14: 1.00 times (0.97 to 1.03), no difference found"),
            "{}",
            said[1]
        );
        assert!(
            said[1].contains("With nested sections: 0.80 times (0.78 to 0.82), slower"),
            "{}",
            said[1]
        );
        let said = sentences(&SOFTIRQ_SIMD, &ways(EQUAL, FASTER, FASTER, EQUAL));
        assert!(
            said[0].contains("16 bytes: 1.00 times (0.97 to 1.03), no difference found"),
            "{}",
            said[0]
        );
        assert!(
            said[0].contains("4,096 bytes: 1.21 times (1.18 to 1.23), faster"),
            "{}",
            said[0]
        );
    }

    #[test]
    fn a_speedup_that_only_cycles_show_is_not_called_one() {
        let said = |cycles, time: [f64; 5]| {
            let mut answers = Vec::new();
            for i in 0..5 {
                let speedups: [f64; 5] = cycles;
                let mut row = way("bh-off", "direct", 16, speedups[i]);
                row["time_speedup"] = json!(time[i]);
                answers.push(answer(&WAYS, json!([row])));
            }
            one(&SOFTIRQ_SIMD, &answers).headline.unwrap()
        };
        let text = said(FASTER, SLOWER);
        let want = "16 bytes: 1.21 times (1.18 to 1.23) by cycles but 0.80 times (0.78 to 0.82) by time, no verdict because \
                    the core's clock was not the same";
        assert!(text.contains(want), "{text}");
        assert!(said(SLOWER, FASTER)
            .contains("by cycles but 1.21 times (1.18 to 1.23) by time, no verdict"));
        // Controls: cycles and time agree.
        assert!(said(FASTER, FASTER).contains(": 16 bytes: 1.21 times (1.18 to 1.23), faster. "));
        assert!(said(SLOWER, SLOWER).contains("(0.78 to 0.82), slower. "));
        assert!(said(EQUAL, EQUAL).contains("1.00 times (0.97 to 1.03), no difference found. "));
    }

    #[test]
    fn the_times_of_a_request_explain_a_total_that_differs_from_the_published_one() {
        let said = |helper: f64, direct: f64, bh_off: f64| {
            let rows = [
                ("legacy", "simd-helper", helper),
                ("legacy", "direct", direct),
                ("bh-off", "direct", bh_off),
            ];
            let answers: Vec<_> = SLOWER
                .iter()
                .map(|&s| {
                    let rows = rows.map(|(policy, path, ns)| {
                        let mut row = way(policy, path, 16, s);
                        row["ns_per_op"] = json!(ns);
                        row
                    });
                    answer(&WAYS, json!(rows))
                })
                .collect();
            let row = crate::headlines(&SOFTIRQ_SIMD, &answers).remove(0);
            (row.headline.unwrap(), row.verdict.unwrap())
        };
        let (text, verdict) = said(16.7, 12.5, 20.9);
        assert!(
            text.contains(". Compared with 6.14, calling the cipher without the simd helper saves 4.20 ns per 16-byte request; disabling softirqs in FPU sections costs 8.40 ns."),
            "{text}"
        );
        assert!(
            verdict.ends_with(": 6.14 model 16.7 ns, 6.15 model 20.9 ns; 6.15 is slower"),
            "{verdict}"
        );
        // 34.7 ns is the time that a 16-byte message takes at the published 461 MB/s.
        assert!(
            text.ends_with("On that Ryzen 9 9950X, a 16-byte request takes 34.7 ns in 6.15, longer than here, so saving the same number of ns is a smaller gain in percent there"),
            "{text}"
        );
        // If the measured request takes longer than the published one, the text gives no
        // explanation.
        let (text, _) = said(40.0, 30.0, 50.0);
        assert!(
            text.ends_with("On that Ryzen 9 9950X, a 16-byte request takes 34.7 ns in 6.15"),
            "{text}"
        );
    }

    #[test]
    fn a_difference_within_the_noise_is_not_stated() {
        let said = |direct: [f64; 5]| {
            let answers: Vec<_> = direct
                .iter()
                .map(|direct| {
                    let rows = [
                        ("legacy", "simd-helper", 16.0),
                        ("legacy", "direct", *direct),
                        ("bh-off", "direct", 20.0),
                    ];
                    let rows = rows.map(|(policy, path, ns)| {
                        let mut row = way(policy, path, 16, 0.8);
                        row["ns_per_op"] = json!(ns);
                        row
                    });
                    answer(&WAYS, json!(rows))
                })
                .collect();
            let row = crate::headlines(&SOFTIRQ_SIMD, &answers).remove(0);
            row.headline.unwrap()
        };
        let noisy = said([14.0, 18.0, 15.0, 17.0, 15.5]);
        assert!(
            noisy.contains(
                "the simd helper makes no measurable difference per 16-byte request; disabling"
            ),
            "{noisy}"
        );
        // Control: with a steady result, the same difference is stated.
        let steady = said([15.5, 15.6, 15.4, 15.5, 15.5]);
        assert!(
            steady.contains("the simd helper saves 0.50 ns per 16-byte request; disabling"),
            "{steady}"
        );
    }

    #[test]
    fn old_records_without_times_have_only_ratios() {
        let answers = FASTER.map(|s| {
            let mut row = way("bh-off", "direct", 16, s);
            row["ns_per_op"] = Value::Null;
            answer(&WAYS, json!([row]))
        });
        let row = one(&SOFTIRQ_SIMD, &answers);
        assert!(!row.headline.unwrap().contains(" ns"));
        assert_eq!(
            row.verdict.as_deref(),
            Some("16 bytes, Linux 6.15's model: 1.21 times as fast (1.18 to 1.23)")
        );
    }

    #[test]
    fn a_tie_and_a_contradiction_are_not_called_faster() {
        let verdict = |speedups, time: Option<[f64; 5]>| {
            let mut answers = Vec::new();
            for i in 0..5 {
                let speedups: [f64; 5] = speedups;
                let mut row = way("bh-off", "direct", 16, speedups[i]);
                row["time_speedup"] = json!(time.map(|t| t[i]));
                answers.push(answer(
                    &WAYS,
                    json!([way("legacy", "simd-helper", 16, 1.0), row]),
                ));
            }
            one(&SOFTIRQ_SIMD, &answers).verdict.unwrap()
        };
        assert!(verdict(FASTER, None).ends_with("; 6.15 is faster"));
        assert!(verdict(SLOWER, None).ends_with("; 6.15 is slower"));
        assert!(verdict(EQUAL, None).ends_with("; no difference found"));
        assert!(verdict(FASTER, Some(SLOWER)).ends_with("; unclear"));
    }

    #[test]
    fn one_process_gives_no_verdict() {
        let one_of = &ways(FASTER, EQUAL, FASTER, FASTER)[..1];
        let said = sentences(&SOFTIRQ_SIMD, one_of);
        assert!(
            said[0].contains("16 bytes: 1.20 times, measured once"),
            "{}",
            said[0]
        );
    }

    #[test]
    fn a_tree_is_compared_with_its_own_helper() {
        let tree = |version: &str, speedups: [f64; 5]| {
            let answers = speedups.map(|s| {
                let mut row = way("tree:/t", "direct", 16, s);
                row["provider"] = json!(format!("linux-{version}"));
                answer(&TREE_WAYS, json!([row]))
            });
            one(&SOFTIRQ_SIMD, &answers)
        };
        let row = tree("6.12.117", FASTER);
        let text = row.headline.unwrap();
        assert!(
            text.starts_with("linux 6.12.117, its own code")
                && text.contains("1.21 times (1.18 to 1.23)"),
            "{text}"
        );
        assert!(text.contains("Published: 1.27 times") && row.baseline == Some(487.0 / 384.0));
        assert!(tree("6.12.117", SLOWER)
            .headline
            .unwrap()
            .contains("helper: 0.80 times (0.78 to 0.82), slower"));
        assert!(tree("6.14", EQUAL)
            .headline
            .unwrap()
            .contains("no difference found"));
        // The published comparison used the FPU sections of Linux up to 6.14. Since Linux 6.15,
        // both methods use another kind of section, so the published result is not quoted.
        let row = tree("6.15.1", FASTER);
        assert!(!row.headline.unwrap().contains("Published") && row.baseline.is_none());
    }

    fn counted(policy: &str, control: bool, hit: u64, wrong: u64, user: u64) -> Value {
        json!({"policy": policy, "control": control, "load": "xts-16", "inject": "timer", "irqs_in_section": hit,
               "corrupted": wrong, "user_corrupted": user})
    }

    fn of_breakpoints(rows: &[Value]) -> (Row, bool) {
        let mut rows = rows.to_vec();
        rows.iter_mut()
            .for_each(|r| r["inject"] = json!("breakpoint"));
        let answers = [answer(&BREAKPOINTS, json!(rows))];
        let blind = fails(&answers);
        (one(&NESTED_FPU, &answers), blind)
    }

    #[test]
    fn wrong_results_are_counted_where_none_are_allowed() {
        let told = |wrong, user| {
            let table = json!([
                counted("legacy", false, 500, 0, 0),
                counted("legacy", true, 900, 0, 0),
                counted("none", false, 100, 40, 7)
            ]);
            let mut random = json!([
                counted("nested", false, 1_000_000, wrong, user),
                counted("none", false, 2000, 900, 3)
            ]);
            for row in random.as_array_mut().unwrap() {
                row["inject"] = json!("breakpoint");
            }
            let answers = [answer(&POLICIES, table), answer(&BREAKPOINTS, random)];
            assert!(!fails(&answers));
            one(&NESTED_FPU, &answers)
        };
        let row = told(0, 0);
        assert_eq!(
            row.headline.unwrap(),
            "1,000,500 interrupts occurred during FPU sections, summed over 2 FPU policies (1 of them with nested sections). Under the tested \
             policies, 0 results were wrong, and 0 emulated system calls changed the user's FPU registers. A control that saves no \
             registers must lose some: after 2,100 interrupts during its FPU sections, 940 results were wrong. The control also changed the \
             user's FPU registers in 10 emulated system calls, whether or not they were interrupted"
        );
        assert_eq!(
            row.verdict.as_deref(),
            Some("In this test, yes: nested sections lost no registers in 1,000,000 interrupts")
        );
        assert_eq!((row.value, row.unit), (Some(0.0), Some("lost")));
        assert_eq!(told(7, 0).value, Some(7.0));
        assert_eq!(
            told(7, 0).verdict.as_deref(),
            Some("No: nested sections lost registers 7 times in 1,000,000 interrupts")
        );
        assert_eq!(told(0, 2).value, Some(2.0));
        assert!(told(0, 1)
            .verdict
            .unwrap()
            .starts_with("No: nested sections lost registers once"));
    }

    #[test]
    fn a_control_without_power_gives_no_verdict() {
        let nested = counted("nested", false, 1000, 0, 0);
        for (hit, wrong) in [(500, 0), (0, 0), (500, 2)] {
            let (row, blind) =
                of_breakpoints(&[nested.clone(), counted("none", false, hit, wrong, 5)]);
            let text = row.headline.unwrap();
            let want = format!("No power: the control that saves nothing lost {wrong} of {hit}");
            assert!(blind && text.starts_with(&want), "{text}");
            assert_eq!(row.unit, Some("lost by the control"));
        }
        let (row, blind) = of_breakpoints(std::slice::from_ref(&nested));
        assert!(
            blind
                && row
                    .headline
                    .unwrap()
                    .starts_with("No verdict on lost state: the control policy none")
        );
        let rare = counted("nested", false, 3, 0, 0);
        let (row, blind) = of_breakpoints(&[rare, counted("none", false, 500, 250, 5)]);
        assert!(
            blind
                && row
                    .headline
                    .unwrap()
                    .starts_with("No power: nested was hit 3 times")
        );
        // A loss takes precedence over the control's lack of power.
        let lost = counted("nested", false, 1000, 4, 0);
        let (row, blind) = of_breakpoints(&[lost, counted("none", false, 0, 0, 0)]);
        let text = row.headline.unwrap();
        assert!(
            blind && text.starts_with("1,000 interrupts") && text.contains("no power"),
            "{text}"
        );
        assert_eq!(row.value, Some(4.0));
    }

    #[test]
    fn the_verdict_is_about_nested_sections() {
        let verdict = |policies: &[(&str, u64)], control: u64| {
            let mut rows: Vec<Value> = policies
                .iter()
                .map(|(policy, wrong)| counted(policy, false, 100_000, *wrong, 0))
                .collect();
            rows.push(counted("none", false, 2000, control, 3));
            of_breakpoints(&rows).0.verdict.unwrap()
        };
        let clean = [("legacy", 0), ("nested", 0), ("nested-v1", 0)];
        assert_eq!(
            verdict(&clean, 900),
            "In this test, yes: nested sections lost no registers in 200,000 interrupts"
        );
        assert!(verdict(&clean, 0).starts_with("Cannot tell whether nested sections are safe"));
        assert!(
            verdict(&clean[..1], 900).starts_with("Cannot tell: nested sections were not tested")
        );
        let other = [("legacy", 5), ("nested", 0)];
        assert_eq!(
            verdict(&other, 900),
            "Nested sections lost no registers; other sections lost registers 5 times"
        );
        assert_eq!(
            verdict(&other, 0),
            "Cannot tell about nested sections; others lost registers 5 times"
        );
        assert_eq!(
            verdict(&other[..1], 900),
            "Other sections lost registers 5 times; nested were not tested"
        );
        // A loss counts even if the control lost nothing, although other losses may then have been
        // missed.
        for control in [0, 900] {
            let verdict = verdict(&[("legacy", 0), ("nested-v1", 1)], control);
            assert_eq!(
                verdict,
                "No: nested sections lost registers once in 100,000 interrupts"
            );
        }
    }

    #[test]
    fn a_control_under_another_load_or_source_does_not_count() {
        let table = json!([counted("none", false, 1000, 900, 0)]);
        let mut nested = counted("nested", false, 1000, 0, 0);
        nested["inject"] = json!("breakpoint");
        let answers = [
            answer(&POLICIES, table),
            answer(&BREAKPOINTS, json!([nested])),
        ];
        assert!(fails(&answers));
    }
}
