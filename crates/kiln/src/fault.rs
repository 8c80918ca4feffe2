//! Prints errors on stderr, one per line.

use std::env;
use std::error::Error as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::CommandFactory;
use kiln_question::{is_similar, print_error, print_fault, Error};

use crate::cli::Cli;

/// Prints the error and returns its exit status.
pub fn report(e: &Error) -> ExitCode {
    print_error(e);
    ExitCode::from(e.exit_code())
}

/// Prints clap's output: help and version texts unchanged, an error as a single line.
pub fn report_arguments(e: &clap::Error) -> ExitCode {
    match e.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Ignore errors, because the reader may have closed the pipe.
            let _ = e.print();
            ExitCode::SUCCESS
        }
        _ => {
            let asked = env::args_os().skip(1).map(|a| a.to_string_lossy().into());
            let asked: Vec<String> = asked.collect();
            print_fault(&one_line(e, &asked));
            ExitCode::from(2)
        }
    }
}

const PACKET_SIZES: &str =
    "esp and esp-cbc use fixed IMIX packet sizes; for other sizes, use --load pcap:FILE";

/// Hints for arguments that a command does not have. Each entry is the command, the argument, and
/// what to write instead. An empty argument matches any non-flag argument.
const INSTEAD: &[(&str, &str, &str)] = &[
    // These flags of `kiln fpu` existed in Kiln 0.1.
    ("kiln fpu", "--overhead", "use: kiln fpu overhead"),
    ("kiln fpu", "--usable", "use: kiln fpu usable"),
    ("kiln fpu", "--interrupts", "use: kiln fpu prove breakpoint"),
    ("kiln fpu", "--hardirq-fpu", "use: kiln fpu prove"),
    ("kiln fpu", "--packet-rate", "use: kiln ipsec"),
    ("kiln fpu", "--stack-ns", "use: kiln ipsec"),
    ("kiln fpu", "--replay-window", "use: kiln ipsec"),
    ("kiln fpu", "--own-every", "use: kiln ipsec"),
    // Users may know these arguments from other commands or documents.
    ("kiln budget", "--way", "use --mode"),
    (
        "kiln compare",
        "--tree",
        "name two trees or revisions instead of records: kiln compare DIR@HEAD~1 DIR@HEAD",
    ),
    (
        "kiln crypt",
        "",
        "name the algorithm with --alg: kiln crypt --alg 'xts(aes)'",
    ),
    ("kiln ctrlq", "--policy", "use --mode"),
    ("kiln ctrlq", "--wait", "use --mode"),
    (
        "kiln ipsec",
        "--cipher",
        "--load chooses the cipher: 'esp' is AES-GCM, 'esp-cbc' is AES-CBC with HMAC-SHA256",
    ),
    ("kiln ipsec", "--packets", "use --packet-rate"),
    ("kiln ipsec", "--packet-size", PACKET_SIZES),
    ("kiln ipsec", "--packet-bytes", PACKET_SIZES),
    ("kiln ipsec", "--size", PACKET_SIZES),
    ("kiln ipsec", "--len", PACKET_SIZES),
    (
        "kiln ipsec",
        "--tree",
        "kiln ipsec models Kiln's own FPU policies; for those of a tree, use 'kiln fpu --policy tree:DIR'",
    ),
    (
        "kiln ctrlq",
        "--tree",
        "kiln ctrlq always uses Kiln's driver; for a tree's driver, use 'kiln linux virtio --tree DIR'",
    ),
    ("kiln ipsec", "--rate", "use --packet-rate or --irq-rate"),
    (
        "kiln linux build",
        "--kernel",
        "name the sources with --tree",
    ),
    (
        "kiln linux selftest",
        "--kernel",
        "name the sources with --tree",
    ),
    (
        "kiln",
        "--shard",
        "put it after speed, test, compilers or 'fpu prove'; the survey cannot be divided",
    ),
    ("kiln test", "--context", "use --suite contexts:POLICY"),
    (
        "kiln tree",
        "",
        "it accepts one tree or revision, and downloads nothing",
    ),
    (
        "kiln libraries",
        "",
        "it has the subcommand 'install'; to remove a library, delete its directory",
    ),
];

/// Returns the hint in [`INSTEAD`] for an argument that this command does not have.
fn instead(command: &str, argument: &str) -> Option<&'static str> {
    let argument = if argument.starts_with('-') {
        argument
    } else {
        ""
    };
    let entry = INSTEAD
        .iter()
        .find(|(c, a, _)| (*c, *a) == (command, argument));
    entry.map(|(_, _, text)| *text)
}

/// Returns the command that these arguments select, such as `kiln fpu usable`.
fn command(args: &[String]) -> String {
    let (mut at, mut words) = (Cli::command(), "kiln".to_string());
    for arg in args {
        if let Some(sub) = at.find_subcommand(arg).cloned() {
            words = format!("{words} {}", sub.get_name());
            at = sub;
        }
    }
    words
}

/// Rewords the error messages of Rust's number parsers and clap's range checks, so that they state
/// which values are accepted. Returns other messages unchanged.
fn in_plain_words(why: &str) -> String {
    if let Some((value, range)) = why.split_once(" is not in ") {
        let (least, most) = range.split_once("..").unwrap_or((range, ""));
        let most = most.trim_start_matches('=');
        // If the value is too low and the upper limit is merely the maximum of the integer type,
        // state only the lower limit.
        let is_open = [u64::MAX.to_string(), u32::MAX.to_string()].contains(&most.to_string());
        let is_low = value.starts_with('-') || value == "0";
        return match is_open && is_low {
            true => format!("expected at least {least}"),
            false => format!("expected {least} to {most}"),
        };
    }
    match why {
        "invalid digit found in string" => "expected a whole number in decimal, without a unit",
        "cannot parse integer from empty string" => "expected a whole number",
        "invalid float literal" => "expected a number without a unit",
        "cannot parse float from empty string" => "expected a number",
        "number too large to fit in target type" => "the number is too large",
        _ => why,
    }
    .to_string()
}

/// Returns whether an unknown flag is in fact a negative number.
fn is_number(arg: &str) -> bool {
    let digits = arg.strip_prefix('-');
    digits.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns whether clap's suggestion is a likely correction of an argument. It must be similar to
/// the argument or start with it.
fn is_likely(argument: &str, suggestion: &str) -> bool {
    let [argument, suggestion] = [argument, suggestion].map(|text| text.trim_start_matches('-'));
    is_similar(argument, suggestion) || suggestion.starts_with(argument)
}

/// Formats clap's error as one line that states what is wrong and what is accepted, and names the
/// `--help` command to run.
fn one_line(e: &clap::Error, args: &[String]) -> String {
    let command = &command(args)[..];
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
    let mut near: Vec<String> = near.into_iter().flat_map(strings).collect();
    let wrong = [
        ContextKind::InvalidArg,
        ContextKind::InvalidSubcommand,
        ContextKind::InvalidValue,
    ];
    let wrong: Vec<String> = wrong.into_iter().filter_map(first).collect();
    near.retain(|near| wrong.iter().any(|wrong| is_likely(wrong, near)));
    // Put the most similar suggestion first; clap puts it last.
    near.reverse();
    near.truncate(3);
    let near = match near.is_empty() {
        true => String::new(),
        false => format!(": did you mean '{}'?", near.join("' or '")),
    };
    // clap reports `--flag <VALUE>` or `--flag=value`; keep only `--flag`.
    let flag = first(ContextKind::InvalidArg).unwrap_or_default();
    let flag = flag.split([' ', '=']).next().unwrap_or_default();
    let value = first(ContextKind::InvalidValue).unwrap_or_default();
    let near = match instead(command, flag) {
        Some(text) if e.kind() == ErrorKind::UnknownArgument => format!(": {text}"),
        _ => near,
    };
    let what = match e.kind() {
        ErrorKind::UnknownArgument if is_number(flag) => {
            // clap parses `-64` as several short flags and reports only the first, so find the
            // whole argument.
            let whole = args.iter().find(|arg| arg.starts_with(flag));
            let number = whole.map_or(flag, String::as_str);
            let before = args.iter().take_while(|arg| *arg != number).last();
            let owner = before.filter(|arg| arg.starts_with("--"));
            let owner = owner.map_or(String::new(), |flag| format!("{flag}: "));
            format!("{owner}unexpected '{number}': the number cannot be negative")
        }
        ErrorKind::UnknownArgument if flag.starts_with('-') => {
            format!("unknown flag '{flag}'{near}")
        }
        ErrorKind::UnknownArgument => match list_before(command, args, flag) {
            Some(list) => format!("unexpected argument '{flag}': join a list by commas: {list}"),
            None => format!("unexpected argument '{flag}'{near}"),
        },
        ErrorKind::InvalidUtf8 => {
            let wrong = args.iter().find(|arg| arg.contains('\u{fffd}'));
            format!("'{}' is not UTF-8", wrong.map_or("?", String::as_str))
        }
        ErrorKind::InvalidSubcommand => {
            let name = first(ContextKind::InvalidSubcommand).unwrap_or_default();
            let hint = instead(command, "").filter(|_| near.is_empty());
            let near = hint.map_or(near, |text| format!(": {text}"));
            let full = format!("{command} {name}");
            let full = full.trim_start_matches("kiln ");
            let gap = if near.ends_with('?') { "" } else { ":" };
            // Omit the list of all commands, because it is too long for a single line.
            let all = match command == "kiln" {
                true => String::new(),
                false => format!("{gap} choose from {}", subcommands(command)),
            };
            format!("unknown command '{full}'{near}{all}")
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = strings(ContextKind::InvalidArg);
            // If the command does not always require the argument, name the flag on this command
            // line that requires it.
            let why = match is_required(command, &missing) {
                true => String::new(),
                false => match requiring(command, args, &missing) {
                    Some(flag) => format!(", which {flag} requires"),
                    None => ", which another flag of this command line requires".to_string(),
                },
            };
            format!("missing {}{why}", missing.join(" and "))
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
            format!("{flag} '{value}': {}", kiln_question::list(&valid))
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

/// Returns the definition of a command, given by its full name, such as `kiln fpu usable`.
fn find(command: &str) -> clap::Command {
    let mut at = Cli::command();
    for word in command.split(' ').skip(1) {
        at = at.find_subcommand(word).cloned().unwrap_or(at);
    }
    at
}

/// Returns whether the command always requires one of these arguments, so that clap reports it as
/// missing if the command is run without arguments. `args` has the format of clap's messages.
fn is_required(command: &str, args: &[String]) -> bool {
    let bare = find(command).try_get_matches_from([command]);
    let missing = bare
        .err()
        .and_then(|e| match e.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => Some(missing.clone()),
            _ => None,
        });
    missing.is_some_and(|missing| args.iter().any(|arg| missing.contains(arg)))
}

/// Returns the flag on this command line that requires the arguments in `missing`.
fn requiring<'a>(command: &str, args: &'a [String], missing: &[String]) -> Option<&'a str> {
    let flags = args
        .iter()
        .enumerate()
        .filter(|(_, arg)| arg.starts_with("--"));
    let found = flags.into_iter().find(|(at, flag)| {
        let value = args.get(at + 1).filter(|value| !value.starts_with('-'));
        let alone = [command, flag].into_iter().chain(value.map(String::as_str));
        let e = find(command).try_get_matches_from(alone).err();
        let lacks = e.as_ref().and_then(|e| e.get(ContextKind::InvalidArg));
        // Compare only the names of the flags, because clap may show different values for the same
        // flag, for example if it has a default tree.
        let name = |arg: &String| arg.split(' ').next().map(str::to_string);
        matches!(lacks, Some(ContextValue::Strings(lacks))
            if missing.iter().all(|arg| lacks.iter().any(|lacks| name(lacks) == name(arg))))
    });
    found.map(|(_, flag)| flag.split('=').next().unwrap_or(flag))
}

/// If the unexpected argument follows the value of a flag that takes a list, returns the flag with
/// both values joined into a list.
fn list_before(command: &str, args: &[String], unexpected: &str) -> Option<String> {
    let at = args.iter().position(|arg| arg == unexpected)?;
    let [flag, value] = args.get(at.checked_sub(2)?..at)? else {
        return None;
    };
    let command = find(command);
    let mut all = command.get_arguments();
    let delimiter = all
        .find(|arg| arg.get_long() == flag.strip_prefix("--"))?
        .get_value_delimiter()?;
    Some(format!("{flag} {value}{delimiter}{unexpected}"))
}

/// Lists the names of a command's visible subcommands, separated by commas.
fn subcommands(command: &str) -> String {
    let at = find(command);
    let names = at.get_subcommands().filter(|c| !c.is_hide_set());
    let names: Vec<&str> = names.map(clap::Command::get_name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_among_flags() {
        let of = |args: &[&str]| command(&args.iter().map(|a| a.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&["--json", "linux", "boot", "--"]), "kiln linux boot");
        assert_eq!(of(&["--bogus"]), "kiln");
    }

    fn line(args: &[&str]) -> String {
        let e = Cli::command().try_get_matches_from(args).unwrap_err();
        let words: Vec<String> = args.iter().skip(1).map(|a| a.to_string()).collect();
        one_line(&e, &words)
    }

    #[test]
    fn an_error_of_the_command_line_says_what_is_accepted() {
        for (args, wanted) in [
            (
                &["kiln", "spede"][..],
                "unknown command 'spede': did you mean 'speed'? see 'kiln --help'",
            ),
            (
                &["kiln", "speed", "--lens", "16"],
                "unknown flag '--lens': did you mean '--len'? see 'kiln speed --help'",
            ),
            (
                &["kiln", "list", "--seed", "-1"],
                "--seed: unexpected '-1': the number cannot be negative: see 'kiln list --help'",
            ),
            (
                &["kiln", "ipsec", "--replay-window", "-64"],
                "--replay-window: unexpected '-64': the number cannot be negative: see 'kiln ipsec --help'",
            ),
            (
                &["kiln", "benchmark"],
                "unknown command 'benchmark': see 'kiln --help'",
            ),
            (
                &["kiln", "ctrlq", "--spins", "4294967296"],
                "--spins '4294967296': expected 1 to 4294967295: see 'kiln ctrlq --help'",
            ),
            (
                &["kiln", "ctrlq", "--spins", "0"],
                "--spins '0': expected at least 1: see 'kiln ctrlq --help'",
            ),
            (
                &["kiln", "list", "--seed", "x"],
                "--seed 'x': expected a whole number in decimal, without a unit: see 'kiln list --help'",
            ),
            (
                &["kiln", "serve"],
                "missing --socket <PATH>: see 'kiln serve --help'",
            ),
            (
                &["kiln", "compare"],
                "missing <A> and <B>: see 'kiln compare --help'",
            ),
            (
                &["kiln", "test", "--fuzz"],
                "--fuzz needs a value: see 'kiln test --help'",
            ),
            (
                &["kiln", "speed", "--via", "usb"],
                "--via 'usb': only 'virtio' is accepted: see 'kiln speed --help'",
            ),
        ] {
            assert_eq!(line(args), wanted);
        }
        let linux = line(&["kiln", "linux"]);
        assert!(
            linux.starts_with("'kiln linux' needs a subcommand: build, "),
            "{linux}"
        );
        let context = line(&["kiln", "fpu", "prove", "--context", "softirq"]);
        assert!(context.contains(", which --context requires"), "{context}");
        let list = line(&["kiln", "fpu", "usable", "--policy", "legacy", "nested"]);
        assert!(list.contains("--policy legacy,nested"), "{list}");
    }
}
