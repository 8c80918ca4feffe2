//! Which tree is built, by what and as what.

use std::sync::atomic::AtomicBool;

use kiln_kbuild::Compiler;

use crate::cache::{key, root, Cache};
use crate::config::Config;
use crate::source::Source;
use crate::Error;

/// A tree to be built.
pub struct Plan<'a> {
    pub source: Source,
    pub compiler: Compiler,
    pub config: Config,
    /// Seed of the self-tests.
    pub seed: u64,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Called with the share that is done and what is being done.
    pub progress: &'a dyn Fn(f64, &str),
}

impl Plan<'_> {
    /// Opens the cache directory of this tree, compiler and configuration.
    pub(crate) fn open_cache(&self) -> Result<Cache, Error> {
        let compiler = format!("{} {}", self.compiler.path.display(), self.compiler.version);
        let name = key(&self.source.dir, &compiler, self.config.key());
        Cache::open(
            root()?.join("kiln/tree").join(name),
            &self.source,
            self.stop,
            self.progress,
        )
    }
}
