//! Hosts a kernel tree in user space. The tree's own build compiles the objects of its crypto
//! stack. Kiln links these objects, unmodified, with its services (`tree/`) into an image. A child
//! process of this program loads the image onto emulated CPUs.
//!
//! The parent calls [`build`], then [`child::run`]. The child calls [`child::Order::from_env`],
//! then [`Host::boot`].

pub mod benchmark;
mod cache;
pub mod child;
mod config;
mod constants;
pub mod contexts;
mod copy;
mod crash;
pub mod delays;
mod elf;
pub mod engine;
mod error;
pub mod event;
mod family;
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
mod similar;
mod source;
mod stepped;
pub mod stream;
mod suites;
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

use make::Part;

pub use cache::{key, update, Cache, CONFIGURING, WAITING};
pub use config::Config;
pub use error::Error;
pub use fault::Symbols;
pub use host::{seen_tiers, Clock, Host, Loaded};
pub use image::Image;
pub use known::Known;
pub use make::{Make, Said, WITHOUT_BTF};
pub use place::{hash, make_locked_scratch, make_scratch, root};
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
    /// Rows for the objects, followed by rows for the algorithms.
    pub rows: Vec<Row>,
    /// Name of the configuration, such as `kiln` or `cloud.config (retpoline, rethunk, ibt)`.
    pub config: String,
    /// Notes that help the reader interpret the rows.
    pub notes: Vec<String>,
    /// Cache directory of the build.
    pub cache: PathBuf,
}

impl Outcome {
    /// Returns whether a compilation or a self-test failed, or the process crashed.
    pub fn failed(&self) -> bool {
        self.rows.iter().any(|row| row.status == row::FAILED)
    }
}

/// A tree that has been linked into a loadable image.
pub struct Built {
    pub image: PathBuf,
    /// Name of the configuration, such as `kiln` or `cloud.config (retpoline, rethunk, ibt)`.
    pub config: String,
    /// One row for each object.
    pub rows: Vec<Row>,
    /// Notes that help the reader interpret the rows.
    pub notes: Vec<String>,
    /// Cache directory of the build, which stays locked while this value exists.
    pub cache: PathBuf,
    lock: cache::Cache,
}

impl Built {
    /// Determines which objects, suites and drivers of this build are affected by a change to the
    /// tree.
    ///
    /// # Errors
    /// Fails if the objects cannot be read.
    pub fn touched_by(&self, change: &Change) -> Result<Touched, Error> {
        Touched::find(&self.lock, &self.rows, change)
    }

    /// Converts the result of the build into an outcome, without running the tree's code.
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

/// Code that is linked into the same image as a tree, and calls the tree's functions in the same
/// way as the tree's own code. Only names that begin with `kiln_glue_` are visible outside the
/// image.
pub struct Guest<'a> {
    /// Name of the guest's cache directory, and of the single object file in this directory.
    pub name: &'a str,
    /// Callback that compiles the guest with the tree's own build. It is called after the tree has
    /// been built.
    pub compile: &'a dyn Fn(&Cache) -> Result<(), Error>,
}

impl Guest<'_> {
    /// Returns the guest's object, whose path is relative to the tree's build directory.
    fn object(&self) -> make::Object {
        make::Object {
            path: format!("../{0}/{0}.o", self.name),
            library: false,
        }
    }
}

/// Builds and links the tree's stack.
///
/// # Errors
/// Fails if a tool is missing, the cache cannot be used, or the tree's own build fails before it
/// produces objects.
pub fn build(plan: &Plan) -> Result<Built, Error> {
    build_all(plan, None, None)
}

/// Like [`build`], for a run that executes only the KUnit suites that match `patterns`, of the form
/// `SUITE` or `SUITE.CASE`; none selects all suites. If the tree has never been built in full,
/// compiles only the library and these suites.
///
/// # Errors
/// The same errors as [`build`].
pub fn build_for_suites(plan: &Plan, patterns: &[String]) -> Result<Built, Error> {
    build_all(plan, None, Some(patterns))
}

/// Like [`build`], but also links a guest.
///
/// # Errors
/// The same errors as [`build`]. In addition, the guest may fail to compile, or may need a symbol
/// that neither the tree nor a service provides.
pub fn build_with(plan: &Plan, guest: &Guest) -> Result<Built, Error> {
    build_all(plan, Some(guest), None)
}

/// Builds the whole stack, or only the library and the suites that match `suites`.
fn build_all(
    plan: &Plan,
    guest: Option<&Guest>,
    suites: Option<&[String]>,
) -> Result<Built, Error> {
    tools::check(&plan.compiler)?;
    let cache = plan.open_cache()?;
    let _ = fs::remove_file(cache.finished());
    similar::start(plan, &cache)?;
    let (taken, services) = make::prepare(plan, &cache)?;
    let part = match suites {
        Some(patterns) if !cache.host.join(link::IMAGE).is_file() => {
            Part::Suites(suites::leave_out(&cache, patterns)?)
        }
        _ => Part::Whole,
    };
    let (built, selection) = objects(plan, &cache, &services, guest, &part)?;
    let place = match (guest, &part) {
        (Some(guest), _) => cache.host.join(guest.name),
        (None, Part::Suites(_)) => cache.host.join("suites"),
        (None, Part::Whole) => cache.host.clone(),
    };
    let image = link::link(plan, &cache, &place, &selection, &services, &part)?;
    let finished = cache.finished();
    fs::write(&finished, "").map_err(|e| Error::cache(&finished, e))?;
    let config = config::label(&plan.config.name, &taken.mitigations);
    let mut rows = row::objects(&selection, &built.failures);
    for row in &mut rows {
        row.config.clone_from(&config);
    }
    Ok(Built {
        image,
        rows,
        config,
        notes: taken.notes,
        cache: cache.dir.clone(),
        lock: cache,
    })
}

/// Builds the tree's stack, runs it in a child, and lists the registered algorithms. The child runs
/// this program with the arguments `args`, which must make it call [`list`].
///
/// # Errors
/// The same errors as [`build`]. In addition, the child may fail to start.
pub fn run(plan: &Plan, args: &[OsString]) -> Result<Outcome, Error> {
    test(plan, build(plan)?, args, None)
}

/// Runs the self-tests of a tree that has already been built, with a chosen number of random tests.
/// The children run this program with the arguments `args`, which must make it call
/// [`interrupted`].
///
/// # Errors
/// Fails if a child cannot be started, or if Ctrl-C was pressed.
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

/// Boots the tree and lists its algorithms. Called in the child process that [`run`] starts.
///
/// # Errors
/// Fails if the image cannot be loaded.
pub fn list(order: &child::Order) -> Result<(), Error> {
    Host::boot(order, &kiln_kernel::cpu::Config::default())?.list()
}

/// Builds the objects and selects those to link. If the selected objects refer to undefined
/// symbols, searches the tree's library for files that define these symbols, and builds those files
/// too.
fn objects(
    plan: &Plan,
    cache: &cache::Cache,
    services: &services::Services,
    guest: Option<&Guest>,
    part: &Part,
) -> Result<(make::Built, select::Selection), Error> {
    let list = cache.dir.join("library");
    let mut more: BTreeSet<String> = fs::read_to_string(&list)
        .map(|text| text.lines().map(String::from).collect())
        .unwrap_or_default();
    for round in 0.. {
        let mut built = make::build(plan, cache, &more, part)?;
        if let Some(guest) = guest {
            (guest.compile)(cache)?;
            built.objects.push(guest.object());
        }
        let selection = select::select(cache, &built.objects, services, part)?;
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
    unreachable!("the last round returns")
}

/// Checks that the glue and, if there is one, the guest can be linked. Without the glue, the image
/// has no entry points.
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
    // If an object failed to compile, report that failure, because the object most likely defines
    // the missing symbol.
    if let Some((object, why)) = failures.first() {
        return Err(Error::Build {
            version: plan.source.version.to_string(),
            what: "does not build",
            cause: format!(": {object}: {why}"),
            log: cache.log.clone(),
        });
    }
    // Report only the symbols that the glue needs. Symbols that only other objects need are not the
    // reason for the failure.
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
