//! Tests the module without booting a kernel. Kiln's module is linked into a hosted tree and
//! registers its drivers with the tree's crypto API. The tree's own testmgr tests them on the
//! emulated CPU while interrupts arrive. Drivers that pass are also run in softirqs.

use std::ffi::{c_char, CString, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use kiln_kbuild::Compiler;
use kiln_kernel::cipher::{Impl, Kind};
use kiln_tree::child::Order;
use kiln_tree::contexts::{self, Driver, Tried};
use kiln_tree::event::Event;
use kiln_tree::{
    interrupted_with, run_tool, update, Cache, Config, Guest, Host, Image, Make, Seen, Source,
    Symbols, Trial,
};

use crate::module;
use crate::selftest::{select_impls, Heard, Outcome, Row};
use crate::Error;

/// Name of the module's object, and of its directory in the tree's cache.
const NAME: &str = "ciphers";

/// The module's symbols that this file uses, each with its new name. The new names begin with
/// `kiln_glue_`, because only symbols with this prefix are visible outside an image.
const NAMES: [(&str, &str); 5] = [
    ("kiln_init", INIT),
    ("only", ONLY),
    ("tiers", TIERS),
    ("all", ALL),
    ("check", CHECK),
];
const INIT: &str = "kiln_glue_module_init";
const ONLY: &str = "kiln_glue_module_only";
const TIERS: &str = "kiln_glue_module_tiers";
const ALL: &str = "kiln_glue_module_all";
const CHECK: &str = "kiln_glue_module_check";

/// Estimated shares of the total time spent on building and on testmgr's tests. Used only for the
/// progress bar.
const BUILDING: f64 = 0.9;
const TESTING: f64 = 0.05;

/// Options for testing the module in a hosted tree.
pub struct Plan<'a> {
    pub source: Source,
    /// The compiler that builds the tree and the module.
    pub compiler: Compiler,
    /// Edits one of the module's source files; controls use this to plant faults.
    pub edit: &'a dyn Fn(&str, &'static str) -> String,
    /// Algorithm or driver to test; `None` tests all.
    pub only: Option<&'a str>,
    /// Iterations of each random test; `None` selects Linux's default of 100.
    pub fuzz: Option<u32>,
    pub seed: u64,
    /// Command-line arguments that make this program call [`judge`] in a child process.
    pub arguments: &'a [OsString],
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Callback that receives the completed fraction and a description of the current activity.
    pub progress: &'a dyn Fn(f64, &str),
}

/// Builds the tree and the module, hosts both, and collects each driver's result.
///
/// # Errors
/// Fails if the tree or the module does not build or cannot be hosted, or if the tree did not run
/// its full tests.
pub fn run(plan: &Plan) -> Result<Outcome, Error> {
    let tree = kiln_tree::Plan {
        source: plan.source.clone(),
        compiler: plan.compiler.clone(),
        config: Config::default(),
        seed: plan.seed,
        stop: plan.stop,
        progress: &|done, what| (plan.progress)(done * BUILDING, what),
    };
    let built = kiln_tree::build_with(
        &tree,
        &Guest {
            name: NAME,
            compile: &|cache| compile(plan, cache).map_err(|e| kiln_tree::Error::Guest(e.into())),
        },
    )?;
    let seen = Trial {
        image: &built.image,
        seed: plan.seed,
        // Do not test the tree's own drivers; another command does that.
        tests: false,
        fuzz: plan.fuzz,
        usual: select_impls(plan.only).len() as f64,
        stop: plan.stop,
        progress: &|done, what| (plan.progress)(BUILDING + TESTING * done, what),
    }
    .run(plan.arguments)?;
    let mut outcome = outcome(plan, &seen, &Symbols::lazily(&built.image))?;
    let tried = contexts::run(
        &built.image,
        plan.seed,
        plan.arguments,
        outcome.rows.iter().filter_map(driver).collect(),
        plan.stop,
        &|done, what| {
            let before = BUILDING + TESTING;
            (plan.progress)(before + (1.0 - before) * done, what);
        },
    )?;
    in_contexts(&mut outcome, &tried);
    outcome.notes.extend(built.notes.iter().cloned());
    Ok(outcome)
}

fn outcome(plan: &Plan, seen: &Seen, symbols: &Symbols) -> Result<Outcome, Error> {
    if let Some((what, address)) = &seen.broken {
        return Err(Error::HostedFault {
            version: plan.source.version.to_string(),
            fault: symbols.fault(what, *address),
        });
    }
    let mut heard = Heard::default();
    for (driver, (what, address)) in &seen.faults {
        heard.fails(driver, &symbols.fault(what, *address));
    }
    for event in &seen.events {
        heard.event(event);
    }
    let mut outcome = heard.outcome(&plan.source.version.to_string(), plan.only)?;
    outcome
        .notes
        .extend(seen.events.iter().filter_map(|event| match event {
            Event::Initcall { address, result } if symbols.name(*address).starts_with(INIT) => {
                Some(format!("the module's init failed with {result}"))
            }
            Event::Interrupts {
                irqs,
                in_section,
                sections,
            } => Some(format!(
                "{irqs} interrupts meanwhile, {in_section} of them in {sections} sections"
            )),
            Event::Warn {
                address,
                file,
                line,
            } => Some(format!(
                "the tree warned at {file}:{line}, in {}",
                symbols.name(*address)
            )),
            _ => None,
        }));
    Ok(outcome)
}

/// Returns the driver to run in other contexts, if the row's driver passed testmgr's tests.
fn driver(row: &Row) -> Option<Driver> {
    let name = row.driver.strip_prefix(module::PREFIX)?;
    let imp = Impl::all().into_iter().find(|i| i.driver() == name)?;
    (row.selftest == "passed").then(|| Driver {
        name: row.driver.clone(),
        alg: row.alg.clone(),
        kind: match imp.kind() {
            Kind::Skcipher => 0,
            Kind::Aead => 1,
            Kind::Hash => 2,
        },
    })
}

/// Marks a driver as failed if it gave a wrong result in any context.
fn in_contexts(outcome: &mut Outcome, tried: &[Tried]) {
    let (mut answers, mut of_softirqs) = (0, 0);
    let mut untried: Vec<&str> = Vec::new();
    for (driver, result) in tried {
        let why = match result {
            Err(crash) => crash.clone(),
            Ok(seen) if seen.error != 0 || seen.generic_error != 0 => {
                untried.push(&driver.name);
                continue;
            }
            Ok(seen) => {
                answers += seen.cases.iter().sum::<u64>();
                of_softirqs += seen.cases[2];
                let wrong = contexts::NAMES.iter().zip(seen.wrong).zip(seen.cases);
                let wrong: Vec<String> = wrong
                    .filter(|((_, wrong), _)| *wrong > 0)
                    .map(|((place, wrong), cases)| format!("{wrong} of {cases} in {place}"))
                    .collect();
                if wrong.is_empty() {
                    continue;
                }
                let wrong = wrong.join("; ");
                format!("answers that differ from {}: {wrong}", seen.generic)
            }
        };
        for row in (outcome.rows.iter_mut()).filter(|row| row.driver == driver.name) {
            (row.selftest, row.reason) = ("failed", why.clone());
        }
    }
    outcome.notes.push(format!(
        "{answers} answers compared in tasks that softirqs interrupt, {of_softirqs} of them of the softirqs"
    ));
    if !untried.is_empty() {
        outcome.notes.push(format!(
            "not tried there, without a plain key or a generic driver: {}",
            untried.join(", ")
        ));
    }
}

/// Registers the module's drivers, which makes the tree test them, and lists the drivers that are
/// registered afterwards. This is the part of [`run`] that the child process executes.
///
/// # Errors
/// Fails if the image cannot be loaded, or belongs to another version of Kiln.
pub fn judge(order: &Order, only: Option<&str>, fuzz: Option<u32>) -> Result<(), Error> {
    if !order.drivers.is_empty() {
        contexts::measure_with(order, |host| register(host, only))?;
        return Ok(());
    }
    interrupted_with(order, fuzz, |host| {
        host.tests(true)?;
        register(host, only)?;
        host.tests(false)
    })?;
    Ok(())
}

fn register(host: &mut Host, only: Option<&str>) -> Result<(), kiln_tree::Error> {
    // Leak the strings, because the module keeps pointers to them.
    let leak = |text: &str| -> *const c_char {
        CString::new(text).map_or(ptr::null(), |text| text.into_raw())
    };
    // SAFETY: `module.c` declares these variables with these types, and none of its code runs yet.
    unsafe {
        set(&host.image, ONLY, only.map_or(ptr::null(), leak))?;
        set(&host.image, TIERS, leak(&module::tiers()))?;
        set(&host.image, ALL, true)?;
        // Disable the module's own tests, so that the results are those of the tree's tests.
        set(&host.image, CHECK, false)?;
    }
    // SAFETY: the function takes no argument and returns an int. The cast drops the upper half of
    // the return register, which is undefined.
    let result = unsafe { host.call(INIT, ptr::null_mut())? } as i32;
    match host.image.symbol(INIT) {
        Some(address) if result != 0 => host.tell(&format!(
            "{{\"event\":\"initcall\",\"address\":{address},\"result\":{result}}}\n"
        )),
        _ => Ok(()),
    }
}

/// Sets a variable in an image.
///
/// # Safety
/// The variable must have type `T`, and nothing may read it during the call.
unsafe fn set<T>(image: &Image, name: &str, value: T) -> Result<(), kiln_tree::Error> {
    let no_symbol = || kiln_tree::Error::NoSymbol {
        image: image.path.clone(),
        name: name.to_owned(),
    };
    let at = image.symbol(name).ok_or_else(no_symbol)?;
    // SAFETY: the caller guarantees that the variable has type `T` and that nothing reads it during
    // the call. The image is mapped at its own addresses.
    unsafe { ptr::write_volatile(at as *mut T, value) };
    Ok(())
}

/// Compiles the module as objects of the tree, because a hosted tree has no module loader. The
/// objects are linked into a single object. Its symbols are made local, because the tree may define
/// the same names, such as `gcm_encrypt_aesni`.
fn compile(plan: &Plan, cache: &Cache) -> Result<(), Error> {
    let dir = cache.dir.join(NAME);
    module::copy(&dir, plan.edit)?;
    let objects: Vec<String> = module::objects().collect();
    let list = format!(
        "obj-y := {}\n\n{}",
        objects.join(" "),
        module::all_flags(module::CONTROLS)
    );
    let kbuild = dir.join("Kbuild");
    update(&kbuild, &list)?;
    let log = dir.join("log");
    let _ = fs::remove_file(&log);
    let (out, external) = (
        format!("O={}", cache.objects.display()),
        format!("M={}", dir.display()),
    );
    let mut arguments = vec![out.as_str(), "ARCH=x86_64", external.as_str()];
    arguments.extend(objects.iter().map(String::as_str));
    let make = Make {
        directory: &cache.source,
        compiler: &plan.compiler,
        log: &log,
        stop: plan.stop,
    };
    let said = make.run(&arguments, &mut |what| {
        let what = what.strip_prefix(&*dir.to_string_lossy()).unwrap_or(what);
        (plan.progress)(0.8, what.trim_start_matches('/'));
    })?;
    if !said.success {
        return Err(Error::Module {
            which: "Kiln's module",
            against: format!("Linux {}", plan.source.version),
            cause: said.cause(),
            log,
        });
    }
    let mut inputs: Vec<PathBuf> = objects.iter().map(|name| dir.join(name)).collect();
    inputs.push(kbuild);
    let whole = dir.join(format!("{NAME}.o"));
    match read_mtime(&whole) > inputs.iter().filter_map(|path| read_mtime(path)).max() {
        true => Ok(()),
        false => join(&dir, &objects, &whole),
    }
}

fn read_mtime(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

fn join(dir: &Path, objects: &[String], whole: &Path) -> Result<(), Error> {
    let (module, named, all) = ("module.o", "named.o", "all.o");
    // Remove the module's init function from the tree's initcalls, because Kiln calls it after the
    // tree has booted.
    let mut rename = Command::new("objcopy");
    rename.args(["--wildcard", "--remove-section=.initcall*"]);
    for (name, called) in NAMES {
        // objcopy applies `--globalize-symbol` before it renames symbols, so use the old name here.
        rename.arg(format!("--globalize-symbol={name}"));
        rename.arg(format!("--redefine-sym={name}={called}"));
    }
    let mut link = Command::new("ld");
    let others = objects.iter().filter(|name| *name != module);
    link.args(["-r", "-o", all, named]).args(others);
    let mut hide = Command::new("objcopy");
    hide.args(["--wildcard", "--keep-global-symbol=kiln_glue_*", all])
        .arg(whole);
    for command in [rename.args([module, named]), &mut link, &mut hide] {
        run_tool(command.current_dir(dir), "binutils")?.map_err(|why| Error::OneObject {
            tool: command.get_program().to_string_lossy().into_owned(),
            why,
        })?;
    }
    let _ = fs::remove_file(dir.join(all));
    Ok(())
}
