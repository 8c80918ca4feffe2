//! Errors on stderr, one line each.

use std::env;
use std::error::Error as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::CommandFactory;
use kiln_question::{print_error, print_fault, Error};

use crate::cli::Cli;

/// Prints the error and returns its exit status.
pub fn report(e: &Error) -> ExitCode {
    print_error(e);
    ExitCode::from(e.exit_code())
}

/// Prints clap's output: help and version unchanged, an error in one line.
pub fn report_arguments(e: &clap::Error) -> ExitCode {
    match e.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe is not an error.
            let _ = e.print();
            ExitCode::SUCCESS
        }
        _ => {
            let asked = env::args_os().skip(1).map(|a| a.to_string_lossy().into());
            let command = command(asked);
            print_fault(&match renamed(e, &command) {
                Some(text) => text,
                None => one_line(e, &command),
            });
            ExitCode::from(2)
        }
    }
}

/// Flags of `kiln fpu` in Kiln 0.1, and the commands that have them now.
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

/// Names the new command for an old flag of `kiln fpu`.
fn renamed(e: &clap::Error, command: &str) -> Option<String> {
    let flag = e.get(ContextKind::InvalidArg)?.to_string();
    let known = RENAMED.iter().find(|(old, _)| *old == flag);
    let (_, new) =
        known.filter(|_| e.kind() == ErrorKind::UnknownArgument && command == "kiln fpu")?;
    Some(format!("{flag} is not a flag of 'kiln fpu': use: {new}"))
}

/// The command to which these arguments belong, in words.
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

/// Replaces messages of Rust's number parsers by text that says what is accepted.
fn in_plain_words(why: &str) -> &str {
    match why {
        "invalid digit found in string" => "this takes a whole number from 0, in decimal",
        "cannot parse integer from empty string" => "this takes a whole number from 0",
        "invalid float literal" | "cannot parse float from empty string" => "this takes a number",
        "number too large to fit in target type" => "the number is too large",
        _ => why,
    }
}

/// Whether an argument was rejected as an unknown flag although it is a negative number.
fn is_number(arg: &str) -> bool {
    let digits = arg.strip_prefix('-');
    digits.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Formats clap's error: what is wrong, what is accepted, and where the help is.
fn one_line(e: &clap::Error, command: &str) -> String {
    let strings = |kind| match e.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => Vec::new(),
    };
    let first = |kind| strings(kind).into_iter().next();
    let near = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ];
    let near: Vec<String> = near.into_iter().flat_map(strings).collect();
    let near = match near.is_empty() {
        true => String::new(),
        false => format!(": did you mean '{}'?", near.join("' or '")),
    };
    // Without the name of its value.
    let flag = first(ContextKind::InvalidArg).unwrap_or_default();
    let flag = flag.split([' ', '=']).next().unwrap_or_default();
    let value = first(ContextKind::InvalidValue).unwrap_or_default();
    let what = match e.kind() {
        ErrorKind::UnknownArgument if is_number(flag) => {
            format!("unexpected '{flag}': this takes a whole number from 0, in decimal")
        }
        ErrorKind::UnknownArgument if flag.starts_with('-') => {
            format!("unknown flag '{flag}'{near}")
        }
        ErrorKind::UnknownArgument => format!("unexpected argument '{flag}'{near}"),
        ErrorKind::InvalidSubcommand => {
            let name = first(ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("unknown command '{name}'{near}")
        }
        ErrorKind::MissingRequiredArgument => {
            format!("missing {}", strings(ContextKind::InvalidArg).join(" and "))
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("'{command}' needs a subcommand: {}", subcommands(command))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation if value.is_empty() => {
            format!("{flag} needs a value")
        }
        ErrorKind::InvalidValue => {
            let valid = strings(ContextKind::ValidValue);
            let valid: Vec<&str> = valid.iter().map(String::as_str).collect();
            format!("{flag} '{value}'{near}: {}", kiln_question::list(&valid))
        }
        ErrorKind::ValueValidation => {
            let why = e.source().map_or(String::new(), ToString::to_string);
            let why = in_plain_words(&why);
            let named = why.starts_with(flag) || why.starts_with("unknown ");
            if named {
                why.to_string()
            } else {
                format!("{flag} '{value}': {why}")
            }
        }
        _ => {
            let text = e.to_string();
            let lines = text.lines().map(str::trim).take_while(|l| !l.is_empty());
            let text = lines.collect::<Vec<_>>().join(" ");
            text.trim_start_matches("error: ").to_string()
        }
    };
    let end = if what.ends_with('?') { "" } else { ":" };
    format!("{what}{end} see '{command} --help'")
}

/// The names of a command's subcommands.
fn subcommands(command: &str) -> String {
    let mut at = Cli::command();
    for word in command.split(' ').skip(1) {
        at = at.find_subcommand(word).cloned().unwrap_or(at);
    }
    let names = at.get_subcommands().filter(|c| !c.is_hide_set());
    let names: Vec<&str> = names.map(clap::Command::get_name).collect();
    names.join(", ")
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

    fn line(args: &[&str]) -> String {
        let e = Cli::command().try_get_matches_from(args).unwrap_err();
        one_line(&e, "kiln")
    }

    #[test]
    fn an_error_of_the_command_line_says_what_is_accepted() {
        for (args, wanted) in [
            (
                &["kiln", "spede"][..],
                "unknown command 'spede': did you mean 'serve' or 'speed'? see 'kiln --help'",
            ),
            (
                &["kiln", "speed", "--lens", "16"],
                "unknown flag '--lens': did you mean '--len'? see 'kiln --help'",
            ),
            (
                &["kiln", "list", "--seed", "-1"],
                "unexpected '-1': this takes a whole number from 0, in decimal: see 'kiln --help'",
            ),
            (
                &["kiln", "list", "--seed", "x"],
                "--seed 'x': this takes a whole number from 0, in decimal: see 'kiln --help'",
            ),
            (
                &["kiln", "serve"],
                "missing --socket <PATH>: see 'kiln --help'",
            ),
            (
                &["kiln", "compare"],
                "missing <A> and <B>: see 'kiln --help'",
            ),
            (
                &["kiln", "test", "--fuzz"],
                "--fuzz needs a value: see 'kiln --help'",
            ),
            (
                &["kiln", "speed", "--via", "usb"],
                "--via 'usb': only 'virtio' is accepted: see 'kiln --help'",
            ),
        ] {
            assert_eq!(line(args), wanted);
        }
        let linux = line(&["kiln", "linux"]);
        assert!(linux.starts_with("'kiln' needs a subcommand: "), "{linux}");
    }
}
