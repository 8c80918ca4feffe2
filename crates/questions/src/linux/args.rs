//! The arguments of `kiln linux`, and the function that runs its subcommands.

use clap::{Args, Subcommand};
use kiln_question::{Error, Exit, Question, RowType, Session};

use super::boot::BootArgs;
use super::build::BuildArgs;
use super::dkms::DkmsArgs;
use super::fidelity::FidelityArgs;
use super::nested::NestedArgs;
use super::record::RecordArgs;
use super::selftest::SelftestArgs;
use super::tcrypt::TcryptArgs;
use super::virtio::VirtioArgs;

/// Run Kiln's ciphers in a real Linux kernel (user mode Linux or QEMU)
///
/// The subcommands build, boot, tcrypt and selftest use user mode Linux, without a VM or root. In
/// user mode Linux, Linux's own testmgr tests Kiln's ciphers, and Linux's own tcrypt measures them.
/// The subcommands fidelity, nested, dkms and record boot a stock kernel under QEMU. The subcommand
/// virtio boots user mode Linux or, with --qemu, a stock kernel under QEMU.
#[derive(Args)]
pub struct LinuxArgs {
    #[command(subcommand)]
    command: LinuxCommand,
}

#[derive(Subcommand)]
enum LinuxCommand {
    Build(BuildArgs),
    Boot(BootArgs),
    Tcrypt(TcryptArgs),
    Selftest(SelftestArgs),
    Fidelity(FidelityArgs),
    Nested(NestedArgs),
    Dkms(DkmsArgs),
    Virtio(VirtioArgs),
    Record(RecordArgs),
}

impl Question for LinuxArgs {
    const NAME: &'static str = "linux";

    fn row_types() -> Vec<RowType> {
        let mut all = FidelityArgs::row_types();
        all.extend(NestedArgs::row_types());
        all.extend(DkmsArgs::row_types());
        all.extend(VirtioArgs::row_types());
        all.extend(SelftestArgs::row_types());
        all.extend(BuildArgs::row_types());
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
            LinuxCommand::Dkms(args) => args.run(session),
            LinuxCommand::Virtio(args) => args.run(session),
            LinuxCommand::Record(args) => args.run(session),
        };
        done.map_err(without_log)
    }
}

/// Returns only the first line of a build or boot error. The remaining lines, which are the end of
/// a log, are printed on stderr.
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
