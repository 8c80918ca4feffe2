//! `kiln fpu overhead`: compares the costs of several methods of calling a cipher: a direct
//! function call, a request through the crypto API, through the simd helper or through cryptd's
//! kworker, and a request to a driver for callers that cannot use any of these.
//!
//! All methods under all policies are measured in one process, interleaved, because the command is
//! meant to compare different kernels: Linux up to 6.14 uses the simd helper with `legacy`
//! sections, and Linux 6.15 and later uses direct calls with `bh-off` sections.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `plan.rs` | the request, and its validation |
//! | `run.rs` | Kiln's own methods, and the rows |
//! | `tree.rs` | the methods of a kernel tree |
//! | `view.rs` | the human-readable tables |

mod args;
mod plan;
mod run;
mod tree;
mod view;

pub(super) use args::OverheadArgs;
