//! Shows records as a page and as tables, and exports them for other tools. Records may come from anyone, so nothing
//! in them is trusted. `kiln-record` describes what their fields mean and how they are shown.
//!
//! | file | its noun |
//! |---|---|
//! | `side.rs` | one column of a report: what one machine or one commit has said; files and pages it is read from |
//! | `shards.rs` | the shards of a run as one record, and those that are missing |
//! | `change.rs` | what differs between machines, and what changed over commits |
//! | `group.rs` | the rows of all sides, by type |
//! | `table.rs` | tables, before anyone decides how they look |
//! | `number.rs` | figures as people read them |
//! | `picture/` | pictures, as SVG: lines, bars, distributions, heat maps, and which a question has |
//! | `ktap.rs` | the writer of KTAP, for `export/` and for commands that are tests |
//! | `export/` | what other tools read: CSV, Markdown, google-benchmark's JSON, KTAP |
//! | `page/` | the page: one file that needs nothing else |
//! | `verdict.rs` | whether interrupted FPU sections carry a verdict on lost state |
//! | `error.rs` | what is wrong with a record, in one line |
#![forbid(unsafe_code)]

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

pub use error::Error;
pub use page::{html, Options};
pub use shards::missing_shards;
pub use side::{gather, Side};

use kiln_record::read as record;
