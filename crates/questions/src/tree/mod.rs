//! What a kernel tree holds.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `view.rs` | the tables for people |

mod args;
mod view;

pub(crate) use args::TreeArgs;
