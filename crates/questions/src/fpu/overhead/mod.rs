//! `kiln fpu overhead`: compares the costs of several methods of calling a cipher. The methods are
//! a direct function call, a request to the function's driver, a request through the simd helper or
//! cryptd's kworker, a request to the scalar driver, and a request to the driver that a caller gets
//! if it excludes asynchronous drivers.
//!
//! All methods are measured under all policies, interleaved in one process, because the command is
//! meant to compare different kernels. Linux up to 6.14 uses the simd helper with `legacy`
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
