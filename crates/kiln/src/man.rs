//! `kiln man`: writes the manual, one page per command. The command is for packagers.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::roff::{roman, Roff};
use clap_mangen::Man;
use kiln_question::{replace, Error, Exit};

use crate::help::Help;

/// The directory in which the package installs the documents. It replaces `docs/` in the help texts
/// when they are copied into the manual.
const DOCS: &str = "/usr/share/doc/kiln/docs/";

/// Write the manual, one page per command
#[derive(Args)]
pub struct ManArgs {
    /// Output directory; it is created if it is missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Writes the manual pages of `program` and its subcommands.
pub fn run(args: &ManArgs, program: Command) -> Result<Exit, Error> {
    fs::create_dir_all(&args.dir).map_err(|e| {
        Error::input(format!(
            "cannot use '{}' for the manual: {e}: name a directory you may write to",
            args.dir.display()
        ))
    })?;
    let mut root = program.disable_help_subcommand(true);
    root.build();
    let pages = pages(&root);
    for (name, text) in &pages {
        replace::write(&args.dir.join(name), text)?;
    }
    println!("wrote {} pages to {}", pages.len(), args.dir.display());
    Ok(Exit::Done)
}

/// Returns the file name and the text of each page, for the command and its subcommands.
fn pages(command: &Command) -> Vec<(String, Vec<u8>)> {
    let man = Man::new(command.clone());
    let name = man.get_filename();
    let text = page(man, command).expect("memory can be written");
    let below = command.get_subcommands().filter(|s| !s.is_hide_set());
    [(name, text)]
        .into_iter()
        .chain(below.flat_map(pages))
        .collect()
}

fn page(man: Man, command: &Command) -> io::Result<Vec<u8>> {
    // Use the version as the date. Without a date, the page's other title fields would shift.
    let version = concat!("kiln ", env!("CARGO_PKG_VERSION"));
    let man = man.date(version).source("Kiln").manual("Kiln manual");
    let help = Help::read(command);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    description(command, &help).to_writer(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    sections(&help).to_writer(&mut text)?;
    Ok(text)
}

/// Formats the SYNOPSIS section, which contains the usage line of `--help`.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for line in usage.trim_start_matches("Usage:").lines() {
        roff.text([roman(line.trim())]);
        roff.control("br", []);
    }
    roff
}

fn description(command: &Command, help: &Help) -> Roff {
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    let long = command.get_long_about().map(ToString::to_string);
    // Skip the first paragraph, because the NAME section already contains it.
    let more = long.as_ref().and_then(|l| l.split_once("\n\n"));
    let mut paragraphs: Vec<&str> = more.map_or(Vec::new(), |(_, more)| vec![more]);
    paragraphs.extend(help.paragraphs.iter().map(String::as_str));
    if paragraphs.is_empty() {
        paragraphs.push(&about);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["DESCRIPTION"]);
    for paragraph in paragraphs.iter().flat_map(|p| p.split("\n\n")) {
        roff.control("PP", []);
        for line in paragraph.lines() {
            roff.text([roman(installed(line))]);
        }
    }
    roff
}

/// Formats the sections of the help text, keeping line breaks and indentation.
fn sections(help: &Help) -> Roff {
    let mut roff = Roff::new();
    for (heading, lines) in &help.sections {
        roff.control("SH", [title(heading).as_str()]);
        roff.control("nf", []);
        for line in lines {
            roff.text([roman(installed(line))]);
        }
        roff.control("fi", []);
    }
    roff
}

/// Converts the heading to capitals, except for flags in parentheses.
fn title(heading: &str) -> String {
    match heading.split_once(" (") {
        Some((words, flags)) => format!("{} ({flags}", words.to_uppercase()),
        None => heading.to_uppercase(),
    }
}

fn installed(line: &str) -> String {
    line.replace("docs/", DOCS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    fn manual() -> (Command, Vec<(String, String)>) {
        let mut root = Cli::described().disable_help_subcommand(true);
        root.build();
        let text = |(name, text)| (name, String::from_utf8(text).unwrap());
        let pages = pages(&root).into_iter().map(text).collect();
        (root, pages)
    }

    /// Escapes hyphens with a backslash, as roff requires.
    fn escaped(text: &str) -> String {
        text.replace('-', "\\-")
    }

    fn check(name: &str, command: &Command, pages: &[(String, String)]) -> usize {
        let file = format!("{name}.1");
        let page = pages.iter().find(|(n, _)| *n == file);
        let (_, page) = page.unwrap_or_else(|| panic!("{file} is missing"));
        assert!(page.contains(&format!("{} \\- ", escaped(name))), "{page}");
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
            assert!(page.contains(&format!(".SH {heading}\n")), "{file}");
        }
        for flag in command.get_arguments().filter(|a| !a.is_hide_set()) {
            if let Some(long) = flag.get_long() {
                let flag = escaped(&format!("--{long}"));
                assert!(page.contains(&flag), "{file}: no --{long}");
            }
        }
        let help = Help::read(command);
        for (heading, _) in &help.sections {
            let line = format!(".SH \"{}\"\n", title(heading));
            let bare = line.replace('"', "");
            assert!(
                page.contains(&line) || page.contains(&bare),
                "{file}: {heading}"
            );
        }
        let below = command.get_subcommands().filter(|s| !s.is_hide_set());
        1 + below
            .map(|sub| check(&format!("{name}-{}", sub.get_name()), sub, pages))
            .sum::<usize>()
    }

    #[test]
    fn every_command_has_a_page_with_its_flags_and_headings() {
        let (root, pages) = manual();
        assert_eq!(check("kiln", &root, &pages), pages.len());
        assert!(!pages.iter().any(|(name, _)| name == "kiln-man.1"));
    }

    #[test]
    fn examples_stand_on_lines_of_their_own() {
        let (_, pages) = manual();
        let (_, page) = pages.iter().find(|(n, _)| n == "kiln-list.1").unwrap();
        let examples = page.split(".SH EXAMPLES\n").nth(1).unwrap();
        assert!(examples.starts_with(".nf\nkiln list\n"), "{examples}");
    }
}
