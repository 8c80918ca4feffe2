//! Builds Kiln's Linux module (`linux/module/`). The target kernel's own Kbuild compiles the module
//! from the sources in `kernel/ciphers`.

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

/// Name of the module that interrupts FPU sections at a high rate, for `kiln linux dkms`.
const NEST: &str = "nest";

/// Name of the module that makes deliberate mistakes, which a debug kernel must report, for `kiln
/// linux dkms`.
const FAULT: &str = "fault";

/// Names and sources of the test modules that must not be loaded outside a virtual machine.
const JUDGE: &[(&str, &str)] = &[
    (NEST, include_str!("../../../linux/judge/nest.c")),
    (FAULT, include_str!("../../../linux/judge/fault.c")),
];

/// Prefix of each implementation's driver name in Linux. Linux's own drivers have the same names
/// without the prefix.
pub const PREFIX: &str = "kiln-";

/// Name of the file that contains the known answers. The build script generates it.
const KNOWN: &str = "known.h";

/// Compiler option that adds the parameters with which tests control the module. A module for users
/// is built without this option.
pub(crate) const CONTROLS: &str = "-DKILN_CONTROLS";

/// The DKMS configuration file.
const DKMS: &str = include_str!("../../../packaging/dkms/dkms.conf");

/// Compiler option that raises Linux's limit of 2048 bytes per stack frame. The largest stack frame
/// of a cipher takes 3 KiB, and a kernel stack is 16 KiB.
const FRAME: &str = "-Wframe-larger-than=4096";

/// Kbuild lines that detect whether this kernel's hash algorithms have a `clone_tfm` callback.
/// Linux 6.4 added the callback, and some version after 6.14 removed it.
const CLONES: &str = "clones := $(shell grep -q 'clone_tfm.*struct crypto_shash' \
                      $(srctree)/include/crypto/hash.h && echo -DKILN_SHASH_CLONES)
CFLAGS_check.o := $(clones)
CFLAGS_shash.o := $(clones)

";

/// The kernel that a module is built for.
pub enum Kernel<'a> {
    /// A user mode Linux that Kiln has built.
    User(&'a Built),
    /// Directory of a distribution's headers, such as `/usr/src/linux-headers-6.1.0-32-amd64`.
    Headers(&'a Path),
}

pub struct Plan<'a> {
    pub kernel: Kernel<'a>,
    pub compiler: &'a Compiler,
    /// The build directory. The sources are copied to it before the build.
    pub dir: PathBuf,
    /// Callback that may edit each source file while it is copied. Controls use it to plant faults.
    pub edit: &'a dyn Fn(&str, &'static str) -> String,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Callback that receives the name of each file when its compilation starts.
    pub progress: &'a dyn Fn(&str),
}

#[derive(Debug)]
pub struct Module {
    pub path: PathBuf,
    /// Path of the module that hides algorithms from a benchmark.
    pub hide: PathBuf,
    /// Path of the module that interrupts FPU sections. [`build`] creates it only for a
    /// distribution's kernel.
    pub nest: PathBuf,
    /// Path of the module that makes deliberate mistakes. It too is built only for a distribution's
    /// kernel.
    pub fault: PathBuf,
    /// Warnings from the compiler, modpost and objtool, one per line.
    pub warnings: Vec<String>,
}

pub fn unchanged(_name: &str, text: &'static str) -> String {
    text.to_owned()
}

/// Builds the module for a distribution's kernel in the cache directory.
///
/// # Errors
/// Fails if the headers are missing, or [`build`] fails.
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

/// Like [`for_headers`], but builds the module in the same way as the kiln-crypto-dkms package:
/// from the sources that [`write_sources`] writes, without the test parameters.
///
/// # Errors
/// The same errors as [`for_headers`].
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

/// Returns the name of the build directory for these headers and this compiler.
fn headers_key(headers: &Path, compiler: &Compiler) -> String {
    let compiled = format!("{} {}", compiler.path.display(), compiler.version);
    key(headers, &compiled, 0)
}

/// Builds the parts of the module that are not up to date.
///
/// # Errors
/// Fails if the module does not compile, or the directory cannot be written.
pub fn build(plan: &Plan) -> Result<Module, Error> {
    copy(&plan.dir, plan.edit)?;
    let others: &[&str] = match plan.kernel {
        // In user mode Linux, the module never nests sections, because the host saves each
        // process's registers. A test of nested sections is therefore not needed.
        Kernel::User(_) => &[HIDE],
        Kernel::Headers(_) => {
            for (name, source) in JUDGE {
                update(&plan.dir.join(format!("{name}.c")), source)?;
            }
            &[HIDE, NEST, FAULT]
        }
    };
    update(&plan.dir.join("Kbuild"), &kbuild(others, CONTROLS))?;
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
        nest: plan.dir.join(format!("{NEST}.ko")),
        fault: plan.dir.join(format!("{FAULT}.ko")),
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

/// Writes the module's sources in the layout that DKMS expects in `/usr/src`. `make -C HEADERS` can
/// build this layout too.
///
/// # Errors
/// Fails if the directory exists and is not empty, or cannot be written.
pub fn write_sources(dir: &Path) -> Result<(), Error> {
    let fault = |source| Error::Sources {
        dir: dir.to_owned(),
        source,
    };
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

/// Returns the expected ciphertext of an algorithm's first known answer. The file that is compiled
/// into the module contains the same bytes.
///
/// # Panics
/// Panics if the table has no known answer for the algorithm.
pub(crate) fn known_answer(alg: &str) -> Vec<u8> {
    let table = SOURCES.iter().find(|(name, _)| *name == KNOWN);
    let (_, text) = table.expect("a table of known answers");
    let row = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(&format!("{{ {alg:?}, ")))
        .expect("an algorithm with known answers");
    // The numbers are the offset, followed by the lengths of the key, IV, associated data, text,
    // ciphertext and tag.
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

/// Returns the value for the module's `tiers` parameter that allows the same tiers as `KILN_TIERS`.
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

/// Generates the Kbuild file, which lists every source and its flags. Each name in `others` is
/// another module, built from a single source.
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

/// Generates the lines of the Kbuild file that set the compiler flags for all objects.
pub(crate) fn all_flags(defines: &str) -> String {
    let mut text =
        format!("ccflags-y := -I$(src) -I$(src)/include -I$(src)/kernel/include {defines}\n\n");
    text.push_str(CLONES);
    text.extend(SOURCES.iter().map(|(name, _)| flags(name)));
    text
}

/// Generates the line of the Kbuild file that sets the flags for a single object. Returns an empty
/// string for sources outside `kernel/`, which need no extra flags.
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
        // Add the directory of the compiler's headers, which declare the intrinsics: Linux's build
        // hides these headers.
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
    fn the_package_has_none_of_the_modules_for_tests() {
        let dir = tempfile::tempdir().unwrap();
        update_sources(dir.path()).unwrap();
        for name in [HIDE, NEST, FAULT] {
            assert!(!dir.path().join(format!("{name}.c")).exists(), "{name}");
        }
        // Control: the build for tests includes these modules.
        assert!(kbuild(&[HIDE, NEST, FAULT], CONTROLS)
            .starts_with("obj-m := kiln.o hide.o nest.o fault.o\n"));
    }

    #[test]
    fn warnings_are_found_wherever_they_come_from() {
        let found = warnings(
            "  CC [M]  a.o\na.c:1:2: warning: unused\nWARNING: modpost: missing\n\
             a.o: warning: objtool: f()+0x1: no\nwarning: the compiler differs from the one used\n",
        );
        assert_eq!(found.len(), 3, "{found:?}");
    }

    /// Creates kernel headers whose Makefile ends with a rule that generates BTF for the module, as
    /// a distribution's headers do. The program that should generate the BTF does not exist.
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
        // Control: these headers always require the program.
        let always = headers_with("ifdef MAKE");
        let line = build_against(always.path()).unwrap_err().to_string();
        assert!(line.contains("kiln-no-pahole: "), "{line}");
        assert!(
            line.contains("not found") && !line.contains("***"),
            "{line}"
        );
    }
}
