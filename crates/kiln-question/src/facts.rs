//! Reads the facts about this machine that every record contains.

use kiln_kernel::Tier;
use kiln_measure::Machine;
use kiln_record::Facts;

/// Reads all facts. This takes about 80 ms, mostly to measure the clocks.
pub fn read_facts() -> Facts {
    Facts {
        machine: Machine::read(),
        kernel_cc: kiln_kernel::COMPILER.to_string(),
        tiers: Tier::ALL
            .into_iter()
            .filter(|t| t.usable())
            .map(Tier::name)
            .collect(),
    }
}
