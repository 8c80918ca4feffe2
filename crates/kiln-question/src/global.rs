//! The flags of every command.

use std::path::PathBuf;

use clap::Args;

/// Flags of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// One JSON document on stdout, nothing else there
    #[arg(long, global = true)]
    pub json: bool,
    /// At most about 20 s, with wider intervals or none
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
