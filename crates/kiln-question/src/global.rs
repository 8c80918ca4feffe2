use std::path::PathBuf;

use clap::Args;

/// Flags that every command accepts.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Print one JSON document on stdout instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Finish in about 20 s; intervals are wider or missing
    #[arg(long, global = true)]
    pub quick: bool,
    /// Seed for all random choices; it is printed and recorded [default: random]
    #[arg(long, global = true, value_name = "N")]
    pub seed: Option<u64>,
    /// Also write the record to DIR/COMMAND.json
    ///
    /// With --shard I/N, which not every command has, the file is DIR/COMMAND-HOST-IofN.json; HOST
    /// is this machine's name.
    #[arg(short, long, global = true, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Cores of this machine to use, such as 0 or 0,2-3; measurements run on the first one listed
    #[arg(long, global = true, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Print neither tables nor progress. Errors are still printed; the exit status and --out are
    /// not affected
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Read defaults of --cpu, --out, --peers and --tree from this file [default: kiln.toml in the
    /// current directory, else in ~/.config/kiln]
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub defaults: Option<PathBuf>,
    /// Do not read a defaults file
    #[arg(
        long,
        global = true,
        conflicts_with = "defaults",
        hide_short_help = true
    )]
    pub no_defaults: bool,
    /// Change to this directory first
    #[arg(short = 'C', global = true, value_name = "DIR", hide_short_help = true)]
    pub directory: Option<PathBuf>,
}
