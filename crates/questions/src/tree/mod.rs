//! `kiln tree`: builds a kernel tree's crypto code, runs its self-tests, and lists its algorithms.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `view.rs` | the human-readable tables |

mod args;
mod view;

pub(crate) use args::TreeArgs;
