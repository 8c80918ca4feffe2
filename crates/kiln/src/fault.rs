//! Prints errors on stderr, one line each.

use std::env;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use clap::CommandFactory;
use kiln_question::{print_error, print_fault, Error};

use crate::cli::Cli;

/// Prints the error and returns its exit status.
pub fn report(e: &Error) -> ExitCode {
    print_error(e);
    ExitCode::from(e.exit_code())
}

/// Prints clap's output: help and version unchanged, an error as one line.
pub fn report_arguments(e: &clap::Error) -> ExitCode {
    match e.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Ignore a closed pipe.
            let _ = e.print();
            ExitCode::SUCCESS
        }
        _ => {
            let asked = env::args_os().skip(1).map(|a| a.to_string_lossy().into());
            let command = command(asked);
            print_fault(&match renamed(e, &command) {
                Some(text) => text,
                None => one_line(&e.to_string(), &command),
            });
            ExitCode::from(2)
        }
    }
}

/// Flags that `kiln fpu` had in Kiln 0.1, and the commands that replace them.
const RENAMED: [(&str, &str); 8] = [
    ("--overhead", "kiln fpu overhead"),
    ("--usable", "kiln fpu usable"),
    ("--interrupts", "kiln fpu prove breakpoint"),
    ("--hardirq-fpu", "kiln fpu prove"),
    ("--packet-rate", "kiln ipsec"),
    ("--stack-ns", "kiln ipsec"),
    ("--replay-window", "kiln ipsec"),
    ("--own-every", "kiln ipsec"),
];

/// Returns an error line with the new command if the error is about an old flag of `kiln fpu`.
fn renamed(e: &clap::Error, command: &str) -> Option<String> {
    let flag = e.get(ContextKind::InvalidArg)?.to_string();
    let known = RENAMED.iter().find(|(old, _)| *old == flag);
    let (_, new) =
        known.filter(|_| e.kind() == ErrorKind::UnknownArgument && command == "kiln fpu")?;
    Some(format!("{flag} is not a flag of 'kiln fpu': use: {new}"))
}

/// Returns the words of the command to which these arguments belong, such as `kiln fpu prove`.
fn command(args: impl Iterator<Item = String>) -> String {
    let (mut at, mut words) = (Cli::command(), "kiln".to_string());
    for arg in args {
        if let Some(sub) = at.find_subcommand(&arg).cloned() {
            words = format!("{words} {}", sub.get_name());
            at = sub;
        }
    }
    words
}

/// Replaces messages that do not say what is accepted: Rust's about numbers, and clap's about a
/// number that looks like a flag.
fn in_plain_words(line: &str) -> String {
    let words = [
        (
            "invalid digit found in string",
            "this takes a whole number from 0, in decimal",
        ),
        (
            "cannot parse integer from empty string",
            "this takes a whole number from 0",
        ),
        ("invalid float literal", "this takes a number"),
        (
            "cannot parse float from empty string",
            "this takes a number",
        ),
        (
            "number too large to fit in target type",
            "the number is too large",
        ),
    ];
    for (rust, plain) in words {
        if let Some(head) = line.strip_suffix(rust) {
            return format!("{head}{plain}");
        }
    }
    let value = line.strip_prefix("unexpected argument '-");
    let value = value.and_then(|rest| rest.strip_suffix("' found"));
    match value.filter(|v| v.starts_with(|c: char| c.is_ascii_digit())) {
        Some(value) => {
            format!("unexpected '-{value}': this takes a whole number from 0, in decimal")
        }
        None => line.to_string(),
    }
}

/// Reduces clap's text to the error, the tip, and a reference to usage and help.
fn one_line(text: &str, command: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        let line = line
            .trim_start_matches("error: ")
            .trim_start_matches("tip: ");
        let line = &in_plain_words(line);
        // Drop this tip, because the argument was meant as a flag.
        if line.starts_with("to pass '") {
            continue;
        }
        match parts.last_mut() {
            _ if line.is_empty() => {}
            Some(last) if last.ends_with(':') => {
                last.push(' ');
                last.push_str(line);
            }
            _ => parts.push(line.to_string()),
        }
    }
    parts.push(format!("see '{command} --help'"));
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_among_flags() {
        let of = |args: &[&str]| command(args.iter().map(|a| a.to_string()));
        assert_eq!(of(&["--json", "linux", "boot", "--"]), "kiln linux boot");
        assert_eq!(of(&["--bogus"]), "kiln");
    }

    #[test]
    fn numbers_are_told_in_plain_words() {
        for (said, plain) in [
            (
                "invalid value 'x' for '--seed <N>': invalid digit found in string",
                "invalid value 'x' for '--seed <N>': this takes a whole number from 0, in decimal",
            ),
            (
                "unexpected argument '-1' found",
                "unexpected '-1': this takes a whole number from 0, in decimal",
            ),
            (
                "unexpected argument '-x' found",
                "unexpected argument '-x' found",
            ),
        ] {
            assert_eq!(in_plain_words(said), plain);
        }
    }

    #[test]
    fn claps_paragraphs_become_one_line() {
        let text = "error: unexpected argument '--bogus' found\n\n  tip: a similar argument exists: '--out'\n\n\
                    Usage: kiln speed\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(text, "kiln speed"),
            "unexpected argument '--bogus' found: a similar argument exists: '--out': see 'kiln speed --help'"
        );
        let text = "error: the following required arguments were not provided:\n  --key <HEX>\n  --iv <HEX>\n\n\
                    Usage: kiln crypt --key <HEX>\n";
        assert_eq!(
            one_line(text, "kiln crypt"),
            "the following required arguments were not provided: --key <HEX>: --iv <HEX>: see 'kiln crypt --help'"
        );
    }
}
