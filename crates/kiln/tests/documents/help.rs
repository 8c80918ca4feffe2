//! Extracts the examples from the help texts of all commands.

use std::process::Command;

use super::Page;

/// Returns one page per help text. The page is named after the command and contains the examples as
/// a code block.
pub fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    visit(&[], &mut pages);
    pages
}

fn visit(words: &[&str], pages: &mut Vec<Page>) {
    let text = help(words);
    let name = format!("kiln {} --help", words.join(" ")).replace("  ", " ");
    pages.push(Page {
        name,
        text: page(&text),
    });
    for sub in commands(&text) {
        if sub != "help" {
            visit(&[words, &[&sub]].concat(), pages);
        }
    }
}

fn help(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .args(words)
        .arg("--help")
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Converts a help text to Markdown by enclosing the examples in fences, without changing the line
/// numbers.
fn page(help: &str) -> String {
    let mut page = String::new();
    let mut inside = false;
    for line in help.lines() {
        if !inside && ["Example:", "Examples:"].contains(&line) {
            inside = true;
            page.push_str("```\n");
            continue;
        }
        if inside && !line.starts_with("  ") {
            inside = false;
            page.push_str("```\n");
            continue;
        }
        if inside {
            page.push_str(line);
            page.push('\n');
            continue;
        }
        // Collapse runs of blanks, so that the line does not look like a Markdown block. Mark the
        // names of documents as code.
        for word in line.split_whitespace() {
            let path = word.trim_end_matches(['.', ';', ')']);
            match path.starts_with("docs/") {
                true => page.push_str(&format!("`{path}` ")),
                false => page.push_str(&format!("{word} ")),
            }
        }
        page.push('\n');
    }
    if inside {
        page.push_str("```\n");
    }
    page
}

/// Returns the names of the subcommands, which are listed under `Commands:`.
fn commands(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        // Skip continuation lines of descriptions, which are indented further.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_string)
        .collect()
}
