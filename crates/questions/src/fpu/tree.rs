//! Measures the policies of kernel trees. This process builds each tree, and a child process
//! measures the tree's policy together with Kiln's own policies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kiln_kernel::fpu::Policy;
use kiln_question::hosted::Hosted;
use kiln_question::{Error, Exit, Outcome, Session, TreeBuildArgs};
use kiln_record::Part;
use kiln_tree::child::{self, Label, Order, Watch};
use kiln_tree::{Extent, Host, Source};
use serde::de::DeserializeOwned;
use serde::Deserialize;

use super::bench::Bench;
use super::plan::{Plan, TreeName};

/// The part of the child's document that the parent reads.
#[derive(Deserialize)]
struct Document<R> {
    rows: Vec<R>,
    notes: Vec<String>,
    shard: Option<Part>,
}

/// Runs in the child process: boots the tree and adds the tree's policy to the plan.
pub(super) fn boot(
    plan: Plan,
    driver: Option<&str>,
    order: &Order,
) -> Result<(Plan, Bench), Error> {
    let host = Host::boot(order, &plan.config())?;
    let Label { name, version, .. } = &order.label;
    let plan = with_tree(plan, name, version, host.policy, driver).checked()?;
    Ok((plan, Bench::Tree(Box::new(host))))
}

/// Checks the arguments before a tree is built. The tree's own policy cannot be checked yet,
/// because it is not known until the tree runs.
pub(super) fn check(plan: &Plan, trees: &[PathBuf], driver: Option<&str>) -> Result<(), Error> {
    let mut plan = plan.clone();
    for dir in trees {
        Source::find(dir, Extent::Hosted, &|_, _| ())?;
        plan = with_tree(plan, "", "", Policy::all()[0], driver);
    }
    plan.checked().map(|_| ())
}

fn with_tree(
    mut plan: Plan,
    name: &str,
    version: &str,
    policy: Policy,
    driver: Option<&str>,
) -> Plan {
    plan.policies.push(policy);
    plan.tree = Some(TreeName {
        name: name.to_string(),
        version: version.to_string(),
        policy,
        driver: driver.map(String::from),
    });
    plan
}

/// Runs in the parent process: builds each tree and starts a child process that measures it.
/// `policy` returns a row's policy. The outcome is `None` if the build was interrupted or a child
/// refused to measure.
pub(super) fn run<R: DeserializeOwned>(
    trees: &[PathBuf],
    build: &TreeBuildArgs,
    policy: fn(&R) -> &str,
    session: &Session,
) -> Result<(Option<Outcome<R>>, Exit), Error> {
    let mut sum = Outcome::default();
    let mut worst = Exit::Done;
    for (i, dir) in trees.iter().enumerate() {
        let name = format!("tree:{}", dir.display());
        let Some(ended) = in_tree(dir, &name, build, session)? else {
            return Ok((None, Exit::Interrupted));
        };
        if let Some(code @ 2..=3) = ended.status {
            // The child has already printed the reason on stderr.
            return Ok((None, Exit::Refused(code)));
        }
        let document = read::<R>(&ended.output);
        session.share.adopt(document.shard);
        // Every child measures Kiln's own policies, but only the first child's rows for them are
        // kept.
        let wanted = |row: &R| i == 0 || policy(row) == name;
        sum.rows.extend(document.rows.into_iter().filter(wanted));
        sum.add_notes(document.notes);
        match (&ended.crash, ended.status) {
            (None, Some(0)) if ended.failures.is_empty() => {}
            (None, Some(130)) => worst = Exit::Interrupted,
            _ => worst = Exit::Failed,
        }
        sum.notes.extend(ended.crash);
        sum.notes.extend(ended.failures);
        if worst == Exit::Interrupted {
            break;
        }
    }
    Ok((Some(sum), worst))
}

/// Parses the child's document. The result is empty if the child crashed before writing anything.
fn read<R: DeserializeOwned>(output: &[u8]) -> Document<R> {
    serde_json::from_slice(output).unwrap_or(Document {
        rows: Vec::new(),
        notes: Vec::new(),
        shard: None,
    })
}

/// The results of a child process that has exited.
struct Ended {
    /// Objects in the tree that failed to compile.
    failures: Vec<String>,
    output: Vec<u8>,
    status: Option<u8>,
    crash: Option<String>,
}

/// Builds a tree and starts a child process that measures it. Returns `None` if interrupted.
fn in_tree(
    dir: &Path,
    name: &str,
    build: &TreeBuildArgs,
    session: &Session,
) -> Result<Option<Ended>, Error> {
    let Some(hosted) = Hosted::build(build.resolve(dir)?, session)? else {
        return Ok(None);
    };
    let order = hosted.order(name, session);
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut watch = Watch {
        stop: &session.stop,
        silence: None,
        event: &mut |_| (),
    };
    let ended = child::run(&order, &arguments, &mut watch)?;
    let crash = match &ended.fault {
        Some(f) => Some(f.line(&hosted.built.image)),
        None if ended.status.code().is_none() => Some(ended.status.to_string()),
        None => None,
    };
    Ok(Some(Ended {
        failures: hosted.failures,
        output: ended.output,
        status: ended.status.code().and_then(|c| u8::try_from(c).ok()),
        crash: crash.map(|line| format!("{name}: the tree's code crashed: {line}")),
    }))
}
