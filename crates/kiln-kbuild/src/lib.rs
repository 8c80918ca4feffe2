//! Builds the C code in `kernel/` for all programs that need it.
//!
//! The build script, the law tests and the compiler comparison all use [`Kbuild`], so the tests
//! examine the same code that is linked. Compiler flags come from [`recipe`] and from the caller,
//! never from the environment, because a distribution's `CFLAGS` would enable the stack protector
//! or the GOT.
#![forbid(unsafe_code)]

mod ciphers;
mod compiler;
mod diagnosis;
mod embed;
mod error;
mod expectation;
pub mod recipe;
pub mod tiers;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub use ciphers::{cipher_folders, cipher_list, CIPHER_LIST};
pub use compiler::{which, Compiler};
pub use diagnosis::{first_error, reason, states_error};
pub use embed::{is_source, Embedded};
pub use error::Error;
pub use expectation::{blocks, bytes, known_answers, Block};
pub use tiers::TIERS;

use tiers::Tier;

/// Library name that a build script passes to `rustc-link-lib=static`.
pub const LIBRARY: &str = "kiln_kernel";

/// Smallest number of sources for which precompiling a header takes less time than it saves.
const WORTH_PRECOMPILING: usize = 4;

/// The configuration of a build of `kernel/`.
#[derive(Debug, Clone)]
pub struct Kbuild {
    kernel_dir: PathBuf,
    out_dir: PathBuf,
    cc: Option<String>,
    defines: Vec<(String, String)>,
    flags: Vec<String>,
    werror: bool,
}

/// An object file and its source.
#[derive(Debug, Clone)]
pub struct Object {
    /// Path of the source, relative to the kernel directory (`ciphers/xts/aesni.c`).
    pub source: PathBuf,
    /// Path of the object file.
    pub path: PathBuf,
    /// Suffix of the source's SIMD tier; `None` for general code, which uses only general-purpose
    /// registers.
    pub simd: Option<&'static str>,
}

/// A finished build.
#[derive(Debug, Clone)]
pub struct Built {
    /// Path of the static library.
    pub archive: PathBuf,
    /// Objects in the archive, in the order of their sources.
    pub objects: Vec<Object>,
    pub compiler: Compiler,
    /// The compiler's warnings, in the order of the sources.
    pub messages: Vec<String>,
}

impl Kbuild {
    /// Configures a build that compiles the sources under `kernel_dir` into the directory
    /// `out_dir`, which is created if it does not exist. The include path is `kernel_dir/include`.
    pub fn new(kernel_dir: impl Into<PathBuf>, out_dir: impl Into<PathBuf>) -> Self {
        Kbuild {
            kernel_dir: kernel_dir.into(),
            out_dir: out_dir.into(),
            cc: None,
            defines: Vec::new(),
            flags: Vec::new(),
            werror: false,
        }
    }

    /// Sets the name or path of the compiler. The default is the compiler that `KILN_CC` names or,
    /// if `KILN_CC` is not set, the first of `cc`, `gcc` and `clang` that exists.
    pub fn cc(mut self, name: impl Into<String>) -> Self {
        self.cc = Some(name.into());
        self
    }

    /// Defines a macro for every object.
    pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.defines.push((name.into(), value.into()));
        self
    }

    /// Adds a compiler flag for every object. The flag is placed after the recipe's flags, so it
    /// overrides them.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Sets whether a warning makes the build fail. The default is false, because a user's compiler
    /// may be newer and have additional warnings.
    pub fn werror(mut self, on: bool) -> Self {
        self.werror = on;
        self
    }

    /// Compiles all sources, renames the implicit calls to the `memcpy` family, and archives the
    /// objects.
    ///
    /// # Errors
    /// Fails if a tool is missing, a source does not compile, or a file cannot be read or written.
    pub fn build(&self) -> Result<Built, Error> {
        let compiler = match &self.cc {
            Some(name) => Compiler::find(name)?,
            None => Compiler::from_env()?,
        };
        let sources = self.sources()?;
        let write = |file: &Path, text: &str| fs::write(file, text).map_err(|e| Error::io(file, e));
        let list = self.generated_headers().join(CIPHER_LIST);
        let dir = list.parent().unwrap_or(&list);
        fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
        write(&list, &cipher_list(&self.kernel_dir)?)?;
        write(&self.hidden_header(), recipe::HIDDEN_H)?;

        let mut paths = BTreeMap::new();
        let mut objects = Vec::new();
        for source in sources {
            let path = self.out_dir.join(object_name(&source));
            if let Some(other) = paths.insert(path.clone(), source.clone()) {
                return Err(Error::Collision(other, source));
            }
            let simd = recipe::tier_of(&source).map(|t| t.suffix.as_str());
            objects.push(Object { source, path, simd });
        }

        let messages = self.compile_all(&compiler, &objects)?;
        let archive = self.out_dir.join(format!("lib{LIBRARY}.a"));
        // Remove an existing archive, because ar would keep the objects of deleted sources.
        if archive.exists() {
            fs::remove_file(&archive).map_err(|e| Error::io(&archive, e))?;
        }
        let mut ar = tool("ar");
        ar.arg("rcsD").arg(&archive);
        ar.args(objects.iter().map(|o| &o.path));
        run(&mut ar)?;
        Ok(Built {
            archive,
            objects,
            compiler,
            messages,
        })
    }

    /// Returns all `.c` and `.S` files under the kernel directory, sorted, as relative paths.
    ///
    /// # Errors
    /// Fails if a directory cannot be read, or the kernel directory contains no source.
    pub fn sources(&self) -> Result<Vec<PathBuf>, Error> {
        let mut found = Vec::new();
        walk(&self.kernel_dir, &mut |path| {
            if matches!(path.extension().and_then(OsStr::to_str), Some("c" | "S")) {
                let relative = path.strip_prefix(&self.kernel_dir).unwrap_or(path);
                found.push(relative.to_path_buf());
            }
        })?;
        if found.is_empty() {
            return Err(Error::NoSources(self.kernel_dir.clone()));
        }
        found.sort();
        Ok(found)
    }

    /// Returns the command that compiles `source` (relative to the kernel directory) to `object`,
    /// with the recipe's flags. Afterwards, the caller must call [`rename_implicit_calls`] on the
    /// object.
    pub fn compile_command(&self, compiler: &Compiler, source: &Path, object: &Path) -> Command {
        let is_assembly = source.extension() == Some(OsStr::new("S"));
        let language = if is_assembly {
            recipe::ASSEMBLY
        } else {
            recipe::C
        };
        let more = [recipe::extra_flags(source), language].concat();
        let mut cc = self.command(compiler, recipe::tier_of(source), &more);
        if !is_assembly {
            // A precompiled header must be included before any other header.
            if let Some(header) = self.intrinsics(source).filter(|h| precompiled(h).exists()) {
                cc.arg("-include").arg(header);
            }
            cc.arg("-include").arg(self.hidden_header());
        }
        cc.arg("-c").arg(self.kernel_dir.join(source));
        cc.arg("-o").arg(object);
        cc
    }

    /// Returns a compiler command to which the caller must add the file names. Its flags are those
    /// for all objects, those of `tier`, those in `more`, and those that this build adds.
    fn command(&self, compiler: &Compiler, tier: Option<&Tier>, more: &[&str]) -> Command {
        let mut cc = Command::new(&compiler.path);
        for variable in recipe::IGNORED_ENV {
            cc.env_remove(variable);
        }
        // Request English messages, because other code searches the output for English phrases.
        cc.env("LC_ALL", "C");
        cc.args(recipe::COMMON).args(recipe::WARNINGS);
        cc.arg("-isystem").arg(&compiler.headers);
        cc.arg("-I").arg(self.kernel_dir.join("include"));
        cc.arg("-I").arg(self.generated_headers());
        match tier {
            Some(tier) => cc.args(&tier.flags).args(recipe::SIMD),
            None => cc.args(recipe::GENERAL),
        };
        cc.args(more);
        for (name, value) in &self.defines {
            cc.arg(format!("-D{name}={value}"));
        }
        if self.werror {
            cc.arg("-Werror");
        }
        cc.args(&self.flags);
        cc
    }

    /// Returns the path of the header that is precompiled for this source's tier. Returns `None` if
    /// the source has no tier, is not a C file, or needs extra flags. A precompiled header can be
    /// used only with the flags that produced it.
    fn intrinsics(&self, source: &Path) -> Option<PathBuf> {
        let tier = recipe::tier_of(source)?;
        let shares_flags = recipe::extra_flags(source).is_empty();
        let is_c = source.extension() == Some(OsStr::new("c"));
        (shares_flags && is_c).then(|| self.intrinsics_dir().join(format!("{}.h", tier.suffix)))
    }

    fn intrinsics_dir(&self) -> PathBuf {
        self.out_dir.join("intrinsics")
    }

    /// Precompiles the intrinsics header for each tier that has at least `WORTH_PRECOMPILING`
    /// sources. This does not affect the resulting objects. If the compiler cannot precompile the
    /// header or cannot use the precompiled form, it reads the original header.
    fn precompile_intrinsics(&self, compiler: &Compiler, objects: &[Object]) -> Result<(), Error> {
        let mut sources: BTreeMap<PathBuf, Vec<&Path>> = BTreeMap::new();
        for object in objects {
            if let Some(header) = self.intrinsics(&object.source) {
                sources.entry(header).or_default().push(&object.source);
            }
        }
        sources.retain(|_, sources| sources.len() >= WORTH_PRECOMPILING);
        let headers: Vec<_> = sources.into_iter().collect();
        let dir = self.intrinsics_dir();
        fs::create_dir_all(&dir).map_err(|e| Error::io(&dir, e))?;
        let precompile = |(header, sources): &(PathBuf, Vec<&Path>)| {
            fs::write(header, recipe::INTRINSICS_H).map_err(|e| Error::io(header, e))?;
            let mut cc = self.command(compiler, recipe::tier_of(sources[0]), recipe::C);
            cc.args(["-x", "c-header"]).arg(header);
            cc.arg("-o").arg(precompiled(header));
            let output = cc.output().map_err(|e| Error::io(&compiler.path, e))?;
            if !output.status.success() {
                // Ignore errors, because the file need not exist.
                let _ = fs::remove_file(precompiled(header));
            }
            Ok(())
        };
        in_parallel(&headers, precompile).into_iter().collect()
    }

    fn generated_headers(&self) -> PathBuf {
        self.out_dir.join("include")
    }

    fn hidden_header(&self) -> PathBuf {
        self.out_dir.join("hidden.h")
    }

    /// Compiles `objects` in parallel on all CPUs. Returns the compiler's messages, or the first
    /// error in source order.
    fn compile_all(&self, compiler: &Compiler, objects: &[Object]) -> Result<Vec<String>, Error> {
        self.precompile_intrinsics(compiler, objects)?;
        let results = in_parallel(objects, |object| self.compile(compiler, object));
        // Remove the precompiled headers, because they take up to 150 MB.
        let dir = self.intrinsics_dir();
        fs::remove_dir_all(&dir).map_err(|e| Error::io(&dir, e))?;
        let mut messages = Vec::new();
        for result in results {
            let said = result?;
            if !said.is_empty() {
                messages.push(said);
            }
        }
        Ok(messages)
    }

    fn compile(&self, compiler: &Compiler, object: &Object) -> Result<String, Error> {
        let mut cc = self.compile_command(compiler, &object.source, &object.path);
        let output = cc
            .output()
            .map_err(|e| Error::io(Path::new(&compiler.path), e))?;
        let said = String::from_utf8_lossy(&output.stderr)
            .trim_end()
            .to_owned();
        if !output.status.success() {
            return Err(Error::Compile {
                source: self.kernel_dir.join(&object.source),
                compiler: compiler.to_string(),
                message: said,
            });
        }
        rename_implicit_calls(&object.path)?;
        Ok(said)
    }
}

impl Built {
    /// Links all objects into one relocatable object, `out`, so that tests can check its symbols.
    ///
    /// # Errors
    /// Fails if `ld` is missing or fails.
    pub fn relocatable(&self, out: &Path) -> Result<(), Error> {
        let mut ld = tool("ld");
        ld.arg("-r").arg("-o").arg(out);
        ld.args(self.objects.iter().map(|o| &o.path));
        run(&mut ld)
    }
}

/// Returns the path at which gcc and clang look for the precompiled form of a header.
fn precompiled(header: &Path) -> PathBuf {
    header.with_extension("h.gch")
}

/// Calls `work` for each item, on all CPUs, and returns the results in the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(2, |n| n.get().max(2));
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else {
                return done;
            };
            done.push((i, work(item)));
        }
    };
    let mut results = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(items.len()))
            .map(|_| scope.spawn(worker))
            .collect();
        workers
            .into_iter()
            .flat_map(|w| w.join().expect("a compiling thread does not panic"))
            .collect::<Vec<_>>()
    });
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Redirects the compiler's implicit calls to the `memcpy` family to the functions in
/// `kernel/lib/string.c`. The object file is modified in place.
///
/// Compilers ignore asm labels for these calls, so the calls can only be renamed after compilation.
/// This function also removes the symbol `_GLOBAL_OFFSET_TABLE_` if no relocation uses it. gas adds
/// this undefined symbol to every object that has a thread-local variable.
///
/// # Errors
/// Fails if `objcopy` is missing or fails.
pub fn rename_implicit_calls(object: &Path) -> Result<(), Error> {
    for pass in recipe::IMPLICIT_CALLS {
        let mut objcopy = tool("objcopy");
        for (from, to) in *pass {
            objcopy.arg("--redefine-sym").arg(format!("{from}={to}"));
        }
        objcopy.arg("--strip-unneeded-symbol=_GLOBAL_OFFSET_TABLE_");
        run(objcopy.arg(object))?;
    }
    Ok(())
}

/// Calls `visit` for every file under `dir` and its subdirectories, except hidden files and
/// directories.
///
/// # Errors
/// Fails if a directory cannot be read.
pub fn walk(dir: &Path, visit: &mut dyn FnMut(&Path)) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(|e| Error::io(dir, e))? {
        let path = entry.map_err(|e| Error::io(dir, e))?.path();
        // Skip hidden files, because editors create hidden lock files and backup files next to a
        // source file.
        let hidden = path
            .file_name()
            .is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
        if hidden {
            continue;
        }
        if path.is_dir() {
            walk(&path, visit)?;
        } else {
            visit(&path);
        }
    }
    Ok(())
}

/// Converts `ciphers/xts/aesni.c` to `ciphers.xts.aesni.c.o`. The name contains the whole path,
/// because archives have no directories and every algorithm has a `generic.c`.
fn object_name(source: &Path) -> String {
    let mut name: Vec<_> = source.iter().map(OsStr::to_string_lossy).collect();
    name.push("o".into());
    name.join(".")
}

/// Returns a command that runs a binutils tool with English messages.
fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("LC_ALL", "C");
    command
}

fn run(command: &mut Command) -> Result<(), Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| Error::tool(&name, e))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::ToolFailed {
        name,
        message: reason(&String::from_utf8_lossy(&output.stderr)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_names_keep_their_directory() {
        let name = object_name(Path::new("ciphers/xts/aesni.c"));
        assert_eq!(name, "ciphers.xts.aesni.c.o");
    }

    #[test]
    fn a_compiler_that_is_not_there_is_named_in_one_line() {
        let error = Kbuild::new("kernel", "out")
            .cc("kiln-no-such-cc")
            .build()
            .unwrap_err()
            .to_string();
        assert!(error.contains("'kiln-no-such-cc'") && error.contains("name another"));
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
