//! A check of a device, and its verdict.

use crate::link::Target;

/// The outcome of a check. The text states why the check was skipped or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// The check was not run, because the device does not offer the feature that it checks.
    Skip(String),
    Fail(String),
}

/// The name of a check and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub case: String,
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
}

type Check = Box<dyn FnOnce(&Target) -> Result<(), String>>;

/// A check that can be run on a device.
pub(crate) struct Case {
    pub name: String,
    check: Result<Check, String>,
}

impl Case {
    pub(crate) fn new(
        name: impl Into<String>,
        check: impl FnOnce(&Target) -> Result<(), String> + 'static,
    ) -> Case {
        Case {
            name: name.into(),
            check: Ok(Box::new(check)),
        }
    }

    /// Creates a check that is not run, for the reason `why`.
    pub(crate) fn skip(name: impl Into<String>, why: impl Into<String>) -> Case {
        Case {
            name: name.into(),
            check: Err(why.into()),
        }
    }

    pub(crate) fn run(self, target: &Target) -> Row {
        let verdict = match self.check {
            Err(why) => Verdict::Skip(why),
            Ok(check) => match check(target) {
                Ok(()) => Verdict::Pass,
                Err(what) => Verdict::Fail(what),
            },
        };
        Row {
            case: self.name,
            verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_become_verdicts() {
        let none = Target {
            path: "/".into(),
            stop: Default::default(),
        };
        let verdict = |case: Case| case.run(&none).verdict;
        assert_eq!(verdict(Case::new("a", |_| Ok(()))), Verdict::Pass);
        let wrong = Case::new("b", |_| Err("what was seen".into()));
        assert_eq!(verdict(wrong), Verdict::Fail("what was seen".into()));
        let skipped = Case::skip("c", "not offered");
        assert_eq!(verdict(skipped), Verdict::Skip("not offered".into()));
    }
}
