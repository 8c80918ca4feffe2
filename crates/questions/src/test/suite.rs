//! The suites that `kiln test` can run, and what each one tests.

use std::fmt;
use std::str::FromStr;

use kiln_kernel::cipher::Impl;
use kiln_kernel::fpu::Policy;
use kiln_question::Error;

/// A kind of test. Each case belongs to one suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Known answers from standards.
    Vectors,
    /// The tests of Project Wycheproof.
    Wycheproof,
    /// Keys of every length, valid and invalid.
    Keys,
    /// Messages of every length.
    Lengths,
    /// A message that is cut in two at every position in turn. Between the two parts, the state is
    /// moved to other memory. Each cut is tested with the tested implementation alone, and with the
    /// tested implementation alternating with each usable one.
    Splits,
    /// Messages with a flipped bit in the tag or another part.
    Forgeries,
    /// Requests to the crypto API whose memory is divided into pieces. The results are compared
    /// with those of the reference implementation.
    Requests,
    /// Valid and invalid requests to the crypto API. Each request varies one property, such as the
    /// tag size, the message length, the length of the associated data, or the nonce.
    Refusals,
    /// Messages processed in parallel. Each result is compared with that of the reference
    /// implementation.
    Many,
    /// The keys of crypto API transforms, which must not remain in memory after the transforms are
    /// freed.
    Wiped,
    /// Random messages. The results are compared with those of the reference implementation.
    Random,
    /// Random messages in every context under an FPU policy, on all CPUs at once, with timer
    /// interrupts.
    Contexts(Policy),
    /// Random messages in every context under an FPU policy, on one CPU, with interrupts injected
    /// before randomly selected instructions in FPU sections.
    Interrupted(Policy),
}

impl Suite {
    /// The suites to run under each mask of tiers.
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

    /// Returns the suites that depend on a policy: two for each policy that is not deliberately
    /// broken.
    pub fn of_policies() -> Vec<Suite> {
        let policies = Policy::all().into_iter().filter(|p| !p.is_broken());
        policies.flat_map(Suite::of_policy).collect()
    }

    fn of_policy(policy: Policy) -> [Suite; 2] {
        [Suite::Contexts(policy), Suite::Interrupted(policy)]
    }

    /// Returns whether the implementation supports what the suite tests. The answer may differ
    /// between implementations of the same algorithm.
    pub fn fits(self, imp: Impl) -> bool {
        self != Suite::Many || imp.lanes().is_some()
    }

    /// Returns the FPU policy under which the suite runs; `None` if the suite does not depend on a
    /// policy.
    pub fn policy(self) -> Option<Policy> {
        match self {
            Suite::Contexts(policy) | Suite::Interrupted(policy) => Some(policy),
            _ => None,
        }
    }

    /// Returns the suite's name as it appears in rows and in `--suite`.
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

    /// Returns a number that is combined with the seed, so that each suite draws different random
    /// numbers.
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
        if ["testmgr", "library"].contains(&s) {
            return Err(Error::input(format!(
                "--suite {s} tests a kernel tree: add --tree DIR"
            )));
        }
        let policies = Policy::all().into_iter().flat_map(Suite::of_policy);
        let all: Vec<Suite> = Suite::OF_MASKS.into_iter().chain(policies).collect();
        all.iter().copied().find(|x| x.name() == s).ok_or_else(|| {
            let names: Vec<String> = all.iter().map(|x| x.name()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let error = kiln_question::unknown("suite", s, &names);
            Error::input(format!(
                "{error}; for a KUnit suite, name a tree with --tree DIR"
            ))
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
        let e = "testmgr".parse::<Suite>().unwrap_err().to_string();
        assert_eq!(e, "--suite testmgr tests a kernel tree: add --tree DIR");
    }
}
