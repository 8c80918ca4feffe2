//! The checks that can be run on a device, and their verdicts.

use crate::link::Target;
use crate::rule::Rule;

/// The outcome of a check. The text states why the check was skipped or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// The device does not offer what the check needs, or exited during an earlier check.
    Skip(String),
    Fail(String),
}

/// The area of the device's behaviour that a check examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Configuration,
    Services,
    Framing,
    Keys,
    Requests,
    Rings,
    FrontEnds,
    Features,
}

impl Group {
    /// All groups, in the order in which their checks run.
    pub const ALL: [Group; 8] = [
        Group::Configuration,
        Group::Services,
        Group::Framing,
        Group::Keys,
        Group::Requests,
        Group::Rings,
        Group::FrontEnds,
        Group::Features,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Group::Configuration => "configuration",
            Group::Services => "services",
            Group::Framing => "lengths and descriptors",
            Group::Keys => "private keys",
            Group::Requests => "hostile requests",
            Group::Rings => "hostile rings",
            Group::FrontEnds => "hostile front ends",
            Group::Features => "optional features",
        }
    }

    /// Returns advice on what to do if a check in this group fails.
    fn advice(self) -> &'static str {
        match self {
            Group::Configuration => {
                "offer only what the specification defines and the device serves"
            }
            Group::Services => {
                "correct the operation, or clear the algorithm's bit in the configuration"
            }
            Group::Framing => {
                "read a request as one sequence of bytes, whatever descriptors it consists of"
            }
            Group::Keys => {
                "check that the sandbox allows random numbers, or clear the algorithm's bit in the \
                 configuration"
            }
            Group::Requests => {
                "copy a request once, and check every length in it, in sums that cannot wrap, \
                 before using it"
            }
            Group::Rings => {
                "copy each descriptor once, and check its address, length, flags and next before \
                 using it"
            }
            Group::FrontEnds => {
                "limit what one front end can use up, and give every call that waits for a front end a timeout"
            }
            Group::Features => "correct the feature, or do not offer it",
        }
    }
}

/// A check and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub group: Group,
    pub case: String,
    /// The requirement that the check tests.
    pub rule: Rule,
    pub verdict: Verdict,
}

impl Row {
    /// Returns `pass`, `skip` or `fail`.
    pub fn status(&self) -> &'static str {
        match self.verdict {
            Verdict::Pass => "pass",
            Verdict::Skip(_) => "skip",
            Verdict::Fail(_) => "fail",
        }
    }

    /// For a skipped check, returns the reason. For a failed check, returns what is wrong, which
    /// rule this violates, and what to do. Returns `None` if the check passed.
    pub fn explain(&self) -> Option<String> {
        match &self.verdict {
            Verdict::Pass => None,
            Verdict::Skip(why) => Some(why.clone()),
            Verdict::Fail(what) => Some(format!(
                "{what}; see {}; {}",
                self.rule.describe(),
                self.group.advice()
            )),
        }
    }
}

/// Number of checks with each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl Totals {
    pub fn count<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Totals {
        let mut totals = Totals::default();
        for row in rows {
            match row.verdict {
                Verdict::Pass => totals.passed += 1,
                Verdict::Skip(_) => totals.skipped += 1,
                Verdict::Fail(_) => totals.failed += 1,
            }
        }
        totals
    }
}

type Check = Box<dyn FnOnce(&Target) -> Result<Verdict, String>>;

/// A check that can be run on a device.
pub(crate) struct Case {
    pub group: Group,
    pub rule: Rule,
    pub name: String,
    check: Result<Check, String>,
}

impl Case {
    pub(crate) fn new(
        (group, rule): (Group, Rule),
        name: impl Into<String>,
        check: impl FnOnce(&Target) -> Result<(), String> + 'static,
    ) -> Case {
        let check = |target: &Target| check(target).map(|()| Verdict::Pass);
        Case::new_skippable((group, rule), name, check)
    }

    /// Creates a check that may be skipped after it has connected, because the device does not
    /// offer what the check needs.
    pub(crate) fn new_skippable(
        (group, rule): (Group, Rule),
        name: impl Into<String>,
        check: impl FnOnce(&Target) -> Result<Verdict, String> + 'static,
    ) -> Case {
        Case {
            group,
            rule,
            name: name.into(),
            check: Ok(Box::new(check)),
        }
    }

    /// Creates a check that is not run, for the reason `why`.
    pub(crate) fn skip(
        (group, rule): (Group, Rule),
        name: impl Into<String>,
        why: impl Into<String>,
    ) -> Case {
        Case {
            group,
            rule,
            name: name.into(),
            check: Err(why.into()),
        }
    }

    pub(crate) fn run(self, target: &Target) -> Row {
        let verdict = match self.check {
            Err(why) => Verdict::Skip(why),
            Ok(check) => match check(target) {
                Ok(verdict) => verdict,
                Err(what) => Verdict::Fail(what),
            },
        };
        Row {
            group: self.group,
            case: self.name,
            rule: self.rule,
            verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule;

    #[test]
    fn checks_become_verdicts() {
        let none = Target {
            path: "/".into(),
            stop: Default::default(),
        };
        let kind = (Group::Services, rule::CIPHER);
        let pass = Case::new(kind, "a", |_| Ok(())).run(&none);
        let fail = Case::new(kind, "b", |_| Err("what was seen".into())).run(&none);
        let skip = Case::skip(kind, "c", "not offered").run(&none);
        assert_eq!(pass.verdict, Verdict::Pass);
        assert_eq!(fail.verdict, Verdict::Fail("what was seen".into()));
        assert_eq!(skip.verdict, Verdict::Skip("not offered".into()));
        assert_eq!(
            (pass.explain(), skip.explain()),
            (None, Some("not offered".into()))
        );
        assert_eq!(
            fail.explain().unwrap(),
            "what was seen; see virtio 5.9.7.6.2 (Device Requirements: Symmetric algorithms \
             Operation); correct the operation, or clear the algorithm's bit in the configuration"
        );
        let lacks = |_: &Target| Ok(Verdict::Skip("not offered".into()));
        let late = Case::new_skippable(kind, "d", lacks).run(&none);
        assert_eq!(late.verdict, skip.verdict);
        let totals = Totals::count([&pass, &fail, &fail, &skip]);
        assert_eq!((totals.passed, totals.failed, totals.skipped), (1, 2, 1));
    }
}
