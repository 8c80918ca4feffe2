//! Extracts the commands from a code block.

/// A command, and the number of its first line in the code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub line: usize,
    pub text: String,
}

/// Programs that commands in the documents call. If a block begins with one of these programs, all
/// its lines must be commands.
const PROGRAMS: &[&str] = &[
    "apt-get",
    "cargo",
    "cat",
    "cd",
    "cp",
    "curl",
    "docs/bare.sh",
    "docs/compilers.sh",
    "docs/figures.sh",
    "dpkg",
    "git",
    "grep",
    "head",
    "jq",
    "kiln",
    "kiln-cluster",
    "kiln-fleet",
    "ls",
    "mkdir",
    "packaging/deb.sh",
    "parallel",
    "python3",
    "qemu-system-x86_64",
    "rm",
    "rustup",
    "sed",
    "seq",
    "sudo",
    "systemctl",
    "target/release/kiln",
    "tcpdump",
    "tree",
    ".ci/run",
];

/// Commands that a test must not run, each with the reason.
const NOT_RUN: &[(&str, &str)] = &[
    (".ci/run", "runs this test"),
    ("apt-get", "changes the machine"),
    ("cargo", "is running this test and holds the build"),
    ("cd", "is a step between others"),
    ("docs/bare.sh", "measures for minutes"),
    ("docs/compilers.sh", "measures for an hour"),
    (
        "docs/figures.sh",
        "measures for an hour and rewrites the documents",
    ),
    ("dpkg", "changes the machine"),
    ("git", "wants a network or somebody's checkout"),
    ("packaging/deb.sh", "builds"),
    ("qemu-system-x86_64", "boots a guest that the reader has"),
    ("rustup", "changes the machine"),
    ("sudo", "changes the machine"),
    ("systemctl", "changes the machine"),
    (
        "target/release/kiln",
        "is cargo's output path only by default",
    ),
    ("tcpdump", "wants root and traffic"),
];

impl Command {
    /// Returns the name of the program, skipping any assignments in front of it.
    pub fn program(&self) -> &str {
        program(&self.text)
    }

    /// Returns why the command is not run, or `None` if it is run.
    pub fn not_run(&self) -> Option<&'static str> {
        let program = self.program();
        NOT_RUN
            .iter()
            .find(|(name, _)| *name == program)
            .map(|(_, why)| *why)
    }

    /// Returns the command to run instead of this one. For `git bisect run`, this is the inner
    /// command, with `.` replaced by a kernel tree. In other commands, DIR in `tree:DIR` is
    /// replaced by a kernel tree.
    pub fn meant(&self) -> Command {
        let Some(rest) = self.text.strip_prefix("git bisect run ") else {
            return Command {
                line: self.line,
                text: self.text.replace("tree:DIR", "tree:$HOME/linux"),
            };
        };
        let inner = match rest.rfind("kiln ") {
            Some(start) if rest.starts_with("sh ") => rest[start..].trim_end_matches('\''),
            _ => rest,
        };
        Command {
            line: self.line,
            text: inner.replace(" . ", " ~/linux "),
        }
    }
}

/// Returns the first word after assignments and `export`, or an empty string.
fn program(text: &str) -> &str {
    text.split_whitespace()
        .find(|word| !is_assignment(word) && *word != "export")
        .unwrap_or("")
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn is_command(line: &str) -> bool {
    let program = program(line);
    PROGRAMS.contains(&program)
        || (program.is_empty() && line.split_whitespace().any(is_assignment))
}

/// Returns the commands in a block. If any line starts with `$ `, only these lines are commands.
/// Otherwise, if the block begins with a command, each line must be a command or a comment.
pub fn commands(lines: &[String]) -> Result<Vec<Command>, (usize, String)> {
    let transcript = lines.iter().any(|l| l.starts_with("$ "));
    if !transcript {
        let first = lines.iter().find(|l| !is_blank(l));
        if !first.is_some_and(|l| is_command(l)) {
            return Ok(Vec::new());
        }
    }
    let mut commands = Vec::new();
    let mut i = 0;
    while i < lines.len() {
        let line = i;
        let mut text = match (transcript, lines[i].strip_prefix("$ ")) {
            (true, Some(rest)) => rest.to_string(),
            (true, None) => {
                i += 1;
                continue;
            }
            (false, _) => lines[i].trim_start().to_string(),
        };
        i += 1;
        if is_blank(&text) {
            continue;
        }
        if !is_command(&text) {
            return Err((line, format!("no command and no comment: {text}")));
        }
        while i < lines.len() && is_open(&text) {
            let next = &lines[i];
            match text.strip_suffix('\\') {
                Some(start) => text = format!("{} {}", start.trim_end(), next.trim_start()),
                None => text = format!("{text}\n{next}"),
            }
            i += 1;
        }
        let text = without_remark(&text).to_string();
        commands.push(Command { line, text });
    }
    Ok(commands)
}

fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// Replaces quoted characters with underscores.
pub fn unquoted(text: &str) -> String {
    let quoted: Vec<bool> = quotes(text).map(|(_, quoted)| quoted).collect();
    text.chars()
        .zip(quoted)
        .map(|(c, quoted)| if quoted { '_' } else { c })
        .collect()
}

/// Returns whether the command continues on the next line.
fn is_open(text: &str) -> bool {
    text.ends_with('\\') || in_quotes(text)
}

fn in_quotes(text: &str) -> bool {
    quotes(text).last().is_some_and(|(_, quoted)| quoted)
}

/// For each character of a text, yields its byte offset and whether the text after it is inside
/// quotes.
fn quotes(text: &str) -> impl Iterator<Item = (usize, bool)> + '_ {
    let mut quote = None;
    text.char_indices().map(move |(at, c)| {
        match quote {
            Some(open) if open == c => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            _ => {}
        }
        (at, quote.is_some())
    })
}

/// Removes a trailing remark, which starts with two spaces or with ` #`.
fn without_remark(text: &str) -> &str {
    let end = quotes(text)
        .filter(|(_, quoted)| !quoted)
        .map(|(at, _)| at)
        .find(|&at| text[at..].starts_with("  ") || text[at..].starts_with(" #"));
    text[..end.unwrap_or(text.len())].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(block: &str) -> Vec<String> {
        let lines: Vec<String> = block.lines().map(str::to_string).collect();
        let commands = commands(&lines).unwrap();
        commands.into_iter().map(|c| c.text).collect()
    }

    #[test]
    fn remarks_and_continuations() {
        assert_eq!(
            texts("kiln list    what is here\nkiln  # all"),
            ["kiln list", "kiln"]
        );
        assert_eq!(
            texts("# first\nA=1 kiln list \\\n    --json | head"),
            ["A=1 kiln list --json | head"]
        );
        assert_eq!(
            texts("$ kiln list\nout\n$ seq 3\n1"),
            ["kiln list", "seq 3"]
        );
        assert_eq!(
            texts("git bisect run sh -c 'make || exit 125\n    kiln list'").len(),
            1
        );
        assert_eq!(texts("kiln speed 'a  b'  c"), ["kiln speed 'a  b'"]);
        assert!(texts("policy   task\nlegacy  1").is_empty());
        let lines = ["kiln list".to_string(), "kilm list".to_string()];
        assert_eq!(commands(&lines).unwrap_err().0, 1);
    }

    #[test]
    fn what_is_meant() {
        let of = |text: &str| {
            let text = text.to_string();
            Command { line: 0, text }.meant().text
        };
        assert_eq!(
            of("git bisect run kiln compare a . --bisect"),
            "kiln compare a ~/linux --bisect"
        );
        assert_eq!(
            of("kiln fpu --policy tree:DIR"),
            "kiln fpu --policy tree:$HOME/linux"
        );
        assert_eq!(of("git bisect run sh -c 'make\n  kiln list'"), "kiln list");
    }
}
