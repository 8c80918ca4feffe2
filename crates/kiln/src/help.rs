//! Parses the part of a command's `--help` that follows the flags. It consists of paragraphs,
//! followed by headings with indented text.

use clap::Command;

/// The parsed help text of one command.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Help {
    /// Paragraphs before the first heading.
    pub paragraphs: Vec<String>,
    /// Each heading, without its colon, and the lines below it, without indentation.
    pub sections: Vec<(String, Vec<String>)>,
}

/// The heading above the list of row fields.
pub const ROW_FIELDS: &str = "Row fields (--json), explained in docs/RECORDS.md";

/// The order of the headings that several commands share. Other headings precede them.
pub const ORDER: [&str; 5] = [
    ROW_FIELDS,
    "Exit status",
    "Environment",
    "Examples",
    "See also",
];

/// Indentation of the lines below a heading.
const INDENT: &str = "  ";

impl Help {
    /// Parses the part of this command's help text that follows the flags.
    pub fn read(command: &Command) -> Help {
        let text = command.get_after_long_help().or(command.get_after_help());
        text.map_or_else(Help::default, |text| Help::parse(&text.to_string()))
    }

    fn parse(text: &str) -> Help {
        let mut help = Help::default();
        for part in text.split("\n\n") {
            let (head, rest) = part.split_once('\n').unwrap_or((part, ""));
            match head.strip_suffix(':') {
                Some(heading) if rest.starts_with(INDENT) => {
                    let lines = rest.lines().map(|l| l.strip_prefix(INDENT).unwrap_or(l));
                    let lines = lines.map(str::to_owned).collect();
                    help.sections.push((heading.to_owned(), lines));
                }
                _ => help.paragraphs.push(part.to_owned()),
            }
        }
        help
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    /// Returns every command with its full name. Hidden commands, which are for packagers, are
    /// excluded.
    fn commands() -> Vec<(String, Command)> {
        fn walk(words: &str, command: &Command, all: &mut Vec<(String, Command)>) {
            all.push((words.to_owned(), command.clone()));
            for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
                walk(&format!("{words} {}", sub.get_name()), sub, all);
            }
        }
        let mut all = Vec::new();
        walk("kiln", &Cli::described(), &mut all);
        all
    }

    #[test]
    fn text_is_taken_apart() {
        let help = Help::parse("One\ntwo.\n\nThree:\n  a\n    b\n\nNot this:\nfour");
        assert_eq!(help.paragraphs, ["One\ntwo.", "Not this:\nfour"]);
        assert_eq!(
            help.sections,
            [("Three".into(), vec!["a".into(), "  b".into()])]
        );
    }

    #[test]
    fn every_command_has_a_purpose_in_one_line_and_examples_of_itself() {
        for (words, command) in commands() {
            let about = command.get_about().expect(&words).to_string();
            assert_eq!(about.lines().count(), 1, "{words}: {about}");
            assert!(about.len() < 100, "{words}: {about}");
            // Skip commands that require a subcommand, because only the subcommands have examples.
            if command.is_subcommand_required_set() {
                continue;
            }
            let help = Help::read(&command);
            let examples = help.sections.iter().find(|(h, _)| h == "Examples");
            let (_, lines) = examples.unwrap_or_else(|| panic!("{words}: no examples"));
            // `survey` is the default command, so its examples may omit the name.
            let name = words.trim_end_matches(" survey");
            assert!(lines.iter().any(|l| l.contains(name)), "{words}");
        }
    }

    #[test]
    fn headings_have_one_order_and_lines_fit_a_terminal() {
        for (words, command) in commands() {
            let help = Help::read(&command);
            let place = |(heading, _): &(String, Vec<String>)| {
                ORDER.iter().position(|h| h == heading).map_or(0, |n| n + 1)
            };
            let places: Vec<usize> = help.sections.iter().map(place).collect();
            assert!(places.is_sorted(), "{words}: {:?}", help.sections);
            for line in help.sections.iter().flat_map(|(_, lines)| lines) {
                assert!(line.chars().count() < 78, "{words}: {line}");
            }
        }
    }

    #[test]
    fn short_help_is_short() {
        for (words, mut command) in commands() {
            let short = command.render_help().to_string().lines().count();
            let long = command.render_long_help().to_string().lines().count();
            assert!(short <= 60, "{words} -h has {short} lines");
            if command.get_after_long_help().is_some() {
                assert!(short < long, "{words}: {short} lines, {long} with --help");
            }
        }
    }
}
