//! Runs every command in the README, in the documents and in the examples of help texts, and checks
//! that every link resolves and every named file exists.
//!
//! A command is run exactly as written, in a directory that contains the files used in the
//! examples. If it is still running after about a second, it receives a Ctrl-C and must then exit
//! with status 0, with the status for an interrupted run, or with one that the page allows. A wrong
//! flag, algorithm or file causes a usage error well before that. With `KILN_DOCS=full`, all
//! commands run to completion, one after the other. With `KILN_DOCS=VIRTIO`, only the pages whose
//! names contain VIRTIO are run.
//!
//! A comment on the line before a code block states what the commands need, such as a tree or a
//! program (`<!-- needs: tree -->`). If the machine lacks any of these, the commands are skipped
//! with a message. Commands in the running text are run as well. If such a command contains a word
//! that the reader replaces (DIR, N), or consists only of a command's name, only its words are
//! checked.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

use crate::documents::command::{commands, Command};
use crate::documents::markdown::{parts, Block};
use crate::documents::run::{self, Background};
use crate::documents::scratch::Scratch;
use crate::documents::{file, help, link, machine, pages, root, Fault, Page, Place};

/// Number of pages processed concurrently. This can be high, because most commands only wait to be
/// interrupted.
const AT_A_TIME: usize = 6;

/// Languages of code blocks that do not contain commands.
const NO_SHELL: [&str; 7] = ["c", "diff", "ini", "json", "rust", "text", "xml"];

fn skip(at: &Place, command: &str, why: &str) {
    // Write directly to stderr, because the test harness captures printed output.
    let line = format!("SKIPPED: {at}: {command}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// State kept while the commands of one page are run from top to bottom.
struct Reader<'a> {
    page: &'a Page,
    scratch: Scratch,
    servers: Vec<(Place, Background)>,
    faults: Vec<Fault>,
    run: usize,
}

impl Reader<'_> {
    fn new(page: &Page) -> Reader<'_> {
        Reader {
            page,
            scratch: Scratch::new(),
            servers: Vec::new(),
            faults: Vec::new(),
            run: 0,
        }
    }

    fn fault(&mut self, at: &Place, what: String) {
        let at = at.clone();
        self.faults.push(Fault { at, what });
    }

    fn block(&mut self, block: &Block) {
        if NO_SHELL.contains(&block.language.as_str()) {
            return;
        }
        let found = match commands(&block.lines) {
            Ok(found) => found,
            Err((line, what)) => return self.fault(&block.place(self.page, line), what),
        };
        if let Some(run) = &block.marks.run {
            if found.first().map(|c| &c.text) != Some(run) {
                let what = format!("is recorded of another command than: {run}");
                return self.fault(&block.place(self.page, 0), what);
            }
        }
        // Keep assignments, because they apply to the commands that follow.
        let mut before = String::new();
        for command in found {
            let at = block.place(self.page, command.line);
            if command.program().is_empty() {
                before = format!("{before}{}; ", command.text);
                continue;
            }
            let text = format!("{before}{}", command.meant().text);
            self.command(&at, &Command { line: 0, text }, block);
        }
    }

    fn command(&mut self, at: &Place, command: &Command, block: &Block) {
        let text = &command.text;
        if let Some(why) = command.not_run() {
            return skip(at, text, why);
        }
        if let Some(what) = machine::lacks(command, &block.marks.needs) {
            return skip(at, text, &format!("no {what} here"));
        }
        self.scratch.furnish(text);
        self.run += 1;
        let serves = text.starts_with("kiln serve");
        let socket = run::missing_socket(text, &self.scratch).filter(|_| !serves);
        if let Some(socket) = socket {
            match run::begin(&format!("kiln serve --socket {socket}"), &self.scratch) {
                Ok(server) => self.servers.push((at.clone(), server)),
                Err(what) => self.fault(at, what),
            }
        }
        if serves {
            match run::begin(text, &self.scratch) {
                Ok(server) => self.servers.push((at.clone(), server)),
                Err(what) => self.fault(at, format!("{text}: {what}")),
            }
        } else if let Err(what) = run::run(text, &block.marks.exits, &self.scratch) {
            self.fault(at, format!("{text}: {what}"));
        }
    }

    fn done(mut self) -> (usize, Vec<Fault>) {
        for (at, server) in std::mem::take(&mut self.servers) {
            if let Err(what) = run::end(server) {
                self.fault(&at, what);
            }
        }
        (self.run, self.faults)
    }
}

/// Runs the code blocks of a page. Returns the number of commands that were run, and the faults.
fn type_page(page: &Page) -> (usize, Vec<Fault>) {
    let mut reader = Reader::new(page);
    for block in &parts(&page.text).blocks {
        reader.block(block);
    }
    reader.done()
}

/// Collects the Kiln commands that appear in the running text of these pages. Each command is
/// listed only once.
fn spans(pages: &[Page]) -> Vec<(Place, String)> {
    let mut seen = BTreeSet::new();
    let mut spans = Vec::new();
    for page in pages {
        for (line, text) in parts(&page.text).spans {
            let command = Command { line, text };
            if command.program() == "kiln" && seen.insert(command.text.clone()) {
                let page = page.name.clone();
                spans.push((Place { page, line }, command.text));
            }
        }
    }
    spans
}

/// Returns whether a word is or contains a placeholder, as in `DIR`, `tree:DIR` or `A.json`.
fn stands_for(word: &str) -> bool {
    let part = |p: &str| !p.is_empty() && p.chars().all(|c| c.is_ascii_uppercase());
    word.contains('…') || word.split(|c: char| !c.is_ascii_alphanumeric()).any(part)
}

/// Checks a command that appears in the running text. Runs the command or, if it is incomplete,
/// checks its words.
fn try_span(at: &Place, text: &str, scratch: &Scratch) -> Result<(), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut arguments = words
        .iter()
        .skip_while(|w| **w != "kiln")
        .skip(1)
        .copied()
        .peekable();
    let name = !arguments.clone().any(|w| w.starts_with('-'));
    if arguments.peek().is_some_and(|w| stands_for(w)) {
        return Ok(());
    }
    let symbolic = arguments.clone().any(stands_for);
    let of_a_tree = matches!(arguments.peek(), Some(&"linux" | &"tree"));
    // Accept these errors, because the text may mention a flag without its value, or a command
    // without its other required arguments.
    let incomplete = |said: &str| {
        ["needs a value", "kiln: missing ", "no kernel tree is named"]
            .iter()
            .any(|words| said.contains(words))
    };
    if !(name || symbolic || of_a_tree) {
        let command = Command {
            line: 0,
            text: text.to_string(),
        };
        if let Some(what) = machine::lacks(&command, &[]) {
            skip(at, text, &format!("no {what} here"));
            return Ok(());
        }
        scratch.furnish(text);
        return run::run(text, &[], scratch).or_else(|what| match incomplete(&what) {
            true => Ok(()),
            false => Err(what),
        });
    }
    // Check only the words, with `--help`. Replace placeholders for numbers with a number, and
    // remove the brackets around optional parts.
    let number = |w: &str| ["N", "K", "PCT", "US", "HZ", "MODE", "MINUTES", "SECONDS"].contains(&w);
    let plain = |w| str::trim_matches(w, ['\'', '[', ']']);
    let output = scratch
        .command("kiln")
        .args(
            arguments
                .map(plain)
                .map(|w| if number(w) { "1" } else { w }),
        )
        .arg("--help")
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || incomplete(&said) {
        return Ok(());
    }
    Err(said.trim().to_string())
}

/// Calls `work` for each item, processing several items in parallel. Returns the number of commands
/// that were run, and the faults.
fn each<T: Sync>(
    all: &[T],
    work: impl Fn(&T) -> (usize, Vec<Fault>) + Sync,
) -> (usize, Vec<Fault>) {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((0, Vec::new()));
    let threads = if run::full() { 1 } else { AT_A_TIME };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (ran, faults) = work(one);
                    let mut done = done.lock().unwrap();
                    done.0 += ran;
                    done.1.extend(faults);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

#[track_caller]
fn assert_none(mut faults: Vec<Fault>) {
    faults.sort_by(|a, b| a.at.cmp(&b.at));
    let lines: Vec<String> = faults.iter().map(|f| f.to_string()).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}

#[test]
fn every_command_runs() {
    let mut all = [pages(), help::pages()].concat();
    let only = run::only();
    if let Some(only) = &only {
        all.retain(|page| page.name.contains(only.as_str()));
    }
    let written: Vec<Page> = all
        .iter()
        .filter(|p| p.name.ends_with(".md"))
        .cloned()
        .collect();
    // Start with the longest pages, so that a long page does not run alone at the end.
    all.sort_by_key(|p| std::cmp::Reverse(parts(&p.text).blocks.len()));
    let (blocks, mut faults) = each(&all, type_page);
    let scratch = Scratch::new();
    let (code, more) = each(&spans(&written), |(at, text)| {
        let tried = try_span(at, text, &scratch);
        let fault = tried.err().map(|what| Fault {
            at: at.clone(),
            what: format!("{text}: {what}"),
        });
        (1, fault.into_iter().collect())
    });
    faults.extend(more);
    println!("{blocks} commands of blocks, {code} in the text");
    assert_none(faults);
    let enough = blocks > 80 && code > 30;
    assert!(
        enough || only.is_some(),
        "{blocks} and {code} commands only"
    );
}

#[test]
fn every_link_and_file_is_there() {
    let files = file::tracked(&root());
    assert_none(link::faults(&pages(), &files));
    assert_none(link::faults(&help::pages(), &files));
}

fn page(text: &str) -> Page {
    Page {
        name: "docs/PAGE.md".to_string(),
        text: text.to_string(),
    }
}

/// Asserts that a fault whose text contains `what` was reported for this line. The `control_…`
/// tests use this function to check that the faults in deliberately wrong pages are detected.
#[track_caller]
fn assert_found(faults: &[Fault], line: usize, what: &str) {
    assert!(
        faults
            .iter()
            .any(|f| f.at.line == line && f.what.contains(what)),
        "nothing about {what} on line {line} in {faults:?}"
    );
}

#[test]
fn control_commands_that_are_wrong() {
    let wrong = page(
        "```\nkiln list --bogus\nkiln speed 'no(such)'\nkiln crypt --alg sha256 --in not-there\n\
         kiln list --json | false\n```\n\n\
         <!-- run: kiln list -->\n```\n$ kiln list --json\n```\n\n\
         ```\nkiln list\nkilm list\n```\n\n\
         <!-- exits: 2 -->\n    kiln speed 'no(such)'\n",
    );
    let (_, faults) = type_page(&wrong);
    assert_found(&faults, 2, "--bogus");
    assert_found(&faults, 3, "no(such)");
    assert_found(&faults, 4, "not-there");
    assert_found(&faults, 5, "exit status: 1");
    assert_found(&faults, 10, "another command");
    assert_found(&faults, 15, "kilm");
    assert_eq!(faults.len(), 6, "{faults:?}");
}

#[test]
fn control_commands_that_are_right() {
    let right = page(
        "```\nkiln list --json\n# as a user would\nkiln speed 'xts(aes)' --quick\n```\n\n\
         ```\nkiln serve --socket /run/kiln/kiln.sock\nkiln virtio-check --socket /run/kiln/kiln.sock\n```\n",
    );
    let (ran, faults) = type_page(&right);
    assert_eq!((ran, faults), (4, Vec::new()));
}

#[test]
fn control_code_in_the_text() {
    let scratch = Scratch::new();
    let at = Place {
        page: String::new(),
        line: 1,
    };
    let says = |text: &str| try_span(&at, text, &scratch);
    for right in [
        "kiln fpu",
        "kiln test --tree",
        "kiln compare A B --max-regression PCT",
        "kiln list --json",
    ] {
        assert_eq!(says(right), Ok(()), "{right}");
    }
    for wrong in [
        "kiln fpo",
        "kiln fpu --polity DIR",
        "kiln speed 'no(such)' --quick",
    ] {
        assert!(says(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn control_links_and_files() {
    let wrong = page(
        "# Here\n\n[a](GONE.md) and [b](../README.md#no-such-part)\n\n[c](#here), [d](../README.md)\n\n\
         `kernel/fpu/lazy.c`, `crates/questions/src/nothing.rs`\n\n`kernel/fpu/legacy.c`, `legacy.c`, `kernel/fpu/`\n",
    );
    let readme = pages().into_iter().find(|p| p.name == "README.md").unwrap();
    let faults = link::faults(&[wrong, readme], &file::tracked(&root()));
    let of_page: Vec<_> = faults
        .into_iter()
        .filter(|f| f.at.page == "docs/PAGE.md")
        .collect();
    assert_found(&of_page, 3, "GONE.md");
    assert_found(&of_page, 3, "no-such-part");
    assert_found(&of_page, 7, "lazy.c");
    assert_found(&of_page, 7, "nothing.rs");
    assert_eq!(of_page.len(), 4, "{of_page:?}");
}
