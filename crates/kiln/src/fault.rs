//! Faults on stderr: one line each.

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use kiln_lab::Error;

/// Prints the fault and gives its exit status.
pub fn report(e: &Error) -> ExitCode {
    tell(e);
    ExitCode::from(e.exit_code())
}

/// Prints the fault.
pub fn tell(e: &Error) {
    line(&e.to_string());
}

/// What clap has to say: help and version as they are, a fault in one line.
pub fn of_arguments(e: &clap::Error) -> ExitCode {
    match e.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe is no fault.
            let _ = e.print();
            ExitCode::SUCCESS
        }
        _ => {
            line(&one_line(&e.to_string()));
            ExitCode::from(2)
        }
    }
}

/// stderr may be closed; then there is nobody to tell.
fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "kiln: {text}");
}

/// The fault and the tip of clap's text; of its usage and help paragraphs only where to find them.
fn one_line(text: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        let line = line
            .trim_start_matches("error: ")
            .trim_start_matches("tip: ");
        match parts.last_mut() {
            _ if line.is_empty() => {}
            Some(last) if last.ends_with(':') => {
                last.push(' ');
                last.push_str(line);
            }
            _ => parts.push(line.to_string()),
        }
    }
    parts.push("see --help".to_string());
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claps_paragraphs_become_one_line() {
        let text = "error: unexpected argument '--bogus' found\n\n  tip: a similar argument exists: '--out'\n\n\
                    Usage: kiln speed\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(text),
            "unexpected argument '--bogus' found: a similar argument exists: '--out': see --help"
        );
        let text = "error: the following required arguments were not provided:\n  --key <HEX>\n  --iv <HEX>\n\n\
                    Usage: kiln crypt\n";
        assert_eq!(
            one_line(text),
            "the following required arguments were not provided: --key <HEX>: --iv <HEX>: see --help"
        );
    }
}
