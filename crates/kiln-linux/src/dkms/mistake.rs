//! Mistakes that the guest makes at the end of its run, one for each detector of a debug kernel.
//! The kernel must report each mistake. Otherwise a run without reports would prove nothing.

use crate::console::End;
use crate::init::Order;

/// Texts that identify faults in the kernel's log: warnings, KASAN, KCSAN, UBSAN and lockdep
/// reports, stalls, and hung tasks.
const REPORTS: [&str; 10] = [
    "WARNING:",
    "BUG:",
    "kernel BUG at",
    "INFO: rcu",
    "INFO: task ",
    "INFO: trying to register non-static key",
    "UBSAN:",
    "Oops:",
    "general protection",
    "alg: self-tests for",
];

/// Beginning of a SLUB report, such as `BUG kmalloc-64 (Tainted: G): Redzone overwritten`.
const SLUB: &str = "BUG ";

/// Returns whether this line of the kernel's log reports a fault.
pub(super) fn is_report(text: &str) -> bool {
    text.starts_with(SLUB) || REPORTS.iter().any(|report| text.contains(report))
}

/// Errno values that `linux/judge/fault.c` returns when it fails to load.
const EOPNOTSUPP: i32 = 95;
const ECANCELED: i32 = 125;

/// A mistake that `linux/judge/fault.c` makes.
#[derive(Debug)]
pub(super) struct Mistake {
    name: &'static str,
    /// Part of the line with which the kernel must report the mistake.
    report: &'static str,
    /// Name of the kernel configuration option that enables the detector.
    detector: &'static str,
}

/// The mistakes, in the order in which they are made. Lockdep and KASAN each report only the first
/// problem, and lockdep reports nothing after a KASAN report. If both report their mistakes here,
/// they were still active at the end of the run.
pub(super) const MISTAKES: [Mistake; 6] = [
    Mistake {
        name: "warning",
        report: "WARNING:",
        detector: "BUG",
    },
    Mistake {
        name: "sleep",
        report: "BUG: sleeping function called from invalid context",
        detector: "DEBUG_ATOMIC_SLEEP",
    },
    Mistake {
        name: "fpu",
        report: "kernel_fpu_begin_mask",
        detector: "X86_DEBUG_FPU",
    },
    Mistake {
        name: "lock",
        report: "WARNING: inconsistent lock state",
        detector: "PROVE_LOCKING",
    },
    Mistake {
        name: "race",
        report: "BUG: KCSAN: data-race",
        detector: "KCSAN",
    },
    Mistake {
        name: "memory",
        report: "BUG: KASAN: slab-out-of-bounds",
        detector: "KASAN",
    },
];

impl Mistake {
    pub(super) fn order(&self) -> Order {
        Order::module("/fault.ko", &format!("mistake={}", self.name)).may_fail()
    }
}

/// A mistake, how its command ended, and the faults that the kernel reported while the command ran.
pub(super) struct Made<'a> {
    pub mistake: &'a Mistake,
    pub ended: Option<End>,
    pub reports: Vec<&'a str>,
}

/// Checks that the kernel reported each mistake for which it has a detector. Returns the findings,
/// and a note that lists the detectors.
pub(super) fn find_unreported(made: &[Made]) -> (Vec<String>, String) {
    let (mut found, mut present, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for Made {
        mistake,
        ended,
        reports,
    } in made
    {
        let Mistake {
            name,
            report,
            detector,
        } = mistake;
        match ended {
            Some(End::Errno(EOPNOTSUPP)) => absent.push(*detector),
            Some(End::Errno(ECANCELED)) if reports.iter().any(|r| r.contains(report)) => {
                present.push(*detector);
            }
            Some(End::Errno(ECANCELED)) => found.push(format!(
                "the control: {detector} did not report the mistake '{name}' of linux/judge/fault.c"
            )),
            _ => found.push(format!(
                "the control: the mistake '{name}' was not made: {ended:?}"
            )),
        }
    }
    let list = |names: &[&str]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let note = format!(
        "controls, detectors that reported a planted mistake: {}; not in this kernel: {}",
        list(&present),
        list(&absent)
    );
    (found, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_report_is_recognised() {
        for report in [
            "WARNING: CPU: 0 PID: 57 at arch/x86/kernel/fpu/core.c:451 kernel_fpu_begin_mask+0x1/0x2",
            "WARNING: possible circular locking dependency detected",
            "WARNING: inconsistent lock state",
            "WARNING: suspicious RCU usage",
            "[ BUG: Invalid wait context ]",
            "INFO: trying to register non-static key.",
            "BUG: KASAN: slab-out-of-bounds in f+0x1/0x2 [kiln]",
            "BUG: KCSAN: data-race in f / g",
            "BUG: sleeping function called from invalid context at mm/slab.h:1",
            "BUG: scheduling while atomic: insmod/57/0x00000002",
            "BUG: using smp_processor_id() in preemptible [00000000] code: insmod/57",
            "BUG: unable to handle page fault for address: ffff",
            "BUG kmalloc-64 (Tainted: G           O      ): Right Redzone overwritten",
            "kernel BUG at mm/slub.c:1!",
            "UBSAN: shift-out-of-bounds in /x/y.c:1:2",
            "Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1]",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "INFO: task kworker/0:1:9 blocked for more than 120 seconds.",
            "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [insmod:57]",
            "alg: self-tests for xts(aes) using kiln-xts-aes-aesni failed (rc=-22)",
        ] {
            assert!(is_report(report), "{report}");
        }
        for other in [
            "kiln: loading out-of-tree module taints kernel.",
            "DEBUG OBJECTS: on",
            "INFO: lockdep is turned off.",
            "Call Trace:",
        ] {
            assert!(!is_report(other), "{other}");
        }
    }

    fn find(name: &str, errno: i32, reports: &[&str]) -> (Vec<String>, String) {
        let mistake = MISTAKES.iter().find(|m| m.name == name);
        find_unreported(&[Made {
            mistake: mistake.unwrap(),
            ended: Some(End::Errno(errno)),
            reports: reports.to_vec(),
        }])
    }

    #[test]
    fn a_mistake_without_its_report_is_found() {
        let kasan = "BUG: KASAN: slab-out-of-bounds in read_past_end+0x1/0x2 [fault]";
        let (found, note) = find("memory", ECANCELED, &[kasan]);
        assert!(found.is_empty() && note.contains("mistake: KASAN; not in this kernel: none"));
        let (found, note) = find("memory", EOPNOTSUPP, &[]);
        assert!(found.is_empty() && note.ends_with("mistake: none; not in this kernel: KASAN"));
        let other = "BUG: KCSAN: data-race in f / g";
        for (errno, reports) in [(ECANCELED, &[][..]), (ECANCELED, &[other]), (2, &[kasan])] {
            assert_eq!(find("memory", errno, reports).0.len(), 1, "{errno}");
        }
    }

    #[test]
    fn all_mistakes_are_in_the_module_and_their_reports_are_faults() {
        let source = include_str!("../../../../linux/judge/fault.c");
        for Mistake { name, report, .. } in &MISTAKES {
            assert!(source.contains(&format!("{{ \"{name}\", ")), "{name}");
            let line = format!("WARNING: CPU: 0 PID: 1 at core.c:1 {report}");
            assert!(is_report(&line), "{report}");
        }
        assert_eq!(source.matches("{ \"").count(), MISTAKES.len());
    }
}
