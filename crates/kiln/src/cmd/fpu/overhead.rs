//! `kiln fpu overhead`.

use std::ffi::OsString;

use clap::Args;
use kiln_lab::lens::Lens;
use kiln_lab::overhead::{self, Outcome, Plan, Row};
use kiln_lab::{read_facts, Error};
use kiln_tree::child::Order;

use super::{implementation, policies};
use crate::cmd::hosted::{self, Hosted};
use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;
use crate::tree_args::TreeBuildArgs;

/// The command's name in records.
const COMMAND: &str = "fpu-overhead";

/// What each method to reach a cipher costs: direct calls, simd helper, cryptd
///
/// All methods under all policies are measured in one process, interleaved, and compared with the simd helper under legacy, which
/// is what Linux up to 6.14 offers softirqs. A kernel tree's own methods go through its own crypto API.
#[derive(Args)]
#[command(after_long_help = "\
Row fields (--json):
  alg, impl, provider, config, len, policy, path, cycles_per_op, ns_per_op,
  mb_per_s, ratio (cycles over direct), ci_low, ci_high, baseline, speedup
  (the baseline's cycles over these), time_speedup, each with _low and _high,
  rounds

Environment:
  KILN_TIERS=generic,aesni   restricts the tiers

Examples:
  kiln fpu overhead
  kiln fpu overhead --policy legacy,bh-off,nested --len 16
  kiln fpu overhead --policy legacy,tree:DIR    compare a kernel tree's own

See also:
  docs/CRYPTO.md, docs/TREES.md")]
pub struct OverheadArgs {
    /// legacy, bh-off [default: these], nested, nested-v1, preemptible, none, tree:DIR: a Linux source tree's own code, built
    /// and hosted
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    policy: Vec<String>,
    #[command(flatten)]
    build: TreeBuildArgs,
    /// Lengths of messages in bytes [default: 16,512,4096]
    #[arg(long, value_name = "LIST")]
    len: Option<String>,
    /// SIMD implementation [default: the best]
    #[arg(long = "impl", value_name = "NAME")]
    imp: Option<String>,
}

impl OverheadArgs {
    fn plan(&self, session: &Session) -> Result<Plan, Error> {
        let usual = Plan::new(session.seed, session.global.quick);
        let policies = match self.policy.as_slice() {
            [] => usual.policies,
            names => policies::own(names)?,
        };
        let lens: Option<Lens> = self.len.as_deref().map(str::parse).transpose()?;
        Plan {
            imp: implementation(self.imp.as_deref(), &policies)?,
            policies,
            lens: lens.map_or(usual.lens, |l| l.0),
            ..usual
        }
        .checked()
    }
}

/// Kiln's own policies here, then each tree in each configuration, by a child.
pub fn run(args: &OverheadArgs, session: &Session) -> Result<Exit, Error> {
    let plan = args.plan(session)?;
    if let Some(order) = &session.child {
        return in_child(&plan, args.imp.as_deref(), order, session);
    }
    let mut sources = Vec::new();
    for dir in policies::trees(&args.policy, &args.build)? {
        for configured in args.build.resolve_all(&dir)? {
            sources.push((format!("tree:{}", dir.display()), configured));
        }
    }
    session.settle();
    let facts = read_facts();
    let mut outcome = match plan.policies.is_empty() {
        true => Outcome::default(),
        false => measure(&plan, session)?,
    };
    let mut exit = Exit::from_run(outcome.failed, outcome.interrupted);
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    for (name, configured) in sources {
        if session.stopped() {
            exit = Exit::Interrupted;
            break;
        }
        let Some(hosted) = Hosted::build(configured, session)? else {
            exit = Exit::Interrupted;
            break;
        };
        match hosted.measure::<Row>(&name, &arguments, session)? {
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
    session.emit(COMMAND, &facts, &outcome.rows, &outcome.notes, || {
        format!(
            "{}\n\n{}\n{}",
            table::machine(&facts),
            table::overhead::all(&outcome.rows),
            table::notes(&outcome.notes, session.seed)
        )
    })?;
    Ok(exit)
}

/// The child's part: the tree's methods.
fn in_child(
    plan: &Plan,
    driver: Option<&str>,
    order: &Order,
    session: &Session,
) -> Result<Exit, Error> {
    session.settle();
    let facts = read_facts();
    let mut tree = hosted::boot(order, &["xts(aes)".to_string()])?;
    let progress = Progress::start();
    let outcome = overhead::of_tree(
        plan,
        &mut tree,
        &order.label.name,
        driver,
        &session.stop,
        &mut |done, what| progress.report(done, what),
    )?;
    drop(progress);
    session.emit(COMMAND, &facts, &outcome.rows, &outcome.notes, String::new)?;
    Ok(Exit::from_run(outcome.failed, outcome.interrupted))
}

/// Measures Kiln's own with a bar.
fn measure(plan: &Plan, session: &Session) -> Result<Outcome, Error> {
    let progress = Progress::start();
    overhead::run(plan, &session.stop, &mut |done, what| {
        progress.report(done, what)
    })
}
