//! Runs the tree's own build in a separate directory, first to configure the tree and then to build
//! the objects.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};

use kiln_kbuild::{first_error, states_error, Compiler};

use crate::cache::{update, Cache, CONFIGURING};
use crate::config::{self, Taken};
use crate::place::hash;
use crate::replay::Last;
use crate::services::{self, Services, HEADERS};
use crate::suites::LeftOut;
use crate::{search, tiers, tools, Error, Plan};

/// Returns whether the tree can be hosted even if this glue file does not compile. Such optional
/// files call functions that other versions of Linux may declare differently.
pub(crate) fn is_optional(glue: &str) -> bool {
    glue.starts_with("kiln_library")
}

/// Glue files, which the tree's build compiles against the tree's headers, so that layouts and
/// signatures always match.
pub(crate) const GLUE: [(&str, &str); 27] = [
    ("kiln_glue", include_str!("../../../tree/glue.c")),
    ("kiln_contexts", include_str!("../../../tree/contexts.c")),
    ("kiln_cpu", include_str!("../../../tree/cpu.c")),
    ("kiln_versions", include_str!("../../../tree/versions.c")),
    ("kiln_fpu", include_str!("../../../tree/fpu.c")),
    ("kiln_request", include_str!("../../../tree/request.c")),
    (
        "kiln_library",
        include_str!("../../../tree/library/library.c"),
    ),
    (
        "kiln_library_hashes",
        include_str!("../../../tree/library/hashes.c"),
    ),
    (
        "kiln_library_ciphers",
        include_str!("../../../tree/library/ciphers.c"),
    ),
    (
        "kiln_library_checksums",
        include_str!("../../../tree/library/checksums.c"),
    ),
    (
        "kiln_library_delays",
        include_str!("../../../tree/library/delays.c"),
    ),
    ("kiln_kunit", include_str!("../../../tree/kunit.c")),
    ("kiln_prove", include_str!("../../../tree/prove.c")),
    ("kiln_stream", include_str!("../../../tree/stream.c")),
    (
        "kiln_oracle_reach",
        include_str!("../../../tree/oracles/reach.c"),
    ),
    (
        "kiln_oracle_examine",
        include_str!("../../../tree/oracles/examine.c"),
    ),
    (
        "kiln_oracle_memory",
        include_str!("../../../tree/oracles/memory.c"),
    ),
    (
        "kiln_oracle_context",
        include_str!("../../../tree/oracles/context.c"),
    ),
    (
        "kiln_oracle_values",
        include_str!("../../../tree/oracles/values.c"),
    ),
    (
        "kiln_oracle_leaks",
        include_str!("../../../tree/oracles/leaks.c"),
    ),
    (
        "kiln_oracle_failures",
        include_str!("../../../tree/oracles/failures.c"),
    ),
    (
        "kiln_oracle_fill",
        include_str!("../../../tree/oracles/fill.c"),
    ),
    (
        "kiln_oracle_registers",
        include_str!("../../../tree/oracles/registers.c"),
    ),
    (
        "kiln_oracle_bounds",
        include_str!("../../../tree/oracles/bounds.c"),
    ),
    (
        "kiln_oracle_queues",
        include_str!("../../../tree/oracles/queues.c"),
    ),
    (
        "kiln_oracle_sequence",
        include_str!("../../../tree/oracles/sequence.c"),
    ),
    (
        "kiln_oracle_sharing",
        include_str!("../../../tree/oracles/sharing.c"),
    ),
];

/// Directories whose objects form the crypto stack, in the kernel's link order.
pub(crate) const STACK: [&str; 4] = [
    "arch/x86/kernel/fpu",
    "crypto",
    "arch/x86/crypto",
    "lib/crypto",
];

/// Additional directories that contain the library's SIMD code and its dependencies.
pub(crate) const LIBRARY_DIRS: [&str; 7] = [
    "arch/x86/lib/crypto",
    "lib/crc",
    "lib/kunit",
    "lib/lzo",
    "lib/math",
    "lib/mpi",
    "lib/raid",
];

/// Library directories and objects that the KUnit suites do not need. Compiling them would lengthen
/// a cold build of the library and its suites by more than a tenth. If a suite needs one of these objects
/// in some version of Linux, the search for undefined symbols adds it to the build.
const NOT_NEEDED_BY_SUITES: [&str; 17] = [
    "arch/x86/kernel/cpu/match",
    "lib/argv_split",
    "lib/asn1_decoder",
    "lib/bsearch",
    "lib/crypto/aescfb",
    "lib/crypto/arc4",
    "lib/list_sort",
    "lib/llist",
    "lib/lz4/",
    "lib/lzo",
    "lib/math",
    "lib/mpi",
    "lib/oid_registry",
    "lib/once",
    "lib/parser",
    "lib/rbtree",
    "lib/xxhash",
];

/// An assignment for make that leaves `lib/crypto/mpi` out of the build of `lib/crypto`. Only the
/// crypto API's public-key algorithms need the multi-precision integers in that directory.
const WITHOUT_MPI: &str = "CONFIG_MPILIB=";

/// Assignments for make that leave out the KUnit suites in `lib/kunit` and `lib/math`, which Kiln
/// does not run. Kconfig cannot leave them out: `CONFIG_KUNIT_ALL_TESTS` hides their options.
const WITHOUT_OTHER_SUITES: [&str; 9] = [
    "CONFIG_KUNIT_TEST=",
    "CONFIG_KUNIT_EXAMPLE_TEST=",
    "CONFIG_GCD_KUNIT_TEST=",
    "CONFIG_INT_LOG_KUNIT_TEST=",
    "CONFIG_INT_POW_KUNIT_TEST=",
    "CONFIG_INT_SQRT_KUNIT_TEST=",
    "CONFIG_POLYNOMIAL_KUNIT_TEST=",
    "CONFIG_PRIME_NUMBERS_KUNIT_TEST=",
    "CONFIG_RATIONAL_KUNIT_TEST=",
];

/// An assignment for make that adds compiler flags for host programs, such as objtool. These flags
/// make the programs faster to compile, which shortens a cold build, because compiling the programs
/// takes longer than running them.
const HOST_FLAGS: &str = "HOSTCFLAGS=-O1 -g0 -Wno-error";

/// The library directories whose KUnit suites are linked.
const SUITES: [&str; 2] = ["lib/crc", "lib/raid"];

/// Objects in directories that a build for suites leaves out, but that cannot be left out
/// themselves: the glue needs the first one, and `lib/kstrtox` the second.
const CORE: [&str; 2] = ["crypto/api", "lib/math/int_pow"];

/// Glue files that call the crypto API.
const GLUE_OF_API: [&str; 3] = ["kiln_contexts", "kiln_request", "kiln_stream"];

/// Functions that the glue refers to, but that a build for suites lacks. Such a build never calls
/// them.
const NOT_FOR_SUITES: [&str; 3] = ["alg_test", "kiln_library_call", "kiln_library_call_pair"];

/// The part of a tree to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// The library and its KUnit suites, without the crypto API and its drivers, and without what
    /// the selected suites do not need.
    Suites(LeftOut),
}

impl Part {
    /// Returns the approximate number of objects that a cold build of a recent tree compiles. The
    /// number is used only for the progress bar.
    fn usual_steps(&self) -> f64 {
        match self {
            Part::Whole => 520.0,
            Part::Suites(left_out) if left_out.dirs.is_empty() => 280.0,
            Part::Suites(_) => 220.0,
        }
    }

    /// Returns whether this part contains `name`, which is either a directory of the library, or an
    /// object without its suffix.
    fn contains(&self, name: &str) -> bool {
        match self {
            Part::Whole => true,
            Part::Suites(left_out) => {
                !NOT_NEEDED_BY_SUITES.contains(&name) && !left_out.contains(name)
            }
        }
    }

    /// Returns the make assignments that exclude code that this part does not need from the build.
    fn assignments(&self) -> Vec<String> {
        let mut all: Vec<String> = WITHOUT_OTHER_SUITES.map(String::from).to_vec();
        if let Part::Suites(left_out) = self {
            all.push(WITHOUT_MPI.to_owned());
            all.extend(left_out.assignments.iter().cloned());
        }
        all
    }

    /// Returns the directories in [`STACK`] that belong to this part.
    fn stack(&self) -> impl Iterator<Item = &'static str> + '_ {
        let api = ["crypto", "arch/x86/crypto"];
        let all = STACK.into_iter();
        all.filter(move |dir| *self == Part::Whole || !api.contains(dir))
    }

    /// Returns the functions that the glue refers to but this part lacks.
    pub(crate) fn missing(&self) -> &'static [&'static str] {
        match self {
            Part::Whole => &[],
            Part::Suites(_) => &NOT_FOR_SUITES,
        }
    }

    fn glue(&self) -> impl Iterator<Item = &'static str> + '_ {
        let is_other = |name: &str| {
            let calls_api = GLUE_OF_API.contains(&name) || name.starts_with("kiln_oracle_");
            calls_api || is_optional(name)
        };
        let all = GLUE.into_iter().map(|(name, _)| name);
        all.filter(move |name| *self == Part::Whole || !is_other(name))
    }
}

/// The object that contains the tree's benchmark, and the modified copy that is linked in its
/// place.
const TCRYPT: &str = "crypto/tcrypt.o";
const BENCHMARK: &str = "crypto/kiln_tcrypt.o";

/// An object file that belongs to the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    /// Path relative to the build directory.
    pub path: String,
    /// Whether the object is linked only if other objects need it.
    pub library: bool,
}

/// The products of a build.
pub(crate) struct Built {
    /// The objects, in link order.
    pub objects: Vec<Object>,
    /// Objects that failed to compile, each with the compiler's first error.
    pub failures: Vec<(String, String)>,
}

/// A directory that must be built as a single target. If its objects were separate make targets,
/// two Makefiles with different flags would each compile them, and every run would rebuild all of
/// them.
const TWICE: &str = "arch/x86/lib/";

/// The message that Kbuild's fixdep prints if two make processes compile the same object at the
/// same time. If this happens, a second run of make builds the missing objects.
const COLLISION: &str = "fixdep: error opening file";

/// Builds a part of the tree, the usual library objects, and the library objects in `more`. Objects
/// that are up to date are not rebuilt.
pub(crate) fn build(
    plan: &Plan,
    cache: &Cache,
    more: &BTreeSet<String>,
    part: &Part,
) -> Result<Built, Error> {
    let has = |path: &str| cache.source.join(path).exists();
    let mut glue_is_new = false;
    for (name, text) in GLUE {
        glue_is_new |= update(&cache.objects.join(format!("lib/{name}.c")), text)?;
    }
    for (name, text) in HEADERS {
        glue_is_new |= update(&cache.objects.join("lib").join(name), text)?;
    }
    glue_is_new |= update(&cache.objects.join("lib/kiln/tiers.h"), &tiers::header())?;
    let mut targets: Vec<String> = part
        .stack()
        .chain(LIBRARY_DIRS.into_iter().filter(|dir| part.contains(dir)))
        .filter(|dir| has(&format!("{dir}/Makefile")))
        .map(|dir| format!("{dir}/"))
        .collect();
    targets.extend(part.glue().map(|name| format!("lib/{name}.o")));
    let mut core = BTreeSet::new();
    match part {
        // tcrypt is a separate target, because if it were built in, its initcall would run the
        // benchmark.
        Part::Whole => targets.extend(has("crypto/tcrypt.c").then(|| TCRYPT.to_string())),
        Part::Suites(_) => core.extend(CORE),
    }
    let usual = search::USUAL.into_iter().filter(|name| part.contains(name));
    let library: BTreeSet<&str> = usual
        .chain(core)
        .chain(more.iter().map(String::as_str))
        .filter(|o| ["", ".c", ".S"].iter().any(|end| has(&format!("{o}{end}"))))
        .collect();
    let targets_of = library.iter().map(|o| match o.ends_with('/') {
        true => o.to_string(),
        false if o.starts_with(TWICE) => TWICE.to_string(),
        false => format!("{o}.o"),
    });
    targets.extend(targets_of.collect::<BTreeSet<_>>());

    let mut count = 0.0;
    targets.extend(part.assignments());
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let mut step = |what: &str| {
        count += 1.0;
        (plan.progress)(0.05 + 0.9 * (count / part.usual_steps()).min(1.0), what);
    };
    let last = Last::of(plan, cache, &targets);
    if glue_is_new {
        last.forget();
    }
    if last.update(&mut step)? {
        benchmark(cache)?;
        return Ok(Built {
            objects: list_objects(cache, &library, part)?,
            failures: Vec::new(),
        });
    }
    let mut said = make(plan, cache, &targets, &mut step)?;
    let broken = broken_commands(&said.text);
    if !broken.is_empty() || said.text.contains(COLLISION) {
        for path in broken {
            let _ = fs::remove_file(cache.objects.join(path));
        }
        said = make(plan, cache, &targets, &mut step)?;
    }
    let failures = failures(&said.text);
    benchmark(cache)?;
    let objects = list_objects(cache, &library, part)?;
    if said.success {
        let made = objects.iter().map(|o| o.path.as_str());
        last.keep(made.filter(|path| *path != BENCHMARK));
    }
    for name in part.glue() {
        let object = format!("lib/{name}.o");
        // If compilation failed, the object file of an earlier build may still exist, so also check
        // the list of failures.
        let failed = failures.iter().find(|(path, _)| *path == object);
        if is_optional(name) || cache.objects.join(&object).is_file() && failed.is_none() {
            continue;
        }
        let why = |(object, why): &(String, String)| format!(": {object}: {why}");
        return Err(Error::Build {
            version: plan.source.version.to_string(),
            what: "does not build",
            cause: failed
                .or(failures.first())
                .map_or_else(|| said.cause(), why),
            log: cache.log.clone(),
        });
    }
    Ok(Built { objects, failures })
}

/// Creates a copy of tcrypt that has no initcall, and renames the symbols that Kiln looks up.
fn benchmark(cache: &Cache) -> Result<(), Error> {
    let (from, to) = (cache.objects.join(TCRYPT), cache.objects.join(BENCHMARK));
    if !from.is_file() {
        let _ = fs::remove_file(to);
        return Ok(());
    }
    let time = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    if time(&to) > time(&from) {
        return Ok(());
    }
    let mut command = Command::new("objcopy");
    for (name, called) in [
        ("tcrypt_mod_init", "kiln_glue_tcrypt"),
        ("mode", "kiln_glue_tcrypt_mode"),
        ("sec", "kiln_glue_tcrypt_sec"),
    ] {
        command.arg(format!("--redefine-sym={name}={called}"));
        command.arg(format!("--globalize-symbol={called}"));
    }
    // objcopy applies --globalize-symbol before it renames symbols, so use the old names here.
    for name in ["tcrypt_mod_init", "mode", "sec"] {
        command.arg(format!("--globalize-symbol={name}"));
    }
    command
        .args(["--wildcard", "--remove-section=.initcall*"])
        .args([&from, &to]);
    tools::run(&mut command, "binutils")?.map_err(Error::UnusableTcrypt)
}

/// Runs Kconfig, unless the tree is already configured, and compiles the services. Because Kconfig
/// keeps one core busy for about ten seconds, objtool and the services are compiled on another core
/// at the same time.
pub(crate) fn prepare(plan: &Plan, cache: &Cache) -> Result<(Taken, Services), Error> {
    File::create(&cache.log).map_err(|e| Error::cache(&cache.log, e))?;
    let config = &plan.config;
    let lacks = "arch/x86/configs/x86_64_defconfig";
    let defconfig = fs::read(cache.source.join(lacks)).map_err(|_| Error::Incomplete {
        dir: plan.source.dir.clone(),
        version: plan.source.version.to_string(),
        lacks,
    })?;
    let wanted = format!("{:016x}", hash(&[&defconfig, &config.key().to_le_bytes()]));
    let stamp = cache.dir.join("configured");
    let path = cache.objects.join(CONFIG);
    let is_configured =
        path.is_file() && fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == wanted);
    let (compiler, stop) = (&plan.compiler, plan.stop);
    thread::scope(|scope| {
        let services = scope.spawn(move || {
            if !is_configured && config.base.is_none() {
                build_objtool(compiler, cache, stop);
            }
            services::compile(compiler, cache)
        });
        let taken = if is_configured {
            config::compare(config, &read_config(cache)?)
        } else {
            let taken = configure(plan, cache)?;
            update(&stamp, &wanted)?;
            taken
        };
        Ok((taken, services.join().expect("the thread does not panic")?))
    })
}

/// The file that Kconfig writes.
const CONFIG: &str = ".config";

fn read_config(cache: &Cache) -> Result<String, Error> {
    let path = cache.objects.join(CONFIG);
    fs::read_to_string(&path).map_err(|e| Error::cache(&path, e))
}

fn configure(plan: &Plan, cache: &Cache) -> Result<Taken, Error> {
    let config = &plan.config;
    let path = cache.objects.join(CONFIG);
    let step = |targets: &[&str]| {
        (plan.progress)(0.02, CONFIGURING);
        let said = make(plan, cache, targets, &mut |_| ())?;
        if said.success {
            return Ok(());
        }
        Err(Error::Build {
            version: plan.source.version.to_string(),
            what: "cannot be configured",
            cause: said.cause(),
            log: cache.log.clone(),
        })
    };
    let append = |text: &str| {
        let mut file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(|e| Error::cache(&path, e))?;
        file.write_all(text.as_bytes())
            .map_err(|e| Error::cache(&path, e))
    };
    match &config.base {
        Some(base) => fs::write(&path, base).map_err(|e| Error::cache(&path, e))?,
        None => step(&["x86_64_defconfig"])?,
    }
    append(&format!("\n{}", config.fragment))?;
    step(&["olddefconfig"])?;
    let mut taken = config::compare(config, &read_config(cache)?);
    if let Some(more) = taken.again {
        append(more)?;
        step(&["olddefconfig"])?;
        taken = config::compare(config, &read_config(cache)?);
        if taken.again.is_some() {
            return Err(Error::PreemptUncounted(plan.source.version.to_string()));
        }
    }
    Ok(taken)
}

/// Builds objtool on one core, in the directory where the kernel build will look for it. Errors are
/// ignored, because the kernel build will run into them again and report them.
fn build_objtool(compiler: &Compiler, cache: &Cache, stop: &AtomicBool) {
    let directory = cache.source.join("tools");
    let to = cache.objects.join("tools");
    if !directory.join("objtool/Makefile").is_file() || fs::create_dir_all(to).is_err() {
        return;
    }
    let objects = format!("O={}/", cache.objects.display());
    let arguments = [
        &objects,
        "-j1",
        "ARCH=x86_64",
        HOST_FLAGS,
        "subdir=tools",
        "objtool",
    ];
    let make = Make {
        directory: &directory,
        compiler,
        log: &cache.log,
        stop,
    };
    let _ = make.run(&arguments, &mut |_| ());
}

/// The output of a build, and whether the build succeeded.
pub struct Said {
    /// Everything that make printed to standard output and standard error, in the original order.
    pub text: String,
    /// Whether make returned exit status 0.
    pub success: bool,
}

impl Said {
    /// Returns the first error that the build printed, preceded by `: ` so that it can be appended
    /// to a message. Returns an empty string if the build printed no error.
    pub fn cause(&self) -> String {
        first_error(&self.text).map_or(String::new(), |line| format!(": {line}"))
    }
}

fn make(
    plan: &Plan,
    cache: &Cache,
    targets: &[&str],
    step: &mut dyn FnMut(&str),
) -> Result<Said, Error> {
    let objects = format!("O={}", cache.objects.display());
    let mut arguments = vec![objects.as_str(), "ARCH=x86_64", "-k", HOST_FLAGS];
    arguments.extend(targets);
    Make {
        directory: &cache.source,
        compiler: &plan.compiler,
        log: &cache.log,
        stop: plan.stop,
    }
    .run(&arguments, step)
}

/// An argument for [`Make::run`] that disables BTF for modules. Kiln does not need BTF, and
/// generating it would require pahole.
pub const WITHOUT_BTF: &str = "CONFIG_DEBUG_INFO_BTF_MODULES=";

/// The settings for running a kernel's build system.
pub struct Make<'a> {
    /// Directory that contains the Makefile.
    pub directory: &'a Path,
    pub compiler: &'a Compiler,
    /// Log file that receives a copy of make's output.
    pub log: &'a Path,
    /// Set when the user presses Ctrl-C. The terminal also interrupts make itself.
    pub stop: &'a AtomicBool,
}

impl Make<'_> {
    /// Runs make on all CPUs. Calls `step` with each object when its compilation starts.
    ///
    /// # Errors
    /// Fails if make is not installed, the disk is full, or the build was interrupted.
    pub fn run(&self, arguments: &[&str], step: &mut dyn FnMut(&str)) -> Result<Said, Error> {
        let jobs = available_parallelism().map_or(2, |n| n.get());
        let mut command = Command::new("sh");
        tools::clear_environment(&mut command);
        // Merge standard output and standard error into one stream to preserve the order of
        // messages.
        command
            .args(["-c", "exec make \"$@\" 2>&1", "make", "-C"])
            .arg(self.directory)
            .arg(format!("-j{jobs}"))
            .arg(format!("CC={}", self.compiler.path.display()))
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log)
            .map_err(|e| Error::cache(self.log, e))?;
        let mut child = command
            .spawn()
            .map_err(|e| Error::tool("cannot run make", "make", e))?;
        let mut text = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            // Ignore errors when writing the log. If the disk is full, make reports that too.
            let _ = log.write_all(&line);
            let said = String::from_utf8_lossy(&line);
            if let Some(object) = compiled(&said) {
                step(object);
            }
            text.push_str(&said);
            line.clear();
        }
        let status = child.wait().map_err(|e| Error::host("make", e))?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        for (needle, lack) in [
            ("No space left on device", libc::ENOSPC),
            ("Disk quota exceeded", libc::EDQUOT),
            ("Read-only file system", libc::EROFS),
        ] {
            if !status.success() && text.contains(needle) {
                let place = self.log.parent().unwrap_or(self.log);
                return Err(Error::cache(place, std::io::Error::from_raw_os_error(lack)));
            }
        }
        Ok(Said {
            text,
            success: status.success(),
        })
    }
}

/// Extracts the object's path from a line such as `  CC      crypto/api.o`.
fn compiled(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("  ")?.split_whitespace();
    let (verb, object) = (words.next()?, words.next()?);
    let known = ["CC", "AS", "AR", "HOSTCC", "PERLASM", "LD"].contains(&verb);
    (known && words.next().is_none()).then_some(object)
}

/// Finds the command files (`.cmd`) that make cannot read, for example because an earlier build was
/// interrupted. Such a file prevents make from compiling anything in its directory, so stale
/// objects would be used.
fn broken_commands(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter_map(|l| l.split_once(": *** "));
    let places = lines.filter_map(|(place, _)| place.rsplit_once(':'));
    let files = places.map(|(file, _)| file.trim());
    files.filter(|file| file.ends_with(".cmd")).collect()
}

/// Finds the objects that failed to build, each with the first compiler error that preceded it.
fn failures(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut errors: Vec<&str> = Vec::new();
    for line in text.lines() {
        if states_error(line) {
            errors.push(line);
            continue;
        }
        let Some(object) = line
            .split_once("*** [")
            .and_then(|(_, rest)| rest.split_once(']'))
            .and_then(|(inner, _)| inner.rsplit_once(": "))
            .map(|(_, object)| object.trim())
            .filter(|object| object.ends_with(".o"))
        else {
            continue;
        };
        // Jobs run in parallel, so the first error may belong to another object. Prefer an error
        // that names this object's source file.
        let stem = object.trim_end_matches(".o");
        let why = errors
            .iter()
            .find(|e| e.contains(stem))
            .or(errors.first())
            .map_or("does not compile", |e| e);
        if found.iter().all(|(o, _)| o != object) {
            found.push((object.to_string(), why.trim().to_string()));
        }
    }
    found
}

/// Lists the members of the directories' archives in link order, followed by the library objects.
fn list_objects(
    cache: &Cache,
    library: &BTreeSet<&str>,
    part: &Part,
) -> Result<Vec<Object>, Error> {
    let stack = |path: String| Object {
        path,
        library: false,
    };
    let glue = part.glue().map(|name| stack(format!("lib/{name}.o")));
    let mut objects: Vec<Object> = glue.collect();
    let of_stack = part.stack().map(|dir| (dir, false));
    for (dir, library) in of_stack.chain(LIBRARY_DIRS.map(|dir| (dir, true))) {
        for path in members(cache, dir)? {
            // Link the suites although no other object needs them.
            let library = library && !(SUITES.contains(&dir) && path.ends_with("_kunit.o"));
            objects.push(Object { path, library });
        }
    }
    for name in library {
        let paths = match name.strip_suffix('/') {
            Some(dir) => members(cache, dir)?,
            None => vec![format!("{name}.o")],
        };
        objects.extend(paths.into_iter().map(|path| Object {
            path,
            library: true,
        }));
    }
    if *part == Part::Whole {
        objects.push(stack(BENCHMARK.into()));
    }
    objects.retain(|o| o.path != TCRYPT);
    let mut seen = HashSet::new();
    objects.retain(|o| seen.insert(o.path.clone()) && cache.objects.join(&o.path).is_file());
    Ok(objects)
}

/// Lists a directory's objects. Normally, these are the members of the directory's archives. If an
/// object failed to build, make did not create the archive, so the existing object files are listed
/// in alphabetical order.
fn members(cache: &Cache, dir: &str) -> Result<Vec<String>, Error> {
    let mut members = Vec::new();
    let mut is_whole = cache.objects.join(dir).join("built-in.a").is_file();
    for archive in ["built-in.a", "lib.a"] {
        let archive = format!("{dir}/{archive}");
        if !cache.objects.join(&archive).is_file() {
            continue;
        }
        let output = Command::new("ar")
            .args(["t", &archive])
            .current_dir(&cache.objects)
            .output()
            .map_err(|e| Error::tool("ar", "binutils", e))?;
        // The thin archive may be left over from an earlier build. If one of its objects has since
        // been deleted, ar fails, and the existing object files are listed instead.
        is_whole &= output.status.success();
        members.extend(
            String::from_utf8_lossy(&output.stdout)
                .lines()
                .map(String::from),
        );
    }
    if !is_whole {
        members.clear();
        scan(&cache.objects, Path::new(dir), &mut members);
        members.sort();
    }
    Ok(members)
}

/// Finds the objects that Kbuild has compiled below a directory. Each of these objects has a
/// command file.
fn scan(root: &Path, dir: &Path, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(root.join(dir)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = dir.join(&name);
        if entry.path().is_dir() {
            scan(root, &path, found);
        } else if name.ends_with(".o") && root.join(dir).join(format!(".{name}.cmd")).is_file() {
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_from_the_output() {
        assert_eq!(compiled("  CC      crypto/api.o\n"), Some("crypto/api.o"));
        assert_eq!(compiled("  CALL    scripts/checksyscalls.sh\n"), None);
        assert_eq!(compiled("make[1]: Entering directory\n"), None);
    }

    #[test]
    fn a_failed_object_has_its_compilers_first_error() {
        let text = "  CC      crypto/api.o\n\
                    /t/crypto/md5.c:3:1: error: expected ';'\n\
                    /t/crypto/xts.c:12:5: error: 'x' undeclared\n\
                    /t/crypto/xts.c:13:5: error: more\n\
                    make[4]: *** [/t/scripts/Makefile.build:229: crypto/xts.o] Error 1\n\
                    make[3]: *** [/t/scripts/Makefile.build:478: crypto] Error 2\n";
        let found = failures(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "crypto/xts.o");
        assert!(found[0].1.ends_with("'x' undeclared"), "{found:?}");
    }

    #[test]
    fn commands_that_cannot_be_read_are_named() {
        let text = "  CC      lib/a.o\n\
                    arch/x86/lib/.memset_64.o.cmd:103: *** missing separator.  Stop.\n\
                    make[3]: *** [/t/scripts/Makefile.build:556: arch/x86] Error 2\n\
                    arch/x86/lib/.memset_64.o.cmd:103: *** missing separator.  Stop.\n\
                    /t/crypto/Makefile:3: *** missing separator.  Stop.\n";
        let broken: Vec<&str> = broken_commands(text).into_iter().collect();
        assert_eq!(broken, ["arch/x86/lib/.memset_64.o.cmd"]);
    }
}
