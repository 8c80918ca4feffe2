//! `kiln tree`: lists the algorithms of a kernel tree.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `view.rs` | the tables for people |

mod args;
mod view;

pub(crate) use args::TreeArgs;
