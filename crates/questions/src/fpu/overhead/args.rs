//! `kiln fpu overhead`: the command's arguments and its entry point.

use std::ffi::OsString;

use clap::Args;
use kiln_question::hosted::Hosted;
use kiln_question::lens::Lens;
use kiln_question::{
    read_facts, Error, Exit, Outcome, Progress, Question, RowType, Session, TreeBuildArgs,
};
use kiln_tree::child::Order;

use super::plan::Plan;
use super::run::{run, Row};
use super::tree::run_tree;
use super::view;
use crate::fpu::plan::implementation;
use crate::fpu::policy_args;
use kiln_timing::Tree;

/// What each method of calling a cipher costs: direct calls, simd helper, cryptd
///
/// Kiln encrypts with AES-256-XTS by each method under each FPU policy. All methods under Kiln's
/// own policies are measured alternately, in one process. Each of them is compared with the simd
/// helper under the policy 'legacy', which is how Linux up to 6.14 calls a cipher. With --policy
/// tree:DIR, Kiln measures the drivers and the crypto API of a kernel tree, and compares each
/// method with the tree's own simd helper.
#[derive(Args)]
#[command(after_long_help = "\
Environment:
  KILN_TIERS=generic,aesni   use only these ISA tiers; 'kiln list' shows all

Examples:
  kiln fpu overhead
  kiln fpu overhead --policy legacy,bh-off,nested --len 16
  kiln fpu overhead --policy legacy,tree:DIR    also measure a kernel tree

See also:
  docs/CRYPTO.md, docs/TREES.md")]
pub(crate) struct OverheadArgs {
    /// FPU policies ('kiln fpu --help' explains them): legacy, bh-off, nested, nested-v1,
    /// preemptible, none; or tree:DIR, a Linux source tree, which is built and run here [default:
    /// legacy,bh-off]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    policy: Vec<String>,
    #[command(flatten)]
    build: TreeBuildArgs,
    /// Message lengths in bytes [default: 16,512,4096]
    #[arg(long, value_name = "LIST")]
    len: Option<String>,
    /// SIMD AES-XTS implementation, by driver name [default: the one with the highest priority]
    #[arg(long = "impl", value_name = "NAME")]
    imp: Option<String>,
}

impl OverheadArgs {
    fn plan(&self, session: &Session) -> Result<Plan, Error> {
        let usual = Plan::new(session.seed, session.global.quick);
        let policies = match self.policy.as_slice() {
            [] => usual.policies,
            names => policy_args::own(names)?,
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

impl Question for OverheadArgs {
    const NAME: &'static str = "fpu-overhead";
    const TIMED: bool = true;
    const OF_TIERS: bool = true;

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(30)]
    }

    /// Measures Kiln's own policies in this process, then each tree in each configuration in a
    /// child process.
    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let plan = self.plan(session)?;
        if let Some(order) = &session.child {
            return in_child(&plan, self.imp.as_deref(), order, session);
        }
        let mut sources = Vec::new();
        for dir in policy_args::trees(&self.policy, &self.build)? {
            for configured in self.build.resolve_all(&dir)? {
                sources.push((format!("tree:{}", dir.display()), configured));
            }
        }
        session.settle();
        let facts = read_facts();
        let mut outcome = match plan.policies.is_empty() {
            true => Outcome::default(),
            false => {
                let progress = Progress::start();
                run(&plan, &session.stop, &mut |done, what| {
                    progress.report(done, what)
                })?
            }
        };
        let mut exit = outcome.exit();
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
                    outcome.add_notes(measured.notes);
                    if measured.exit != Exit::Done {
                        exit = measured.exit;
                    }
                }
                Err(refused) => return Ok(refused),
            }
        }
        session.show::<Self, _>(&facts, &outcome, view::format_tables)?;
        Ok(exit)
    }
}

/// Runs in the child process: measures the methods that the tree offers.
fn in_child(
    plan: &Plan,
    driver: Option<&str>,
    order: &Order,
    session: &Session,
) -> Result<Exit, Error> {
    session.settle().answer::<OverheadArgs, _>(
        |_, progress| {
            let mut tree = Tree::boot(order, &["xts(aes)".to_string()])?;
            let name = &order.label.name;
            run_tree(plan, &mut tree, name, driver, &session.stop, progress)
        },
        |_| String::new(),
    )
}
