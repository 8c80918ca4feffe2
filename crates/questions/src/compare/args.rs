//! The arguments of `kiln compare`, and the code that obtains the two sides.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use kiln_kbuild::Compiler;
use kiln_kernel::Tier;
use kiln_question::hosted::{Hosted, Measured};
use kiln_question::{
    print_error, read_facts, table, Error, Exit, Progress, Question, RowType, Session,
    TreeBuildArgs,
};
use kiln_tree::{is_revision, Config, Source};
use serde_json::Value;

use super::message::message;
use super::row::{compare, Gate, Row};
use super::side::{Origin, Side};
use super::turns::{turns, Turn};
use super::view;
use crate::speed::{self, SpeedArgs};

/// Number of turns per tree. With at least nine turns, a single disturbed turn does not affect the
/// verdict.
const TURNS: usize = 10;
/// Total duration of all turns in milliseconds with --quick. `USUAL_MS` is the duration without
/// --quick.
const QUICK_MS: u64 = 14_000;
const USUAL_MS: u64 = 600_000;

/// Which results of two runs or two kernel trees differ beyond the noise
///
/// For reviewers of a patch. A and B can be records: JSON files that --json printed or --out wrote,
/// for one command or for a survey. They can also be directories of records, or reports (HTML). A
/// result in A is compared with the result in B for the same algorithm, implementation, length and
/// so on.
///
/// A and B can also be kernel trees, or git revisions of a kernel tree, such as HEAD~1 (in the
/// current repository) or DIR@HEAD~1 (in the repository DIR). If a file or directory has the name
/// of a revision, it is used instead of the revision. Kiln builds and measures the trees. Two trees
/// are measured alternately, so that changes in the machine's state affect both.
///
/// The table has one row per result; the rows in which B is slowest relative to A come first. The
/// last line counts the rows in which B is faster, slower or equal, and the rows that cannot be
/// judged.
#[derive(Args)]
#[command(after_long_help = "\
Exit status:
  1 if a row of both A and B has a number in A but not in B
  1 with --max-regression, if B is more than PCT per cent slower in a row;
    the whole interval of the measured slowdown must be above PCT
  1 with --max-regression but without --allow-unjudged, if a row cannot be
    judged
  2 if A and B have no row in common (125 with --bisect)
  125 with --bisect, if A or B cannot be built or measured, if B cannot be
    read, or if B fails only because rows cannot be judged
  128 with --bisect, if A is a record that cannot be read (git bisect ends)
  A row cannot be judged if only A or only B has it, if A has no number in
  it, if the ratio of B to A has no interval, or if B is more than PCT per
  cent slower only in cycles or only in time.

Examples:
  kiln compare before.json after.json --max-regression 5
  kiln compare monday/survey.json friday/survey.json
  kiln compare ~/linux-a ~/linux-b --alg 'xts(aes)' --len 512,4096
  kiln compare HEAD~1 HEAD --alg sha256    two commits of the repository here
  kiln compare HEAD . --alg sha256 --format commit-message   uncommitted work
  git bisect run kiln compare good.json . --alg 'xts(aes)' \\
      --max-regression 5 --bisect

See also:
  docs/TREES.md")]
pub struct CompareArgs {
    /// Baseline: a JSON file that --json printed or --out wrote, a directory of such files, an HTML
    /// report, a kernel tree or a git revision
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Results or kernel tree to compare with A; accepts the same kinds of arguments as A
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Output format. The only value is commit-message: an indented table of at most 72 columns
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    /// Exit with status 1 if a result is more than PCT per cent slower in B, or cannot be judged. A
    /// result counts as slower only if the whole interval of its measured slowdown is above PCT
    #[arg(long, value_name = "PCT", allow_negative_numbers = true)]
    max_regression: Option<f64>,
    /// With --max-regression: do not fail because of rows that cannot be judged
    #[arg(long, requires = "max_regression")]
    allow_unjudged: bool,
    /// For git bisect: exit with status 125 if A or B cannot be built, measured or judged
    #[arg(long, requires = "max_regression")]
    bisect: bool,
    /// For trees: algorithms to measure [default: all]
    #[arg(long = "alg", value_delimiter = ';', value_name = "ALG;…")]
    algs: Vec<String>,
    /// For trees: implementations to measure, by driver name or symbol [default: all]
    #[arg(long = "impl", value_name = "NAME,…")]
    impls: Option<String>,
    /// For trees: operations to measure, as in 'kiln speed --op'
    #[arg(long, value_name = "OP,…")]
    op: Option<String>,
    /// For trees: message lengths in bytes, as in 'kiln speed --len'
    #[arg(long, value_name = "LIST")]
    len: Option<String>,
    /// For trees: key sizes to measure, in bits, as in 'kiln speed --key-bits'
    #[arg(long, value_name = "N,…")]
    key_bits: Option<String>,
    /// For trees: how to call ciphers (primitive, api or library) [default: all three]
    ///
    /// primitive: call the cipher's function directly. api: send requests to a driver through the
    /// crypto API. library: call a function that the tree's library exports, such as sha256().
    #[arg(long, value_name = "LEVEL")]
    level: Option<String>,
    #[command(flatten)]
    build: TreeBuildArgs,
}

/// The intended use of the comparison, which determines its format.
#[derive(Clone, Copy)]
enum Format {
    CommitMessage,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("commit-message")
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "commit-message" => Ok(Format::CommitMessage),
            _ => Err("only commit-message is known".to_string()),
        }
    }
}

/// The reason why the comparison cannot be made.
enum Stop {
    Fault(Error),
    Exit(Exit),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Fault(e)
    }
}

impl Question for CompareArgs {
    const NAME: &'static str = "compare";
    const TIMED: bool = true;

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(130)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if let Some(percent) = self.max_regression {
            if !(0.0..=10_000.0).contains(&percent) {
                return Err(Error::input(format!(
                    "--max-regression {percent}: use a percentage of 0 or more"
                )));
            }
        }
        if !(is_tree(&self.a) || is_tree(&self.b)) {
            self.check_for_records()?;
        }
        if self.bisect && !is_tree(&self.a) {
            // The baseline is the same for all commits, so skipping a commit does not help.
            if let Err(e) = record(&self.a) {
                print_error(&e);
                return Ok(Exit::Refused(ABORT));
            }
        }
        let (a, b, notes) = match sides(self, session) {
            Ok(sides) => sides,
            Err(Stop::Exit(Exit::Interrupted)) => return Ok(Exit::Interrupted),
            Err(stop) if self.bisect => {
                if let Stop::Fault(e) = stop {
                    print_error(&e);
                }
                return Ok(Exit::Untried);
            }
            Err(Stop::Fault(e)) => return Err(e),
            Err(Stop::Exit(exit)) => return Ok(exit),
        };
        let gate = Gate {
            max_regression: self.max_regression,
            allow_unjudged: self.allow_unjudged,
        };
        let mut found = match compare(&a, &b, gate) {
            Ok(found) => found,
            Err(_) if session.stopped() => return Ok(Exit::Interrupted),
            Err(e) if self.bisect => {
                print_error(&e);
                return Ok(Exit::Untried);
            }
            Err(e) => return Err(e),
        };
        found.notes.extend(notes);
        let counts = found.tally.to_string();
        let notes = [found.notes.clone(), vec![counts.clone()]].concat();
        let facts = read_facts();
        match self.format {
            Some(Format::CommitMessage) => {
                let in_turns = is_tree(&self.a) && is_tree(&self.b);
                let turns = in_turns.then_some(TURNS);
                let text = message(&a, &b, &found.rows, &found.tally, turns);
                session.emit_bare::<Self, _>(&facts, &found.rows, &notes, &text)?;
            }
            None => session.emit::<Self, _>(&facts, &found.rows, &notes, || {
                format!(
                    "A  {}\nB  {}\n{}\n{}\n{}{}\n",
                    a.name,
                    b.name,
                    view::units(&found.rows),
                    view::rows(&found.rows, false),
                    table::notes(&found.notes, session.seed),
                    table::paragraph(&counts)
                )
            })?,
        }
        Ok(match found.regressed {
            true => Exit::Failed,
            // A commit that could not be judged is neither good nor bad for git bisect.
            false if self.bisect && (found.unjudged || found.rows.is_empty()) => Exit::Untried,
            false => Exit::from_run(found.failed(), session.stopped()),
        })
    }
}

/// The exit status with which a command ends `git bisect run`.
const ABORT: u8 = 128;

impl CompareArgs {
    /// Rejects options that select what to measure, because records have been measured already.
    ///
    /// # Errors
    /// Fails with the option's name.
    fn check_for_records(&self) -> Result<(), Error> {
        // A side that does not exist may be meant as a git revision. The attempt to read it reports
        // what is wrong.
        if !self.a.exists() || !self.b.exists() {
            return Ok(());
        }
        let given = [
            ("--alg", !self.algs.is_empty()),
            ("--op", self.op.is_some()),
            ("--len", self.len.is_some()),
            ("--key-bits", self.key_bits.is_some()),
            ("--level", self.level.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Error::input(format!(
                "{flag} selects what to measure in kernel trees, and neither A nor B is a tree or a git revision: leave {flag} out"
            ))),
            None => Ok(()),
        }
    }
}

/// Returns whether the path names a tree: a git revision, or a directory that contains a Makefile
/// or no records. If such a directory is not a kernel tree, the attempt to open it later reports
/// the reason.
fn is_tree(path: &Path) -> bool {
    if !path.exists() {
        return is_revision(path);
    }
    let record = |e: fs::DirEntry| e.path().extension().is_some_and(|e| e == "json");
    path.is_dir()
        && (path.join("Makefile").exists()
            || !fs::read_dir(path).is_ok_and(|mut all| all.any(|e| e.is_ok_and(record))))
}

/// Reads the record of one side, or all records in a bundle, report or directory.
fn record(path: &Path) -> Result<Side, Error> {
    let name = path.display().to_string();
    if !path.exists() {
        return Err(Error::input(format!(
            "cannot read '{name}': no file, directory or git revision has this name: name a record, a kernel tree or a revision"
        )));
    }
    let found = kiln_report::Side::read(path).map_err(|e| Error::input(e.to_string()))?;
    match &kiln_report::gather(found)[..] {
        [one] => Side::from_records(&name, &one.records),
        several => Err(Error::input(format!(
            "'{name}' contains {} sides, but compare takes one: name their records",
            several.len()
        ))),
    }
}

/// Returns whether both paths lead to the same file or directory, or to files with equal contents.
fn same_file(a: &Path, b: &Path) -> bool {
    fs::canonicalize(a).is_ok_and(|a| fs::canonicalize(b).is_ok_and(|b| a == b))
        || fs::read(a).is_ok_and(|a| fs::read(b).is_ok_and(|b| a == b))
}

fn sides(args: &CompareArgs, session: &Session) -> Result<(Side, Side, Vec<String>), Stop> {
    match (is_tree(&args.a), is_tree(&args.b)) {
        (false, false) => {
            let sides = (record(&args.a)?, record(&args.b)?);
            let notes = same_file(&args.a, &args.b).then(|| {
                "A and B are the same record, so no difference can be found: name two records"
                    .into()
            });
            Ok((sides.0, sides.1, Vec::from_iter(notes)))
        }
        (true, true) => two_trees(args, session),
        (true, false) => {
            let b = record(&args.b)?;
            let (a, notes) = one_tree(args, &args.a, session)?;
            Ok((a, b, notes))
        }
        (false, true) => {
            let a = record(&args.a)?;
            let (b, notes) = one_tree(args, &args.b, session)?;
            Ok((a, b, notes))
        }
    }
}

/// Measures a tree that is compared with a record. The tree is measured once, as `speed` would
/// measure it.
fn one_tree(
    args: &CompareArgs,
    dir: &Path,
    session: &Session,
) -> Result<(Side, Vec<String>), Stop> {
    let tree = Tree::resolve(args, dir)?;
    let about = tree.about(args, session);
    let hosted = tree.build(args, session)?;
    let measured = measure(
        &hosted,
        args,
        dir,
        session,
        &["--peers".into(), "auto".into()],
    )?;
    let mut side = Side::from_speed(&name(dir, &hosted), &measured.rows);
    (side.title, side.origin) = about;
    // Record the conditions here, because the other side's record may come from another machine.
    let facts = read_facts();
    let record = session.record::<SpeedArgs, speed::Row>(&facts, &[], &[]);
    let mut record: Value = serde_json::from_str(&record.to_json()).expect("what was just written");
    // Remove the session's arguments, because they are the arguments of `compare` and do not
    // describe the measurement.
    record["args"] = Value::Null;
    side.measured_under(&record);
    Ok((side, measured.notes))
}

fn two_trees(args: &CompareArgs, session: &Session) -> Result<(Side, Side, Vec<String>), Stop> {
    // Build the first tree before the second one is resolved. If the second is a revision, its
    // build can then start from a copy of the first build.
    let tree = Tree::resolve(args, &args.a)?;
    let (of_a, dir) = (tree.about(args, session), tree.what.0.dir.clone());
    let a = tree.build(args, session)?;
    let tree = Tree::resolve(args, &args.b)?;
    let of_b = tree.about(args, session);
    // Comparing a tree with itself serves as a control. In this case, the tree is built only once.
    let b = match tree.what.0.dir == dir {
        true => None,
        false => Some(tree.build(args, session)?),
    };
    let same = b.is_none();
    let b = b.as_ref().unwrap_or(&a);
    let total = if session.global.quick {
        QUICK_MS
    } else {
        USUAL_MS
    };
    let turn = (total / (2 * TURNS as u64)).to_string();
    let progress = Progress::start();
    let mut notes: Vec<String> = Vec::new();
    let mut done = 0;
    let mut exit = None;
    let measured = turns(TURNS, &|| session.stopped(), &mut |turn_of, round| {
        progress.report(done as f64 / (2 * TURNS) as f64, "turns");
        done += 1;
        let (hosted, dir) = match turn_of {
            Turn::A => (&a, &args.a),
            Turn::B => (b, &args.b),
        };
        let more = ["--peers", "none", "--turn-ms", &turn].map(OsString::from);
        match measure(hosted, args, dir, session, &more) {
            Ok(measured) => {
                // Keep only the notes from the first turn, because every turn would produce the
                // same notes.
                if round == 0 {
                    notes.extend(
                        measured
                            .notes
                            .iter()
                            .filter(|n| !n.starts_with('±'))
                            .cloned(),
                    );
                }
                Ok(Side::from_speed(&name(dir, hosted), &measured.rows))
            }
            Err(Stop::Fault(e)) => Err(e),
            Err(Stop::Exit(why)) => {
                exit = Some(why);
                Err(Error::Failed("the child has told why".to_string()))
            }
        }
    });
    drop(progress);
    match (measured, exit) {
        (_, Some(exit)) => Err(Stop::Exit(exit)),
        (measured, None) => {
            let (mut a, mut b) = measured?;
            (a.title, a.origin) = of_a;
            (b.title, b.origin) = of_b;
            notes.extend(same.then(|| {
                "A and B have the same files, as far as they are built here: this is a control"
                    .to_string()
            }));
            notes.push(format!(
                "{TURNS} turns of each tree in alternation; a and b: the best of them; the interval: of the turns' ratios"
            ));
            let mut said = std::collections::HashSet::new();
            notes.retain(|note| said.insert(note.clone()));
            Ok((a, b, notes))
        }
    }
}

fn name(dir: &Path, hosted: &Hosted) -> String {
    format!("{} ({})", dir.display(), hosted.title)
}

/// A tree, and the compiler and configuration with which it is built.
struct Tree<'a> {
    name: &'a Path,
    what: (Source, Compiler, Config),
}

impl Tree<'_> {
    fn resolve<'a>(args: &CompareArgs, name: &'a Path) -> Result<Tree<'a>, Error> {
        let what = args.build.resolve(name)?;
        Ok(Tree { name, what })
    }

    /// Returns the tree's name and measurement conditions for a commit message. Both are empty
    /// unless a format was requested, because git takes a second to check a work tree for changes.
    fn about(&self, args: &CompareArgs, session: &Session) -> (String, Origin) {
        let (source, compiler, config) = &self.what;
        if args.format.is_none() {
            return Default::default();
        }
        let facts = read_facts();
        let record = session.record::<CompareArgs, Row>(&facts, &[], &[]);
        let mut origin = Origin::default();
        origin.add(&record.to_value());
        if Tier::masked() {
            let tiers = facts.tiers.join(", ");
            let restrict = |cpu: String| format!("{cpu}, restricted to the tiers {tiers}");
            origin.cpu = origin.cpu.into_iter().map(restrict).collect();
        }
        let compiler = compiler.to_string();
        let config = match config.base {
            None => "x86_64_defconfig, mitigations off",
            Some(_) => &config.name,
        };
        let build = format!("{}, {config}", table::compiler(&compiler));
        origin.compiler.insert(build);
        let title = format!("{}, {}", self.name.display(), source.title_by_git());
        (title, origin)
    }

    fn build(self, args: &CompareArgs, session: &Session) -> Result<Hosted, Stop> {
        let hosted = Hosted::build(self.what, session)?;
        let hosted = hosted.ok_or(Stop::Exit(Exit::Interrupted))?;
        match hosted.failures.first() {
            // If an object of a commit does not compile, a bisection must not judge the commit as
            // slow or fast.
            Some(why) if args.bisect => {
                Err(Error::input(format!("{}: {why}", self.name.display())).into())
            }
            _ => Ok(hosted),
        }
    }
}

/// Runs a child process that measures the tree.
fn measure(
    hosted: &Hosted,
    args: &CompareArgs,
    dir: &Path,
    session: &Session,
    more: &[OsString],
) -> Result<Measured<speed::Row>, Stop> {
    let mut words: Vec<OsString> = vec!["speed".into()];
    words.extend(args.algs.iter().map(OsString::from));
    words.extend(["--tree".into(), dir.as_os_str().to_owned()]);
    let flags = [
        ("--impl", &args.impls),
        ("--op", &args.op),
        ("--len", &args.len),
        ("--key-bits", &args.key_bits),
        ("--level", &args.level),
        ("--cpu", &session.global.cpu),
    ];
    for (flag, value) in flags {
        if let Some(value) = value {
            words.extend([flag.into(), value.into()]);
        }
    }
    if session.global.quick {
        words.push("--quick".into());
    }
    words.extend(more.iter().cloned());
    hosted.measure("", &words, session)?.map_err(Stop::Exit)
}
