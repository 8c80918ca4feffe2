//! The subjects of the laws: builds of `kernel/` with every compiler on this machine, and planted
//! offenders.

use std::collections::BTreeSet;
use std::fs;
use std::io::{stderr, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use kiln_kbuild::{Built, Compiler, Error, Kbuild};

/// Returns the command names of all compilers that law 4 requires.
fn compiler_names() -> Vec<String> {
    let gcc = (11..=15).map(|v| format!("gcc-{v}"));
    let clang = (14..=22).map(|v| format!("clang-{v}"));
    gcc.chain(["gcc".to_owned()])
        .chain(clang)
        .chain(["clang".to_owned()])
        .collect()
}

/// A build that is run when its result is first needed.
type Lazy = LazyLock<Result<Built, Error>, Box<dyn FnOnce() -> Result<Built, Error> + Send>>;

/// The builds of `kernel/` made with one compiler. Warnings violate law 4, but the other laws are
/// still checked for a build with warnings.
pub(crate) struct Build {
    /// The command that runs the compiler.
    pub name: String,
    /// First line of the compiler's `--version` output.
    pub version: String,
    /// Path of the compiler with all symbolic links resolved. This path identifies the compiler.
    pub canonical: PathBuf,
    /// Result of the build with default settings.
    pub plain: Lazy,
    /// Result of the build with `KILN_CHECKS`.
    pub checks: Lazy,
}

static BUILDS: LazyLock<Vec<Build>> = LazyLock::new(|| {
    let mut builds: Vec<Build> = Vec::new();
    let found = compiler_names()
        .into_iter()
        .filter_map(|name| Some((Compiler::find(&name).ok()?, name)));
    let default = default_compiler();
    let default = (default.clone(), default.path.display().to_string());
    for (compiler, name) in found.chain([default]) {
        let canonical = fs::canonicalize(&compiler.path).expect("a path that was just found");
        if builds.iter().any(|b| b.canonical == canonical) {
            continue;
        }
        let out = scratch().join(format!("build-{}", builds.len()));
        let kbuild = |dir: &str| {
            Kbuild::new(kernel_dir(), out.join(dir))
                .cc(compiler.path.to_str().expect("a compiler path in UTF-8"))
        };
        builds.push(Build {
            name,
            plain: lazy(kbuild("plain")),
            checks: lazy(kbuild("checks").define("KILN_CHECKS", "1")),
            version: compiler.version,
            canonical,
        });
    }
    builds
});

fn lazy(kbuild: Kbuild) -> Lazy {
    LazyLock::new(Box::new(move || kbuild.build()))
}

/// Returns the builds made with all compilers on this machine.
pub(crate) fn builds() -> &'static [Build] {
    &BUILDS
}

/// Returns the compilers that law 4 requires but that are not installed.
pub(crate) fn not_found() -> Vec<String> {
    let mut names = compiler_names();
    names.retain(|name| Compiler::find(name).is_err());
    names
}

/// Returns the warnings of a successful build, or the error of a failed build.
pub(crate) fn complaints(result: &Result<Built, Error>) -> Vec<String> {
    match result {
        Ok(built) => built.messages.clone(),
        Err(error) => vec![error.to_string()],
    }
}

/// Returns the compiler that the build script uses. The offenders are compiled with the same
/// compiler.
pub(crate) fn default_compiler() -> &'static Compiler {
    static DEFAULT: LazyLock<Compiler> =
        LazyLock::new(|| Compiler::from_env().unwrap_or_else(|e| panic!("{e}")));
    &DEFAULT
}

/// Returns the path of this repository's `kernel/`, as opposed to a [`Plant`].
pub(crate) fn kernel_dir() -> &'static Path {
    static DIR: LazyLock<PathBuf> = LazyLock::new(|| {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel");
        fs::canonicalize(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
    });
    &DIR
}

/// Returns a temporary directory for this process. Also removes the directories of processes that
/// have exited.
pub(crate) fn scratch() -> &'static Path {
    static DIR: LazyLock<PathBuf> = LazyLock::new(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("laws");
        for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
            if !Path::new("/proc").join(entry.file_name()).exists() {
                // Ignore errors, because another process may be removing the same directory.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let dir = all.join(process::id().to_string());
        // Remove the directory that an earlier process with the same ID may have left behind.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        dir
    });
    &DIR
}

/// A small tree that has the structure of `kernel/` and contains an offender.
pub(crate) struct Plant {
    pub dir: PathBuf,
}

impl Plant {
    /// Creates a tree without files.
    pub(crate) fn empty() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = scratch().join(format!("plant-{n}/kernel"));
        fs::create_dir_all(dir.join("include")).unwrap();
        Plant { dir }
    }

    /// Creates a tree with a copy of `tests/offenders/OFFENDER` at the path `at`.
    pub(crate) fn new(offender: &str, at: &str) -> Self {
        let plant = Self::empty();
        let source = offenders().join(offender);
        let text =
            fs::read_to_string(&source).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
        plant.write(at, &text);
        plant
    }

    /// Adds or replaces a file.
    pub(crate) fn write(&self, at: &str, text: &str) {
        let path = self.dir.join(at);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Returns a build configuration for the tree, to which settings can be added.
    pub(crate) fn kbuild(&self) -> Kbuild {
        let compiler = default_compiler().path.to_str().unwrap();
        Kbuild::new(&self.dir, self.dir.join("../out")).cc(compiler)
    }

    /// Builds the tree with default settings.
    pub(crate) fn build(&self) -> Built {
        self.with(|k| k)
    }

    /// Builds the tree with the settings that `how` adds.
    pub(crate) fn with(&self, how: impl FnOnce(Kbuild) -> Kbuild) -> Built {
        how(self.kbuild()).build().unwrap_or_else(|e| panic!("{e}"))
    }

    /// Compiles the tree's only source file, without the later build steps. Returns the object.
    pub(crate) fn compile_only(&self) -> PathBuf {
        let built = self.build();
        let object = self.dir.join("../compiled.o");
        let source = &built.objects[0].source;
        let kbuild = self.kbuild();
        run(&mut kbuild.compile_command(default_compiler(), source, &object));
        object
    }
}

/// Returns the directory of source files that deliberately break a law.
pub(crate) fn offenders() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/offenders")
}

/// Runs a command and returns what it wrote to standard output.
///
/// # Panics
/// If the command fails.
pub(crate) fn run(command: &mut Command) -> String {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Links a program in `tests/` with a build of `kernel/`, using the compiler that made the build.
/// Returns the path of the program. Each program is linked once per build, so that no test replaces
/// a program while another test runs it.
pub(crate) fn link_with(built: &Built, source: &str) -> PathBuf {
    static LINKED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(source);
    let program = built.archive.with_file_name(source.file_stem().unwrap());
    let mut linked = LINKED.lock().unwrap_or_else(PoisonError::into_inner);
    if linked.contains(&program) {
        return program;
    }
    run(Command::new(&built.compiler.path)
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg("-I")
        .arg(kernel_dir().join("include"))
        .arg(&source)
        .arg(&built.archive)
        .arg("-o")
        .arg(&program));
    linked.insert(program.clone());
    program
}

/// Prints a line to stderr, even if the test harness captures output.
pub(crate) fn loud(line: &str) {
    // Write to stderr directly, because the harness captures eprintln!. Ignore errors, because the
    // line is only informative.
    let _ = writeln!(stderr(), "{line}");
}
