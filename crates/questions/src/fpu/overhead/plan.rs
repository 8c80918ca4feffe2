//! The policies, lengths and implementation that `kiln fpu overhead` measures, and checks of the
//! user's choices.

use kiln_kernel::cipher::Impl;
use kiln_kernel::fpu::Policy;
use kiln_question::Error;

pub(super) struct Plan {
    /// Kiln's own policies; empty if only a tree is measured.
    pub policies: Vec<Policy>,
    /// Message lengths in bytes.
    pub lens: Vec<usize>,
    /// SIMD implementation to use; `None` for the best one.
    pub imp: Option<Impl>,
    /// Seed for the key, the messages and the order of the samples.
    pub seed: u64,
    /// Whether to use fewer rounds.
    pub quick: bool,
}

impl Plan {
    /// Creates the default plan: the policy of Linux up to 6.14 and the policy of Linux 6.15 and
    /// later, at the default lengths.
    pub(super) fn new(seed: u64, quick: bool) -> Plan {
        let usual = |p: &Policy| ["legacy", "bh-off"].contains(&p.name());
        Plan {
            policies: Policy::all().into_iter().filter(usual).collect(),
            lens: vec![16, 512, 4096],
            imp: None,
            seed,
            quick,
        }
    }

    /// Checks the lengths.
    ///
    /// # Errors
    /// Fails if a length is not between 16 and 65536 bytes.
    pub(super) fn checked(self) -> Result<Plan, Error> {
        match self.lens.iter().find(|l| !(16..=65536).contains(*l)) {
            Some(len) => Err(Error::input(format!(
                "--len {len}: xts(aes) is measured at 16 to 65536 bytes"
            ))),
            None => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_plan_is_valid_and_a_short_length_is_not() {
        let plan = Plan::new(1, true).checked().unwrap();
        let names: Vec<&str> = plan.policies.iter().map(|p| p.name()).collect();
        assert_eq!(names, ["legacy", "bh-off"]);
        let short = Plan {
            lens: vec![16, 15],
            ..plan
        };
        let e = short.checked().err().unwrap();
        assert!(e.to_string().contains("--len 15"), "{e}");
        assert_eq!(e.exit_code(), 2);
    }
}
