//! Builds user mode Linux and Kiln's module for `kiln linux build`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use kiln_linux::build::Row;
use kiln_linux::module;
use kiln_question::{read_facts, table, Error, Exit, Progress, Question, RowType, Session};

use super::kernel_args::{build_module, KernelArgs};

/// Build user mode Linux and Kiln's module
///
/// The kernel and the module are kept in ~/.cache/kiln. Nothing is written into the source tree.
#[derive(Args)]
#[command(after_long_help = "\
All build files are kept in ~/.cache/kiln/linux or, if XDG_CACHE_HOME is set,
in $XDG_CACHE_HOME/kiln/linux. The first build takes minutes, later builds
take seconds. With --headers, only Kiln's module is built, for an installed
kernel of the distribution. With --sources, nothing is built; the package
kiln-crypto-dkms is made from the files that are written.

Exit status:
  1 if the compiler, modpost or objtool had a warning for the module

Examples:
  kiln linux build --tree ~/linux
  kiln linux build --tree ~/linux --cc clang-19
  kiln linux build --headers /lib/modules/$(uname -r)/build
  kiln linux build --sources kiln-crypto

See also:
  docs/LINUX.md, docs/MODULE.md")]
pub(super) struct BuildArgs {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Build only Kiln's module, against the headers of an installed kernel
    #[arg(long, value_name = "DIR", conflicts_with = "tree")]
    headers: Option<PathBuf>,
    /// Instead of building, write the module's sources to this new directory, in the layout that
    /// DKMS and a kernel's Kbuild expect
    #[arg(long, value_name = "DIR", conflicts_with_all = ["tree", "headers", "cc"])]
    sources: Option<PathBuf>,
}

impl Question for BuildArgs {
    const NAME: &'static str = "linux-build";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(74)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if let Some(dir) = &self.sources {
            if session.global.json {
                return Err(Error::input(
                    "--json: --sources writes files and has no rows",
                ));
            }
            module::write_sources(dir)?;
            println!("{}", dir.display());
            return Ok(Exit::Done);
        }
        let progress = Progress::start();
        let (rows, warnings) = match &self.headers {
            Some(dir) => headers(self, dir, session, &progress)?,
            None => user(self, session, &progress)?,
        };
        drop(progress);
        session.emit::<BuildArgs, _>(&read_facts(), &rows, &warnings, || {
            let lines = rows.iter().map(|row| {
                format!(
                    "{} {} by {}: {} ({:.1} s)",
                    row.what, row.version, row.cc, row.path, row.seconds
                )
            });
            let mut text: String = lines.map(|l| table::paragraph(&l) + "\n").collect();
            text.push_str(&table::notes(&warnings, session.seed));
            text
        })?;
        Ok(Exit::from_run(!warnings.is_empty(), false))
    }
}

fn user(
    args: &BuildArgs,
    session: &Session,
    progress: &Progress,
) -> Result<(Vec<Row>, Vec<String>), Error> {
    let start = Instant::now();
    let built = args.kernel.build(session, progress)?;
    let kernel = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let made = build_module(&built, session, progress)?;
    let row = |what, path: &Path, seconds, warnings| Row {
        what,
        version: built.version.clone(),
        cc: built.compiler.to_string(),
        path: path.display().to_string(),
        seconds,
        warnings,
    };
    let rows = vec![
        row("user mode Linux", &built.linux, kernel, 0),
        row(
            "Kiln's module for it",
            &made.path,
            start.elapsed().as_secs_f64(),
            made.warnings.len(),
        ),
    ];
    Ok((rows, made.warnings))
}

fn headers(
    args: &BuildArgs,
    dir: &Path,
    session: &Session,
    progress: &Progress,
) -> Result<(Vec<Row>, Vec<String>), Error> {
    let start = Instant::now();
    let compiler = args.kernel.compiler()?;
    let made = module::for_headers(dir, &compiler, &session.stop, &|what| {
        progress.report(0.5, what)
    })?;
    let row = Row {
        what: "Kiln's module for",
        version: dir.display().to_string(),
        cc: compiler.to_string(),
        path: made.path.display().to_string(),
        seconds: start.elapsed().as_secs_f64(),
        warnings: made.warnings.len(),
    };
    Ok((vec![row], made.warnings))
}
