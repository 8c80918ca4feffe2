//! What the methods to reach a cipher cost against each other: the function itself, a request through the crypto API,
//! the simd helper before it, the kworker behind that, and the drivers left for callers that can use none of these.
//!
//! All methods under all policies are measured in one process, interleaved, since the question is between methods that
//! different kernels offer: through the simd helper with `legacy` sections (Linux up to 6.14), directly with `bh-off`
//! sections (6.15 and later).
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `plan.rs` | what is asked for, and whether it is valid |
//! | `run.rs` | Kiln's own methods, and the rows |
//! | `tree.rs` | the methods of a kernel tree |
//! | `view.rs` | the tables for people |

mod args;
mod plan;
mod run;
mod tree;
mod view;

pub(super) use args::OverheadArgs;
