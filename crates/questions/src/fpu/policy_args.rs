//! Flags that select policies, both Kiln's own and those of kernel trees.

use std::path::PathBuf;

use clap::Args;
use kiln_kernel::fpu::Policy;
use kiln_question::{Error, TreeBuildArgs};

use super::plan::{contenders, Contender};

#[derive(Args)]
pub(super) struct PolicyArgs {
    /// FPU policies, explained by 'kiln fpu --help': legacy (Linux up to 6.14), bh-off (Linux from
    /// 6.15), nested, nested-v1, preemptible, none (the control: saves no registers), or tree:DIR
    /// (the policy of a Linux source tree or git revision) [default: all but tree:DIR]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    policy: Vec<String>,
    #[command(flatten)]
    pub build: TreeBuildArgs,
}

impl PolicyArgs {
    /// Returns the requested policies that are Kiln's own.
    pub(super) fn own(&self) -> Result<Vec<Policy>, Error> {
        own(&self.policy)
    }

    /// Returns the directories of the requested kernel trees.
    pub(super) fn trees(&self) -> Result<Vec<PathBuf>, Error> {
        trees(&self.policy, &self.build)
    }
}

/// Returns the named policies that are Kiln's own.
pub(super) fn own(names: &[String]) -> Result<Vec<Policy>, Error> {
    let contenders = contenders(names)?.into_iter();
    let own = contenders.filter_map(|c| match c {
        Contender::Own(policy) => Some(policy),
        Contender::Tree(_) => None,
    });
    Ok(own.collect())
}

/// Returns the directories of the kernel trees among the named policies.
///
/// # Errors
/// Fails if `--cc` or `--config` is given but no policy is a tree that could be built.
pub(super) fn trees(names: &[String], build: &TreeBuildArgs) -> Result<Vec<PathBuf>, Error> {
    let contenders = contenders(names)?.into_iter();
    let trees = contenders.filter_map(|c| match c {
        Contender::Own(_) => None,
        Contender::Tree(dir) => Some(dir),
    });
    let trees: Vec<PathBuf> = trees.collect();
    match trees.is_empty() && build.given() {
        true => Err(Error::input(
            "--cc and --config are for kernel trees: name one with --policy tree:DIR",
        )),
        false => Ok(trees),
    }
}
