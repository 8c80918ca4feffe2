//! The suites: what is tested of an implementation.

use std::fmt;
use std::str::FromStr;

use kiln_kernel::cipher::Impl;
use kiln_kernel::fpu::Policy;
use kiln_question::Error;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Known answers of the standards.
    Vectors,
    /// Project Wycheproof's.
    Wycheproof,
    /// Keys of every length, good and bad.
    Keys,
    /// Messages of every length.
    Lengths,
    /// A message cut in two anywhere, the state carried to other memory and on by every other tier.
    Splits,
    /// Every bit of a tag flipped, and some of everything else.
    Forgeries,
    /// Requests to the crypto API over divided memory, compared with the judge.
    Requests,
    /// Requests with every tag size, nonce, length and amount of associated data, good and bad.
    Refusals,
    /// Messages encrypted side by side, each compared with the judge's.
    Many,
    /// Keys of transforms of the crypto API, looked for in its memory after they are freed.
    Wiped,
    /// Random messages, compared with the judge.
    Random,
    /// The same in every context under an FPU policy, on all CPUs at once, while interrupts come by the clock.
    Contexts(Policy),
    /// The same on one CPU, while interrupts come before random instructions of the sections.
    Interrupted(Policy),
}

impl Suite {
    /// Those that are run under each mask of tiers.
    pub const OF_MASKS: [Suite; 11] = [
        Suite::Vectors,
        Suite::Wycheproof,
        Suite::Keys,
        Suite::Lengths,
        Suite::Splits,
        Suite::Forgeries,
        Suite::Requests,
        Suite::Refusals,
        Suite::Many,
        Suite::Wiped,
        Suite::Random,
    ];

    /// Two for each policy that is not broken on purpose.
    pub fn of_policies() -> Vec<Suite> {
        let policies = Policy::all().into_iter().filter(|p| !p.is_broken());
        policies.flat_map(Suite::of_policy).collect()
    }

    fn of_policy(policy: Policy) -> [Suite; 2] {
        [Suite::Contexts(policy), Suite::Interrupted(policy)]
    }

    /// Whether an implementation has what it tests; an algorithm's others may.
    pub fn fits(self, imp: Impl) -> bool {
        self != Suite::Many || imp.lanes().is_some()
    }

    /// The policy of those that are run under one.
    pub fn policy(self) -> Option<Policy> {
        match self {
            Suite::Contexts(policy) | Suite::Interrupted(policy) => Some(policy),
            _ => None,
        }
    }

    /// Name, as `--suite` and rows have it.
    pub fn name(self) -> String {
        match self {
            Suite::Vectors => "vectors".into(),
            Suite::Wycheproof => "wycheproof".into(),
            Suite::Keys => "keys".into(),
            Suite::Lengths => "lengths".into(),
            Suite::Splits => "splits".into(),
            Suite::Forgeries => "forgeries".into(),
            Suite::Requests => "requests".into(),
            Suite::Refusals => "refusals".into(),
            Suite::Many => "many".into(),
            Suite::Wiped => "wiped".into(),
            Suite::Random => "random".into(),
            Suite::Contexts(policy) => format!("contexts:{policy}"),
            Suite::Interrupted(policy) => format!("interrupted:{policy}"),
        }
    }

    /// Keeps the suites' draws apart.
    pub(crate) fn salt(self) -> u64 {
        match self {
            Suite::Random => 0,
            other => other.name().bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
                (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
            }),
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

impl FromStr for Suite {
    type Err = Error;

    fn from_str(s: &str) -> Result<Suite, Error> {
        let policies = Policy::all().into_iter().flat_map(Suite::of_policy);
        let all: Vec<Suite> = Suite::OF_MASKS.into_iter().chain(policies).collect();
        all.iter().copied().find(|x| x.name() == s).ok_or_else(|| {
            let names: Vec<String> = all.iter().map(|x| x.name()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            kiln_question::unknown("suite", s, &names)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for suite in Suite::OF_MASKS.into_iter().chain(Suite::of_policies()) {
            assert_eq!(suite.name().parse::<Suite>().unwrap(), suite);
        }
        let e = "context:nested".parse::<Suite>().unwrap_err().to_string();
        assert!(e.contains("did you mean 'contexts:nested'"), "{e}");
    }
}
