use std::path::PathBuf;

use clap::Args;

/// Flags that every command accepts.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Print one JSON document on stdout instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Finish in about 20 s by measuring less; results have wider ranges, or none
    #[arg(long, global = true)]
    pub quick: bool,
    /// Seed for all random choices; Kiln prints it [default: random; with --shard: 1]
    #[arg(long, global = true, value_name = "N")]
    pub seed: Option<u64>,
    /// Also write the results to DIR/COMMAND.json, in the format of --json
    ///
    /// Some commands have an option --shard I/N. With --out DIR and --shard I/N, the results are
    /// written to DIR/COMMAND-HOST-IofN.json, where HOST is this machine's name.
    #[arg(short, long, global = true, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run only on these cores, such as 0 or 0,2-3; the main thread runs on the first
    #[arg(long, global = true, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Print only errors; --out still writes files, and the exit status is the same
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// File with default values for --cpu, --out, --peers and --tree [default: kiln.toml in the
    /// current directory, else ~/.config/kiln/kiln.toml]
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
    /// Change to this directory before anything else is done
    #[arg(short = 'C', global = true, value_name = "DIR", hide_short_help = true)]
    pub directory: Option<PathBuf>,
}
