//! Tests that each policy allows the FPU only in the expected contexts, both inside and outside a
//! section.

use kiln_kernel::fpu::{usable, Answer, Context, Policy};

use crate::machine::{boot, policy, run_alone};

/// Expected answers to "is the FPU usable?". Each row is a context, each column a policy. The first
/// answer applies if the interrupted task has no open section, the second if it has one. `W` means
/// that opening a section in this context causes a warning. `-` means that this context only runs
/// after the section has ended. Kernels also warn about a query in an NMI, but this warning is not
/// tested here.
const TABLE: &str = "
context                | legacy   | bh-off   | nested   | nested-v1 | preemptible | none
task                   | yes / noW | yes / noW | yes / yesW | yes / yesW | yes / yesW | yes / yes
task, BH off           | yes / noW | yes / noW | yes / yesW | yes / yesW | yes / yesW | yes / yes
softirq                | yes / no | yes / -  | yes / yes | yes / yes | yes / yes | yes / yes
hardirq                | yes / no | yes / no | yes / yes | yesW / yes | no / no | yes / yes
hardirq over BH off    | no / no  | no / no  | no / no  | no / no   | no / no     | yes / yes
hardirq over softirq   | no / no  | no / -   | no / no  | no / no   | no / no     | yes / yes
NMI                    | no / no  | no / no  | no / no  | no / no   | no / no     | yes / yes
";

fn cells(line: &str) -> Vec<&str> {
    line.split('|').map(str::trim).collect()
}

/// Formats an answer in the table's notation.
fn written(answer: Answer, in_section: bool) -> String {
    if in_section && !answer.over_section {
        return "-".into();
    }
    let word = if answer.usable { "yes" } else { "no" };
    let warned = if answer.warnings > 0 { "W" } else { "" };
    format!("{word}{warned}")
}

#[test]
fn every_policy_and_context_answers_as_the_table() {
    run_alone(|_| {
        let mut cpu = boot();
        let mut lines = TABLE.trim().lines();
        let head = cells(lines.next().expect("a head"));
        let names: Vec<_> = Policy::all().iter().map(|p| p.name()).collect();
        assert_eq!(head[1..], names, "the table has every policy");
        let mut wrong = Vec::new();
        let mut rows = 0;
        for (context, line) in Context::ALL.into_iter().zip(lines) {
            rows += 1;
            let row = cells(line);
            for (name, want) in head[1..].iter().zip(&row[1..]) {
                policy(name).set(&mut cpu);
                let [outside, inside] =
                    [false, true].map(|s| written(usable(&mut cpu, context, s), s));
                let got = format!("{outside} / {inside}");
                if got != *want {
                    wrong.push(format!("{name}, {}: {got}, not {want}", row[0]));
                }
            }
        }
        assert_eq!(rows, Context::ALL.len());
        assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    });
}

#[test]
fn preempt_counts_have_the_kernels_layout() {
    run_alone(|_| {
        let mut cpu = boot();
        // Returns how much an open section of a task adds to the preempt count under policy `p`.
        let section = |p: &str| match p {
            "bh-off" => 0x200,
            "preemptible" => 0,
            _ => 1,
        };
        for p in Policy::all() {
            p.set(&mut cpu);
            for (context, own) in [
                (Context::Task, 0),
                (Context::TaskBhOff, 0x200),
                (Context::Softirq, 0x100),
                (Context::Hardirq, 0x1_0000),
                (Context::HardirqOverBhOff, 0x1_0200),
                (Context::HardirqOverSoftirq, 0x1_0100),
                (Context::Nmi, 0x11_0000),
            ] {
                for in_section in [false, true] {
                    let answer = usable(&mut cpu, context, in_section);
                    let below = if in_section { section(p.name()) } else { 0 };
                    // If the context has to wait for the end of the section, it runs in the
                    // local_bh_enable() that ends the section. That function disables preemption,
                    // which adds 1 to the count.
                    let waits = in_section && !answer.over_section;
                    let want = if waits { own + 1 } else { own + below };
                    assert_eq!(
                        answer.preempt_count, want,
                        "{p}, {context:?}, in a section: {in_section}: {answer:x?}"
                    );
                    assert_eq!(answer.preempt_after, 0, "{p}, {context:?}: back to nothing");
                }
            }
        }
    });
}

#[test]
fn only_nested_v1_warns_in_a_hardirq_outside_a_section() {
    run_alone(|_| {
        let mut cpu = boot();
        let mut warned = |name| {
            policy(name).set(&mut cpu);
            usable(&mut cpu, Context::Hardirq, false).warnings
        };
        assert!(warned("nested-v1") > 0, "local_bh_enable() in a hardirq");
        assert_eq!(warned("nested"), 0);
    });
}
