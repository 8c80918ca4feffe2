//! Rebuilds objects after an edit without running Kbuild. Kbuild starts some 500 processes before
//! it compiles anything, which takes most of the time between saving a file and testing it. If only
//! the sources of a few objects have changed since the last build, this module reruns the commands
//! that Kbuild recorded. In all other cases, Kbuild runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::place::hash;
use crate::record::{parse_record, read_records, Record};
use crate::tools::clear_environment;
use crate::{Error, Plan};

/// Maximum number of objects to rebuild without Kbuild. For larger builds, Kbuild's overhead is
/// negligible.
const MOST: usize = 24;

/// Name prefixes of files that determine what is built and how.
const RULES: [&str; 3] = ["Makefile", "Kbuild", "Kconfig"];

/// Suffix of the programs that generate assembly files. Kbuild records which assembly file an
/// object was built from, but not which program generated that file, so an edit of such a program
/// requires Kbuild.
const GENERATOR: &str = ".pl";

/// A directory where any file may affect a build.
const SCRIPTS: &str = "scripts";

/// The configuration files: the one that Kconfig writes, and the one that make reads.
const CONFIGURATION: [&str; 2] = [".config", "include/config/auto.conf"];

/// Configuration options that make Kbuild perform more steps after the recorded command.
const MORE_STEPS: [&str; 2] = [
    "CONFIG_MODVERSIONS=y",
    "CONFIG_FTRACE_MCOUNT_USE_RECORDMCOUNT=y",
];

/// Directories whose objects only Kbuild may rebuild, because the objects are parts of programs
/// that the build uses, or are compiled by two Makefiles with different flags.
const OTHERS: [&str; 4] = ["scripts", "tools", "arch/x86/tools", "arch/x86/lib"];

/// The modification time and size of a file. If either differs, the file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    /// Modification time in seconds and nanoseconds.
    time: (i64, i64),
    bytes: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let meta = fs::metadata(path).ok()?;
        Some(Stamp {
            time: (meta.mtime(), meta.mtime_nsec()),
            bytes: meta.len(),
        })
    }

    fn is_before(&self, time: SystemTime) -> bool {
        let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.time < (time.as_secs() as i64, i64::from(time.subsec_nanos()))
    }
}

/// Maps each file's path to its stamp. Paths are relative to the source or the build directory.
type Stamps = BTreeMap<PathBuf, Stamp>;

/// Reads the stamps of files in `dir`. Returns `None` if any of the files is missing.
fn look<'a>(dir: &Path, paths: impl IntoIterator<Item = &'a PathBuf>) -> Option<Stamps> {
    let one = |path: &PathBuf| Some((path.clone(), Stamp::of(&dir.join(path))?));
    paths.into_iter().map(one).collect()
}

/// The inputs and outputs of a build. They are stored in a file in the build's cache directory.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    /// Hash of the source directory, the compiler version and the targets that make builds.
    order: u64,
    /// Stamps of the source files.
    sources: Stamps,
    /// Stamps of the objects and the configuration files.
    made: Stamps,
}

/// A new build in a cache directory, with access to the stored state of the previous build.
pub(crate) struct Last<'a> {
    stop: &'a AtomicBool,
    cache: &'a Cache,
    order: u64,
    /// Path of the file that stores the build's inputs and outputs.
    path: PathBuf,
    /// Time when this build started. If a file was modified after this time, the compiler may have
    /// read its old contents.
    start: SystemTime,
}

impl<'a> Last<'a> {
    /// Prepares a build of `targets`, with the current time as its start time.
    pub(crate) fn of(plan: &'a Plan<'_>, cache: &'a Cache, targets: &[&str]) -> Last<'a> {
        let source = cache.source.to_string_lossy();
        let mut parts: Vec<&[u8]> = vec![source.as_bytes(), plan.compiler.version.as_bytes()];
        parts.extend(targets.iter().map(|t| t.as_bytes()));
        Last {
            stop: plan.stop,
            cache,
            order: hash(&parts),
            path: cache.dir.join("made"),
            start: SystemTime::now(),
        }
    }

    /// Removes the stored state, so that Kbuild performs the next build.
    pub(crate) fn forget(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Recompiles the objects whose sources were edited since the last build. Returns false if
    /// Kbuild must perform the build instead.
    ///
    /// # Errors
    /// Fails if Ctrl-C was pressed.
    pub(crate) fn update(&self, step: &mut dyn FnMut(&str)) -> Result<bool, Error> {
        let text = fs::read(&self.path).ok();
        // Remove the stored state first, because the directory does not match it while objects are
        // being compiled.
        self.forget();
        let state = text.and_then(|text| serde_json::from_slice::<State>(&text).ok());
        let (source, objects) = (&self.cache.source, &self.cache.objects);
        let Some(mut state) = state.filter(|state| {
            state.order == self.order
                && look(objects, state.made.keys()).as_ref() == Some(&state.made)
        }) else {
            return Ok(false);
        };
        let Some(now) = look(source, state.sources.keys()) else {
            return Ok(false);
        };
        let changed: BTreeSet<&Path> = (now.iter())
            .filter(|(path, stamp)| state.sources.get(*path) != Some(stamp))
            .map(|(path, _)| path.as_path())
            .collect();
        if changed.is_empty() {
            self.write(&state);
            return Ok(true);
        }
        let records = read_records(objects, source);
        let again = objects_of(&changed, &records).unwrap_or_default();
        let known = |object: &PathBuf| state.made.contains_key(object);
        if again.is_empty() || again.len() > MOST || !again.iter().all(known) {
            remove_newer(&changed, &records, self.cache);
            return Ok(false);
        }
        for object in &again {
            step(&object.to_string_lossy());
        }
        if !self.compile(&again)? {
            return Ok(false);
        }
        state.sources = now;
        let mut included = BTreeSet::new();
        for object in &again {
            let text = fs::read_to_string(objects.join(record_of(object))).unwrap_or_default();
            let record = parse_record(&object.to_string_lossy(), &text, source);
            included.extend(
                record
                    .sources
                    .into_iter()
                    .filter(|p| !state.sources.contains_key(p)),
            );
        }
        if let (Some(included), Some(made)) = (self.older(&included), look(objects, &again)) {
            state.sources.extend(included);
            state.made.extend(made);
            self.write(&state);
        }
        Ok(true)
    }

    /// Stores the state after Kbuild has built the tree, unless a source was changed during the
    /// build.
    pub(crate) fn keep<'o>(&self, made: impl Iterator<Item = &'o str>) {
        let (source, objects) = (&self.cache.source, &self.cache.objects);
        let config = fs::read_to_string(objects.join(CONFIGURATION[0])).unwrap_or_default();
        if config.lines().any(|line| MORE_STEPS.contains(&line)) {
            return;
        }
        let mut paths: BTreeSet<PathBuf> = find_rules(source);
        paths.extend(
            read_records(objects, source)
                .into_iter()
                .flat_map(|r| r.sources),
        );
        // Records also list directories and optional files that do not exist. Remove these, so that
        // only existing files remain.
        paths.retain(|path| source.join(path).is_file());
        let made: Vec<PathBuf> = made.chain(CONFIGURATION).map(PathBuf::from).collect();
        if let (Some(sources), Some(made)) = (self.older(&paths), look(objects, &made)) {
            self.write(&State {
                order: self.order,
                sources,
                made,
            });
        }
    }

    /// Reads the stamps of source files. Returns `None` if any of the files is missing or was
    /// changed after the build started.
    fn older(&self, paths: &BTreeSet<PathBuf>) -> Option<Stamps> {
        let stamps = look(&self.cache.source, paths)?;
        stamps
            .values()
            .all(|s| s.is_before(self.start))
            .then_some(stamps)
    }

    /// Writes the state. Errors are ignored, because without a stored state Kbuild performs the
    /// next build.
    fn write(&self, state: &State) {
        if let Ok(text) = serde_json::to_vec(state) {
            if fs::write(&self.path, text).is_err() {
                self.forget();
            }
        }
    }

    /// Runs the recorded commands on all CPUs. If a command fails, removes the command's object, so
    /// that Kbuild tries to build it again and reports the error.
    fn compile(&self, objects: &[PathBuf]) -> Result<bool, Error> {
        let dir = &self.cache.objects;
        let jobs = thread::available_parallelism().map_or(2, |n| n.get());
        let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                if !self.stop.load(Ordering::Relaxed) && compile(dir, object).is_none() {
                    let _ = fs::remove_file(dir.join(object));
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..jobs.min(objects.len()) {
                scope.spawn(work);
            }
        });
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => Ok(failed.into_inner() == 0),
        }
    }
}

/// Removes products that are newer than a changed source. If the new version of a source has an
/// older modification time than these products, make would consider the products up to date.
fn remove_newer(changed: &BTreeSet<&Path>, records: &[Record], cache: &Cache) {
    let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    for record in records {
        let made = cache.objects.join(&record.owner);
        let newer = |path: &&Path| modified(&cache.source.join(path)) < modified(&made);
        let from = |path: &&&Path| record.sources.contains(**path);
        if changed.iter().filter(from).any(newer) {
            let _ = fs::remove_file(made);
        }
    }
}

/// Returns the path of Kbuild's record for an object.
fn record_of(object: &Path) -> PathBuf {
    let name = object.file_name().unwrap_or_default().to_string_lossy();
    object.with_file_name(format!(".{name}.cmd"))
}

/// Compiles an object with the command that Kbuild recorded, and updates the record as Kbuild
/// would.
fn compile(dir: &Path, object: &Path) -> Option<()> {
    let record = dir.join(record_of(object));
    let text = fs::read_to_string(&record).ok()?;
    let recorded = Recorded::parse(&text)?;
    let run = |command: &mut Command| {
        clear_environment(command);
        command
            .current_dir(dir)
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        let done = command.output().ok()?;
        done.status.success().then_some(done.stdout)
    };
    run(Command::new("sh").args(["-c", &format!("set -e; {}", recorded.command())]))?;
    let depends = recorded.depends()?;
    let mut new = run(Command::new("scripts/basic/fixdep").args([
        depends.as_os_str(),
        object.as_os_str(),
        OsStr::new(recorded.text),
    ]))?;
    let _ = fs::remove_file(dir.join(depends));
    for line in recorded.more {
        new.extend_from_slice(line.as_bytes());
        new.push(b'\n');
    }
    fs::write(&record, new).ok()
}

/// An object's parsed record.
struct Recorded<'a> {
    /// The command that compiles the object, in Makefile syntax.
    text: &'a str,
    /// Lines that Kbuild appended to the record after the dependency list.
    more: Vec<&'a str>,
}

impl Recorded<'_> {
    fn parse(text: &str) -> Option<Recorded<'_>> {
        let (first, rest) = text.split_once('\n')?;
        let (_, text) = first.split_once(" := ")?;
        let end = rest.rfind("$(deps_")?;
        let more = rest[end..].lines().skip(1).filter(|line| !line.is_empty());
        Some(Recorded {
            text,
            more: more.collect(),
        })
    }

    /// Returns the command in shell syntax.
    fn command(&self) -> String {
        self.text.replace("$(pound)", "#").replace("$$", "$")
    }

    /// Returns the path of the dependency file that the compiler writes.
    fn depends(&self) -> Option<PathBuf> {
        let option = |word: &str| {
            let path = word
                .strip_prefix("-Wp,-MMD,")
                .or(word.strip_prefix("-Wp,-MD,"))?;
            Some(PathBuf::from(path))
        };
        self.text.split_whitespace().find_map(option)
    }
}

/// Returns the objects that were built from the changed files. Returns `None` if a changed file is
/// used for anything else.
fn objects_of(changed: &BTreeSet<&Path>, records: &[Record]) -> Option<Vec<PathBuf>> {
    let mut objects = BTreeSet::new();
    for path in changed {
        let code = path.extension().and_then(OsStr::to_str);
        if path.starts_with(SCRIPTS) || !["c", "S", "h"].contains(&code?) {
            return None;
        }
        let mut owners = records
            .iter()
            .filter(|r| r.sources.contains(*path))
            .peekable();
        owners.peek()?;
        for record in owners {
            let owner = PathBuf::from(&record.owner);
            let dir = owner.parent()?;
            let other = OTHERS.iter().any(|o| match *o {
                "arch/x86/lib" => dir == Path::new(o),
                _ => dir.starts_with(o),
            });
            if other || owner.extension() != Some(OsStr::new("o")) {
                return None;
            }
            objects.insert(owner);
        }
    }
    Some(objects.into_iter().collect())
}

/// Finds the files that affect what is built but do not occur in Kbuild's records.
pub(crate) fn find_rules(source: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        let all = dir.starts_with(SCRIPTS);
        for entry in fs::read_dir(source.join(&dir))
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let path = dir.join(&name);
            let name = name.to_string_lossy();
            // Follow symbolic links at the top level, because for a configured tree, the source
            // directory consists of links.
            let is_dir = match dir == Path::new("") {
                true => entry.path().is_dir(),
                false => entry.file_type().is_ok_and(|t| t.is_dir()),
            };
            if is_dir {
                open.extend((name != ".git").then_some(path));
            } else if all
                || name.ends_with(GENERATOR)
                || RULES.iter().any(|rule| name.starts_with(rule))
            {
                found.insert(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const TEXT: &str = "savedcmd_lib/a.o := gcc -Wp,-MMD,lib/.a.o.d -DX='\"$$x\"' -c -o lib/a.o /t/lib/a.c ; printf '$(pound)'\n\n\
                        source_lib/a.o := /t/lib/a.c\n\n\
                        deps_lib/a.o := \\\n  /t/include/a.h \\\n\n\
                        lib/a.o: $(deps_lib/a.o)\n\n\
                        $(deps_lib/a.o):\n\n\
                        lib/a.o: $(wildcard ./tools/objtool/objtool)\n";

    #[test]
    fn a_record_is_read_as_make_reads_it() {
        let recorded = Recorded::parse(TEXT).unwrap();
        let command = "gcc -Wp,-MMD,lib/.a.o.d -DX='\"$x\"' -c -o lib/a.o /t/lib/a.c ; printf '#'";
        assert_eq!(recorded.command(), command);
        assert_eq!(recorded.depends(), Some("lib/.a.o.d".into()));
        assert_eq!(
            recorded.more,
            ["lib/a.o: $(wildcard ./tools/objtool/objtool)"]
        );
        assert!(Recorded::parse("savedcmd_lib/built-in.a := ar\n").is_none());
        assert_eq!(record_of(Path::new("lib/a.o")), Path::new("lib/.a.o.cmd"));
    }

    #[test]
    fn objects_are_compiled_again_only_where_nothing_else_is_made_from_a_file() {
        let record = |owner: &str, source: &str| {
            let text = format!("savedcmd_x := gcc {source}\n");
            parse_record(owner, &text, Path::new("/t"))
        };
        let records = [
            record("lib/a.o", "/t/lib/a.c /t/include/a.h /t/include/b.h"),
            record("lib/b.o", "/t/lib/b.c /t/include/b.h /t/include/c.h"),
            record("kernel/bounds.s", "/t/include/c.h"),
            record("arch/x86/lib/m.o", "/t/arch/x86/lib/m.S"),
            record("arch/x86/lib/crypto/n.o", "/t/arch/x86/lib/crypto/n.S"),
            record("lib/p.S", "/t/lib/p.pl"),
        ];
        let of = |paths: &[&str]| {
            let changed = paths.iter().map(Path::new).collect();
            let objects = objects_of(&changed, &records)?;
            Some(
                objects
                    .iter()
                    .map(|o| o.display().to_string())
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        assert_eq!(of(&["lib/a.c"]).unwrap(), "lib/a.o");
        assert_eq!(of(&["include/b.h", "lib/a.c"]).unwrap(), "lib/a.o lib/b.o");
        assert_eq!(
            of(&["arch/x86/lib/crypto/n.S"]).unwrap(),
            "arch/x86/lib/crypto/n.o"
        );
        // In this order: a header from which offsets are generated, a source that two Makefiles
        // compile, a script, a Makefile, and a file that occurs in no record.
        for path in [
            "include/c.h",
            "arch/x86/lib/m.S",
            "lib/p.pl",
            "lib/Makefile",
            "lib/new.c",
        ] {
            assert_eq!(of(&[path]), None, "{path}");
            assert_eq!(of(&["lib/a.c", path]), None, "{path}");
        }
    }

    #[test]
    fn makefiles_scripts_and_generators_are_rules() {
        let tree = tempfile::tempdir().unwrap();
        for file in [
            "lib/Makefile",
            "lib/x86/poly.pl",
            "lib/a.c",
            "scripts/any",
            ".git/Kconfig",
        ] {
            let path = tree.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let wanted = ["lib/Makefile", "lib/x86/poly.pl", "scripts/any"].map(PathBuf::from);
        let wanted = BTreeSet::from(wanted);
        assert_eq!(find_rules(tree.path()), wanted);
        // A configured tree is built from a directory of links.
        let links = tempfile::tempdir().unwrap();
        for dir in ["lib", "scripts"] {
            symlink(tree.path().join(dir), links.path().join(dir)).unwrap();
        }
        assert_eq!(find_rules(links.path()), wanted);
    }
}
