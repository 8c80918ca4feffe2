//! Adds a list of row fields to the text of each command's `--help`. The list is generated from the
//! row types.

use clap::Command;
use kiln_record::{row_types, RowType};

use crate::help::{ORDER, ROW_FIELDS};

/// Line width of the help text in columns, including the indentation.
const WIDTH: usize = 78;

/// Adds the lists of row fields to the help texts of this command and its subcommands.
pub fn add_fields(command: Command) -> Command {
    add(command, "")
}

/// Adds the lists of row fields to the help of one command and its subcommands. `words` is the
/// command as typed after `kiln`, such as `fpu prove`.
fn add(command: Command, words: &str) -> Command {
    let list = list_fields(words);
    let command = match (list.is_empty(), command.get_after_long_help()) {
        (true, _) => command,
        (false, text) => {
            let text = insert(&text.map(ToString::to_string).unwrap_or_default(), &list);
            command.after_long_help(text)
        }
    };
    let name = |command: &Command| format!("{words} {}", command.get_name());
    command.mut_subcommands(|sub| {
        let words = name(&sub);
        add(sub, words.trim_start())
    })
}

/// Lists the fields of all rows that this command writes, in one paragraph per row type.
fn list_fields(words: &str) -> String {
    let written = |t: &'static RowType| {
        let lines = t.commands.iter();
        let flags = lines.filter_map(|line| match line.strip_prefix(words)? {
            "" => Some(""),
            rest => rest
                .strip_prefix(' ')
                .filter(|flags| flags.starts_with("--")),
        });
        flags.map(move |flags| (flags, t)).next()
    };
    let paragraph = |(flags, t): (&str, &RowType)| {
        let names: Vec<&str> = t.fields.iter().map(|f| f.name.as_str()).collect();
        let names = shorten(&names);
        let example = explain_short(&names).map(|text| wrap(&text));
        let names = names.join(", ");
        let names = match flags {
            "" => wrap(&names),
            flags => wrap(&format!("with {flags}: {names}")),
        };
        (names, example)
    };
    match words {
        "" => String::new(),
        _ => {
            let (mut lists, examples): (String, Vec<Option<String>>) = row_types()
                .iter()
                .filter_map(written)
                .map(paragraph)
                .unzip();
            // One example is enough to explain the shortened names in all lists.
            lists.extend(examples.into_iter().flatten().next());
            lists
        }
    }
}

/// Explains how field names are shortened, using the first shortened name as an example. Returns
/// `None` if no name is shortened.
fn explain_short(short: &[String]) -> Option<String> {
    let at = short.iter().position(|name| name.starts_with('_'))?;
    let (before, name) = (&short[at - 1], &short[at]);
    let stem: &str = match before.rsplit_once('_') {
        Some((stem, ending)) if is_statistic(ending) => stem,
        _ => before,
    };
    Some(format!(
        "(A name that begins with _ is shortened: {name} after {before} stands for {stem}{name}.)"
    ))
}

/// Shortens the list of field names. In a group of statistics, only the first name is complete:
/// `lat_us_p50, _p99, _max`. For a histogram, only the first and the last bucket are listed:
/// `hist_us_le_1, … _16384`.
fn shorten(names: &[&str]) -> Vec<String> {
    let mut short: Vec<String> = Vec::new();
    let mut last = "";
    for name in names {
        let (stem, ending) = name.rsplit_once('_').unwrap_or((name, ""));
        let follows = is_statistic(ending)
            && (last == stem
                || last
                    .rsplit_once('_')
                    .is_some_and(|(s, e)| s == stem && is_statistic(e)));
        short.push(match follows {
            true => format!("_{ending}"),
            false => name.to_string(),
        });
        last = name;
    }
    let bucket = |name: &str| {
        let digits = name.strip_prefix('_').unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    short.dedup_by(|next, last| {
        let both = bucket(next) && (bucket(last) || last.starts_with('…'));
        if both {
            *last = format!("… {next}");
        }
        both
    });
    short
}

fn is_statistic(ending: &str) -> bool {
    let digits = ending.strip_prefix('p').unwrap_or(ending);
    let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    number || matches!(ending, "low" | "high" | "max" | "more")
}

/// Wraps text to [`WIDTH`] columns, indented by two spaces.
fn wrap(text: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from(" ");
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() >= WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = String::from(" ");
        }
        line.push(' ');
        line.push_str(word);
    }
    lines + &line + "\n"
}

/// Inserts the list into the help text at the position that `ORDER` gives to [`ROW_FIELDS`]. If the
/// text has none of the headings that come later in `ORDER`, appends the list.
fn insert(text: &str, list: &str) -> String {
    let section = format!("{ROW_FIELDS}:\n{list}");
    let after = ORDER.iter().skip_while(|h| **h != ROW_FIELDS).skip(1);
    let place = after.filter_map(|h| text.find(&format!("{h}:\n"))).min();
    match place {
        Some(at) => format!("{}{section}\n{}", &text[..at], &text[at..]),
        None if text.is_empty() => section.trim_end().to_string(),
        None => format!("{text}\n\n{}", section.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_begin_alike_are_shortened() {
        let names = [
            "cc",
            "cc_version",
            "len",
            "us_p50",
            "us_p99",
            "us",
            "us_max",
            "low",
        ];
        assert_eq!(
            shorten(&names).join(", "),
            "cc, cc_version, len, us_p50, _p99, us, _max, low"
        );
        let buckets = ["us_le_1", "us_le_2", "us_le_4", "us_le_8"];
        assert_eq!(shorten(&buckets).join(", "), "us_le_1, … _8");
    }

    #[test]
    fn the_first_shortened_name_is_the_example() {
        let explained = |names: &[&str]| explain_short(&shorten(names));
        assert_eq!(
            explained(&["len", "loss_pct", "loss_low", "loss_high"]).unwrap(),
            "(A name that begins with _ is shortened: _high after loss_low stands for loss_high.)"
        );
        // The full name before a shortened name may have no ending of its own, such as `us` here.
        let whole = explained(&["us", "us_max"]).unwrap();
        assert!(whole.contains("_max after us stands for us_max"), "{whole}");
        assert_eq!(explained(&["len", "us"]), None);
        let list = list_fields("budget");
        assert_eq!(list.matches("is shortened").count(), 1, "{list}");
    }

    #[test]
    fn the_list_comes_before_the_examples() {
        let text = "Words.\n\nQuestions:\n  one\n\nExamples:\n  kiln";
        assert_eq!(
            insert(text, "  a, b\n"),
            format!("Words.\n\nQuestions:\n  one\n\n{ROW_FIELDS}:\n  a, b\n\nExamples:\n  kiln")
        );
        assert_eq!(insert("", "  a\n"), format!("{ROW_FIELDS}:\n  a"));
    }

    #[test]
    fn what_a_flag_adds_is_told_with_the_flag() {
        let list = list_fields("speed");
        assert!(list.starts_with("  alg, op,"), "{list}");
        assert!(list.contains("  with --via virtio: "), "{list}");
        let has_irqs = |words| {
            let list = list_fields(words);
            let found = list.split([',', ' ', '\n']).any(|field| field == "irqs");
            found
        };
        assert!(has_irqs("fpu prove breakpoint"));
        assert!(!has_irqs("fpu prove"));
        assert_eq!(list_fields(""), "");
    }
}
