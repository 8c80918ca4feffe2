//! The part of the survey that runs `kiln budget`, and the arguments for it.

use kiln_question::survey::{args, Contribution, Part, Runs, Slot};

use super::headline::{self, TOPIC};

pub(crate) static SURVEY: &[Contribution] = &[Contribution {
    topic: &TOPIC,
    parts: &[&BUDGET],
    rows: |answers| {
        let all = Runs::new(answers, &[&BUDGET]);
        let rows = [
            headline::held(&all),
            headline::budgets(&all),
            headline::posted(&all),
        ];
        rows.into_iter().flatten().collect()
    },
    failed: |_| false,
}];

/// The part that measures section lengths.
pub(super) static BUDGET: Part = Part {
    name: "budget",
    what: "the lengths of FPU sections",
    importance: 5,
    least_s: 1.8,
    share: 0.18,
    args: budget_args,
    ..Part::USUAL
};

/// Returns arguments for a run that fits into the slot. Usually, they select all implementations of
/// the hashes for which byte limits were posted. With less time, only one or two algorithms of each
/// kind are measured; with more time, further chunking strategies are added.
fn budget_args(slot: &Slot) -> Vec<String> {
    let few = ["sha256", "sm3", "poly1305", "polyval", "crc32c"];
    let more = ["sha1", "sha512", "ghash", "nhpoly1305", "crct10dif"];
    // `rows` is the number of rows on a CPU with all tiers. `least` is the minimum time in seconds
    // for these rows. It includes the time to process the messages of the slowest implementation,
    // and to compute the expected results with generic code.
    let (algs, ways, rows, least) = match slot.seconds {
        s if s < 1.7 => (few.to_vec(), "fixed,clocked", 20.0, 0.3),
        s if s < 12.0 => ([few, more].concat(), "fixed,clocked", 37.0, 0.5),
        _ => (
            [few, more].concat(),
            "unbounded,fixed,calibrated,clocked",
            85.0,
            1.2,
        ),
    };
    let row = (0.8 * (slot.seconds - Part::START_S - least) / rows).clamp(0.01, 1.0);
    let mut words = vec!["budget"];
    words.extend(&algs);
    let row = format!("{row:.3}");
    words.extend(["--mode", ways, "--seconds", &row]);
    args(&words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::slot_seconds;

    #[test]
    fn what_is_measured_fits_its_time() {
        for seconds in [2.5, 5.0, 12.0, 60.0] {
            let (args, row) = slot_seconds(&BUDGET, seconds);
            let algs = args.iter().position(|a| a == "--mode").unwrap() - 1;
            let ways = args[algs + 2].split(',').count();
            assert!(row * (algs * ways) as f64 <= seconds, "{args:?}");
        }
    }
}
