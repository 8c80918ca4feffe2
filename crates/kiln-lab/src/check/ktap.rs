//! Rows as KTAP, version 1 (Linux, Documentation/dev-tools/ktap.rst).

use std::io::{self, Write};

use super::masks::{Event, Outcome};

/// Writes events as they come; groups are tests, their rows the subtests.
pub struct Ktap<W> {
    out: W,
    groups: usize,
    name: String,
    rows: usize,
    failed: bool,
    error: Option<io::Error>,
}

impl<W: Write> Ktap<W> {
    /// Print the head of a document with `groups` tests and a comment line each of `comments`. An error is kept
    /// for `finish`: the checks go on without a listener.
    pub fn new(out: W, groups: usize, comments: &[String]) -> Ktap<W> {
        let mut ktap = Ktap {
            out,
            groups: 0,
            name: String::new(),
            rows: 0,
            failed: false,
            error: None,
        };
        ktap.error = ktap.head(groups, comments).err();
        ktap
    }

    /// Take an event.
    pub fn event(&mut self, event: &Event<'_>) {
        if self.error.is_none() {
            self.error = self.write(event).and_then(|()| self.out.flush()).err();
        }
    }

    /// The first error of writing, if there was one.
    pub fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    fn head(&mut self, groups: usize, comments: &[String]) -> io::Result<()> {
        writeln!(self.out, "KTAP version 1")?;
        for comment in comments {
            writeln!(self.out, "# {comment}")?;
        }
        writeln!(self.out, "1..{groups}")?;
        self.out.flush()
    }

    fn write(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::Group { name, rows } => {
                self.groups += 1;
                self.rows = 0;
                self.failed = false;
                self.name = name.to_string();
                writeln!(self.out, "    KTAP version 1")?;
                writeln!(self.out, "    # Subtest: {name}")?;
                writeln!(self.out, "    1..{rows}")
            }
            Event::Row(row) => {
                self.rows += 1;
                self.failed |= row.failed > 0;
                self.row(row)
            }
            Event::End => {
                let result = if self.failed { "not ok" } else { "ok" };
                writeln!(self.out, "{result} {} {}", self.groups, self.name)
            }
        }
    }

    fn row(&mut self, row: &Outcome) -> io::Result<()> {
        let (n, name) = (self.rows, row.name());
        if let Some(reason) = &row.reason {
            return writeln!(self.out, "    ok {n} {name} # SKIP {reason}");
        }
        for failure in &row.failures {
            writeln!(self.out, "    # {}", failure.what)?;
            writeln!(self.out, "    # replay: {}", failure.replay)?;
        }
        writeln!(self.out, "    # {} cases, {} failed", row.cases, row.failed)?;
        let result = if row.failed > 0 { "not ok" } else { "ok" };
        writeln!(self.out, "    {result} {n} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::Failure;
    use super::*;

    #[test]
    fn a_failure_and_a_skip() {
        let row = |implementation: &str, failed: u64, reason: Option<&str>| Outcome {
            alg: "xts(aes)".into(),
            implementation: implementation.into(),
            suite: "random".into(),
            context: "task".into(),
            tiers: "generic".into(),
            cases: 7,
            failed,
            skipped: reason.is_some().into(),
            reason: reason.map(str::to_string),
            failures: (0..failed)
                .map(|_| Failure {
                    what: "output: byte 3".into(),
                    replay: "kiln test --case 5".into(),
                })
                .collect(),
        };
        let mut text = Vec::new();
        let mut ktap = Ktap::new(&mut text, 1, &["seed 3".into()]);
        let name = "xts(aes) generic";
        ktap.event(&Event::Group { name, rows: 3 });
        ktap.event(&Event::Row(&row("a", 0, None)));
        ktap.event(&Event::Row(&row("b", 1, None)));
        ktap.event(&Event::Row(&row("c", 0, Some("this CPU lacks VAES"))));
        ktap.event(&Event::End);
        ktap.finish().unwrap();
        let want = "\
KTAP version 1
# seed 3
1..1
    KTAP version 1
    # Subtest: xts(aes) generic
    1..3
    # 7 cases, 0 failed
    ok 1 a random
    # output: byte 3
    # replay: kiln test --case 5
    # 7 cases, 1 failed
    not ok 2 b random
    ok 3 c random # SKIP this CPU lacks VAES
not ok 1 xts(aes) generic
";
        assert_eq!(String::from_utf8(text).unwrap(), want);
    }
}
