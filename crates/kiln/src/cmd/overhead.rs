//! `kiln fpu --overhead`.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use kiln_lab::overhead::{self, Outcome, Plan, Row};
use kiln_lab::{read_facts, Error};
use kiln_tree::child::Order;

use super::hosted::{self, Hosted};
use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;
use crate::tree_args::TreeBuildArgs;

/// By this variable a child knows what its tree's rows are called.
const VARIABLE: &str = "KILN_OVERHEAD_TREE";

/// Kiln's own policies here, then each tree as each configuration says, by a child.
pub fn run(
    plan: &Plan,
    trees: &[PathBuf],
    build: &TreeBuildArgs,
    session: &Session,
) -> Result<Exit, Error> {
    if trees.is_empty() && build.given() {
        return Err(Error::input(
            "--cc and --config build a tree: name it with --policy tree:DIR",
        ));
    }
    let mut sources = Vec::new();
    for dir in trees {
        for configured in build.resolve_all(dir)? {
            sources.push((format!("tree:{}", dir.display()), configured));
        }
    }
    session.settle();
    let facts = read_facts();
    let mut outcome = match plan.policies.is_empty() {
        true => Outcome::default(),
        false => measure(plan, session)?,
    };
    let mut exit = ended(&outcome);
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    for (name, configured) in sources {
        if session.stopped() {
            exit = Exit::Interrupted;
            break;
        }
        env::set_var(VARIABLE, &name);
        let Some(hosted) = Hosted::build(configured, session)? else {
            exit = Exit::Interrupted;
            break;
        };
        match hosted.measure::<Row>(&arguments, session)? {
            Ok(measured) => {
                outcome.rows.extend(measured.rows);
                for note in measured.notes {
                    if !outcome.notes.contains(&note) {
                        outcome.notes.push(note);
                    }
                }
                if measured.exit != Exit::Done {
                    exit = measured.exit;
                }
            }
            Err(refused) => return Ok(refused),
        }
    }
    session.emit("fpu", &facts, &outcome.rows, &outcome.notes, || {
        format!(
            "{}\n\n{}\n{}",
            table::machine(&facts),
            table::overhead::all(&outcome.rows),
            table::notes(&outcome.notes, session.seed)
        )
    })?;
    Ok(exit)
}

/// The child's part: the tree's ways.
pub fn in_child(
    plan: &Plan,
    driver: Option<&str>,
    order: &Order,
    session: &Session,
) -> Result<Exit, Error> {
    session.settle();
    let Ok(name) = env::var(VARIABLE) else {
        return Err(Error::input(format!(
            "{VARIABLE} is for kiln's own use: unset it"
        )));
    };
    let facts = read_facts();
    let mut tree = hosted::boot(order, &["xts(aes)".to_string()])?;
    let progress = Progress::start();
    let outcome = overhead::of_tree(
        plan,
        &mut tree,
        &name,
        driver,
        &session.stop,
        &mut |done, what| progress.report(done, what),
    )?;
    drop(progress);
    session.emit("fpu", &facts, &outcome.rows, &outcome.notes, String::new)?;
    Ok(ended(&outcome))
}

fn ended(outcome: &Outcome) -> Exit {
    if outcome.failed {
        Exit::Failed
    } else if outcome.interrupted {
        Exit::Interrupted
    } else {
        Exit::Done
    }
}

/// Measures Kiln's own with a bar.
fn measure(plan: &Plan, session: &Session) -> Result<Outcome, Error> {
    let progress = Progress::start();
    overhead::run(plan, &session.stop, &mut |done, what| {
        progress.report(done, what)
    })
}
