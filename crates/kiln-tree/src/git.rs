//! Runs git without letting it write to the repository or start programs named in the repository's
//! configuration.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use crate::Error;

/// Overrides for settings that would make git start programs or use the network.
const SETTINGS: [&str; 5] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sshCommand=false",
    "protocol.allow=never",
    "submodule.recurse=false",
];

/// The repository that contains a directory.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    dir: PathBuf,
    /// The git directory that all work trees of the repository share.
    pub common: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Full commit hash.
    pub id: String,
    /// Hash of the commit's tree object.
    pub(crate) tree: String,
    /// First line of the commit message.
    pub subject: String,
}

impl Commit {
    /// Returns the first 12 digits of the hash, the abbreviation that kernel developers use.
    pub fn short(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }
}

/// A file in a commit: its mode and blob hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub mode: Mode,
    pub blob: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    Program,
    Link,
}

/// Callback that receives a blob's index in the list passed to [`Repository::read`], and the blob's
/// content.
pub(crate) type Each<'a> = dyn FnMut(usize, &[u8]) -> Result<(), Error> + 'a;

pub(crate) type Files = BTreeMap<PathBuf, File>;

/// Creates a git command that runs in this directory. Removes environment variables that would
/// select another repository, index or program.
pub(crate) fn command(dir: &Path) -> Command {
    let mut git = Command::new("git");
    for (name, _) in env::vars_os() {
        let bytes = name.as_bytes();
        // Keep the variables that determine which directories git trusts (safe.directory) and where
        // it stops searching for a repository.
        let kept = bytes.starts_with(b"GIT_CONFIG")
            || bytes.starts_with(b"GIT_CEILING")
            || bytes.starts_with(b"GIT_DISCOVERY");
        if bytes.starts_with(b"GIT_") && !kept {
            git.env_remove(name);
        }
    }
    git.arg("--no-pager");
    for setting in SETTINGS {
        git.args(["-c", setting]);
    }
    // GIT_OPTIONAL_LOCKS=0 prevents git from refreshing the index, and GIT_NO_LAZY_FETCH=1 prevents
    // it from downloading missing objects.
    git.env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .arg("-C")
        .arg(dir);
    git
}

fn output(git: &mut Command) -> Result<Output, Error> {
    git.output().map_err(|e| Error::tool("git", "git", e))
}

/// Runs git and returns its standard output if it succeeds.
fn checked(git: &mut Command, what: &str) -> Result<Vec<u8>, Error> {
    let output = output(git)?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(Error::Git {
            what: what.to_owned(),
            why: reason(&output.stderr),
        }),
    }
}

/// Extracts the reason for a failure from git's error output. If git recommends a command, the
/// command is appended.
fn reason(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let first = lines
        .clone()
        .find_map(|l| l.strip_prefix("fatal: ").or(l.strip_prefix("error: ")));
    let advice = lines.find(|l| l.starts_with("git config "));
    [first.or(text.lines().next()), advice]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(": ")
}

impl Repository {
    /// Finds the repository that contains this directory, if any.
    ///
    /// # Errors
    /// Fails if git is not installed, or refuses the repository because it belongs to another user.
    pub(crate) fn find(dir: &Path) -> Result<Option<Repository>, Error> {
        let output = output(command(dir).args(["rev-parse", "--git-common-dir"]))?;
        if !output.status.success() {
            let why = reason(&output.stderr);
            if why.contains("not a git repository") {
                return Ok(None);
            }
            return Err(Error::Git {
                what: dir.display().to_string(),
                why,
            });
        }
        let said = output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout);
        let common = dir.join(OsStr::from_bytes(said));
        let common = fs::canonicalize(&common).map_err(|e| Error::read(&common, e))?;
        Ok(Some(Repository {
            dir: dir.to_owned(),
            common,
        }))
    }

    /// Returns the directory that contains `.git`. If the git directory is not called `.git`,
    /// returns the git directory itself.
    pub(crate) fn top(&self) -> &Path {
        match self.common.parent() {
            Some(top) if self.common.ends_with(".git") => top,
            _ => &self.common,
        }
    }

    /// Returns the name of the directory that [`Repository::top`] returns.
    pub(crate) fn name(&self) -> String {
        let name = self.top().file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Looks up a revision. Returns `None` if it does not name a commit in the repository.
    pub(crate) fn commit(&self, revision: &OsStr) -> Result<Option<Commit>, Error> {
        // Git would parse a revision that begins with a hyphen as an option.
        if revision.is_empty() || revision.as_bytes().starts_with(b"-") {
            return Ok(None);
        }
        // Resolve the object first, and then its commit. If ^{commit} were appended to a revision
        // such as :/TEXT, it would become part of the text.
        let Some(object) = self.parse(revision)? else {
            return Ok(None);
        };
        let Some(id) = self.parse(OsStr::new(&format!("{object}^{{commit}}")))? else {
            return Ok(None);
        };
        let text = checked(
            command(&self.dir).args(["cat-file", "commit", &id]),
            &format!("commit {id}"),
        )?;
        let text = String::from_utf8_lossy(&text);
        let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
        let tree = head.lines().find_map(|l| l.strip_prefix("tree "));
        let Some(tree) = tree else {
            return Ok(None);
        };
        Ok(Some(Commit {
            tree: tree.to_owned(),
            subject: message.lines().next().unwrap_or_default().to_owned(),
            id,
        }))
    }

    /// Returns the hash of the object that a name refers to.
    fn parse(&self, name: &OsStr) -> Result<Option<String>, Error> {
        let mut git = command(&self.dir);
        let output = output(git.args(["rev-parse", "--verify", "--quiet"]).arg(name))?;
        let hash = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(output.status.success().then_some(hash))
    }

    /// Lists the files in a commit, without submodules.
    pub(crate) fn files(&self, commit: &Commit) -> Result<Files, Error> {
        let mut git = command(&self.dir);
        git.args(["ls-tree", "-r", "-z", "--full-tree", &commit.tree]);
        Ok(parse_files(&checked(
            &mut git,
            &format!("commit {}", commit.id),
        )?))
    }

    /// Reads these blobs in order, and calls `each` with the index and the content of each blob.
    pub(crate) fn read(&self, blobs: &[&str], each: &mut Each) -> Result<(), Error> {
        let mut child = command(&self.dir)
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| Error::tool("git", "git", e))?;
        let mut input = child.stdin.take().expect("stdin is piped");
        let mut out =
            BufReader::with_capacity(1 << 16, child.stdout.take().expect("stdout is piped"));
        let names: String = blobs.iter().map(|b| format!("{b}\n")).collect();
        thread::scope(|scope| {
            // Write in a separate thread, because git starts to reply before it has read all names.
            scope.spawn(move || {
                let _ = input.write_all(names.as_bytes());
            });
            let read = (|| {
                let mut content = Vec::new();
                for (i, blob) in blobs.iter().enumerate() {
                    read_blob(&mut out, blob, &mut content)?;
                    each(i, &content)?;
                }
                Ok(())
            })();
            // Close the pipe, so that the writer thread exits.
            drop(out);
            let _ = child.kill();
            let _ = child.wait();
            read
        })
    }

    /// Lists the paths that differ between two commits, or between a commit and the work tree,
    /// including untracked files in the work tree.
    pub(crate) fn changed(
        &self,
        from: &Commit,
        to: Option<&Commit>,
    ) -> Result<Vec<PathBuf>, Error> {
        let what = format!("the changes since {}", from.short());
        let mut git = command(&self.dir);
        // Do not run filters, which are commands from the repository's configuration. An empty
        // command disables a filter.
        git.env("KILN_EMPTY", "").env("KILN_FALSE", "false");
        for name in self.filters()? {
            for (key, value) in [
                ("clean", "EMPTY"),
                ("process", "EMPTY"),
                ("required", "FALSE"),
            ] {
                // Use --config-env, because unlike -c it allows any character in a filter's name.
                git.arg(format!("--config-env=filter.{name}.{key}=KILN_{value}"));
            }
        }
        git.args(["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff"])
            .args(["--no-textconv", "--ignore-submodules=all", &from.id]);
        git.args(to.map(|to| to.id.as_str())).arg("--");
        let mut paths = parse_paths(&checked(&mut git, &what)?);
        if to.is_none() {
            let mut git = command(&self.dir);
            git.args([
                "ls-files",
                "-z",
                "--others",
                "--exclude-standard",
                "--full-name",
            ])
            .arg(":/");
            paths.extend(parse_paths(&checked(&mut git, &what)?));
        }
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// Returns the names of the filters that the repository's configuration defines.
    fn filters(&self) -> Result<Vec<String>, Error> {
        let mut git = command(&self.dir);
        git.args(["config", "-z", "--name-only", "--get-regexp", "^filter[.]"]);
        // Ignore the exit status: git returns 1 if it finds no filters.
        let found = output(&mut git)?.stdout;
        let name = |key: &[u8]| {
            let key = String::from_utf8_lossy(key);
            let (name, _) = key.strip_prefix("filter.")?.rsplit_once('.')?;
            Some(name.to_owned())
        };
        let mut names: Vec<String> = found.split(|b| *b == 0).filter_map(name).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }
}

fn parse_paths(text: &[u8]) -> Vec<PathBuf> {
    text.split(|b| *b == 0)
        .filter(|p| !p.is_empty())
        .map(|p| PathBuf::from(std::ffi::OsString::from_vec(p.to_vec())))
        .collect()
}

/// Parses NUL-terminated entries of the form `MODE TYPE HASH<tab>PATH`. Submodules and other
/// entries that are neither files nor symbolic links are skipped.
pub(crate) fn parse_files(text: &[u8]) -> Files {
    let mut files = Files::new();
    for entry in text.split(|b| *b == 0) {
        let Some(tab) = entry.iter().position(|b| *b == b'\t') else {
            continue;
        };
        let head = String::from_utf8_lossy(&entry[..tab]);
        let mut words = head.split(' ');
        let (Some(mode), Some("blob"), Some(blob)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let mode = match mode {
            "100755" => Mode::Program,
            "120000" => Mode::Link,
            _ => Mode::Plain,
        };
        let path = PathBuf::from(OsStr::from_bytes(&entry[tab + 1..]));
        let blob = blob.to_owned();
        files.insert(path, File { mode, blob });
    }
    files
}

/// Formats files in the format that [`parse_files`] reads.
pub(crate) fn format_files(files: &Files) -> Vec<u8> {
    let mut text = Vec::new();
    for (path, file) in files {
        let mode = match file.mode {
            Mode::Plain => "100644",
            Mode::Program => "100755",
            Mode::Link => "120000",
        };
        text.extend_from_slice(format!("{mode} blob {}\t", file.blob).as_bytes());
        text.extend_from_slice(path.as_os_str().as_bytes());
        text.push(0);
    }
    text
}

/// Reads one reply of `git cat-file --batch`: the line `HASH blob SIZE`, the content, and a
/// newline.
fn read_blob(from: &mut impl BufRead, blob: &str, content: &mut Vec<u8>) -> Result<(), Error> {
    let fault = |why: String| Error::Git {
        what: format!("blob {blob}"),
        why,
    };
    let io = |e: io::Error| fault(e.to_string());
    let mut head = String::new();
    from.read_line(&mut head).map_err(io)?;
    let words: Vec<&str> = head.split_whitespace().collect();
    let size = match words[..] {
        [hash, "blob", size] if hash == blob => size.parse::<usize>().ok(),
        _ => None,
    };
    let Some(size) = size else {
        let why = match head.trim() {
            "" => "git cat-file ended early",
            _ => "the repository does not have it (a partial clone?): fetch it with git",
        };
        return Err(fault(why.to_owned()));
    };
    content.clear();
    from.take(size as u64 + 1)
        .read_to_end(content)
        .map_err(io)?;
    match content.pop() {
        Some(b'\n') if content.len() == size => Ok(()),
        _ => Err(fault("git cat-file ended early".to_owned())),
    }
}
