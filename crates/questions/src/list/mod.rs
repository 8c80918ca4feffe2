//! Lists what is available on this machine: tiers, implementations, CPU features, libraries, compilers, limits.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `row.rs` | the rows |
//! | `view.rs` | the tables for people |

mod args;
mod row;
mod view;

pub use args::ListArgs;
pub use row::{impls, tiers};
