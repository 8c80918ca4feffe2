//! One check and its verdict.

use std::path::Path;

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Pass,
    /// Not asked, since the device does not offer it.
    Skip(String),
    /// What was seen.
    Fail(String),
}

/// A check and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub case: String,
    /// What it came to.
    pub verdict: Verdict,
}

impl Row {
    /// As KTAP, its number being `n`.
    pub fn ktap(&self, n: usize) -> String {
        let case = &self.case;
        match &self.verdict {
            Verdict::Pass => format!("ok {n} {case}"),
            Verdict::Skip(why) => format!("ok {n} {case} # SKIP {why}"),
            Verdict::Fail(what) => format!("# {what}\nnot ok {n} {case}"),
        }
    }

    /// `pass`, `skip` or `fail`.
    pub fn status(&self) -> &'static str {
        match self.verdict {
            Verdict::Pass => "pass",
            Verdict::Skip(_) => "skip",
            Verdict::Fail(_) => "fail",
        }
    }
}

type Check = Box<dyn FnOnce(&Path) -> Result<(), String>>;

/// A check to be made.
pub struct Case {
    pub name: String,
    check: Result<Check, String>,
}

impl Case {
    pub fn new(
        name: impl Into<String>,
        check: impl FnOnce(&Path) -> Result<(), String> + 'static,
    ) -> Case {
        Case {
            name: name.into(),
            check: Ok(Box::new(check)),
        }
    }

    /// One that is not made, and why.
    pub fn skip(name: impl Into<String>, why: impl Into<String>) -> Case {
        Case {
            name: name.into(),
            check: Err(why.into()),
        }
    }

    pub fn run(self, path: &Path) -> Row {
        let verdict = match self.check {
            Err(why) => Verdict::Skip(why),
            Ok(check) => match check(path) {
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
    fn ktap() {
        let line = |case: Case, n| case.run(Path::new("/")).ktap(n);
        assert_eq!(line(Case::new("a", |_| Ok(())), 1), "ok 1 a");
        let wrong = Case::new("b", |_| Err("what was seen".into()));
        assert_eq!(line(wrong, 2), "# what was seen\nnot ok 2 b");
        assert_eq!(
            line(Case::skip("c", "not offered"), 3),
            "ok 3 c # SKIP not offered"
        );
    }
}
