//! The configuration file `kiln.toml`, which sets defaults for flags that are the same in every run
//! on a machine.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command};
use kiln_measure::CoreList;
use kiln_question::{child, is_revision, Error, Global};
use kiln_record::Setting;
use serde::Deserialize;
use toml::Spanned;

const NAME: &str = "kiln.toml";
/// The value of `--tree` if the flag is given without a value, unless a configuration file sets a
/// tree.
const NO_TREE: &str = "<the tree of kiln.toml>";
/// Arguments that name a kernel tree: the flag `--tree`, and the argument of `kiln tree`.
const TREES: [&str; 2] = ["tree", "dir"];

/// The keys of the configuration file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Default for `--cpu`, a list of cores.
    cpu: Option<Spanned<String>>,
    /// Default for `--out`, the directory for records.
    out: Option<Spanned<PathBuf>>,
    /// Default for `--peers`, the libraries to measure.
    libraries: Option<Spanned<Vec<String>>>,
    /// Kernel tree for `--tree` without a value, and for `kiln tree` without a directory.
    tree: Option<Spanned<PathBuf>>,
}

/// The settings in the configuration file, converted to flag values.
#[derive(Default)]
pub struct Defaults {
    settings: Vec<Setting>,
}

impl Defaults {
    /// Reads the configuration file. The flags or the environment can name the file. By default, it
    /// is `kiln.toml` in the current directory or, failing that, `$XDG_CONFIG_HOME/kiln/kiln.toml`.
    /// If neither of these default files exists, returns no settings.
    ///
    /// # Errors
    /// Fails if the file cannot be read, contains an unknown key or a value of the wrong type, or
    /// contains a value that the flag would reject.
    pub fn find(global: &Global) -> Result<Defaults, Error> {
        if global.no_defaults {
            return Ok(Defaults::default());
        }
        let named = match (&global.defaults, env::var_os(child::DEFAULTS)) {
            // An empty name means that a parent process has already applied the file. A child
            // inherits the parent's arguments, but might be unable to read the file.
            (_, Some(file)) if file.is_empty() => return Ok(Defaults::default()),
            (Some(file), _) => Some(file.clone()),
            (None, file) => file.map(PathBuf::from),
        };
        let places = match &named {
            Some(file) => vec![file.clone()],
            None => [Some(PathBuf::from(NAME)), config_home()]
                .into_iter()
                .flatten()
                .collect(),
        };
        for file in places {
            // Skip a default file in a directory that this user has no permission to enter, as can
            // happen after setpriv has changed the user. Such a file is not meant for this user.
            let is_barred = |kind| kind == ErrorKind::PermissionDenied && !file.exists();
            match fs::read_to_string(&file) {
                Ok(text) => return Defaults::parse(&file, &text),
                Err(e) if named.is_none() && (is_absent(e.kind()) || is_barred(e.kind())) => {}
                Err(e) => {
                    // Show the variable, because the user may have forgotten that it is set.
                    let (start, place) = match (&global.defaults, &named) {
                        (None, Some(_)) => ("KILN_DEFAULTS=", "in KILN_DEFAULTS"),
                        _ => ("", "with --defaults"),
                    };
                    return Err(Error::input(format!(
                        "{start}{}: cannot read these defaults: {e}: name a readable file {place}, or use --no-defaults",
                        file.display()
                    )));
                }
            }
        }
        Ok(Defaults::default())
    }

    fn parse(file: &Path, text: &str) -> Result<Defaults, Error> {
        let line = |span: &Range<usize>| {
            let before = &text.as_bytes()[..span.start.min(text.len())];
            1 + before.iter().filter(|byte| **byte == b'\n').count()
        };
        let table: Table = toml::from_str(text).map_err(|e| {
            let number = e.span().map_or(1, |span| line(&span));
            let line = text.lines().nth(number - 1).unwrap_or_default().trim();
            Error::input(format!(
                "{}:{number}: '{line}': {}: correct this line, or use --no-defaults",
                file.display(),
                in_plain_words(line, e.message())
            ))
        })?;
        let mut settings = Vec::new();
        let mut add = |key, value: String, span: Range<usize>| {
            settings.push(Setting {
                key,
                value,
                file: file.display().to_string(),
                line: line(&span),
            });
        };
        if let Some(cpu) = table.cpu {
            add("cpu", cpu.get_ref().clone(), cpu.span());
        }
        if let Some(out) = table.out {
            add("out", show(&resolve(file, out.get_ref())), out.span());
        }
        if let Some(libraries) = table.libraries {
            add("libraries", libraries.get_ref().join(","), libraries.span());
        }
        if let Some(tree) = table.tree {
            add(
                "tree",
                show(&resolve_tree(file, tree.get_ref())),
                tree.span(),
            );
        }
        let defaults = Defaults { settings };
        defaults.check()?;
        Ok(defaults)
    }

    /// Checks that the flags would accept the values.
    fn check(&self) -> Result<(), Error> {
        for setting in &self.settings {
            let fault = match setting.key {
                "cpu" => setting
                    .value
                    .parse::<CoreList>()
                    .err()
                    .map(|e| e.to_string()),
                "libraries" => kiln_questions::check_libraries(&words(&setting.value))
                    .err()
                    .map(|e| e.to_string()),
                _ if setting.value.is_empty() => Some("name a directory".to_string()),
                _ => None,
            };
            if let Some(fault) = fault {
                let (place, key) = (setting.place(), setting.key);
                return Err(Error::input(format!("{place}: {key}: {fault}")));
            }
        }
        Ok(())
    }

    fn get(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key == key)
    }

    /// Applies the settings to a command and its subcommands. They become the defaults for
    /// `--peers`, for `--tree` without a value, and for `kiln tree` without a directory.
    pub fn apply(&self, command: Command) -> Command {
        let is_tree_command = command.get_name() == "tree";
        let tree = self.get("tree").map_or(NO_TREE, |s| keep(&s.value));
        let adapt = |arg: Arg| match arg.get_id().as_str() {
            "tree" => arg.num_args(0..=1).default_missing_value(tree),
            "dir" if is_tree_command => arg
                .required(false)
                .default_value(tree)
                .hide_default_value(true),
            "peers" => match self.get("libraries") {
                Some(setting) => arg.default_values(words(&setting.value).iter().map(|w| keep(w))),
                None => arg,
            },
            _ => arg,
        };
        command
            .mut_args(adapt)
            .mut_subcommands(|sub| self.apply(sub))
    }

    /// Sets the global flags that were not given on the command line, and returns the settings that
    /// the run uses. `matches` contains the parsed arguments.
    ///
    /// # Errors
    /// Fails if the run needs a kernel tree but neither the command line nor the file names one, or
    /// if the file names a tree that does not exist.
    pub fn complete(
        &self,
        global: &mut Global,
        matches: &ArgMatches,
        writes_records: bool,
    ) -> Result<Vec<Setting>, Error> {
        let mut used = Vec::new();
        if let (None, Some(setting)) = (&global.cpu, self.get("cpu")) {
            global.cpu = Some(setting.value.clone());
            used.push(setting.clone());
        }
        if let (None, true, Some(setting)) = (&global.out, writes_records, self.get("out")) {
            global.out = Some(PathBuf::from(&setting.value));
            used.push(setting.clone());
        }
        let leaf = leaf(matches);
        let by_default = |id: &str| {
            let known = leaf.ids().any(|i| i.as_str() == id);
            known && leaf.value_source(id) == Some(clap::parser::ValueSource::DefaultValue)
        };
        used.extend(
            self.get("libraries")
                .filter(|_| by_default("peers"))
                .cloned(),
        );
        let is_unnamed = |id: &&str| {
            let values = leaf.try_get_raw(id).ok().flatten();
            values.is_some_and(|mut values| values.any(|value| value == NO_TREE))
        };
        if TREES.iter().any(is_unnamed) {
            let Some(setting) = self.get("tree") else {
                return Err(Error::input(format!(
                    "no kernel tree is named: use --tree DIR, or put tree = \"DIR\" into {NAME}"
                )));
            };
            let tree = Path::new(&setting.value);
            if !tree.is_dir() && !is_revision(tree) {
                return Err(Error::input(format!(
                    "{}: tree: '{}' is neither a directory nor a git revision: name a kernel tree",
                    setting.place(),
                    setting.value
                )));
            }
            used.push(setting.clone());
        }
        Ok(used)
    }
}

/// Rewords the TOML parser's messages about values, so that they state what to write. Returns other
/// messages unchanged.
fn in_plain_words(line: &str, message: &str) -> String {
    let is_type_fault = message.starts_with("invalid type");
    // Leave out a comment at the end of the line.
    let setting = line.split('#').next().unwrap_or_default();
    if is_type_fault && message.ends_with("string") {
        "expected a string in double quotes".to_string()
    } else if is_type_fault && message.ends_with("a sequence") {
        "expected a list of strings, such as [\"openssl\", \"nettle\"]".to_string()
    } else if message.contains("must be quoted") && setting.contains(['“', '”']) {
        "“ and ” are not quotes in TOML (use \")".to_string()
    } else {
        message.to_string()
    }
}

/// Returns the innermost subcommand's arguments.
fn leaf(matches: &ArgMatches) -> &ArgMatches {
    match matches.subcommand() {
        Some((_, inner)) => leaf(inner),
        None => matches,
    }
}

fn is_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns the path of the user's own configuration file: `$XDG_CONFIG_HOME/kiln/kiln.toml`, or
/// `~/.config/kiln/kiln.toml` by default.
fn config_home() -> Option<PathBuf> {
    let named = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    // Ignore a relative path, as the XDG specification requires.
    let base = named
        .filter(|dir| dir.is_absolute())
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".config")))?;
    Some(base.join("kiln").join(NAME))
}

/// Resolves a path from the configuration file. A path that starts with `~/` is relative to the
/// home directory; any other relative path is relative to the file's directory.
fn resolve(file: &Path, path: &Path) -> PathBuf {
    let home = path.strip_prefix("~").ok();
    match (home, env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ if path.as_os_str().is_empty() => PathBuf::new(),
        _ => file.parent().unwrap_or(Path::new("")).join(path),
    }
}

/// Resolves a kernel tree from the configuration file. The tree is given as a path or as a git
/// revision, such as `DIR@HEAD~1`, or `HEAD~1` for the repository in the current directory.
fn resolve_tree(file: &Path, tree: &Path) -> PathBuf {
    let path = resolve(file, tree);
    let text = show(tree);
    match text.rsplit_once('@') {
        _ if path.exists() => path,
        Some((dir, revision)) if !dir.is_empty() => {
            let dir = show(&resolve(file, Path::new(dir)));
            PathBuf::from(format!("{dir}@{revision}"))
        }
        _ if is_revision(tree) => tree.to_path_buf(),
        _ => path,
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

fn words(list: &str) -> Vec<String> {
    list.split(',').map(str::to_string).collect()
}

/// Leaks a string, because clap keeps default values for the lifetime of the process.
fn keep(text: &str) -> &'static str {
    text.to_string().leak()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Defaults, String> {
        Defaults::parse(Path::new("dir/kiln.toml"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn every_key_has_a_value_and_a_line() {
        let text = "# machine\ncpu = \"0,2-3\"\nout = \"records\"\n\nlibraries = [\"openssl\", \"nettle\"]\ntree = \"/linux\"\n";
        let found: Vec<String> = parse(text)
            .unwrap()
            .settings
            .iter()
            .map(Setting::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "cpu = 0,2-3 (dir/kiln.toml:2)",
                "out = dir/records (dir/kiln.toml:3)",
                "libraries = openssl,nettle (dir/kiln.toml:5)",
                "tree = /linux (dir/kiln.toml:6)"
            ]
        );
        assert!(parse("").unwrap().settings.is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, words) in [
            ("\ncpus = \"1\"", 2, "unknown field `cpus`"),
            ("cpu = 1", 1, "expected a string in double quotes"),
            ("tree = 6.12", 1, "expected a string in double quotes"),
            ("cpu = “0”", 1, "“ and ” are not quotes"),
            ("\n\ncpu = \"x\"", 3, "cpu: core list"),
            (
                "libraries = \"openssl\"",
                1,
                "expected a list of strings, such as [\"openssl\"",
            ),
            ("cpu = \"0\"\nlibraries = [\"opensll\"]", 2, "did you mean"),
            (
                "libraries = [\"none\", \"nettle\"]",
                1,
                "cannot be combined",
            ),
            ("out = [", 1, ""),
            ("out = \"\"", 1, "name a directory"),
            ("tree = 7", 1, "expected"),
            ("cpu = \"0\"\ncpu = \"1\"", 2, "duplicate key"),
        ] {
            let e = parse(text).err().unwrap_or_default();
            let place = format!("dir/kiln.toml:{line}: ");
            assert!(e.starts_with(&place) && e.contains(words), "{text:?}: {e}");
        }
    }

    #[test]
    fn curly_quotes_in_a_comment_are_not_the_fault() {
        let message = "string values must be quoted";
        assert_eq!(in_plain_words("cpu = x # “x”", message), message);
    }

    #[test]
    fn trees_are_directories_or_revisions() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("HEAD")).unwrap();
        let file = dir.path().join(NAME);
        let found = |tree: &str| resolve_tree(&file, Path::new(tree));
        assert_eq!(found("HEAD"), dir.path().join("HEAD"));
        assert_eq!(found("HEAD~1"), Path::new("HEAD~1"));
        assert_eq!(
            show(&found("linux@v6.12")),
            format!("{}/linux@v6.12", dir.path().display())
        );
        assert_eq!(found("/a/b"), Path::new("/a/b"));
    }
}
