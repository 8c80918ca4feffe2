//! A kernel tree in user land: its own build makes the objects of its crypto stack, which are linked unmodified with
//! Kiln's services (`tree/`) into a program that runs as a child.

mod cache;
mod error;
mod fault;
mod host;
mod link;
mod make;
mod row;
mod select;
mod services;
mod source;
mod tools;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use kiln_kbuild::Compiler;

pub use cache::key;
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

/// Builds the tree's stack, runs it, and lists what is there.
///
/// # Errors
/// The machine lacks a tool, the cache cannot be used, or the tree's own build does not get as far as objects.
pub fn run(plan: &Plan) -> Result<Outcome, Error> {
    tools::check(&plan.compiler)?;
    let cache = cache::Cache::open(&plan.source, &plan.compiler)?;
    let built = make::build(plan, &cache)?;
    let services = services::compile(&plan.compiler, &cache)?;
    let selection = select::select(&cache, &built.objects, &services)?;
    let program = link::link(&plan.compiler, &cache, &selection, &services)?;
    (plan.progress)(0.97, "the tree's self-tests");
    let mut rows = row::objects(&selection, &built.failures);
    let mut notes = built.notes;
    let seen = host::run_all(&program, plan)?;
    row::algorithms(&seen, &Symbols::lazily(&program), &mut rows, &mut notes);
    Ok(Outcome {
        rows,
        notes,
        cache: cache.dir,
    })
}
