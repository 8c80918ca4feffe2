//! A kernel tree in user land: its own build makes the objects of its crypto stack, which are linked unmodified with
//! Kiln's services (`tree/`) into an image. This program, run again as a child, loads it onto its emulated CPUs.
//!
//! Parent: [`build`], then [`child::run`]. Child: [`child::Order::from_env`], [`Host::boot`].

mod cache;
pub mod child;
mod crash;
mod elf;
pub mod engine;
mod error;
pub mod event;
mod fault;
mod host;
mod image;
mod link;
mod make;
pub mod primitive;
mod row;
mod select;
mod selftest;
mod services;
mod source;
mod tools;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use kiln_kbuild::Compiler;

pub use cache::key;
pub use error::Error;
pub use fault::Symbols;
pub use host::{Clock, Host, Loaded, CPUS};
pub use image::Image;
pub use row::Row;
pub use source::{Source, Version};

/// What is wanted.
pub struct Plan<'a> {
    /// The tree.
    pub source: Source,
    /// What compiles it.
    pub compiler: Compiler,
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
    /// The image's file.
    pub image: PathBuf,
    /// Rows of the objects.
    pub rows: Vec<Row>,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
    /// Where it was built. Nobody else builds there as long as this lives.
    pub cache: PathBuf,
    _lock: cache::Cache,
}

/// Builds the tree's stack and links it.
///
/// # Errors
/// The machine lacks a tool, the cache cannot be used, or the tree's own build does not get as far as objects.
pub fn build(plan: &Plan) -> Result<Built, Error> {
    tools::check(&plan.compiler)?;
    let cache = cache::Cache::open(&plan.source, &plan.compiler)?;
    let built = make::build(plan, &cache)?;
    let services = services::compile(&plan.compiler, &cache)?;
    let selection = select::select(&cache, &built.objects, &services)?;
    let image = link::link(&plan.compiler, &cache, &selection, &services)?;
    Ok(Built {
        image,
        rows: row::objects(&selection, &built.failures),
        notes: built.notes,
        cache: cache.dir.clone(),
        _lock: cache,
    })
}

/// Builds the tree's stack, runs it, and lists what is there. `args` make this program call [`list`] in the child.
///
/// # Errors
/// Those of [`build`], and a child that cannot be started.
pub fn run(plan: &Plan, args: &[OsString]) -> Result<Outcome, Error> {
    let built = build(plan)?;
    (plan.progress)(0.97, "the tree's self-tests");
    let (mut rows, mut notes) = (built.rows, built.notes);
    let seen = selftest::run_all(&built.image, plan, args)?;
    row::algorithms(&seen, &Symbols::lazily(&built.image), &mut rows, &mut notes);
    Ok(Outcome {
        rows,
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
