//! Finds the cause of a failed build: the first line of its output that states an error.

/// Programs that report errors as `PROGRAM: WORDS`. Such a line is an error unless it is marked as
/// a warning or a note.
const BINUTILS: [&str; 10] = [
    "ar", "as", "ld", "ld.bfd", "ld.gold", "ld.lld", "nm", "objcopy", "ranlib", "strip",
];

/// Phrases that identify a linker error. Such a line starts with a file and a position, and need
/// not contain `error:`.
const OF_LINKERS: [&str; 4] = [
    "undefined reference to ",
    "undefined symbol: ",
    "multiple definition of ",
    "relocation truncated to fit",
];

/// The beginnings of error messages that only report the failure of another program.
const CONSEQUENCES: [&str; 4] = [
    "ld returned ",
    "linker command failed",
    "could not compile ",
    "aborting due to ",
];

/// A line that starts with `*** ` is not an error if it continues with one of these texts.
const GOOD_NEWS: [&str; 3] = ["Default configuration", "End of ", "Execute "];

/// Programs that a kernel build may need, and the Debian packages that contain them. Kiln does not
/// check for these programs before a build.
const PACKAGES: [(&str, &str); 3] = [("cpio", "cpio"), ("pahole", "pahole"), ("xz", "xz-utils")];

/// Maximum length of an error line in characters. Longer lines are truncated, because they become
/// part of a one-line message.
const LONGEST: usize = 300;

#[derive(PartialEq, Eq)]
enum Kind {
    /// The line states an error.
    Cause,
    /// The line reports a failure that an earlier error caused.
    Consequence,
    /// Any other line: a warning, a note, progress, or source code.
    Other,
}

/// Returns the first line of a build's output that states an error. If no line states an error,
/// returns the first line that reports a failed step.
///
/// The output may come from gcc, clang, zig, binutils, make, a shell, Kconfig or modpost, in
/// English (`LC_ALL=C`). If the line reports a missing program or library that a known Debian
/// package provides, the command that installs the package is appended.
pub fn first_error(output: &str) -> Option<String> {
    let find = |kind: Kind| output.lines().find(|line| classify(line) == kind);
    let line = find(Kind::Cause).or_else(|| find(Kind::Consequence))?;
    Some(shorten(line))
}

/// Returns whether the line states an error. A warning is not an error, nor is a report that
/// another program failed.
pub fn states_error(line: &str) -> bool {
    classify(line) == Kind::Cause
}

/// Returns the reason why a single program failed: the line that [`first_error`] finds or, if it
/// finds none, the first line that is not a warning or a note.
pub fn reason(output: &str) -> String {
    let other = || {
        output
            .lines()
            .find(|l| !l.trim().is_empty() && !is_remark(l))
    };
    first_error(output)
        .or_else(|| other().map(shorten))
        .unwrap_or_else(|| "it failed without a message".into())
}

fn shorten(line: &str) -> String {
    let line = line.trim();
    let short: String = line.chars().take(LONGEST).collect();
    match package(line) {
        Some(package) => format!("{short}: apt-get install {package}"),
        None => short,
    }
}

fn classify(line: &str) -> Kind {
    let text = line.trim();
    if text.is_empty() || is_remark(text) {
        return Kind::Other;
    }
    if let Some((before, words)) = text.split_once("*** ") {
        return classify_stars(before, words);
    }
    let cause = match after_error(text) {
        Some(words) if CONSEQUENCES.iter().any(|c| words.starts_with(c)) => {
            return Kind::Consequence
        }
        Some(_) => true,
        None => {
            OF_LINKERS.iter().any(|words| text.contains(words))
                || is_from_binutils(text)
                || is_from_kconfig(text)
                || missing_program(text).is_some()
                || text.starts_with("FATAL: ")
                || text.starts_with("Can't locate ")
        }
    };
    match cause {
        true => Kind::Cause,
        false => Kind::Other,
    }
}

/// Returns whether the text is a warning or a note.
fn is_remark(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let at = |word: &str| text.find(word);
    let remark = [at("warning:"), at("note:")].into_iter().flatten().min();
    remark.is_some_and(|remark| at("error:").is_none_or(|error| remark < error))
}

/// Returns the text after `error:` in a line of the form `PLACE: error: WORDS`, where `PLACE` is a
/// source position or a program name. Ignores `error:` in quoted source code.
fn after_error(text: &str) -> Option<&str> {
    let at = text.to_ascii_lowercase().find("error: ")?;
    let mut before = text[..at].trim_end();
    for word in ["fatal", "Fatal", "internal compiler"] {
        before = before.strip_suffix(word).unwrap_or(before).trim_end();
    }
    let place = !before.contains(['"', '(', ';', '|']);
    // `before` need not end with a colon: it is empty for `ERROR: modpost`, and `Import` for
    // `ImportError: `.
    let named = before.ends_with(':') || before.chars().all(|c| c.is_ascii_alphanumeric());
    (place && named).then(|| text[at + "error: ".len()..].trim_start())
}

/// Classifies a line with three asterisks. make prints such a line when it stops, and the kernel's
/// build scripts print such a line to report an error.
fn classify_stars(before: &str, words: &str) -> Kind {
    match before.is_empty() {
        true if GOOD_NEWS.iter().any(|good| words.starts_with(good)) => Kind::Other,
        true => Kind::Cause,
        false if words.starts_with('[') => Kind::Consequence,
        false if words.starts_with("Waiting for ") || words.starts_with("Deleting ") => Kind::Other,
        false => Kind::Cause,
    }
}

fn is_from_binutils(text: &str) -> bool {
    let Some((program, words)) = text.split_once(": ") else {
        return false;
    };
    let name = program.rsplit(['/', '-']).next().unwrap_or(program);
    // Skip a linker message that contains only a position, because the next line states the error.
    BINUTILS.contains(&name) && !(words.contains("in function ") && words.ends_with(':'))
}

/// Returns whether the text is an error from Kconfig or scripts/Kconfig.include, such as
/// `lib/Kconfig:3: syntax error`.
fn is_from_kconfig(text: &str) -> bool {
    let mut parts = text.splitn(3, ':');
    let (file, line) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let name = file.rsplit('/').next().unwrap_or(file);
    name.starts_with("Kconfig")
        && !line.is_empty()
        && line.chars().all(|c| c.is_ascii_digit())
        && parts.next().is_some_and(|words| !words.trim().is_empty())
}

/// If the line reports that a shell or make could not find a program, returns the program's name.
fn missing_program(text: &str) -> Option<&str> {
    let ends = [": not found", ": command not found", ": Command not found"];
    let of_shell = ends.iter().find_map(|end| text.strip_suffix(end));
    let of_make = || {
        text.starts_with("make")
            .then(|| text.strip_suffix(": No such file or directory"))?
    };
    let name = of_shell.or_else(of_make)?.rsplit(": ").next()?;
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

/// If the line reports a missing program or library, returns the Debian package that provides it,
/// if known.
fn package(line: &str) -> Option<String> {
    if let Some(version) = clang_of_runtime(line) {
        return Some(match version {
            // In Debian 12, clang's runtime is in the package libclang-rt-*-dev for version 14 and
            // for versions from 16 on, and in libclang-common-*-dev for other versions.
            ..=13 | 15 => format!("libclang-common-{version}-dev"),
            _ => format!("libclang-rt-{version}-dev"),
        });
    }
    let name = missing_program(line)?;
    let known = PACKAGES.iter().find(|(program, _)| *program == name);
    known.map(|(_, package)| (*package).to_owned())
}

/// Returns the clang version that a missing runtime library belongs to, such as 14 for
/// `/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.asan-x86_64.a`.
fn clang_of_runtime(line: &str) -> Option<u32> {
    let (directory, _) = line.split_once("libclang_rt.")?;
    let (_, version) = directory.split_once("/clang/")?;
    version.split(['.', '/']).next()?.parse().ok()
}
