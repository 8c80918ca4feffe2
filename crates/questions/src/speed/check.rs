//! Checks every function that a tree's library exports, without timing it. `kiln test --tree` runs
//! these checks.

use kiln_question::lens::Lens;
use kiln_question::Error;
use kiln_tree::child::Order;
use kiln_tree::event::Checked;

use super::plan::Plan;
use super::run::works;
use super::set::Table;
use kiln_timing::{check, Layout, Level, Op, Own, Source, Tree};

/// Lengths near block boundaries, and near the boundaries of the chunks that functions process.
const LENS: [usize; 33] = [
    0, 1, 4, 7, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 111, 112, 127, 128, 129, 255, 256, 257,
    511, 512, 513, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 8192,
];

/// Checks every function with all key sizes, at all lengths in [`LENS`] that it accepts, and
/// reports the results to the parent. Runs in the child process.
pub(crate) fn check_library(order: &Order) -> Result<(), Error> {
    let mut tree = Tree::boot(order, &[])?;
    let mut all: Vec<Checked> = Vec::new();
    let plan = Plan {
        level: Some(Level::Library),
        layout: Layout::Kunit,
        ops: vec![Op::Encrypt, Op::Decrypt, Op::Digest, Op::Derive],
        lens: Lens(LENS.to_vec()),
        ..Plan::new(order.seed)
    };
    for spec in tree.algorithms() {
        let plan = Plan {
            key_bits: spec.key_bits.clone(),
            ..plan.clone()
        };
        for work in works(&plan, &spec) {
            let mut notes = Vec::new();
            let sources: [&dyn Source; 2] = [&Own::Functions, &tree];
            let table = Table::new(&plan, work, &sources, &mut notes)?;
            for (i, candidate) in table.candidates.iter().enumerate() {
                let mut seen = Checked {
                    function: candidate.name.to_string(),
                    alg: table.work.spec.name.to_string(),
                    op: table.work.op.name().to_string(),
                    ..Checked::default()
                };
                for len in LENS {
                    let wrong = match table.sets(len, &[i]) {
                        Ok(sets) if sets.is_empty() => continue,
                        Ok(sets) => sets
                            .iter()
                            .find_map(|set| check(candidate, &set.messages, &set.references).err()),
                        Err(why) => Some(format!("no right answers: {why}")),
                    };
                    seen.cases += 1;
                    if let Some(why) = wrong {
                        seen.failed += 1;
                        seen.reason.get_or_insert(format!("{len} B: {why}"));
                    }
                }
                let like = |c: &&mut Checked| {
                    (&c.function, &c.alg, &c.op) == (&seen.function, &seen.alg, &seen.op)
                };
                match all.iter_mut().find(like) {
                    Some(before) => {
                        before.cases += seen.cases;
                        before.failed += seen.failed;
                        before.reason = before.reason.take().or(seen.reason);
                    }
                    None => all.push(seen),
                }
            }
        }
    }
    for checked in &all {
        tree.tell(checked)?;
    }
    tree.end()
}
