//! Compiles cells into executables, in parallel on all cores.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use kiln_kbuild::{reason, recipe, rename_implicit_calls};
use kiln_question::Error;
use kiln_tree::hash;
use serde::{Deserialize, Serialize};

use super::cell::{Abi, Cell, Opt, Status};
use super::object;
use super::store::{fault, Store};
use super::subject::{Flags, Source, Subject, HARNESS};
use super::toolchain::Toolchain;
use super::variant::Variant;

/// Name of the file that holds a cell's executable in the cache.
const EXECUTABLE: &str = "cell";
/// File name of the description stored next to the executable.
const FACTS: &str = "facts.json";

/// A cell's executable, its object files, and the facts recorded when it was built.
#[derive(Clone, Debug)]
pub(super) struct Built {
    pub executable: PathBuf,
    /// Object files of the code under test.
    pub objects: Vec<PathBuf>,
    pub facts: Facts,
}

/// Sizes and build time of an executable. The cache stores them next to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Size of the code in the objects under test, in bytes.
    pub text_bytes: Option<u64>,
    /// Highest stack usage of any function in bytes; `None` if the compiler does not report it.
    pub stack_bytes: Option<u64>,
    /// Time to compile and link, in milliseconds.
    pub build_ms: f64,
}

/// Why a cell has no executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// `absent` or `failed`.
    pub status: Status,
    /// Error message without line breaks.
    pub reason: String,
}

impl From<Error> for Refused {
    fn from(e: Error) -> Refused {
        failed(e.to_string())
    }
}

pub(super) fn failed(reason: impl Into<String>) -> Refused {
    Refused {
        status: Status::Failed,
        reason: reason.into(),
    }
}

fn absent(reason: impl Into<String>) -> Refused {
    Refused {
        status: Status::Absent,
        reason: reason.into(),
    }
}

/// Builds cells. All builds share a cache and a helper compiler.
pub(super) struct Builder<'a> {
    store: &'a Store,
    /// Compiler for the files that are not under test.
    helper: Arc<Toolchain>,
    /// Whether to rebuild cells that are in the cache.
    pub anew: bool,
}

impl<'a> Builder<'a> {
    /// Chooses a compiler for the files that are not under test: `cc`, `gcc` or `clang`, or the
    /// first of `others` if none of these exists.
    pub(super) fn new(store: &'a Store, others: &[Arc<Toolchain>]) -> Result<Builder<'a>, Error> {
        let own = ["cc", "gcc", "clang"]
            .iter()
            .find_map(|n| Toolchain::find(n).ok());
        let helper = own.map(Arc::new).or_else(|| others.first().cloned());
        Ok(Builder {
            store,
            helper: helper.ok_or_else(|| {
                Error::lacks("no C compiler for the harness: apt-get install gcc libc6-dev")
            })?,
            anew: false,
        })
    }

    /// Returns the compiler for the files that are not under test.
    pub(super) fn helper(&self) -> &Arc<Toolchain> {
        &self.helper
    }

    /// Builds all cells in parallel, and returns the results in the order of the cells. Once `stop`
    /// is set, no further builds are started.
    pub(super) fn build_all(
        &self,
        cells: &[Cell],
        stop: &AtomicBool,
        progress: &(dyn Fn(usize, &str) + Sync),
    ) -> Vec<Result<Built, Refused>> {
        // Prepare each subject once here. Otherwise, several threads could prepare the same subject
        // at the same time.
        let mut prepared: Vec<(*const Subject, Abi)> = Vec::new();
        for cell in cells {
            let key = (Arc::as_ptr(&cell.subject), cell.abi);
            if !prepared.contains(&key) && !stop.load(Ordering::Relaxed) {
                prepared.push(key);
                let _ = self.support(&cell.subject, cell.abi);
            }
        }
        let results: Vec<Mutex<Option<Result<Built, Refused>>>> =
            cells.iter().map(|_| Mutex::new(None)).collect();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cells.get(i).filter(|_| !stop.load(Ordering::Relaxed)) else {
                return;
            };
            let built = self.cell(cell);
            *results[i].lock().expect("no thread panics") = Some(built);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, &cell.to_string());
        };
        let threads = thread::available_parallelism().map_or(2, usize::from);
        thread::scope(|scope| {
            for _ in 0..threads.min(cells.len()).max(1) {
                scope.spawn(work);
            }
        });
        let of = |slot: Mutex<Option<_>>| slot.into_inner().expect("no thread panics");
        results
            .into_iter()
            .map(|slot| of(slot).unwrap_or_else(|| Err(absent("interrupted"))))
            .collect()
    }

    /// Builds one cell, unless it is in the cache.
    pub(super) fn cell(&self, cell: &Cell) -> Result<Built, Refused> {
        let (cc, subject) = (&cell.cc, &cell.subject);
        if cell.abi == Abi::Bits32 {
            self.narrow(cell)?;
        }
        let flags = cell.variant.flags(cc).map_err(absent)?;
        let has_own = |s: &Source| matches!(&s.flags, Flags::Tree { own, .. } if !own.is_empty());
        if cell.variant.drops_object_flags() && !subject.sources.iter().any(has_own) {
            return Err(absent(format!("{} has no flags of its own", subject.name)));
        }
        let support = self.support(subject, cell.abi)?;
        let lines: Vec<Vec<String>> = subject
            .sources
            .iter()
            .map(|s| s.arguments(cc, &cell.opt, cell.abi, &cell.variant, &flags))
            .collect();
        let mut parts: Vec<Vec<u8>> = vec![cc.identity().to_le_bytes().to_vec()];
        for (source, line) in subject.sources.iter().zip(&lines) {
            parts.push(line.join("\0").into_bytes());
            parts.push(source.path.display().to_string().into_bytes());
            parts.push(self.content(cc, source, line)?);
        }
        let of_support = support.iter().map(|p| p.display().to_string().into_bytes());
        parts.extend(of_support);
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let mut key = hash(&parts);
        if self.anew {
            key ^= hash(&[&std::process::id().to_le_bytes()]);
        }
        let dir = self.store.entry(key, |dir| {
            let start = Instant::now();
            let mut facts = Facts {
                text_bytes: Some(0),
                ..Facts::default()
            };
            let mut objects = Vec::new();
            for (n, (source, line)) in subject.sources.iter().zip(&lines).enumerate() {
                let object = dir.join(format!("{n}.o"));
                compile(cc, source, line, &object)?;
                facts.text_bytes = facts
                    .text_bytes
                    .zip(object::text_bytes(&object))
                    .map(|(a, b)| a + b);
                facts.stack_bytes = facts
                    .stack_bytes
                    .max(object::stack_bytes(&object.with_extension("su")));
                objects.push(object);
            }
            self.called(subject, &objects)?;
            let mut others = support.clone();
            others.extend(self.unmet(subject, &objects, &support, dir)?);
            link(cell, &flags, &objects, &others, &dir.join(EXECUTABLE))?;
            facts.build_ms = start.elapsed().as_secs_f64() * 1e3;
            let text = serde_json::to_string(&facts).expect("facts have string keys");
            let path = dir.join(FACTS);
            fs::write(&path, text).map_err(|e| Refused::from(fault(&path, &e)))
        })?;
        let facts = fs::read_to_string(dir.join(FACTS)).unwrap_or_default();
        Ok(Built {
            executable: dir.join(EXECUTABLE),
            objects: (0..subject.sources.len())
                .map(|n| dir.join(format!("{n}.o")))
                .collect(),
            facts: serde_json::from_str(&facts).unwrap_or_default(),
        })
    }

    /// Makes the symbols of all functions that the harness calls global, because these functions
    /// may be static. Fails if one of them is not defined in any object.
    fn called(&self, subject: &Subject, objects: &[PathBuf]) -> Result<(), Refused> {
        let of_kernel = |s: &Source| matches!(s.flags, Flags::Kernel { .. });
        if subject.sources.iter().all(of_kernel) {
            return Ok(());
        }
        let c = &subject.convention;
        let wanted = c.defines.iter().filter_map(|d| {
            d.strip_prefix("SUBJECT_FUNCTION=")
                .or_else(|| d.strip_prefix("SUBJECT_SETKEY="))
        });
        let mut wanted: Vec<&str> = wanted.collect();
        if wanted.is_empty() {
            wanted.push(&c.function);
        }
        for name in wanted {
            let Some(object) = objects.iter().find(|o| object::defines(o, name)) else {
                return Err(failed(not_defined(&subject.sources[0].path, name, c.name)));
            };
            let done = Command::new("objcopy")
                .arg(format!("--globalize-symbol={name}"))
                .arg(object)
                .output();
            match done {
                Ok(o) if o.status.success() => {}
                Ok(o) => return Err(failed(reason(&String::from_utf8_lossy(&o.stderr)))),
                Err(e) => return Err(failed(format!("objcopy: {e}: apt-get install binutils"))),
            }
        }
        Ok(())
    }

    /// Creates an object that defines every symbol that a kernel tree's objects use but that
    /// nothing else provides. All of these symbols refer to a single trapping instruction. It is
    /// never executed, because a subject neither registers itself nor prints.
    fn unmet(
        &self,
        subject: &Subject,
        objects: &[PathBuf],
        support: &[PathBuf],
        dir: &Path,
    ) -> Result<Option<PathBuf>, Refused> {
        let of_tree = |s: &Source| matches!(s.flags, Flags::Tree { .. });
        if !subject.sources.iter().any(of_tree) {
            return Ok(None);
        }
        let mut names: Vec<String> = Vec::new();
        let tree = objects.iter().chain(&subject.objects);
        for name in tree.flat_map(|o| object::undefined(o)) {
            // Functions with these names come from libc or the compiler's runtime library.
            let linked = name.starts_with("__ubsan_")
                || name.starts_with("__asan_")
                || ["mem", "str", "bcmp"].iter().any(|p| name.starts_with(p));
            let met = |o: &PathBuf| object::exports(o, &name);
            if !linked && !names.contains(&name) && !objects.iter().chain(support).any(met) {
                names.push(name);
            }
        }
        let mut text = String::from("\t.text\n");
        for name in &names {
            text.push_str(&format!("\t.globl {name}\n{name}:\n"));
        }
        text.push_str("\tud2\n\t.section .note.GNU-stack,\"\",@progbits\n");
        let (source, object) = (dir.join("unmet.s"), dir.join("unmet.o"));
        fs::write(&source, text).map_err(|e| Refused::from(fault(&source, &e)))?;
        let mut cc = self.helper.command();
        cc.arg("-c").arg(&source).arg("-o").arg(&object);
        output(&mut cc)?;
        Ok(Some(object))
    }

    /// Returns the preprocessed source for use in the cache key. The key then also depends on the
    /// included files.
    fn content(
        &self,
        cc: &Toolchain,
        source: &Source,
        line: &[String],
    ) -> Result<Vec<u8>, Refused> {
        if matches!(source.flags, Flags::Kernel { .. }) {
            // The path of these sources depends on their content, and is already part of the key.
            return Ok(Vec::new());
        }
        preprocess(cc, source, line)
    }

    /// Uses the helper compiler to compile the files that a subject needs but that are not under
    /// test: the harness, the file that implements the convention, and the subject's support files.
    pub(super) fn support(&self, subject: &Subject, abi: Abi) -> Result<Vec<PathBuf>, Refused> {
        let c = &subject.convention;
        let (opt, variant) = (
            Opt::parse("O2").expect("a level"),
            Variant::parse("default").expect("a variant"),
        );
        let mut parts: Vec<Vec<u8>> = vec![self.helper.identity().to_le_bytes().to_vec()];
        parts.extend(HARNESS.iter().map(|(_, text)| text.as_bytes().to_vec()));
        parts.extend(c.defines.iter().map(|d| d.clone().into_bytes()));
        parts.push(format!("{} {}", c.file, abi.name()).into_bytes());
        let of_support = subject.support.iter();
        parts.extend(of_support.map(|s| s.path.display().to_string().into_bytes()));
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let dir = self.store.entry(hash(&parts), |dir| {
            for (name, text) in HARNESS {
                let path = dir.join(name);
                fs::write(&path, text).map_err(|e| Refused::from(fault(&path, &e)))?;
            }
            for name in harness_files(subject) {
                let (file, adapter) = (dir.join(name), name == c.file);
                let mut cc = self.helper.command();
                cc.args(["-O2", "-fno-pie", "-fno-stack-protector"])
                    .args(abi.flags());
                if adapter {
                    // CBC must not use vector registers: a vector load of data that the cipher has
                    // just stored word by word would stall.
                    cc.arg("-mgeneral-regs-only");
                    cc.args(c.defines.iter().map(|d| format!("-D{d}")));
                    let kernel = subject.sources.iter().find_map(|s| match &s.flags {
                        Flags::Kernel { dir } => Some(dir.join("include")),
                        _ => None,
                    });
                    if let Some(include) = kernel.filter(|_| c.name == "kiln") {
                        cc.arg("-ffreestanding").arg("-I").arg(include);
                    }
                }
                cc.arg("-c")
                    .arg(&file)
                    .arg("-o")
                    .arg(file.with_extension("o"));
                output(&mut cc)?;
            }
            for (n, source) in subject.support.iter().enumerate() {
                let line = source.arguments(&self.helper, &opt, abi, &variant, &[]);
                compile(
                    &self.helper,
                    source,
                    &line,
                    &dir.join(format!("support{n}.o")),
                )?;
            }
            Ok::<(), Refused>(())
        })?;
        let own = harness_files(subject);
        let own = own.iter().map(|name| dir.join(name).with_extension("o"));
        let mut objects: Vec<PathBuf> = own.collect();
        objects.extend((0..subject.support.len()).map(|n| dir.join(format!("support{n}.o"))));
        objects.extend(subject.objects.iter().cloned());
        Ok(objects)
    }

    /// Checks that a cell can be built as 32-bit code.
    fn narrow(&self, cell: &Cell) -> Result<(), Refused> {
        if !cell.subject.narrow {
            let name = &cell.subject.name;
            return Err(absent(format!("{name} is for 64 bits only")));
        }
        let dir = self.store.scratch()?;
        let mut cc = cell.cc.command();
        let empty = dir.path().join("empty.c");
        fs::write(&empty, "int main(void) { return 0; }\n")
            .map_err(|e| Refused::from(fault(&empty, &e)))?;
        cc.arg("-m32").arg(&empty).arg("-o");
        cc.arg(dir.path().join("empty"));
        match cc.output() {
            Ok(o) if o.status.success() => Ok(()),
            _ => Err(absent(format!(
                "{} links nothing for 32 bits here: apt-get install gcc-multilib",
                cell.cc.name
            ))),
        }
    }
}

/// Explains why no object defines a function that the convention calls.
fn not_defined(file: &Path, function: &str, convention: &str) -> String {
    let code = fs::read_to_string(file).unwrap_or_default();
    let begin = format!("{function}(");
    let is_static = |line: &str| {
        let mut words = line.split([' ', '*']);
        line.starts_with("static ") && words.any(|word| word.starts_with(&begin))
    };
    let file = file.display();
    match code.lines().any(is_static) {
        true => format!(
            "{file}: the compiler omits the static function '{function}', which convention {convention} calls: \
             remove 'static', or name another function"
        ),
        false => format!(
            "{file} does not define '{function}', which convention {convention} calls: name another function \
             (FILE:FUNCTION:CONVENTION)"
        ),
    }
}

/// Returns the harness files that a subject needs.
pub(super) fn harness_files(subject: &Subject) -> Vec<&'static str> {
    let mut files = vec!["harness.c", subject.convention.file];
    if !subject.support.is_empty() {
        files.push("memory.c");
    }
    files
}

/// Compiles a source file. In sources from `kernel/`, renames the functions that compilers call
/// implicitly.
pub(super) fn compile(
    cc: &Toolchain,
    source: &Source,
    line: &[String],
    object: &Path,
) -> Result<(), Refused> {
    let mut command = cc.command();
    if let Flags::Tree { dir, .. } = &source.flags {
        command.current_dir(dir);
    }
    command.args(line).args(cc.known(&["-fstack-usage"]));
    command.arg("-c").arg(&source.path).arg("-o").arg(object);
    output(&mut command)?;
    if matches!(source.flags, Flags::Kernel { .. }) {
        rename_implicit_calls(object).map_err(|e| failed(e.to_string()))?;
    }
    Ok(())
}

/// Runs the preprocessor on a source file and returns the output.
pub(super) fn preprocess(
    cc: &Toolchain,
    source: &Source,
    line: &[String],
) -> Result<Vec<u8>, Refused> {
    let mut command = cc.command();
    if let Flags::Tree { dir, .. } = &source.flags {
        command.current_dir(dir);
    }
    command.args(line).args(["-E", "-P"]).arg(&source.path);
    output(&mut command)
}

fn link(
    cell: &Cell,
    flags: &[String],
    objects: &[PathBuf],
    support: &[PathBuf],
    executable: &Path,
) -> Result<(), Refused> {
    let mut command = cell.cc.command();
    command
        .args(cell.abi.flags())
        .args(Variant::link_flags(flags));
    command.args(cell.cc.known(&["-no-pie"]));
    command.arg("-Wl,-z,noexecstack");
    command
        .args(objects)
        .args(support)
        .arg("-o")
        .arg(executable);
    output(&mut command).map(|_| ())
}

/// Runs a command. Returns the output, or the first line of the error output if the command fails.
fn output(command: &mut Command) -> Result<Vec<u8>, Refused> {
    for variable in recipe::IGNORED_ENV {
        command.env_remove(variable);
    }
    let output = command
        .output()
        .map_err(|e| failed(format!("{}: {e}", command.get_program().to_string_lossy())))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(failed(reason(&String::from_utf8_lossy(&output.stderr)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_function_is_told_from_one_that_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.c");
        fs::write(&file, "static int *crc(void) { return 0; }\nint f;\n").unwrap();
        let is_static =
            |function| not_defined(&file, function, "digest").contains("remove 'static'");
        assert!(is_static("crc"));
        assert!(!is_static("rc") && !is_static("f"));
    }
}
