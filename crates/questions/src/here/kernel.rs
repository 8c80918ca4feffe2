//! Parses a kernel's version, and the name and version of its compiler.

/// Parses the first two numbers of a release, such as 6 and 12 from `6.12.117+deb12-amd64`.
pub(super) fn parse_version(release: &str) -> Option<(u32, u32)> {
    let (major, rest) = release.split_once('.')?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    Some((major.parse().ok()?, rest[..digits].parse().ok()?))
}

/// A C compiler and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Compiler {
    /// `gcc` or `clang`.
    pub name: &'static str,
    pub major: u32,
    pub minor: u32,
}

/// Compilers that were used to time Kiln's C code for AES on a Zen 4, at -O1 to -Os
/// (docs/FINDINGS.md).
const TIMED: [(&str, u32); 8] = [
    ("gcc", 11),
    ("gcc", 12),
    ("clang", 13),
    ("clang", 14),
    ("clang", 15),
    ("clang", 16),
    ("clang", 19),
    ("clang", 22),
];

impl Compiler {
    /// Parses the kernel's description of its compiler, such as `gcc-12 (Debian 12.2.0-14+deb12u1)
    /// 12.2.0` or `Debian clang version 19.1.7`.
    pub(super) fn parse(text: &str) -> Option<Compiler> {
        if let Some((_, rest)) = text.split_once("clang version ") {
            return Compiler::numbered("clang", rest.split_whitespace().next()?);
        }
        if text.contains("gcc") || text.contains("GCC") {
            let own = without_parentheses(text);
            let number = own.split_whitespace().find(|w| is_version(w))?.to_owned();
            return Compiler::numbered("gcc", &number);
        }
        None
    }

    fn numbered(name: &'static str, number: &str) -> Option<Compiler> {
        let mut numbers = number.split(|c: char| !c.is_ascii_digit());
        Some(Compiler {
            name,
            major: numbers.next()?.parse().ok()?,
            minor: numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0),
        })
    }

    pub(super) fn is_timed(&self) -> bool {
        TIMED.contains(&(self.name, self.major))
    }

    /// Returns whether the compiler is gcc 7.2, which a bug report from 2018 found to produce slow
    /// code.
    pub(super) fn is_reported(&self) -> bool {
        (self.name, self.major, self.minor) == ("gcc", 7, 2)
    }
}

/// Removes all text in parentheses, which may be nested. Distributions put their own information in
/// parentheses.
fn without_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    let mut own = String::new();
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 => own.push(c),
            _ => {}
        }
    }
    own
}

fn is_version(word: &str) -> bool {
    word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit())
}

/// Extracts the compiler from `/proc/version`, which has the form `Linux version R (WHO@WHERE)
/// (COMPILER, LINKER) #1 ...`.
pub(super) fn find_compiler(version: &str) -> Option<&str> {
    let (_, behind) = version.split_once(") (")?;
    let end = behind.find(", ").or_else(|| behind.rfind(") #"))?;
    Some(&behind[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_two_numbers() {
        for (release, want) in [
            ("6.12.117+deb12-amd64", Some((6, 12))),
            ("7.3-rc1", Some((7, 3))),
            ("6.18.44-fc", Some((6, 18))),
            ("6", None),
            ("6.", None),
            ("", None),
            ("99999999999.1", None),
            ("six.one", None),
        ] {
            assert_eq!(parse_version(release), want, "{release}");
        }
    }

    #[test]
    fn compilers_are_read_from_both_places() {
        let gcc = |major, minor| {
            Some(Compiler {
                name: "gcc",
                major,
                minor,
            })
        };
        for (text, want) in [
            ("gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0", gcc(12, 2)),
            (
                "x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0",
                gcc(14, 2),
            ),
            ("gcc (GCC) 15.3.0", gcc(15, 3)),
            ("gcc (Ubuntu 7.2.0-8ubuntu3) 7.2.0", gcc(7, 2)),
            ("gcc (GCC) 11.4.1 20230605 (Red Hat 11.4.1-2)", gcc(11, 4)),
            ("gcc (", None),
            ("icc 1.2", None),
            ("", None),
        ] {
            assert_eq!(Compiler::parse(text), want, "{text}");
        }
        let clang = Compiler::parse("Debian clang version 19.1.7 (3~deb12u1)").unwrap();
        assert_eq!((clang.name, clang.major), ("clang", 19));
        assert!(clang.is_timed() && !gcc(14, 2).unwrap().is_timed());
        assert!(gcc(7, 2).unwrap().is_reported() && !gcc(7, 1).unwrap().is_reported());
        let version = "Linux version 6.12.117 (d@x) (x-gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld (x) 2.40) #1 SMP";
        assert_eq!(
            find_compiler(version),
            Some("x-gcc-12 (Debian 12.2.0-14) 12.2.0")
        );
        assert_eq!(find_compiler("Linux version"), None);
    }
}
