//! Defines the part of the survey that runs `kiln ipsec`, including the arguments that it passes.

use kiln_question::survey::{args, Contribution, Part, Runs};

use super::headline;
use crate::fpu::NESTED_FPU;

pub(crate) static SURVEY: &[Contribution] = &[Contribution {
    topic: &NESTED_FPU,
    parts: &[&ESP],
    rows: |answers| {
        let row = headline::knees(&Runs::new(answers, &[&ESP]));
        row.into_iter().collect()
    },
    failed: |_| false,
}];

/// The survey part that measures the packet rate at which losses begin.
pub(super) static ESP: Part = Part {
    name: "fpu-esp",
    what: "IPsec under load",
    importance: 6,
    least_s: 2.2,
    share: 0.20,
    args: |slot| {
        let policies = match slot.seconds < 6.5 {
            true => "legacy,bh-off",
            false => "legacy,bh-off,nested",
        };
        let seconds = slot.measuring();
        let mut words = vec!["ipsec", "--policy", policies, "--seconds", &seconds];
        // --quick halves the length of the phases.
        words.extend((slot.seconds < 25.0).then_some("--quick"));
        args(&words)
    },
    ..Part::USUAL
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::slot_seconds;

    #[test]
    fn what_is_measured_fits_its_time() {
        for seconds in [2.5, 5.0, 12.0, 60.0] {
            assert!(slot_seconds(&ESP, seconds).1 < seconds);
        }
    }
}
