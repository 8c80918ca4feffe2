//! One check and its verdict.

use crate::link::Target;

/// Outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// Not run, because the device does not offer the feature.
    Skip(String),
    Fail(String),
}

/// A check and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub case: String,
    pub verdict: Verdict,
}

impl Row {
    /// `pass`, `skip` or `fail`.
    pub fn status(&self) -> &'static str {
        match self.verdict {
            Verdict::Pass => "pass",
            Verdict::Skip(_) => "skip",
            Verdict::Fail(_) => "fail",
        }
    }
}

type Check = Box<dyn FnOnce(&Target) -> Result<(), String>>;

/// A check to run.
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

    /// A check that is not run, with the reason.
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
