//! `kiln compilers`: the command's arguments and its entry point.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use kiln_question::hosted::Hosted;
use kiln_question::{
    parse_seconds, print, print_error, read_facts, replace, table, Error, Exit, Outcome, Progress,
    Question, RowType, Session, Shard, ShardArgs, TreeBuildArgs,
};
use kiln_report::export::Format;
use kiln_report::picture::draw_rows;
use kiln_report::Side;

use super::baseline::Baseline;
use super::catalogue::{find_subject, list_names};
use super::cell::{Abi, Opt};
use super::explain_run::{self, CellQuestion};
use super::row::Row;
use super::run::{run, Plan};
use super::subject::{Judge, Subject};
use super::toolchain::Toolchain;
use super::tree::Tree;
use super::variant::Variant;
use super::view;

/// Maximum message length in bytes.
const LONGEST: usize = 1 << 20;

/// Which compiler and flags make which cipher slow or wrong
///
/// Meant for people who build compilers or distributions. Every combination of subject, compiler,
/// optimization level and variant, called a cell, is built as a separate executable, which is
/// cached by content. The results of a cell are checked before it is timed.
#[derive(Args)]
#[command(after_long_help = "\
Variants (--variant): default, patched (-fno-tree-pre -fno-tree-sra), ubsan,
ubsan-tree (the checks that a kernel tree enables), asan, no-object-flags
(without a tree's flags for single files), flags, or several joined by +, such
as ubsan+-fno-tree-pre. If the
baseline is a compiler that --cc also names, its variants are compared with
its variant 'default' at the same level. docs/COMPILERS.md has the flags, and
the calling conventions for your own files.

Exit status:
  Without --bisect:
    1    a cell gives wrong results, or is slower than the baseline by more
         than --max-regression allows, beyond the noise, in cycles or in time
  With --bisect:
    1    a cell is slower than that both in cycles and in time
    2    --max-regression is missing
    125  otherwise, if a cell cannot be built or measured, gives wrong
         results, or is slower in only one of the two, or without --baseline

Examples:
  kiln compilers
  kiln compilers --cc gcc-12,clang-19 --opt O2 --variant default,asan
  kiln compilers --cc ./gcc/xgcc --baseline gcc-12 --max-regression 5
  kiln compilers --subject my.c:crc:checksum32 --opt O2,O3
  kiln compilers --explain gcc-12/O3/aes-generic/ubsan    and which check
  kiln compilers --subject my.c:crc:checksum32 --explain gcc-12/O3/my.c/default
  kiln compilers --reproduce gcc-12/O3/aes-generic/ubsan --out DIR
  kiln compilers --shard 2/4 --out DIR    a quarter of it (docs/FLEET.md)
  git bisect run kiln compilers --cc ./cc --baseline good.json --opt O2 \\
      --variant default --max-regression 5 --bisect

See also:
  docs/COMPILERS.md")]
pub struct CompilersArgs {
    /// Compilers, by names or paths; auto: gcc-*, clang-* and zig on PATH
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "CC,…",
        default_value = "auto"
    )]
    cc: Vec<String>,
    /// Optimization levels
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "O,…",
        default_value = "O1,O2,O3,Os"
    )]
    opt: Vec<String>,
    /// Kinds of build, described below
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "default,patched,ubsan,patched+ubsan"
    )]
    variant: Vec<String>,
    /// Compiler flags that make an additional variant; may be given several times
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    cflags: Vec<String>,
    /// Widths of the target in bits: 64, or 32 for -m32
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "BITS,…",
        default_value = "64"
    )]
    abi: Vec<String>,
    /// What to compile: a name from --list, FILE.c, or FILE.c:FUNCTION:CONVENTION
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "aes-generic"
    )]
    subject: Vec<String>,
    /// A kernel tree, or a git revision of such a tree; subjects may then be files of the tree,
    /// such as crypto/aes_generic.c
    #[arg(long, value_name = "DIR|REV")]
    tree: Option<PathBuf>,
    /// Directories with headers for your own source files; may be given several times
    #[arg(long, value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Message length in bytes
    #[arg(long, value_name = "N", default_value_t = 4096)]
    len: usize,
    /// Total seconds for timing all cells, without building; with less time, intervals are wider
    /// [default: depends on the number of cells]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seconds: Option<f64>,
    /// Baseline to compare against: a compiler, or a record (NAME.json) that --out wrote
    #[arg(long, value_name = "CC|RECORD.json")]
    baseline: Option<String>,
    /// Exit with status 1 if a cell is slower than its baseline by more than PCT per cent, beyond
    /// the noise
    #[arg(long, value_name = "PCT", allow_negative_numbers = true)]
    max_regression: Option<f64>,
    /// Exit with status 125 if a cell that should have been judged cannot be built or measured;
    /// needs --max-regression
    #[arg(long)]
    bisect: bool,
    /// Explain what makes a cell slow or fast, by comparing it with similar cells:
    /// CC/LEVEL/SUBJECT/VARIANT
    #[arg(long, value_name = "CELL", conflicts_with_all = ["baseline", "reproduce"])]
    explain: Option<String>,
    /// Write a directory of files to attach to a compiler bug report; --out names it
    #[arg(long, value_name = "CELL", conflicts_with = "baseline")]
    reproduce: Option<String>,
    /// For --explain and --reproduce: the cell to compare with [default: the default variant of the
    /// same level if it is faster, else the fastest other level]
    #[arg(long, value_name = "CELL")]
    against: Option<String>,
    /// With --explain: also print the hot code of the two cells
    #[arg(long, requires = "explain")]
    code: bool,
    /// Rebuild everything, even if it is in the cache
    #[arg(long)]
    no_cache: bool,
    /// List the names of all subjects and exit
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    shard: ShardArgs,
}

impl Question for CompilersArgs {
    const NAME: &'static str = "compilers";
    const TIMED: bool = true;

    fn shard(&self) -> Option<Shard> {
        self.shard.shard
    }

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(50)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        // Without a limit, a bisection would treat even a slow commit as good.
        if self.bisect && self.max_regression.is_none() {
            return Err(Error::input(
                "--bisect: nothing decides between good and bad: add --baseline CC or RECORD.json, and --max-regression PCT",
            ));
        }
        if self.shard.shard.is_some()
            && (self.bisect || self.explain.is_some() || self.reproduce.is_some())
        {
            return Err(Error::input(
                "--shard divides cells by subject and level: leave it out with --bisect, --explain and --reproduce",
            ));
        }
        if self.list {
            let names = list_names()?;
            return print(&(names.join("\n") + "\n")).map(|()| Exit::Done);
        }
        match measure(self, session) {
            Err(e) if self.bisect => {
                print_error(&e);
                Ok(Exit::Untried)
            }
            other => other,
        }
    }
}

fn measure(args: &CompilersArgs, session: &Session) -> Result<Exit, Error> {
    if args.against.is_some() && args.explain.is_none() && args.reproduce.is_none() {
        return Err(Error::input(
            "--against needs --explain CELL or --reproduce CELL: add one of them",
        ));
    }
    let mut hosted = None;
    if let Some(dir) = &args.tree {
        let what = TreeBuildArgs::default().resolve(dir)?;
        let source = what.0.dir.clone();
        match Hosted::build(what, session)? {
            Some(built) => hosted = Some((built, source)),
            None => return Ok(Exit::Interrupted),
        }
    }
    let tree = hosted.as_ref().map(|(h, dir)| Tree {
        source: dir.clone(),
        build: h.objects(),
        name: h.name(),
    });
    if let Some(cell) = args.explain.as_ref().or(args.reproduce.as_ref()) {
        check_len(args.len)?;
        let question = CellQuestion {
            cell,
            against: args.against.as_deref(),
            reproduce: args.reproduce.is_some(),
            len: args.len,
            include: &args.include,
            subjects: &args.subject,
            code: args.code,
        };
        return explain_run::run::<CompilersArgs>(&question, tree.as_ref(), session);
    }
    let progress = Progress::start();
    let settle = || {
        session.settle();
    };
    let report = |done: f64, what: &str| progress.report(done, what);
    let plan = plan(args, session, &settle, &report, tree.as_ref())?;
    let (mut outcome, untried) = run(&plan)?;
    let untimed = untimed_file(&plan.subjects, &outcome.rows).map(String::from);
    drop(progress);
    outcome.interrupted = session.stopped();
    if outcome.interrupted {
        outcome.notes.push("interrupted".to_string());
    }
    emit(session, &outcome)?;
    if let Some(name) = untimed {
        return Err(Error::input(format!(
            "no compiler has a result for {name}: the reason is above"
        )));
    }
    Ok(match &outcome {
        o if o.interrupted => Exit::Interrupted,
        _ if args.bisect && untried => Exit::Untried,
        o => o.exit(),
    })
}

/// Returns the name of a user's source file that has no result with any compiler. Usually, such a
/// file does not define the function, or was given the wrong convention.
fn untimed_file<'a>(subjects: &'a [Arc<Subject>], rows: &[Row]) -> Option<&'a str> {
    let own = subjects
        .iter()
        .filter(|s| matches!(s.judge, Judge::Majority));
    let mut names = own.map(|subject| subject.name.as_str());
    names.find(|name| {
        let mut of = rows.iter().filter(|row| row.subject == *name).peekable();
        of.peek().is_some() && of.all(|row| row.cycles_per_byte.is_none())
    })
}

fn emit(session: &Session, outcome: &Outcome<Row>) -> Result<(), Error> {
    let facts = read_facts();
    session.draw("compilers.svg", &draw_rows("compilers", &outcome.rows), "")?;
    if let Some(dir) = &session.global.out {
        let record = session.record::<CompilersArgs, _>(&facts, &outcome.rows, &outcome.notes);
        let side = Side::new("compilers", record.to_value());
        let csv = side.and_then(|side| Format::Csv.text(&[side]));
        let csv = csv.map_err(|e| Error::input(e.to_string()))?;
        let file = session.share.file_name("compilers.csv");
        replace::write(&dir.join(file), csv.as_bytes())?;
    }
    session.emit::<CompilersArgs, _>(&facts, &outcome.rows, &outcome.notes, || {
        format!(
            "{}\n\n{}{}",
            table::machine(&facts),
            view::format_tables(&outcome.rows),
            table::notes(&outcome.notes, session.seed)
        )
    })
}

fn plan<'a>(
    args: &CompilersArgs,
    session: &'a Session,
    settle: &'a dyn Fn(),
    progress: &'a (dyn Fn(f64, &str) + Sync),
    tree: Option<&Tree>,
) -> Result<Plan<'a>, Error> {
    if let Some(percent) = args.max_regression {
        if !(0.0..=10_000.0).contains(&percent) {
            return Err(Error::input(format!(
                "--max-regression {percent}: use a percentage of 0 or more"
            )));
        }
        if args.baseline.is_none() {
            return Err(Error::input(
                "--max-regression needs a baseline: add --baseline CC or --baseline RECORD.json",
            ));
        }
    }
    check_len(args.len)?;
    let baseline = args.baseline.as_deref().map(Baseline::find).transpose()?;
    let opts = args.opt.iter().map(|o| Opt::parse(o));
    let opts = opts.collect::<Result<Vec<_>, _>>()?;
    let abis = args.abi.iter().map(|a| Abi::parse(a));
    let abis = abis.collect::<Result<Vec<_>, _>>()?;
    let mut variants = Vec::new();
    for name in &args.variant {
        variants.push(Variant::parse(name)?);
    }
    for flags in &args.cflags {
        variants.push(Variant::parse_flags(flags));
    }
    let mut subjects: Vec<Arc<Subject>> = Vec::new();
    for name in &args.subject {
        let subject = find_subject(name, tree, &args.include)?;
        subjects.push(Arc::new(subject));
    }
    let mut ccs: Vec<Arc<Toolchain>> = Vec::new();
    for name in &args.cc {
        let found = match name.as_str() {
            "auto" => Toolchain::all()?,
            name => vec![Toolchain::find(name)?],
        };
        for cc in found {
            if ccs.iter().all(|c| c.identity() != cc.identity()) {
                ccs.push(Arc::new(cc));
            }
        }
    }
    Ok(Plan {
        ccs,
        opts,
        variants,
        abis,
        subjects,
        len: args.len,
        seed: session.seed,
        quick: session.global.quick,
        within: parse_seconds(args.seconds, 0.1)?,
        anew: args.no_cache,
        baseline,
        max_regression: args.max_regression,
        share: session.share.clone(),
        stop: &session.stop,
        settle,
        progress,
    })
}

fn check_len(len: usize) -> Result<(), Error> {
    match len > 0 && len <= LONGEST && len % 16 == 0 {
        true => Ok(()),
        false => Err(Error::input(format!(
            "--len {len}: use a multiple of 16, at most {LONGEST}"
        ))),
    }
}
