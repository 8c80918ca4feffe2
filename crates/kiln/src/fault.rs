//! Prints errors on stderr, one per line.

use std::any::TypeId;
use std::env;
use std::error::Error as _;
use std::path::{Path, PathBuf};
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

/// Hints for arguments that a command does not have, and for flags that lack another one that they
/// require or conflict with another one. Each entry is the command, the argument, and what to write
/// instead. An empty argument matches any non-flag argument without an entry of its own.
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
    ("kiln", "version", "use 'kiln --version'"),
    ("kiln budget", "--way", "use --mode"),
    (
        "kiln budget",
        "--impl",
        "it measures every SIMD implementation of an algorithm; to leave some out, set KILN_TIERS",
    ),
    ("kiln compare", "", "it compares only two, A and B"),
    ("kiln compare", "--threshold", "use --max-regression PCT"),
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
    (
        "kiln fpu overhead",
        "--op",
        "it measures only encryption",
    ),
    (
        "kiln fpu prove",
        "--hardirq-fpu",
        "name the instruction before which to interrupt, such as --at 44",
    ),
    (
        "kiln speed",
        "-evp",
        "name the algorithm without a flag: kiln speed aes-256-gcm",
    ),
    (
        "kiln speed",
        "--sec",
        "for the duration of Kiln's own measurement, use --seconds",
    ),
    (
        "kiln survey",
        "",
        "name a kernel tree with --tree: kiln survey --tree DIR",
    ),
    (
        "kiln ctrlq",
        "--device-cpu",
        "--device-cpu pins the device that kiln starts; use taskset to pin a running device",
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
        "kiln linux build",
        "--sources",
        "--sources builds nothing; to build as well, run the command again without --sources",
    ),
    (
        "kiln linux boot",
        "",
        "write the program after '--': kiln linux boot --tree DIR -- cat /proc/crypto",
    ),
    (
        "kiln linux selftest",
        "--kernel",
        "name the sources with --tree",
    ),
    (
        "kiln linux selftest",
        "",
        "name one algorithm or implementation, or none to test all",
    ),
    (
        "kiln serve",
        "",
        "repeat the flag for each socket: --socket a.sock --socket b.sock",
    ),
    (
        "kiln virtio-check",
        "",
        "name the device's socket with --socket PATH",
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

/// Returns the hint in [`INSTEAD`] for an argument of this command.
fn instead(command: &str, argument: &str) -> Option<&'static str> {
    let find = |argument: &str| {
        let mut all = INSTEAD.iter();
        all.find(|(c, a, _)| (*c, *a) == (command, argument))
    };
    let any = || find("").filter(|_| !argument.starts_with('-'));
    find(argument).or_else(any).map(|(_, _, text)| *text)
}

/// Returns the command that these arguments select, such as `kiln fpu usable`.
fn command(args: &[String]) -> String {
    let (mut at, mut words) = (Cli::command(), "kiln".to_string());
    // Global flags are defined only at the root.
    let root = at.clone();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let defined = root.get_arguments().chain(at.get_arguments());
        let is_named = |a: &&clap::Arg| {
            let long = a
                .get_long()
                .is_some_and(|long| arg.strip_prefix("--") == Some(long));
            let short = a.get_short().is_some_and(|c| *arg == format!("-{c}"));
            long || short
        };
        let takes = |a: &clap::Arg| {
            let at_least_one = a.get_num_args().is_none_or(|n| n.min_values() > 0);
            a.get_action().takes_values() && at_least_one
        };
        if defined.into_iter().find(is_named).is_some_and(takes) {
            // The next argument is this flag's value, even if it is the name of a command.
            args.next();
            continue;
        }
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
    let mut flag = flag.split([' ', '=']).next().unwrap_or_default();
    // clap parses `-64` or `-evp` as several short flags and reports only the first, so find the
    // whole argument.
    if e.kind() == ErrorKind::UnknownArgument && flag.starts_with('-') && flag.len() == 2 {
        let whole = args.iter().find(|arg| arg.starts_with(flag));
        flag = whole.map_or(flag, String::as_str);
    }
    let value = first(ContextKind::InvalidValue).unwrap_or_default();
    let hint = match e.kind() {
        ErrorKind::UnknownArgument => instead(command, flag)
            .map(str::to_string)
            .or_else(|| without_flag(command, flag)),
        _ => None,
    };
    let near = hint.map_or(near, |text| format!(": {text}"));
    let what = match e.kind() {
        ErrorKind::UnknownArgument if is_number(flag) => {
            let before = args.iter().take_while(|arg| *arg != flag).last();
            let owner = before.filter(|arg| arg.starts_with("--"));
            let owner = owner.map_or(String::new(), |flag| format!("{flag}: "));
            format!("{owner}unexpected '{flag}': the number cannot be negative")
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
            let hint = instead(command, &name).filter(|_| near.is_empty());
            let full = format!("{command} {name}");
            let full = full.trim_start_matches("kiln ");
            let gap = if near.ends_with('?') { "" } else { ":" };
            let all = match hint {
                Some(text) => format!(": {text}"),
                // Omit the list of all commands, because it is too long for a single line.
                None if command == "kiln" => String::new(),
                None => format!("{gap} choose from {}", subcommands(command)),
            };
            format!("unknown command '{full}'{near}{all}")
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = strings(ContextKind::InvalidArg);
            // If the command does not always require the argument, name the flag on this command
            // line that requires it.
            let why = match is_required(command, &missing) {
                true => match taken_as_value(command, args) {
                    Some((flag, value)) => format!(": {flag} took '{value}' as its value"),
                    None => String::new(),
                },
                false => match requiring(command, args, &missing) {
                    Some(flag) => {
                        let hint = instead(command, flag);
                        let hint = hint.map_or(String::new(), |text| format!(": {text}"));
                        format!(", which {flag} requires{hint}")
                    }
                    None => ", which another flag of this command line requires".to_string(),
                },
            };
            let missing: Vec<String> = missing.iter().map(|m| with_value(command, m)).collect();
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
            let why = match why.starts_with("invalid ") {
                true => explain_no_number(command, flag, &value),
                false => None,
            }
            .unwrap_or_else(|| in_plain_words(&why));
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
            let text = text.trim_start_matches("error: ");
            let both = [ContextKind::InvalidArg, ContextKind::PriorArg];
            let hint = both.into_iter().flat_map(strings).find_map(|arg| {
                let flag = arg.split(' ').next().filter(|arg| arg.starts_with('-'))?;
                instead(command, flag)
            });
            match hint {
                Some(hint) if e.kind() == ErrorKind::ArgumentConflict => format!("{text}: {hint}"),
                _ => text.to_string(),
            }
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

/// Returns the definition of a command's flag, given by its long name, such as `--len`.
fn find_flag(command: &str, flag: &str) -> Option<clap::Arg> {
    let name = flag.strip_prefix("--")?;
    let command = find(command);
    let mut all = command.get_arguments();
    all.find(|arg| arg.get_long() == Some(name)).cloned()
}

/// Formats a missing argument. If it is a flag that accepts only one value, shows this value:
/// `--via virtio` instead of `--via <WHAT>`.
fn with_value(command: &str, argument: &str) -> String {
    let flag = argument.split(' ').next().unwrap_or(argument);
    let values = find_flag(command, flag).map_or(Vec::new(), |arg| arg.get_possible_values());
    match &values[..] {
        [only] => format!("{flag} {}", only.get_name()),
        _ => argument.to_string(),
    }
}

/// Returns a flag that does not expect a path but has the name of a file as its value, and this
/// value. It was probably meant as an argument of its own.
fn taken_as_value<'a>(command: &str, args: &'a [String]) -> Option<(&'a str, &'a str)> {
    let takes_text = |flag: &str| {
        find_flag(command, flag).is_some_and(|arg| {
            arg.get_action().takes_values()
                && arg.get_value_parser().type_id() != TypeId::of::<PathBuf>()
        })
    };
    let mut pairs = args.windows(2).map(|pair| (&*pair[0], &*pair[1]));
    pairs.find(|(flag, value)| takes_text(flag) && Path::new(value).exists())
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

/// If an unknown flag has the name of an argument without a flag, returns a hint to that argument.
fn without_flag(command: &str, flag: &str) -> Option<String> {
    let name = flag.strip_prefix("--")?.to_uppercase();
    let definition = find(command);
    let mut all = definition
        .get_positionals()
        .filter(|arg| !arg.is_last_set());
    all.find(|arg| matches!(arg.get_value_names(), Some([only]) if *only == name))?;
    Some(format!("write the value without a flag: {command} {name}"))
}

/// Explains a value that is not a number if it is a range, or the word for the flag's default.
fn explain_no_number(command: &str, flag: &str, value: &str) -> Option<String> {
    let arg = find_flag(command, flag)?;
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if help.contains(&format!("[default: {value}]")) {
        return Some(format!("this is the default: leave {flag} out"));
    }
    let (first, last) = value.split_once("..").or_else(|| value.split_once('-'))?;
    let is_range = [first, last].iter().all(|end| end.parse::<f64>().is_ok());
    is_range.then(|| match arg.get_value_delimiter() {
        Some(comma) => format!("not a range: list the numbers, such as {first}{comma}{last}"),
        None => "expected one number, not a range".to_string(),
    })
}

/// If the unexpected argument follows the value of a flag that takes a list, returns the flag with
/// both values joined into a list.
fn list_before(command: &str, args: &[String], unexpected: &str) -> Option<String> {
    let at = args.iter().position(|arg| arg == unexpected)?;
    let [flag, value] = args.get(at.checked_sub(2)?..at)? else {
        return None;
    };
    let delimiter = find_flag(command, flag)?.get_value_delimiter()?;
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
        assert_eq!(of(&["-C", "speed", "sha256"]), "kiln");
        assert_eq!(of(&["-C", "speed", "list"]), "kiln list");
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
                &["kiln", "version"],
                "unknown command 'version': use 'kiln --version': see 'kiln --help'",
            ),
            (
                &["kiln", "speed", "-evp", "aes-256-gcm"],
                "unknown flag '-evp': name the algorithm without a flag: kiln speed aes-256-gcm: see 'kiln speed --help'",
            ),
            (
                &["kiln", "speed", "-x"],
                "unknown flag '-x': see 'kiln speed --help'",
            ),
            (
                &["kiln", "compare", "a", "b", "c"],
                "unexpected argument 'c': it compares only two, A and B: see 'kiln compare --help'",
            ),
            (
                &["kiln", "speed", "--sec", "1"],
                "missing --tree <DIR|REV> and --tcrypt <MODE>, which --sec requires: for the duration of Kiln's own measurement, use --seconds: see 'kiln speed --help'",
            ),
            (
                &["kiln", "speed", "--socket", "x"],
                "missing --via virtio, which --socket requires: see 'kiln speed --help'",
            ),
            (
                &["kiln", "report", "--title", "Cargo.toml"],
                "missing <FILE>...: --title took 'Cargo.toml' as its value: see 'kiln report --help'",
            ),
            (
                &["kiln", "report", "--title", "a title"],
                "missing <FILE>...: see 'kiln report --help'",
            ),
            (
                &["kiln", "speed", "--seconds", "1-8"],
                "--seconds '1-8': expected one number, not a range: see 'kiln speed --help'",
            ),
            (
                &["kiln", "budget", "--target-us", "5us"],
                "--target-us '5us': expected a number without a unit: see 'kiln budget --help'",
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
            (
                &["kiln", "completions", "--shell", "zsh"],
                "unknown flag '--shell': write the value without a flag: kiln completions SHELL: see 'kiln completions --help'",
            ),
            // The program of `kiln linux boot` must follow `--`.
            (
                &["kiln", "linux", "boot", "--program", "cat"],
                "unknown flag '--program': see 'kiln linux boot --help'",
            ),
            (
                &["kiln", "linux", "boot", "cat", "/proc/crypto"],
                "unexpected argument 'cat': write the program after '--': kiln linux boot --tree DIR -- cat /proc/crypto: \
                 see 'kiln linux boot --help'",
            ),
            (
                &["kiln", "serve", "--socket", "a.sock", "b.sock"],
                "unexpected argument 'b.sock': repeat the flag for each socket: --socket a.sock --socket b.sock: \
                 see 'kiln serve --help'",
            ),
            (
                &["kiln", "libraries", "remove", "openssl"],
                "unknown command 'libraries remove': it has the subcommand 'install'; to remove a library, delete its \
                 directory: see 'kiln libraries --help'",
            ),
            (
                &["kiln", "ctrlq", "--workers", "1,2-8"],
                "--workers '2-8': not a range: list the numbers, such as 2,8: see 'kiln ctrlq --help'",
            ),
            (
                &["kiln", "budget", "--target-us", "5..100"],
                "--target-us '5..100': not a range: list the numbers, such as 5,100: see 'kiln budget --help'",
            ),
            (
                &["kiln", "ctrlq", "--workers", "x-8"],
                "--workers 'x-8': expected a whole number in decimal, without a unit: see 'kiln ctrlq --help'",
            ),
            (
                &["kiln", "ctrlq", "--seconds", "1-2"],
                "--seconds '1-2': expected one number, not a range: see 'kiln ctrlq --help'",
            ),
            (
                &["kiln", "serve", "--socket", "a", "--max-bytes", "unlimited"],
                "--max-bytes 'unlimited': this is the default: leave --max-bytes out: see 'kiln serve --help'",
            ),
            (
                &["kiln", "serve", "--socket", "a", "--max-bytes", "lots"],
                "--max-bytes 'lots': expected a whole number in decimal, without a unit: see 'kiln serve --help'",
            ),
            (
                &["kiln", "virtio-check", "--socket", "unix:a.sock"],
                "--socket 'unix:a.sock': write only the path: a.sock: see 'kiln virtio-check --help'",
            ),
            (
                &["kiln", "serve", "--socket", "a", "--metrics", "http://localhost:9090/metrics"],
                "--metrics 'http://localhost:9090/metrics': this is a URL: name the path of a Unix socket: \
                 see 'kiln serve --help'",
            ),
            (
                &["kiln", "linux", "build", "--headers", "h", "--sources", "s"],
                "the argument '--headers <DIR>' cannot be used with '--sources <DIR>': --sources builds nothing; to build \
                 as well, run the command again without --sources: see 'kiln linux build --help'",
            ),
            (
                &["kiln", "here", "--record", "d", "--bpftrace"],
                "the argument '--record <DIR>' cannot be used with '--bpftrace': see 'kiln here --help'",
            ),
        ] {
            assert_eq!(line(args), wanted);
        }
        let linux = line(&["kiln", "linux"]);
        assert!(
            linux.starts_with("'kiln linux' needs a subcommand: build, "),
            "{linux}"
        );
        for args in [
            &["kiln", "ctrlq", "--socket", "s", "--device-cpu", "1"],
            &["kiln", "ctrlq", "--device-cpu", "1", "--socket", "s"],
        ] {
            assert!(line(args).contains("use taskset"), "{}", line(args));
        }
        let context = line(&["kiln", "fpu", "prove", "--context", "softirq"]);
        assert!(context.contains(", which --context requires"), "{context}");
        let list = line(&["kiln", "fpu", "usable", "--policy", "legacy", "nested"]);
        assert!(list.contains("--policy legacy,nested"), "{list}");
    }
}
