//! Flags for the loads that run on the emulated CPU.

use clap::Args;
use kiln_kernel::fpu::Policy;
use kiln_question::Error;

use super::plan::{fallbacks, Fallback};
use super::workload::Workload;

/// Flags that select the work of the task and of the softirqs.
#[derive(Args)]
pub(super) struct LoadArgs {
    /// Work of the task that is interrupted: encrypt messages of 16 bytes (xts-16) or 4096 bytes
    /// (xts-4096), or keep a pattern in all registers (pattern) [default: xts-16,xts-4096]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    load: Vec<String>,
    /// What softirqs do under policy 'legacy' if SIMD is not usable: scalar (run scalar code) or
    /// cryptd (defer the request to cryptd) [default: scalar]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    fallback: Vec<String>,
}

impl LoadArgs {
    pub(super) fn loads(&self, usual: Vec<Workload>) -> Result<Vec<Workload>, Error> {
        match self.load.as_slice() {
            [] => Ok(usual),
            names => names.iter().map(|name| name.parse()).collect(),
        }
    }

    /// Returns the fallbacks that `--fallback` names, or `usual` if the flag is absent. Fails if
    /// the flag is given but `policies` does not include legacy, the only policy that falls back.
    pub(super) fn fallbacks(
        &self,
        usual: Vec<Fallback>,
        policies: &[Policy],
    ) -> Result<Vec<Fallback>, Error> {
        match self.fallback.as_slice() {
            [] => Ok(usual),
            _ if policies.iter().all(|policy| policy.name() != "legacy") => Err(Error::input(
                "--fallback: only the policy legacy falls back: add it to --policy, or leave --fallback out",
            )),
            names => fallbacks(names),
        }
    }
}
