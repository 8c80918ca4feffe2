//! The sources of a plan's candidates.

use kiln_question::Error;

use super::effort::SWEEP;
use super::plan::Plan;
use kiln_timing::peer::Peers;
use kiln_timing::{Own, Source};

/// The sources of everything that a plan measures in this process, except for a kernel tree.
pub(super) struct Sources {
    own: Option<Own>,
    /// The source of the API calls that are compared with calls to libraries.
    calls: Option<Own>,
    peers: Peers,
}

impl Sources {
    /// Loads the libraries. The plan must have been checked.
    pub(super) fn load(plan: &Plan, notes: &mut Vec<String>) -> Result<Sources, Error> {
        let peers = Peers::load(&plan.peers, plan.baseline_peer(), notes)?;
        let functions = plan.own && plan.level.is_none() && plan.turn.is_none();
        let short = plan.lens.0.len() <= SWEEP;
        let calls = functions && !plan.latency && peers.count() > 0 && short;
        Ok(Sources {
            own: plan.own.then(|| plan.own_source()),
            calls: calls.then_some(Own::Calls),
            peers,
        })
    }

    /// Returns the number of libraries that were loaded.
    pub(super) fn libraries(&self) -> usize {
        self.peers.count()
    }

    /// Returns all sources, with `others` last.
    pub(super) fn list<'s>(&'s self, others: &[&'s dyn Source]) -> Vec<&'s dyn Source> {
        let own = [&self.own, &self.calls].into_iter().flatten();
        let mut all: Vec<&dyn Source> = own.map(|own| own as &dyn Source).collect();
        all.push(&self.peers);
        all.extend(others);
        all
    }
}
