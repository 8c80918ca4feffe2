//! Builds the tree, starts child processes that step through the functions that the tree exports
//! and those that its suites call, and creates rows from the output of these processes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use kiln_kernel::Tier;
use kiln_question::{
    read_facts, table, Error, Exit, Outcome, Progress, Question, Session, TreeBuildArgs,
};
use kiln_tree::child::ProveOrder;
use kiln_tree::event::{Finding, ProveContext};
use kiln_tree::kunit::{self, Ran, Verdict};

use super::row::{describe, FunctionRow};
use super::view;
use crate::fpu::replay::REPLAY;

pub(in crate::fpu) struct Asked<'a> {
    pub dir: &'a Path,
    pub build: &'a TreeBuildArgs,
    /// Patterns that select suites and cases; if empty, all are examined.
    pub suites: &'a [String],
    /// Contexts in which functions are called; if empty, all contexts are used.
    pub contexts: &'a [String],
    /// How many times each instruction is interrupted, starting with its first execution.
    pub visits: u64,
    /// For a replay: the last call to interrupt, and the last instruction to interrupt within that
    /// call.
    pub at: Option<(u64, u64)>,
}

/// Examines the selected suites. A child process only carries out the order from its parent.
pub(in crate::fpu) fn prove<Q: Question>(
    asked: &Asked<'_>,
    session: &Session,
) -> Result<Exit, Error> {
    if let Some(order) = &session.child {
        if let Some(wanted) = &order.kunit {
            kunit::measure(order, wanted)?;
        }
        return Ok(Exit::Done);
    }
    let contexts = contexts(asked.contexts)?;
    let what = asked.build.resolve(asked.dir)?;
    let title = format!("{}, built by {}", what.0.title(), what.1);
    let version = what.0.version.to_string();
    let built = kiln_question::hosted::build(what, session)?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let progress = Progress::start();
    let chosen = RefCell::new(None);
    let ran = kunit::run(
        &built.image,
        session.seed,
        &arguments,
        &kunit::Wanted {
            patterns: asked.suites.to_vec(),
            bench: false,
            prove: Some(ProveOrder {
                contexts,
                visits: asked.visits,
                at: asked.at,
                functions: Vec::new(),
                known: Vec::new(),
            }),
            // A replay uses only the highest allowed tier.
            masks: match asked.at {
                None => Tier::tree_masks(),
                Some(_) => Tier::masks().pop().into_iter().collect(),
            },
        },
        &|items| {
            let any = !items.is_empty();
            let items = session.share.select(items, String::clone);
            *chosen.borrow_mut() = Some((any, items.clone()));
            items
        },
        &session.stop,
        &|done, what| progress.report(done, what),
    )?;
    drop(progress);
    // A shard may have no rows, because it may be empty or contain only suites without interrupt
    // tests.
    let (found, chosen) = chosen.into_inner().unwrap_or_default();
    let may_be_empty = session.share.shard().is_some() && found;
    let outcome = judge(
        asked,
        &ran,
        &chosen,
        &built.config,
        &version,
        session.seed,
        may_be_empty,
    )?;
    let exit = outcome.exit();
    session.emit::<Q, _>(&read_facts(), &outcome.rows, &outcome.notes, || {
        let (replays, notes): (Vec<_>, Vec<_>) = outcome
            .notes
            .iter()
            .cloned()
            .partition(|n| n.starts_with(REPLAY));
        let lines: String = replays.iter().map(|l| format!("{l}\n")).collect();
        format!(
            "{}\n{title}\n\n{}\n{lines}{}",
            table::machine(&read_facts()),
            view::functions(&outcome.rows),
            table::notes(&notes, session.seed)
        )
    })?;
    Ok(exit)
}

/// Describes how many of the chosen functions and suites were single-stepped, and why the others
/// were not.
fn count_stepped(ran: &[Ran], chosen: &[String]) -> String {
    let proofs = || {
        ran.iter()
            .flat_map(|r| r.proofs.iter().map(move |p| (r, p)))
    };
    let library = |r: &Ran| r.suite == kunit::LIBRARY;
    let stepped: BTreeSet<(&str, &str)> = proofs().map(|(r, p)| (&*r.suite, &*p.case)).collect();
    let exported = stepped.iter().filter(|s| s.0 == kunit::LIBRARY).count();
    let opening: BTreeSet<(&str, &str)> = proofs()
        .filter(|(_, p)| !p.functions.is_empty())
        .map(|(r, p)| (&*r.suite, &*p.case))
        .collect();
    let inside: BTreeSet<&String> = proofs().flat_map(|(_, p)| &p.functions).collect();
    let mut said = format!(
        "stepped: {} exported functions, and what {} cases of the tree's suites call; {} of these {} never opened an FPU section; {} functions \
         of the tree ran inside sections",
        exported,
        stepped.len() - exported,
        stepped.len() - opening.len(),
        stepped.len(),
        inside.len()
    );
    // The name of a library function may be followed by its algorithm.
    let in_library = format!("{}.", kunit::LIBRARY);
    let (functions, suites): (Vec<&String>, Vec<&String>) = chosen
        .iter()
        .partition(|name| name.starts_with(&in_library));
    let untested: Vec<&str> = suites
        .iter()
        .map(|suite| suite.as_str())
        .filter(|suite| !stepped.iter().any(|s| s.0 == *suite))
        .collect();
    if !untested.is_empty() {
        said += &format!(
            "; not stepped: {} suites in which no interrupt test ran ({})",
            untested.len(),
            untested.join(", ")
        );
    }
    let crashed = ran.iter().filter(|r| library(r)).flat_map(|r| &r.faults);
    let crashed: BTreeSet<&str> = crashed.map(|f| f.function.as_str()).collect();
    let lost = functions
        .iter()
        .map(|name| &name[in_library.len()..])
        .filter(|name| !stepped.contains(&(kunit::LIBRARY, name)));
    let lost: Vec<&str> = lost.filter(|name| !crashed.contains(name)).collect();
    if !lost.is_empty() {
        said += &format!("; not stepped after a crash: {}", lost.join(", "));
    }
    said
}

fn contexts(names: &[String]) -> Result<Vec<ProveContext>, Error> {
    if names.is_empty() {
        return Ok(ProveContext::ALL.to_vec());
    }
    let find = |name: &String| {
        let found = ProveContext::ALL.into_iter().find(|c| c.name() == name);
        found.ok_or_else(|| {
            kiln_question::unknown("context", name, &ProveContext::ALL.map(ProveContext::name))
        })
    };
    names.iter().map(find).collect()
}

fn judge(
    asked: &Asked<'_>,
    ran: &[Ran],
    chosen: &[String],
    config: &str,
    version: &str,
    seed: u64,
    may_be_empty: bool,
) -> Result<Outcome<FunctionRow>, Error> {
    let highest = Tier::ALL.into_iter().rfind(|t| t.usable());
    let masks = Tier::tree_masks();
    let replay = |ran: &Ran, case: &str, context: &str, at: Option<(u64, u64)>| {
        // If the finding occurred under a lower tier, the replay needs the same mask.
        let mask = masks.iter().find(|m| m.last() == Some(&ran.tier));
        let tiers = match mask {
            Some(mask) if highest != Some(ran.tier) => Tier::prefix_of(mask),
            _ => Tier::prefix(),
        };
        let case = match case {
            "" => String::new(),
            case => format!(".{case}"),
        };
        let context = match context {
            "" => String::new(),
            context => format!(" --context {context}"),
        };
        let at = at.map_or(String::new(), |(call, step)| format!(" --at {call},{step}"));
        format!(
            "{tiers}kiln fpu prove --tree {} --suite {}{case}{context}{at} --seed {seed}",
            asked.dir.display(),
            ran.suite
        )
    };
    let mut outcome = Outcome::default();
    let mut others = Vec::new();
    for ran in ran {
        for proof in ran.proofs.iter().filter(|p| !p.same) {
            let again = |f: &Finding| replay(ran, &proof.case, proof.context.name(), f.at);
            let row = FunctionRow::new(ran, proof, config, again);
            // A row contains only the first finding; the others become notes.
            others.extend(proof.findings.iter().skip(1).map(|f| {
                let place = format!("{} {} {}", ran.suite, ran.tier, proof.context.name());
                format!("{place}: {}", describe(f))
            }));
            outcome.rows.push(row);
        }
        let warnings: BTreeSet<&String> = ran.warnings.iter().collect();
        let warnings = warnings
            .iter()
            .map(|w| format!("warning: the tree warned at {w}"));
        let cases = ran.cases.iter().filter(|c| c.verdict == Verdict::Failed);
        let cases = cases.map(|c| format!("case: {} failed: {}", c.name, c.said.join("; ")));
        let of_suite = cases.chain(warnings).map(|what| (String::new(), what));
        let crash = ran.faults.iter();
        let crash = crash.map(|f| (f.function.clone(), format!("crash: {}", f.what)));
        for (case, what) in of_suite.chain(crash) {
            let again = replay(ran, &case, "", None);
            let row = FunctionRow::of_suite(ran, case, what, config, again);
            outcome.rows.push(row);
        }
    }
    if outcome.rows.is_empty() && !may_be_empty {
        return Err(Error::input(match asked.suites {
            [] => format!(
                "Linux {version} has no functions that can be stepped: the first version that has is Linux 6.9"
            ),
            names => format!(
                "no library function and no KUnit case of Linux {version} with an interrupt test matches {}: \
                 'kiln fpu prove --tree DIR' lists all of them",
                names.join(", ")
            ),
        }));
    }
    let rows = &outcome.rows;
    let sum = |f: fn(&FunctionRow) -> u64| rows.iter().map(f).sum::<u64>();
    let findings = sum(|r| r.findings);
    let mut notes = vec![
        format!(
            "{} interrupts; after each in an open section the vector registers and MXCSR were compared with those before it, and at each \
             return the registers that a function must preserve; {} answers checked, {} of them wrong; {findings} findings in all",
            sum(|r| r.injected),
            sum(|r| r.answers),
            sum(|r| r.wrong),
        ),
        count_stepped(ran, chosen),
    ];
    let unseen: Vec<String> = rows
        .iter()
        .filter(|r| r.context != "hardirq" && r.findings == 0 && r.injected == r.masked)
        .map(|r| format!("{} {} {} {}", r.suite, r.case, r.tier, r.context))
        .collect();
    if !unseen.is_empty() && asked.at.is_none() {
        notes.push(format!("no interrupt reached {}", unseen.join("; ")));
    }
    let proofs = || ran.iter().flat_map(|r| &r.proofs);
    let dropped = proofs().filter(|p| p.dropped > 0).count();
    if dropped > 0 {
        notes.push(format!(
            "in {dropped} rows some instructions were not interrupted, since the table of instructions was full: use fewer cases (--suite)"
        ));
    }
    notes.push(
        "instructions: of the function, of what it calls and of kernel_fpu_begin and kernel_fpu_end, with an interrupt before each; \
         its handler calls the function in a hardirq and, unless softirqs are off, in a softirq, and overwrites the vector registers where no section is \
         open. In a hardirq the instructions are checked, but nothing can interrupt them"
            .to_string(),
    );
    if rows.iter().any(|r| r.suite == kunit::LIBRARY) {
        let same = proofs().filter(|p| p.same).count();
        notes.push(format!(
            "suite library: what the tree's library exports, on messages of 1 to 2100 bytes; the right answers are those of calls without \
             interrupts, which 'kiln test --tree' checks. {same} times a function ran the same instructions as under fewer tiers, and was not \
             interrupted again. What only tasks may call is interrupted in tasks, and by handlers that call nothing"
        ));
    }
    notes.extend(others);
    let replays = rows.iter().filter_map(|r| {
        let (finding, replay) = (r.finding.as_ref()?, r.replay.as_ref()?);
        Some(format!("{REPLAY}{replay}\n    {finding}"))
    });
    notes.extend(replays);
    outcome.failed = findings > 0 || !unseen.is_empty() && asked.at.is_none();
    outcome.notes = notes;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_tree::event::Proof;
    use kiln_tree::kunit::Crash;

    #[test]
    fn what_was_stepped_and_what_was_not_is_counted() {
        let ran = |suite: &str, cases: &[(&str, &[&str])]| Ran {
            suite: suite.into(),
            tier: Tier::Generic,
            cases: Vec::new(),
            proofs: cases
                .iter()
                .map(|(case, functions)| Proof {
                    case: case.to_string(),
                    functions: functions.iter().map(|f| f.to_string()).collect(),
                    ..Proof::default()
                })
                .collect(),
            warnings: Vec::new(),
            faults: Vec::new(),
        };
        let mut library = ran("library", &[("sha1", &[]), ("md5", &[])]);
        library.faults.push(Crash {
            function: "sm3".into(),
            what: "SIGSEGV".into(),
        });
        let all = [
            library,
            // `sha1` again, as if it had been stepped with another set of tiers.
            ran("library", &[("sha1", &["sha1_transform_avx", "memcpy"])]),
            ran("sha256", &[("test_irq", &["memcpy"])]),
            ran("crc_kunit", &[]),
        ];
        let chosen = [
            "crc_kunit",
            "sha256",
            "library.sha1",
            "library.md5",
            "library.sm3",
        ];
        let chosen = chosen.map(String::from);
        assert_eq!(
            count_stepped(&all, &chosen),
            "stepped: 2 exported functions, and what 1 cases of the tree's suites call; 1 of these 3 never opened an FPU section; 2 \
             functions of the tree ran inside sections; not stepped: 1 suites in which no interrupt test ran (crc_kunit)"
        );
        let lost = [&chosen[..], &["library.nh".to_string()]].concat();
        assert!(count_stepped(&all, &lost).ends_with("; not stepped after a crash: nh"));
        let whole = count_stepped(&all, &chosen[1..]);
        assert!(!whole.contains("not stepped"), "{whole}");
    }
}
