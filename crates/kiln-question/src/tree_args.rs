//! The flags that specify how to build a kernel tree.

use std::path::Path;

use clap::Args;
use kiln_kbuild::Compiler;
use kiln_tree::{Config, Extent, Source};

use crate::{Error, Progress};

/// Value of `--config` that selects Kiln's own configuration.
const CHOICE: &str = "kiln";

/// Flags accepted by all commands that build a tree.
#[derive(Args, Clone, Debug, Default)]
pub struct TreeBuildArgs {
    /// Compiler for the kernel tree [default: $KILN_CC, else the first of cc, gcc, clang on PATH]
    #[arg(long, value_name = "CC")]
    cc: Option<String>,
    /// Kernel configuration: 'kiln' (Kiln's own, without CPU mitigations), 'tree' (the tree's
    /// .config) or a .config file. Only 'kiln speed --tree' and 'kiln fpu overhead' take a list,
    /// such as kiln,tree [default: kiln]
    #[arg(long, value_name = "FILE|tree|kiln", value_delimiter = ',')]
    config: Vec<String>,
}

impl TreeBuildArgs {
    /// Returns whether at least one of these flags was given.
    pub fn given(&self) -> bool {
        self.cc.is_some() || !self.config.is_empty()
    }

    /// Returns the tree, its compiler and its configuration.
    ///
    /// # Errors
    /// Fails if the directory is not a kernel tree, or the compiler or the configuration cannot be
    /// used.
    pub fn resolve(&self, dir: &Path) -> Result<(Source, Compiler, Config), Error> {
        match self.config.as_slice() {
            [] => self.configured(dir, CHOICE),
            [one] => self.configured(dir, one),
            _ => Err(Error::input(
                "--config takes one configuration here: only 'kiln speed --tree' and 'kiln fpu overhead' take several",
            )),
        }
    }

    /// Like [`Self::resolve`], but returns one result per configuration.
    ///
    /// # Errors
    /// Returns the errors of [`Self::resolve`].
    pub fn resolve_all(&self, dir: &Path) -> Result<Vec<(Source, Compiler, Config)>, Error> {
        match self.config.as_slice() {
            [] => Ok(vec![self.configured(dir, CHOICE)?]),
            several => several
                .iter()
                .map(|which| self.configured(dir, which))
                .collect(),
        }
    }

    fn configured(&self, dir: &Path, which: &str) -> Result<(Source, Compiler, Config), Error> {
        let progress = Progress::start();
        let source = Source::find(dir, Extent::Hosted, &|done, what| {
            progress.report(done, what)
        })?;
        drop(progress);
        let config = match which {
            CHOICE => Config::default(),
            which => Config::find(which, &source)?,
        };
        let compiler = match &self.cc {
            Some(name) => Compiler::find(name),
            None => Compiler::from_env(),
        };
        let compiler = compiler.map_err(|e| Error::lacks(e.to_string()))?;
        Ok((source, compiler, config))
    }
}
