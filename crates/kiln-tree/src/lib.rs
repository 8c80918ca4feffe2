//! A kernel tree in user land: its own build makes the objects of its crypto stack, which are linked unmodified with
//! Kiln's services (`tree/`) into a program that runs as a child.

mod cache;
mod config;
mod error;
mod farm;
mod fault;
mod host;
mod library;
mod link;
mod make;
mod row;
mod select;
mod services;
mod source;
mod tools;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use kiln_kbuild::Compiler;

pub use cache::key;
pub use config::Config;
pub use error::Error;
pub use fault::Symbols;
pub use row::Row;
pub use source::{Source, Version};

/// What is wanted.
pub struct Plan<'a> {
    /// The tree.
    pub source: Source,
    /// What compiles it.
    pub compiler: Compiler,
    /// What it is configured as.
    pub config: Config,
    /// From which what the self-tests draw follows.
    pub seed: u64,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Called with the share that is done and what is being done.
    pub progress: &'a dyn Fn(f64, &str),
}

/// What came out.
#[derive(Debug)]
pub struct Outcome {
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

/// Builds the tree's stack, runs it, and lists what is there.
///
/// # Errors
/// The machine lacks a tool, the cache cannot be used, or the tree's own build does not get as far as objects.
pub fn run(plan: &Plan) -> Result<Outcome, Error> {
    tools::check(&plan.compiler)?;
    let cache = cache::Cache::open(&plan.source, &plan.compiler, &plan.config)?;
    let services = services::compile(&plan.compiler, &cache)?;
    let (built, selection) = objects(plan, &cache, &services)?;
    let program = link::link(&plan.compiler, &cache, &selection, &services)?;
    (plan.progress)(0.97, "the tree's self-tests");
    let mut rows = row::objects(&selection, &built.failures);
    let mut notes = built.taken.notes;
    let seen = host::run_all(&program, plan)?;
    row::algorithms(&seen, &Symbols::lazily(&program), &mut rows, &mut notes);
    let config = config::label(&plan.config.name, &built.taken.mitigations);
    for row in &mut rows {
        row.config.clone_from(&config);
    }
    Ok(Outcome {
        rows,
        config,
        notes,
        cache: cache.dir,
    })
}

/// Builds, and selects what to link; symbols that nothing provides are looked for in the tree's library.
fn objects(
    plan: &Plan,
    cache: &cache::Cache,
    services: &services::Services,
) -> Result<(make::Built, select::Selection), Error> {
    let list = cache.dir.join("library");
    let mut more: BTreeSet<String> = fs::read_to_string(&list)
        .map(|text| text.lines().map(String::from).collect())
        .unwrap_or_default();
    for round in 0.. {
        let built = make::build(plan, cache, &more)?;
        let selection = select::select(cache, &built.objects, services)?;
        let found = library::find(&cache.source, &selection.unmet);
        let before = more.len();
        more.extend(found);
        if more.len() > before && round < library::ROUNDS {
            continue;
        }
        let text: String = more.iter().map(|stem| format!("{stem}\n")).collect();
        cache::update(&list, &text)?;
        hosted(plan, &selection)?;
        return Ok((built, selection));
    }
    unreachable!("the rounds have an end")
}

/// Without the glue there is nothing to call; what it lacks is somewhere below it.
fn hosted(plan: &Plan, selection: &select::Selection) -> Result<(), Error> {
    let glue = |path: &str| {
        make::GLUE
            .iter()
            .any(|(name, _)| path == format!("lib/{name}.o"))
    };
    if !selection.left_out.iter().any(|(path, _)| glue(path)) {
        return Ok(());
    }
    let unmet: Vec<&str> = selection.unmet.iter().map(String::as_str).collect();
    Err(Error::Input(format!(
        "Linux {} cannot be hosted as configured: its crypto core needs what nothing provides, of {}",
        plan.source.version,
        unmet.join(", ")
    )))
}
