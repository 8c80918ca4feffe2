//! `kiln fpu` with trees: each is built here, and measured by a child beside Kiln's own policies.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use kiln_kernel::fpu::Policy;
use kiln_lab::fpu::{AnswerRow, Bench, Contender, Outcome, Plan, Proof, Row, StepRow, TreeName};
use kiln_lab::{read_facts, Error};
use kiln_tree::child::{self, Order, Watch};
use kiln_tree::{Host, Source};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::fpu::{measured, Measured, What};
use super::tree::fault;
use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::tree_args::TreeBuildArgs;

/// By this variable the child knows which of the trees it holds.
const VARIABLE: &str = "KILN_FPU_TREE";

/// A driver's name that asks for the pattern and for no driver.
const PATTERN: &str = "pattern";

#[derive(Serialize, Deserialize)]
struct Which {
    name: String,
    version: String,
}

/// The child's document, as far as it is read.
#[derive(Deserialize)]
struct Document<R> {
    rows: Vec<R>,
    notes: Vec<String>,
}

/// The child's part: boots the tree and measures its policy among the others.
pub fn in_child(
    plan: Plan,
    driver: Option<&str>,
    what: What,
    order: &Order,
    session: &Session,
) -> Result<Exit, Error> {
    session.settle();
    let which = env::var(VARIABLE).ok();
    let which: Option<Which> = which.and_then(|w| serde_json::from_str(&w).ok());
    let Some(Which { name, version }) = which else {
        return Err(Error::input(format!(
            "{VARIABLE} is for kiln's own use: unset it"
        )));
    };
    let facts = read_facts();
    let host = Host::boot(order, &plan.config()).map_err(fault)?;
    if !host.sees_contexts() {
        return Err(Error::input(format!(
            "{name}: Linux {version} counts contexts in a layout that Kiln's CPU does not have, and would not see its \
             interrupts: 'kiln fpu --policy' takes trees up to 7.1; speed, test and fpu --overhead take this one"
        )));
    }
    let tree = tree_name(name, version, host.policy, driver);
    let mut plan = plan;
    plan.policies.push(host.policy);
    plan.tree = Some(tree);
    let plan = plan.checked()?;
    let mut bench = Bench::Tree(Box::new(host));
    measured(&plan, &mut bench, what, session)?.emit(&facts, session)
}

/// What can be said against the arguments before a tree is built.
pub fn check(plan: &Plan, contenders: &[Contender], driver: Option<&str>) -> Result<(), Error> {
    let mut plan = plan.clone();
    for contender in contenders {
        if let Contender::Tree(dir) = contender {
            Source::open(dir).map_err(fault)?;
            let policy = Policy::all()[0];
            plan.policies.push(policy);
            plan.tree = Some(tree_name(String::new(), String::new(), policy, driver));
        }
    }
    plan.checked().map(|_| ())
}

fn tree_name(name: String, version: String, policy: Policy, driver: Option<&str>) -> TreeName {
    TreeName {
        name,
        version,
        policy,
        driver: driver.filter(|d| *d != PATTERN).map(String::from),
    }
}

/// The parent's part.
pub fn run(
    contenders: &[Contender],
    what: What,
    build: &TreeBuildArgs,
    session: &Session,
) -> Result<Exit, Error> {
    let dirs = contenders.iter().filter_map(|c| match c {
        Contender::Tree(dir) => Some(dir.as_path()),
        Contender::Own(_) => None,
    });
    let mut sum = match what {
        What::Table => Measured::Table(Outcome::default()),
        What::Proof(steps) => Measured::Proof(Proof::default(), steps),
        What::Answers => Measured::Answers(Vec::new()),
    };
    let mut worst = Exit::Done;
    for (i, dir) in dirs.enumerate() {
        let name = format!("tree:{}", dir.display());
        let Some(ended) = in_tree(dir, &name, build, session)? else {
            return Ok(Exit::Interrupted);
        };
        // Kiln's own policies are in every child, so that each tree is measured beside them; one set of rows will do.
        let wanted = |policy: &str| i == 0 || policy == name;
        if let Some(code @ 2..=3) = ended.status {
            // It has told why on stderr.
            return Ok(Exit::Refused(code));
        }
        match &mut sum {
            Measured::Table(outcome) => {
                let document = read::<Row>(&ended.output);
                outcome
                    .rows
                    .extend(document.rows.into_iter().filter(|r| wanted(&r.policy)));
                sort_notes(document.notes, &mut outcome.notes, &mut outcome.replays);
                outcome.notes.extend(ended.crash.clone());
            }
            Measured::Proof(proof, _) => {
                let document = read::<StepRow>(&ended.output);
                proof
                    .rows
                    .extend(document.rows.into_iter().filter(|r| wanted(&r.policy)));
                sort_notes(document.notes, &mut proof.notes, &mut proof.replays);
                proof.notes.extend(ended.crash.clone());
            }
            Measured::Answers(rows) => {
                let document = read::<AnswerRow>(&ended.output);
                rows.extend(document.rows.into_iter().filter(|r| wanted(&r.policy)));
                if let Some(crash) = &ended.crash {
                    return Err(Error::Failed(crash.clone()));
                }
            }
        }
        let failed = !ended.failures.is_empty();
        match &mut sum {
            Measured::Table(outcome) => outcome.notes.extend(ended.failures),
            Measured::Proof(proof, _) => proof.notes.extend(ended.failures),
            Measured::Answers(_) => {}
        }
        match (ended.crash, ended.status) {
            (None, Some(0)) if !failed => {}
            (None, Some(130)) => worst = Exit::Interrupted,
            _ => worst = Exit::Failed,
        }
        if worst == Exit::Interrupted {
            break;
        }
    }
    let facts = read_facts();
    sum.emit(&facts, session)?;
    Ok(worst)
}

/// A child's notes: those that are commands are kept apart.
fn sort_notes(all: Vec<String>, notes: &mut Vec<String>, replays: &mut Vec<String>) {
    for note in all {
        match note.strip_prefix("replay: ") {
            Some(line) => add(replays, vec![line.to_string()]),
            None => add(notes, vec![note]),
        }
    }
}

fn add(notes: &mut Vec<String>, more: Vec<String>) {
    for note in more {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
}

/// What there is of a child's document; nothing if it crashed before it had one.
fn read<R: DeserializeOwned>(output: &[u8]) -> Document<R> {
    serde_json::from_slice(output).unwrap_or(Document {
        rows: Vec::new(),
        notes: Vec::new(),
    })
}

/// How a child ended.
struct Ended {
    /// Objects of the tree that do not compile.
    failures: Vec<String>,
    output: Vec<u8>,
    status: Option<u8>,
    crash: Option<String>,
}

/// Builds a tree and has a child measure it; nothing if interrupted.
fn in_tree(
    dir: &Path,
    name: &str,
    build: &TreeBuildArgs,
    session: &Session,
) -> Result<Option<Ended>, Error> {
    let (source, compiler, config) = build.resolve(dir)?;
    let which = Which {
        name: name.to_string(),
        version: source.version.to_string(),
    };
    let progress = Progress::start();
    let built = kiln_tree::build(&kiln_tree::Plan {
        source,
        compiler,
        config,
        seed: session.seed,
        stop: &session.stop,
        progress: &|done, what| progress.report(done, what),
    });
    drop(progress);
    let built = match built {
        Err(kiln_tree::Error::Interrupted) => return Ok(None),
        other => other.map_err(fault)?,
    };
    let which = serde_json::to_string(&which).map_err(|e| Error::lacks(e.to_string()))?;
    env::set_var(VARIABLE, which);
    let order = Order::new(&built.image, session.seed);
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let mut watch = Watch {
        stop: &session.stop,
        silence: None,
        event: &mut |_| (),
    };
    let ended = child::run(&order, &arguments, &mut watch).map_err(fault)?;
    let crash = match &ended.fault {
        Some(f) => Some(f.line(&built.image)),
        None if ended.status.code().is_none() => Some(ended.status.to_string()),
        None => None,
    };
    let failures = super::hosted::failures(&built);
    Ok(Some(Ended {
        failures,
        output: ended.output,
        status: ended.status.code().and_then(|c| u8::try_from(c).ok()),
        crash: crash.map(|line| format!("{name}: the tree's code crashed: {line}")),
    }))
}
