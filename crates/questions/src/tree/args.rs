//! The arguments of `kiln tree`, and the function that runs the command.

use std::path::PathBuf;

use clap::Args;
use kiln_question::{
    read_facts, table, Error, Exit, Progress, Question, RowType, Session, TreeBuildArgs,
};
use kiln_tree::{Plan, Row};

use super::view;

/// Build and link a kernel tree's crypto code, and run its drivers' self-tests
///
/// Use this command while you work on a tree's crypto code. The tree's own Kbuild compiles that
/// code. Kiln links the unmodified object files with replacements for the kernel functions that the
/// code calls, and runs the result in a child process. In that process, the tree's testmgr tests
/// each driver when it is registered. `kiln test --tree` also runs KUnit suites, makes calls from
/// softirqs and hardirqs, and checks rules that hold for all drivers (oracles).
#[derive(Args)]
#[command(after_long_help = "\
Nothing is written into the tree. Build files are kept in ~/.cache/kiln, or
in $XDG_CACHE_HOME/kiln if that variable is set. The first build takes about
a minute, later builds take seconds.

Exit status:
  1 if an object does not compile, or a self-test fails or crashes

Environment:
  KILN_CC=CC           the compiler to use if --cc is not given
  XDG_CACHE_HOME=DIR   keep the files of the build in DIR/kiln

Examples:
  kiln tree ~/linux
  kiln tree ~/linux --cc clang-19
  kiln tree HEAD~1    a commit of the current git repository
  kiln tree ~/linux --config /boot/config-6.12.0-amd64
  kiln tree ~/linux --json | jq '.rows[] | select(.status == \"failed\")'

See also:
  docs/TREES.md")]
pub struct TreeArgs {
    /// Linux source tree, or a git revision of one, such as HEAD~1 (in the current repository) or
    /// DIR@HEAD~1 (in the repository DIR)
    #[arg(value_name = "DIR|REV")]
    dir: PathBuf,
    #[command(flatten)]
    build: TreeBuildArgs,
}

impl Question for TreeArgs {
    const NAME: &'static str = "tree";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(110)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if let Some(order) = &session.child {
            kiln_tree::list(order)?;
            return Ok(Exit::Done);
        }
        let (source, compiler, config) = self.build.resolve(&self.dir)?;
        let title = format!("{}, built by {compiler}", source.title());
        let progress = Progress::start();
        let plan = Plan {
            source,
            compiler,
            config,
            seed: session.seed,
            stop: &session.stop,
            progress: &|done, what| progress.report(done, what),
        };
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        let outcome = kiln_tree::run(&plan, &arguments);
        drop(progress);
        let outcome = outcome?;
        let mut notes = outcome.notes.clone();
        notes.push(format!("configuration: {}", outcome.config));
        notes.push(format!("built in {}", outcome.cache.display()));
        session.emit::<Self, _>(&read_facts(), &outcome.rows, &notes, || {
            format!(
                "{}\n\n{}\n{}",
                table::paragraph(&title),
                view::format_tables(&outcome.rows),
                table::notes(&notes, session.seed)
            )
        })?;
        Ok(Exit::from_run(outcome.failed(), false))
    }
}
