//! Answers the five questions about a machine.

use super::compiler::judge_compiler;
use super::deferral::{judge_ipsec, judge_softirqs};
use super::machine::Machine;
use super::queue::judge_queue;
use super::row::Row;
use super::sections::judge_sections;

/// Answers all questions, and returns one row per question.
pub(super) fn judge(machine: &Machine) -> Vec<Row> {
    let answers = [
        judge_softirqs(machine),
        judge_ipsec(machine),
        judge_sections(machine),
        judge_compiler(machine),
        judge_queue(machine),
    ];
    let rows = (1..).zip(answers);
    rows.map(|(number, answer)| answer.into_row(number, machine))
        .collect()
}

/// Returns a few lines about the machine, for the terminal and for a record's notes.
pub(super) fn describe(machine: &Machine) -> Vec<String> {
    let unknown = || "unknown".to_owned();
    let mut lines = vec![format!(
        "Linux {}, {} CPU{}: {}; clock source {}{}",
        machine.release.clone().unwrap_or_else(unknown),
        machine.cpus,
        if machine.cpus == 1 { "" } else { "s" },
        machine.cpu.clone().unwrap_or_else(unknown),
        machine.clock.clone().unwrap_or_else(unknown),
        match machine.realtime {
            Some(true) => "; a kernel for real time",
            _ => "",
        }
    )];
    let simd = [
        "aes",
        "vaes",
        "pclmulqdq",
        "vpclmulqdq",
        "sha_ni",
        "avx2",
        "avx512f",
    ];
    if let Some(flags) = &machine.flags {
        let (has, lacks): (Vec<&str>, Vec<&str>) =
            simd.into_iter().partition(|s| flags.iter().any(|f| f == s));
        lines.push(format!(
            "CPU features: {}; not: {}",
            join_or(&has, "none of these"),
            join_or(&lacks, "none")
        ));
    }
    let busy = ["NET_RX", "NET_TX", "BLOCK", "TIMER", "RCU"];
    let counts: Vec<String> = machine
        .softirqs
        .iter()
        .filter(|(name, _)| busy.contains(&name.as_str()))
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    if !counts.is_empty() {
        let since = match machine.uptime_s {
            Some(s) => format!(" in {s:.0} s since boot"),
            None => String::new(),
        };
        lines.push(format!("softirqs{since}: {}", counts.join(", ")));
    }
    let vulnerable: Vec<&str> = machine
        .mitigations
        .iter()
        .filter(|(_, said)| said.starts_with("Vulnerable"))
        .map(|(name, _)| name.as_str())
        .collect();
    if !machine.mitigations.is_empty() {
        lines.push(format!(
            "mitigations of {} vulnerabilities read; vulnerable: {}",
            machine.mitigations.len(),
            join_or(&vulnerable, "none")
        ));
    }
    lines
}

fn join_or(names: &[&str], none: &str) -> String {
    match names {
        [] => none.to_owned(),
        names => names.join(" "),
    }
}
