//! The arguments that select a kernel and a compiler, for commands that build user mode Linux.

use std::path::PathBuf;

use clap::Args;
use kiln_kbuild::Compiler;
use kiln_linux::{module, source, uml};
use kiln_question::{Error, Progress, Session};
use kiln_tree::Source;

/// The kernel to build, and the compiler to use.
#[derive(Args, Clone, Debug)]
pub(super) struct KernelArgs {
    /// Linux source tree: a directory or a git revision [default: the newest installed Debian
    /// package linux-source-*]
    #[arg(long, value_name = "DIR|REV")]
    tree: Option<PathBuf>,
    /// Compiler for the kernel and the module; each compiler has a separate build directory
    /// [default: KILN_CC if set, else the first of cc, gcc, clang]
    #[arg(long, value_name = "CC")]
    cc: Option<String>,
}

impl KernelArgs {
    pub(super) fn compiler(&self) -> Result<Compiler, Error> {
        let compiler = match &self.cc {
            Some(name) => Compiler::find(name),
            None => Compiler::from_env(),
        };
        Ok(compiler.map_err(kiln_linux::Error::Compiler)?)
    }

    pub(super) fn resolve(
        &self,
        progress: &dyn Fn(f64, &str),
    ) -> Result<(Source, Compiler), Error> {
        let compiler = self.compiler()?;
        Ok((source::find(self.tree.as_deref(), progress)?, compiler))
    }

    /// Builds the parts of user mode Linux that are not up to date.
    pub(super) fn build(
        &self,
        session: &Session,
        progress: &Progress,
    ) -> Result<uml::Built, Error> {
        let progress = |done: f64, what: &str| progress.report(done * 0.8, what);
        let (source, compiler) = self.resolve(&progress)?;
        Ok(uml::build(&uml::Plan {
            source,
            compiler,
            stop: &session.stop,
            progress: &progress,
        })?)
    }
}

/// Builds Kiln's module for the kernel `built`.
pub(super) fn build_module(
    built: &uml::Built,
    session: &Session,
    progress: &Progress,
) -> Result<module::Module, Error> {
    Ok(module::build(&module::Plan {
        kernel: module::Kernel::User(built),
        compiler: &built.compiler,
        dir: built.cache.dir.join("module"),
        edit: &module::unchanged,
        stop: &session.stop,
        progress: &|what| progress.report(0.9, what),
    })?)
}
