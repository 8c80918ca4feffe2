//! Builds user mode Linux in the cache directory, outside its source tree. Each combination of tree
//! and compiler has its own build directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use kiln_kbuild::Compiler;
use kiln_tree::{check_tools, hash, key, root, update, Cache, Make, Said, Source};

use crate::Error;

/// Configuration options that are set on top of `allnoconfig`.
const CONFIG: &str = include_str!("../../../linux/um.config");

/// Number of objects that a cold build of 6.12 compiles. Used only for the progress bar.
const USUAL_STEPS: f64 = 1130.0;

/// Number of lines from the end of the log that are shown if a build fails.
const TAIL: usize = 12;

pub struct Plan<'a> {
    /// The source tree. The build does not write to it.
    pub source: Source,
    pub compiler: Compiler,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Callback that receives the completed fraction and a description of the current activity.
    pub progress: &'a dyn Fn(f64, &str),
}

pub struct Built {
    pub linux: PathBuf,
    /// Version from the tree's Makefile, such as 6.12.57.
    pub version: String,
    pub compiler: Compiler,
    /// The cache directory, which stays locked until this value is dropped.
    pub cache: Cache,
}

impl Built {
    /// Returns the content of a module's file, or `None` if the file does not exist, for example
    /// because the module is built in.
    pub(crate) fn module_if_any(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.cache.objects.join(path)).ok()
    }

    /// Returns the content of a module's file, such as `crypto/tcrypt.ko`.
    ///
    /// # Errors
    /// Fails if the tree has no such module.
    pub fn module(&self, path: &str) -> Result<Vec<u8>, Error> {
        fs::read(self.cache.objects.join(path)).map_err(|source| Error::NoModule {
            version: self.version.clone(),
            path: path.to_owned(),
            source,
        })
    }
}

/// Builds the parts of the kernel that are not up to date.
///
/// # Errors
/// Fails if the machine lacks a tool, the cache cannot be used, or the tree does not build. If the
/// tree does not build, the message contains the end of the build log.
pub fn build(plan: &Plan) -> Result<Built, Error> {
    check_tools(&plan.compiler)?;
    if !plan.source.dir.join("arch/um").is_dir() {
        return Err(Error::NoUserMode(plan.source.dir.clone()));
    }
    check_register_room(&plan.source.dir)?;
    let compiler = format!("{} {}", plan.compiler.path.display(), plan.compiler.version);
    let dir = root()?
        .join("kiln/linux/um")
        .join(key(&plan.source.dir, &compiler, 0));
    let cache = Cache::open(dir, &plan.source, plan.stop, plan.progress)?;
    let _ = fs::remove_file(&cache.log);
    configure(plan, &cache)?;
    let mut count = 0.0;
    let said = make(plan, &cache, &["linux", "modules"], &mut |what| {
        count += 1.0;
        (plan.progress)(0.05 + 0.9 * f64::min(count / USUAL_STEPS, 1.0), what);
    })?;
    let linux = cache.objects.join("linux");
    if !said.success || !linux.is_file() {
        return Err(failed(plan, "does not build", &said, &cache.log));
    }
    Ok(Built {
        linux,
        version: plan.source.version.to_string(),
        compiler: plan.compiler.clone(),
        cache,
    })
}

/// Checks that this tree's user mode Linux can store the CPU's extended registers. Before 6.13, its
/// register buffer has a fixed size that is too small for AMX, and the first process would die
/// ("ptrace set fp regs failed, errno = 14").
pub fn check_register_room(tree: &Path) -> Result<(), Error> {
    match register_room(tree) {
        Some(room) if room < xsave_bytes() => Err(Error::RegisterRoom {
            tree: tree.to_owned(),
            room,
            needed: xsave_bytes(),
        }),
        _ => Ok(()),
    }
}

/// Returns the size in bytes of the buffer for extended registers in this tree's user mode Linux,
/// or `None` if user mode Linux asks the host for the size.
fn register_room(tree: &Path) -> Option<u32> {
    let text = fs::read_to_string(tree.join("arch/x86/um/user-offsets.c")).ok()?;
    let mut sizes = text.lines().filter_map(|line| {
        let size = line.trim().strip_prefix("DEFINE_LONGS(HOST_FP_SIZE, ")?;
        size.strip_suffix(");")?.parse().ok()
    });
    sizes.next_back()
}

/// Returns the size in bytes of the XSAVE area in standard format, with all features that the host
/// has enabled.
// Only older toolchains need the `unsafe` block: newer ones declare `__cpuid_count` safe.
#[allow(unused_unsafe)]
fn xsave_bytes() -> u32 {
    // SAFETY: every CPU that Kiln runs on has CPUID. If a CPU lacks leaf 13, the instruction
    // returns other values but does not fault.
    unsafe { std::arch::x86_64::__cpuid_count(13, 0) }.ebx
}

/// Creates an error whose message is a one-line description followed by the end of the log.
fn failed(plan: &Plan, how: &'static str, said: &Said, log: &Path) -> Error {
    let lines: Vec<&str> = said.text.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n  ");
    Error::Build {
        what: format!("Linux {} {how} with {}", plan.source.version, plan.compiler),
        cause: said.cause(),
        log: log.to_owned(),
        tail,
    }
}

/// Configures the tree if the inputs of the configuration have changed. Otherwise leaves the
/// configuration untouched, because a new timestamp would make every object out of date.
fn configure(plan: &Plan, cache: &Cache) -> Result<(), Error> {
    let fragment = cache.dir.join("um.config");
    let stamp = cache.dir.join("configured");
    let wanted = format!(
        "{} {:016x}",
        plan.source.version,
        hash(&[CONFIG.as_bytes()])
    );
    let done = cache.objects.join(".config").is_file();
    if done && fs::read_to_string(&stamp).is_ok_and(|s| s == wanted) {
        return Ok(());
    }
    (plan.progress)(0.02, "configuration");
    update(&fragment, CONFIG)?;
    let all = format!("KCONFIG_ALLCONFIG={}", fragment.display());
    let said = make(plan, cache, &[&all, "allnoconfig"], &mut |_| ())?;
    if !said.success {
        return Err(failed(plan, "cannot be configured", &said, &cache.log));
    }
    update(&stamp, &wanted)?;
    Ok(())
}

fn make(
    plan: &Plan,
    cache: &Cache,
    targets: &[&str],
    step: &mut dyn FnMut(&str),
) -> Result<Said, kiln_tree::Error> {
    let objects = format!("O={}", cache.objects.display());
    let mut arguments = vec![objects.as_str(), "ARCH=um"];
    arguments.extend(targets);
    Make {
        directory: &cache.source,
        compiler: &plan.compiler,
        log: &cache.log,
        stop: plan.stop,
    }
    .run(&arguments, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_whose_buffer_is_smaller_than_the_cpus_registers_is_refused() {
        let tree = tempfile::tempdir().unwrap();
        let file = tree.path().join("arch/x86/um/user-offsets.c");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let with = |size: &str| {
            let text =
                format!("\tDEFINE_LONGS(HOST_FP_SIZE, sizeof(struct user_fpregs_struct));\n{size}");
            fs::write(&file, text).unwrap();
            check_register_room(tree.path())
        };
        // Linux 6.13 and later do not have this line.
        assert!(with("").is_ok());
        assert!(with("\tDEFINE_LONGS(HOST_FP_SIZE, 1000000);\n").is_ok());
        // 511 bytes are not enough for any CPU, because FXSAVE alone stores 512 bytes.
        let message = with("\tDEFINE_LONGS(HOST_FP_SIZE, 511);\n")
            .unwrap_err()
            .to_string();
        assert!(message.contains("can store 511 bytes"), "{message}");
    }
}
