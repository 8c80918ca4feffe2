//! Formats the table that `kiln fpu prove --tree` prints. Each line covers one function in one
//! context, for all tiers together.

use std::collections::BTreeSet;

use kiln_kernel::Tier;
use kiln_question::table::{align, paragraph, plain, text};

use super::row::FunctionRow;

/// Maximum length of a case's name in characters.
const NAME: usize = 22;

pub(super) fn functions(rows: &[FunctionRow]) -> String {
    let mut table = plain();
    table.set_header([
        "suite", "case", "context", "tiers", "instrs", "irqs", "answers", "wrong", "found",
    ]);
    let keys: BTreeSet<(&str, &str, usize)> = rows
        .iter()
        .map(|r| (r.suite.as_str(), r.case.as_str(), rank(r.context)))
        .collect();
    for (suite, case, context) in keys {
        let group: Vec<&FunctionRow> = rows
            .iter()
            .filter(|r| {
                (r.suite.as_str(), r.case.as_str(), rank(r.context)) == (suite, case, context)
            })
            .collect();
        let sum = |f: fn(&FunctionRow) -> u64| group.iter().map(|r| f(r)).sum::<u64>().to_string();
        let tiers: BTreeSet<&str> = group.iter().map(|r| r.tier).collect();
        table.add_row([
            suite.to_string(),
            shorten(case),
            group[0].context.to_string(),
            tiers.len().to_string(),
            sum(|r| r.points),
            sum(|r| r.injected),
            sum(|r| r.answers),
            sum(|r| r.wrong),
            sum(|r| r.findings),
        ]);
    }
    align(&mut table, 3..9);
    format!("{}\n{}", text(&table), legend())
}

/// Explains the columns whose headings are not self-explanatory.
fn legend() -> String {
    let sets: Vec<&str> = Tier::tree_masks()
        .iter()
        .filter_map(|mask| mask.last())
        .map(|tier| tier.name())
        .collect();
    let text = format!(
        "tiers: under how many sets of CPU features the function was interrupted, of the {} that this CPU allows, by the highest tier in \
         each: {}. An exported function is not interrupted again if it runs the same instructions as under a smaller set. instrs: \
         distinct instructions with an interrupt before them. found: broken rules",
        sets.len(),
        sets.join(", ")
    );
    paragraph(&text) + "\n"
}

fn rank(context: &str) -> usize {
    let order = ["task", "softirq", "hardirq"];
    order
        .iter()
        .position(|c| *c == context)
        .unwrap_or(order.len())
}

/// Shortens a case's name: removes the prefix `test_`, and limits it to [`NAME`] characters.
fn shorten(case: &str) -> String {
    let name = case.strip_prefix("test_").unwrap_or(case);
    let name = name.replace("interrupt_context", "irq");
    match name.len() > NAME {
        true => format!("{}…", &name[..NAME - 1]),
        false => name,
    }
}
