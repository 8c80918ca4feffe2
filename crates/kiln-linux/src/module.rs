//! Builds Kiln's module for Linux (`linux/module/`): the sources of `kernel/ciphers`, compiled by a
//! kernel's own Kbuild.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use kiln_kbuild::{recipe, Compiler};
use kiln_kernel::Tier;
use kiln_tree::{key, root, seen_tiers, update, Make, WITHOUT_BTF};

use crate::uml::Built;
use crate::Error;

/// Names and contents of the files in the module's directory.
pub(crate) const SOURCES: &[(&str, &str)] =
    include!(concat!(env!("OUT_DIR"), "/module_sources.rs"));

pub const NAME: &str = "kiln";

/// Name of the module that hides algorithms from a benchmark.
const HIDE: &str = "hide";

/// Prefix of the name of each implementation in Linux, which has drivers with the unprefixed names.
pub const PREFIX: &str = "kiln-";

/// The table of known answers, which the build script generates.
const KNOWN: &str = "known.h";

/// Adds parameters that only tests of the module need; an installed module does not have them.
pub(crate) const CONTROLS: &str = "-DKILN_CONTROLS";

/// The configuration file for DKMS.
const DKMS: &str = include_str!("../../../packaging/dkms/dkms.conf");

/// Raises Linux's warning limit of 2048 bytes: the largest stack frame of a cipher has 3 KiB, and
/// stacks have 16 KiB.
const FRAME: &str = "-Wframe-larger-than=4096";

/// The kernel that a module is built for.
pub enum Kernel<'a> {
    /// User mode Linux that Kiln has built.
    User(&'a Built),
    /// The directory of a distribution's headers, such as `/usr/src/linux-headers-6.1.0-32-amd64`.
    Headers(&'a Path),
}

pub struct Plan<'a> {
    pub kernel: Kernel<'a>,
    pub compiler: &'a Compiler,
    /// Build directory, to which the sources are copied first.
    pub dir: PathBuf,
    /// Edits a source while it is copied; used for controls.
    pub edit: &'a dyn Fn(&str, &'static str) -> String,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Called with the name of the file that is being compiled.
    pub progress: &'a dyn Fn(&str),
}

#[derive(Debug)]
pub struct Module {
    pub path: PathBuf,
    /// Path of the module that hides algorithms from a benchmark.
    pub hide: PathBuf,
    /// Warnings of the compiler, modpost and objtool, line by line.
    pub warnings: Vec<String>,
}

pub fn unchanged(_name: &str, text: &'static str) -> String {
    text.to_owned()
}

/// Builds the module in the cache, for a kernel of the distribution.
///
/// # Errors
/// The headers are missing, or [`build`] fails.
pub fn for_headers(
    dir: &Path,
    compiler: &Compiler,
    stop: &AtomicBool,
    progress: &dyn Fn(&str),
) -> Result<Module, Error> {
    let headers = find_headers(dir)?;
    build(&Plan {
        kernel: Kernel::Headers(&headers),
        compiler,
        dir: root()?
            .join("kiln/linux/module")
            .join(headers_key(&headers, compiler)),
        edit: &unchanged,
        stop,
        progress,
    })
}

/// The same as the package kiln-crypto-dkms builds it: from the sources of [`write_sources`], without parameters that
/// only tests need.
///
/// # Errors
/// As [`for_headers`].
pub fn for_package(
    dir: &Path,
    compiler: &Compiler,
    stop: &AtomicBool,
    progress: &dyn Fn(&str),
) -> Result<Module, Error> {
    let headers = find_headers(dir)?;
    let plan = Plan {
        kernel: Kernel::Headers(&headers),
        compiler,
        dir: root()?
            .join("kiln/linux/package")
            .join(headers_key(&headers, compiler)),
        edit: &unchanged,
        stop,
        progress,
    };
    update_sources(&plan.dir)?;
    compile(&plan)
}

fn find_headers(dir: &Path) -> Result<PathBuf, Error> {
    let headers = fs::canonicalize(dir).ok();
    headers
        .filter(|d| d.join("Makefile").is_file())
        .ok_or_else(|| Error::NotHeaders(dir.to_owned()))
}

/// A directory name for what is built by this compiler for these headers.
fn headers_key(headers: &Path, compiler: &Compiler) -> String {
    let compiled = format!("{} {}", compiler.path.display(), compiler.version);
    key(headers, &compiled, 0)
}

/// Builds the parts of the module that are not up to date.
///
/// # Errors
/// The module does not compile, or the directory cannot be written.
pub fn build(plan: &Plan) -> Result<Module, Error> {
    copy(&plan.dir, plan.edit)?;
    update(&plan.dir.join("Kbuild"), &kbuild(&[HIDE], CONTROLS))?;
    compile(plan)
}

/// Runs the kernel's Kbuild on the sources in the plan's directory.
fn compile(plan: &Plan) -> Result<Module, Error> {
    let log = plan.dir.join("log");
    let _ = fs::remove_file(&log);
    let external = format!("M={}", plan.dir.display());
    let (directory, objects) = match plan.kernel {
        Kernel::User(built) => (
            built.cache.source.as_path(),
            Some(format!("O={}", built.cache.objects.display())),
        ),
        Kernel::Headers(dir) => (dir, None),
    };
    let mut arguments: Vec<&str> = Vec::new();
    if let Some(objects) = &objects {
        arguments.extend([objects.as_str(), "ARCH=um"]);
    }
    arguments.extend([external.as_str(), WITHOUT_BTF, "modules"]);
    let make = Make {
        directory,
        compiler: plan.compiler,
        log: &log,
        stop: plan.stop,
    };
    let said = make.run(&arguments, &mut |what| (plan.progress)(what))?;
    let path = plan.dir.join(format!("{NAME}.ko"));
    if !said.success || !path.is_file() {
        return Err(Error::Module {
            which: "Kiln's module",
            against: directory.display().to_string(),
            cause: said.cause(),
            log,
        });
    }
    Ok(Module {
        path,
        hide: plan.dir.join(format!("{HIDE}.ko")),
        warnings: warnings(&said.text),
    })
}

fn warnings(text: &str) -> Vec<String> {
    let told = |line: &&str| {
        let line = line.to_lowercase();
        line.contains("warning: ") && !line.contains("the compiler differs")
    };
    text.lines().filter(told).map(str::to_owned).collect()
}

pub(crate) fn copy(dir: &Path, edit: &dyn Fn(&str, &'static str) -> String) -> Result<(), Error> {
    for (name, text) in SOURCES {
        update(&dir.join(name), &edit(name, text))?;
    }
    Ok(())
}

/// Writes the module's sources in the layout that DKMS expects in `/usr/src` and that `make -C
/// HEADERS` can build.
///
/// # Errors
/// The directory exists and is not empty, or cannot be written.
pub fn write_sources(dir: &Path) -> Result<(), Error> {
    let fault = |e| Error::cache(dir, e);
    fs::create_dir_all(dir).map_err(fault)?;
    if fs::read_dir(dir).map_err(fault)?.next().is_some() {
        return Err(Error::NotEmpty(dir.to_owned()));
    }
    update_sources(dir)
}

fn update_sources(dir: &Path) -> Result<(), Error> {
    let hide = format!("{HIDE}.c");
    for (name, text) in SOURCES.iter().filter(|(name, _)| *name != hide) {
        update(&dir.join(name), text)?;
    }
    update(&dir.join("Kbuild"), &kbuild(&[], ""))?;
    let version = env!("CARGO_PKG_VERSION");
    update(&dir.join("dkms.conf"), &DKMS.replace("@VERSION@", version))?;
    Ok(())
}

/// The expected ciphertext of the first known answer for an algorithm, as the module's file contains it.
///
/// # Panics
/// If the table has no answer for the algorithm.
pub(crate) fn known_answer(alg: &str) -> Vec<u8> {
    let table = SOURCES.iter().find(|(name, _)| *name == KNOWN);
    let (_, text) = table.expect("a table of known answers");
    let row = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(&format!("{{ {alg:?}, ")))
        .expect("an algorithm with known answers");
    // The offset, and the lengths of key, IV, associated data, text, ciphertext and tag.
    let numbers: Vec<usize> = row
        .trim_end_matches(" },")
        .split(", ")
        .map(|n| n.parse().expect("a number"))
        .collect();
    let at = numbers[..5].iter().sum();
    let bytes = text
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .flat_map(|line| line.split_terminator(','));
    bytes
        .skip(at)
        .take(numbers[5])
        .map(|b| b.parse().expect("a byte"))
        .collect()
}

/// The value of the module's parameter `tiers` that allows what `KILN_TIERS` allows.
pub(crate) fn tiers() -> String {
    let mask = seen_tiers();
    if mask == u32::MAX {
        return "all".into();
    }
    let seen = Tier::ALL.into_iter().filter(|t| mask & 1 << *t as u32 != 0);
    seen.map(Tier::name).collect::<Vec<_>>().join(",")
}

pub(crate) fn objects() -> impl Iterator<Item = String> {
    let compiled = SOURCES.iter().filter_map(|(name, _)| object(name));
    compiled.filter(|object| *object != format!("{HIDE}.o"))
}

fn object(source: &str) -> Option<String> {
    source.strip_suffix(".c").map(|stem| format!("{stem}.o"))
}

/// Generates the Kbuild file, with every source and its flags. Each of `others` is a module with a
/// single source.
fn kbuild(others: &[&str], defines: &str) -> String {
    let mut text = format!("obj-m := {NAME}.o");
    for other in others {
        write!(text, " {other}.o").expect("a string");
    }
    write!(text, "\n{NAME}-y :=").expect("a string");
    for object in objects() {
        write!(text, " \\\n\t{object}").expect("a string");
    }
    text.push_str("\n\n");
    text + &all_flags(defines)
}

/// Generates the lines of the Kbuild file with the compiler flags for all objects.
pub(crate) fn all_flags(defines: &str) -> String {
    let mut text =
        format!("ccflags-y := -I$(src) -I$(src)/include -I$(src)/kernel/include {defines}\n\n");
    text.extend(SOURCES.iter().map(|(name, _)| flags(name)));
    text
}

/// Generates the line of the Kbuild file with an object's own flags. Sources outside `kernel/` have
/// none.
pub(crate) fn flags(name: &str) -> String {
    let Some(stem) = name
        .strip_suffix(".c")
        .filter(|_| name.starts_with("kernel/"))
    else {
        return String::new();
    };
    let mut flags = vec!["-O2", "-ffreestanding", FRAME];
    if let Some(tier) = recipe::tier_of(Path::new(name)) {
        flags.extend(&tier.flags);
        flags.extend(recipe::SIMD);
        flags.extend(recipe::extra_flags(Path::new(name)));
        // Linux disables the compiler's headers, which declare the intrinsics.
        flags.push("-isystem $(shell $(CC) -print-file-name=include)");
    }
    format!("CFLAGS_{stem}.o := {}\n", flags.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_kbuild::TIERS;

    #[test]
    fn every_source_is_built_with_its_tiers_flags() {
        let text = kbuild(&[HIDE], CONTROLS);
        for object in [
            "module.o",
            "kernel/ciphers/xts/aesni.o",
            "kernel/lib/string.o",
        ] {
            assert!(text.contains(&format!("\t{object}")), "{text}");
        }
        for tier in &TIERS.tiers {
            let line = text
                .lines()
                .find(|l| l.starts_with(&format!("CFLAGS_kernel/ciphers/gcm/{}.o", tier.suffix)));
            let Some(line) = line else { continue };
            assert!(line.contains(&tier.flags.join(" ")), "{line}");
        }
        let general = text.lines().find(|l| l.contains("xts/generic.o :="));
        assert!(!general.unwrap().contains("-m"), "{general:?}");
    }

    #[test]
    fn warnings_are_found_wherever_they_come_from() {
        let found = warnings(
            "  CC [M]  a.o\na.c:1:2: warning: unused\nWARNING: modpost: missing\n\
             a.o: warning: objtool: f()+0x1: no\nwarning: the compiler differs from the one used\n",
        );
        assert_eq!(found.len(), 3, "{found:?}");
    }

    /// Creates kernel headers that generate BTF for the module at the end of their Makefile, as a
    /// distribution's do. The program that generates it is missing here.
    fn headers_with(rule: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let makefile = format!(
            "CONFIG_DEBUG_INFO_BTF_MODULES := y\nmodules:\n\t@touch $(M)/{NAME}.ko\n{rule}\n\
             \t@if true; then kiln-no-pahole -J $(M)/{NAME}.ko; fi\nendif\n"
        );
        fs::write(dir.path().join("Makefile"), makefile).unwrap();
        dir
    }

    #[test]
    fn a_module_needs_no_pahole_and_a_failed_build_names_its_cause() {
        if std::process::Command::new("make")
            .arg("-v")
            .output()
            .is_err()
        {
            return eprintln!("SKIPPED: no make here");
        }
        let Ok(compiler) = Compiler::from_env() else {
            return eprintln!("SKIPPED: no compiler here");
        };
        let stop = AtomicBool::new(false);
        let build_against = |headers: &Path| {
            let out = tempfile::tempdir().unwrap();
            build(&Plan {
                kernel: Kernel::Headers(headers),
                compiler: &compiler,
                dir: out.path().to_owned(),
                edit: &unchanged,
                stop: &stop,
                progress: &|_| (),
            })
            .map(|_| ())
        };
        let optional = headers_with("ifdef CONFIG_DEBUG_INFO_BTF_MODULES");
        build_against(optional.path()).unwrap();
        // Control: headers that require the program unconditionally.
        let always = headers_with("ifdef MAKE");
        let line = build_against(always.path()).unwrap_err().to_string();
        assert!(line.contains("kiln-no-pahole: "), "{line}");
        assert!(
            line.contains("not found") && !line.contains("***"),
            "{line}"
        );
    }
}
