//! `kiln list`: lists the tiers, implementations, CPU features, libraries, compilers and limits of
//! this machine.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `row.rs` | the rows |
//! | `view.rs` | the human-readable tables |

mod args;
mod row;
mod view;

pub use args::ListArgs;
pub use row::{impls, tiers};
