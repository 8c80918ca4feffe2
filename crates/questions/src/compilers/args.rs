//! The arguments of `kiln compilers`, and the function that runs the command.

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
use super::cell::{Abi, Opt, Status};
use super::explain_run::{self, CellQuestion};
use super::row::Row;
use super::run::{run, Plan, DEFAULT};
use super::subject::{Judge, Subject};
use super::toolchain::Toolchain;
use super::tree::Tree;
use super::variant::Variant;
use super::view;

/// Maximum message length in bytes.
const LONGEST: usize = 1 << 20;

/// Flags that select, time or judge the cells of a matrix. They have no effect with `--explain` and
/// `--reproduce`, because the cells given to those flags name a compiler, a level, a variant and a
/// width themselves.
const WITHOUT_CELL: [&str; 10] = [
    "cc",
    "opt",
    "variant",
    "cflags",
    "abi",
    "seconds",
    "baseline",
    "max_regression",
    "bisect",
    "no_cache",
];

/// Which compiler and flags make which cipher slow or wrong
///
/// Meant for people who build compilers or distributions. A subject is a cipher or a C file of
/// yours; a variant is a set of flags. A cell of the table is one subject, built by one compiler at
/// one optimization level in one variant. Kiln builds a separate executable for each cell, and
/// checks its results. Executables are cached.
#[derive(Args)]
#[command(after_long_help = "\
Variants (--variant); + combines several, as in ubsan+-fno-tree-pre:
  default          no additional flags
  patched          -fno-tree-pre -fno-tree-sra
  ubsan            Linux 4.15's UBSAN, fewer checks than -fsanitize=undefined
  ubsan-tree       the checks that CONFIG_UBSAN alone enables in Linux 6.12
  asan             -fsanitize=address
  no-object-flags  omits flags that a kernel tree sets only for the subject
  FLAGS            your own flags, such as -fno-tree-pre

If --cc also names the compiler of --baseline, each cell of this compiler is
compared with this compiler's cell of variant 'default' at the same level.
docs/COMPILERS.md lists the flags of all variants, and the CONVENTION values
of --subject.

Exit status:
  Without --bisect:
    1    a cell gives wrong results. With --max-regression also: a cell is
         more than PCT per cent slower in cycles or in time, or has no
         result although its baseline has one
    2    no cell has a result; or this run and the record of --baseline have
         no result in common
    3    no cell has a result, because something is missing on this machine
  With --bisect:
    125  a cell cannot be built or measured, or gives wrong results; or
         --baseline is missing; or a cell is more than PCT per cent slower
         only in cycles or only in time, and no cell is slower in both
    1    a cell is more than PCT per cent slower both in cycles and in time,
         and no condition of status 125 is met
    2    --max-regression is missing

Examples:
  kiln compilers
  kiln compilers --cc gcc-12,clang-19 --opt O2 --variant default,asan
  kiln compilers --cc ./gcc/xgcc --baseline gcc-12 --max-regression 5
  kiln compilers --subject my.c:crc:checksum32 --opt O2,O3
  kiln compilers --explain gcc-12/O3/aes-generic/ubsan    find the slow check
  kiln compilers --subject my.c:crc:checksum32 --explain gcc-12/O3/my.c/default
  kiln compilers --reproduce gcc-12/O3/aes-generic/ubsan --out DIR
  kiln compilers --shard 2/4 --out DIR    part 2 of 4 (docs/FLEET.md)
  git bisect run kiln compilers --cc ./cc --baseline good.json --opt O2 \\
      --variant default --max-regression 5 --bisect

See also:
  docs/COMPILERS.md")]
pub struct CompilersArgs {
    /// Compilers, by name or path; auto: every gcc, clang and zig on PATH
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
        default_value = "O1,O2,O3,Os",
        allow_hyphen_values = true
    )]
    opt: Vec<String>,
    /// Variants, which are sets of compiler flags; --help describes them
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "default,patched,ubsan,patched+ubsan",
        allow_hyphen_values = true
    )]
    variant: Vec<String>,
    /// Compiler flags that define an additional variant; may be given several times
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    cflags: Vec<String>,
    /// Targets: 64 (x86-64), 32 (i386, compiled with -m32)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "BITS,…",
        default_value = "64"
    )]
    abi: Vec<String>,
    /// What to compile: a name from --list, FILE.c, or FILE.c:FUNCTION:CONVENTION, where CONVENTION
    /// says how FUNCTION is called (docs/COMPILERS.md)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "aes-generic"
    )]
    subject: Vec<String>,
    /// Kernel tree: a directory or a git revision. --subject can then name files of this tree, such
    /// as crypto/aes_generic.c
    #[arg(long, value_name = "DIR|REV")]
    tree: Option<PathBuf>,
    /// Directories with headers for your own source files; may be given several times
    #[arg(long, value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Message length in bytes
    #[arg(long, value_name = "N", default_value_t = 4096)]
    len: usize,
    /// Total measuring time in seconds, for all cells together, not counting builds; with less
    /// time, the intervals of the results are wider [default: depends on the number of cells]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seconds: Option<f64>,
    /// Compare each cell of the table with the corresponding cell of this compiler, or of an
    /// earlier run. For an earlier run, give the JSON file that its --out wrote
    #[arg(long, value_name = "CC|RECORD.json")]
    baseline: Option<String>,
    /// Exit with status 1 if a cell is more than PCT per cent slower than its baseline. A cell
    /// counts as slower only if the whole interval of its measured slowdown is above PCT. Needs
    /// --baseline
    #[arg(long, value_name = "PCT", allow_negative_numbers = true)]
    max_regression: Option<f64>,
    /// For git bisect: exit with status 125 (skip this commit) if a cell cannot be compared with
    /// its baseline, for example because the cell cannot be built; needs --max-regression
    #[arg(long)]
    bisect: bool,
    /// Explain what makes the cell CC/LEVEL/SUBJECT/VARIANT slow or fast, by comparing it with
    /// similar cells
    #[arg(
        long,
        value_name = "CELL",
        conflicts_with = "reproduce",
        conflicts_with_all = WITHOUT_CELL
    )]
    explain: Option<String>,
    /// Write files for a compiler bug report about the cell CC/LEVEL/SUBJECT/VARIANT to the
    /// directory that --out names
    #[arg(long, value_name = "CELL", conflicts_with_all = WITHOUT_CELL)]
    reproduce: Option<String>,
    /// With --explain or --reproduce: the cell to compare with [default: the cell with variant
    /// 'default', if faster than the given cell; else a cell at another level]
    #[arg(long, value_name = "CELL")]
    against: Option<String>,
    /// With --explain: also print the disassembled hot code of both compared cells
    #[arg(long)]
    code: bool,
    /// Rebuild everything, even what is in the cache
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
    if args.code && args.explain.is_none() {
        return Err(Error::input(
            "--code works only with --explain: add --explain CELL",
        ));
    }
    if session.global.json && args.reproduce.is_some() {
        return Err(Error::input(
            "--json: a reproduction is a directory of files: leave --json out",
        ));
    }
    if let Some(dir) = args.include.iter().find(|dir| !dir.is_dir()) {
        return Err(Error::input(format!(
            "--include '{}': no such directory: name one that has headers",
            dir.display()
        )));
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
        if cell.contains(',') && !cell.contains("-f") {
            return Err(Error::input(format!(
                "'{cell}': name a single cell; --against names the one to compare it with"
            )));
        }
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
    // A shard may consist of absent cells only, such as the 32-bit cells of a 64-bit subject. A run
    // without shards may not.
    let whole = args.shard.shard.is_none();
    let fault = find_missing_results(&plan.subjects, &outcome, whole)
        .or_else(|| find_unrelated_record(plan.baseline.as_ref(), &outcome));
    drop(progress);
    outcome.interrupted = session.stopped();
    if outcome.interrupted {
        outcome.notes.push("interrupted".to_string());
    }
    emit(session, &outcome)?;
    if outcome.interrupted {
        return Ok(Exit::Interrupted);
    }
    if let Some(fault) = fault {
        return Err(fault);
    }
    Ok(match args.bisect && untried {
        true => Exit::Untried,
        false => outcome.exit(),
    })
}

/// Returns the name of a user's source file for which no compiler has a result. Usually, such a
/// file does not define the function, or was given with the wrong calling convention.
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

/// Returns an error if there is a user's source file for which no compiler has a result. If `whole`
/// is set, also returns an error if no cell at all has a result. The error gives the reason
/// recorded for the first such cell.
fn find_missing_results(
    subjects: &[Arc<Subject>],
    outcome: &Outcome<Row>,
    whole: bool,
) -> Option<Error> {
    let cells = || outcome.rows.iter().filter(|row| row.cc != "-");
    let file = untimed_file(subjects, &outcome.rows);
    let timed = cells().any(|row| row.cycles_per_byte.is_some());
    if file.is_none() && (timed || outcome.failed || !whole) {
        return None;
    }
    let first = cells().find(|row| file.is_none_or(|name| row.subject == name))?;
    let why = first.reason.as_deref().unwrap_or("the reason is unknown");
    // If a package is missing, the reason already names it.
    let missing = why.contains("apt-get install");
    let disturbed = first.status == Status::Absent && why.starts_with("not timed");
    let what = match file {
        Some(name) => format!("no compiler has a result for {name}"),
        None => format!("no cell has a result: {}", cell_name(first)),
    };
    let advice = match file {
        _ if missing || why.contains("name another function") => "",
        _ if disturbed => ": use more --seconds, or a quiet machine",
        Some(_) if is_missing_header(why) => ": name the header's directory with --include DIR",
        Some(_) => ": correct the file, or its function and convention in --subject",
        None => ": choose others with --cc, --variant, --cflags, --abi or --subject",
    };
    let line = format!("{what}: {why}{advice}");
    Some(match first.status {
        _ if missing || disturbed => Error::lacks(line),
        Status::Wrong | Status::Crashed | Status::Hung if file.is_none() => Error::Failed(line),
        _ => Error::input(line),
    })
}

/// Returns whether a compiler's error line says that a header does not exist. gcc and clang word it
/// differently.
fn is_missing_header(why: &str) -> bool {
    let ends = ["No such file or directory", "file not found"];
    why.contains("fatal error: ") && ends.iter().any(|end| why.ends_with(end))
}

/// Returns an error if the baseline is a record but none of the cells could be judged against it,
/// because the record and this run have no result in common.
fn find_unrelated_record(baseline: Option<&Baseline>, outcome: &Outcome<Row>) -> Option<Error> {
    let Some(Baseline::Record { name, rows: old }) = baseline else {
        return None;
    };
    let has_result = |row: &&Row| row.cc != "-" && row.cycles_per_byte.is_some();
    let judged = outcome.rows.iter().any(|row| row.ratio.is_some());
    if judged || outcome.failed || !outcome.rows.iter().any(|row| has_result(&row)) {
        return None;
    }
    let such = |rows: &[Row]| {
        let count = rows.iter().filter(has_result).count();
        let first = rows.iter().find(has_result);
        let first = first.map(|row| format!("{} of {} bytes", cell_name(row), row.len));
        match (count, first) {
            (_, None) => "no result".to_string(),
            (1, Some(first)) => format!("only the result for {first}"),
            (n, Some(first)) => format!("{n} results, such as for {first}"),
        }
    };
    Some(Error::input(format!(
        "nothing in common: '{name}' has {}, this run has {}: name a record of the same levels, variants, subjects and \
         --len, with one compiler or with the same ones",
        such(old),
        such(&outcome.rows)
    )))
}

/// Returns the name of a row's cell, as `--explain` accepts it.
fn cell_name(row: &Row) -> String {
    let narrow = match row.abi {
        Abi::Bits64 => "",
        Abi::Bits32 => "/32",
    };
    format!(
        "{}/{}/{}/{}{narrow}",
        row.cc, row.opt, row.subject, row.variant
    )
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
        if let Some(level) = flags.split_whitespace().find(|flag| flag.starts_with("-O")) {
            return Err(Error::input(format!(
                "--cflags '{flags}': {level} conflicts with the levels of --opt: set the level there"
            )));
        }
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
    for flags in &args.cflags {
        let refusals: Vec<String> = ccs.iter().map_while(|cc| cc.refusal(flags)).collect();
        if let (Some(first), true) = (refusals.first(), refusals.len() == ccs.len()) {
            return Err(Error::input(format!(
                "--cflags '{flags}': every compiler rejects it ({first}): correct the flags"
            )));
        }
    }
    if let Some(Baseline::Compiler(own)) = &baseline {
        let others = ccs.iter().any(|cc| cc.identity() != own.identity());
        if !others && variants.iter().all(|v| v.name() == DEFAULT) {
            return Err(Error::input(format!(
                "--baseline {}: the only cells are its own, so nothing is compared: add another compiler to --cc, or a \
                 --variant",
                own.name
            )));
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

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    fn outcome(rows: Vec<Row>) -> Outcome<Row> {
        Outcome {
            rows,
            ..Outcome::default()
        }
    }

    fn failed(why: &str) -> Row {
        Row {
            reason: Some(why.into()),
            ..row("gcc", "default", None)
        }
    }

    #[test]
    fn a_run_without_any_result_is_an_error_with_the_first_reason() {
        let fault = |rows: Vec<Row>, whole| find_missing_results(&[], &outcome(rows), whole);
        let flag = || failed("unrecognized option '-fno-such-flag'");
        let e = fault(vec![flag(), failed("other")], true).unwrap();
        assert_eq!(e.exit_code(), 2);
        assert!(
            e.to_string().contains("gcc/O2/s/default: unrecognized"),
            "{e}"
        );
        let e = fault(vec![failed("no -m32: apt-get install gcc-multilib")], true).unwrap();
        assert_eq!(e.exit_code(), 3);
        assert!(e.to_string().ends_with("gcc-multilib"), "{e}");
        let crashed = Row {
            status: Status::Crashed,
            ..failed("killed by signal 4")
        };
        assert_eq!(fault(vec![crashed], true).unwrap().exit_code(), 1);
        // Controls: a cell with a result, a shard, and a run without cells.
        let timed = row("gcc", "default", Some(1.0));
        assert_eq!(fault(vec![flag(), timed], true), None);
        assert_eq!(fault(vec![flag()], false), None);
        assert_eq!(fault(Vec::new(), true), None);
    }

    #[test]
    fn a_missing_header_is_told_from_another_error() {
        for why in [
            "a.c:1:10: fatal error: b.h: No such file or directory",
            "a.c:1:10: fatal error: 'b.h' file not found",
        ] {
            assert!(is_missing_header(why), "{why}");
        }
        assert!(!is_missing_header(
            "a.c:1:10: error: unknown type name 'u32'"
        ));
        assert!(!is_missing_header("objcopy: No such file or directory"));
    }

    #[test]
    fn a_record_by_which_no_cell_is_judged_is_an_error() {
        let record = |rows| Baseline::Record {
            name: "old.json".into(),
            rows,
        };
        let fault = |old, new| find_unrelated_record(Some(&record(old)), &outcome(new));
        let cell = |variant, figure| row("gcc", variant, figure);
        let new = || vec![cell("default", Some(1.0))];
        let e = fault(vec![cell("ubsan", Some(1.0))], new()).unwrap();
        assert_eq!(e.exit_code(), 2);
        for want in [
            "'old.json' has only the result for gcc/O2/s/ubsan of 4096 bytes",
            "this run has only the result for gcc/O2/s/default of 4096 bytes: name a record",
        ] {
            assert!(e.to_string().contains(want), "{e}");
        }
        let e = fault(vec![cell("default", None)], new()).unwrap();
        assert!(e.to_string().contains("'old.json' has no result, "), "{e}");
        // Controls: a judged cell, and a run without results.
        let judged = Row {
            ratio: Some(1.0),
            ..cell("default", Some(1.0))
        };
        assert_eq!(fault(new(), vec![judged]), None);
        assert_eq!(fault(new(), vec![cell("default", None)]), None);
        assert_eq!(find_unrelated_record(None, &outcome(new())), None);
    }
}
