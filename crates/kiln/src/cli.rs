//! The arguments: flags that every command has, and the list of commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::cmd;

/// Kernel crypto in user land: how fast, how right, and what it costs.
#[derive(Parser)]
#[command(
    name = "kiln",
    version,
    max_term_width = 100,
    after_help = "\
Without a command: the five questions for this machine (kiln survey).

Examples:
  kiln                                all questions for this machine, in a minute
  kiln speed 'xts(aes)' --len 16..64  cycles a byte at every length
  kiln list                           what is here; the hardware's limits
  KILN_TIERS=generic,aesni kiln       as if the CPU had no VAES

Exit status: 0 done; 1 a check failed; 2 the input is wrong; 3 this machine
lacks something; 125 cannot be built or tried (compare --bisect); 130
interrupted (what was measured so far is printed)."
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// One JSON document on stdout, nothing else there
    #[arg(long, global = true)]
    pub json: bool,
    /// At most about 20 s, with wider intervals
    #[arg(long, global = true)]
    pub quick: bool,
    /// All random choices follow from it; it is printed and recorded
    #[arg(long, global = true, value_name = "N")]
    pub seed: Option<u64>,
    /// Also write the record DIR/COMMAND.json
    #[arg(long, global = true, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Host cores to use, such as 0 or 0,2-3; measurements run on the first
    #[arg(long, global = true, value_name = "LIST")]
    pub cpu: Option<String>,
}

#[derive(Subcommand)]
pub enum Command {
    /// All questions for this machine in a minute; also what kiln does without a command
    Survey(cmd::survey::SurveyArgs),
    /// What is here: tiers, implementations, peers, compilers, hardware limits
    List(cmd::list::ListArgs),
    /// Cycles a byte by implementation, key size and length
    Speed(cmd::speed::SpeedArgs),
    /// What each FPU policy costs under softirq load, and whether it loses state
    Fpu(cmd::fpu::FpuArgs),
    /// Bytes for an FPU section that holds a latency target
    Budget(cmd::budget::BudgetArgs),
    /// Is every implementation right? KTAP on stdout
    Test(cmd::test::TestArgs),
    /// Run one implementation on a file or on stdin
    Crypt(cmd::crypt::CryptArgs),
    /// What changed between two records or two kernel trees, beyond the noise
    Compare(cmd::compare::CompareArgs),
    /// Records of one or several machines as one page, or as what other tools read
    Report(cmd::report::ReportArgs),
    /// Which compiler, at which flags, ruins which cipher
    Compilers(cmd::compilers::CompilersArgs),
    /// What a kernel tree holds: built, linked, tested by its own self-tests
    Tree(cmd::tree::TreeArgs),
    /// The virtio-crypto device on a vhost-user socket
    Serve(cmd::serve::ServeArgs),
    /// Is a virtio-crypto device right, and safe? KTAP on stdout
    VirtioCheck(cmd::virtio_check::VirtioCheckArgs),
    /// A virtio-crypto control queue: busy polling against waiting
    Ctrlq(cmd::ctrlq::CtrlqArgs),
    /// The same in real Linux, built and booted in user land
    Linux(cmd::linux::LinuxArgs),
    /// How far measurements can be trusted on this machine
    SelfCheck(cmd::self_check::SelfCheckArgs),
}

impl Command {
    /// Whether `--out` may name a file.
    pub fn writes_a_file(&self) -> bool {
        matches!(self, Command::Report(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
