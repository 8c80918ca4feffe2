//! Shows records as a page and as tables, and exports them for other tools. Records may come from
//! any source, so their contents are not trusted. `kiln-record` describes what the fields mean and
//! how to show them.
//!
//! | file | contents |
//! |---|---|
//! | `side.rs` | one column of a report: the records of one machine or one commit, read from files and pages |
//! | `assemble.rs` | the sides of a report: merges shards and records of one machine, and shortens names |
//! | `shards.rs` | merges the shards of a run into one record per machine, and finds missing shards |
//! | `change.rs` | what differs between machines, and what changed from commit to commit |
//! | `group.rs` | the rows of all sides, grouped by type |
//! | `table.rs` | tables, independent of the output format |
//! | `number.rs` | numbers formatted for display |
//! | `picture/` | pictures as SVG: lines, bars, distributions, heat maps, and the pictures of each row type |
//! | `ktap.rs` | writes KTAP, for `export/` and for commands that are tests |
//! | `export/` | formats for other tools: CSV, Markdown, google-benchmark's JSON, KTAP, KCIDB, Bencher and LNT |
//! | `page/` | the page: a single self-contained file |
//! | `verdict.rs` | whether rows about interrupted FPU sections allow a verdict on lost state |
//! | `error.rs` | one-line errors about records |
#![forbid(unsafe_code)]

mod assemble;
mod change;
mod error;
pub mod export;
mod group;
pub mod ktap;
mod number;
mod page;
pub mod picture;
mod shards;
mod side;
mod table;
mod verdict;

pub use assemble::gather;
pub use error::Error;
pub use page::{html, Options};
pub use shards::missing_shards;
pub use side::Side;

use kiln_record::read as record;
