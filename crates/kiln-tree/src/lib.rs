//! A kernel tree in user land: its own build makes the objects of its crypto stack, which are linked unmodified with
//! Kiln's services (`tree/`) into an image. This program, run again as a child, loads it onto its emulated CPUs.
//!
//! Parent: [`build`], then [`child::run`]. Child: [`child::Order::from_env`], [`Host::boot`].

pub mod benchmark;
mod cache;
pub mod child;
mod config;
pub mod contexts;
mod crash;
pub mod delays;
mod elf;
pub mod engine;
mod error;
pub mod event;
mod farm;
mod fault;
mod features;
mod git;
mod host;
mod image;
mod known;
pub mod kunit;
pub mod library;
mod link;
mod make;
pub mod oracle;
mod oracle_tools;
mod pattern;
mod place;
mod plan;
pub mod primitive;
mod prove;
#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, unreachable_pub, unused)]
mod raw;
mod record;
mod replay;
mod revision;
mod row;
mod search;
mod select;
mod selftest;
mod services;
mod source;
mod stepped;
pub mod stream;
mod symbols;
pub mod tcrypt;
mod test_row;
mod tiers;
#[cfg(test)]
mod tiny;
mod tools;
mod touched;
mod trial;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

pub use cache::{key, update, Cache};
pub use config::Config;
pub use error::Error;
pub use fault::Symbols;
pub use host::{seen_tiers, Clock, Host, Loaded};
pub use image::Image;
pub use known::Known;
pub use make::{Make, Said, WITHOUT_BTF};
pub use place::{hash, make_scratch, root};
pub use plan::Plan;
pub use revision::Extent;
pub use row::Row;
pub use selftest::{interrupted, interrupted_with, Seen, Trial};
pub use source::{is_revision, Source, Version};
pub use test_row::TestRow;
pub use tools::{check as check_tools, run as run_tool};
pub use touched::{Change, Touched};

#[derive(Debug)]
pub struct Outcome {
    pub image: PathBuf,
    /// Objects first, then algorithms.
    pub rows: Vec<Row>,
    /// Such as `kiln`, or `cloud.config (retpoline, rethunk, ibt)`.
    pub config: String,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
    /// Where it was built.
    pub cache: PathBuf,
}

impl Outcome {
    /// Whether something of the tree failed: a compilation, a self-test, the process.
    pub fn failed(&self) -> bool {
        self.rows.iter().any(|row| row.status == row::FAILED)
    }
}

/// A tree as an image, ready to be loaded.
pub struct Built {
    pub image: PathBuf,
    /// Such as `kiln`, or `cloud.config (retpoline, rethunk, ibt)`.
    pub config: String,
    /// Rows of the objects.
    pub rows: Vec<Row>,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
    /// Where it was built. It is locked as long as this lives.
    pub cache: PathBuf,
    lock: cache::Cache,
}

impl Built {
    /// What a change of the tree touches of it.
    ///
    /// # Errors
    /// The objects cannot be read.
    pub fn touched_by(&self, change: &Change) -> Result<Touched, Error> {
        Touched::find(&self.lock, &self.rows, change)
    }

    /// What is known without running anything of the tree.
    pub fn untested(self) -> Outcome {
        Outcome {
            image: self.image,
            rows: self.rows,
            config: self.config,
            notes: self.notes,
            cache: self.cache,
        }
    }
}

/// Code that is linked with a tree into an image of its own. It calls the tree as the tree's own code does; only its
/// names that begin with `kiln_glue_` are visible.
pub struct Guest<'a> {
    /// Names its directory in the cache and its only object there.
    pub name: &'a str,
    /// Compiles it by the tree's own build, which has been there.
    pub compile: &'a dyn Fn(&Cache) -> Result<(), Error>,
}

impl Guest<'_> {
    /// The object, as seen from where the tree's are.
    fn object(&self) -> make::Object {
        make::Object {
            path: format!("../{0}/{0}.o", self.name),
            library: false,
        }
    }
}

/// Builds the tree's stack and links it.
///
/// # Errors
/// The machine lacks a tool, the cache cannot be used, or the tree's own build does not get as far as objects.
pub fn build(plan: &Plan) -> Result<Built, Error> {
    build_all(plan, None)
}

/// The same with a guest.
///
/// # Errors
/// As there; the guest does not compile, or wants what neither the tree nor a service has.
pub fn build_with(plan: &Plan, guest: &Guest) -> Result<Built, Error> {
    build_all(plan, Some(guest))
}

fn build_all(plan: &Plan, guest: Option<&Guest>) -> Result<Built, Error> {
    tools::check(&plan.compiler)?;
    let cache = plan.open_cache()?;
    let finished = cache.finished();
    let _ = fs::remove_file(&finished);
    let services = services::compile(&plan.compiler, &cache)?;
    let (built, selection) = objects(plan, &cache, &services, guest)?;
    let place = match guest {
        Some(guest) => cache.host.join(guest.name),
        None => cache.host.clone(),
    };
    let image = link::link(&plan.compiler, &cache, &place, &selection, &services)?;
    fs::write(&finished, "").map_err(|e| Error::cache(&finished, e))?;
    let config = config::label(&plan.config.name, &built.taken.mitigations);
    let mut rows = row::objects(&selection, &built.failures);
    for row in &mut rows {
        row.config.clone_from(&config);
    }
    Ok(Built {
        image,
        rows,
        config,
        notes: built.taken.notes,
        cache: cache.dir.clone(),
        lock: cache,
    })
}

/// Builds the tree's stack, runs it, and lists what is there. `args` make this program call [`list`] in the child.
///
/// # Errors
/// Those of [`build`], and a child that cannot be started.
pub fn run(plan: &Plan, args: &[OsString]) -> Result<Outcome, Error> {
    test(plan, build(plan)?, args, None)
}

/// Runs a tree that was built, with another number of random tests; `args` make this program call [`interrupted`] in the child.
///
/// # Errors
/// A child cannot be started, or Ctrl-C.
pub fn test(
    plan: &Plan,
    built: Built,
    args: &[OsString],
    fuzz: Option<u32>,
) -> Result<Outcome, Error> {
    (plan.progress)(0.97, "the tree's self-tests");
    let (mut rows, mut notes) = (built.rows, built.notes);
    let trial = Trial {
        image: &built.image,
        seed: plan.seed,
        tests: true,
        fuzz,
        usual: selftest::USUAL_TESTS,
        stop: plan.stop,
        progress: plan.progress,
    };
    let seen = trial.run(args)?;
    row::algorithms(&seen, &Symbols::lazily(&built.image), &mut rows, &mut notes);
    for row in &mut rows {
        row.config.clone_from(&built.config);
    }
    Ok(Outcome {
        image: built.image,
        rows,
        config: built.config,
        notes,
        cache: built.cache,
    })
}

/// The child's side of [`run`].
///
/// # Errors
/// The image cannot be loaded.
pub fn list(order: &child::Order) -> Result<(), Error> {
    Host::boot(order, &kiln_kernel::cpu::Config::default())?.list()
}

/// Builds, and selects what to link; symbols that nothing provides are looked for in the tree's library.
fn objects(
    plan: &Plan,
    cache: &cache::Cache,
    services: &services::Services,
    guest: Option<&Guest>,
) -> Result<(make::Built, select::Selection), Error> {
    let list = cache.dir.join("library");
    let mut more: BTreeSet<String> = fs::read_to_string(&list)
        .map(|text| text.lines().map(String::from).collect())
        .unwrap_or_default();
    for round in 0.. {
        let mut built = make::build(plan, cache, &more)?;
        if let Some(guest) = guest {
            (guest.compile)(cache)?;
            built.objects.push(guest.object());
        }
        let selection = select::select(cache, &built.objects, services)?;
        let found = search::find(&cache.source, &selection.unmet);
        let before = more.len();
        more.extend(found);
        if more.len() > before && round < search::ROUNDS {
            continue;
        }
        let text: String = more.iter().map(|stem| format!("{stem}\n")).collect();
        cache::update(&list, &text)?;
        hosted(plan, cache, &built.failures, &selection, guest)?;
        return Ok((built, selection));
    }
    unreachable!("the rounds have an end")
}

/// Without the glue there is nothing to call; what it lacks is somewhere below it. A guest is there for its own sake.
fn hosted(
    plan: &Plan,
    cache: &cache::Cache,
    failures: &[(String, String)],
    selection: &select::Selection,
    guest: Option<&Guest>,
) -> Result<(), Error> {
    let glue = |path: &str| {
        make::GLUE
            .iter()
            .any(|(name, _)| !make::is_optional(name) && path == format!("lib/{name}.o"))
    };
    if !selection.left_out.iter().any(|(path, _)| glue(path)) {
        let object = guest.map(|guest| guest.object().path);
        let mut left_out = selection.left_out.iter();
        return match left_out.find(|(path, _)| Some(path) == object.as_ref()) {
            None => Ok(()),
            Some((path, missing)) => Err(Error::GuestUnlinked {
                object: path.rsplit('/').next().unwrap_or(path).to_owned(),
                version: plan.source.version.to_string(),
                missing: missing.clone(),
            }),
        };
    }
    // What it lacks is most likely in an object that does not compile.
    if let Some((object, why)) = failures.first() {
        return Err(Error::Build {
            version: plan.source.version.to_string(),
            what: "does not build",
            cause: format!(": {object}: {why}"),
            log: cache.log.clone(),
        });
    }
    // Other objects lack other symbols, which are not what it fails for.
    let of_glue = selection.left_out.iter().filter(|(path, _)| glue(path));
    let mut missing: BTreeSet<String> = of_glue.flat_map(|(_, missing)| missing.clone()).collect();
    missing.retain(|name| selection.unmet.contains(name));
    if missing.is_empty() {
        missing.clone_from(&selection.unmet);
    }
    Err(Error::Unhostable {
        version: plan.source.version.to_string(),
        missing: missing.into_iter().collect(),
    })
}
