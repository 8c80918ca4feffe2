//! The options for a build: the tree, the compiler and the configuration.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use kiln_kbuild::Compiler;

use crate::cache::{key, Cache};
use crate::config::Config;
use crate::place::root;
use crate::source::Source;
use crate::Error;

pub struct Plan<'a> {
    pub source: Source,
    pub compiler: Compiler,
    pub config: Config,
    /// Seed for the random numbers that the self-tests use.
    pub seed: u64,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Callback that receives the fraction completed and the name of the current step.
    pub progress: &'a dyn Fn(f64, &str),
}

impl Plan<'_> {
    /// Returns the compiler's path and version.
    pub(crate) fn compiler_name(&self) -> String {
        format!("{} {}", self.compiler.path.display(), self.compiler.version)
    }

    /// Opens the cache directory for this tree, compiler and configuration.
    pub(crate) fn open_cache(&self) -> Result<Cache, Error> {
        let compiler = self.compiler_name();
        let config = self.config.key();
        let dir = match &self.source.checkout {
            // A checkout's builds are stored in the same slot as the checkout, so that both are
            // copied together.
            Some(checkout) => checkout
                .builds()
                .join(key(Path::new("build"), &compiler, config)),
            None => root()?
                .join("kiln/tree")
                .join(key(&self.source.dir, &compiler, config)),
        };
        Cache::open(dir, &self.source, self.stop, self.progress)
    }
}
