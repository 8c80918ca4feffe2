//! Code shared by all commands of Kiln. Each command is a [`Question`], which consists of arguments
//! and a run that ends with an [`Exit`]. A [`Session`] holds the flags that every command accepts,
//! and outputs results.
//!
//! | file | contents |
//! |---|---|
//! | `question.rs` | the trait `Question` |
//! | `session.rs` | one run of the program: flags, seed, Ctrl-C |
//! | `outcome.rs` | the result of a run, with its exit status |
//! | `results.rs` | output of results: records, and human-readable text |
//! | `shard.rs` | `--shard`: the part of a plan that a run does |
//! | `global.rs` | the flags that every command accepts |
//! | `error.rs` | errors and their exit statuses |
//! | `unknown.rs` | the error for an unknown name, which suggests the nearest known name |
//! | `algorithm.rs` | algorithms and implementations by name |
//! | `lens.rs` | lists and ranges of lengths |
//! | `duration.rs` | the flag `--seconds` |
//! | `tiers.rs` | `KILN_TIERS` |
//! | `facts.rs` | the facts about this machine that every record contains |
//! | `progress.rs` | the progress bar |
//! | `output.rs` | writing to stdout, and error lines on stderr |
//! | `replace.rs` | writing files atomically |
//! | `table.rs` | human-readable tables and paragraphs |
//! | `tree_args.rs` | the flags that specify how to build a kernel tree |
//! | `hosted.rs` | building a kernel tree in this process, and measuring it in a child process |
//! | `child.rs` | running a command of this program in a separate process |
//! | `survey/` | what a question adds to the survey: parts, and headlines based on their records |

pub mod algorithm;
pub mod child;
mod duration;
mod error;
mod facts;
mod global;
pub mod hosted;
pub mod lens;
mod outcome;
mod output;
mod progress;
mod question;
pub mod replace;
mod results;
mod session;
mod shard;
pub mod survey;
pub mod table;
pub mod tiers;
mod tree_args;
mod unknown;

pub use algorithm::Algorithm;
pub use duration::parse_seconds;
pub use error::Error;
pub use facts::read_facts;
pub use global::Global;
pub use kiln_tree::is_revision;
pub use outcome::{Exit, Outcome};
pub use output::{check, print, print_bytes, print_error, print_fault};
pub use progress::{Progress, Report};
pub use question::{Question, RowType};
pub use session::{enter_directory, prepare, Program, Session};
pub use shard::{Shard, ShardArgs, Share};
pub use tree_args::TreeBuildArgs;
pub use unknown::{is_similar, list, unknown};
