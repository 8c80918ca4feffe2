//! A C compiler on this machine, and the flags that it accepts.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use kiln_kbuild::{recipe, which};
use kiln_question::Error;
use kiln_tree::hash;

/// Maximum size in bytes of a compiler driver that may be a script. The contents of such a driver
/// are part of the compiler's identity.
const SCRIPT: u64 = 1 << 16;

#[derive(Debug)]
pub struct Toolchain {
    /// Name shown to the user: `gcc-12`, `zig cc`, or a path.
    pub(super) name: String,
    /// First line that `--version` prints.
    pub(super) version: String,
    /// Directory that contains the compiler's own headers, such as `stddef.h`; `None` if it cannot
    /// be found.
    pub(super) headers: Option<PathBuf>,
    program: PathBuf,
    words: Vec<String>,
    identity: u64,
    known: Mutex<HashMap<String, bool>>,
}

impl Toolchain {
    /// Returns the compiler's first error line for `flags`, or `None` if it accepts them or cannot be
    /// started.
    pub(super) fn refusal(&self, flags: &str) -> Option<String> {
        let tried = plain(&self.program)
            .args(&self.words)
            .args(flags.split_whitespace())
            .args(["-x", "c", "-S", "-o", "/dev/null", "/dev/null"])
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&tried.stderr).into_owned();
        let why = said.lines().find(|line| line.contains("error"));
        (!tried.status.success()).then(|| why.unwrap_or("it fails").trim().to_string())
    }

    /// Finds a compiler by name or path. In a name such as `zig cc`, the first word is the program,
    /// and the remaining words are its first arguments.
    ///
    /// # Errors
    /// The compiler is missing (status 3), or does not behave like a compiler (status 2).
    pub(super) fn find(name: &str) -> Result<Toolchain, Error> {
        let mut words: Vec<String> = match Path::new(name).is_file() {
            true => vec![name.to_string()],
            false => name.split_whitespace().map(str::to_string).collect(),
        };
        if words.is_empty() {
            return Err(Error::input(
                "--cc: an empty name: name a compiler, such as gcc-12",
            ));
        }
        let program = which(&words.remove(0))
            .ok_or_else(|| Error::lacks(not_found(name, &Toolchain::names())))?;
        // zig may also be run from its Python package, as `python -m ziglang cc`.
        if program.file_stem().is_some_and(|p| p == "zig") || words.iter().any(|w| w == "ziglang") {
            // Select the baseline CPU, because zig otherwise generates code for the host CPU, and
            // uses vectors even if other flags disable them.
            words.push("-mcpu=baseline".to_string());
        }
        let mut ask = plain(&program);
        let output = ask.args(&words).arg("--version").output().map_err(|e| {
            Error::input(format!(
                "cannot run '{name}': {e}: make it executable, or name another compiler with --cc"
            ))
        })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().find(|l| !l.trim().is_empty());
        let version = version.filter(|_| output.status.success());
        let not = |why: &str| {
            Error::input(format!(
                "'{name}' is not a C compiler: {why}: name one that takes gcc's or clang's arguments"
            ))
        };
        let version = version.ok_or_else(|| not("it does not answer --version"))?;
        let mut toolchain = Toolchain {
            name: name.to_string(),
            headers: None,
            identity: 0,
            program,
            words,
            version: version.to_string(),
            known: Mutex::default(),
        };
        if !toolchain.writes_assembly() {
            return Err(not("it does not compile an empty file"));
        }
        toolchain.headers = toolchain.find_headers();
        toolchain.identity = toolchain.identify();
        Ok(toolchain)
    }

    /// Returns the names of the compilers on PATH: gcc and clang with a version number, `zig cc`,
    /// and names without a version number unless they are links to a program already listed. Does
    /// not run any compiler.
    pub fn names() -> Vec<String> {
        let names = compilers_on_path();
        let mut found: Vec<String> = Vec::new();
        let mut programs = Vec::new();
        // Versioned names come first, because `gcc` is usually a link to one of them.
        let (plain, versioned): (Vec<_>, Vec<_>) = names.into_iter().partition(|(k, _)| k.1 == 0);
        for (key, name) in versioned.into_iter().chain(plain) {
            match which(&name).and_then(|p| fs::canonicalize(p).ok()) {
                Some(program) if !programs.contains(&program) => programs.push(program),
                _ => continue,
            }
            found.push(match key.0.as_str() {
                "zig" => "zig cc".to_string(),
                _ => name,
            });
        }
        found
    }

    /// Returns all working compilers on PATH. Broken compilers are left out; [`Toolchain::find`]
    /// reports what is wrong with them.
    pub(super) fn all() -> Result<Vec<Toolchain>, Error> {
        let names = Toolchain::names().into_iter();
        let found: Vec<Toolchain> = names.filter_map(|n| Toolchain::find(&n).ok()).collect();
        match found.is_empty() {
            true => Err(Error::lacks(format!(
                "no C compiler found on PATH: {}",
                provide_any()
            ))),
            false => Ok(found),
        }
    }

    /// Returns a command that runs the compiler, without arguments and without flags from the
    /// environment.
    pub(super) fn command(&self) -> Command {
        let mut command = plain(&self.program);
        command.args(&self.words);
        command
    }

    /// Returns the compiler's program, followed by the arguments that every call begins with.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec![self.program.display().to_string()];
        words.extend(self.words.iter().cloned());
        words
    }

    /// Returns a hash that identifies this build of the compiler. Cache keys include it.
    pub(super) fn identity(&self) -> u64 {
        self.identity
    }

    /// Returns whether the compiler accepts the flag without a warning.
    pub(super) fn knows(&self, flag: &str) -> bool {
        if let Some(known) = self.known.lock().expect("no thread panics").get(flag) {
            return *known;
        }
        let known = self.compiles(&strictly(&[flag.to_string()]));
        self.remember(flag, known);
        known
    }

    /// Filters `flags`, keeping the ones that the compiler accepts without a warning.
    pub(super) fn known<S: AsRef<str>>(&self, flags: &[S]) -> Vec<String> {
        let words: Vec<String> = flags.iter().map(|f| f.as_ref().to_string()).collect();
        let unknown = {
            let known = self.known.lock().expect("no thread panics");
            words.iter().any(|f| !known.contains_key(f))
        };
        // Usually the compiler accepts all flags, so try them together first.
        if unknown && self.compiles(&strictly(&words)) {
            words.iter().for_each(|f| self.remember(f, true));
        }
        words.into_iter().filter(|f| self.knows(f)).collect()
    }

    fn remember(&self, flag: &str, known: bool) {
        let mut map = self.known.lock().expect("no thread panics");
        map.insert(flag.to_string(), known);
    }

    /// Returns whether the program turns an empty file into assembly. Programs such as `true`
    /// accept any arguments but write nothing.
    fn writes_assembly(&self) -> bool {
        self.assemble(&[])
            .is_some_and(|assembly| assembly.contains("\t."))
    }

    fn compiles(&self, flags: &[String]) -> bool {
        self.assemble(flags).is_some()
    }

    /// Compiles an empty file and returns the assembly. Uses a new directory and a named output
    /// file for two reasons: some flags make compilers write additional files to the current
    /// directory, and zig treats the `-` in `-o -` as a file name.
    fn assemble(&self, flags: &[String]) -> Option<String> {
        let dir = kiln_tree::make_scratch(&env::temp_dir(), "kiln-cc-").ok()?;
        let mut command = self.command();
        command.current_dir(dir.path()).args(flags);
        command.args(["-x", "c", "-S", "-o", "out.s", "/dev/null"]);
        let done = command.output().is_ok_and(|o| o.status.success());
        done.then(|| fs::read_to_string(dir.path().join("out.s")).unwrap_or_default())
    }

    /// Returns the directory in which the compiler's preprocessor finds `stddef.h`.
    /// -print-file-name is not reliable: zig prints the directory that contains gcc's headers.
    fn find_headers(&self) -> Option<PathBuf> {
        let mut command = self.command();
        command.args(["-E", "-x", "c", "-include", "stddef.h", "/dev/null"]);
        // The preprocessor searches the current directory first, so use a directory that other
        // users cannot write to.
        let output = command.current_dir("/").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let quoted = text
            .lines()
            .filter(|line| line.starts_with('#'))
            .filter_map(|line| line.split('"').nth(1));
        let mut headers = quoted.map(Path::new).filter(|p| p.ends_with("stddef.h"));
        let dir = headers.find(|p| p.is_absolute() && p.is_file())?.parent()?;
        Some(dir.to_owned())
    }

    /// Computes a hash that identifies this build of the compiler. The hash covers the driver and,
    /// for gcc, cc1, which changes whenever gcc is rebuilt.
    fn identify(&self) -> u64 {
        let mut parts: Vec<Vec<u8>> =
            vec![self.words().join(" ").into(), self.version.clone().into()];
        let proper = self.command().arg("-print-prog-name=cc1").output();
        let proper = proper.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
        let files = [
            Some(self.program.clone()),
            proper.ok().filter(|p| p.contains('/')).map(PathBuf::from),
        ];
        for file in files.into_iter().flatten() {
            let Ok(meta) = fs::metadata(&file) else {
                continue;
            };
            parts.push(file.display().to_string().into());
            parts.push(
                format!("{} {}.{}", meta.len(), meta.mtime(), meta.mtime_nsec()).into_bytes(),
            );
            if meta.len() <= SCRIPT {
                parts.push(fs::read(&file).unwrap_or_default());
            }
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        hash(&parts)
    }
}

/// Adds flags that turn warnings into errors. Unused arguments are exempt, because clang warns
/// about link flags when it only compiles.
fn strictly(flags: &[String]) -> Vec<String> {
    let mut all = vec![
        "-Werror".to_string(),
        "-Wno-unused-command-line-argument".to_string(),
    ];
    all.extend(flags.iter().cloned());
    all
}

/// Formats the error message for an unknown compiler name and suggests how to fix it.
fn not_found(name: &str, found: &[String]) -> String {
    let missing = format!("no compiler '{name}' here");
    if found.is_empty() {
        return format!("{missing}: {}", provide_any());
    }
    // Packages have the same names as their compilers, but a distribution offers only a few
    // versions.
    let package = match family(name) {
        Some((family, version)) if version > 0 => {
            format!("apt-get install {family}-{version} if your distribution has it, or ")
        }
        _ => String::new(),
    };
    let found = found.join(", ");
    format!("{missing}: {package}name another with --cc (found: {found})")
}

fn provide_any() -> &'static str {
    "apt-get install gcc, or name one with --cc"
}

fn plain(program: &Path) -> Command {
    let mut command = Command::new(program);
    for variable in recipe::IGNORED_ENV {
        command.env_remove(variable);
    }
    command.env("LC_ALL", "C");
    command
}

/// Returns the C compilers on PATH, by family and version.
pub(crate) fn compilers_on_path() -> BTreeMap<(String, u32), String> {
    let mut names = BTreeMap::new();
    let path = env::var_os("PATH").unwrap_or_default();
    for dir in env::split_paths(&path) {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(key) = family(&name) {
                names.entry(key).or_insert(name);
            }
        }
    }
    names
}

/// Splits a compiler's name into family and version. The version is 0 if the name has none.
fn family(name: &str) -> Option<(String, u32)> {
    let (family, version) = match name.split_once('-') {
        Some((family, version)) => (family, version.parse().ok().filter(|v| *v > 0)?),
        None => (name, 0),
    };
    let known = match family {
        "gcc" | "clang" => true,
        "cc" | "zig" => version == 0,
        _ => false,
    };
    known.then(|| (family.to_string(), version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_compilers_have() {
        assert_eq!(family("gcc-12"), Some(("gcc".into(), 12)));
        assert_eq!(family("clang"), Some(("clang".into(), 0)));
        assert_eq!(family("zig"), Some(("zig".into(), 0)));
        for other in [
            "gcc-ar",
            "gcc-ar-12",
            "c99",
            "clang++",
            "clang-cpp-14",
            "clang-format-14",
            "gcc-ranlib",
            "g++",
            "cc-1",
            "clang-tidy",
        ] {
            assert_eq!(family(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_compiler_is_refused_in_one_line() {
        for (name, status, want) in [
            ("kiln-no-such-cc", 3, "name another with --cc"),
            ("/bin/true", 2, "not a C compiler"),
            ("/bin/echo", 2, "not a C compiler"),
            ("/bin/ls", 2, "empty file"),
            (" ", 2, "empty name"),
            (
                "/etc/passwd",
                2,
                "cannot run '/etc/passwd': Permission denied",
            ),
        ] {
            let e = Toolchain::find(name).unwrap_err();
            assert_eq!(e.exit_code(), status, "{e}");
            assert!(e.to_string().contains(want), "{e}");
        }
    }

    #[test]
    fn a_compiler_that_is_not_here_is_missed_by_its_own_name() {
        let found = ["gcc-12".to_string(), "clang-14".to_string()];
        assert_eq!(
            not_found("gcc-99", &found),
            "no compiler 'gcc-99' here: apt-get install gcc-99 if your distribution has it, or name another with --cc \
             (found: gcc-12, clang-14)"
        );
        assert_eq!(
            not_found("mycc", &found),
            "no compiler 'mycc' here: name another with --cc (found: gcc-12, clang-14)"
        );
        assert!(not_found("gcc-99", &[]).ends_with("apt-get install gcc, or name one with --cc"));
    }

    /// The fake compiler behaves like `zig cc`: it treats the `-` in `-o -` as a file name, and
    /// reports the headers of another compiler.
    #[test]
    fn a_compiler_without_a_standard_output_is_found_and_leaves_no_file() {
        let Ok(gcc) = Toolchain::find("gcc") else {
            eprintln!("SKIPPED: no gcc here");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("cc");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n*'-o - '*) echo >./-; exit 0 ;;\n\
             *-print-file-name*) echo /usr/include; exit 0 ;;\nesac\nexec {} \"$@\"\n",
            gcc.program.display()
        );
        fs::write(&program, script).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, executable).unwrap();
        // Control: the fake compiler really behaves like `zig cc`.
        let mut asked = Command::new(&program);
        asked.args(["-x", "c", "-S", "-o", "-", "/dev/null"]);
        asked.current_dir(dir.path());
        // Another test's thread may have forked while the script was open for writing. The child
        // keeps the script open until it calls exec, and until then the script cannot be run, so
        // try again.
        let output = (0..6000)
            .find_map(|_| match asked.output() {
                Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    None
                }
                output => Some(output.unwrap()),
            })
            .unwrap();
        assert!(output.stdout.is_empty() && dir.path().join("-").is_file());

        let cc = Toolchain::find(program.to_str().unwrap()).unwrap();
        assert!(!Path::new("-").exists());
        let headers = |cc: &Toolchain| cc.headers.as_ref().and_then(|d| d.canonicalize().ok());
        assert!(headers(&cc).is_some());
        assert_eq!(headers(&cc), headers(&gcc));
        assert!(cc.knows("-fno-tree-pre") && !cc.knows("-fno-such-flag"));

        // Call the program through a symlink, because some programs depend on the name under which
        // they are called.
        let link = dir.path().join("other");
        std::os::unix::fs::symlink(&program, &link).unwrap();
        let linked = Toolchain::find(link.to_str().unwrap()).unwrap();
        assert_eq!(linked.words(), [link.to_str().unwrap()]);
    }

    #[test]
    fn a_flag_it_does_not_know_is_told_from_one_it_does() {
        let Ok(cc) = Toolchain::find("gcc") else {
            eprintln!("SKIPPED: no gcc here");
            return;
        };
        assert!(cc.knows("-fno-tree-pre") && !cc.knows("-fno-such-flag"));
        let known = cc.known(&["-fno-tree-sra", "-fno-such-flag", "-O2"]);
        assert_eq!(known, ["-fno-tree-sra", "-O2"]);
    }
}
