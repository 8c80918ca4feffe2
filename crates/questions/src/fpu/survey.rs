//! The survey parts that run `kiln fpu` and its subcommands.

use kiln_question::survey::{args, Answer, Contribution, Part, Row, Runs};

use super::headline::{self, NESTED_FPU, SOFTIRQ_SIMD};

pub(crate) static SURVEY: &[Contribution] = &[
    Contribution {
        topic: &SOFTIRQ_SIMD,
        parts: &[&WAYS, &TREE_WAYS],
        rows: |answers| {
            let ways = Runs::new(answers, &[&WAYS]);
            let rows = [
                headline::direct_to_helper(&ways),
                headline::other_sections(&ways),
                headline::detour_of_tree(&Runs::new(answers, &[&TREE_WAYS])),
            ];
            rows.into_iter().flatten().collect()
        },
        failed: |_| false,
    },
    Contribution {
        topic: &NESTED_FPU,
        parts: &[&POLICIES, &BREAKPOINTS],
        rows: |answers| {
            let row: Option<Row> = headline::interrupted(&interrupted(answers));
            row.into_iter().collect()
        },
        // The survey fails if interrupts hit sections but there were too few of them to detect a
        // loss.
        failed: |answers| headline::is_blind(&interrupted(answers)),
    },
];

fn interrupted(answers: &[Answer]) -> Runs<'_> {
    Runs::new(answers, &[&POLICIES, &BREAKPOINTS])
}

/// The survey part that measures the cost of each method of calling a cipher.
pub(super) static WAYS: Part = Part {
    name: "fpu-overhead",
    what: "the methods of calling a cipher",
    importance: 2,
    least_s: 1.1,
    share: 0.06,
    args: |slot| {
        let mut words = vec!["fpu", "overhead", "--policy", "legacy,bh-off,nested"];
        words.extend(["--len", LENS]);
        words.extend((slot.seconds < 2.5).then_some("--quick"));
        args(&words)
    },
    ..Part::USUAL
};

/// The survey part that measures the cost of each method of calling a cipher in a kernel tree.
pub(super) static TREE_WAYS: Part = Part {
    name: "fpu-overhead-tree",
    what: "the methods of calling a cipher in the kernel tree",
    importance: 11,
    from_s: 150.0,
    least_s: 3.0,
    builds: true,
    // Skip this part whenever the survey skips the part that runs `kiln speed` on a tree.
    follows: true,
    can_run: |means| means.tree.is_some(),
    args: |slot| {
        let policy = format!("tree:{}", slot.tree());
        args(&["fpu", "overhead", "--policy", &policy, "--len", LENS])
    },
    ..Part::USUAL
};

/// The survey part that measures the policy table.
pub(super) static POLICIES: Part = Part {
    name: "fpu",
    what: "the table of FPU policies",
    importance: 8,
    from_s: 40.0,
    least_s: 1.6,
    repeats: false,
    args: |slot| {
        let loads = match slot.seconds < 4.0 {
            true => "xts-16",
            false => "xts-16,xts-4096",
        };
        args(&["fpu", "--load", loads, "--seconds", &slot.measuring()])
    },
    ..Part::USUAL
};

/// The survey part that determines whether policies lose state. It injects interrupts at
/// breakpoints, because these hit sections a thousand times as often as timer interrupts do.
pub(super) static BREAKPOINTS: Part = Part {
    name: "fpu-breakpoint",
    what: "interrupts at random instructions",
    importance: 3,
    least_s: 1.5,
    repeats: false,
    args: |slot| {
        args(&[
            "fpu",
            "prove",
            "breakpoint",
            "--load",
            "xts-16",
            "--seconds",
            &slot.measuring(),
        ])
    },
    ..Part::USUAL
};

const LENS: &str = "16,512,4096";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::slot_seconds;

    #[test]
    fn what_is_measured_fits_its_time() {
        for seconds in [2.5, 5.0, 12.0, 60.0] {
            assert!(slot_seconds(&POLICIES, seconds).1 < seconds);
        }
    }
}
