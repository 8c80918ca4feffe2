//! `kiln linux`: the same in real Linux.

mod boot;
mod build;
mod fidelity;
mod nested;
mod qemu_args;
mod selftest;
mod tcrypt;
mod virtio;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kiln_kbuild::Compiler;
use kiln_lab::Error;
use kiln_linux::{module, source, uml};
use kiln_tree::Source;

use super::tree::fault;
use crate::progress::Progress;
use crate::session::{Exit, Session};

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

/// Runs it.
pub fn run(args: &LinuxArgs, session: &Session) -> Result<Exit, Error> {
    let done = match &args.command {
        LinuxCommand::Build(args) => build::run(args, session),
        LinuxCommand::Boot(args) => boot::run(args, session),
        LinuxCommand::Tcrypt(args) => tcrypt::run(args, session),
        LinuxCommand::Selftest(args) => selftest::run(args, session),
        LinuxCommand::Fidelity(args) => fidelity::run(args, session),
        LinuxCommand::Nested(args) => nested::run(args, session),
        LinuxCommand::Virtio(args) => virtio::run(args, session),
    };
    match done {
        Err(Fault::Linux(kiln_linux::Error::Interrupted)) => Ok(Exit::Interrupted),
        Err(Fault::Linux(e)) => Err(fault(shown(e))),
        Err(Fault::Own(e)) => Err(e),
        Ok(exit) => Ok(exit),
    }
}

/// Behind its first line a fault of a build or a boot has the end of a log: to stderr as it is, before the one line.
fn shown(e: kiln_linux::Error) -> kiln_linux::Error {
    use kiln_linux::Error::{Failed, Input, Lacks};
    let split = |text: String| {
        let (line, log) = text.split_once('\n').unwrap_or((&text, ""));
        if !log.is_empty() {
            eprintln!("{log}");
        }
        line.to_owned()
    };
    match e {
        Input(text) => Input(split(text)),
        Lacks(text) => Lacks(split(text)),
        Failed(text) => Failed(split(text)),
        other => other,
    }
}

/// What can go wrong: building and booting, or the command itself.
enum Fault {
    Linux(kiln_linux::Error),
    Own(Error),
}

impl From<kiln_linux::Error> for Fault {
    fn from(e: kiln_linux::Error) -> Fault {
        Fault::Linux(e)
    }
}

impl From<Error> for Fault {
    fn from(e: Error) -> Fault {
        Fault::Own(e)
    }
}

/// Which kernel, and by what it is built.
#[derive(Args, Clone, Debug)]
pub struct KernelArgs {
    /// A Linux source tree [default: the newest of Debian's packages linux-source-*]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// The compiler of the kernel and the module, each with a build directory of its own [default: KILN_CC, or cc, gcc,
    /// clang]
    #[arg(long, value_name = "CC")]
    cc: Option<String>,
}

impl KernelArgs {
    fn compiler(&self) -> Result<Compiler, kiln_linux::Error> {
        let compiler = match &self.cc {
            Some(name) => Compiler::find(name),
            None => Compiler::from_env(),
        };
        compiler.map_err(|e| kiln_linux::Error::Lacks(e.to_string()))
    }

    fn resolve(
        &self,
        progress: &dyn Fn(f64, &str),
    ) -> Result<(Source, Compiler), kiln_linux::Error> {
        let compiler = self.compiler()?;
        Ok((source::find(self.tree.as_deref(), progress)?, compiler))
    }

    /// Builds what is not up to date of user mode Linux.
    fn build(
        &self,
        session: &Session,
        progress: &Progress,
    ) -> Result<uml::Built, kiln_linux::Error> {
        let progress = |done: f64, what: &str| progress.report(done * 0.8, what);
        let (source, compiler) = self.resolve(&progress)?;
        uml::build(&uml::Plan {
            source,
            compiler,
            stop: &session.stop,
            progress: &progress,
        })
    }
}

/// Kiln's module against it.
fn build_module(
    built: &uml::Built,
    session: &Session,
    progress: &Progress,
) -> Result<module::Module, kiln_linux::Error> {
    module::build(&module::Plan {
        kernel: module::Kernel::User(built),
        compiler: &built.compiler,
        dir: built.cache.dir.join("module"),
        edit: &module::unchanged,
        stop: &session.stop,
        progress: &|what| progress.report(0.9, what),
    })
}

/// A time limit.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n <= 1e6 => Ok(n),
        _ => Err("seconds, more than 0".into()),
    }
}
