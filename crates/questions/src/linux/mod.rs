//! `kiln linux`: the same in real Linux. One file per subcommand.
//!
//! | file | contents |
//! |---|---|
//! | `build.rs`, `boot.rs` | user mode Linux and Kiln's module, built and booted |
//! | `tcrypt.rs`, `selftest.rs`, `view.rs` | Linux's own benchmark and tests of Kiln's ciphers, and their tables |
//! | `fidelity.rs`, `nested.rs`, `qemu_args.rs`, `fidelity_view.rs` | a stock kernel's ring 0 under QEMU |
//! | `virtio.rs`, `virtio_view.rs` | Linux's own virtio_crypto driver |

mod boot;
mod build;
mod fidelity;
mod fidelity_view;
mod nested;
mod qemu_args;
mod selftest;
mod tcrypt;
mod view;
mod virtio;
mod virtio_view;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kiln_kbuild::Compiler;
use kiln_linux::{module, source, uml};
use kiln_question::{Error, Exit, Progress, Question, RowType, Session};
use kiln_tree::Source;

/// The same in real Linux, built and booted in user land
///
/// Real Linux as the judge, no VM and no root. Its own testmgr tests Kiln's ciphers, its own tcrypt measures them.
#[derive(Args)]
pub struct LinuxArgs {
    #[command(subcommand)]
    command: LinuxCommand,
}

#[derive(Subcommand)]
enum LinuxCommand {
    Build(build::BuildArgs),
    Boot(boot::BootArgs),
    Tcrypt(tcrypt::TcryptArgs),
    Selftest(selftest::SelftestArgs),
    Fidelity(fidelity::FidelityArgs),
    Nested(nested::NestedArgs),
    Virtio(virtio::VirtioArgs),
}

impl Question for LinuxArgs {
    const NAME: &'static str = "linux";

    fn row_types() -> Vec<RowType> {
        let mut all = fidelity::FidelityArgs::row_types();
        all.extend(nested::NestedArgs::row_types());
        all.extend(virtio::VirtioArgs::row_types());
        all.extend(selftest::SelftestArgs::row_types());
        all.extend(build::BuildArgs::row_types());
        all
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let done = match &self.command {
            LinuxCommand::Build(args) => args.run(session),
            LinuxCommand::Boot(args) => args.run(session),
            LinuxCommand::Tcrypt(args) => args.run(session),
            LinuxCommand::Selftest(args) => args.run(session),
            LinuxCommand::Fidelity(args) => args.run(session),
            LinuxCommand::Nested(args) => args.run(session),
            LinuxCommand::Virtio(args) => args.run(session),
        };
        done.map_err(without_log)
    }
}

/// The error of a build or a boot has the end of a log behind its first line: prints that to stderr and keeps the line.
fn without_log(e: Error) -> Error {
    let split = |text: String| {
        let (line, log) = text.split_once('\n').unwrap_or((&text, ""));
        if !log.is_empty() {
            eprintln!("{log}");
        }
        line.to_owned()
    };
    match e {
        Error::Input(text) => Error::Input(split(text)),
        Error::Lacks(text) => Error::Lacks(split(text)),
        Error::Failed(text) => Error::Failed(split(text)),
    }
}

/// Which kernel, and by what it is built.
#[derive(Args, Clone, Debug)]
pub(crate) struct KernelArgs {
    /// A Linux source tree [default: the newest of Debian's packages linux-source-*]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// The compiler of the kernel and the module, each with a build directory of its own [default: KILN_CC, or cc, gcc,
    /// clang]
    #[arg(long, value_name = "CC")]
    cc: Option<String>,
}

impl KernelArgs {
    fn compiler(&self) -> Result<Compiler, Error> {
        let compiler = match &self.cc {
            Some(name) => Compiler::find(name),
            None => Compiler::from_env(),
        };
        Ok(compiler.map_err(kiln_linux::Error::Compiler)?)
    }

    fn resolve(&self, progress: &dyn Fn(f64, &str)) -> Result<(Source, Compiler), Error> {
        let compiler = self.compiler()?;
        Ok((source::find(self.tree.as_deref(), progress)?, compiler))
    }

    /// Builds what is not up to date of user mode Linux.
    fn build(&self, session: &Session, progress: &Progress) -> Result<uml::Built, Error> {
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

/// Kiln's module against it.
fn build_module(
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

/// A time limit.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n <= 1e6 => Ok(n),
        _ => Err("seconds, more than 0".into()),
    }
}
