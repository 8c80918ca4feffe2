//! Writes the Kernel Test Anything Protocol, version 1 (Linux, Documentation/dev-tools/ktap.rst).

use std::io::{self, Write};

use kiln_record::plain;

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ok,
    /// The test failed; comments give the reason.
    NotOk,
    /// The test was skipped. The string is the reason.
    Skip(String),
}

/// A KTAP document that is written as results arrive. A write error is kept until [`Ktap::finish`],
/// so that all tests are run even if the reader of the output has exited.
pub struct Ktap<W> {
    out: W,
    number: usize,
    /// The open group: its name, the number of its tests so far, and whether any of them failed.
    group: Option<(String, usize, bool)>,
    error: Option<io::Error>,
}

impl<W: Write> Ktap<W> {
    /// Starts a document that contains `tests` tests or groups. Writes the header and the comments.
    pub fn new(out: W, tests: usize, comments: &[String]) -> Ktap<W> {
        let mut ktap = Ktap {
            out,
            number: 0,
            group: None,
            error: None,
        };
        ktap.line("KTAP version 1");
        comments.iter().for_each(|text| ktap.comment(text));
        ktap.line(&format!("1..{tests}"));
        ktap
    }

    /// Begins a group of `tests` tests. The group itself counts as a test.
    pub fn begin(&mut self, name: &str, tests: usize) {
        self.group = Some((name.to_string(), 0, false));
        self.line("KTAP version 1");
        self.line(&format!("# Subtest: {}", plain(name)));
        self.line(&format!("1..{tests}"));
    }

    /// Ends the group. The group counts as failed if any of its tests failed.
    pub fn end(&mut self) {
        if let Some((name, _, failed)) = self.group.take() {
            self.result(&name, if failed { Verdict::NotOk } else { Verdict::Ok });
        }
    }

    /// Writes a comment as a single line.
    pub fn comment(&mut self, text: &str) {
        self.line(&format!("# {}", plain(text)));
    }

    /// Writes the result of a test. If a group is open, the test belongs to it.
    pub fn result(&mut self, name: &str, verdict: Verdict) {
        let number = match &mut self.group {
            Some((_, number, failed)) => {
                *failed |= verdict == Verdict::NotOk;
                number
            }
            None => &mut self.number,
        };
        *number += 1;
        let number = *number;
        // A number sign begins a directive, and the kernel's parser provides no way to escape one.
        let name = plain(name).replace('#', "_");
        self.line(&match verdict {
            Verdict::Ok => format!("ok {number} {name}"),
            Verdict::NotOk => format!("not ok {number} {name}"),
            Verdict::Skip(why) => format!("ok {number} {name} # SKIP {}", plain(&why)),
        });
    }

    /// Returns the first write error, if there was one.
    pub fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    fn line(&mut self, text: &str) {
        let indent = if self.group.is_some() { "    " } else { "" };
        if self.error.is_none() {
            let written = writeln!(self.out, "{indent}{text}").and_then(|()| self.out.flush());
            self.error = written.err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_fail_with_their_tests_and_names_are_no_directives() {
        let mut text = Vec::new();
        let mut ktap = Ktap::new(&mut text, 2, &["seed 3".into()]);
        ktap.begin("xts(aes) generic", 3);
        ktap.comment("7 cases, 0 failed");
        ktap.result("a random", Verdict::Ok);
        ktap.comment("output: byte 3");
        ktap.result("b#c random", Verdict::NotOk);
        ktap.result("c random", Verdict::Skip("this CPU\nlacks VAES".into()));
        ktap.end();
        ktap.result("alone", Verdict::Ok);
        ktap.finish().unwrap();
        let want = "\
KTAP version 1
# seed 3
1..2
    KTAP version 1
    # Subtest: xts(aes) generic
    1..3
    # 7 cases, 0 failed
    ok 1 a random
    # output: byte 3
    not ok 2 b_c random
    ok 3 c random # SKIP this CPU lacks VAES
not ok 1 xts(aes) generic
ok 2 alone
";
        assert_eq!(String::from_utf8(text).unwrap(), want);
    }

    #[test]
    fn an_error_of_writing_is_kept() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut ktap = Ktap::new(Full, 1, &[]);
        ktap.result("a", Verdict::Ok);
        let e = ktap.finish().unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::StorageFull);
    }
}
