//! Processes one message with one implementation.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `cipher.rs` | an implementation with its key, and a message in pieces |

mod args;
mod cipher;

pub(crate) use args::CryptArgs;
pub(crate) use cipher::{Cipher, Plan};
